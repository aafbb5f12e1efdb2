//! One run of a check, from nothing to its result.

use std::sync::Arc;

use drydock_plan::{Blocker, CheckOrder, CheckResult, RawVerdict};
use drydock_spec::CheckClass;
use jiff::{SignedDuration, Timestamp};

use super::ident::Run;
use super::job;
use super::read::{self, Finding, Progress, START_WITHIN};
use crate::client::{CallError, Kind};
use crate::ensure::{Call, Effort, Request, View};
use crate::objects::{JobObject, Key, PodObject};

/// Refusals after which a Job that can't be made is given up: a quota that was full for a moment is free again by then.
const REFUSALS: u32 = 3;

/// How long other nodes of a group leave it to the first to make the Job. The first may have left the step already, when
/// this node is late; then nobody else would.
const LEAVES_IT_FOR: SignedDuration = SignedDuration::from_secs(60);

/// How often a run is looked at while nothing on this node wakes its intent: pods that aren't bound yet, and pods on
/// other nodes.
const LOOK: SignedDuration = SignedDuration::from_secs(5);

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// It has ended, and its result is noted.
    Ended(CheckResult),
    /// It hasn't.
    Going {
        /// What to call.
        call: Option<Call>,
        /// What it waits for.
        by: Option<Blocker>,
        /// When to look again.
        again: Timestamp,
    },
}

/// Names of notes about a run.
fn note(what: &str, run: &Run) -> String {
    format!("check {what} {}", run.key)
}

/// Moves a run on.
pub(super) fn look(view: &View<'_>, effort: &mut Effort, order: &CheckOrder, run: &Run) -> State {
    if let Some(result) = effort.runs.get(&run.key) {
        return State::Ended(result.clone());
    }
    let found = find(view, effort, run);
    let ended = match &found {
        None => match absent(view, effort, order, run) {
            Ok(going) => return going,
            Err(finding) => finding,
        },
        Some(job) => match present(view, effort, order, run, job) {
            Ok(going) => return going,
            Err(finding) => finding,
        },
    };
    let started = effort.since(&note("began", run), view.now);
    let result = CheckResult {
        check: order.name.clone(),
        verdict: ended.verdict,
        value: ended.value,
        detail: ended.detail,
        started,
        finished: view.now,
        partner: order.partner.clone(),
    };
    effort.runs.insert(run.key.clone(), result.clone());
    State::Ended(result)
}

/// The Job of the run: the one this node makes, or, in a group, the one that another node has made.
fn find<'a>(view: &View<'a>, effort: &mut Effort, run: &Run) -> Option<&'a Arc<JobObject>> {
    if let Some(job) = view.objects.jobs.get(&Key::new(&view.settings.namespace, &run.job)) {
        return Some(job);
    }
    let group = run.group.as_deref()?;
    let mut all = view.objects.jobs.values().filter(|j| {
        j.meta.namespace == view.settings.namespace
            && j.meta.label(drydock_api::names::CHECK_GROUP) == Some(group)
    });
    // One that had ended when this intent began is an answer to an earlier one.
    let (_, old) = effort.notes.entry(note("old", run)).or_insert_with(|| {
        let over: Vec<&str> = all.clone().filter(|j| over(j)).map(|j| j.meta.uid.as_str()).collect();
        (view.now, over.join(" "))
    });
    all.find(|j| !old.split(' ').any(|uid| uid == j.meta.uid))
}

/// The Job has ended, well or not.
pub(super) fn over(job: &JobObject) -> bool {
    job.complete || job.failure.is_some()
}

