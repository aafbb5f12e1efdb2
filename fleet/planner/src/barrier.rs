//! Barriers: nodes of a unit wait for each other between steps, and go back together when one of them has to.

use drydock_plan::{Course, Reason, RolloutEvent, Step, Visit, VisitEnd, WaveState};

use crate::{pass::Pass, units::Unit};

impl Pass<'_> {
    /// The step is done. A node alone goes on; one of several waits for the others of its unit.
    pub(crate) fn arrive(&mut self, i: usize) {
        if let Some(visit) = &mut self.edit(i).visit {
            visit.arrived = true;
        }
    }

    /// Lets units cross: all nodes that are still on their way forward must have arrived at the same step or be
    /// beyond it. Nodes that turned back or leave don't hold the others, except at the fence of an atomic unit.
    pub(crate) fn cross_barriers(&mut self) {
        let visiting = self.visiting();
        let leaving: Vec<_> = visiting.iter().filter_map(|&i| self.leaves_with_unit(i, &visiting)).collect();
        for (i, why, end) in leaving {
            self.log_given_back(i, &why);
            self.leave(i, end);
        }
        for &i in &visiting {
            let Some(visit) = self.rec(i).visit.clone() else { continue };
            if !visit.arrived || matches!(visit.course, Course::Out(_)) {
                continue;
            }
            let members = self.unit_members(&visiting, &visit.rollout, &visit.unit);
            let behind = members.iter().find(|&&j| j != i && self.holds_unit(j, &visit));
            match behind {
                Some(&j) => {
                    let waits_for = self.frame.nodes[j].id.clone();
                    self.wait(i, Reason::UnitBarrier { unit: visit.unit.clone(), waits_for });
                }
                None if visit.step == Step::Preflight => self.cross_to_cordon(i, &visit, &members, &visiting),
                None => self.cross(i, &visit.step),
            }
        }
    }

    fn holds_unit(&self, j: usize, mine: &Visit) -> bool {
        let Some(other) = &self.rec(j).visit else { return false };
        let (theirs, ours) = (other.step.stage(), mine.step.stage());
        if mine.step == Step::Verify {
            // A check of the whole unit is about nodes that run the same. Who is at it already doesn't hold the rest.
            return other.course == mine.course && theirs < ours;
        }
        match other.course {
            Course::Out(_) => false,
            // Whether it goes back alone or takes the unit with it isn't known yet.
            Course::Back => mine.atomic && mine.step == Step::Fence && mine.course == Course::Forward,
            Course::Forward => theirs < ours || (theirs == ours && !other.arrived),
        }
    }

    /// A unit is given back as a whole: what is still untouched goes with the node of it that goes. In a domain that
    /// has to move as one that is any node that goes; a job is only given back with a node that couldn't be emptied, since
    /// one that is left out for good (it failed before the change, a person said so) doesn't run the rest any more.
    fn leaves_with_unit(&self, i: usize, visiting: &[usize]) -> Option<(usize, String, VisitEnd)> {
        let visit = self.rec(i).visit.as_ref()?;
        if !self.untouched(i, visit) {
            return None;
        }
        let members = self.unit_members(visiting, &visit.rollout, &visit.unit);
        let goes = |j: usize| match self.rec(j).visit.as_ref().map(|v| &v.course) {
            Some(Course::Out(end)) => match end {
                VisitEnd::Deferred => Some(VisitEnd::Deferred),
                VisitEnd::GivenBack | VisitEnd::Preexisting => visit.atomic.then_some(VisitEnd::GivenBack),
                VisitEnd::Upgraded | VisitEnd::Reverted => None,
            },
            Some(Course::Forward | Course::Back) | None => None,
        };
        if let Some((mate, end)) = members.iter().filter(|&&j| j != i).find_map(|&j| Some((j, goes(j)?))) {
            let mate = self.frame.nodes[mate].id;
            return Some((i, format!("it moves together with {mate}, which goes back"), end));
        }
        let mate = if visit.atomic { self.missing_mate(i, visit, &members)? } else { return None };
        let mate = self.frame.nodes[mate].id;
        Some((i, format!("it moves together with {mate}, which isn't there"), VisitEnd::GivenBack))
    }

    fn log_given_back(&mut self, i: usize, why: &str) {
        let Some(id) = self.rec(i).visit.as_ref().map(|v| v.rollout.clone()) else { return };
        let node = self.frame.nodes[i].id.clone();
        self.log(&id, RolloutEvent::Deferred { node, why: why.to_owned() });
    }

    /// A node of the domain that should come along and has no visit: it came later, or its own ended.
    fn missing_mate(&self, i: usize, visit: &Visit, members: &[usize]) -> Option<usize> {
        let rollout = self.rollout(&visit.rollout)?;
        let wave = self.rec(i).assignment.as_ref()?.wave;
        let waits = |&j: &usize| {
            let record = self.rec(j);
            let part = record.assignment.as_ref().filter(|a| a.rollout == visit.rollout && a.wave == wave);
            part.is_some_and(|a| {
                a.outcome.is_none()
                    && record.visit.is_none()
                    && record.soak.is_none()
                    && !self.needs(j, &a.target).is_empty()
            })
        };
        let mate = |&j: &usize| self.move_together(i, j, &rollout.strategy.atomic);
        let wave = self.wave_nodes(&visit.rollout, usize::from(wave));
        let found = wave.iter().copied().filter(|j| !members.contains(j)).filter(mate).find(waits)?;
        self.ineligible(found, rollout).is_empty().then_some(found)
    }

    /// Before a unit is cordoned it is asked once more whether it may go: minutes have passed since its reservation. What
    /// isn't admissible any more waits as long as it may prepare, and is given back then; or at once, when it is known that
    /// it can't go by that time.
    fn cross_to_cordon(&mut self, i: usize, visit: &Visit, members: &[usize], visiting: &[usize]) {
        let Some(reason) = self.not_admissible(i, visit, members, visiting) else {
            self.cross(i, &visit.step);
            return;
        };
        let in_vain = reason.until().is_some_and(|until| until > visit.deadline);
        if self.overdue(visit) || in_vain {
            let why = format!("it may not begin any more ({})", reason.word());
            for &j in members {
                let Some(mate) = self.rec(j).visit.clone() else { continue };
                if self.untouched(j, &mate) {
                    // Should admission see it otherwise, the two don't go round and round.
                    let rest = self.strategy(j).map(|s| s.retry.deferred_cooldown).unwrap_or_default();
                    self.edit(j).not_before = Some(rest.after(self.now()));
                    self.log_given_back(j, &why);
                    self.leave(j, VisitEnd::GivenBack);
                }
            }
            return;
        }
        self.wake_at(visit.deadline);
        self.wait(i, reason);
    }

    /// What speaks against cordoning a unit now: its rollout, its wave, calendars, floors.
    fn not_admissible(
        &mut self,
        i: usize,
        visit: &Visit,
        members: &[usize],
        visiting: &[usize],
    ) -> Option<Reason> {
        let rollout = self.rollout(&visit.rollout).cloned()?;
        let w = usize::from(self.rec(i).assignment.as_ref()?.wave);
        let wave = rollout.waves.get(w)?;
        let open =
            rollout.waves.iter().find(|w| !matches!(w.state, WaveState::Complete | WaveState::Skipped));
        if let Some(reason) = self.rollout_holds(&rollout, w, visiting) {
            return Some(match reason {
                Reason::WavePending { wave, after } => {
                    let after = open.map_or(after, |open| open.name.clone());
                    Reason::WavePending { wave, after }
                }
                other => other,
            })
            .filter(|_| wave.state != WaveState::Complete);
        }
        let (p50, p90) = self.estimate(i, &rollout);
        let spent = drydock_spec::Period::between(visit.since, self.now()).as_millis();
        let rest = |usual: drydock_spec::Period| {
            drydock_spec::Period::from_millis(
                usual.as_millis().saturating_sub(spent.min(PREPARED.as_millis())),
            )
        };
        let movement = self.movement(i, &rollout, (rest(p50), rest(p90)));
        let pool = self.frame.nodes[i].pool;
        if let Some(reason) = pool.and_then(|pool| self.closed(i, pool, movement)) {
            return Some(reason);
        }
        let unit =
            Unit { id: visit.unit.clone(), nodes: members.to_vec(), atomic: visit.atomic, gangs: Vec::new() };
        let asking = self.asking(&unit, &rollout);
        self.floor_broken(members, asking)
    }

    fn cross(&mut self, i: usize, step: &Step) {
        match step {
            Step::Preflight => self.go(i, Step::Cordon),
            Step::Cordon => self.go(i, Step::Checkpoint),
            Step::Checkpoint => self.go(i, Step::Drain),
            Step::Drain => {
                if let Some(visit) = &mut self.edit(i).visit {
                    visit.drained = true;
                }
                self.go_apply_or_verify(i);
            }
            Step::Verify => self.go(i, Step::Verify),
            Step::Fence => self.leave(i, VisitEnd::Upgraded),
            // These steps never wait for a unit.
            Step::Apply(_) | Step::Return => {}
        }
    }
}

/// So much of a usual visit lies before its cordon: two minutes of prefetch, and as much for checks on what is there.
const PREPARED: drydock_spec::Period = drydock_spec::Period::from_mins(4);
