//! What is asked for in one cluster, and how far it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drydock_plan::{Action, StepReport};
use drydock_spec::Fleet;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::ensure::Effort;
use crate::ensure::keep::{Drifted, Rounds};

/// What is asked for on one node.
#[derive(Debug, Clone)]
pub struct Job {
    /// What.
    pub action: Action,
    /// What was tried.
    pub effort: Effort,
    /// How far it is.
    pub report: Option<StepReport>,
    /// Look again at this instant at the latest.
    pub again: Option<Timestamp>,
    /// It has to be looked at whatever else has changed.
    pub fresh: bool,
}

/// Everything asked for in one cluster.
#[derive(Debug, Default)]
pub struct Inside {
    /// By node.
    pub jobs: BTreeMap<Arc<str>, Job>,
    /// The documents in force.
    pub fleet: Option<Arc<Fleet>>,
    /// How often own objects were put right lately.
    pub rounds: Rounds,
    /// Own objects that differ from what they should be.
    pub drifted: Vec<Drifted>,
    /// What was told to go, and when, by its uid. The watch shows it gone some milliseconds after the API
    /// server has answered, and whoever looks in between would delete it once more.
    pub told_to_go: BTreeMap<String, Timestamp>,
}

/// Shared between the engine, which lays work on it, and the executor.
#[derive(Debug, Default)]
pub struct Desk {
    inside: Mutex<Inside>,
    pulse: watch::Sender<u64>,
}

impl Desk {
    /// What is on it. Held for moments only.
    pub fn lock(&self) -> MutexGuard<'_, Inside> {
        // Every change leaves it whole.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Wakes the executor.
    pub fn pulse(&self) {
        self.pulse.send_modify(|beats| *beats = beats.wrapping_add(1));
    }
    /// Pulses from now on.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }

    /// Another commit is in force.
    pub fn follow(&self, fleet: &Arc<Fleet>) {
        let mut inside = self.lock();
        inside.fleet = Some(Arc::clone(fleet));
        inside.jobs.values_mut().for_each(|job| job.fresh = true);
        drop(inside);
        self.pulse();
    }

    /// Lays out what a pass asks for; what it doesn't ask for any more is put away. An intent that was asked for before
    /// keeps what was tried for it.
    pub fn lay_out(&self, actions: BTreeMap<Arc<str>, Action>, now: Timestamp) {
        let mut inside = self.lock();
        let mut before = std::mem::take(&mut inside.jobs);
        let mut news = false;
        for (node, action) in actions {
            let job = match before.remove(&node) {
                Some(job) if job.action == action => job,
                // The same intent with other words (a partner, a layout's name): what was tried stays tried.
                Some(job)
                    if job.action.generation == action.generation && job.action.epoch == action.epoch =>
                {
                    news = true;
                    Job { action, fresh: true, ..job }
                }
                _ => {
                    news = true;
                    let effort = Effort::new(action.generation, now);
                    Job { action, effort, report: None, again: None, fresh: true }
                }
            };
            inside.jobs.insert(node, job);
        }
        news |= !before.is_empty();
        drop(inside);
        if news {
            self.pulse();
        }
    }

    /// How far the intent for a node is.
    #[must_use]
    pub fn report(&self, node: &str) -> Option<StepReport> {
        self.lock().jobs.get(node)?.report.clone()
    }
    /// Whether something is asked for on a node.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.lock().jobs.contains_key(node)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use drydock_plan::{Ensure, Epoch, Generation, NodeId};

    #[test]
    fn an_intent_keeps_what_was_tried_and_a_new_one_begins_anew() {
        let at = Timestamp::constant(1_000, 0);
        let node: Arc<str> = Arc::from("n1");
        let action = |generation: u64, ensure: Ensure| Action {
            node: NodeId::new("c/n1"),
            generation: Generation(generation),
            epoch: Epoch(1),
            ensure,
        };
        let desk = Desk::default();
        let mut pulses = desk.subscribe();
        desk.lay_out(BTreeMap::from([(Arc::clone(&node), action(1, Ensure::Cordoned))]), at);
        assert!(pulses.has_changed().unwrap());
        pulses.mark_unchanged();
        desk.lock().jobs.get_mut("n1").unwrap().effort.begin("x", at);
        desk.lay_out(BTreeMap::from([(Arc::clone(&node), action(1, Ensure::Cordoned))]), at);
        assert!(desk.lock().jobs["n1"].effort.asked("x").is_some() && !pulses.has_changed().unwrap());
        desk.lay_out(BTreeMap::from([(Arc::clone(&node), action(2, Ensure::Returned))]), at);
        assert!(desk.lock().jobs["n1"].effort.asked("x").is_none());
        desk.lay_out(BTreeMap::new(), at);
        assert!(!desk.has("n1"));
    }
}
