//! Checks before and after a change.

use drydock_plan::{
    Baseline, Course, FailureClass, PauseReason, Reason, RolloutState, Step, StepReport, StepState, Target,
    Visit, VisitEnd,
};
use drydock_spec::PolicySpec;

use crate::{
    judge::{self, Round},
    pass::Pass,
    step,
};

impl Pass<'_> {
    /// Checks on what runs before anything is changed. A node that fails here is never counted against the version.
    pub(crate) fn step_preflight(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        report: Option<StepReport>,
    ) {
        let Some(report) = report else {
            if self.overdue(visit) {
                self.defer(i, "it didn't begin to prepare in time");
            } else {
                self.wait(i, Reason::Preflight { blocked_by: None, until: visit.deadline });
            }
            return;
        };
        match &report.state {
            StepState::Done => {}
            StepState::Failed { message } => {
                if visit.attempt < strategy.retry.apply_attempts {
                    self.again(i, strategy);
                } else {
                    // The artefact can't be had: that is the version's fault, and the node was never touched.
                    let (to, text) = (visit.to.clone(), format!("prefetch: {message}"));
                    self.note_evidence(i, FailureClass::Apply, to, None, text);
                    self.settle_version(i, FailureClass::Apply);
                    self.leave(i, VisitEnd::Reverted);
                }
                return;
            }
            // What would keep the node from being emptied is known before its cordon, and told then.
            StepState::Working { blocked_by: Some(by), .. }
                if self.bars_the_drain(i, visit, strategy, by) =>
            {
                return;
            }
            StepState::Working { blocked_by, .. } if self.overdue(visit) => {
                let by = blocked_by.as_ref().map_or(String::new(), |by| format!(" ({by})"));
                self.defer(i, &format!("artefacts and checks before the change weren't done in time{by}"));
                return;
            }
            StepState::Working { blocked_by, .. } => {
                let blocked_by = blocked_by.clone();
                self.wait(i, Reason::Preflight { blocked_by, until: visit.deadline });
                return;
            }
        }
        match self.judge_preflight(i, &report) {
            Round::Pass => {
                self.unpause(i, visit);
                self.keep_baselines(i, visit, &report);
                self.arrive(i);
            }
            Round::Fail { .. } if visit.attempt < strategy.retry.check_attempts => {
                // A pair check may fail because of the other node: the next round asks another one.
                self.choose_partner(i);
                self.again(i, strategy);
            }
            Round::Fail { text, .. } => {
                let node = self.frame.nodes[i].id.clone();
                let event = drydock_plan::RolloutEvent::Skipped {
                    node,
                    why: format!("failed before the change: {text}"),
                };
                self.log(&visit.rollout, event);
                self.leave(i, VisitEnd::Preexisting);
            }
            Round::Inconclusive(text) => self.inconclusive(i, visit, strategy, &text),
        }
    }

    fn judge_preflight(&self, i: usize, report: &StepReport) -> Round {
        if self.skips_preflight(i) {
            return Round::Pass;
        }
        let Some(suite) = self.suite(i) else { return Round::Pass };
        let pool = self.pool_of(i);
        let record = self.rec(i);
        let on = self.observed_target(i);
        let checks: Vec<_> = judge::preflight_checks(&suite, record, &on, self.now())
            .into_iter()
            .filter(|c| judge::applies(c, pool))
            .collect();
        judge::round(&checks, report, pool, record, false)
    }

    /// What runs on a broken release isn't asked to pass on it; and going back never waits for what is being left.
    pub(crate) fn skips_preflight(&self, i: usize) -> bool {
        let record = self.rec(i);
        let Some(visit) = &record.visit else { return true };
        let back = self
            .rollout(&visit.rollout)
            .is_some_and(|r| matches!(r.kind, drydock_plan::RolloutKind::Rollback { .. }));
        let running = &self.frame.nodes[i].obs.running.id;
        let pool = record.assignment.as_ref().map(|a| a.pool.clone());
        let failed = pool.is_some_and(|p| self.failed_on(&p, &self.observed_target(i)).is_some());
        // A fault on what was proven here isn't the release's: that node is found out before it is changed.
        let proven = record.last_known_good.as_ref().is_none_or(|good| good.release == *running);
        back || failed || (!proven && !self.frame.nodes[i].obs.faults.is_empty())
    }

    pub(crate) fn observed_target(&self, i: usize) -> Target {
        let obs = self.frame.nodes[i].obs;
        let layout = self.rec(i).visit.as_ref().and_then(|v| v.to.layout.as_ref()).and(obs.layout.clone());
        Target { release: obs.running.id.clone(), layout }
    }

    fn keep_baselines(&mut self, i: usize, visit: &Visit, report: &StepReport) {
        let on = self.observed_target(i);
        if self.skips_preflight(i) {
            return;
        }
        let record = self.edit(i);
        for result in &report.checks {
            let baseline = Baseline { value: result.value, at: result.finished, on: on.clone() };
            record.baselines.insert(result.check.clone(), baseline);
        }
        // What it runs now has just passed: that is the first thing it can go back to.
        if record.last_known_good.is_none() && visit.from == on {
            record.last_known_good = Some(on);
        }
    }

    /// Checks on what was applied.
    pub(crate) fn step_verify(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        report: Option<StepReport>,
    ) {
        let target = if visit.course == Course::Back { visit.from.clone() } else { visit.to.clone() };
        if !self.needs(i, &target).is_empty() {
            // Somebody changed it, or a reboot lost it: what is observed decides, not what was journalled.
            if !self.fight(i, FailureClass::Apply, "what was put on it is changed again") {
                self.go_apply_or_verify(i);
                self.pause_after_fight(i);
            }
            return;
        }
        let blocked_by = step::blocked_by(report.as_ref());
        let round = match report {
            Some(report) if report.state == StepState::Done => self.judge_verify(i, &report),
            Some(StepReport { state: StepState::Failed { message }, .. }) => Round::Inconclusive(message),
            // One failing result is enough; the runs that are still to come can't change it.
            Some(report) if self.fails_already(i, &report) => self.judge_verify(i, &report),
            // The order never reached the node: that says nothing about the release.
            None if self.overdue(visit) => Round::Inconclusive("nobody has taken up the checks".to_owned()),
            _ if self.overdue(visit) => {
                // A check that never ends or never begins is settled by the same check on the old release.
                let text = "checks not done by their deadline".to_owned();
                let class = self.suite(i).and_then(|s| s.checks.first().map(|c| c.class));
                self.failed_round(
                    i,
                    visit,
                    strategy,
                    class.map_or(FailureClass::Apply, FailureClass::Check),
                    text,
                );
                return;
            }
            _ => {
                self.wait(i, Reason::Checking { attempt: visit.attempt, blocked_by, until: visit.deadline });
                return;
            }
        };
        match round {
            Round::Pass => self.passed_round(i, visit, strategy),
            Round::Fail { class, text, result } => {
                self.note_evidence(i, FailureClass::Check(class), target, Some(result), text);
                self.after_failure(i, visit, strategy, FailureClass::Check(class));
            }
            Round::Inconclusive(text) => self.inconclusive(i, visit, strategy, &text),
        }
    }

    fn fails_already(&self, i: usize, report: &StepReport) -> bool {
        !report.checks.is_empty() && matches!(self.judge_verify(i, report), Round::Fail { .. })
    }

    fn judge_verify(&self, i: usize, report: &StepReport) -> Round {
        let Some(suite) = self.suite(i) else { return Round::Pass };
        let pool = self.pool_of(i);
        let checks: Vec<_> = suite.checks.iter().filter(|c| judge::applies(c, pool)).collect();
        judge::round(&checks, report, pool, self.rec(i), true)
    }

    fn failed_round(
        &mut self,
        i: usize,
        visit: &Visit,
        strategy: &PolicySpec,
        class: FailureClass,
        text: String,
    ) {
        let target = if visit.course == Course::Back { visit.from.clone() } else { visit.to.clone() };
        self.note_evidence(i, class, target, None, text);
        self.after_failure(i, visit, strategy, class);
    }

    fn after_failure(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec, class: FailureClass) {
        let on = if visit.course == Course::Back { &visit.from } else { &visit.to };
        let failures =
            self.rec(i).visit.as_ref().map_or(0, |v| v.evidence.iter().filter(|e| e.on == *on).count());
        if failures < strategy.retry.check_attempts as usize {
            // A pair check may fail because of the other node: the next round asks another one.
            let partner = self.partner(i, visit.partner.as_ref());
            if let Some(v) = &mut self.edit(i).visit {
                v.partner = partner;
                v.passes = 0;
            }
            self.again(i, strategy);
        } else {
            self.turn_back(i, class);
        }
    }

    fn passed_round(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec) {
        self.unpause(i, visit);
        let on = if visit.course == Course::Back { &visit.from } else { &visit.to };
        let failed_here = visit.evidence.iter().any(|e| e.on == *on);
        if failed_here && visit.passes == 0 {
            // One good round after a bad one is luck until it is repeated.
            if let Some(v) = &mut self.edit(i).visit {
                v.passes = 1;
            }
            self.again(i, strategy);
            return;
        }
        match visit.course {
            Course::Back => self.settle_back(i),
            Course::Forward | Course::Out(_) => {
                if failed_here {
                    let record = self.edit(i);
                    record.incidents += 1;
                    if let Some(v) = &mut record.visit {
                        v.evidence.clear();
                    }
                }
                if visit.atomic {
                    self.go(i, Step::Fence);
                    self.arrive(i);
                } else {
                    self.leave(i, VisitEnd::Upgraded);
                }
            }
        }
    }

    /// The runner broke: it is tried again, and after some rounds the rollout pauses, since nothing is known about
    /// the release. The node keeps trying, so that the pause ends by itself when the runner works again.
    pub(crate) fn inconclusive(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec, text: &str) {
        let rounds = visit.inconclusive.saturating_add(1);
        self.again(i, strategy);
        // It may be the other node of a pair that doesn't answer: the next round asks another one.
        let partner = self.partner(i, visit.partner.as_ref());
        if let Some(v) = &mut self.edit(i).visit {
            v.inconclusive = rounds;
            v.partner = partner;
        }
        if rounds < strategy.retry.inconclusive_attempts {
            return;
        }
        let running = self.rollout(&visit.rollout).is_some_and(|r| r.state == RolloutState::Running);
        if running {
            let node = self.frame.nodes[i].id.clone();
            let why = PauseReason::Inconclusive { node, detail: text.to_owned() };
            self.set_state(&visit.rollout, RolloutState::Paused(why), text);
        }
    }

    fn unpause(&mut self, i: usize, visit: &Visit) {
        let me = self.frame.nodes[i].id;
        let mine = |state: &RolloutState| matches!(state, RolloutState::Paused(PauseReason::Inconclusive { node, .. }) if node == me);
        if self.rollout(&visit.rollout).is_some_and(|r| mine(&r.state)) {
            self.set_state(&visit.rollout, RolloutState::Running, "checks run again");
        }
    }
}
