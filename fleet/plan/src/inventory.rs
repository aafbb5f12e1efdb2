//! What was observed. Facts only, each with its age; nothing here is intent.

use std::{collections::BTreeMap, fmt, sync::Arc};

use drydock_gpu::xid::RecoveryAction;
use drydock_spec::{
    CheckName, ClusterName, DomainKey, Fleet, LayoutId, PoolName, ReleaseId, ReleaseVector, TenantName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Epoch, GangId, Generation, NodeId};

/// Everything that was observed, of all clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Clusters, also those that can't be reached just now.
    pub clusters: BTreeMap<ClusterName, ObservedCluster>,
    /// Nodes with GPUs. Those of a cluster that can't be reached keep their last facts.
    pub nodes: BTreeMap<NodeId, ObservedNode>,
    /// Jobs that span nodes, while they run.
    pub gangs: BTreeMap<GangId, ObservedGang>,
}

/// How fresh the facts of a cluster are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedCluster {
    /// Instant of the newest facts.
    pub seen_at: Timestamp,
    /// Why newer ones can't be had.
    pub error: Option<String>,
    /// That it has no GPU nodes can be believed: it lists nodes of other kinds, or has told of each deletion. Without that
    /// an empty list is taken for an error.
    #[serde(default)]
    pub empty_is_true: bool,
}

impl ObservedCluster {
    /// Facts of an instant, with nothing against them.
    #[must_use]
    pub const fn fresh(seen_at: Timestamp) -> Self {
        Self { seen_at, error: None, empty_is_true: false }
    }
}

/// A component vector with its identity, shared between all nodes that run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Identity of `vector`.
    pub id: ReleaseId,
    /// Version of each component.
    pub vector: ReleaseVector,
}

impl Stack {
    /// With the identity computed.
    #[must_use]
    pub fn new(vector: ReleaseVector) -> Self {
        Self { id: vector.id(), vector }
    }
}

/// What was observed of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedNode {
    /// Identity of the machine behind the name: another one has another. Empty where it isn't known.
    #[serde(default)]
    pub uid: Arc<str>,
    /// The pool whose selector matches; set by [`Inventory::assign_pools`].
    pub pool: Option<PoolName>,
    /// All pools whose selectors match, when that are several: a finding, not a choice. `pool` is then the one it was in
    /// before, where that is one of them.
    #[serde(default)]
    pub contested: Vec<PoolName>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its domains, by [`DomainKey::index`]; set by [`Inventory::assign_pools`].
    pub domains: [Option<Arc<str>>; 4],
    /// GPUs it advertises (allocatable), partitions counted back to whole GPUs.
    pub gpus: u32,
    /// Kernel release.
    pub kernel: Arc<str>,
    /// Changes with every boot.
    pub boot_id: u64,
    /// Ready condition.
    pub ready: bool,
    /// Since when `ready` has its value.
    pub ready_since: Timestamp,
    /// Who keeps new pods away.
    pub cordon: Cordon,
    /// What runs.
    pub running: Arc<Stack>,
    /// How its GPUs are cut, as far as devices really advertised tell.
    pub layout: Option<LayoutId>,
    /// What runs on it.
    pub work: Work,
    /// Hardware and health faults that are present (Xid classes, lost rails, missing GPUs).
    pub faults: Vec<HealthFault>,
    /// The node side's answer to the newest intent it has seen.
    pub report: Option<StepReport>,
}

/// Who keeps new pods away from a node. Both may at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    /// drydock's own, with the epoch of the reservation it was made for.
    pub own: Option<Epoch>,
    /// Somebody else's, with who as far as known.
    pub foreign: Option<String>,
}

/// What runs on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Pods that hold GPUs.
    pub gpu_pods: u32,
    /// Jobs that span nodes and have a pod here.
    pub gangs: Vec<GangId>,
    /// GPU pods that finished well on this node since it was first seen.
    pub jobs_passed: u64,
}

/// A fault that is present on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthFault {
    /// Short kind: `xid-79`, `gpu-missing`, `rail-missing`.
    pub kind: String,
    /// Since when.
    pub since: Timestamp,
    /// What the driver says has to be done about the device, where that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryAction>,
}

/// What the node side says about an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The intent it is about. An answer about another generation counts for nothing.
    pub generation: Generation,
    /// How far it is.
    pub state: StepState,
    /// Results of checks that have ended, when the intent asks for checks.
    pub checks: Vec<CheckResult>,
}

/// How far an intent is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepState {
    /// It is being carried out.
    Working {
        /// Pods that have still to leave, runs that have still to end.
        remaining: u32,
        /// What it waits for, when it can't go on by itself.
        blocked_by: Option<Blocker>,
    },
    /// It is so.
    Done,
    /// It was tried and failed.
    Failed {
        /// What was seen.
        message: String,
    },
}

