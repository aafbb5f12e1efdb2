//! Nodes that serve again and are watched. A timer alone is no soak: health is looked at on every pass.

use drydock_plan::{Course, FailureClass, Gathered, NodeOutcome, Reason, RolloutRecord, Soak, Step, UnitId};
use drydock_spec::{ClusterName, ForeignCordon, Period};

use crate::{budgets::Asking, pass::Pass, units::Unit};

/// A kubelet that restarts is not ready for some seconds; five minutes are an outage.
const NOT_READY_GRACE: Period = Period::from_mins(5);

/// How exactly the clock of a soak is set back while another node changes what the cluster has once: the shortest soaks
/// are some ten minutes, and each setting is a write for each node that soaks.
const CLOCK_STEP: Period = Period::from_mins(1);

/// Times a node may be not ready for a moment in one soak. Once is a kubelet that was restarted, twice may be chance; a
/// third time in the same soak is something that takes the node away again and again, each time too short for an outage.
const SPELLS_MAX: u32 = 3;

/// Times a node that was taken out may return because its checks pass. A fault that comes a second time isn't settled by
/// checks that can't see it: the node goes back, and the ways part there.
const CLEARED_MAX: u32 = 1;

impl Pass<'_> {
    pub(crate) fn step_soaking(&mut self) {
        let soaking: Vec<usize> =
            (0..self.frame.nodes.len()).filter(|&i| self.rec(i).soak.is_some()).collect();
        for i in soaking {
            let Some(soak) = self.rec(i).soak.clone() else { continue };
            let Some(rollout) = self.rollouts.get(&soak.rollout).cloned() else {
                // Its rollout has ended: what is left is an ordinary node.
                self.edit(i).soak = None;
                continue;
            };
            self.step_soak(i, &soak, &rollout);
        }
        self.step_done();
    }

    fn step_soak(&mut self, i: usize, soak: &Soak, rollout: &RolloutRecord) {
        let now = self.now();
        if let Some((since, error)) = self.frame.stale(i).cloned() {
            if let Ok(cluster) = self.frame.nodes[i].id.cluster().parse::<ClusterName>() {
                self.wait(i, Reason::ClusterUnreachable { cluster, since, error });
            }
            return;
        }
        if self.frame.nodes[i].pool.is_none() {
            self.take_out(i);
            return;
        }
        let differs = self.needs(i, &soak.target);
        if !differs.is_empty() {
            let only_shared = differs.iter().all(|item| self.shared_name(item).is_some());
            if let Some(reason) = self.in_transit(i, &soak.target, &[]).filter(|_| only_shared) {
                // Another node is just bringing it, or takes it back: neither good nor bad, and no time that counts.
                if CLOCK_STEP.after(soak.since) <= now {
                    self.edit(i).soak = Some(Soak { since: now, ..soak.clone() });
                }
                self.wait(i, reason);
                return;
            }
            // It doesn't run what it soaked for any more: that is no soak. It takes its turn again.
            let rest = rollout.strategy.retry.deferred_cooldown.after(now);
            let record = self.edit(i);
            record.soak = None;
            record.incidents += 1;
            record.not_before = Some(rest);
            return;
        }
        let obs = self.frame.nodes[i].obs;
        let mut soak = soak.clone();
        if obs.ready && obs.ready_since > soak.since {
            // It was away for a moment: that is no time in which it was good, and too many of them are a fault.
            (soak.since, soak.spells) = (obs.ready_since, soak.spells.saturating_add(1));
            self.edit(i).soak = Some(soak.clone());
        }
        if let Some(text) = self.health_fault(i, &soak) {
            self.readmit(i, &soak, rollout, text);
            return;
        }
        if !obs.ready {
            // Too short to be a fault so far, and still no time in which it was good.
            return;
        }
        let wave = self.rec(i).assignment.as_ref().map_or(0, |a| usize::from(a.wave));
        let spec = rollout.strategy.waves.get(wave).map(|w| w.soak).unwrap_or_default();
        let until = spec.time.after(soak.since);
        if now < until {
            self.wait(i, Reason::Soaking { until });
        } else if self.wave_has_seen_enough(rollout, wave) {
            self.soaked(i, &soak);
        }
    }

    fn soaked(&mut self, i: usize, soak: &Soak) {
        let now = self.now();
        let left = self.rollout(&soak.rollout).is_some_and(|r| r.kind.is_way_back());
        let gathered = self.gathered(i, soak);
        let record = self.edit(i);
        if record.last_known_good.as_ref() != Some(&soak.target) {
            let good = record.last_known_good.replace(soak.target.clone());
            // Without anything that was proven it goes back to what it ran.
            // And what somebody went back from is nothing to go back to.
            record.previous_good = good.or_else(|| Some(soak.from.clone())).filter(|_| !left);
        }
        record.soak = None;
        record.skipped = None;
        if let Some(a) = &mut record.assignment {
            a.outcome = Some(NodeOutcome::Done);
            a.ended = Some(now);
            a.gathered = gathered;
        }
    }

    /// A fault that began since the release was given to it. One that was there when it returned counts as well: its checks
    /// may have been over by then, or couldn't see it.
    fn health_fault(&mut self, i: usize, soak: &Soak) -> Option<String> {
        let obs = self.frame.nodes[i].obs;
        if let Some(fault) = self.fault_since(i, soak.given.unwrap_or(soak.since)) {
            return Some(format!("{} while it soaked", fault.kind));
        }
        if soak.spells >= SPELLS_MAX {
            return Some(format!("not ready {} times while it soaked", soak.spells));
        }
        if obs.ready {
            return None;
        }
        let due = NOT_READY_GRACE.after(obs.ready_since.max(soak.since));
        if self.now() >= due {
            return Some("not ready while it soaked".to_owned());
        }
        self.wake_at(due);
        None
    }

    /// Takes a watched node out again, at once: it adds nothing to a floor if it is broken already, and needs only a
    /// place in flight.
    pub(crate) fn readmit(&mut self, i: usize, soak: &Soak, rollout: &RolloutRecord, text: String) {
        // What has failed on its pool by now isn't given another try: then the only way is back.
        let pool = self.rec(i).assignment.as_ref().map(|a| a.pool.clone());
        let failed = pool.and_then(|pool| self.quarantined(&pool, &soak.target));
        if let Some(id) = failed.clone().filter(|_| !self.can_go_back(i, &soak.from)) {
            self.wait(i, Reason::ReleaseQuarantined { release: soak.target.release.clone(), rollout: id });
            return;
        }
        let asking = Asking { reason: drydock_spec::Reason::Upgrade, boost: 0 };
        let id = UnitId::new(self.frame.nodes[i].id.as_str());
        let unit = Unit { id, nodes: vec![i], atomic: false, gangs: Vec::new() };
        let foreign = &self.frame.nodes[i].obs.cordon.foreign;
        let waits = rollout.strategy.foreign_cordon == ForeignCordon::Wait;
        let held = foreign.as_ref().filter(|_| waits).map(|by| Reason::ForeignCordon { by: by.clone() });
        let mut refused: Vec<Reason> = held.into_iter().collect();
        refused.extend(self.spread_reasons(&unit, rollout));
        refused.extend(self.budget_reasons(&[i], asking, true));
        if let Some(reason) = refused.into_iter().next() {
            self.wait(i, reason);
            return;
        }
        self.count_reservation(i);
        let cleared = self.rec(i).assignment.as_ref().map_or(0, |a| a.taken_out);
        let again = cleared >= CLEARED_MAX && self.can_go_back(i, &soak.from);
        let record = self.edit(i);
        record.soak = None;
        if let Some(a) = &mut record.assignment {
            a.taken_out = a.taken_out.saturating_add(1);
        }
        self.reserve(i, rollout, &unit, Step::Cordon);
        if let Some(visit) = &mut self.edit(i).visit {
            visit.from = soak.from.clone();
            visit.failed_rounds = 1;
            if failed.is_some() || again {
                (visit.course, visit.failed_rounds) = (Course::Back, 0);
            }
            // Checks that passed on the release although it was there won't tell on the other one either.
            visit.untold = again;
        }
        self.remember(&soak.from.release);
        self.note_evidence(i, FailureClass::Health, soak.target.clone(), None, text);
    }

    /// Node-hours and jobs that the wave has to gather before its nodes count as soaked.
    fn wave_has_seen_enough(&mut self, rollout: &RolloutRecord, wave: usize) -> bool {
        let spec = rollout.strategy.waves.get(wave).map(|w| w.soak).unwrap_or_default();
        if spec.min_node_hours == 0 && spec.min_jobs_passed == 0 {
            return true;
        }
        let (hours, jobs) = self.wave_experience(rollout, wave);
        let name = rollout.waves.get(wave).map(|w| w.name.clone());
        let key = (Some(rollout.id.clone()), u16::try_from(wave).unwrap_or(u16::MAX));
        let Some(wave) = name else { return true };
        let mut reason = None;
        if hours < spec.min_node_hours {
            reason = Some(Reason::WaveNodeHours { wave, have: hours, need: spec.min_node_hours });
        } else if jobs < spec.min_jobs_passed {
            reason = Some(Reason::WaveJobs { wave, have: jobs, need: spec.min_jobs_passed });
        }
        let enough = reason.is_none();
        if let Some(reason) = reason {
            // Hours gather by themselves, and jobs end without anybody telling: look again in an hour of one node.
            self.wake_at(Period::from_hours(1).after(self.now()));
            self.wait_many(key, reason, 1, None);
        }
        enough
    }

    /// What the nodes of a wave have gathered on its release: those that soak, so far, and those that are through.
    fn wave_experience(&self, rollout: &RolloutRecord, wave: usize) -> (u32, u32) {
        let (mut millis, mut jobs) = (0u64, 0u64);
        for &i in self.wave_nodes(&rollout.id, wave).iter() {
            let record = self.rec(i);
            let through = record.assignment.as_ref().map(|a| a.gathered).unwrap_or_default();
            let gathered = record.soak.as_ref().map_or(through, |soak| self.gathered(i, soak));
            millis = millis.saturating_add(gathered.millis);
            jobs = jobs.saturating_add(gathered.jobs);
        }
        (u32::try_from(millis / 3_600_000).unwrap_or(u32::MAX), u32::try_from(jobs).unwrap_or(u32::MAX))
    }

    /// What a node has gathered in this soak.
    fn gathered(&self, i: usize, soak: &Soak) -> Gathered {
        let passed = self.frame.nodes[i].obs.work.jobs_passed;
        Gathered {
            millis: Period::between(soak.since, self.now()).as_millis(),
            jobs: passed.saturating_sub(soak.jobs_at_start),
        }
    }
}
