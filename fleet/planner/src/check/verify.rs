//! Only a verified node leaves a visit as upgraded or reverted, and only an untouched one as untouched.

use drydock_plan::{
    ApplyItem, CheckResult, Course, NodeOutcome, RawVerdict, Step, StepState, Target, Visit, VisitEnd,
};
use drydock_spec::{Amount, CheckClass, PoolSpec};

use super::{
    facts,
    findings::Findings,
    view::{Change, View},
};

const VERIFIED: &str = "verify before return";
const BROKEN: &str = "I13 broken control";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for change in &view.changed {
        let id = change.id;
        match change.going_on() {
            Some((old, new)) => transition(view, change, old, new, found),
            None => {
                if let Some(new) = change.visit_after() {
                    found.when(new.step.stage() >= Step::Fence.stage(), VERIFIED, || {
                        format!("{id}: a visit begins at {}", new.step.word())
                    });
                }
            }
        }
        reverted_outcome(change, found);
    }
}

fn transition(view: &View<'_>, change: &Change<'_>, old: &Visit, new: &Visit, found: &mut Findings) {
    let id = change.id;
    let to_fence = new.step == Step::Fence && old.step != Step::Fence;
    let to_out = matches!(new.course, Course::Out(_)) && old.course != new.course;
    if !to_fence && !to_out {
        // Its own part is over; the others of the unit may take longer, and the answer is judged only now.
        let verified = new.step == Step::Verify && new.arrived && !old.arrived && old.step == Step::Verify;
        if verified {
            let (target, back) = match new.course {
                Course::Forward => (&new.to, false),
                Course::Back => (&new.from, true),
                Course::Out(_) => return,
            };
            answer_is_good(view, change, target, back, found);
        }
        return;
    }
    let (course, target) = match &new.course {
        Course::Forward | Course::Out(VisitEnd::Upgraded) => (Course::Forward, &new.to),
        Course::Back | Course::Out(VisitEnd::Reverted) => (Course::Back, &new.from),
        Course::Out(VisitEnd::Deferred | VisitEnd::GivenBack | VisitEnd::Preexisting) => {
            // One way of giving it back may become another.
            let was_out = matches!(old.course, Course::Out(end) if is_untouched(end));
            let touched = old.step.stage() >= Step::Apply(ApplyItem::Layout).stage() && !was_out;
            found.when(touched, VERIFIED, || {
                format!("{id} is given back as untouched from {}", old.step.word())
            });
            return;
        }
    };
    let checked = matches!(old.step, Step::Verify | Step::Fence) && old.course == course;
    found.when(!checked, VERIFIED, || {
        format!("{id} goes to {:?} from {:?} at {}", new.course, old.course, old.step.word())
    });
    if checked && old.step == Step::Verify && !old.arrived {
        answer_is_good(view, change, target, course == Course::Back, found);
    }
}

fn is_untouched(end: VisitEnd) -> bool {
    match end {
        VisitEnd::Deferred | VisitEnd::GivenBack | VisitEnd::Preexisting => true,
        VisitEnd::Upgraded | VisitEnd::Reverted => false,
    }
}

/// The answer belongs to this intent, no check is left without a good result, and what runs is what was asked for.
fn answer_is_good(view: &View<'_>, change: &Change<'_>, target: &Target, back: bool, found: &mut Findings) {
    let id = change.id;
    let Some(seen) = change.seen else {
        return found.add(VERIFIED, || format!("{id} passes although it isn't seen"));
    };
    let pool = view.pool_of_part(change.after, seen);
    let carries = change.after.and_then(|r| r.assignment.as_ref()).map_or(&[][..], |a| &a.carries);
    let runs = facts::runs(view.input.fleet, view.after, pool, seen, target, back, Some(carries));
    found.when(runs == Some(false), VERIFIED, || {
        format!("{id} passes for {target} and runs {}", seen.running.vector)
    });
    if !has_checks(view, change, pool) {
        return;
    }
    let generation = change.before.map(|b| b.generation);
    match &seen.report {
        Some(report) if Some(report.generation) == generation && report.state == StepState::Done => {
            values_are_good(view, change, pool, &report.checks, found);
            for result in &report.checks {
                let good = |v: RawVerdict| matches!(v, RawVerdict::Pass | RawVerdict::NotApplicable);
                let any = report.checks.iter().any(|r| r.check == result.check && good(r.verdict));
                found.when(!any, BROKEN, || {
                    format!("{id} passes although {} ended in {:?}", result.check, result.verdict)
                });
            }
        }
        _ => found.add(VERIFIED, || format!("{id} passes without an answer to its checks")),
    }
}

