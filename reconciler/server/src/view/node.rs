//! One node on the screens.

use drydock_plan::{
    Assignment, Cordon, Course, HealthFault, LayoutId, NodeId, NodeQuarantine, NodeRecord, ObservedNode,
    ReleaseId, ReleaseVector, RolloutId, Soak, Target, Visit,
};
use drydock_planner::PoolTarget;
use drydock_spec::PoolName;
use jiff::Timestamp;
use serde::Serialize;

use super::{Facts, Freshness, Health, Sync};

/// A node as a row of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// `cluster/node`.
    pub id: NodeId,
    /// Its cluster.
    pub cluster: String,
    /// Its name there.
    pub name: String,
    /// Its pool; absent when none claims it.
    pub pool: Option<PoolName>,
    /// Does what runs equal what Git says?
    pub sync: Sync,
    /// Is it well?
    pub health: Health,
    /// How old is what is known?
    pub freshness: Freshness,
    /// GPUs it advertises.
    pub gpus: u32,
    /// GPUs it should have: while its driver is away it advertises none.
    pub gpus_expected: u32,
    /// What runs; absent when the node isn't there.
    pub running: Option<ReleaseId>,
    /// How its GPUs are cut.
    pub layout: Option<LayoutId>,
    /// What Git says should run.
    pub wanted: Option<Target>,
    /// Where it is: a step's word, `soaking`, `quarantined` or `idle`.
    pub step: &'static str,
    /// Since when.
    pub step_since: Option<Timestamp>,
    /// When patience with the step ends.
    pub deadline: Option<Timestamp>,
    /// The rollout it has a part in.
    pub rollout: Option<RolloutId>,
    /// Index of its wave there.
    pub wave: Option<u16>,
    /// It takes new pods.
    pub schedulable: bool,
    /// Faults that are present.
    pub faults: u32,
}

/// Everything about a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetail {
    /// The row.
    #[serde(flatten)]
    pub row: NodeRow,
    /// Version of each component that runs.
    pub running_vector: Option<ReleaseVector>,
    /// Version of each component that should run.
    pub wanted_vector: Option<ReleaseVector>,
    /// Who keeps new pods away.
    pub cordon: Cordon,
    /// Ready, and since when.
    pub ready: Option<(bool, Timestamp)>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Pods that hold GPUs.
    pub gpu_pods: u32,
    /// Faults that are present.
    pub health_faults: Vec<HealthFault>,
    /// Its part in a rollout.
    pub assignment: Option<Assignment>,
    /// Its reservation.
    pub visit: Option<Visit>,
    /// It is watched after a change.
    pub soak: Option<Soak>,
    /// It is kept away.
    pub quarantine: Option<NodeQuarantine>,
    /// The last target on which it stayed good.
    pub last_known_good: Option<Target>,
    /// How often it failed by itself.
    pub incidents: u32,
    /// Labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// Where a node is, as a word: a step, `soaking`, `quarantined` or `idle`.
#[must_use]
pub fn step_word(record: Option<&NodeRecord>) -> &'static str {
    match record {
        Some(NodeRecord { visit: Some(visit), .. }) => visit.step.word(),
        Some(NodeRecord { quarantine: Some(_), .. }) => "quarantined",
        Some(NodeRecord { soak: Some(_), .. }) => "soaking",
        Some(_) | None => "idle",
    }
}

/// All words that [`step_word`] gives, in the order of a visit.
pub const STEP_WORDS: [&str; 11] = [
    "idle",
    "preflight",
    "cordon",
    "checkpoint",
    "drain",
    "apply",
    "verify",
    "fence",
    "return",
    "soaking",
    "quarantined",
];

/// Sync of a node whose facts are fresh.
fn sync_of(observed: &ObservedNode, record: Option<&NodeRecord>, wanted: Option<&PoolTarget>) -> Sync {
    let Some(PoolTarget { target, .. }) = wanted else { return Sync::Unknown };
    let layout_fits = target.layout.is_none() || observed.layout == target.layout;
    if observed.running.id == target.release && layout_fits {
        return Sync::Synced;
    }
    // It ran what Git says and nobody of drydock has touched it since: somebody else has.
    let was_there = record.is_some_and(|record| {
        record.last_known_good.as_ref() == Some(target)
            && record.visit.is_none()
            && record.assignment.is_none()
    });
    if was_there { Sync::Drifted } else { Sync::OutOfSync }
}

/// Health of a node whose facts are fresh.
fn health_of(observed: &ObservedNode, record: Option<&NodeRecord>, gpus_expected: u32) -> Health {
    let visit = record.and_then(|record| record.visit.as_ref());
    if let Some(Visit { course, lost_since, .. }) = visit {
        return match (course, lost_since) {
            (Course::Back, _) | (_, Some(_)) => Health::Degraded,
            (Course::Forward | Course::Out(_), None) => Health::Progressing,
        };
    }
    let quarantined = record.is_some_and(|record| record.quarantine.is_some());
    if quarantined || !observed.ready || !observed.faults.is_empty() || observed.gpus < gpus_expected {
        return Health::Degraded;
    }
    if observed.cordon.foreign.is_some() {
        return Health::Suspended;
    }
    if record.is_some_and(|record| record.soak.is_some()) { Health::Progressing } else { Health::Healthy }
}