/// There is no Job (any more).
fn absent(view: &View<'_>, effort: &mut Effort, order: &CheckOrder, run: &Run) -> Result<State, Finding> {
    if effort.notes.contains_key(&note("seen", run)) {
        return Err(Finding::inconclusive("its Job was deleted before it had ended"));
    }
    let since = effort.since(&note("asked", run), view.now);
    let waited = view.now.duration_since(since);
    if !run.leads(view) && waited < LEAVES_IT_FOR {
        return Ok(going(view, None, None));
    }
    let uri = Kind::JOB.all(Some(&view.settings.namespace));
    let key = format!("check {}", run.job);
    let mut by = None;
    if let Some(error) = effort.error(&key) {
        let text = format!("its Job can't be made: {error}");
        let failures = effort.asked(&key).map_or(0, |a| a.failures);
        if (is_refusal(error) && failures >= REFUSALS) || waited >= patience(order) {
            return Err(Finding::inconclusive(text));
        }
        by = Some(Blocker::Refused(read::cut(text)));
    } else if waited >= patience(order) {
        return Err(Finding::inconclusive("its Job was asked for and never seen"));
    }
    if !effort.may(&key, view.now) {
        let again = effort.next(&key).min(view.now.checked_add(LOOK).unwrap_or(Timestamp::MAX));
        return Ok(State::Going { call: None, by, again });
    }
    let request = Request::Create { uri, body: job::job(view, order, run) };
    Ok(going(view, Some(Call { key, request }), by))
}

/// A "no" that is meant for this Job: not allowed, no quota, no namespace, malformed. Not an API server in trouble.
fn is_refusal(error: &CallError) -> bool {
    error.refusal().is_some_and(|refusal| {
        !error.is_of_the_server()
            && !refusal.status.is_server_error()
            && refusal.status != http::StatusCode::TOO_MANY_REQUESTS
    })
}

/// There is a Job.
fn present(
    view: &View<'_>,
    effort: &mut Effort,
    order: &CheckOrder,
    run: &Run,
    job: &JobObject,
) -> Result<State, Finding> {
    effort.since(&note("seen", run), view.now);
    let asked = effort.since(&note("asked", run), view.now);
    let container = read::main_container(order);
    let pods: Vec<(&PodObject, Progress)> =
        pods(view, job).map(|pod| (&**pod, read::progress(pod, container))).collect();
    let begun = pods.iter().filter(|(_, p)| !matches!(p, Progress::Waiting(_))).count();
    let ended = pods.iter().filter(|(_, p)| matches!(p, Progress::Ended(_))).count();
    if begun >= run.size() {
        effort.since(&note("began", run), view.now);
    }
    if ended >= run.size() || over(job) {
        return Err(conclude(view, order, &pods, &unfinished(job, begun >= run.size(), order)));
    }
    if begun < run.size() {
        return waits(view, order, run, &pods, asked);
    }
    let since = effort.since(&note("began", run), view.now);
    let until = order.timeout.after(since);
    if view.now < until {
        let again = until.min(view.now.checked_add(LOOK).unwrap_or(until));
        return Ok(State::Going { call: None, by: None, again });
    }
    let silent = run.nodes.iter().find(|id| view.objects.nodes.get(id.node()).is_some_and(|n| !n.ready));
    let otherwise = match silent {
        Some(node) => Finding::inconclusive(format!("{node} isn't ready, so nothing is known of its pod")),
        None => Finding::of(RawVerdict::Hang, format!("it didn't end within {}", order.timeout)),
    };
    Err(conclude(view, order, &pods, &otherwise))
}

