//! Pauses: every cause is kept and ends by itself. A rollout runs again when none is left.

use drydock_plan::{PauseReason, RolloutEvent, RolloutId, RolloutState};

use crate::pass::Pass;

impl Pass<'_> {
    /// Pauses a rollout that runs, or gives one that is paused another cause: what one of them ends, the others still hold.
    pub(crate) fn pause(&mut self, id: &RolloutId, cause: PauseReason, why: &str) {
        let Some(state) = self.rollout(id).map(|r| r.state.clone()) else { return };
        match state {
            RolloutState::Running => self.set_state(id, RolloutState::Paused(cause), why),
            // It ends, and whatever would hold it holds nothing any more.
            RolloutState::Paused(PauseReason::Aborting { .. }) => {}
            RolloutState::Paused(first) => self.pause_further(id, &first, cause, why),
            RolloutState::Rejected { .. }
            | RolloutState::Halted
            | RolloutState::RollingBack
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => {}
        }
    }

    fn pause_further(&mut self, id: &RolloutId, first: &PauseReason, cause: PauseReason, why: &str) {
        // A runner that is broken says so in each round: the newest words of a cause stand for it. Of a person the first
        // ones do, until they are ended.
        let known = self.rollout(id).and_then(|r| r.pauses().find(|p| p.is_same_cause(&cause)).cloned());
        let reworded = cause.control().is_some();
        match known {
            Some(_) if !reworded => {}
            Some(old) if old == cause => {}
            Some(old) => {
                let Some(rollout) = self.edit_rollout(id) else { return };
                if old == *first {
                    rollout.state = RolloutState::Paused(cause);
                } else if let Some(place) = rollout.also_paused.iter_mut().find(|p| **p == old) {
                    *place = cause;
                }
            }
            None => {
                if let Some(rollout) = self.edit_rollout(id) {
                    rollout.also_paused.push(cause);
                }
                self.log_pause(id, RolloutState::Paused(first.clone()).word(), why);
            }
        }
    }

    /// Ends causes of a pause. The rollout runs again when no other one is left.
    pub(crate) fn end_pause(&mut self, id: &RolloutId, ends: impl Fn(&PauseReason) -> bool, why: &str) {
        let Some(rollout) = self.rollout(id).filter(|r| matches!(r.state, RolloutState::Paused(_))) else {
            return;
        };
        let left: Vec<PauseReason> = rollout.pauses().filter(|p| !ends(p)).cloned().collect();
        if left.len() == rollout.pauses().count() {
            return;
        }
        let mut left = left.into_iter();
        match left.next() {
            None => self.set_state(id, RolloutState::Running, why),
            Some(first) => {
                if let Some(rollout) = self.edit_rollout(id) {
                    rollout.state = RolloutState::Paused(first);
                    rollout.also_paused = left.collect();
                }
                self.log_pause(id, "Paused", &format!("{why}; something else still holds it"));
            }
        }
    }

    fn log_pause(&mut self, id: &RolloutId, word: &str, why: &str) {
        let (from, to) = (word.to_owned(), word.to_owned());
        self.log(id, RolloutEvent::State { from, to, why: why.to_owned() });
    }
}
