//! Nodes that came along from an older rollout. A newer release takes their reservation over and keeps their drain, but
//! it gives them nothing before their wave is open and their batch has room: otherwise a change of mind would carry a
//! release that nobody has proven past its canary.
//!
//! What must hold: such a node serves again untouched, or verified on what it ran before, or it has had its turn.

use drydock_plan::{
    Blame, Course, FailureClass, Reason, RolloutId, RolloutRecord, RolloutState, Visit, VisitEnd,
};

use crate::pass::Pass;

impl Pass<'_> {
    /// It is reserved, and its rollout has given it nothing yet nor let it begin.
    pub(crate) fn is_held(&self, i: usize) -> bool {
        let record = self.rec(i);
        let (Some(visit), Some(a)) = (&record.visit, &record.assignment) else { return false };
        visit.course == Course::Forward
            && visit.step.stage() < 4
            && visit.to == a.target
            && a.batch.is_none()
            && a.exposed.is_none()
    }

    /// An older rollout has half changed it, and this one has given it nothing yet: it can't serve without a check.
    pub(crate) fn is_between(&self, i: usize) -> bool {
        let record = self.rec(i);
        let (Some(visit), Some(a)) = (&record.visit, &record.assignment) else { return false };
        visit.course == Course::Forward && visit.step.stage() < 4 && visit.changed && a.exposed.is_none()
    }

    /// Reserved nodes of a wave that wait for their turn: furthest first, what is half changed before what is only empty.
    pub(crate) fn held(&self, id: &RolloutId, w: usize) -> Vec<usize> {
        let mut held: Vec<usize> =
            self.wave_nodes(id, w).iter().copied().filter(|&i| self.is_held(i)).collect();
        let rank = |v: &Visit| (!v.changed, !v.drained, std::cmp::Reverse(v.step.stage()));
        held.sort_by_key(|&i| self.rec(i).visit.as_ref().map(rank));
        held
    }

    /// Lets held units have their turn, as far as the open batch has room. What is left of it.
    pub(crate) fn turn_of_held(
        &mut self,
        rollout: &RolloutRecord,
        w: usize,
        batch: u32,
        mut room: u32,
    ) -> u32 {
        let visiting = self.visiting();
        for i in self.held(&rollout.id, w) {
            if room == 0 {
                break;
            }
            // One of its unit may have taken it along already.
            let Some(visit) = self.rec(i).visit.clone().filter(|_| self.is_held(i)) else { continue };
            for j in self.unit_members(&visiting, &visit.rollout, &visit.unit) {
                if self.is_held(j)
                    && let Some(a) = &mut self.edit(j).assignment
                {
                    a.batch = Some(batch);
                }
            }
            room -= 1;
            if let Some(wave) = self.edit_rollout(&rollout.id).and_then(|r| r.waves.get_mut(w)) {
                wave.in_batch += 1;
            }
        }
        room
    }

    /// Keeps an empty node for its turn, and gives it back when that doesn't come in time. True while it has to wait.
    pub(crate) fn waits_for_turn(&mut self, i: usize) -> bool {
        if !self.is_held(i) {
            return false;
        }
        let Some(visit) = self.rec(i).visit.clone() else { return false };
        let Some(rollout) = self.rollout(&visit.rollout).cloned() else { return false };
        let since = visit.held_since.unwrap_or(self.now());
        if visit.held_since.is_none()
            && let Some(v) = &mut self.edit(i).visit
        {
            v.held_since = Some(since);
        }
        let until = rollout.strategy.patience.after(since);
        let over = match &rollout.state {
            RolloutState::Running => false,
            RolloutState::Paused(drydock_plan::PauseReason::Aborting { .. }) => true,
            RolloutState::Paused(_) => false,
            RolloutState::Halted
            | RolloutState::RollingBack
            | RolloutState::Rejected { .. }
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => true,
        };
        if over || self.now() >= until {
            self.end_of_hold(i, &visit);
            return true;
        }
        self.wake_at(until);
        let reason = self.turn_reason(i, &rollout);
        self.wait(i, reason);
        true
    }

    /// An empty room costs GPUs: a node that was touched goes back to what it ran before and is checked there, the others
    /// are given back as they are.
    pub(crate) fn end_of_hold(&mut self, i: usize, visit: &Visit) {
        if visit.changed && !self.can_go_back(i, &visit.from) {
            // A part of a release is on it that can't be taken back by itself: neither way is open, and a person looks.
            let text = "it was changed in part, and that can't be taken back".to_owned();
            self.note_evidence(i, FailureClass::Apply, visit.to.clone(), None, text);
            self.quarantine(i, Blame::Node, FailureClass::Apply);
        } else if visit.changed {
            if let Some(v) = &mut self.edit(i).visit {
                v.course = Course::Back;
            }
            self.go_apply_or_verify(i);
        } else {
            self.leave(i, VisitEnd::GivenBack);
        }
    }

    /// Why it isn't its turn.
    fn turn_reason(&self, i: usize, rollout: &RolloutRecord) -> Reason {
        let wave = self.rec(i).assignment.as_ref().map_or(0, |a| usize::from(a.wave));
        let name = |w: usize| rollout.waves.get(w).map(|w| w.name.clone());
        let open = Self::open_wave(rollout);
        if let (Some(open), Some(mine)) = (open.filter(|open| *open != wave), name(wave))
            && let Some(after) = name(open)
        {
            return Reason::WavePending { wave: mine, after };
        }
        if let Some(reason) = self.rollout_holds(rollout, wave, &self.visiting()) {
            return reason;
        }
        if let Some(reason) = self.batch_unsettled(rollout, wave) {
            return reason;
        }
        let (batch, size) = rollout.waves.get(wave).map_or((0, 0), |w| (w.batch, w.batch_size));
        Reason::BatchFull { batch, size, unsettled: 0 }
    }
}
