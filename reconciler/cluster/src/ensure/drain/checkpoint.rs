//! Asking jobs for a checkpoint before their pods are evicted.
//!
//! A job takes part when its pods carry `drydock.dev/checkpoint-hook: annotation`. drydock then sets
//! `drydock.dev/checkpoint-request` on all those pods in the cluster, also on other nodes: which of them writes the
//! checkpoint is the job's business. The job answers on at least one of them by copying the request to
//! `drydock.dev/checkpoint-for`.
//!
//! Nodes of one job are emptied together, each by an intent of its own. They share a request: one that nobody has
//! answered yet is as good as one's own, since its checkpoint is still to be written. Which one is shared is decided by
//! what stands on the pods, so it doesn't matter who sees it first: of several, the first by text wins.

use std::collections::BTreeSet;
use std::sync::Arc;

use drydock_api::names;
use drydock_plan::{Blocker, GangId, StepState};
use jiff::SignedDuration;
use serde_json::json;

use crate::client::{Kind, Patch};
use crate::ensure::{Call, Effort, Outcome, Request, View};
use crate::objects::{PodObject, Watched as _};

/// How long other nodes of a job leave it to the first of them to ask. It only spares requests: 32 nodes that each ask
/// 32 pods would be a thousand.
const LEAVES_IT_FOR: SignedDuration = SignedDuration::from_secs(15);

/// Requests made at a look.
const PATCHES_MAX: usize = 50;

/// How often it is looked again while a job writes; its answer on a pod of this node wakes by itself, one on another
/// node's pod doesn't.
const LOOK: SignedDuration = SignedDuration::from_secs(5);

/// Every one of these jobs has written a checkpoint since the intent began, or takes no part.
pub fn checkpointed(view: &View<'_>, effort: &mut Effort, gangs: &[GangId]) -> Outcome {
    let mut calls = Vec::new();
    let mut blocked_by = None;
    let mut remaining: u32 = 0;
    for gang in gangs {
        let pods = taking_part(view, gang);
        if pods.is_empty() || answered(view, effort, gang, &pods) {
            continue;
        }
        remaining += 1;
        for call in asks(view, effort, gang, &pods) {
            if let Some(error) = effort.error(&call.key).filter(|e| e.is_forbidden()) {
                blocked_by = Some(Blocker::Refused(format!(
                    "asking {gang} for a checkpoint isn't allowed; drydock needs the verb patch on pods: {error}"
                )));
            }
            if effort.may(&call.key, view.now) {
                calls.push(call);
            }
        }
    }
    if remaining == 0 {
        return Outcome::done();
    }
    calls.truncate(PATCHES_MAX);
    Outcome { calls, ..Outcome::of(StepState::Working { remaining, blocked_by }) }.again(view.now, LOOK)
}

/// Pods of the job, in the whole cluster, that can be asked.
fn taking_part<'a>(view: &View<'a>, gang: &GangId) -> Vec<&'a Arc<PodObject>> {
    let keys = view.objects.gangs.get(gang.job()).into_iter().flatten();
    let opted = |pod: &&Arc<PodObject>| {
        let hook = pod.meta.annotation(names::CHECKPOINT_HOOK);
        hook == Some(names::CHECKPOINT_HOOK_ANNOTATION) && !pod.leaving() && !pod.finished()
    };
    keys.filter_map(|key| view.objects.pods.get(key)).filter(opted).collect()
}

fn own_request(view: &View<'_>) -> String {
    format!("{}:{}", view.name(), view.action.generation)
}

/// The request of a pod that the job hasn't answered there.
fn open_request<'a>(pod: &'a PodObject, answers: &BTreeSet<&str>) -> Option<&'a str> {
    pod.meta.annotation(names::CHECKPOINT_REQUEST).filter(|request| !answers.contains(request))
}

fn answers<'a>(pods: &[&'a Arc<PodObject>]) -> BTreeSet<&'a str> {
    pods.iter().filter_map(|pod| pod.meta.annotation(names::CHECKPOINT_FOR)).collect()
}

fn note(gang: &GangId) -> String {
    format!("checkpoint:{gang}")
}

/// Whether the job has answered this intent's request, or one of another node that was still open when this intent had
/// begun. Requests that are open now are noted.
fn answered(view: &View<'_>, effort: &mut Effort, gang: &GangId, pods: &[&Arc<PodObject>]) -> bool {
    let answers = answers(pods);
    let own = own_request(view);
    let (_, noted) = effort.notes.entry(note(gang)).or_insert_with(|| (view.now, String::new()));
    let known = |request: &str| request == own || noted.split_whitespace().any(|n| n == request);
    if answers.iter().any(|answer| known(answer)) {
        return true;
    }
    let new: BTreeSet<&str> =
        pods.iter().filter_map(|p| open_request(p, &answers)).filter(|r| !known(r)).collect();
    for request in new {
        *noted = format!("{noted} {request}");
    }
    false
}

/// Asks the pods that don't carry the request yet.
fn asks(view: &View<'_>, effort: &mut Effort, gang: &GangId, pods: &[&Arc<PodObject>]) -> Vec<Call> {
    let answers = answers(pods);
    let open = pods.iter().filter_map(|pod| open_request(pod, &answers)).min();
    let own = own_request(view);
    let request = open.unwrap_or(&own);
    // A restart or a lost write may have left some pods without the request, so whoever waits long enough completes it.
    let first = pods.iter().filter_map(|pod| pod.node.as_deref()).min() == Some(view.name());
    let waited = view.now.duration_since(effort.since(&note(gang), view.now)) >= LEAVES_IT_FOR;
    if !(first || waited) {
        return Vec::new();
    }
    let without = pods.iter().filter(|p| p.meta.annotation(names::CHECKPOINT_REQUEST) != Some(request));
    without
        .map(|pod| {
            let uri = Kind::POD.one(pod.key().space(), &pod.meta.name);
            // With its uid it is refused when another pod has taken the name meanwhile.
            let body = json!({"metadata": {"uid": pod.meta.uid,
                "annotations": {names::CHECKPOINT_REQUEST: request}}});
            let key = format!("checkpoint:{}:{request}", pod.meta.uid);
            Call { key, request: Request::Patch { uri, patch: Patch::Merge, body } }
        })
        .collect()
}
