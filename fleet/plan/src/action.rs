//! What the executor is asked to make true. Every action is an "ensure": doing it twice is doing it once.

use std::collections::BTreeMap;

use drydock_spec::{
    CheckClass, CheckName, CheckOn, CheckRun, ComponentName, ComponentVersion, Drain, Gangs, LayoutId,
    LayoutName, LocalStorage, Period, Template, Unmanaged,
};
use serde::{Deserialize, Serialize};

use crate::{Epoch, GangId, Generation, NodeId};

/// Something to make true on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The node.
    pub node: NodeId,
    /// The intent it belongs to; the answer echoes it.
    pub generation: Generation,
    /// The reservation it belongs to. An action with an older epoch than the node has seen is refused.
    pub epoch: Epoch,
    /// What.
    pub ensure: Ensure,
}

/// What to make true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ensure {
    /// These artefacts are on the node, and these checks have run on what is there.
    Preflight {
        /// Artefacts of the new and of the last good release.
        artifacts: BTreeMap<ComponentName, Vec<ComponentVersion>>,
        /// Checks to run.
        checks: Vec<CheckOrder>,
    },
    /// The node takes no new pods, and the cordon is known as drydock's.
    Cordoned,
    /// These jobs have written a checkpoint since the intent began.
    Checkpointed {
        /// The jobs.
        gangs: Vec<GangId>,
    },
    /// Every pod that has to leave has left.
    Drained {
        /// What may be done to which pods.
        #[serde(default)]
        rules: DrainRules,
    },
    /// The component runs in this version; absent means it doesn't run.
    Applied {
        /// The component.
        component: ComponentName,
        /// Its version.
        version: Option<ComponentVersion>,
        /// The node reboots for it.
        reboot: bool,
        /// Try of the same, from 1.
        attempt: u32,
    },
    /// The GPUs are cut like this and advertised so.
    Partitioned {
        /// The layout.
        layout: LayoutId,
        /// The document in force that describes it; the first by name, and absent when none does any more.
        #[serde(default)]
        name: Option<LayoutName>,
        /// Try of the same, from 1.
        attempt: u32,
    },
    /// These checks have run.
    Checked {
        /// Checks to run.
        checks: Vec<CheckOrder>,
    },
    /// drydock's own cordon and taint are gone, and nothing else was changed.
    Returned,
    /// drydock's own cordon stays: the node is quarantined.
    Kept,
}

/// What may be done to which pods of a node that is emptied. From the policy as it was when the rollout began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRules {
    /// Pods without a controller.
    pub unmanaged: Unmanaged,
    /// Pods with an `emptyDir` on the node's disk; one in memory doesn't count.
    pub local_storage: LocalStorage,
    /// Jobs that span nodes.
    pub gangs: Gangs,
    /// Time that pods get to end; absent means their own.
    pub grace: Option<Period>,
}

impl From<&Drain> for DrainRules {
    fn from(drain: &Drain) -> Self {
        let Drain { gangs, unmanaged, local_storage, pod_grace_period, .. } = drain;
        Self { unmanaged: *unmanaged, local_storage: *local_storage, gangs: *gangs, grace: *pod_grace_period }
    }
}

impl Default for DrainRules {
    fn default() -> Self {
        Self::from(&Drain::default())
    }
}

/// A check to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckOrder {
    /// Its name.
    pub name: CheckName,
    /// Its class.
    pub class: CheckClass,
    /// How many nodes take part.
    pub on: CheckOn,
    /// The other node of a pair.
    pub partner: Option<NodeId>,
    /// All nodes that take part, sorted: the node itself; with its partner; or, for a group, the nodes of its unit that
    /// are at the same step of the same course or through with it. One run serves all whose actions carry the order; the
    /// first of them leads. Each node has its own result.
    #[serde(default)]
    pub nodes: Vec<NodeId>,
    /// What runs.
    pub run: CheckRun,
    /// Pod template that runs instead of `run`.
    #[serde(default)]
    pub template: Option<Template>,
    /// GPUs that its pod asks for on each node.
    #[serde(default)]
    pub gpus: u32,
    /// Longest run.
    pub timeout: Period,
    /// Runs; the median counts.
    pub repeats: u32,
    /// Try of the same, from 1.
    pub attempt: u32,
}

impl Ensure {
    /// The word used in logs and metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Preflight { .. } => "preflight",
            Self::Cordoned => "cordon",
            Self::Checkpointed { .. } => "checkpoint",
            Self::Drained { .. } => "drain",
            Self::Applied { .. } => "apply",
            Self::Partitioned { .. } => "partition",
            Self::Checked { .. } => "check",
            Self::Returned => "return",
            Self::Kept => "keep",
        }
    }
}
