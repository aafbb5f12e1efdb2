//! The published state: what the last planning pass saw and decided, as shared values, and pure functions from it to
//! what screens show. Publishing copies pointers only; sums are made when somebody asks.

mod node;
mod overview;
mod rollout;
#[cfg(test)]
mod tests;
mod why;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use drydock_plan::{CommitRef, Inventory, Ledger, PlanReport};
use drydock_planner::{Input, PoolTarget};
use drydock_spec::{Diagnostic, Fleet, PoolName};
use jiff::Timestamp;
use serde::Serialize;

pub use node::{NodeDetail, NodeRow, STEP_WORDS, step_word};
pub use overview::{ClusterView, Counts, FleetView, Overview, PoolView};
pub use rollout::{RolloutDetail, RolloutRow, WaveRow};
pub use why::WhyView;
pub use words::{Freshness, Health, STALE_AFTER, Sync};

use crate::desired::SourceView;

/// How the fleet's clock runs, so that a screen can show it between two publications.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockView {
    /// An instant of the fleet's clock.
    pub at: Timestamp,
    /// The wall clock at that instant.
    pub wall: Timestamp,
    /// Seconds of the fleet's clock per second; absent while it runs as fast as it can.
    pub speed: Option<f64>,
}

/// What a planning pass saw and decided.
#[derive(Debug)]
pub struct Facts {
    /// The instant of the pass.
    pub now: Timestamp,
    /// The fleet in force.
    pub fleet: Arc<Fleet>,
    /// The commit in force.
    pub commit: Arc<CommitRef>,
    /// Findings in it that aren't errors.
    pub warnings: Arc<Vec<Diagnostic>>,
    /// What every pool should run.
    pub targets: Arc<BTreeMap<PoolName, PoolTarget>>,
    /// What was observed.
    pub inventory: Arc<Inventory>,
    /// What is intended, the pass's changes included.
    pub ledger: Arc<Ledger>,
    /// Why everything that isn't moving isn't moving.
    pub report: Arc<PlanReport>,
    overview: OnceLock<Overview>,
}

/// The published state.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Grows with every publication.
    pub number: u64,
    /// The fleet's clock.
    pub clock: ClockView,
    /// The source.
    pub source: SourceView,
    /// What the last pass saw and decided; absent until a fleet was in force.
    pub facts: Option<Arc<Facts>>,
    /// Why the last pass couldn't be carried out, when it couldn't.
    pub trouble: Option<String>,
}

impl Facts {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        now: Timestamp,
        in_force: &crate::desired::InForce,
        targets: Arc<BTreeMap<PoolName, PoolTarget>>,
        inventory: Arc<Inventory>,
        ledger: Arc<Ledger>,
        report: Arc<PlanReport>,
    ) -> Self {
        Self {
            now,
            fleet: Arc::clone(&in_force.fleet),
            commit: Arc::clone(&in_force.commit),
            warnings: Arc::clone(&in_force.warnings),
            targets,
            inventory,
            ledger,
            report,
            overview: OnceLock::new(),
        }
    }

    /// Sums over all nodes; made at the first call.
    pub fn overview(&self) -> &Overview {
        self.overview.get_or_init(|| Overview::of(self))
    }

    /// How fresh the facts of a cluster are.
    #[must_use]
    pub fn freshness(&self, cluster: &str) -> Freshness {
        Freshness::of(self.inventory.clusters.get(cluster), self.now)
    }

    /// What the planner looked at, for questions about single nodes.
    #[must_use]
    pub fn input(&self) -> Input<'_> {
        Input {
            fleet: &self.fleet,
            commit: &self.commit,
            inventory: &self.inventory,
            ledger: &self.ledger,
            now: self.now,
        }
    }
}
