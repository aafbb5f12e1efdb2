//! Admission: which units are reserved in this pass. Refilling a slot is an admission like any other.

use std::collections::BTreeSet;

use drydock_plan::{
    Course, Reason, RolloutEvent, RolloutId, RolloutRecord, RolloutState, Step, Target, Visit, WaveState,
};
use drydock_spec::{Batch, GatePoint};

use crate::{domain::Domain, pass::Pass, units::Unit};

impl Pass<'_> {
    /// Admits units of every open rollout, one after the other in their turn.
    pub(crate) fn admit(&mut self) {
        let visiting = self.visiting();
        for id in self.turns(&visiting) {
            if let Some(rollout) = self.rollout(&id).cloned() {
                self.admit_rollout(&rollout, &visiting);
            }
        }
        self.partners_stay(&visiting);
    }

    /// A partner that was reserved in this very pass is no partner: it is about to be emptied itself.
    fn partners_stay(&mut self, visiting: &[usize]) {
        for i in self.visiting().into_iter().filter(|i| !visiting.contains(i)) {
            let partner = self.rec(i).visit.as_ref().and_then(|v| v.partner.as_ref());
            let taken = partner.and_then(|p| self.frame.find(p)).is_some_and(|j| self.rec(j).visit.is_some());
            if taken {
                self.choose_partner(i);
            }
        }
    }

    fn admit_rollout(&mut self, rollout: &RolloutRecord, visiting: &[usize]) {
        let Some(w) =
            rollout.waves.iter().position(|w| !matches!(w.state, WaveState::Complete | WaveState::Skipped))
        else {
            return;
        };
        let wave = u16::try_from(w).unwrap_or(u16::MAX);
        let pending = self.pending(&rollout.id, wave);
        let held = !self.held(&rollout.id, w).is_empty();
        if pending.is_empty() && !held {
            return;
        }
        if let Some(reason) = self.rollout_holds(rollout, w, visiting) {
            self.hold_all(&rollout.id, wave, reason, &pending);
            return;
        }
        let Some((batch, mut room)) = self.open_batch(rollout, w, &pending) else { return };
        if held {
            // They are away already, and empty or nearly so.
            room = self.turn_of_held(rollout, w, batch, room);
        }
        self.fill_batch(rollout, wave, batch, room, &pending, visiting);
    }

    /// Nodes of a wave that haven't begun.
    pub(crate) fn pending(&self, id: &RolloutId, wave: u16) -> Vec<usize> {
        let waits = |i: &usize| {
            let r = self.rec(*i);
            r.visit.is_none()
                && r.soak.is_none()
                && r.assignment.as_ref().is_some_and(|a| a.outcome.is_none())
        };
        self.wave_nodes(id, usize::from(wave)).iter().copied().filter(waits).collect()
    }

    fn hold_all(&mut self, id: &RolloutId, wave: u16, reason: Reason, pending: &[usize]) {
        let nodes = u32::try_from(pending.len()).unwrap_or(u32::MAX);
        let example = pending.first().map(|&i| self.frame.nodes[i].id.clone());
        self.wait_many((Some(id.clone()), wave), reason, nodes, example);
    }

    /// Why the rollout as a whole admits nothing.
    pub(crate) fn rollout_holds(
        &self,
        rollout: &RolloutRecord,
        w: usize,
        visiting: &[usize],
    ) -> Option<Reason> {
        match &rollout.state {
            RolloutState::Running => {}
            RolloutState::Paused(why) => return Some(Reason::Paused { why: why.clone() }),
            RolloutState::Halted | RolloutState::RollingBack => {
                let since = rollout.halt.as_ref().map_or(rollout.created, |h| h.at);
                let mine = |&&i: &&usize| self.rec(i).visit.as_ref().is_some_and(|v| v.rollout == rollout.id);
                let in_flight = u32::try_from(visiting.iter().filter(mine).count()).unwrap_or(u32::MAX);
                return Some(Reason::Halted { since, in_flight });
            }
            RolloutState::Rejected { why } => {
                return Some(Reason::Rejected { why: why.join("; ") });
            }
            RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => {
                return Some(Reason::Halted {
                    since: rollout.ended.unwrap_or(rollout.created),
                    in_flight: 0,
                });
            }
        }
        let wave = &rollout.waves[w];
        match wave.state {
            WaveState::Running => {}
            WaveState::GatedBefore if !self.missing_approvals(rollout, w, GatePoint::Before).is_empty() => {
                return self.missing_approvals(rollout, w, GatePoint::Before).into_iter().next();
            }
            // The wave's own step has written down why.
            WaveState::Pending
            | WaveState::GatedBefore
            | WaveState::GatedAfter
            | WaveState::Soaking
            | WaveState::Failed
            | WaveState::Complete
            | WaveState::Skipped => {
                return Some(Reason::WavePending { wave: wave.name.clone(), after: wave.name.clone() });
            }
        }
        let suspect = visiting.iter().find(|&&i| self.is_suspect(i, &rollout.id))?;
        Some(Reason::SuspectUnsettled { node: self.frame.nodes[*suspect].id.clone() })
    }

    /// A failure of this rollout on the node isn't settled yet.
    pub(crate) fn is_suspect(&self, i: usize, id: &RolloutId) -> bool {
        let Some(visit) = &self.rec(i).visit else { return false };
        visit.rollout == *id
            && match visit.course {
                Course::Forward => !visit.evidence.is_empty(),
                Course::Back => true,
                Course::Out(_) => false,
            }
    }

    /// The open batch and how many units it has room for; opens the next one when the last is settled.
    fn open_batch(&mut self, rollout: &RolloutRecord, w: usize, pending: &[usize]) -> Option<(u32, u32)> {
        let wave = u16::try_from(w).unwrap_or(u16::MAX);
        let record = &rollout.waves[w];
        if record.batch > 0 && record.in_batch < record.batch_size {
            if let Some(reason) = self.earlier_unsettled(rollout, w) {
                self.hold_all(&rollout.id, wave, reason, pending);
                return None;
            }
            return Some((record.batch, record.batch_size - record.in_batch));
        }
        if record.batch > 0
            && let Some(reason) = self.batch_unsettled(rollout, w)
        {
            self.hold_all(&rollout.id, wave, reason, pending);
            return None;
        }
        let spec = wave_spec(rollout, w);
        // It grows from successes alone: a batch of which nobody passed proves nothing.
        let grown = record.grown + u32::from(record.batch > 0 && self.batch_passed(rollout, w));
        let size = batch_size(&spec, grown, self.wave_units(rollout, wave));
        let batch = record.batch + 1;
        let name = record.name.clone();
        if let Some(record) = self.edit_rollout(&rollout.id).and_then(|r| r.waves.get_mut(w)) {
            (record.batch, record.batch_size, record.in_batch) = (batch, size, 0);
            record.grown = grown;
        }
        self.log(&rollout.id, RolloutEvent::Batch { wave: name, batch, units: size });
        Some((batch, size))
    }

    /// A cluster that was silent answers again, and nodes of it belong to a batch that the others have left behind: they
    /// are settled before anything is added.
    fn earlier_unsettled(&self, rollout: &RolloutRecord, w: usize) -> Option<Reason> {
        let record = &rollout.waves[w];
        let in_flight = |&&i: &&usize| {
            let part = self.rec(i).assignment.as_ref().and_then(|a| a.batch);
            self.rec(i).visit.is_some()
                && part.is_some_and(|batch| batch < record.batch)
                && !self.is_silent(i, rollout)
        };
        let nodes = self.wave_nodes(&rollout.id, w);
        let earlier = nodes.iter().filter(in_flight).count();
        let unsettled = u32::try_from(earlier).unwrap_or(u32::MAX);
        (unsettled > 0).then_some(Reason::BatchFull {
            batch: record.batch,
            size: record.batch_size,
            unsettled,
        })
    }

    /// Why the next batch doesn't open yet.
    pub(crate) fn batch_unsettled(&self, rollout: &RolloutRecord, w: usize) -> Option<Reason> {
        let record = &rollout.waves[w];
        let soak = rollout.strategy.waves.get(w).map(|s| s.soak).unwrap_or_default();
        let (mut unsettled, mut until) = (0, None);
        for &i in self.wave_nodes(&rollout.id, w).iter() {
            let r = self.rec(i);
            let Some(a) = &r.assignment else { continue };
            if a.batch != Some(record.batch) {
                continue;
            }
            // What became of a node whose cluster is silent isn't known, and nobody waits for it for ever.
            if a.outcome.is_some() || self.is_silent(i, rollout) {
                continue;
            }
            match &r.soak {
                Some(s) if soak.per_batch => until = until.max(Some(soak.time.after(s.since))),
                Some(_) => {}
                None => unsettled += 1,
            }
        }
        match (unsettled, until) {
            (0, None) => None,
            (0, Some(until)) => Some(Reason::BatchSoak { batch: record.batch, until }),
            (n, _) => Some(Reason::BatchFull { batch: record.batch, size: record.batch_size, unsettled: n }),
        }
    }

    /// Units of a wave: its atomic domains, or its nodes.
    fn wave_units(&self, rollout: &RolloutRecord, wave: u16) -> u32 {
        let members = self.wave_nodes(&rollout.id, usize::from(wave));
        let domains: BTreeSet<(Option<Domain<'_>>, Option<usize>)> = match rollout.strategy.atomic.first() {
            None => return u32::try_from(members.len()).unwrap_or(u32::MAX),
            Some(key) => members
                .iter()
                .map(|&i| match self.frame.domain(i, *key) {
                    Some(domain) => (Some(domain), None),
                    None => (None, Some(i)),
                })
                .collect(),
        };
        u32::try_from(domains.len()).unwrap_or(u32::MAX)
    }

    fn fill_batch(
        &mut self,
        rollout: &RolloutRecord,
        wave: u16,
        batch: u32,
        mut room: u32,
        pending: &[usize],
        visiting: &[usize],
    ) {
        let mut eligible = Vec::with_capacity(pending.len());
        for &i in pending {
            let reasons = self.ineligible(i, rollout);
            match reasons.into_iter().next() {
                Some(reason) => self.wait(i, reason),
                None => eligible.push(i),
            }
        }
        let mut units = self.units(&eligible, &rollout.strategy);
        let salt = rollout.targets.values().next().map_or(String::new(), ToString::to_string);
        self.sort_units(&mut units, &rollout.strategy, &salt);
        // Whoever has waited too long for room goes first, before even what is broken.
        units.sort_by_key(|u| self.is_due(rollout, &u.id).is_none());
        let mut clusters = self.clusters_in_flight(rollout, visiting);
        let mut alone = self.awaits_a_success(rollout, visiting);
        let left_out = self.left_out(rollout);
        let (mut waiting, mut passed_over) = (Vec::new(), Vec::new());
        for unit in units {
            if self.unit_is_torn(&unit, rollout, &left_out) {
                continue;
            }
            let reason = if room == 0 {
                Some(Reason::BatchFull { batch, size: batch_full_size(self, rollout, wave), unsettled: 0 })
            } else if let Some(reason) = &alone {
                Some(reason.clone())
            } else {
                let own = self.unit_reasons(&unit, rollout, &clusters, false).into_iter().next();
                own.or_else(|| self.head_reason(&unit, rollout))
            };
            match reason {
                None => {
                    room -= 1;
                    clusters.extend(unit.nodes.iter().map(|&i| self.frame.nodes[i].id.cluster().to_owned()));
                    self.reserve_unit(&unit, rollout, wave, batch);
                    alone = self.awaits_a_success(rollout, &self.visiting());
                }
                Some(reason) => {
                    waiting.push(unit.id.clone());
                    if Self::for_room(&reason) && self.is_large(&unit) && self.may_fit(&unit, rollout) {
                        passed_over.push(unit.id.clone());
                    }
                    self.note_jobs(&unit, rollout, &reason);
                    for &i in &unit.nodes {
                        self.wait(i, reason.clone());
                    }
                }
            }
        }
        self.keep_line(rollout, &waiting, &passed_over);
    }

    /// Whether the unit fits once everything is back. One that can never fit holds nobody up.
    fn may_fit(&mut self, unit: &Unit, rollout: &RolloutRecord) -> bool {
        let asking = self.asking(unit, rollout).reason;
        self.never_fits(&unit.nodes, asking).is_none()
    }

    fn reserve_unit(&mut self, unit: &Unit, rollout: &RolloutRecord, wave: u16, batch: u32) {
        for &i in &unit.nodes {
            self.count_reservation(i);
            self.lay_down(i);
            // What is there wasn't verified, so nothing is learnt from checking it first, and it isn't given back as untouched.
            let unexplained = self.is_unexplained(i);
            self.reserve(i, rollout, unit, if unexplained { Step::Cordon } else { Step::Preflight });
            if let Some(visit) = self.edit(i).visit.as_mut().filter(|_| unexplained) {
                visit.changed = true;
            }
            if let Some(a) = &mut self.edit(i).assignment {
                a.batch = Some(batch);
            }
        }
        if let Some(w) = self.edit_rollout(&rollout.id).and_then(|r| r.waves.get_mut(usize::from(wave))) {
            w.in_batch += 1;
        }
        self.note_served(&rollout.id);
    }

    /// Writes the reservation of a node. It is durable before anything is done to the node.
    pub(crate) fn reserve(&mut self, i: usize, rollout: &RolloutRecord, unit: &Unit, step: Step) {
        let now = self.now();
        let obs = self.frame.nodes[i].obs;
        let Some(to) = self.rec(i).assignment.as_ref().map(|a| a.target.clone()) else { return };
        let from = self.way_back(i, &to);
        self.take_up(i, &to);
        self.remember(&to.release);
        self.remember(&from.release);
        let partner = self.partner(i, None);
        let record = self.intend(i);
        let quarantined = record.quarantine.take().map(Box::new);
        record.epoch = record.epoch.next();
        record.not_before = None;
        record.visit = Some(Visit {
            rollout: rollout.id.clone(),
            since: now,
            unit: unit.id.clone(),
            atomic: unit.atomic,
            from,
            to,
            course: Course::Forward,
            step: step.clone(),
            step_since: now,
            deadline: now,
            attempt: 1,
            not_before: None,
            boot_id: obs.boot_id,
            arrived: false,
            passes: 0,
            drained: false,
            foreign_cordon: obs.cordon.foreign.is_some(),
            lost_since: None,
            evidence: Vec::new(),
            partner,
            inconclusive: 0,
            changed: false,
            held_since: None,
            fights: 0,
            ends: None,
            failed_rounds: 0,
            untold: false,
            quarantined,
        });
        self.renew_deadline(i);
    }

    /// Where a node goes back to: what it was last healthy on, else what it runs now.
    fn way_back(&self, i: usize, to: &Target) -> Target {
        let obs = self.frame.nodes[i].obs;
        let observed =
            Target { release: obs.running.id.clone(), layout: to.layout.as_ref().and(obs.layout.clone()) };
        match &self.rec(i).last_known_good {
            Some(good) if good != to => good.clone(),
            Some(_) | None => observed,
        }
    }
}

