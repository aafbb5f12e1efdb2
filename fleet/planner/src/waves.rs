//! Waves: gates, running, soaking, complete. One wave of a rollout is open at a time.

use std::collections::BTreeSet;

use drydock_plan::{
    CommandKind, NodeOutcome, Reason, RolloutEvent, RolloutId, RolloutRecord, RolloutState, SkipNote,
    SkipReason, WaveState,
};
use drydock_spec::{Gate, GatePoint, TeamName, WaveName};
use jiff::Timestamp;

use crate::pass::Pass;

/// Nodes of a wave by what is left to do with them.
#[derive(Default)]
struct Members {
    total: u32,
    pending: Vec<usize>,
    in_flight: u32,
    soaking: u32,
    soak_until: Option<Timestamp>,
}

impl Pass<'_> {
    pub(crate) fn step_waves(&mut self) {
        for id in self.open_ids() {
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            let running = match rollout.state {
                RolloutState::Running => true,
                RolloutState::Paused(_) => false,
                RolloutState::Halted
                | RolloutState::RollingBack
                | RolloutState::Rejected { .. }
                | RolloutState::Succeeded
                | RolloutState::RolledBack
                | RolloutState::RollbackBlocked
                | RolloutState::Superseded
                | RolloutState::Aborted => continue,
            };
            for w in 0..rollout.waves.len() {
                if !self.step_wave(&id, w, running) {
                    self.later_waves(&id, w);
                    break;
                }
            }
            self.say_what_nobody_passed(&id);
        }
    }

    /// Steps one wave as far as it goes now. True when it is over and the next one may be looked at.
    fn step_wave(&mut self, id: &RolloutId, w: usize, running: bool) -> bool {
        let Some(rollout) = self.rollout(id).cloned() else { return false };
        let Some(wave) = rollout.waves.get(w) else { return false };
        if matches!(wave.state, WaveState::Complete | WaveState::Skipped) {
            return self.wave_reopened(&rollout, w, running);
        }
        let members = self.members(&rollout, w);
        if members.total == 0 {
            self.set_wave(id, w, WaveState::Skipped);
            return true;
        }
        // Who dropped out is replaced at once, not when the others have soaked.
        if running && matches!(wave.state, WaveState::Running | WaveState::Soaking) {
            if self.draw_again(id, w) {
                self.set_wave(id, w, WaveState::Running);
                return false;
            }
            if self.pause_unless_passed(&rollout, w) {
                return false;
            }
        }
        match wave.state {
            WaveState::Pending if running => {
                self.set_wave(id, w, WaveState::GatedBefore);
                self.step_wave(id, w, running)
            }
            WaveState::GatedBefore if running => {
                if !self.gates_open(&rollout, w, GatePoint::Before) {
                    return false;
                }
                self.set_wave(id, w, WaveState::Running);
                self.step_wave(id, w, running)
            }
            WaveState::Pending | WaveState::GatedBefore | WaveState::Failed => false,
            WaveState::Running => {
                if members.in_flight > 0 || !self.left_behind(&rollout, w, &members.pending) {
                    return false;
                }
                self.set_wave(id, w, WaveState::Soaking);
                self.step_wave(id, w, running)
            }
            WaveState::Soaking => self.step_soaking_wave(&rollout, w, &members, running),
            WaveState::GatedAfter => {
                if !self.gates_open(&rollout, w, GatePoint::After) {
                    return false;
                }
                self.set_wave(id, w, WaveState::Complete);
                true
            }
            WaveState::Complete | WaveState::Skipped => true,
        }
    }

    fn step_soaking_wave(
        &mut self,
        rollout: &RolloutRecord,
        w: usize,
        members: &Members,
        running: bool,
    ) -> bool {
        let id = &rollout.id;
        if members.in_flight > 0 || !members.pending.is_empty() {
            self.set_wave(id, w, WaveState::Running);
            return false;
        }
        let soak = rollout.strategy.waves.get(w).map(|s| s.soak).unwrap_or_default();
        let wave = &rollout.waves[w];
        let by_wave = wave.last_return.map(|at| soak.time.after(at));
        let until = by_wave.max(members.soak_until).filter(|at| *at > self.now());
        if let Some(until) = until {
            let reason = Reason::WaveSoak { wave: wave.name.clone(), until };
            self.wait_many(key(id, w), reason, members.soaking, None);
            return false;
        }
        if members.soaking > 0 {
            // Node-hours or jobs are missing; the nodes have said so.
            return false;
        }
        if self.pause_unless_passed(rollout, w) {
            return false;
        }
        self.set_wave(id, w, WaveState::GatedAfter);
        self.step_wave(id, w, running)
    }

    /// A wave that was over has nodes again: they joined late.
    fn wave_reopened(&mut self, rollout: &RolloutRecord, w: usize, running: bool) -> bool {
        let members = self.members(rollout, w);
        if members.in_flight == 0 && members.pending.is_empty() && members.soaking == 0 {
            return true;
        }
        self.set_wave(&rollout.id, w, if running { WaveState::Running } else { WaveState::Pending });
        false
    }

    fn set_wave(&mut self, id: &RolloutId, w: usize, state: WaveState) {
        let now = self.now();
        let Some(wave) = self.edit_rollout(id).and_then(|r| r.waves.get_mut(w)) else { return };
        if wave.state == state {
            return;
        }
        wave.state = state;
        match state {
            WaveState::GatedBefore => _ = wave.gate_before.get_or_insert(now),
            WaveState::GatedAfter => _ = wave.gate_after.get_or_insert(now),
            WaveState::Pending
            | WaveState::Running
            | WaveState::Soaking
            | WaveState::Complete
            | WaveState::Skipped
            | WaveState::Failed => {}
        }
        match state {
            WaveState::Running => {
                wave.started.get_or_insert(now);
                wave.ended = None;
            }
            WaveState::Complete | WaveState::Skipped | WaveState::Failed => wave.ended = Some(now),
            WaveState::Pending | WaveState::GatedBefore | WaveState::Soaking | WaveState::GatedAfter => {}
        }
        let name = wave.name.clone();
        // Gates that nobody stands at are passed in the same instant; they are no event.
        if !matches!(state, WaveState::GatedBefore | WaveState::GatedAfter) {
            self.log(id, RolloutEvent::Wave { wave: name, state });
        }
    }

    fn members(&mut self, rollout: &RolloutRecord, w: usize) -> Members {
        let mut members = Members::default();
        let soak = rollout.strategy.waves.get(w).map(|s| s.soak).unwrap_or_default();
        let (mut there, mut out) = (Vec::new(), Vec::new());
        for &i in self.wave_nodes(&rollout.id, w).iter() {
            let record = self.rec(i);
            let Some(a) = &record.assignment else { continue };
            members.total += 1;
            if record.visit.is_some() {
                members.in_flight += 1;
            } else if let Some(s) = record.soak.as_ref() {
                members.soaking += 1;
                members.soak_until = members.soak_until.max(Some(soak.time.after(s.since)));
            } else if a.outcome.is_none() {
                let node = &self.frame.nodes[i];
                if self.frame.stale(i).is_none() && (node.pool.is_none() || node.contested) {
                    out.push(i);
                } else if self.frame.stale(i).is_none()
                    && self.needs(i, &a.target).is_empty()
                    && !self.is_unexplained(i)
                    // What its cluster has just got may still go back.
                    && self.in_transit(i, &a.target, &[]).is_none()
                {
                    there.push(i);
                } else {
                    members.pending.push(i);
                }
            }
        }
        for i in there {
            self.skip(i, SkipReason::AlreadyThere);
        }
        out.into_iter().for_each(|i| self.take_out(i));
        members
    }

    /// Git or its labels say that it is no member of any pool now, so no budget counts it and nothing may be done to it.
    /// Should it become one again, it is a newcomer.
    pub(crate) fn take_out(&mut self, i: usize) {
        let now = self.now();
        let record = self.edit(i);
        record.soak = None;
        if let Some(a) = &mut record.assignment {
            (a.outcome, a.ended) = (Some(NodeOutcome::Gone), Some(now));
        }
    }

    /// Whether what hasn't begun may be left behind: nodes that somebody else holds or that are broken don't hold a
    /// wave for ever. They are tried again when that changes. A cluster that can't be reached is never left behind.
    fn left_behind(&mut self, rollout: &RolloutRecord, w: usize, pending: &[usize]) -> bool {
        if pending.is_empty() {
            return true;
        }
        let wave = &rollout.waves[w];
        let since = wave.started.max(wave.last_return).unwrap_or(rollout.created);
        let due = rollout.strategy.patience.after(since);
        let Some(reasons) = self.who_must_act(rollout, pending) else { return false };
        if self.now() < due {
            self.wake_at(due);
            return false;
        }
        for (i, reason) in reasons {
            self.skip(i, reason);
        }
        true
    }

    pub(crate) fn held_by_others(&self, i: usize, rollout: &RolloutRecord) -> Option<SkipReason> {
        let held = self.ineligible(i, rollout);
        if held.iter().any(|r| matches!(r, Reason::ClusterUnreachable { .. })) {
            return None;
        }
        match held.first()? {
            Reason::ForeignCordon { .. } => Some(SkipReason::ForeignCordon),
            Reason::NotReady { .. } => Some(SkipReason::NotReady),
            Reason::NodeQuarantined { .. } => Some(SkipReason::Preexisting),
            Reason::Incompatible { .. } => Some(SkipReason::Incompatible),
            _ => None,
        }
    }

    /// Leaves a node out of its rollout.
    pub(crate) fn skip(&mut self, i: usize, reason: SkipReason) {
        let now = self.now();
        let node = self.frame.nodes[i].id.clone();
        let record = self.edit(i);
        let Some(a) = &mut record.assignment else { return };
        a.outcome = Some(NodeOutcome::Skipped(reason.clone()));
        a.ended = Some(now);
        let (rollout, target) = (a.rollout.clone(), a.target.clone());
        let before = record.skipped.as_ref().filter(|n| n.target == target && n.reason == reason);
        let times = before.map_or(0, |n| n.times).saturating_add(1);
        record.skipped = Some(SkipNote { target, reason: reason.clone(), at: now, times, by: None });
        self.log(&rollout, RolloutEvent::Skipped { node, why: reason.text() });
    }

    fn later_waves(&mut self, id: &RolloutId, w: usize) {
        let Some(rollout) = self.rollout(id).cloned() else { return };
        let after = rollout.waves[w].name.clone();
        for (later, wave) in rollout.waves.iter().enumerate().skip(w + 1) {
            let members = self.members(&rollout, later);
            let reason = Reason::WavePending { wave: wave.name.clone(), after: after.clone() };
            if !members.pending.is_empty() {
                let nodes = u32::try_from(members.pending.len()).unwrap_or(u32::MAX);
                self.wait_many(key(id, later), reason, nodes, None);
            }
        }
    }

    /// Whether everybody has agreed who is asked at this gate.
    fn gates_open(&mut self, rollout: &RolloutRecord, w: usize, point: GatePoint) -> bool {
        let missing = self.missing_approvals(rollout, w, point);
        let open = missing.is_empty();
        for reason in missing {
            self.wait_many(key(&rollout.id, w), reason, 0, None);
        }
        open
    }

    /// Who has still to agree at this gate.
    pub(crate) fn missing_approvals(
        &self,
        rollout: &RolloutRecord,
        w: usize,
        point: GatePoint,
    ) -> Vec<Reason> {
        let Some(spec) = rollout.strategy.waves.get(w) else { return Vec::new() };
        let gates = match point {
            GatePoint::Before => &spec.gates.before,
            GatePoint::After => &spec.gates.after,
        };
        let wave = rollout.waves[w].name.clone();
        let missing = |gate: &Gate| {
            let Gate::Approval { team, count } = gate;
            let given = self.approvals(rollout, &wave, point, team).len();
            let given = u32::try_from(given).unwrap_or(u32::MAX);
            let (wave, team, needed) = (wave.clone(), team.clone(), *count);
            (given < needed).then_some(Reason::Approval { wave, gate: point, team, given, needed })
        };
        gates.iter().filter_map(missing).collect()
    }

    /// Different people of a team who have approved this rollout's wave, in Git or by command. An approval of another
    /// commit doesn't count.
    pub(crate) fn approvals(
        &self,
        rollout: &RolloutRecord,
        wave: &WaveName,
        point: GatePoint,
        team: &TeamName,
    ) -> BTreeSet<String> {
        let in_git =
            self.input.fleet.controls.values().filter(|c| c.policy == rollout.policy).flat_map(|c| {
                let names_it = c.rollout.as_deref() == Some(rollout.id.as_str());
                c.approve.iter().filter(move |a| {
                    let this_commit =
                        a.commit.as_deref().is_some_and(|id| same_commit(id, &rollout.commit.id));
                    a.wave == *wave && a.gate == point && a.team == *team && (names_it || this_commit)
                })
            });
        let at_gate = rollout.waves.iter().find(|w| w.name == *wave).and_then(|w| match point {
            GatePoint::Before => w.gate_before,
            GatePoint::After => w.gate_after,
        });
        let by_command = self.input.ledger.commands.values().filter(|c| match &c.what {
            CommandKind::Approve { rollout: id, wave: w, gate, team: t } => {
                // Who agrees before there is anything to look at hasn't looked at it.
                let in_time = at_gate.is_none_or(|at| c.at >= at);
                *id == rollout.id && w == wave && *gate == point && t == team && in_time
            }
            CommandKind::Pause { .. }
            | CommandKind::Resume { .. }
            | CommandKind::Abort { .. }
            | CommandKind::Skip { .. }
            | CommandKind::RetryRelease { .. }
            | CommandKind::RetryNode { .. } => false,
        });
        let one_person = |by: &str| by.trim().to_lowercase();
        in_git.map(|a| one_person(&a.by)).chain(by_command.map(|c| one_person(&c.by))).collect()
    }
}

/// Commit ids are the same when one is a beginning of the other of at least seven characters.
fn same_commit(given: &str, full: &str) -> bool {
    given.len() >= 7 && full.starts_with(given)
}

fn key(id: &RolloutId, w: usize) -> (Option<RolloutId>, u16) {
    (Some(id.clone()), u16::try_from(w).unwrap_or(u16::MAX))
}
