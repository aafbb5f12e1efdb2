//! What the executor is asked to make true. Every action is an "ensure": doing it twice is doing it once.

use std::collections::BTreeMap;

use drydock_spec::{
    CheckClass, CheckName, CheckOn, CheckRun, ComponentName, ComponentVersion, LayoutId, Period,
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
    Drained,
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
    /// What runs.
    pub run: CheckRun,
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
            Self::Drained => "drain",
            Self::Applied { .. } => "apply",
            Self::Partitioned { .. } => "partition",
            Self::Checked { .. } => "check",
            Self::Returned => "return",
            Self::Kept => "keep",
        }
    }
}
