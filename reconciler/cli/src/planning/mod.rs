//! What a change would do, worked out from documents alone. Pure: fleets and an instant in, a [`Draft`] out.
//!
//! The waves come from the planner itself, on a simulated fleet that runs what the older documents say: what a reviewer
//! sees is what will be done.

mod class;
mod draft;
mod forecast;
mod limits;
mod most;
mod origin;

use std::collections::BTreeMap;

use drydock_plan::Reason;
use drydock_spec::{Diagnostic, PolicyName, PoolName, WaveName, diff::VersionMove};
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use class::Class;
pub(crate) use draft::{Sides, draft};
pub(crate) use forecast::{Forecast, forecast};

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Side {
    /// Full commit id, or `worktree`.
    pub(crate) commit: String,
    /// What it is called on screens.
    pub(crate) label: String,
    /// First line of the commit's message.
    pub(crate) summary: String,
}

/// Everything a reviewer needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Draft {
    pub(crate) from: Side,
    pub(crate) to: Side,
    /// The instant it is worked out for.
    pub(crate) at: Timestamp,
    /// Documents that differ, by kind.
    pub(crate) documents: BTreeMap<&'static str, u32>,
    /// Components that go from one version to another.
    pub(crate) versions: Vec<VersionMove>,
    /// Pools whose layout changes.
    pub(crate) repartitioned: Vec<PoolName>,
    /// Pools that go on under another name: old, new.
    pub(crate) renamed: Vec<(PoolName, PoolName)>,
    /// Pools that are new.
    pub(crate) added: Vec<PoolName>,
    /// Pools that are gone: nobody looks after their nodes any more.
    pub(crate) removed: Vec<PoolName>,
    /// Other documents that are gone, by kind: clusters that nobody looks at any more, and limits that end.
    pub(crate) ended: Vec<String>,
    /// Why the commit would be held: it removes too much, or something can't be read any more.
    pub(crate) held: Option<String>,
    /// What moving does to a node, at worst.
    pub(crate) class: Class,
    /// Components that can't be taken back.
    pub(crate) irreversible: Vec<String>,
    pub(crate) clusters: u32,
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    /// Rollouts that would start.
    pub(crate) rollouts: Vec<RolloutDraft>,
    /// Nodes that differ and wouldn't move, by reason.
    pub(crate) unmoved: Vec<Unmoved>,
    /// Limits that hold, and where they come from.
    pub(crate) limits: Vec<Limit>,
    /// Findings in the new documents that aren't errors.
    pub(crate) warnings: Vec<Diagnostic>,
    /// From simulated runs.
    pub(crate) forecast: Option<Forecast>,
    /// What wasn't looked at.
    pub(crate) not_evaluated: Vec<String>,
}

/// A rollout that would start.
#[derive(Debug, Serialize)]
pub(crate) struct RolloutDraft {
    pub(crate) id: String,
    pub(crate) policy: PolicyName,
    /// Why it can never work as written.
    pub(crate) rejected: Vec<String>,
    pub(crate) waves: Vec<WaveDraft>,
}

/// One wave of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaveDraft {
    pub(crate) name: WaveName,
    pub(crate) clusters: Vec<String>,
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    /// What moving does to a node of this wave, at worst.
    pub(crate) class: Class,
    /// Upper bounds of what is away at once, from batches and budgets.
    pub(crate) most_nodes: u32,
    pub(crate) most_gpus: u32,
    /// Windows in which nodes may be taken; empty means any time.
    pub(crate) windows: Vec<String>,
    /// Classes of checks.
    pub(crate) checks: Vec<&'static str>,
    /// Who has to agree.
    pub(crate) approvals: Vec<String>,
    /// How long it soaks.
    pub(crate) soak: String,
}

/// Nodes that differ and wouldn't move.
#[derive(Debug, Serialize)]
pub(crate) struct Unmoved {
    pub(crate) nodes: u32,
    /// A sentence.
    pub(crate) why: String,
    /// The reason, where the planner gave one.
    pub(crate) reason: Option<Reason>,
}

/// A limit that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Limit {
    /// The document that it belongs to: `Budget stage-floor`.
    pub(crate) of: String,
    /// Its field.
    pub(crate) what: String,
    /// Its value, with what it comes to here.
    pub(crate) value: String,
    /// Where it was said: `budgets/stage.yaml:9`, or `default`.
    pub(crate) origin: String,
}

impl Draft {
    /// Nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }
}
