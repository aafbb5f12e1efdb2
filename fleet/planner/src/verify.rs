//! Checks before and after a change.

use drydock_plan::{
    Baseline, Course, FailureClass, NodeOutcome, PauseReason, RawVerdict, Reason, RolloutId, Rounds, Step,
    StepReport, StepState, Target, Visit, VisitEnd,
};
use drydock_spec::{Period, PolicySpec};

use crate::{
    health,
    judge::{self, Before, Round},
    pass::Pass,
    step,
};

/// Between tries once several have told nothing, where the policy's own pause is shorter. A registry or a scheduler that is
/// down is mended in minutes at best, and each try is some writes and a pod that can't run.
const RUNNER_REST: Period = Period::from_mins(5);
/// It doubles up to this: by then the rollout has said for hours that it is paused, and why.
const RUNNER_REST_MAX: Period = Period::from_hours(1);

/// Rounds before their share is looked at: one in five can be told from chance by then.
const ROUNDS_MIN: u32 = 10;

/// More than a fifth of the rounds told nothing: then what the others say isn't worth much either.
fn too_often(rounds: Rounds) -> Option<String> {
    let Rounds { all, inconclusive } = rounds;
    (all >= ROUNDS_MIN && inconclusive.saturating_mul(5) > all)
        .then(|| format!("{inconclusive} of {all} rounds of checks told nothing"))
}

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
                // Nothing was done to the node: a registry that is away looks like this, and an image that was never
                // pushed does. Neither says anything about what is in it.
                self.inconclusive(i, visit, strategy, &format!("prefetch: {message}"));
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
                self.note_round(&visit.rollout, true);
                self.unpause(i, visit);
                self.keep_baselines(i, visit, &report);
                // What failed before the change has nothing to do with what comes after it.
                if let Some(v) = &mut self.edit(i).visit {
                    v.failed_rounds = 0;
                }
                self.arrive(i);
            }
            Round::Fail { .. } if visit.failed_rounds.saturating_add(1) < strategy.retry.check_attempts => {
                self.note_round(&visit.rollout, true);
                if let Some(v) = &mut self.edit(i).visit {
                    v.failed_rounds = v.failed_rounds.saturating_add(1);
                }
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
        judge::round(&checks, report, pool, record, None)
    }

    /// What runs on a broken release isn't asked to pass on it; and going back never waits for what is being left.
    pub(crate) fn skips_preflight(&self, i: usize) -> bool {
        let record = self.rec(i);
        let Some(visit) = &record.visit else { return true };
        let back = self.rollout(&visit.rollout).is_some_and(|r| self.goes_back(i, r));
        let running = &self.frame.nodes[i].obs.running.id;
        let pool = record.assignment.as_ref().map(|a| a.pool.clone());
        let failed = pool.is_some_and(|p| self.failed_on(&p, &self.observed_target(i)).is_some());
        // A fault on what was proven here isn't the release's: that node is found out before it is changed.
        let proven = record.last_known_good.as_ref().is_none_or(|good| good.release == *running);
        // Of one that comes out of quarantine with less than it was good on, nothing can be asked before it is mended.
        let mended = visit.quarantined.is_none()
            || record.last_known_good.as_ref().is_some_and(|g| g.release == *running);
        back || failed
            || !mended
            || (!proven && self.frame.nodes[i].obs.faults.iter().any(health::is_somebodys))
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
        let now = self.now();
        let freshness = self.suite(i).map_or(Period::ZERO, |s| s.preflight.freshness);
        let record = self.edit(i);
        for result in report.checks.iter().filter(|r| r.verdict == RawVerdict::Pass) {
            let baseline = Baseline { value: result.value, at: result.finished, on: on.clone() };
            record.baselines.insert(result.check.clone(), baseline);
        }
        // What it runs now has just passed: that is the first thing it can go back to. Where no check has run, nothing is
        // known of it, and being there is no proof.
        let checked = record.baselines.values().any(|b| b.on == on && freshness.after(b.at) > now);
        if record.last_known_good.is_none() && visit.from == on && checked {
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
            // One that had begun and hung would have ended in a result by now: what runs checks hasn't begun one.
            _ if self.overdue(visit) => Round::Inconclusive("checks not done by their deadline".to_owned()),
            _ => {
                self.wait(i, Reason::Checking { attempt: visit.attempt, blocked_by, until: visit.deadline });
                return;
            }
        };
        // What its checks can't see is seen all the same.
        let fault = self.fault_since(i, self.given_at(i, visit)).map(|f| f.kind.clone());
        match round {
            Round::Pass if fault.is_some() => {
                let text = format!("{} although its checks pass", fault.unwrap_or_default());
                self.failed_round(i, visit, strategy, FailureClass::Health, text);
            }
            Round::Pass => {
                self.note_round(&visit.rollout, true);
                self.passed_round(i, visit, strategy);
            }
            Round::Fail { class, text, result } => {
                self.note_round(&visit.rollout, true);
                self.note_evidence(i, FailureClass::Check(class), target, Some(result), text);
                self.after_failure(i, visit, strategy, FailureClass::Check(class));
            }
            Round::Inconclusive(text) => self.inconclusive(i, visit, strategy, &text),
        }
    }

    /// It has passed and waits for the others of its unit. A fault that comes now is found out before anybody uncordons it.
    pub(crate) fn step_fence(&mut self, i: usize, visit: &Visit) {
        let Some(kind) = self.fault_since(i, self.given_at(i, visit)).map(|f| f.kind.clone()) else {
            if !visit.arrived {
                self.arrive(i);
            }
            return;
        };
        self.note_evidence(
            i,
            FailureClass::Health,
            visit.to.clone(),
            None,
            format!("{kind} after its checks"),
        );
        let taken_out = self.rec(i).assignment.as_ref().map_or(0, |a| a.taken_out);
        if let Some(a) = &mut self.edit(i).assignment {
            a.taken_out = taken_out.saturating_add(1);
        }
        if taken_out > 0 {
            // It came and went before: checks don't settle it.
            self.turn_back(i, FailureClass::Health);
            return;
        }
        if let Some(v) = &mut self.edit(i).visit {
            v.failed_rounds = 1;
        }
        self.go(i, Step::Verify);
    }

    fn fails_already(&self, i: usize, report: &StepReport) -> bool {
        !report.checks.is_empty() && matches!(self.judge_verify(i, report), Round::Fail { .. })
    }

    fn judge_verify(&self, i: usize, report: &StepReport) -> Round {
        let Some(suite) = self.suite(i) else { return Round::Pass };
        let pool = self.pool_of(i);
        let checks: Vec<_> = suite.checks.iter().filter(|c| judge::applies(c, pool)).collect();
        let record = self.rec(i);
        let Some(visit) = &record.visit else { return Round::Inconclusive("nobody holds it".to_owned()) };
        let target = if visit.course == Course::Back { &visit.from } else { &visit.to };
        let before = Before { on: &visit.from, since: visit.since, layout: target.layout.as_ref() };
        judge::round(&checks, report, pool, record, Some(&before))
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
        // Evidence is kept up to a limit, so it can't be what counts the tries.
        let failed = visit.failed_rounds.saturating_add(1);
        if let Some(v) = &mut self.edit(i).visit {
            v.failed_rounds = failed;
        }
        if failed < strategy.retry.check_attempts {
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
        let failed_here = visit.failed_rounds > 0;
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
                        v.failed_rounds = 0;
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

    /// Nothing was learnt: it is tried again, and after some rounds the rollout pauses, since nothing is known about the
    /// release. The node keeps trying, so that the pause ends by itself when the runner works again. Where the runner works
    /// for others meanwhile it isn't the runner's matter: the node goes out of the way.
    pub(crate) fn inconclusive(&mut self, i: usize, visit: &Visit, strategy: &PolicySpec, text: &str) {
        let rounds = visit.inconclusive.saturating_add(1);
        if rounds == 1 {
            // One node that gets no answer for long is that node's matter; the share is about how many there are.
            self.note_round(&visit.rollout, false);
        }
        self.again(i, strategy);
        // It may be the other node of a pair that doesn't answer: the next round asks another one.
        let partner = self.partner(i, visit.partner.as_ref());
        if let Some(v) = &mut self.edit(i).visit {
            v.inconclusive = rounds;
            v.partner = partner;
        }
        let enough = rounds >= strategy.retry.inconclusive_attempts;
        if enough {
            // What isn't there now isn't there in half a minute; it is looked for as often as somebody could have mended it.
            let doublings = (rounds - strategy.retry.inconclusive_attempts).min(8);
            let rest = Period::from_millis(RUNNER_REST.as_millis() << doublings).min(RUNNER_REST_MAX);
            let at = rest.after(self.now());
            if let Some(v) = &mut self.edit(i).visit {
                v.not_before = v.not_before.max(Some(at));
            }
            self.renew_deadline(i);
            self.wake_at(at);
        }
        let only_here = match visit.course {
            // That it got no answer on the release while others did is what took it back.
            Course::Back => visit.untold,
            Course::Forward | Course::Out(_) => self.runs_elsewhere(i, visit),
        };
        // Nobody waits for a rollout that has stopped: what is still away in it comes to an end, told or not.
        let stopped =
            self.rollout(&visit.rollout).is_some_and(|r| r.state == drydock_plan::RolloutState::Halted)
                && rounds >= strategy.retry.inconclusive_attempts.saturating_mul(2);
        if enough && (only_here || stopped) && self.give_way(i, visit, text) {
            return;
        }
        let often = self.rollout(&visit.rollout).and_then(|r| too_often(r.rounds));
        if !enough && often.is_none() {
            return;
        }
        let node = self.frame.nodes[i].id.clone();
        let detail = if enough { text.to_owned() } else { format!("{text}; {}", often.unwrap_or_default()) };
        let why = PauseReason::Inconclusive { node, detail: detail.clone() };
        self.pause(&visit.rollout, why, &detail);
    }

    /// Counts a round that came to an end.
    fn note_round(&mut self, id: &RolloutId, told: bool) {
        if let Some(r) = self.edit_rollout(id) {
            r.rounds.all = r.rounds.all.saturating_add(1);
            r.rounds.inconclusive = r.rounds.inconclusive.saturating_add(u32::from(!told));
        }
    }

    /// Another node of its pool, which has the same checks, has had an answer since this one began the step in which it
    /// gets none.
    fn runs_elsewhere(&self, i: usize, visit: &Visit) -> bool {
        let since = visit.step_since;
        let pool = self.rec(i).assignment.as_ref().map(|a| a.pool.clone());
        (0..self.frame.nodes.len()).filter(|&j| j != i).any(|j| {
            let record = self.rec(j);
            let mine = record.assignment.as_ref();
            let mine = mine.filter(|a| a.rollout == visit.rollout && Some(&a.pool) == pool.as_ref());
            mine.is_some_and(|a| {
                let through = matches!(a.outcome, Some(NodeOutcome::Done | NodeOutcome::Reverted));
                record.soak.as_ref().is_some_and(|s| s.since > since)
                    || through && a.ended.is_some_and(|at| at > since)
                    || record.baselines.values().any(|b| b.at > since)
            })
        })
    }

    /// Before anything was done to it the node is given back. Later it goes back to what it ran, where its checks may run
    /// again; when they don't run there either, the node is left to people. False where it has to stay.
    fn give_way(&mut self, i: usize, visit: &Visit, text: &str) -> bool {
        let stopped =
            self.rollout(&visit.rollout).is_some_and(|r| r.state == drydock_plan::RolloutState::Halted);
        let why = if stopped { "the rollout has stopped" } else { "other nodes had an answer meanwhile" };
        let text = format!("{text}; {why}");
        match (&visit.step, &visit.course) {
            (Step::Preflight, _) => {
                self.defer(i, &text);
                true
            }
            (Step::Verify, Course::Forward | Course::Back) => {
                let class = self.suite(i).and_then(|s| s.checks.first().map(|c| c.class));
                let class = class.map_or(FailureClass::Apply, FailureClass::Check);
                let back = visit.course == Course::Back;
                let on = if back { visit.from.clone() } else { visit.to.clone() };
                self.note_evidence(i, class, on, None, text);
                if let Some(v) = self.edit(i).visit.as_mut().filter(|_| !back) {
                    v.untold = true;
                }
                self.turn_back(i, class);
                true
            }
            (
                Step::Cordon | Step::Checkpoint | Step::Drain | Step::Apply(_) | Step::Fence | Step::Return,
                _,
            )
            | (Step::Verify, Course::Out(_)) => false,
        }
    }

    fn unpause(&mut self, i: usize, visit: &Visit) {
        let me = self.frame.nodes[i].id;
        let mine = |why: &PauseReason| matches!(why, PauseReason::Inconclusive { node, .. } if node == me);
        self.end_pause(&visit.rollout, mine, "checks run again");
    }
}
