//! Why a node is where it is, as it is served.

use drydock_plan::{NodeId, Reason, RolloutId, Target};
use drydock_planner::{Explanation, why};
use jiff::Timestamp;
use serde::Serialize;

use super::Facts;

/// Why a node is where it is: every rule that refuses, not only the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyView {
    /// What the last plan broke, and what was left out of it for that: before anything else that it waits for.
    pub violations: Vec<String>,
    /// Nothing has to be changed on it.
    pub synced: bool,
    /// What it runs.
    pub running: Target,
    /// What Git wants it to run.
    pub wanted: Option<Target>,
    /// The rollout it is part of.
    pub rollout: Option<RolloutId>,
    /// The step it is in, while it is in flight.
    pub step: Option<String>,
    /// Everything it waits for.
    pub waits_for: Vec<Reason>,
    /// When this was judged.
    pub judged_at: Timestamp,
    /// Instant of the facts it was judged on.
    pub facts_at: Option<Timestamp>,
}

impl Facts {
    /// Why a node is where it is; `None` when the clusters don't have it.
    #[must_use]
    pub fn why(&self, id: &NodeId) -> Option<WhyView> {
        let explanation = why(&self.input(), id)?;
        let Explanation {
            node: _,
            pool: _,
            running,
            wanted,
            synced,
            rollout,
            step,
            waits_for,
            judged_at,
            facts_at,
        } = explanation;
        let violations = self.report.violations.clone();
        Some(WhyView { violations, synced, running, wanted, rollout, step, waits_for, judged_at, facts_at })
    }
}
