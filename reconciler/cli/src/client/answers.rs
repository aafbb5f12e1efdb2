//! Answers of the API, as far as the text on the screen needs them. `--format json` passes the whole answer on.

use std::collections::BTreeMap;

use drydock_plan::{
    Assignment, CommitRef, HealthFault, NodeCounts, NodeId, NodeQuarantine, Reason, ReleaseId, RolloutId,
    RolloutKind, RolloutRecord, RolloutState, Soak, Target, Visit, Wait, WaveState,
};
use drydock_server::desired::SourceProblem;
use drydock_spec::{PoolName, ReleaseVector, WaveName};
use jiff::Timestamp;
use serde::Deserialize;

/// A list.
#[derive(Debug, Deserialize)]
pub(crate) struct List<T> {
    /// The instant it is true for.
    pub(crate) at: Timestamp,
    /// Its rows.
    pub(crate) items: Vec<T>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

/// The fleet as a whole.
#[derive(Debug, Deserialize)]
pub(crate) struct Fleet {
    pub(crate) clock: Clock,
    pub(crate) source: Source,
    pub(crate) fleet: Option<FleetView>,
    pub(crate) trouble: Option<String>,
    pub(crate) violations: Vec<String>,
}

/// The fleet's clock.
#[derive(Debug, Deserialize)]
pub(crate) struct Clock {
    pub(crate) at: Timestamp,
    /// The wall clock at that instant.
    pub(crate) wall: Timestamp,
    pub(crate) speed: Option<f64>,
}

/// The repository.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    pub(crate) problem: Option<SourceProblem>,
    pub(crate) problem_text: Option<String>,
    pub(crate) answered_at: Option<Timestamp>,
    pub(crate) hint: Option<String>,
}

/// Sums over the fleet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetView {
    pub(crate) name: String,
    pub(crate) commit: CommitRef,
    pub(crate) sync: String,
    pub(crate) health: String,
    pub(crate) clusters_not_fresh: u32,
    pub(crate) clusters: u32,
    pub(crate) pools: u32,
    pub(crate) counts: Counts,
}

/// Counts of nodes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    /// Absent where the server is older.
    #[serde(default)]
    pub(crate) gpus_advertised: Option<u32>,
    pub(crate) gpus_in_service: u32,
    pub(crate) sync: BTreeMap<String, u32>,
    pub(crate) steps: BTreeMap<String, u32>,
}

/// A pool.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pool {
    pub(crate) name: PoolName,
    pub(crate) cluster: String,
    pub(crate) model: String,
    pub(crate) sync: String,
    pub(crate) health: String,
    pub(crate) freshness: String,
    pub(crate) counts: Counts,
}

/// A cluster.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) freshness: String,
    pub(crate) seen_at: Option<Timestamp>,
    pub(crate) error: Option<String>,
}

/// A rollout as a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    pub(crate) id: RolloutId,
    pub(crate) kind: RolloutKind,
    pub(crate) state: String,
    pub(crate) state_detail: RolloutState,
    pub(crate) commit: CommitRef,
    pub(crate) created: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) waves: Vec<Wave>,
    pub(crate) waits: Vec<Reason>,
    #[serde(default)]
    pub(crate) pauses: Vec<drydock_plan::PauseReason>,
    pub(crate) child: Option<RolloutId>,
    pub(crate) superseded_by: Option<RolloutId>,
}

/// A wave of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wave {
    pub(crate) name: WaveName,
    pub(crate) state: WaveState,
    pub(crate) batch: u32,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) counts: Option<NodeCounts>,
    pub(crate) waits: Vec<Wait>,
}

/// Everything about a rollout.
#[derive(Debug, Deserialize)]
pub(crate) struct RolloutDetail {
    #[serde(flatten)]
    pub(crate) row: Rollout,
    pub(crate) record: RolloutRecord,
}

/// Everything about a node.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) at: Timestamp,
    pub(crate) id: NodeId,
    pub(crate) pool: Option<PoolName>,
    pub(crate) sync: String,
    pub(crate) health: String,
    pub(crate) freshness: String,
    pub(crate) running: Option<ReleaseId>,
    pub(crate) wanted: Option<Target>,
    pub(crate) rollout: Option<RolloutId>,
    pub(crate) schedulable: bool,
    pub(crate) running_vector: Option<ReleaseVector>,
    pub(crate) wanted_vector: Option<ReleaseVector>,
    pub(crate) health_faults: Vec<HealthFault>,
    pub(crate) assignment: Option<Assignment>,
    pub(crate) visit: Option<Visit>,
    pub(crate) soak: Option<Soak>,
    pub(crate) quarantine: Option<NodeQuarantine>,
    pub(crate) why: Option<Why>,
}

/// Why it is where it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Why {
    #[serde(default)]
    pub(crate) violations: Vec<String>,
    pub(crate) synced: bool,
    pub(crate) waits_for: Vec<Reason>,
    pub(crate) judged_at: Timestamp,
    pub(crate) facts_at: Option<Timestamp>,
}
