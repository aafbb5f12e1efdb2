//! What a pass looks at, joined once: nodes with their records, pools with their targets.

use std::{collections::BTreeMap, sync::LazyLock};

use drydock_plan::{NodeId, NodeRecord, ObservedNode};
use drydock_spec::PoolName;
use jiff::Timestamp;

use crate::{
    Input,
    desired::{PoolView, pool_views},
};

/// A cluster that can't tell anything newer than this isn't acted on. Three missed watch heartbeats of a minute, and
/// some slack: long enough not to flap, short against the minutes a drain takes.
const STALE_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_secs(300);

static UNTOUCHED: LazyLock<NodeRecord> = LazyLock::new(NodeRecord::default);

/// Nodes and pools of a pass.
pub(crate) struct Frame<'a> {
    pub pools: Vec<PoolView<'a>>,
    pub pool_index: BTreeMap<&'a PoolName, usize>,
    pub clusters: Vec<ClusterView<'a>>,
    /// In the order of ids.
    pub nodes: Vec<NodeView<'a>>,
    /// Records whose node isn't in the inventory.
    pub absent: Vec<(&'a NodeId, &'a NodeRecord)>,
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
}

impl<'a> Frame<'a> {
    pub(crate) fn new(input: &Input<'a>) -> Self {
        let pools = pool_views(input.fleet);
        let pool_index: BTreeMap<&PoolName, usize> =
            pools.iter().enumerate().map(|(i, p)| (p.name, i)).collect();
        let stale = |seen: Timestamp, error: &Option<String>| match error {
            Some(error) => Some((seen, error.clone())),
            None if input.now.duration_since(seen) > STALE_AFTER => {
                Some((seen, "no news from it".to_owned()))
            }
            None => None,
        };
        let mut clusters: Vec<ClusterView<'a>> = input
            .inventory
            .clusters
            .iter()
            .map(|(name, c)| ClusterView { name: name.as_str(), stale: stale(c.seen_at, &c.error) })
            .collect();
        let mut nodes = Vec::with_capacity(input.inventory.nodes.len());
        let mut absent = Vec::new();
        let mut records = input.ledger.nodes.iter();
        let mut next = records.next();
        let mut pool_hint = 0;
        let mut cluster_hint = 0;
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
                absent.push((other, record));
            }
            // Neighbours mostly share cluster and pool, so the last answer is tried first.
            if clusters.get(cluster_hint).is_none_or(|c| c.name != id.cluster()) {
                cluster_hint = clusters.iter().position(|c| c.name == id.cluster()).unwrap_or_else(|| {
                    clusters.push(ClusterView {
                        name: id.cluster(),
                        stale: Some((Timestamp::UNIX_EPOCH, "never seen".to_owned())),
                    });
                    clusters.len() - 1
                });
            }
            let pool = obs.pool.as_ref().and_then(|name| {
                if pools.get(pool_hint).is_none_or(|p| p.name != name) {
                    pool_hint = *pool_index.get(name)?;
                }
                Some(pool_hint)
            });
            let gpus = pool.and_then(|p| pools.get(p)).map_or(obs.gpus, |p| p.spec.gpu.count);
            nodes.push(NodeView { id, obs, rec, pool, cluster: cluster_hint, gpus });
        }
        absent.extend(next.into_iter().chain(records));
        Self { pools, pool_index, clusters, nodes, absent }
    }

    pub(crate) fn find(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|n| n.id.cmp(id)).ok()
    }

    /// Why the facts about a node can't be acted on.
    pub(crate) fn stale(&self, i: usize) -> Option<&(Timestamp, String)> {
        self.clusters.get(self.nodes.get(i)?.cluster)?.stale.as_ref()
    }
}