impl Facts {
    /// The row of a node; `None` when neither the clusters nor the ledger know it.
    #[must_use]
    pub fn node_row(&self, id: &NodeId) -> Option<NodeRow> {
        let observed = self.inventory.nodes.get(id);
        let record = self.ledger.nodes.get(id);
        if observed.is_none() && record.is_none() {
            return None;
        }
        let assignment = record.and_then(|record| record.assignment.as_ref());
        let pool = observed
            .and_then(|node| node.pool.clone())
            .or_else(|| assignment.map(|assignment| assignment.pool.clone()));
        let wanted = pool.as_ref().and_then(|pool| self.targets.get(pool));
        let freshness = self.freshness(id.cluster());
        let (sync, health) = match (observed, freshness) {
            (Some(node), Freshness::Fresh) => {
                let expected =
                    pool.as_ref().and_then(|pool| self.fleet.pools.get(pool)).map_or(0, |p| p.gpu.count);
                (sync_of(node, record, wanted), health_of(node, record, expected))
            }
            (None, Freshness::Fresh) => (Sync::Unknown, Health::Missing),
            (_, Freshness::Stale | Freshness::Unreachable) => (Sync::Unknown, Health::Unknown),
        };
        let documented = pool.as_ref().and_then(|pool| self.fleet.pools.get(pool)).map(|p| p.gpu.count);
        let remembered = record.and_then(|record| record.place.as_ref()).map_or(0, |place| place.gpus);
        let gpus_expected =
            documented.unwrap_or_else(|| observed.map_or(0, |node| node.gpus).max(remembered));
        let visit = record.and_then(|record| record.visit.as_ref());
        let soak = record.and_then(|record| record.soak.as_ref());
        let quarantine = record.and_then(|record| record.quarantine.as_ref());
        let rollout = visit
            .map(|visit| &visit.rollout)
            .or_else(|| assignment.map(|assignment| &assignment.rollout))
            .or_else(|| soak.map(|soak| &soak.rollout));
        Some(NodeRow {
            id: id.clone(),
            cluster: id.cluster().to_owned(),
            name: id.node().to_owned(),
            sync,
            health,
            freshness,
            gpus: observed.map_or(0, |node| node.gpus),
            gpus_expected,
            running: observed.map(|node| node.running.id.clone()),
            layout: observed.and_then(|node| node.layout.clone()),
            wanted: wanted.map(|wanted| wanted.target.clone()),
            step: step_word(record),
            step_since: visit
                .map(|visit| visit.step_since)
                .or_else(|| quarantine.map(|quarantine| quarantine.since))
                .or_else(|| soak.map(|soak| soak.since)),
            deadline: visit.map(|visit| visit.deadline),
            rollout: rollout.cloned(),
            wave: assignment.map(|assignment| assignment.wave),
            schedulable: observed
                .is_some_and(|node| node.ready && node.cordon.own.is_none() && node.cordon.foreign.is_none()),
            faults: observed.map_or(0, |node| u32::try_from(node.faults.len()).unwrap_or(u32::MAX)),
            pool,
        })
    }

    /// Everything about a node.
    #[must_use]
    pub fn node_detail(&self, id: &NodeId) -> Option<NodeDetail> {
        let row = self.node_row(id)?;
        let observed = self.inventory.nodes.get(id);
        let record = self.ledger.nodes.get(id).cloned().unwrap_or_default();
        let wanted = row.pool.as_ref().and_then(|pool| self.targets.get(pool));
        Some(NodeDetail {
            running_vector: observed.map(|node| node.running.vector.clone()),
            wanted_vector: wanted.map(|wanted| wanted.vector.clone()),
            cordon: observed.map(|node| node.cordon.clone()).unwrap_or_default(),
            ready: observed.map(|node| (node.ready, node.ready_since)),
            kernel: observed.map(|node| node.kernel.to_string()),
            gpu_pods: observed.map_or(0, |node| node.work.gpu_pods),
            health_faults: observed.map(|node| node.faults.clone()).unwrap_or_default(),
            labels: observed.map(|node| node.labels.clone()).unwrap_or_default(),
            assignment: record.assignment,
            visit: record.visit,
            soak: record.soak,
            quarantine: record.quarantine,
            last_known_good: record.last_known_good,
            incidents: record.incidents,
            row,
        })
    }

    /// Nodes that the clusters or the ledger know, in the order of ids.
    pub fn node_ids(&self) -> impl Iterator<Item = &NodeId> {
        merge(self.inventory.nodes.keys(), self.ledger.nodes.keys())
    }
}

/// Two sorted sequences as one, each value once.
fn merge<'a>(
    one: impl Iterator<Item = &'a NodeId>,
    other: impl Iterator<Item = &'a NodeId>,
) -> impl Iterator<Item = &'a NodeId> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek().copied(), other.peek().copied()) {
        (Some(a), Some(b)) if b < a => other.next(),
        (Some(a), Some(b)) => {
            if a == b {
                other.next();
            }
            one.next()
        }
        (Some(_), None) => one.next(),
        (None, _) => other.next(),
    })
}
