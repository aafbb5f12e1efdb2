//! A component gets another version on one node, by each way of delivery.

mod daemon_set;
mod deployment;
mod job;
pub(crate) mod label;
pub(crate) mod operator;
mod pods;
pub(crate) mod workload;

use drydock_api::names;
use drydock_plan::{Blocker, StepState};
use drydock_spec::{ComponentClass, ComponentName, ComponentSpec, ComponentVersion, Delivery};
use jiff::SignedDuration;
use serde_json::json;

use super::{Call, Effort, Outcome, Request, View};
use crate::client::{Kind, Patch};
use crate::delivery;

/// What a delivery is about.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub name: &'a ComponentName,
    pub spec: &'a ComponentSpec,
    pub version: Option<&'a ComponentVersion>,
    pub attempt: u32,
}

/// The component runs in this version on the node; `None` means that it doesn't run.
pub fn applied(
    view: &View<'_>,
    effort: &mut Effort,
    component: &ComponentName,
    version: Option<&ComponentVersion>,
    attempt: u32,
) -> Outcome {
    let Some(named) = view.fleet.components.get(component) else {
        return Outcome::failed(format!("the documents in force have no component {component}"));
    };
    let item = Item { name: component, spec: &named.spec, version, attempt };
    match &named.spec.delivery {
        Delivery::DaemonSet(object) => daemon_set::applied(view, effort, item, object),
        Delivery::NvidiaDriver(object) => operator::driver(view, effort, item, object),
        Delivery::ClusterPolicy(object) => operator::policy(view, effort, item, object),
        Delivery::Deployment(object) => deployment::applied(view, effort, item, object),
        Delivery::Job(object) => job::applied(view, effort, item, object),
        Delivery::Label(label) => label::applied(view, effort, item, label),
        Delivery::Observe {} => {
            Outcome::failed(format!("{component} is only observed; somebody else moves it"))
        }
    }
}

/// The same, and the node is asked to reboot once the version is in place. That it has come back is judged by its boot id,
/// by whoever planned it.
#[must_use]
pub fn with_reboot(view: &View<'_>, mut outcome: Outcome) -> Outcome {
    let generation = view.action.generation.to_string();
    let asked = view.node.meta.annotation(names::REBOOT) == Some(generation.as_str());
    if outcome.state == StepState::Done && !asked {
        let body = json!({ "metadata": { "annotations": { names::REBOOT: generation } } });
        let uri = Kind::NODE.one(None, view.name());
        let request = Request::Patch { uri, patch: Patch::Merge, body };
        outcome.calls.push(Call { key: "reboot".to_owned(), request });
    }
    outcome
}

/// Looks again after this time while something is awaited that wakes by itself when it comes.
const LOOK: SignedDuration = SignedDuration::from_secs(5);

/// A label of the node; `None` takes it away. No call when it is so already.
pub(crate) fn label_call(view: &View<'_>, key: &str, value: Option<&str>) -> Option<Call> {
    if view.node.meta.label(key) == value {
        return None;
    }
    let body = json!({"metadata": {"labels": {key: value}}});
    let uri = Kind::NODE.one(None, view.name());
    // The value in the key: asking for another value isn't a repetition.
    let key = format!("label {key}={}", value.unwrap_or_default());
    Some(Call { key, request: Request::Patch { uri, patch: Patch::Merge, body } })
}

/// The answer while `call` hasn't shown: working, or what the API server says against it.
pub(crate) fn asked(view: &View<'_>, effort: &Effort, call: Call) -> Outcome {
    match effort.error(&call.key) {
        Some(error) if error.is_forbidden() => {
            let text = format!("not allowed: {error}");
            Outcome { calls: vec![call], ..Outcome::blocked(0, Blocker::Refused(text)) }
        }
        Some(error) if error.refusal().is_some() && !error.is_conflict() && !error.is_ambiguous() => {
            // The API server has understood and says no: it will say so again.
            match effort.asked(&call.key) {
                Some(asked) if asked.failures >= REFUSALS => Outcome::failed(error.to_string()),
                _ => {
                    Outcome { calls: vec![call], ..Outcome::blocked(0, Blocker::Refused(error.to_string())) }
                }
            }
        }
        Some(error) => {
            Outcome { calls: vec![call], ..Outcome::blocked(0, Blocker::Refused(error.to_string())) }
        }
        None => Outcome::working(vec![call]),
    }
    .again(view.now, SignedDuration::from_secs(1))
}

/// Refusals in a row after which a call counts as failed: the first may be a webhook that is just starting.
const REFUSALS: u32 = 3;

/// Devices come back some seconds after their plugin; longer than this is a plugin that doesn't work.
const DEVICES_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// Whether the node advertises the GPUs it should once its device plugin runs: labels and ready pods alone aren't
/// believed. `None` when it does.
pub(crate) fn devices_missing(view: &View<'_>, effort: &mut Effort, item: Item<'_>) -> Option<Outcome> {
    if item.spec.class != ComponentClass::DevicePlugin || item.version.is_none() {
        return None;
    }
    let pool = delivery::pool_of(view.fleet, view.cluster, &view.node.meta.labels)?;
    let whole = view.node.devices.get("nvidia.com/gpu").or(view.node.devices.get("nvidia.com/gpu.shared"));
    let (have, want) = (whole.copied().unwrap_or(0), pool.gpu.count);
    // With a layout, what is advertised is judged where the layout is.
    if pool.layout.is_some() || have >= want {
        return None;
    }
    let since = effort.since("devices", view.now);
    let until = since.checked_add(DEVICES_WITHIN).unwrap_or(view.now);
    if view.now >= until {
        return Some(Outcome::failed(format!(
            "the plugin runs and the node advertises {have} of {want} GPUs"
        )));
    }
    let mut waiting = Outcome::blocked(0, Blocker::NotReady(format!("{have} of {want} GPUs are advertised")));
    waiting.again = Some(until);
    Some(waiting)
}
