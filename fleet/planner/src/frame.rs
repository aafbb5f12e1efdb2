//! What a pass looks at, joined once: nodes with their records, pools with their targets.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use drydock_plan::{Cordon, NodeId, NodeRecord, ObservedCluster, ObservedNode, Stack, Work};
use drydock_spec::{PoolName, ReleaseVector};
use jiff::Timestamp;

use crate::{
    Input,
    desired::{PoolView, pool_views},
    gone::Roll,
};

/// A cluster that can't tell anything newer than this isn't acted on. Three missed watch heartbeats of a minute, and
/// some slack: long enough not to flap, short against the minutes a drain takes.
const STALE_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_secs(300);

static UNTOUCHED: LazyLock<NodeRecord> = LazyLock::new(NodeRecord::default);

/// What is known of a node that isn't seen: nothing. It isn't ready, so it counts as away; its cluster is stale, so
/// nothing is judged by it or asked of it.
static UNSEEN: LazyLock<ObservedNode> = LazyLock::new(|| ObservedNode {
    uid: Arc::from(""),
    pool: None,
    contested: Vec::new(),
    labels: BTreeMap::new(),
    domains: [None, None, None, None],
    gpus: 0,
    kernel: Arc::from(""),
    boot_id: 0,
    ready: false,
    ready_since: Timestamp::UNIX_EPOCH,
    cordon: Cordon::default(),
    running: Arc::new(Stack::new(ReleaseVector(BTreeMap::new()))),
    layout: None,
    work: Work::default(),
    faults: Vec::new(),
    report: None,
});

/// Nodes and pools of a pass.
pub(crate) struct Frame<'a> {
    pub pools: Vec<PoolView<'a>>,
    pub pool_index: BTreeMap<&'a PoolName, usize>,
    pub clusters: Vec<ClusterView<'a>>,
    /// Nodes that are seen, and those that have a record and aren't known to be gone, in the order of ids.
    pub nodes: Vec<NodeView<'a>>,
    /// Records whose node is gone.
    pub gone: Vec<(&'a NodeId, &'a NodeRecord)>,
}

pub(crate) struct ClusterView<'a> {
    pub name: &'a str,
    /// Why its facts can't be acted on.
    pub stale: Option<(Timestamp, String)>,
}

