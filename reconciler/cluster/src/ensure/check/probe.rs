//! Whether a scheduler schedules: a pod that asks for it by name gets a node.

use drydock_api::names;
use drydock_plan::{Blocker, StepState};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::ident::{digest, label};
use super::leftovers::delete_pod;
use crate::client::Kind;
use crate::ensure::{Call, Effort, Outcome, Request, View};
use crate::objects::Key;

/// A scheduler binds a pod within a second; a new leader of several takes over within fifteen, and then it lists the
/// cluster.
const BOUND_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// An unbound pod wakes no node.
const LOOK: SignedDuration = SignedDuration::from_secs(2);

/// Note with the node that it was bound to.
const BOUND: &str = "probe bound";
/// Since when it waits.
const WAITS: &str = "probe waits";
/// Note with what the scheduler said when its time was over.
const FAILED: &str = "probe failed";
const CREATE: &str = "probe create";

/// The scheduler of this name has bound a pod. The pod asks for no GPU, tolerates nothing and may go to any node, so
/// what holds it up is the scheduler. It is deleted however that ends.
pub fn scheduled_probe(view: &View<'_>, effort: &mut Effort, scheduler: &str) -> Outcome {
    let name = format!(
        "drydock-probe-{}",
        digest(&[view.action.node.as_str(), &view.action.generation.to_string(), scheduler])
    );
    let at = Key::new(&view.settings.namespace, &name);
    let pod = view.objects.pods.get(&at);
    if let Some(node) = pod.and_then(|pod| pod.node.clone()) {
        effort.notes.entry(BOUND.to_owned()).or_insert((view.now, node));
    }
    let delete = |effort: &Effort| -> Vec<Call> {
        let going = pod.filter(|pod| !pod.leaving()).map(|pod| delete_pod(pod));
        going.into_iter().filter(|call| effort.may(&call.key, view.now)).collect()
    };
    if effort.notes.contains_key(BOUND) {
        return Outcome { calls: delete(effort), ..Outcome::done() };
    }
    if let Some((_, message)) = effort.notes.get(FAILED) {
        return Outcome { calls: delete(effort), ..Outcome::failed(message.clone()) };
    }
    let since = effort.since(WAITS, view.now);
    let waited = view.now.duration_since(since);
    let Some(pod) = pod else {
        let call = Call {
            key: CREATE.to_owned(),
            request: Request::Create {
                uri: Kind::POD.all(Some(&view.settings.namespace)),
                body: body(view, &name, scheduler),
            },
        };
        let by = effort.error(CREATE).map(|e| Blocker::Refused(format!("the probe pod can't be made: {e}")));
        if by.is_some() {
            // That it can't be made says nothing about the scheduler, so its time hasn't begun.
            effort.notes.remove(WAITS);
        }
        let calls = if effort.may(CREATE, view.now) { vec![call] } else { Vec::new() };
        let state = StepState::Working { remaining: 1, blocked_by: by };
        return Outcome { calls, ..Outcome::of(state) }.again(view.now, LOOK);
    };
    if waited < BOUND_WITHIN {
        return Outcome::of(StepState::Working { remaining: 1, blocked_by: None }).again(view.now, LOOK);
    }
    let said = if pod.message.is_empty() {
        "it has said nothing about it".to_owned()
    } else {
        format!("it says: {}", pod.message)
    };
    let message = format!(
        "the scheduler {scheduler} hasn't bound a probe pod within {} s; {said}",
        BOUND_WITHIN.as_secs()
    );
    effort.notes.insert(FAILED.to_owned(), (view.now, message.clone()));
    Outcome { calls: delete(effort), ..Outcome::failed(message) }
}

fn body(view: &View<'_>, name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": view.settings.namespace,
            "labels": {
                names::MANAGED_BY: names::MANAGER,
                names::PROBE: "scheduler",
                names::NODE: label(view.name()),
                names::GENERATION: view.action.generation.to_string(),
            },
        },
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "probe",
                "image": view.settings.smoke_image,
                "imagePullPolicy": view.settings.pull,
                "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
            }],
        },
    })
}