/// Numbers once more, from the documents: whatever a run says of itself, a value below the pool's floor isn't good, nor is
/// one that is worse than the node's own before the change by more than the check bears. A check whose answer is asked for
/// and isn't there hasn't passed.
fn values_are_good(
    view: &View<'_>,
    change: &Change<'_>,
    pool: Option<&PoolSpec>,
    results: &[CheckResult],
    found: &mut Findings,
) {
    let id = change.id;
    let Some(visit) = change.visit_before() else { return };
    let Some(rollout) = view.input.ledger.rollouts.get(&visit.rollout) else { return };
    let no_rails = pool.is_some_and(|p| p.rdma_rails == 0);
    let to = if visit.course == Course::Back { &visit.from } else { &visit.to };
    for check in rollout.suite.checks.iter().filter(|c| !(no_rails && c.class == CheckClass::Rdma)) {
        let Some(result) = results.iter().find(|r| r.check == check.name) else {
            found.add(BROKEN, || format!("{id} passes without a result of {}", check.name));
            continue;
        };
        if result.verdict != RawVerdict::Pass {
            continue;
        }
        let floor = pool.and_then(|p| p.floors.get(&check.name)).copied();
        let wanted = floor.is_some() || check.regress.is_some();
        let Some(value) = result.value.filter(|v| !v.is_nan()) else {
            found.when(wanted, BROKEN, || format!("{id} passes and {} told no value", check.name));
            continue;
        };
        found.when(floor.is_some_and(|f| value < f), BROKEN, || {
            format!("{id} passes with {value} of {}, the floor is {}", check.name, floor.unwrap_or_default())
        });
        let own = change.before.and_then(|r| r.baselines.get(&check.name)).filter(|b| {
            let for_this = b.on == visit.from || b.at >= visit.since;
            for_this && (to.layout.is_none() || b.on.layout == to.layout)
        });
        if let (Some(was), Some(Amount::Percent(hundredths))) = (own.and_then(|b| b.value), check.regress) {
            let lost = (was - value) / was * 10_000.0;
            // A thousandth of a percent of slack: this is other arithmetic, not another rule.
            found.when(was > 0.0 && lost > f64::from(hundredths) + 0.1, BROKEN, || {
                format!("{id} passes with {value} of {}, it was {was} before", check.name)
            });
        }
    }
}

/// Whether there is anything to check on nodes of this pool at all.
fn has_checks(view: &View<'_>, change: &Change<'_>, pool: Option<&PoolSpec>) -> bool {
    let suite =
        change.visit_before().and_then(|v| view.input.ledger.rollouts.get(&v.rollout)).map(|r| &r.suite);
    let no_rdma = pool.is_some_and(|p| p.rdma_rails == 0);
    suite.is_some_and(|s| s.checks.iter().any(|c| !(no_rdma && c.class == CheckClass::Rdma)))
}

fn reverted_outcome(change: &Change<'_>, found: &mut Findings) {
    let outcome = |r: &drydock_plan::NodeRecord| r.assignment.as_ref().and_then(|a| a.outcome.clone());
    let reverted = Some(NodeOutcome::Reverted);
    if change.after.and_then(outcome) != reverted || change.before.and_then(outcome) == reverted {
        return;
    }
    let back = |v: &Visit| matches!(v.course, Course::Back | Course::Out(VisitEnd::Reverted));
    found.when(!change.visit_before().is_some_and(back), VERIFIED, || {
        format!("{} counts as reverted without having gone back", change.id)
    });
}
