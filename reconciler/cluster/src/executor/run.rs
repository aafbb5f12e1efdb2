//! The loop of one cluster: look, call, look again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use drydock_plan::{Ensure, StepReport, StepState};
use drydock_spec::{ClusterName, Fleet};
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::calls::carry_out;
use super::desk::{Desk, Inside, Job};
use crate::client::{CallError, Caller};
use crate::clock;
use crate::ensure::{self, Call, Objects, Outcome, Request, SHARED, SHOWS_WITHIN, Settings, View};
use crate::watch::Shared;

/// Calls of one cluster that are under way at a time: a drain of a rack evicts some hundred pods, and an API server
/// gives a client of this kind about so many places.
const IN_FLIGHT: usize = 16;
/// What changes within this time is looked at together.
const COALESCE: Duration = Duration::from_millis(20);
/// The longest time without a look while something is asked for: nothing hangs on an event alone.
const LOOK_AT_LEAST: Duration = Duration::from_secs(30);
/// Ended calls that wait to be noted.
const NOTES: usize = 1_024;

/// A node, and the intent for it that wants a call.
type Who = (Arc<str>, drydock_plan::Generation);
/// Calls under way that are the same for all nodes, with those who have joined since.
type SharedCalls = BTreeMap<String, Vec<Who>>;

/// A call that has ended: for which nodes, under which intent, and how.
struct Ended {
    nodes: Vec<Who>,
    key: String,
    result: Result<(), CallError>,
}

/// One cluster's executor.
pub struct Runner {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its API server.
    pub caller: Caller,
    /// What is seen of it.
    pub shared: Arc<Shared>,
    /// What is asked for.
    pub desk: Arc<Desk>,
    /// Settings.
    pub settings: Settings,
    /// Called when a report has changed.
    pub news: Arc<dyn Fn() + Send + Sync>,
    /// When own objects were looked at last; begins empty.
    pub kept: std::cell::Cell<Option<Instant>>,
}

impl Runner {
    /// Runs for ever; whoever drops the future ends it. Calls that are under way then are carried out or not, as after
    /// a crash.
    pub async fn run(self) {
        let (ended, mut endings) = mpsc::channel(NOTES);
        let permits = Arc::new(Semaphore::new(IN_FLIGHT));
        let (mut seen, mut asked) = (self.shared.subscribe(), self.desk.subscribe());
        let mut shared_calls: SharedCalls = BTreeMap::new();
        loop {
            let (calls, next) = self.look(&mut shared_calls);
            for (nodes, call) in calls {
                let (caller, permits, ended) = (self.caller.clone(), Arc::clone(&permits), ended.clone());
                tokio::spawn(async move {
                    // The semaphore is never closed.
                    let _permit = permits.acquire().await;
                    let result = carry_out(&caller, &call.request).await;
                    let _ = ended.send(Ended { nodes, key: call.key, result }).await;
                });
            }
            tokio::select! {
                _ = seen.changed() => {}
                _ = asked.changed() => {}
                Some(end) = endings.recv() => self.note(end, &mut shared_calls),
                () = tokio::time::sleep_until(next) => {}
            }
            tokio::time::sleep(COALESCE).await;
            while let Ok(end) = endings.try_recv() {
                self.note(end, &mut shared_calls);
            }
            seen.mark_unchanged();
            asked.mark_unchanged();
        }
    }

    fn note(&self, end: Ended, shared_calls: &mut SharedCalls) {
        let Ended { mut nodes, key, result } = end;
        nodes.extend(shared_calls.remove(&key).unwrap_or_default());
        if let Err(error) = &result {
            tracing::debug!(cluster = %self.cluster, call = key, %error, "a call failed");
        }
        let now = clock::wall();
        let mut desk = self.desk.lock();
        for (node, generation) in nodes {
            if let Some(job) = desk.jobs.get_mut(&node).filter(|job| job.action.generation == generation) {
                job.effort.end(&key, result.clone(), now);
                job.fresh = true;
            }
        }
    }

