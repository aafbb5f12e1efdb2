//! What people want of a rollout: by command, or by a `RolloutControl` in Git.

use std::sync::Arc;

use drydock_plan::{
    Command, CommandKind, LedgerChange, NodeId, PauseReason, RolloutId, RolloutRecord, RolloutState,
    SkipReason, VisitEnd,
};
use drydock_spec::ControlState;

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
    fn obey(&mut self, command: &Command) -> bool {
        let by = format!("{}: {}", command.by, command.reason);
        match &command.what {
            CommandKind::Pause { rollout } => {
                self.pause(rollout, by);
                true
            }
            CommandKind::Resume { rollout } => {
                if self.rollout(rollout).is_some_and(|r| may_resume(&r.state)) {
                    self.excuse(rollout);
                    self.set_state(rollout, RolloutState::Running, &by);
                } else {
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
            CommandKind::Skip { node } => self.skip_by_control(node),
            CommandKind::RetryRelease { release } => {
                let keys: Vec<_> =
                    self.input.ledger.quarantines.keys().filter(|(_, r)| r == release).cloned().collect();
                self.changes.extend(keys.into_iter().map(|(pool, r)| LedgerChange::Release(pool, r)));
                true
            }
            CommandKind::RetryNode { node } => {
                self.lift_quarantine(node);
                true
            }
        }
    }

    fn lift_quarantine(&mut self, node: &NodeId) {
        if let Some(i) = self.frame.find(node)
            && self.rec(i).quarantine.is_some()
        {
            let now = self.now();
            let record = self.intend(i);
            // Somebody's word is no proof: it stays cordoned until its checks have passed.
            if let Some(q) = &mut record.quarantine {
                q.retry = Some(now);
            }
            record.skipped = None;
        }
    }

    fn pause(&mut self, id: &RolloutId, by: String) {
        if self.rollout(id).is_some_and(|r| r.state == RolloutState::Running) {
            let why = by.clone();
            self.set_state(id, RolloutState::Paused(PauseReason::Control { by }), &why);
        }
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

    /// Somebody has asked to leave the node out, and that isn't done yet.
    pub(crate) fn skip_is_asked(&self, i: usize) -> bool {
        let id = self.frame.nodes[i].id;
        let mut commands = self.input.ledger.commands.values().filter(|c| !c.done);
        let mut controls = self.input.fleet.controls.values();
        commands.any(|c| matches!(&c.what, CommandKind::Skip { node } if node == id))
            || controls.any(|c| c.skip.iter().any(|node| node == id.as_str()))
    }

    /// True when nothing is left to do about it.
    fn skip_by_control(&mut self, node: &NodeId) -> bool {
        let Some(i) = self.frame.find(node) else { return true };
        let record = self.rec(i);
        if record.assignment.as_ref().is_none_or(|a| a.outcome.is_some()) || record.soak.is_some() {
            return true;
        }
        match &record.visit {
            None => {
                self.skip(i, SkipReason::Control);
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

    fn take_controls(&mut self) {
        let controls: Vec<_> =
            self.input.fleet.controls.iter().map(|(n, c)| (n.to_string(), c.spec.clone())).collect();
        for (name, control) in &controls {
            let by = format!("git {name}: {}", control.reason.as_deref().unwrap_or("no reason given"));
            for rollout in self.controlled(control) {
                match control.state {
                    ControlState::Run => {}
                    ControlState::Pause => self.pause(&rollout.id, by.clone()),
                    ControlState::Abort => self.abort(&rollout.id, &by),
                }
            }
            for node in &control.skip {
                self.skip_by_control(&NodeId::new(node));
            }
            for retry in &control.retry {
                self.retry_from_git(name, retry);
            }
        }
        self.unpause_from_git(&controls);
    }

    fn controlled(&self, control: &drydock_spec::ControlSpec) -> Vec<Arc<RolloutRecord>> {
        let named = |r: &&Arc<RolloutRecord>| control.rollout.as_ref().is_none_or(|id| id == r.id.as_str());
        self.rollouts
            .values()
            .filter(|r| r.policy == control.policy && !r.state.is_final())
            .filter(named)
            .cloned()
            .collect()
    }

    /// A pause that stood in Git ends when it no longer stands there.
    fn unpause_from_git(&mut self, controls: &[(String, drydock_spec::ControlSpec)]) {
        for id in self.open_ids() {
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            let RolloutState::Paused(PauseReason::Control { by }) = &rollout.state else { continue };
            let still = controls.iter().any(|(_, c)| {
                c.state == ControlState::Pause
                    && c.policy == rollout.policy
                    && c.rollout.as_ref().is_none_or(|r| r == id.as_str())
            });
            if by.starts_with("git ") && !still {
                self.set_state(&id, RolloutState::Running, "the pause is gone from Git");
            }
        }
    }

    /// A retry that stands in Git counts once: what it said is remembered as a command, so that it doesn't lift the
    /// next quarantine as well.
    fn retry_from_git(&mut self, control: &str, retry: &drydock_spec::Retry) {
        let by = format!("git {control}");
        let what = match retry.what.parse() {
            Ok(release) => CommandKind::RetryRelease { release },
            Err(_) => CommandKind::RetryNode { node: NodeId::new(&retry.what) },
        };
        let known = self.input.ledger.commands.values();
        if known.into_iter().any(|c| c.by == by && c.what == what && c.reason == retry.reason) {
            return;
        }
        let command = Command { at: self.now(), by, reason: retry.reason.clone(), what, done: true };
        if self.obey(&command) {
            let added = self.changes.iter().filter(|c| matches!(c, LedgerChange::Command(..))).count() as u64;
            let last = self.input.ledger.commands.keys().next_back().copied().unwrap_or(0);
            self.changes.push(LedgerChange::Command(last + added + 1, command));
        }
    }
}

fn may_resume(state: &RolloutState) -> bool {
    match state {
        RolloutState::Paused(why) => match why {
            PauseReason::Control { .. }
            | PauseReason::Inconclusive { .. }
            | PauseReason::NothingPassed { .. }
            | PauseReason::Deadline => true,
            PauseReason::Aborting { .. } => false,
        },
        RolloutState::Rejected { .. }
        | RolloutState::Running
        | RolloutState::Halted
        | RolloutState::RollingBack
        | RolloutState::Succeeded
        | RolloutState::RolledBack
        | RolloutState::RollbackBlocked
        | RolloutState::Superseded
        | RolloutState::Aborted => false,
    }
}
