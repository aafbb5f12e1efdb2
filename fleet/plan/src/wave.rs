//! The ledger's record of a wave.

use drydock_spec::WaveName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A wave of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaveRecord {
    /// Its name.
    pub name: WaveName,
    /// State.
    pub state: WaveState,
    /// Number of the batch that is open or was last, from 1; 0 before the first.
    pub batch: u32,
    /// Units the open batch may hold.
    pub batch_size: u32,
    /// Units it was given so far.
    pub in_batch: u32,
    /// When the wave began to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// When the last of its nodes returned; the soak counts from here.
    pub last_return: Option<Timestamp>,
    /// When it first stood at the gate before it. Approvals said earlier don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_before: Option<Timestamp>,
    /// The same for the gate after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_after: Option<Timestamp>,
    /// Units of it that were attempted.
    pub attempted: u32,
    /// Nodes that were lost.
    pub lost: u32,
    /// Batches in which somebody passed: the next one grows from these alone.
    #[serde(default)]
    pub grown: u32,
    /// Nodes drawn in place of others that dropped out, since a person last said to go on.
    #[serde(default)]
    pub drawn: u32,
    /// Nodes that had dropped out when a person last said to go on without them.
    #[serde(default)]
    pub excused: u32,
}

impl WaveRecord {
    /// A wave that hasn't begun.
    #[must_use]
    pub const fn new(name: WaveName) -> Self {
        Self {
            name,
            state: WaveState::Pending,
            batch: 0,
            batch_size: 0,
            in_batch: 0,
            started: None,
            ended: None,
            last_return: None,
            gate_before: None,
            gate_after: None,
            attempted: 0,
            lost: 0,
            grown: 0,
            drawn: 0,
            excused: 0,
        }
    }
}

/// State of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaveState {
    /// The wave before it isn't complete.
    Pending,
    /// An approval is awaited before it starts.
    GatedBefore,
    /// Nodes are admitted.
    Running,
    /// All nodes are settled; time passes.
    Soaking,
    /// An approval is awaited after it.
    GatedAfter,
    /// Done.
    Complete,
    /// It had no nodes.
    Skipped,
    /// The rollout halted or ended in it.
    Failed,
}
