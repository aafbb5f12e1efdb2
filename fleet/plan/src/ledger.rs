//! All records together, and the changes made to them.

use std::{collections::BTreeMap, sync::Arc};

use drydock_spec::{PoolName, ReleaseId, ReleaseVector};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{NodeId, NodeRecord, RolloutId, RolloutRecord, Target};

/// What was intended and what became of it. The store keeps exactly this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Number of changes applied so far; the compare-and-swap of the embedded store.
    pub revision: u64,
    /// Nodes that were ever touched.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// Rollouts, also ended ones until they are forgotten: the newest of each policy stay, and what something refers to.
    /// A record is shared, not copied: a pass looks at it often and changes it rarely.
    pub rollouts: BTreeMap<RolloutId, Arc<RolloutRecord>>,
    /// Releases that aren't tried again on a pool.
    #[serde(with = "pairs")]
    pub quarantines: BTreeMap<(PoolName, ReleaseId), ReleaseQuarantine>,
    /// Contents of every release that some record names, so that the way back never depends on Git.
    pub releases: BTreeMap<ReleaseId, ReleaseVector>,
    /// What people said through the command; what has been taken into account is forgotten in time.
    pub commands: BTreeMap<u64, Command>,
}

/// A release that isn't tried again on a pool until it changes or someone says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseQuarantine {
    /// The rollout in which it failed.
    pub rollout: RolloutId,
    /// Since when.
    pub since: Timestamp,
    /// One sentence.
    pub why: String,
}

/// Something a person said through the command. The same intents can stand in a `RolloutControl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What.
    pub what: CommandKind,
    /// The planner has taken it into account; kept for the history.
    pub done: bool,
}

impl CommandKind {
    /// It lets this be tried again on this pool.
    #[must_use]
    pub fn retries(&self, on: &PoolName, tried: &ReleaseId) -> bool {
        match self {
            Self::RetryRelease { release, pool } => {
                release == tried && pool.as_ref().is_none_or(|only| only == on)
            }
            Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Abort { .. }
            | Self::Approve { .. }
            | Self::Skip { .. }
            | Self::RetryNode { .. } => false,
        }
    }
}

/// What a person can say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CommandKind {
    Pause {
        rollout: RolloutId,
    },
    Resume {
        rollout: RolloutId,
    },
    Abort {
        rollout: RolloutId,
    },
    Approve {
        rollout: RolloutId,
        wave: drydock_spec::WaveName,
        gate: drydock_spec::GatePoint,
        team: drydock_spec::TeamName,
    },
    Skip {
        node: NodeId,
    },
    /// A release is tried again: on one pool, or on all that it failed on.
    RetryRelease {
        release: ReleaseId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolName>,
    },
    RetryNode {
        node: NodeId,
    },
}

/// One change of the ledger. Changes of one plan are committed together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LedgerChange {
    /// A node's record is now this.
    Node(NodeId, Box<NodeRecord>),
    /// A node's record is forgotten: the node is gone.
    ForgetNode(NodeId),
    /// A rollout's record is now this.
    Rollout(Box<RolloutRecord>),
    /// An ended rollout is forgotten: nothing refers to it any more.
    ForgetRollout(RolloutId),
    /// A release isn't tried again on a pool.
    Quarantine(PoolName, ReleaseId, ReleaseQuarantine),
    /// It may be tried again.
    Release(PoolName, ReleaseId),
    /// Contents of a release are remembered.
    Remember(ReleaseId, ReleaseVector),
    /// A command was given, or taken into account.
    Command(u64, Command),
    /// A command is forgotten: it has been taken into account and is of no more use.
    ForgetCommand(u64),
}

impl Ledger {
    /// Applies one change.
    pub fn apply(&mut self, change: LedgerChange) {
        self.revision = self.revision.saturating_add(1);
        match change {
            LedgerChange::Node(id, record) => {
                self.nodes.insert(id, *record);
            }
            LedgerChange::ForgetNode(id) => {
                self.nodes.remove(&id);
            }
            LedgerChange::Rollout(record) => {
                self.rollouts.insert(record.id.clone(), Arc::from(record));
            }
            LedgerChange::ForgetRollout(id) => {
                self.rollouts.remove(&id);
            }
            LedgerChange::Quarantine(pool, release, why) => {
                self.quarantines.insert((pool, release), why);
            }
            LedgerChange::Release(pool, release) => {
                self.quarantines.remove(&(pool, release));
            }
            LedgerChange::Remember(id, vector) => {
                self.releases.insert(id, vector);
            }
            LedgerChange::Command(number, command) => {
                self.commands.insert(number, command);
            }
            LedgerChange::ForgetCommand(number) => {
                self.commands.remove(&number);
            }
        }
    }
    /// Rollouts that haven't ended.
    pub fn open_rollouts(&self) -> impl Iterator<Item = &Arc<RolloutRecord>> {
        self.rollouts.values().filter(|r| !r.state.is_final())
    }
    /// The target a node was last healthy on, when one is known.
    #[must_use]
    pub fn last_known_good(&self, node: &NodeId) -> Option<&Target> {
        self.nodes.get(node)?.last_known_good.as_ref()
    }
}

/// JSON has text keys only, so the map is written as a list of pairs.
mod pairs {
    use super::*;
    use serde::{Deserializer, Serializer};

    type Map = BTreeMap<(PoolName, ReleaseId), ReleaseQuarantine>;

    pub(super) fn serialize<S: Serializer>(map: &Map, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(map)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Map, D::Error> {
        Ok(Vec::<((PoolName, ReleaseId), ReleaseQuarantine)>::deserialize(d)?.into_iter().collect())
    }
}
