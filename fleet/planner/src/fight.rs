//! Ends of visits that nothing else ends: somebody who undoes what a visit does, again and again, and a visit that takes
//! too long as a whole.

use drydock_plan::{Blame, Blocker, Course, FailureClass, PauseReason, RolloutState, Step, Visit};
use drydock_spec::{OnTimeout, Period, PolicySpec};

use crate::pass::Pass;

/// Times that somebody else may undo what a visit did before it gives way. Once is a hand that meant well, or a machine
/// that was replaced; five times is another controller.
const FIGHTS_MAX: u32 = 5;

/// A visit whose time doesn't count just now gets so much more of it whenever less than half of that is left: one write
/// an hour.
const MORE_TIME: Period = Period::from_hours(2);

impl Pass<'_> {
    /// Somebody undid what the visit did. After some times the node is given back, or kept for a person where it was
    /// changed already; what happens around one node isn't the version's fault. True when the visit is over.
    pub(crate) fn fight(&mut self, i: usize, class: FailureClass, what: &str) -> bool {
        let Some(visit) = &mut self.edit(i).visit else { return true };
        visit.fights = visit.fights.saturating_add(1);
        if visit.fights <= FIGHTS_MAX {
            return false;
        }
        let text = format!("{what}, {FIGHTS_MAX} times: somebody else works on it");
        self.end_for_a_person(i, class, Blame::Node, &text);
        true
    }

    /// Its own cordon is gone though the visit is past that step. It is set again, later each time.
    pub(crate) fn cordon_taken(&mut self, i: usize) {
        if !self.fight(i, FailureClass::Apply, "its cordon is taken away") {
            self.cordon_again(i);
            self.pause_after_fight(i);
        }
    }

    /// The first time nothing is waited for: it may have been a slip. Then longer each time.
    pub(crate) fn pause_after_fight(&mut self, i: usize) {
        let Some(strategy) = self.strategy(i) else { return };
        let Some(fights) = self.rec(i).visit.as_ref().map(|v| v.fights).filter(|n| *n > 1) else { return };
        let doubled = strategy.retry.backoff.as_millis().saturating_mul(1 << (fights - 2).min(20));
        let at = Period::from_millis(doubled.min(strategy.retry.backoff_max.as_millis())).after(self.now());
        if let Some(visit) = &mut self.edit(i).visit {
            visit.not_before = Some(at);
        }
        self.renew_deadline(i);
        self.wake_at(at);
    }

    /// The visit as a whole has taken longer than a visit may. True when it is over.
    pub(crate) fn out_of_time(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec) -> bool {
        // These two end by what others do, who have their own limits.
        if matches!(visit.step, Step::Fence | Step::Return) {
            return false;
        }
        let broken_runner = self
            .rollout(&visit.rollout)
            .is_some_and(|r| matches!(r.state, RolloutState::Paused(PauseReason::Inconclusive { .. })));
        if broken_runner {
            self.more_time(i, visit, strategy);
            return false;
        }
        let ends = ends(visit, strategy);
        if self.now() < ends || self.unknown_since(i, ends) {
            self.wake_at(ends);
            return false;
        }
        let took = Period::between(visit.since, self.now());
        let text = format!("it isn't through after {took}; it was at step {}", visit.step.word());
        self.end_for_a_person(i, FailureClass::Apply, Blame::Unknown, &text);
        true
    }

    /// Time in which nothing can be done for a node doesn't count against its visit.
    pub(crate) fn more_time(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec) {
        let half = Period::from_millis(MORE_TIME.as_millis() / 2);
        if matches!(visit.course, Course::Out(_)) || half.after(self.now()) < ends(visit, strategy) {
            return;
        }
        let ends = MORE_TIME.after(self.now());
        if let Some(visit) = &mut self.edit(i).visit {
            visit.ends = Some(ends);
        }
    }

    fn end_for_a_person(&mut self, i: usize, class: FailureClass, blame: Blame, text: &str) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        if self.untouched(i, &visit) {
            self.defer(i, text);
            return;
        }
        let on = if visit.course == Course::Back { visit.from } else { visit.to };
        self.note_evidence(i, class, on, None, text.to_owned());
        if class == FailureClass::Lost {
            self.lose(i);
        } else {
            self.quarantine(i, blame, class);
        }
    }

    /// Something that will keep the node from being emptied was found before it was cordoned. It is waited for as long
    /// as a drain would wait for it. True when there is nothing else to do with the node now.
    pub(crate) fn bars_the_drain(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        by: &Blocker,
    ) -> bool {
        let drain = &strategy.drain;
        let (patience, then) = match by {
            Blocker::DisruptionBudget(_) => (drain.pdb.wait, drain.pdb.on_blocked),
            Blocker::Unmanaged(_) | Blocker::LocalStorage(_) | Blocker::Protected(_) => {
                (drain.timeout, drain.on_timeout)
            }
            Blocker::Terminating(_) | Blocker::NotReady(_) | Blocker::Refused(_) => return false,
        };
        let until = patience.after(visit.step_since);
        if self.now() < until {
            self.wake_at(until);
            return false;
        }
        let why = format!("{by} would keep it from being emptied, for {patience}");
        match then {
            // The drain goes on all the same, so there is nothing to wait for here.
            OnTimeout::Proceed => self.arrive(i),
            OnTimeout::Defer => self.defer(i, &why),
            OnTimeout::Fail => self.give_up(i, &why),
        }
        true
    }
}

fn ends(visit: &Visit, strategy: &PolicySpec) -> jiff::Timestamp {
    visit.ends.unwrap_or_else(|| strategy.deadline.unit.after(visit.since))
}
