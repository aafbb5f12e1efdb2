//! Why everything that isn't moving isn't moving.

use std::collections::BTreeMap;

use drydock_spec::WaveName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{NodeId, Reason, RolloutId, WaveState};

/// What a planning pass saw and refused. For people and screens; nothing is decided from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// Open rollouts.
    pub rollouts: Vec<RolloutReport>,
    /// Nodes outside any open rollout that differ from Git, by reason.
    pub holds: Vec<Wait>,
    /// The next instant at which a pass without any event would decide something else.
    pub wake: Option<Timestamp>,
    /// Broken invariants; always empty, and checked on every plan.
    pub violations: Vec<String>,
}

/// One open rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutReport {
    /// Which.
    pub id: RolloutId,
    /// Why it doesn't go on as a whole, when it doesn't.
    pub waits: Vec<Reason>,
    /// Its waves.
    pub waves: Vec<WaveReport>,
}

/// One wave of an open rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaveReport {
    /// Which.
    pub name: WaveName,
    /// State.
    pub state: WaveState,
    /// Nodes by how far they are.
    pub counts: NodeCounts,
    /// Reasons, each with how many nodes it holds.
    pub waits: Vec<Wait>,
}

/// Nodes of a wave by how far they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCounts {
    /// All of them.
    pub total: u32,
    /// Not begun.
    pub waiting: u32,
    /// Reserved, by step.
    pub in_flight: BTreeMap<String, u32>,
    /// Back and watched.
    pub soaking: u32,
    /// Done.
    pub done: u32,
    /// Left out.
    pub skipped: u32,
    /// Taken back.
    pub reverted: u32,
    /// Quarantined.
    pub quarantined: u32,
    /// Gone.
    pub gone: u32,
}

/// A reason and the nodes it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Why.
    pub reason: Reason,
    /// How many nodes.
    pub nodes: u32,
    /// One of them, to ask `drydock why` about.
    pub example: Option<NodeId>,
}