    /// Looks at every node for which something has changed; gives the calls to make and when to look again.
    fn look(&self, shared_calls: &mut SharedCalls) -> (Vec<(Vec<Who>, Call)>, Instant) {
        let now = clock::wall();
        let mut next = Instant::now() + LOOK_AT_LEAST;
        let mut state = self.shared.lock();
        let mut desk = self.desk.lock();
        let Some(fleet) = desk.fleet.clone() else { return (Vec::new(), next) };
        // Nothing is done on facts that may be wrong; what has changed is kept for later.
        if state.trouble(now, Instant::now()).is_some() || !self.caller.gate().is_open() {
            return (Vec::new(), Instant::now() + Duration::from_secs(1));
        }
        let stirred = state.for_steps.take();
        let (mut calls, mut news) = (Vec::new(), false);
        let mut reported = Vec::new();
        for (node, job) in &mut desk.jobs {
            let due = job.again.is_some_and(|at| at <= now);
            if !(job.fresh || stirred.all || stirred.nodes.contains(node) || due) {
                next = next.min(until(job.again, now));
                continue;
            }
            job.fresh = false;
            let outcome = self.ensure(&state.objects, &fleet, node, job, now);
            job.again = outcome.again;
            self.collect(node, job, outcome.calls, now, shared_calls, &mut calls);
            let report = StepReport {
                generation: job.action.generation,
                state: outcome.state,
                checks: outcome.checks,
            };
            if job.report.as_ref() != Some(&report) {
                log(&self.cluster, node, job, &report);
                job.report = Some(report);
                reported.push(Arc::clone(node));
                news = true;
            }
            next = next.min(until(job.again, now));
        }
        if stirred.all || self.kept.get().is_none_or(|at| at.elapsed() >= LOOK_AT_LEAST) {
            self.kept.set(Some(Instant::now()));
            self.keep(&state.objects, &fleet, &mut desk, now, shared_calls, &mut calls);
        }
        // Jobs that nobody asks for any more: an intent has moved on, or this process was killed before it tidied up.
        tidy(&state.objects, &mut desk, now, &mut calls);
        drop(desk);
        state.for_facts.nodes.extend(reported);
        drop(state);
        if news {
            (self.news)();
        }
        (calls, next)
    }

    fn ensure(
        &self,
        objects: &Objects,
        fleet: &Fleet,
        node: &Arc<str>,
        job: &mut Job,
        now: Timestamp,
    ) -> Outcome {
        let Some(object) = objects.nodes.get(node) else {
            return Outcome::failed(format!("the node {node} doesn't exist"));
        };
        if object.own_cordon().is_some_and(|epoch| epoch > job.action.epoch.0) {
            // Somebody with a newer ledger was here: a restored backup, or a second fleet that names the same cluster.
            return Outcome::failed(format!(
                "the node was reserved later (epoch {}) than this intent knows (epoch {})",
                object.own_cordon().unwrap_or_default(),
                job.action.epoch
            ));
        }
        let view = View {
            cluster: &self.cluster,
            node: object,
            objects,
            fleet,
            settings: &self.settings,
            action: &job.action,
            now,
        };
        let effort = &mut job.effort;
        match &job.action.ensure {
            Ensure::Preflight { artifacts, checks } => ensure::preflight(&view, effort, artifacts, checks),
            Ensure::Cordoned | Ensure::Kept => ensure::cordoned(&view, effort),
            Ensure::Checkpointed { gangs } => ensure::checkpointed(&view, effort, gangs),
            Ensure::Drained { rules } => ensure::drained(&view, effort, rules),
            Ensure::Applied { component, version, attempt, reboot } => {
                let outcome = ensure::apply::applied(&view, effort, component, version.as_ref(), *attempt);
                if *reboot { ensure::apply::with_reboot(&view, outcome) } else { outcome }
            }
            Ensure::Partitioned { layout, name, attempt } => {
                ensure::partition::partitioned(&view, effort, layout, name.as_ref(), *attempt)
            }
            Ensure::Checked { checks } => ensure::checked(&view, effort, checks),
            Ensure::Returned => ensure::returned(&view, effort),
        }
    }

    /// Takes the calls that may be made now; one that another node makes just now is shared.
    fn collect(
        &self,
        node: &Arc<str>,
        job: &mut Job,
        wanted: Vec<Call>,
        now: Timestamp,
        shared_calls: &mut SharedCalls,
        calls: &mut Vec<(Vec<Who>, Call)>,
    ) {
        for call in wanted {
            if !job.effort.may(&call.key, now) {
                let at = job.effort.next(&call.key);
                if at < Timestamp::MAX {
                    job.again = Some(job.again.map_or(at, |before| before.min(at)));
                }
                continue;
            }
            job.effort.begin(&call.key, now);
            let who = (Arc::clone(node), job.action.generation);
            if call.key.starts_with(SHARED) {
                if let Some(waiting) = shared_calls.get_mut(&call.key) {
                    waiting.push(who);
                    continue;
                }
                shared_calls.insert(call.key.clone(), Vec::new());
            }
            calls.push((vec![who], call));
        }
    }
}

