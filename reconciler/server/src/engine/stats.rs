//! What the engine counts about itself.

use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

/// Counts since the start; clones share them.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Planning passes.
    pub passes: Counter,
    /// How long they took, in seconds: plan, check, commit and actions.
    pub pass_seconds: Histogram,
    /// Plans that broke an invariant and weren't carried out.
    pub violations: Counter,
    /// Commits that lost a race and were planned anew.
    pub conflicts: Counter,
    /// Actions asked for.
    pub actions: Counter,
    /// Actions that didn't arrive.
    pub refused: Counter,
    /// Passes that failed for another reason.
    pub failures: Counter,
}

/// From the pass of a small fleet to one that is far over its limit.
const BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 2.0];

impl Default for Stats {
    fn default() -> Self {
        Self {
            passes: Counter::default(),
            pass_seconds: Histogram::new(BUCKETS),
            violations: Counter::default(),
            conflicts: Counter::default(),
            actions: Counter::default(),
            refused: Counter::default(),
            failures: Counter::default(),
        }
    }
}
