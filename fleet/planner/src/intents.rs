//! What people want of a rollout, by command. What stands in Git is in `controls.rs`.

use drydock_plan::{
    Command, CommandKind, LedgerChange, NodeId, PauseReason, RolloutId, RolloutState, SkipNote, SkipReason,
    VisitEnd,
};

use crate::pass::Pass;

impl Pass<'_> {
    pub(crate) fn take_intents(&mut self) {
        self.take_commands();
        self.take_controls();
    }

    fn take_commands(&mut self) {
        let open: Vec<(u64, Command)> = self
            .input
            .ledger
            .commands
            .iter()
            .filter(|(_, c)| !c.done)
            .map(|(n, c)| (*n, c.clone()))
            .collect();
        for (number, mut command) in open {
            if self.obey(&command) {
                command.done = true;
                self.changes.push(LedgerChange::Command(number, command));
            }
        }
    }

    /// True when the command needn't be looked at again.
    pub(crate) fn obey(&mut self, command: &Command) -> bool {
        let by = format!("{}: {}", command.by, command.reason);
        match &command.what {
            CommandKind::Pause { rollout } => {
                let id = self.acting(rollout);
                self.pause(&id, PauseReason::Control { by: by.clone() }, &by);
                true
            }
            CommandKind::Resume { rollout } => {
                let id = self.acting(rollout);
                self.resume(&id, &by);
                if !self
                    .rollout(rollout)
                    .is_some_and(|r| matches!(r.state, RolloutState::Running | RolloutState::RollingBack))
                {
                    self.go_back_again(rollout);
                }
                true
            }
            CommandKind::Abort { rollout } => {
                self.abort(rollout, &by);
                true
            }
            // Approvals are counted at the gate.
            CommandKind::Approve { .. } => true,
            CommandKind::Skip { node } => self.skip_by_control(node, &by),
            CommandKind::RetryRelease { .. } => {
                let lifted = |(pool, release): &&(_, _)| command.what.retries(pool, release);
                let keys: Vec<_> = self.input.ledger.quarantines.keys().filter(lifted).cloned().collect();
                self.changes.extend(keys.into_iter().map(|(pool, r)| LedgerChange::Release(pool, r)));
                true
            }
            CommandKind::RetryNode { node } => {
                self.retry_node(node);
                true
            }
        }
    }

    /// The rollout that moves nodes: while a halted one is taken back, that is its way back.
    fn acting(&self, id: &RolloutId) -> RolloutId {
        let child =
            self.rollout(id).filter(|r| r.state == RolloutState::RollingBack).and_then(|r| r.child.clone());
        child.unwrap_or_else(|| id.clone())
    }

    /// Somebody says that it goes on. What stands in Git ends when it no longer stands there.
    fn resume(&mut self, id: &RolloutId, by: &str) {
        let now = self.now();
        let ends = |why: &PauseReason| match why {
            PauseReason::Control { .. } => why.control().is_none(),
            PauseReason::Inconclusive { .. } | PauseReason::NothingPassed { .. } | PauseReason::Deadline => {
                true
            }
            PauseReason::Aborting { .. } => false,
        };
        if self.rollout(id).is_some_and(|r| r.pauses().any(ends))
            && let Some(rollout) = self.edit_rollout(id)
        {
            rollout.resumed = Some(now);
        }
        self.excuse(id);
        self.end_pause(id, ends, by);
    }

    /// Ends a rollout: nodes that haven't begun to apply are returned, the others finish and stay.
    pub(crate) fn abort(&mut self, id: &RolloutId, by: &str) {
        let aborts = self.rollout(id).is_some_and(|r| {
            !r.state.is_final() && !matches!(r.state, RolloutState::Paused(PauseReason::Aborting { .. }))
        });
        if aborts {
            let state = RolloutState::Paused(PauseReason::Aborting { by: by.to_owned() });
            self.set_state(id, state, by);
            self.give_back_untouched(id);
            if let Some(child) = self.rollout(id).and_then(|r| r.child.clone()) {
                self.abort(&child, by);
            }
        }
    }

    /// Who has asked to leave the node out, where that isn't done yet.
    pub(crate) fn skip_is_asked(&self, i: usize) -> Option<String> {
        let id = self.frame.nodes[i].id;
        let mut commands = self.input.ledger.commands.values().filter(|c| !c.done);
        let command = commands.find(|c| matches!(&c.what, CommandKind::Skip { node } if node == id));
        command.map(|c| format!("{}: {}", c.by, c.reason)).or_else(|| self.skipped_in_git(id))
    }

    /// Leaves a node out because somebody said so, and remembers who.
    pub(crate) fn skip_for(&mut self, i: usize, by: String) {
        self.skip(i, SkipReason::Control);
        if let Some(note) = &mut self.edit(i).skipped {
            note.by = Some(by);
        }
    }

    /// True when nothing is left to do about it.
    pub(crate) fn skip_by_control(&mut self, node: &NodeId, by: &str) -> bool {
        let Some(i) = self.frame.find(node) else { return true };
        let record = self.rec(i);
        let Some(assignment) = &record.assignment else {
            // What stands in Git is asked again in every pass; a command is heard once.
            if !by.starts_with("git ") {
                self.skip_ahead(i, by);
            }
            return true;
        };
        if assignment.outcome.is_some() || record.soak.is_some() {
            return true;
        }
        match &record.visit {
            None => {
                self.skip_for(i, by.to_owned());
                true
            }
            Some(v) if v.step.stage() < 4 && v.course == drydock_plan::Course::Forward => {
                self.leave(i, VisitEnd::GivenBack);
                false
            }
            // Past the point of no return it finishes; on its way out it is skipped once it is back.
            Some(v) => {
                v.step.stage() >= 4 && !matches!(v.course, drydock_plan::Course::Out(VisitEnd::GivenBack))
            }
        }
    }

    /// It is in no rollout yet: it isn't taken into one to what Git says now.
    fn skip_ahead(&mut self, i: usize, by: &str) {
        let now = self.now();
        let Some(target) =
            self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.target.clone())
        else {
            return;
        };
        let known = self.rec(i).skipped.as_ref();
        let same = known.is_some_and(|n| n.target == target && n.reason == SkipReason::Control);
        if same || self.differences(i, &target).is_empty() {
            return;
        }
        let by = Some(by.to_owned());
        self.edit(i).skipped = Some(SkipNote { target, reason: SkipReason::Control, at: now, times: 1, by });
    }
}
