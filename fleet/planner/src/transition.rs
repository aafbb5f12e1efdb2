//! Moves between the steps of a visit.

use std::sync::Arc;

use drydock_plan::{ApplyItem, Course, NodeId, RolloutId, Step, Visit, VisitEnd};
use drydock_spec::{Check, CheckOn, Disruption, Period, PolicySpec, SuiteSpec};

use crate::{desired, health, judge, order::hash, pass::Pass};

/// Until a cordon is seen. It is one write; five minutes outlast an API server's restart.
const CORDON_PATIENCE: Period = Period::from_mins(5);
/// Beyond the time-outs of the checks themselves: their pods have to be scheduled and pulled.
const CHECK_SLACK: Period = Period::from_mins(5);
/// Patience with re-cutting GPUs: fifteen polls of twenty seconds are one team's limit; this is twice that, since a
/// reset may be needed.
const LAYOUT_PATIENCE: Period = Period::from_mins(10);

impl Pass<'_> {
    pub(crate) fn suite(&self, i: usize) -> Option<Arc<SuiteSpec>> {
        let id = &self.rec(i).visit.as_ref()?.rollout;
        self.rollout(id).map(|r| r.suite.clone())
    }

    /// Goes to a step for the first time.
    pub(crate) fn go(&mut self, i: usize, step: Step) {
        let now = self.now();
        let boot_id = self.frame.nodes[i].obs.boot_id;
        let first_apply = matches!(step, Step::Apply(_));
        if let Some(visit) = &mut self.intend(i).visit {
            visit.step = step;
            visit.step_since = now;
            visit.attempt = 1;
            visit.not_before = None;
            visit.arrived = false;
            visit.passes = 0;
            visit.inconclusive = 0;
            visit.boot_id = boot_id;
            visit.changed |= first_apply;
        }
        if first_apply {
            self.expose(i);
        }
        self.renew_deadline(i);
    }

    /// Tries the present step again, later each time.
    pub(crate) fn again(&mut self, i: usize, strategy: &PolicySpec) {
        let attempt = self.rec(i).visit.as_ref().map_or(1, |v| v.attempt);
        let doubled = strategy.retry.backoff.as_millis().saturating_mul(1 << (attempt - 1).min(20));
        let wait = Period::from_millis(doubled.min(strategy.retry.backoff_max.as_millis()));
        let at = wait.after(self.now());
        if let Some(visit) = &mut self.intend(i).visit {
            visit.attempt = attempt.saturating_add(1);
            visit.not_before = Some(at);
        }
        self.renew_deadline(i);
        self.wake_at(at);
    }

    /// Leaves the visit: own cordon and taint go, with this result.
    pub(crate) fn leave(&mut self, i: usize, end: VisitEnd) {
        if self.back_to_quarantine(i, end) {
            return;
        }
        if let Some(visit) = &mut self.edit(i).visit {
            visit.course = Course::Out(end);
        }
        self.go(i, Step::Return);
    }

    /// The next thing to change on the present course, or the checks when there is none.
    pub(crate) fn go_apply_or_verify(&mut self, i: usize) {
        let Some(visit) = &self.rec(i).visit else { return };
        let target = if visit.course == Course::Back { visit.from.clone() } else { visit.to.clone() };
        let drained = visit.drained;
        let items = self.needs(i, &target);
        match items.first() {
            // A node that isn't checked yet takes no pods: whoever took the cordon away didn't know that.
            None if self.frame.nodes[i].obs.cordon.own.is_none() => self.cordon_taken(i),
            Some(item) if self.needs_cordon(i, item) => self.cordon_taken(i),
            // It came along from an older rollout, and the new one hasn't proven itself.
            None | Some(_) if self.waits_for_turn(i) => {}
            None => {
                self.choose_partner(i);
                self.go(i, Step::Verify);
                if self.checks_together(i) {
                    // At the door of its checks it waits for the others of its unit.
                    self.arrive(i);
                }
            }
            Some(item) if !drained && desired::disruption(self.input.fleet, item) >= Disruption::Drain => {
                self.go(i, Step::Drain);
            }
            Some(item) => self.go(i, Step::Apply(item.clone())),
        }
    }

    /// Some check of it runs on all nodes of its unit at once.
    fn checks_together(&self, i: usize) -> bool {
        let pool = self.pool_of(i);
        let of_group = |check: &Check| check.on == CheckOn::Group && judge::applies(check, pool);
        self.suite(i).is_some_and(|suite| suite.checks.iter().any(of_group))
    }

    /// Its own cordon is gone, though the visit is past that step: somebody uncordoned it, or it is a new machine under
    /// the old name.
    pub(crate) fn needs_cordon(&self, i: usize, item: &ApplyItem) -> bool {
        self.frame.nodes[i].obs.cordon.own.is_none()
            && desired::disruption(self.input.fleet, item) >= Disruption::Drain
    }

    /// Puts the cordon back before anything disruptive; pods may have come in between.
    pub(crate) fn cordon_again(&mut self, i: usize) {
        if let Some(visit) = &mut self.edit(i).visit {
            visit.drained = false;
        }
        self.go(i, Step::Cordon);
    }

    /// Nothing was done to the node yet, neither for this rollout nor for one that held it before.
    pub(crate) fn untouched(&self, i: usize, visit: &Visit) -> bool {
        visit.course == Course::Forward
            && visit.step.stage() < 4
            && !visit.changed
            && self.rec(i).assignment.as_ref().is_none_or(|a| a.exposed.is_none())
    }

    /// Whether anything that is still to be changed makes pods leave.
    pub(crate) fn must_drain(&self, i: usize) -> bool {
        let Some(visit) = &self.rec(i).visit else { return false };
        let drains = |item: &ApplyItem| desired::disruption(self.input.fleet, item) >= Disruption::Drain;
        !visit.drained && self.needs(i, &visit.to).iter().any(drains)
    }

    pub(crate) fn renew_deadline(&mut self, i: usize) {
        let Some(patience) = self.patience(i) else { return };
        let now = self.now();
        if let Some(visit) = &mut self.edit(i).visit {
            visit.deadline = patience.after(visit.not_before.unwrap_or(now).max(now));
            let at = visit.deadline;
            self.wake_at(at);
        }
    }

    /// How long the present step may take.
    pub(crate) fn patience(&self, i: usize) -> Option<Period> {
        let visit = self.rec(i).visit.as_ref()?;
        let strategy = self.strategy(i)?;
        Some(match &visit.step {
            Step::Preflight => strategy.deadline.preflight.saturating_add(self.checks_time(i)),
            Step::Cordon => CORDON_PATIENCE,
            Step::Checkpoint => strategy.drain.checkpoint.wait,
            Step::Drain => strategy.drain.timeout.max(strategy.drain.pdb.wait),
            Step::Apply(ApplyItem::Layout) => LAYOUT_PATIENCE,
            Step::Apply(ApplyItem::Component(name)) => {
                let spec = self.input.fleet.components.get(name);
                let own = spec.map_or(Period::from_mins(25), |c| c.spec.deadline);
                match desired::disruption(self.input.fleet, &ApplyItem::Component(name.clone())) {
                    Disruption::Reboot => own.saturating_add(strategy.deadline.reboot),
                    Disruption::None | Disruption::Restart | Disruption::Drain => own,
                }
            }
            Step::Verify => self.checks_time(i),
            // These two end by what others do; nothing may force them.
            Step::Fence | Step::Return => return None,
        })
    }

    fn checks_time(&self, i: usize) -> Period {
        let Some(suite) = self.suite(i) else { return CHECK_SLACK };
        suite.checks.iter().fold(CHECK_SLACK, |sum, check| {
            sum.saturating_add(Period::from_millis(
                check.timeout.as_millis().saturating_mul(u64::from(check.repeats)),
            ))
        })
    }

    fn expose(&mut self, i: usize) {
        let now = self.now();
        let node = self.frame.nodes[i].id.clone();
        let record = self.rec(i);
        let (Some(visit), Some(assignment)) = (&record.visit, &record.assignment) else { return };
        if visit.course != Course::Forward || visit.to != assignment.target || assignment.exposed.is_some() {
            return;
        }
        let id = visit.rollout.clone();
        self.note_attempt(i, &id);
        if let Some(assignment) = &mut self.edit(i).assignment {
            assignment.exposed = Some(now);
        }
        if let Some(rollout) = self.edit_rollout(&id) {
            rollout.exposed += 1;
            if rollout.exposed_nodes.len() < 100 {
                rollout.exposed_nodes.push(node);
            }
        }
    }

    /// A unit counts as attempted once something was really given to it, and once, however many nodes it has and however
    /// often it comes.
    fn note_attempt(&mut self, i: usize, id: &RolloutId) {
        let Some((unit, wave)) = self.rec(i).visit.as_ref().map(|v| v.unit.clone()).zip(self.wave_at(i))
        else {
            return;
        };
        let exposed = |&&j: &&usize| self.rec(j).assignment.as_ref().is_some_and(|a| a.exposed.is_some());
        let members = self.unit_members(&self.visiting(), id, &unit);
        if members.iter().find(exposed).is_none()
            && let Some(w) = self.edit_rollout(id).and_then(|r| r.waves.get_mut(wave))
        {
            w.attempted += 1;
        }
    }

    fn wave_at(&self, i: usize) -> Option<usize> {
        self.rec(i).assignment.as_ref().map(|a| usize::from(a.wave))
    }

    pub(crate) fn choose_partner(&mut self, i: usize) {
        let partner = self.partner(i, self.rec(i).visit.as_ref().and_then(|v| v.partner.clone()).as_ref());
        if let Some(visit) = &mut self.edit(i).visit {
            visit.partner = partner;
        }
    }

    /// A known-good node for pair checks: serving, healthy, of the same pool; by preference one that isn't `not`.
    pub(crate) fn partner(&self, i: usize, not: Option<&NodeId>) -> Option<NodeId> {
        let me = &self.frame.nodes[i];
        let good = |j: usize| {
            let node = &self.frame.nodes[j];
            j != i
                && node.pool == me.pool
                && !node.obs.faults.iter().any(health::is_somebodys)
                && self.rec(j).visit.is_none()
                && !self.broken(j)
                && self.frame.stale(j).is_none()
        };
        (0..self.frame.nodes.len())
            .filter(|&j| good(j))
            .map(|j| &self.frame.nodes[j])
            .min_by_key(|n| (not == Some(n.id), n.obs.work.gpu_pods > 0, hash(me.id.as_str(), n.id.as_str())))
            .map(|n| n.id.clone())
    }
}
