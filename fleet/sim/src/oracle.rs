//! An observer that knows the truth and nothing of the planner: what was done to whom, how often, and what must never
//! have happened.

use drydock_plan::NodeId;
use drydock_spec::{ComponentName, Period, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::node::NodeState;

/// Findings kept: enough to see a pattern, bounded so that a broken planner can't fill memory.
pub const FINDINGS_MAX: usize = 1_000;
/// Applications remembered per node: a node of a long run sees some tens of them.
const APPLIED_MAX: usize = 64;

/// What was done to one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Times it was emptied.
    pub drains: u32,
    /// Pods that had to leave.
    pub evictions: u32,
    /// Since when drydock keeps it away, while it does.
    pub away_since: Option<Timestamp>,
    /// It was emptied since then.
    pub emptied: bool,
    /// What was applied to it, oldest first, each component and version once.
    pub applied: Vec<Applied>,
}

/// A first application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Component.
    pub component: ComponentName,
    /// Version.
    pub version: Version,
    /// Begin.
    pub at: Timestamp,
}

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Oracle {
    /// Nodes and GPUs that are away by drydock's own cordon.
    pub away: Away,
    /// The most there ever were.
    pub most: Away,
    /// GPU-milliseconds spent away, of stays that are over.
    pub away_gpu_millis: u64,
    /// Jobs that lost more than five minutes of work because drydock took a node.
    pub gangs_cut: u32,
    /// Jobs that had a fresh checkpoint when drydock took a node.
    pub gangs_moved: u32,
    /// Jobs that lost a node to a fault.
    pub gangs_struck: u32,
    /// Pods that were killed because something was applied under them.
    pub pods_killed: u32,
    /// Writes that were refused because they were too old.
    pub stale_writes: u32,
    /// What must never happen and did, at most [`FINDINGS_MAX`].
    pub findings: Vec<OracleFinding>,
}

/// So much is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Away {
    /// Nodes.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u32,
}

/// Something that must never happen and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleFinding {
    /// When.
    pub at: Timestamp,
    /// Where.
    pub node: Option<NodeId>,
    /// What.
    pub what: String,
}

impl Oracle {
    /// A node's own cordon came or went.
    pub(crate) fn cordon(&mut self, node: &mut NodeState, gpus: u32, now: Timestamp) {
        match (node.cordon.own.is_some() && node.present, node.tally.away_since) {
            (true, None) => {
                node.tally.away_since = Some(now);
                node.tally.emptied = false;
                self.away.nodes += 1;
                self.away.gpus += gpus;
                self.most.nodes = self.most.nodes.max(self.away.nodes);
                self.most.gpus = self.most.gpus.max(self.away.gpus);
            }
            (false, Some(since)) => {
                node.tally.away_since = None;
                self.away.nodes = self.away.nodes.saturating_sub(1);
                self.away.gpus = self.away.gpus.saturating_sub(gpus);
                let millis = Period::between(since, now).as_millis();
                self.away_gpu_millis = self.away_gpu_millis.saturating_add(millis * u64::from(gpus));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    /// A job was interrupted by drydock; `lost` is what it has to do again.
    pub(crate) fn gang_interrupted(&mut self, lost: Period) {
        // Five minutes: what writing a checkpoint right before the drain would have cost anyway.
        if lost > Period::from_mins(5) {
            self.gangs_cut += 1;
        } else {
            self.gangs_moved += 1;
        }
    }
    /// Notes something that must never happen.
    pub(crate) fn find(&mut self, at: Timestamp, node: Option<&NodeId>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(OracleFinding { at, node: node.cloned(), what });
        }
    }
}

impl Tally {
    /// Notes an application.
    pub(crate) fn apply(&mut self, component: &ComponentName, version: &Version, at: Timestamp) {
        let known = self.applied.iter().any(|a| a.component == *component && a.version == *version);
        if !known && self.applied.len() < APPLIED_MAX {
            self.applied.push(Applied { component: component.clone(), version: version.clone(), at });
        }
    }
}