fn batch_full_size(pass: &Pass<'_>, rollout: &RolloutRecord, wave: u16) -> u32 {
    pass.rollout(&rollout.id).and_then(|r| r.waves.get(usize::from(wave))).map_or(0, |w| w.batch_size)
}

pub(crate) fn wave_spec(rollout: &RolloutRecord, w: usize) -> Batch {
    rollout.strategy.waves.get(w).map(|s| s.batch).unwrap_or_default()
}

/// Size of the batch after `done` batches: start, start*grow, … never above max, never below one.
pub(crate) fn batch_size(batch: &Batch, done: u32, units: u32) -> u32 {
    let start = f64::from(batch.start.floor_of(units).max(1));
    let max = batch.max.map_or(start, |m| f64::from(m.floor_of(units).max(1)));
    // 40 doublings pass every fleet; the bound keeps the power finite.
    let grown = start * batch.grow.max(1.0).powi(i32::try_from(done.min(40)).unwrap_or(40));
    grown.min(max.max(1.0)).floor() as u32
}

#[cfg(test)]
mod tests {
    use drydock_spec::Amount;

    use super::*;

    #[test]
    fn batches_grow_to_their_cap() {
        let batch = Batch { start: Amount::Count(4), grow: 2.0, max: Some(Amount::Percent(500)) };
        let sizes: Vec<u32> = (0..5).map(|done| batch_size(&batch, done, 400)).collect();
        assert_eq!(sizes, [4, 8, 16, 20, 20]);
        assert_eq!(batch_size(&Batch::default(), 7, 400), 1, "the careful default never grows");
    }
}
