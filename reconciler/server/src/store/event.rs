//! What happened, numbered.

use drydock_plan::{CommandKind, NodeId, RolloutEvent, RolloutId};
use drydock_spec::PolicyName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::desired::SourceProblem;

/// Something that happened. Numbers grow by one and are never used twice, so a reader notices what it missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1.
    pub number: u64,
    /// When, on the clock of the fleet.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: EventKind,
}

/// An event that hasn't been stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When, on the clock of the fleet.
    pub at: Timestamp,
    /// What.
    pub what: EventKind,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// An entry in a rollout's history.
    Rollout {
        /// The rollout.
        rollout: RolloutId,
        /// Its policy.
        policy: PolicyName,
        /// What happened to it.
        event: RolloutEvent,
    },
    /// A node went on.
    Node {
        /// The node.
        node: NodeId,
        /// The rollout that holds or held it, where one does.
        rollout: Option<RolloutId>,
        /// Where it was: a step's word, `idle`, `soaking` or `quarantined`.
        from: String,
        /// Where it is now.
        to: String,
    },
    /// A person said something.
    Command {
        /// Number of the command in the ledger. Its name differs from that of the event's own number, which stands beside it.
        command: u64,
        /// Who.
        by: String,
        /// Why.
        reason: String,
        /// What.
        what: CommandKind,
    },
    /// Another commit came into force.
    Adopted {
        /// Its full id.
        commit: String,
        /// First line of its message.
        summary: String,
    },
    /// The source has a problem; the last good commit stays in force.
    SourceProblem {
        /// Which.
        problem: SourceProblem,
    },
    /// The problem with the source is gone.
    SourceWell {},
    /// The ledger isn't simply what it was before.
    Ledger {
        /// What came about.
        notice: LedgerNotice,
    },
    /// A plan broke an invariant and wasn't carried out.
    Violation {
        /// Which, one sentence each.
        what: Vec<String>,
    },
}

/// What came about with a ledger that is kept in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LedgerNotice {
    /// Its head was gone; it was made again from what had been published.
    Rebuilt {
        /// Records of nodes.
        nodes: usize,
        /// Records of rollouts.
        rollouts: usize,
        /// What couldn't be kept, one sentence each.
        notes: Vec<String>,
    },
    /// It went back in time, and a person has accepted that.
    Accepted {
        /// The highest revision that had been seen.
        known: u64,
        /// The revision that was there.
        found: u64,
    },
    /// It went back in time: nothing is done until a person accepts that.
    WentBack {
        /// The highest revision that had been seen.
        known: u64,
        /// The revision that is there.
        found: u64,
    },
}

impl EventKind {
    /// Its kind as a short fixed word: name of the live event, label of metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Rollout { .. } => "rollout",
            Self::Node { .. } => "node",
            Self::Command { .. } => "command",
            Self::Adopted { .. } => "adopted",
            Self::SourceProblem { .. } => "sourceProblem",
            Self::SourceWell {} => "sourceWell",
            Self::Ledger { .. } => "ledger",
            Self::Violation { .. } => "violation",
        }
    }
}
