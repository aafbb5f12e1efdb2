//! Ends: of visits, and of rollouts.

use drydock_plan::{
    Blame, HaltLimit, NodeOutcome, PauseReason, RolloutEvent, RolloutId, RolloutRecord, RolloutState,
    SkipReason, Soak, VisitEnd, WaveState,
};
use drydock_spec::FailureAction;

use crate::pass::Pass;

/// Times a node is given back because it couldn't be emptied, before it is left out of the rollout.
const DEFERRALS_MAX: u32 = 3;

impl Pass<'_> {
    /// Gives a node back untouched, to come again later, and says why.
    pub(crate) fn defer(&mut self, i: usize, why: &str) {
        let record = self.rec(i);
        let Some(id) = record.visit.as_ref().map(|v| v.rollout.clone()) else { return };
        let time = record.assignment.as_ref().map_or(1, |a| a.deferrals.saturating_add(1));
        let node = self.frame.nodes[i].id.clone();
        let why = format!("{why} (time {time} of {DEFERRALS_MAX})");
        self.log(&id, RolloutEvent::Deferred { node, why });
        self.leave(i, VisitEnd::Deferred);
    }

    /// Gives a node back that couldn't be emptied, and leaves it out of this rollout.
    pub(crate) fn give_up(&mut self, i: usize, why: &str) {
        if let Some(a) = &mut self.edit(i).assignment {
            a.deferrals = DEFERRALS_MAX - 1;
        }
        self.defer(i, why);
    }

    /// The node's own cordon is gone: the visit is over, and the reservation with it.
    pub(crate) fn end_visit(&mut self, i: usize, end: VisitEnd) {
        let now = self.now();
        let jobs = self.frame.nodes[i].obs.work.jobs_passed;
        let Some(visit) = self.rec(i).visit.clone() else { return };
        let Some(assignment) = self.rec(i).assignment.clone() else { return };
        let cooldown =
            self.rollout(&visit.rollout).map(|r| r.strategy.retry.deferred_cooldown).unwrap_or_default();
        // After a supersession it came back with what the old rollout had begun: its turn is still to come.
        let for_this = visit.to == assignment.target;
        let given = self.given_at(i, &visit);
        let record = self.intend(i);
        record.visit = None;
        record.released = record.epoch;
        match end {
            VisitEnd::Upgraded if for_this => {
                record.soak = Some(Soak {
                    rollout: visit.rollout.clone(),
                    target: visit.to.clone(),
                    from: visit.from.clone(),
                    since: now,
                    jobs_at_start: jobs,
                    given: Some(given),
                    spells: 0,
                });
                self.note_return(&visit.rollout, usize::from(assignment.wave));
                self.note_through(&visit.rollout);
            }
            // What was only half changed by an older rollout, and is back, hasn't had its turn in this one.
            VisitEnd::Reverted if for_this && (assignment.exposed.is_some() || !visit.changed) => {
                if let Some(a) = &mut record.assignment {
                    a.outcome = Some(NodeOutcome::Reverted);
                    a.ended = Some(now);
                }
            }
            VisitEnd::Upgraded | VisitEnd::Reverted | VisitEnd::GivenBack => {
                if let Some(a) = &mut record.assignment {
                    a.batch = None;
                }
                // In this very pass, or admission would take it again before anybody can say so.
                let asked = if end == VisitEnd::GivenBack { self.skip_is_asked(i) } else { None };
                if let Some(by) = asked {
                    self.skip_for(i, by);
                } else if end == VisitEnd::GivenBack && self.is_nobodys(i) {
                    self.take_out(i);
                    let node = self.frame.nodes[i].id.clone();
                    let why = "no pool asks for it any more".to_owned();
                    self.log(&visit.rollout, RolloutEvent::Skipped { node, why });
                } else if end == VisitEnd::GivenBack && self.is_kept_only(i) {
                    self.skip(i, SkipReason::RolloutEnded);
                }
            }
            VisitEnd::Preexisting => self.skip(i, SkipReason::Preexisting),
            VisitEnd::Deferred => {
                let deferrals = assignment.deferrals.saturating_add(1);
                record.not_before = Some(cooldown.after(now));
                if let Some(a) = &mut record.assignment {
                    a.deferrals = deferrals;
                    a.batch = None;
                }
                self.note_given_back(&visit.rollout, cooldown);
                if deferrals >= DEFERRALS_MAX {
                    self.skip(i, SkipReason::Undrainable);
                }
            }
        }
    }

    fn note_return(&mut self, id: &RolloutId, wave: usize) {
        let now = self.now();
        if let Some(rollout) = self.edit_rollout(id) {
            rollout.consecutive = 0;
            if let Some(w) = rollout.waves.get_mut(wave) {
                w.last_return = Some(now);
            }
        }
    }

    /// Ends rollouts whose time has come.
    pub(crate) fn finish_rollouts(&mut self) {
        for id in self.open_ids() {
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            let in_flight = (0..self.frame.nodes.len())
                .any(|i| self.rec(i).visit.as_ref().is_some_and(|v| v.rollout == id));
            match &rollout.state {
                RolloutState::Running => {
                    let over = |w: &drydock_plan::WaveRecord| {
                        matches!(w.state, WaveState::Complete | WaveState::Skipped)
                    };
                    if !in_flight && rollout.waves.iter().all(over) {
                        self.end_well(&rollout);
                    }
                }
                RolloutState::Paused(PauseReason::Aborting { by }) if !in_flight => {
                    let by = by.clone();
                    self.close(&id, RolloutState::Aborted, &by);
                }
                RolloutState::Halted if !in_flight => self.after_halt(&rollout),
                RolloutState::RollingBack => self.follow_child(&rollout),
                RolloutState::Paused(_)
                | RolloutState::Halted
                | RolloutState::Rejected { .. }
                | RolloutState::Succeeded
                | RolloutState::RolledBack
                | RolloutState::RollbackBlocked
                | RolloutState::Superseded
                | RolloutState::Aborted => {}
            }
        }
    }

    /// All waves are over. It has succeeded if something of it runs what it should, and says how much doesn't.
    fn end_well(&mut self, rollout: &RolloutRecord) {
        let (state, why) = self.end_of_waves(rollout);
        self.close(&rollout.id, state, &why);
    }

    fn after_halt(&mut self, rollout: &RolloutRecord) {
        if rollout.kind.is_automatic() {
            // Depth one: the way back of a way back is a person's.
            self.close(
                &rollout.id,
                RolloutState::RollbackBlocked,
                "the release it goes back to fails as well",
            );
            return;
        }
        let lost = matches!(rollout.halt.as_ref().map(|h| &h.limit), Some(HaltLimit::Lost { .. }));
        let proven = rollout.failures.iter().any(|f| f.blame == Blame::Version);
        match rollout.strategy.on_failure.action {
            FailureAction::Halt => {}
            // Without a node that got well again on what it ran before, going back may be as bad: a person decides.
            FailureAction::Rollback if lost || !proven => {}
            FailureAction::Rollback => self.go_back(rollout),
        }
    }

    fn follow_child(&mut self, rollout: &RolloutRecord) {
        let Some(child) = &rollout.child else { return };
        match self.rollout(child).map(|c| c.state.clone()) {
            Some(RolloutState::Succeeded) => {
                let summary = self.rollout(child).and_then(|c| c.summary.clone()).unwrap_or_default();
                let (back, all) = (summary.done, summary.nodes.saturating_sub(summary.gone));
                // Who couldn't be taken back is taken back when it can; until then somebody should know.
                match (back, all) {
                    (0, 1..) => self.close(
                        &rollout.id,
                        RolloutState::RollbackBlocked,
                        &format!("none of its {all} nodes could be taken back"),
                    ),
                    (back, all) if back < all => self.close(
                        &rollout.id,
                        RolloutState::RolledBack,
                        &format!("{back} of {all} nodes are back and verified; the others are left out"),
                    ),
                    _ => self.close(&rollout.id, RolloutState::RolledBack, "its nodes are back and verified"),
                }
            }
            Some(
                RolloutState::RollbackBlocked
                | RolloutState::Aborted
                | RolloutState::Rejected { .. }
                | RolloutState::RolledBack
                | RolloutState::Superseded,
            )
            | None => {
                self.close(&rollout.id, RolloutState::RollbackBlocked, "the way back failed as well");
            }
            Some(
                RolloutState::Running
                | RolloutState::Paused(_)
                | RolloutState::Halted
                | RolloutState::RollingBack,
            ) => {}
        }
    }

    /// Ends a rollout: its nodes are ordinary nodes again, and its counts are kept.
    pub(crate) fn close(&mut self, id: &RolloutId, state: RolloutState, why: &str) {
        let summary = self.count_outcomes(id);
        if state == RolloutState::Succeeded {
            self.good_along(id);
        }
        for i in 0..self.frame.nodes.len() {
            if self.rec(i).assignment.as_ref().is_none_or(|a| a.rollout != *id) {
                continue;
            }
            let record = self.edit(i);
            record.assignment = None;
            record.soak = None;
        }
        self.forget_roster();
        if let Some(rollout) = self.edit_rollout(id) {
            // A parent that was closed with counts already keeps them: its nodes went to its child.
            if rollout.summary.is_none() {
                rollout.summary = Some(summary);
            }
            rollout.head_of_line = None;
        }
        self.set_state(id, state, why);
    }
}