/// What a step waits for that can't go on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blocker {
    /// A PodDisruptionBudget refuses; `namespace/name`.
    DisruptionBudget(String),
    /// Pods without a controller, `namespace/name`, at most [`BLOCKERS_MAX`].
    Unmanaged(Vec<String>),
    /// Pods with data on the node's disk, `namespace/name`, at most [`BLOCKERS_MAX`].
    LocalStorage(Vec<String>),
    /// Pods whose owner has asked that they aren't evicted, `namespace/name`, at most [`BLOCKERS_MAX`].
    Protected(Vec<String>),
    /// Pods that were told to end and don't, `namespace/name`, at most [`BLOCKERS_MAX`]: a finalizer, or a kubelet that
    /// is silent.
    Terminating(Vec<String>),
    /// What was made isn't ready yet; what it says itself, bounded.
    NotReady(String),
    /// The API server, or something in the cluster, says no; its words, bounded. It says nothing about the release.
    Refused(String),
}

/// Pods named in a [`Blocker`]: enough to find the owner, and it stands in reports of every pass.
pub const BLOCKERS_MAX: usize = 5;

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisruptionBudget(name) => write!(f, "poddisruptionbudget/{name}"),
            Self::Unmanaged(pods) => write!(f, "pods without a controller ({})", pods.join(", ")),
            Self::LocalStorage(pods) => write!(f, "pods with data on the node ({})", pods.join(", ")),
            Self::Protected(pods) => write!(f, "pods that are protected ({})", pods.join(", ")),
            Self::Terminating(pods) => write!(f, "pods that don't end ({})", pods.join(", ")),
            Self::NotReady(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

/// One run of a check on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The check.
    pub check: CheckName,
    /// How it ended.
    pub verdict: RawVerdict,
    /// What was measured, in the check's unit.
    pub value: Option<f64>,
    /// What the run said, bounded to 1 KiB by whoever observed it.
    pub detail: String,
    /// Begin of the run.
    pub started: Timestamp,
    /// End of the run.
    pub finished: Timestamp,
    /// The other node of a pair.
    pub partner: Option<NodeId>,
}

/// How a run ended, before values are compared with floor and baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RawVerdict {
    /// It ran to its end and found nothing wrong.
    Pass,
    /// It ran to its end and found something wrong.
    Fail,
    /// The thing under test hung.
    Hang,
    /// The runner broke; nothing was learnt about the thing under test.
    Inconclusive,
    /// It doesn't apply to this node.
    NotApplicable,
}

/// What was observed of a job that spans nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedGang {
    /// Its tenant.
    pub tenant: Option<TenantName>,
    /// Its nodes, sorted.
    pub nodes: Vec<NodeId>,
    /// Start of its last checkpoint, or its own start.
    pub last_checkpoint: Timestamp,
    /// When it is expected to end by itself.
    pub expected_end: Option<Timestamp>,
}

impl ObservedNode {
    /// Its domain of this kind.
    #[must_use]
    pub fn domain(&self, key: DomainKey) -> Option<&Arc<str>> {
        self.domains.get(key.index()).and_then(Option::as_ref)
    }
}

impl Inventory {
    /// Gives every node its pool and its domains according to `fleet`. It has to be called again when the fleet or a node's
    /// labels change. Where two pools match, the node stays in the one it is in, as long as that is one of them, and in
    /// none otherwise: whoever widens a selector takes no nodes away from others.
    pub fn assign_pools(&mut self, fleet: &Fleet) {
        let mut by_cluster: BTreeMap<&str, Vec<(&PoolName, &drydock_spec::PoolSpec)>> = BTreeMap::new();
        for (name, pool) in &fleet.pools {
            by_cluster.entry(pool.cluster.as_str()).or_default().push((name, pool));
        }
        for (id, node) in &mut self.nodes {
            let pools = by_cluster.get(id.cluster()).map_or(&[][..], |pools| pools);
            let matches = |pool: &drydock_spec::PoolSpec| {
                pool.node_selector.iter().all(|(k, v)| node.labels.get(k) == Some(v))
            };
            let mut matching = pools.iter().filter(|(_, p)| matches(p));
            let (first, second) = (matching.next(), matching.next());
            let found = match second {
                None => first,
                Some(_) => pools.iter().find(|(name, p)| node.pool.as_ref() == Some(*name) && matches(p)),
            };
            let contested = match second {
                None => Vec::new(),
                Some(_) => {
                    pools.iter().filter(|(_, p)| matches(p)).map(|(name, _)| (*name).clone()).collect()
                }
            };
            node.pool = found.map(|(name, _)| (*name).clone());
            node.contested = contested;
            for key in DomainKey::ALL {
                let value =
                    found.and_then(|(_, p)| p.domains.label(key)).and_then(|label| node.labels.get(label));
                let old = &mut node.domains[key.index()];
                if old.as_deref() != value.map(String::as_str) {
                    *old = value.map(|v| Arc::from(v.as_str()));
                }
            }
        }
    }
}
