//! What a person lets be tried again: nodes that were left out. Quarantined ones are checked first (`retried.rs`).

use drydock_plan::{NodeId, NodeOutcome};

use crate::pass::Pass;

impl Pass<'_> {
    /// Whatever left a node out stops counting.
    pub(crate) fn retry_node(&mut self, node: &NodeId) {
        let now = self.now();
        let Some(i) = self.frame.find(node).filter(|&i| self.rec(i).visit.is_none()) else { return };
        if self.rec(i).quarantine.is_some() {
            let record = self.intend(i);
            // Somebody's word is no proof: it stays cordoned until its checks have passed.
            if let Some(q) = &mut record.quarantine {
                q.retry = Some(now);
            }
            // What was good before it failed says nothing about it now.
            record.baselines.clear();
        }
        let record = self.edit(i);
        record.skipped = None;
        record.not_before = None;
        self.give_another_turn(i, |outcome| match outcome {
            NodeOutcome::Skipped(_) => true,
            NodeOutcome::Quarantined | NodeOutcome::Done | NodeOutcome::Reverted | NodeOutcome::Gone => false,
        });
    }

    /// Its part in a rollout that is still open begins anew, where it had ended like this.
    pub(crate) fn give_another_turn(&mut self, i: usize, ended: impl Fn(&NodeOutcome) -> bool) {
        let Some(part) = self.rec(i).assignment.as_ref() else { return };
        let goes_on = self.rollout(&part.rollout).is_some_and(|r| Self::is_joinable(r));
        if !goes_on || !part.outcome.as_ref().is_some_and(ended) {
            return;
        }
        if let Some(part) = &mut self.edit(i).assignment {
            (part.outcome, part.ended, part.batch, part.deferrals) = (None, None, None, 0);
        }
        self.forget_roster();
    }
}