/// Pods that haven't all begun.
fn waits(
    view: &View<'_>,
    order: &CheckOrder,
    run: &Run,
    pods: &[(&PodObject, Progress)],
    asked: Timestamp,
) -> Result<State, Finding> {
    let trouble = pods.iter().find_map(|(pod, progress)| match progress {
        Progress::Waiting(Some(why)) => Some(format!("{}: {why}", pod.meta.name)),
        Progress::Waiting(None) | Progress::Running | Progress::Ended(_) => None,
    });
    if view.now.duration_since(asked) < patience(order) {
        return Ok(going(view, None, trouble.map(|why| Blocker::NotReady(read::cut(why)))));
    }
    let why = trouble.unwrap_or_else(|| match pods.is_empty() {
        true => "it has no pod".to_owned(),
        false => "its pod hasn't started".to_owned(),
    });
    let otherwise = match missing_devices(view, order) {
        // That the node doesn't offer its devices is what a check of the driver is for; the scheduler has just run it.
        Some(text) if order.class == CheckClass::Driver && run.size() == 1 => {
            Finding::of(RawVerdict::Fail, format!("{text}, so its pod can't start: {why}"))
        }
        Some(_) | None => {
            let within = order.timeout.saturating_add(START_WITHIN);
            Finding::inconclusive(format!("it didn't start within {within}: {why}"))
        }
    };
    Err(conclude(view, order, pods, &otherwise))
}

/// What a pod that hasn't ended counts as, when its Job is over.
fn unfinished(job: &JobObject, begun: bool, order: &CheckOrder) -> Finding {
    match &job.failure {
        Some((reason, _)) if reason == "DeadlineExceeded" && begun => {
            Finding::of(RawVerdict::Hang, format!("it didn't end within {}", order.timeout))
        }
        Some((reason, message)) => Finding::inconclusive(format!("its Job failed: {reason}: {message}")),
        None => Finding::inconclusive("its pod is gone, and with it what it said"),
    }
}

/// What was found, with `otherwise` for every pod that didn't come to an end of its own.
fn conclude(
    view: &View<'_>,
    order: &CheckOrder,
    pods: &[(&PodObject, Progress)],
    otherwise: &Finding,
) -> Finding {
    let of = |progress: &Progress| match progress {
        // Killed at its deadline is a hang, whatever signal it was.
        Progress::Ended(finding) if !(finding.killed && otherwise.verdict == RawVerdict::Hang) => {
            finding.clone()
        }
        Progress::Ended(_) | Progress::Running | Progress::Waiting(_) => otherwise.clone(),
    };
    let mine = |pod: &PodObject| pod.node.as_deref() == Some(view.name());
    let own = pods.iter().find(|(pod, _)| mine(pod)).map_or_else(|| otherwise.clone(), |(_, p)| of(p));
    let others: Vec<Finding> =
        pods.iter().filter(|(pod, _)| !mine(pod)).map(|(_, progress)| of(progress)).collect();
    read::together(order.on, own, &others)
}

/// Pods of the Job, by name. Names of pods begin with their Job's.
fn pods<'a>(view: &View<'a>, job: &'a JobObject) -> impl Iterator<Item = &'a Arc<PodObject>> {
    let from = Key::new(&job.meta.namespace, &format!("{}-", job.meta.name));
    let of = move |pod: &&Arc<PodObject>| pod.meta.owners.iter().any(|o| o.uid == job.meta.uid);
    view.objects
        .pods
        .range(from.clone()..)
        .take_while(move |(key, _)| key.namespace == from.namespace && key.name.starts_with(&*from.name))
        .map(|(_, pod)| pod)
        .filter(of)
}

/// The node offers fewer GPUs than the check asks for.
fn missing_devices(view: &View<'_>, order: &CheckOrder) -> Option<String> {
    let wanted = job::devices(view.node, order.gpus);
    let short = wanted.iter().find(|(name, n)| view.node.devices.get(*name).copied().unwrap_or(0) < **n)?;
    let there = view.node.devices.get(short.0).copied().unwrap_or(0);
    Some(format!("the node offers {there} of {} {}", short.1, short.0))
}

/// How long a pod may take to start.
fn patience(order: &CheckOrder) -> SignedDuration {
    order.timeout.saturating_add(START_WITHIN).to_jiff()
}

fn going(view: &View<'_>, call: Option<Call>, by: Option<Blocker>) -> State {
    State::Going { call, by, again: view.now.checked_add(LOOK).unwrap_or(Timestamp::MAX) }
}
