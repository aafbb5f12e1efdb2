//! Checks: Jobs that look whether a node is well, and how they ended.
//!
//! Checks of a suite run one after the other, and so do the runs of one check: they share the GPUs. A result is read
//! once and remembered for the intent; the Jobs are deleted a little later. Times are measured here, since the clocks of
//! nodes can't be trusted while their software is being changed.

mod ident;
mod job;
mod leftovers;
mod probe;
mod read;
mod repeats;
mod run;
#[cfg(test)]
mod tests;

use drydock_plan::{Blocker, CheckOrder, CheckResult, RawVerdict, StepState};
use jiff::SignedDuration;

use self::ident::Run;
use self::run::State;
use super::{Call, Effort, Outcome, Request, View};
use crate::client::Kind;
use crate::objects::{JobObject, Key, Watched as _};

pub(crate) use self::ident::{digest, label, short};
pub(crate) use self::leftovers::delete_pod;
pub use self::leftovers::leftovers;
pub use self::probe::scheduled_probe;

/// How long Jobs stay after the last result is known: time for it to be written down. A drydock that dies in between
/// finds them again and runs nothing twice.
const KEPT_FOR: SignedDuration = SignedDuration::from_secs(30);

/// How long a Job stays that isn't over although its result is known: its controller counts a pod that has ended within a
/// second or two, and the other nodes of a group look every few seconds. What still runs then holds GPUs for nothing.
const UNFINISHED_FOR: SignedDuration = SignedDuration::from_secs(15);

/// Since when the round is over.
const OVER: &str = "checks over";

/// These checks have run, each as often as it was ordered.
///
/// [`Outcome::checks`] has one result for each check that is over: see `repeats`. When one has hung, the checks after it
/// don't run: what hangs holds the GPUs until it is dealt with, and each of them would only wait for its own timeout.
pub fn checked(view: &View<'_>, effort: &mut Effort, orders: &[CheckOrder]) -> Outcome {
    let mut outcome = Outcome::done();
    let mut waiting: Option<Option<Blocker>> = None;
    let mut remaining: u32 = 0;
    let mut hung: Option<&CheckOrder> = None;
    for order in orders {
        if waiting.is_some() {
            remaining = remaining.saturating_add(order.repeats.max(1));
            continue;
        }
        if let Some(before) = hung {
            outcome.checks.push(not_run(view, effort, order, before));
            continue;
        }
        let (results, state) = runs(view, effort, order);
        match state {
            None => {
                let result = repeats::result(&results);
                if result.as_ref().is_some_and(|r| r.verdict == RawVerdict::Hang) {
                    hung = Some(order);
                }
                outcome.checks.extend(result);
            }
            Some((call, by, again)) => {
                let done = u32::try_from(results.len()).unwrap_or(u32::MAX);
                remaining = order.repeats.max(1).saturating_sub(done);
                outcome.calls.extend(call);
                outcome.again = Some(again);
                waiting = Some(by);
            }
        }
    }
    tidy(view, effort, orders, waiting.is_none(), &mut outcome);
    if let Some(blocked_by) = waiting {
        outcome.state = StepState::Working { remaining, blocked_by };
    }
    outcome
}

type Waiting = (Option<Call>, Option<Blocker>, jiff::Timestamp);

/// The runs of one check so far, and what the next one waits for. After a failure the others aren't needed.
fn runs(view: &View<'_>, effort: &mut Effort, order: &CheckOrder) -> (Vec<CheckResult>, Option<Waiting>) {
    let mut results = Vec::new();
    for number in 0..order.repeats.max(1) {
        match run::look(view, effort, order, &Run::of(view, order, number)) {
            State::Going { call, by, again } => return (results, Some((call, by, again))),
            State::Ended(result) => {
                let bad = matches!(result.verdict, RawVerdict::Fail | RawVerdict::Hang);
                results.push(result);
                if bad {
                    break;
                }
            }
        }
    }
    (results, None)
}

fn not_run(view: &View<'_>, effort: &mut Effort, order: &CheckOrder, before: &CheckOrder) -> CheckResult {
    // The instant stays: a result that changes with every look would be news with every look.
    let at = effort.since("checks stopped", view.now);
    CheckResult {
        check: order.name.clone(),
        verdict: RawVerdict::Inconclusive,
        value: None,
        detail: format!("not run: {} hung on this node before", before.name),
        started: at,
        finished: at,
        partner: order.partner.clone(),
    }
}

/// Deletes this node's Jobs whose results are known. The Job of a group that is over is left to its time to live: other
/// nodes read it.
fn tidy(view: &View<'_>, effort: &mut Effort, orders: &[CheckOrder], over: bool, outcome: &mut Outcome) {
    if over {
        effort.since(OVER, view.now);
    }
    let round_over = effort.notes.get(OVER).map(|(at, _)| *at);
    let runs = orders.iter().flat_map(|order| (0..order.repeats.max(1)).map(move |n| (order, n)));
    for (order, number) in runs {
        let run = Run::of(view, order, number);
        let Some(result) = effort.runs.get(&run.key) else { continue };
        let at = Key::new(&view.settings.namespace, &run.job);
        let Some(job) = view.objects.jobs.get(&at).filter(|j| j.meta.deletion_timestamp.is_none()) else {
            continue;
        };
        let due = match (run::over(job), &run.group) {
            (true, Some(_)) => None,
            (true, None) => round_over.and_then(|at| at.checked_add(KEPT_FOR).ok()),
            (false, _) => result.finished.checked_add(UNFINISHED_FOR).ok(),
        };
        let Some(due) = due else { continue };
        let call = delete(job);
        if view.now < due {
            outcome.again = Some(outcome.again.map_or(due, |before| before.min(due)));
        } else if effort.may(&call.key, view.now) {
            outcome.calls.push(call);
        }
    }
}

/// Deletes a Job with its pods.
fn delete(job: &JobObject) -> Call {
    let uri = Kind::JOB.one(job.key().space(), &job.meta.name);
    let uid = job.meta.uid.clone();
    Call {
        key: format!("delete {uid}"),
        request: Request::Delete { uri, uid, propagation: "Background", grace: None },
    }
}
