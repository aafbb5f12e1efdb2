//! A cluster that doesn't answer any more while nodes of it are in flight. Its nodes stay away in every budget; but it
//! doesn't stop the other clusters for ever.
//!
//! `maxClusters` and an open batch bound how far a release spreads before it has proven itself. Nothing is learnt from a
//! cluster that is silent for longer than a lost node is waited for, so after `lostAfter` it takes no place in either,
//! just as a lost node doesn't. What it might have told is still missing: until somebody has passed on the release,
//! the others go one unit at a time, so exposure grows by one unit where it would have stopped, and not by a batch.

use std::collections::BTreeSet;

use drydock_plan::{NodeOutcome, Reason, RolloutRecord};
use drydock_spec::ClusterName;

use crate::pass::Pass;

impl Pass<'_> {
    /// The cluster of this node has been silent for longer than a lost node is waited for.
    pub(crate) fn is_silent(&self, i: usize, rollout: &RolloutRecord) -> bool {
        self.frame.stale(i).is_some_and(|(since, _)| self.now() >= rollout.strategy.lost_after.after(*since))
    }

    /// Clusters in which the rollout has nodes in flight, as far as they count against `maxClusters`.
    pub(crate) fn clusters_in_flight(&self, rollout: &RolloutRecord, visiting: &[usize]) -> BTreeSet<String> {
        visiting
            .iter()
            .filter(|&&i| self.rec(i).visit.as_ref().is_some_and(|v| v.rollout == rollout.id))
            .filter(|&&i| !self.is_silent(i, rollout))
            .map(|&i| self.frame.nodes[i].id.cluster().to_owned())
            .collect()
    }

    /// Why nothing may be added, while a cluster is silent and nobody has passed yet: one unit is out, and that one is
    /// awaited.
    pub(crate) fn awaits_a_success(&self, rollout: &RolloutRecord, visiting: &[usize]) -> Option<Reason> {
        let mine = |&&i: &&usize| self.rec(i).visit.as_ref().is_some_and(|v| v.rollout == rollout.id);
        let (silent, seen): (Vec<usize>, Vec<usize>) =
            visiting.iter().filter(mine).partition(|&&i| self.is_silent(i, rollout));
        let first = silent.first()?;
        if seen.is_empty() || self.has_passed(rollout) {
            return None;
        }
        let (since, error) = self.frame.stale(*first).cloned()?;
        let cluster = self.frame.nodes[*first].id.cluster().parse::<ClusterName>().ok()?;
        Some(Reason::ClusterUnreachable { cluster, since, error })
    }

    /// Some node has passed its checks on what this rollout brings.
    fn has_passed(&self, rollout: &RolloutRecord) -> bool {
        (0..rollout.waves.len()).any(|w| {
            self.wave_nodes(&rollout.id, w).iter().any(|&i| {
                let record = self.rec(i);
                record.soak.is_some()
                    || record.assignment.as_ref().is_some_and(|a| a.outcome == Some(NodeOutcome::Done))
            })
        })
    }
}