#[derive(Clone, Copy)]
pub(crate) struct NodeView<'a> {
    pub id: &'a NodeId,
    pub obs: &'a ObservedNode,
    /// As the ledger had it when the pass began.
    pub rec: &'a NodeRecord,
    pub pool: Option<usize>,
    pub cluster: usize,
    /// GPUs it should have: what it weighs in budgets counted in GPUs.
    pub gpus: u32,
    /// It is in the inventory.
    pub seen: bool,
    /// Two pools want it, and the ledger gives it to none of them: no pool moves it.
    pub contested: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(input: &Input<'a>) -> Self {
        let pools = pool_views(input.fleet);
        let pool_index: BTreeMap<&PoolName, usize> =
            pools.iter().enumerate().map(|(i, p)| (p.name, i)).collect();
        let roll = Roll::new(input.fleet, input.inventory);
        let mut frame = Self {
            pools,
            pool_index,
            clusters: Vec::new(),
            nodes: Vec::with_capacity(input.inventory.nodes.len()),
            gone: Vec::new(),
        };
        frame.clusters.extend(
            input
                .inventory
                .clusters
                .iter()
                .map(|(name, c)| ClusterView { name: name.as_str(), stale: stale_since(c, input.now) }),
        );
        let answers = |c: &ObservedCluster| stale_since(c, input.now).is_none();
        let mut records = input.ledger.nodes.iter();
        let mut next = records.next();
        for (id, obs) in &input.inventory.nodes {
            let mut rec = &*UNTOUCHED;
            // Both maps are sorted alike, so they are walked side by side, with one comparison for each step.
            while let Some((other, record)) = next {
                let order = other.cmp(id);
                if order.is_gt() {
                    break;
                }
                next = records.next();
                if order.is_eq() {
                    rec = record;
                    break;
                }
                frame.take_unseen(&roll, input, other, record, answers);
            }
            frame.take_seen(id, obs, rec);
        }
        for (id, record) in next.into_iter().chain(records) {
            frame.take_unseen(&roll, input, id, record, answers);
        }
        frame
    }

    fn take_seen(&mut self, id: &'a NodeId, obs: &'a ObservedNode, rec: &'a NodeRecord) {
        let owner = if obs.contested.is_empty() { None } else { owner(rec) };
        let owned = owner.filter(|pool| obs.contested.contains(pool));
        let contested = !obs.contested.is_empty() && owned.is_none();
        let pool = owned.or(obs.pool.as_ref()).and_then(|name| self.pool_at(name));
        self.push(NodeView { id, obs, rec, pool, cluster: 0, gpus: 0, seen: true, contested });
    }

    fn take_unseen(
        &mut self,
        roll: &Roll<'a>,
        input: &Input<'a>,
        id: &'a NodeId,
        rec: &'a NodeRecord,
        answers: impl Fn(&ObservedCluster) -> bool,
    ) {
        if roll.is_gone(id, answers) {
            self.gone.push((id, rec));
            return;
        }
        let pool = owner(rec).and_then(|name| self.pool_at(name));
        self.push(NodeView {
            id,
            obs: &UNSEEN,
            rec,
            pool,
            cluster: 0,
            gpus: 0,
            seen: false,
            contested: false,
        });
        let at = self.nodes.last().map_or(0, |n| n.cluster);
        let found = input.inventory.clusters.iter().find(|(name, _)| name.as_str() == id.cluster());
        if let (Some(view), Some((name, cluster))) = (self.clusters.get_mut(at), found)
            && view.stale.is_none()
            && roll.is_suspiciously_empty(name.as_str(), cluster)
        {
            let text = "it answers and lists no nodes with GPUs, which is taken for an error".to_owned();
            view.stale = Some((cluster.seen_at, text));
        }
    }

    fn push(&mut self, mut node: NodeView<'a>) {
        // Neighbours mostly share their cluster, so the last answer is tried first.
        let hint = self.nodes.last().map_or(0, |n| n.cluster);
        let name = node.id.cluster();
        node.cluster = if self.clusters.get(hint).is_some_and(|c| c.name == name) {
            hint
        } else {
            self.clusters.iter().position(|c| c.name == name).unwrap_or_else(|| {
                let stale = Some((Timestamp::UNIX_EPOCH, "never seen".to_owned()));
                self.clusters.push(ClusterView { name, stale });
                self.clusters.len() - 1
            })
        };
        let part = || node.rec.assignment.as_ref().and_then(|a| self.pool_at(&a.pool));
        let documented = node.pool.or_else(part).and_then(|p| self.pools.get(p)).map(|p| p.spec.gpu.count);
        let remembered = || node.rec.place.as_ref().map_or(0, |place| place.gpus);
        node.gpus = documented.unwrap_or_else(|| node.obs.gpus.max(remembered()));
        self.nodes.push(node);
    }

    fn pool_at(&self, name: &PoolName) -> Option<usize> {
        // Neighbours mostly share their pool, so the last answer is tried first.
        let hint = self.nodes.last().and_then(|n| n.pool);
        hint.filter(|p| self.pools.get(*p).is_some_and(|p| p.name == name))
            .or_else(|| self.pool_index.get(name).copied())
    }

    pub(crate) fn find(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|n| n.id.cmp(id)).ok()
    }

    /// Why the facts about a node can't be acted on.
    pub(crate) fn stale(&self, i: usize) -> Option<&(Timestamp, String)> {
        self.clusters.get(self.nodes.get(i)?.cluster)?.stale.as_ref()
    }
}

/// The pool that the ledger has a node in.
fn owner(rec: &NodeRecord) -> Option<&PoolName> {
    let part = rec.assignment.as_ref().map(|a| &a.pool);
    part.or_else(|| rec.place.as_ref()?.pool.as_ref())
}

fn stale_since(cluster: &ObservedCluster, now: Timestamp) -> Option<(Timestamp, String)> {
    match &cluster.error {
        Some(error) => Some((cluster.seen_at, error.clone())),
        None if now.duration_since(cluster.seen_at) > STALE_AFTER => {
            Some((cluster.seen_at, "no news from it".to_owned()))
        }
        None => None,
    }
}