impl Runner {
    fn keep(
        &self,
        objects: &Objects,
        fleet: &Fleet,
        desk: &mut Inside,
        now: Timestamp,
        shared_calls: &mut SharedCalls,
        calls: &mut Vec<(Vec<Who>, Call)>,
    ) {
        let Inside { jobs, rounds, drifted, .. } = desk;
        let actions = jobs.values().map(|job| &job.action);
        let kept = ensure::keep::keep(objects, fleet, &self.settings, actions, rounds, now);
        for drift in kept.drifted.iter().filter(|drift| !drifted.contains(drift)) {
            let (object, fields) = (&drift.object, drift.fields.join(", "));
            if drift.fight {
                tracing::error!(cluster = %self.cluster, object, fields, "somebody sets it back again and again; it is left alone");
            } else {
                tracing::warn!(cluster = %self.cluster, object, fields, "somebody has edited it; it is put right");
            }
        }
        *drifted = kept.drifted;
        for call in kept.calls {
            if !shared_calls.contains_key(&call.key) {
                shared_calls.insert(call.key.clone(), Vec::new());
                calls.push((Vec::new(), call));
            }
        }
    }
}

/// Adds the deletions of what nobody asks for any more, once until the watch has had time to show them.
fn tidy(objects: &Objects, desk: &mut Inside, now: Timestamp, calls: &mut Vec<(Vec<Who>, Call)>) {
    let Inside { jobs, told_to_go, .. } = desk;
    told_to_go.retain(|_, at| now.duration_since(*at) < SHOWS_WITHIN);
    // A step may have asked for the same.
    told_to_go.extend(calls.iter().filter_map(|(_, call)| Some((deleted(call)?.to_owned(), now))));
    let wanted = jobs.iter().map(|(node, job)| (Arc::clone(node), job.action.generation)).collect();
    for call in ensure::leftovers(objects, &wanted) {
        let Some(uid) = deleted(&call) else { continue };
        if let Entry::Vacant(place) = told_to_go.entry(uid.to_owned()) {
            place.insert(now);
            calls.push((Vec::new(), call));
        }
    }
}

/// The uid of what a call deletes.
fn deleted(call: &Call) -> Option<&str> {
    match &call.request {
        Request::Delete { uid, .. } => Some(uid),
        _ => None,
    }
}

fn until(at: Option<Timestamp>, now: Timestamp) -> Instant {
    let wait = at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    Instant::now() + if at.is_some() { wait.unwrap_or_default().min(LOOK_AT_LEAST) } else { LOOK_AT_LEAST }
}

fn log(cluster: &ClusterName, node: &str, job: &Job, report: &StepReport) {
    let step = job.action.ensure.word();
    let generation = report.generation.0;
    match &report.state {
        StepState::Done => tracing::info!(%cluster, node, step, generation, "done"),
        StepState::Failed { message } => tracing::warn!(%cluster, node, step, generation, message, "failed"),
        StepState::Working { remaining, blocked_by } => {
            let by = blocked_by.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::debug!(%cluster, node, step, generation, remaining, by, "working");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use drydock_api::names;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::ensure::fixture::Scene;
    use crate::objects::JobObject;

    /// A check's Job was deleted once more whenever somebody looked between the answer and the watch.
    #[test]
    fn what_was_told_to_go_is_told_once() {
        let job = json!({"metadata": {"name": "check-a", "namespace": "drydock-system", "uid": "u1", "labels": {
            names::MANAGED_BY: names::MANAGER, names::CHECK: "smoke", names::NODE: "n1", names::GENERATION: "3"}}});
        let scene = Scene::node(json!({"metadata": {"name": "n1"}})).with::<JobObject>([job]);
        let mut desk = Inside::default();
        let mut look = |seconds: i64| {
            let mut calls = Vec::new();
            let now = scene.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            tidy(scene.objects(), &mut desk, now, &mut calls);
            calls.len()
        };
        assert_eq!([look(0), look(1), look(29), look(31), look(32)], [1, 0, 0, 1, 0]);
    }
}
