//! One step of every node in flight: what was observed decides whether it goes on, is tried again, or turns back.

use drydock_plan::{
    ApplyItem, Blame, Blocker, Course, FailureClass, Reason, Step, StepReport, StepState, Target, Visit,
    VisitEnd,
};
use drydock_spec::{AtClose, ClusterName, Disruption, OnTimeout, Period, PolicySpec};
use jiff::Timestamp;

use crate::{calendar, desired, pass::Pass};

/// What the node side says that the step waits for.
pub(crate) fn blocked_by(report: Option<&StepReport>) -> Option<Blocker> {
    match &report?.state {
        StepState::Working { blocked_by, .. } => blocked_by.clone(),
        StepState::Done | StepState::Failed { .. } => None,
    }
}

impl Pass<'_> {
    /// Advances every node in flight by at most one step, then lets units that are complete cross their barriers.
    pub(crate) fn step_nodes(&mut self) {
        for i in self.visiting() {
            self.step_node(i);
        }
        self.cross_barriers();
    }

    fn step_node(&mut self, i: usize) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        let Some(strategy) = self.strategy(i) else { return };
        if let Some((since, error)) = self.frame.stale(i).cloned() {
            // Nothing is judged on old facts, not even a deadline: the answer may be there already.
            if let Ok(cluster) = self.frame.nodes[i].id.cluster().parse::<ClusterName>() {
                self.wait(i, Reason::ClusterUnreachable { cluster, since, error });
            }
            self.wake_at(strategy.lost_after.after(since));
            self.more_time(i, &visit, &strategy);
            return;
        }
        if let Course::Out(end) = visit.course {
            self.step_return(i, end);
            return;
        }
        if self.step_lost(i, &visit, &strategy) || self.out_of_time(i, &visit, &strategy) {
            return;
        }
        if self.untouched(i, &visit) && (self.returns_at_close(i) || self.is_nobodys(i)) {
            self.leave(i, VisitEnd::GivenBack);
            return;
        }
        if let Some(until) = visit.not_before.filter(|at| *at > self.now()) {
            self.wait(i, Reason::Backoff { attempt: visit.attempt, until });
            return;
        }
        if visit.arrived {
            if visit.step == Step::Fence {
                self.step_fence(i, &visit);
            }
            return;
        }
        if self.unknown_since(i, visit.deadline) {
            self.wait(i, Reason::InventoryOlderThanPlan {});
            return;
        }
        // Somebody took its cordon off or over: pods may come back, so emptying it would never end, or end wrongly.
        if matches!(visit.step, Step::Checkpoint | Step::Drain)
            && self.frame.nodes[i].obs.cordon.own.is_none()
        {
            self.cordon_taken(i);
            return;
        }
        let report = self.answer(i).cloned();
        match &visit.step {
            Step::Preflight => self.step_preflight(i, &visit, &strategy, report),
            Step::Cordon => self.step_cordon(i, &visit, &strategy, report),
            Step::Checkpoint => self.step_checkpoint(i, &visit, &strategy, report),
            Step::Drain => self.step_drain(i, &visit, &strategy, report),
            Step::Apply(item) => self.step_apply(i, &visit, &strategy, item, report),
            Step::Verify => self.step_verify(i, &visit, &strategy, report),
            Step::Fence => self.step_fence(i, &visit),
            Step::Return => self.leave(i, VisitEnd::GivenBack),
        }
    }

    /// Its window has closed, and its calendar says that what isn't applied by then goes back.
    fn returns_at_close(&self, i: usize) -> bool {
        // A way back doesn't wait for windows, so their end doesn't turn it round either.
        let id = self.rec(i).visit.as_ref().map(|v| &v.rollout);
        if id.and_then(|id| self.rollout(id)).is_some_and(|r| self.goes_back(i, r)) {
            return false;
        }
        let asks = self.input.fleet.calendars.values().any(|c| {
            c.in_flight_at_close == AtClose::ReturnIfNotApplied
                && c.windows.iter().any(|w| self.covers(i, &w.scope))
        });
        asks && !calendar::inside_window(self.input.fleet, &|scope| self.covers(i, scope), self.now())
    }

    /// Its pool is gone from Git, or its labels put it in none: nobody asks for what it was taken for.
    pub(crate) fn is_nobodys(&self, i: usize) -> bool {
        let node = &self.frame.nodes[i];
        node.pool.is_none() || node.contested
    }

    /// The node side's answer to the present intent; an answer to an older one counts for nothing.
    pub(crate) fn answer(&self, i: usize) -> Option<&StepReport> {
        let report = self.frame.nodes[i].obs.report.as_ref()?;
        (report.generation == self.rec(i).generation).then_some(report)
    }

    pub(crate) fn overdue(&self, visit: &Visit) -> bool {
        self.now() >= visit.deadline
    }

    /// Nothing newer than this instant is known of the node, so what was due by then may have happened in time.
    pub(crate) fn unknown_since(&self, i: usize, due: Timestamp) -> bool {
        let id = self.frame.nodes[i].id;
        let seen = self.input.inventory.clusters.get(id.cluster()).map(|c| c.seen_at);
        self.now() >= due && seen.is_some_and(|seen| seen < due)
    }

    /// Looks after a node that isn't seen. True when there is nothing else to do with it now.
    fn step_lost(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec) -> bool {
        let obs = self.frame.nodes[i].obs;
        let reboots = match &visit.step {
            Step::Apply(item) => desired::disruption(self.input.fleet, item) == Disruption::Reboot,
            _ => false,
        };
        if obs.ready {
            if visit.lost_since.is_some() {
                if let Some(v) = &mut self.edit(i).visit {
                    v.lost_since = None;
                }
                if self.fight(i, FailureClass::Lost, "it comes and goes") {
                    return true;
                }
                self.renew_deadline(i);
            }
            return false;
        }
        if reboots && !self.overdue(visit) {
            return false;
        }
        let since = visit.lost_since.unwrap_or(self.now());
        // It may be rebooting for what an older rollout had begun on it.
        let slack = if self.is_between(i) { strategy.deadline.reboot } else { Period::ZERO };
        let until = strategy.lost_after.saturating_add(slack).after(since);
        if visit.lost_since.is_none()
            && let Some(v) = &mut self.edit(i).visit
        {
            v.lost_since = Some(since);
        }
        if self.now() < until {
            self.wait(i, Reason::Lost { since, until });
        } else if self.untouched(i, visit) {
            // Nothing was changed on it: it broke by itself, and is left to whoever repairs it.
            let gone = Period::between(since, self.now());
            self.defer(i, &format!("it hasn't been ready for {gone}"));
        } else {
            self.lose(i);
        }
        true
    }

    fn step_cordon(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec, report: Option<StepReport>) {
        let seen = self.frame.nodes[i].obs.cordon.own == Some(self.rec(i).epoch);
        let blocked_by = blocked_by(report.as_ref());
        match report.map(|r| r.state) {
            Some(StepState::Done) if seen => {
                if !self.must_drain(i) {
                    self.go_apply_or_verify(i);
                } else if self.frame.nodes[i].obs.work.gangs.is_empty() {
                    self.go(i, Step::Drain);
                } else {
                    self.arrive(i);
                }
            }
            _ if self.overdue(visit) && self.untouched(i, visit) => self.defer(i, "its cordon isn't seen"),
            _ if self.overdue(visit) => self.again(i, strategy),
            _ => self.wait(i, Reason::Cordoning { blocked_by, until: visit.deadline }),
        }
    }

    fn step_checkpoint(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        report: Option<StepReport>,
    ) {
        let gangs = self.frame.nodes[i].obs.work.gangs.clone();
        let blocked_by = blocked_by(report.as_ref());
        match report.map(|r| r.state) {
            _ if gangs.is_empty() => self.go(i, Step::Drain),
            Some(StepState::Done) => self.go(i, Step::Drain),
            _ if self.overdue(visit) => {
                let why = format!("no checkpoint within {}", strategy.drain.checkpoint.wait);
                self.out_of_patience(i, strategy.drain.checkpoint.on_timeout, &why);
            }
            _ => self.wait(i, Reason::Checkpoint { gangs, blocked_by, until: visit.deadline }),
        }
    }

    fn step_drain(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec, report: Option<StepReport>) {
        let (remaining, blocked_by) = match report.map(|r| r.state) {
            Some(StepState::Done) => {
                self.arrive(i);
                return;
            }
            // An eviction that can never work (two budgets on one pod) is a matter for people: the node goes back.
            Some(StepState::Failed { message }) => {
                self.out_of_patience(i, OnTimeout::Defer, &message);
                return;
            }
            Some(StepState::Working { remaining, blocked_by }) => (remaining, blocked_by),
            None => (self.frame.nodes[i].obs.work.gpu_pods, None),
        };
        let (patience, then) = match &blocked_by {
            Some(Blocker::DisruptionBudget(_)) => (strategy.drain.pdb.wait, strategy.drain.pdb.on_blocked),
            Some(
                Blocker::Unmanaged(_)
                | Blocker::LocalStorage(_)
                | Blocker::Protected(_)
                | Blocker::Terminating(_)
                | Blocker::NotReady(_)
                | Blocker::Refused(_),
            )
            | None => (strategy.drain.timeout, strategy.drain.on_timeout),
        };
        let until = patience.after(visit.step_since);
        if self.unknown_since(i, until) {
            self.wait(i, Reason::InventoryOlderThanPlan {});
        } else if self.now() >= until {
            let why = match &blocked_by {
                Some(by @ Blocker::DisruptionBudget(_)) => format!("{by} has refused for {patience}"),
                Some(
                    by @ (Blocker::Unmanaged(_)
                    | Blocker::LocalStorage(_)
                    | Blocker::Protected(_)
                    | Blocker::Terminating(_)),
                ) => {
                    format!("{by} are still there after {patience}")
                }
                Some(by @ (Blocker::NotReady(_) | Blocker::Refused(_))) => format!("{by}, for {patience}"),
                None => format!("{remaining} pods are still there after {patience}"),
            };
            self.out_of_patience(i, then, &why);
        } else {
            self.wait(i, Reason::Draining { remaining, blocked_by, until });
        }
    }

    fn out_of_patience(&mut self, i: usize, then: OnTimeout, why: &str) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        match then {
            OnTimeout::Proceed => self.arrive(i),
            OnTimeout::Defer | OnTimeout::Fail if !self.untouched(i, &visit) => {
                // It carries a release that is suspected, so it can't be given back to work; and it can't be emptied,
                // so nothing can be tried on it. It stays cordoned until a person has looked.
                let on = if visit.course == Course::Back { visit.from } else { visit.to };
                self.note_evidence(
                    i,
                    FailureClass::Apply,
                    on,
                    None,
                    format!("it couldn't be emptied: {why}"),
                );
                self.quarantine(i, Blame::Unknown, FailureClass::Apply);
            }
            OnTimeout::Defer => self.defer(i, why),
            OnTimeout::Fail => self.give_up(i, why),
        }
    }

    fn step_apply(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        item: &ApplyItem,
        report: Option<StepReport>,
    ) {
        let target = if visit.course == Course::Back { &visit.from } else { &visit.to };
        let there = !self.needs(i, target).contains(item);
        // What is under way isn't broken off; pods that come now are no worse off than before.
        let working = matches!(report.as_ref().map(|r| &r.state), Some(StepState::Working { .. }));
        if !there && !working && self.needs_cordon(i, item) {
            self.cordon_taken(i);
            return;
        }
        let what = item_text(item);
        let blocked_by = blocked_by(report.as_ref());
        match report.map(|r| r.state) {
            Some(StepState::Done) if there && self.rebooted(i, visit, item) => self.go_apply_or_verify(i),
            Some(StepState::Failed { message }) => {
                self.apply_failed(i, visit, strategy, target, format!("{what}: {message}"));
            }
            // The order never reached the node: that says nothing about the release.
            None if self.overdue(visit) => {
                self.inconclusive(i, visit, strategy, &format!("{what}: nobody has taken it up"));
            }
            // It was never made: whoever refuses it (a namespace that is being deleted, a missing right) hasn't seen it
            // run either.
            Some(StepState::Working { blocked_by: Some(by @ Blocker::Refused(_)), .. })
                if self.overdue(visit) && !there =>
            {
                self.inconclusive(i, visit, strategy, &format!("{what}: {by}"));
            }
            _ if self.overdue(visit) => {
                let took = Period::between(visit.step_since, self.now());
                let why = blocked_by.map_or(String::new(), |by| format!(" ({by})"));
                self.apply_failed(i, visit, strategy, target, format!("{what}: not there after {took}{why}"));
            }
            _ => {
                let (attempt, until) = (visit.attempt, visit.deadline);
                self.wait(i, Reason::Applying { what, attempt, blocked_by, until });
            }
        }
    }

    fn rebooted(&self, i: usize, visit: &Visit, item: &ApplyItem) -> bool {
        let obs = self.frame.nodes[i].obs;
        match desired::disruption(self.input.fleet, item) {
            Disruption::Reboot => obs.ready && obs.boot_id != visit.boot_id,
            Disruption::None | Disruption::Restart | Disruption::Drain => true,
        }
    }

    fn apply_failed(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        target: &Target,
        text: String,
    ) {
        if visit.attempt < strategy.retry.apply_attempts {
            self.again(i, strategy);
            return;
        }
        self.note_evidence(i, FailureClass::Apply, target.clone(), None, text);
        self.turn_back(i, FailureClass::Apply);
    }

    fn step_return(&mut self, i: usize, end: VisitEnd) {
        let gone = self.frame.nodes[i].obs.cordon.own.is_none();
        let done = matches!(self.answer(i).map(|r| &r.state), Some(StepState::Done));
        if done && gone {
            self.end_visit(i, end);
        } else {
            let blocked_by = blocked_by(self.answer(i));
            self.wait(i, Reason::Returning { blocked_by });
        }
    }
}

pub(crate) fn item_text(item: &ApplyItem) -> String {
    match item {
        ApplyItem::Component(name) => name.to_string(),
        ApplyItem::Layout => "layout".to_owned(),
    }
}
