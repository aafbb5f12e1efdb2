//! What can go wrong is found before a node is cordoned: images that can't be pulled, software of others that would run
//! beside the new version, and checks that fail already.
//!
//! What would make the drain impossible isn't looked at here: the rules of the drain come with the drain.

mod images;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use drydock_api::names;
use drydock_plan::{CheckOrder, CheckResult, NodeId, RawVerdict, StepState};
use drydock_spec::{ComponentClass, ComponentName, ComponentVersion, Delivery};
use jiff::SignedDuration;
use serde_json::Value;

use super::{Effort, Outcome, View, check};
use crate::delivery::label_key;
use crate::objects::{DaemonSetObject, Key, NodeObject};

/// These artefacts are on the node, nothing of somebody else's stands in their way, and these checks have run.
///
/// Images are fetched before the checks run: a download beside a check would slow it down.
pub fn preflight(
    view: &View<'_>,
    effort: &mut Effort,
    artifacts: &BTreeMap<ComponentName, Vec<ComponentVersion>>,
    orders: &[CheckOrder],
) -> Outcome {
    if let Some(message) = artifacts.keys().find_map(|name| beside(view, name)) {
        return Outcome::failed(message);
    }
    let fetched = images::fetched(view, effort, artifacts);
    if fetched.state != StepState::Done {
        return fetched;
    }
    let mut free = Vec::new();
    let mut in_use = Vec::new();
    for order in orders {
        match held(view, effort, order) {
            None => free.push(order.clone()),
            Some(result) => in_use.push(result),
        }
    }
    let mut outcome = check::checked(view, effort, &free);
    if taken_meanwhile(view, effort, &free, &outcome) {
        outcome = outcome.again(view.now, SignedDuration::from_millis(100));
    }
    outcome.checks.extend(in_use);
    outcome.calls.splice(0..0, fetched.calls);
    outcome
}

/// A check that needs GPUs which jobs hold can't run before they have left, and one on a node that has never had a device
/// plugin has nothing to run on. That says nothing against the node. Decided once for an intent, or a job that ends would
/// make its result another one with every look.
fn held(view: &View<'_>, effort: &mut Effort, order: &CheckOrder) -> Option<CheckResult> {
    let (at, said) = effort
        .notes
        .entry(gpus_note(order))
        .or_insert_with(|| (view.now, no_gpus_yet(view, order).unwrap_or_default()))
        .clone();
    (!said.is_empty()).then(|| CheckResult {
        check: order.name.clone(),
        verdict: RawVerdict::NotApplicable,
        value: None,
        detail: said,
        started: at,
        finished: at,
        partner: order.partner.clone(),
    })
}

/// Jobs may take the GPUs between the look and the check's pod, most of all when other nodes are emptied just then. A
/// check that has no place yet gives way to them. True when one did.
fn taken_meanwhile(view: &View<'_>, effort: &mut Effort, orders: &[CheckOrder], so_far: &Outcome) -> bool {
    let mut gave_way = false;
    for order in orders {
        let known = so_far.checks.iter().any(|result| result.check == order.name);
        let placed = view.pods().any(|pod| pod.meta.label(names::CHECK) == Some(order.name.as_str()));
        if let Some(said) = no_gpus_yet(view, order).filter(|_| !known && !placed) {
            effort.notes.insert(gpus_note(order), (view.now, said));
            gave_way = true;
        }
    }
    gave_way
}

fn gpus_note(order: &CheckOrder) -> String {
    format!("gpus for {}", order.name)
}

/// Why the check can't have its GPUs yet, through no fault of a node: jobs hold them, or the first install is still to
/// bring the device plugin.
fn no_gpus_yet(view: &View<'_>, order: &CheckOrder) -> Option<String> {
    let others = order.nodes.iter().map(NodeId::node).filter(|node| *node != view.name());
    std::iter::once(view.name()).chain(others).find_map(|node| {
        let object = view.objects.nodes.get(node)?;
        let devices = &object.devices;
        if order.gpus > 0 && is_new(view, object) {
            return Some(format!("{node} has never advertised a GPU: nothing is installed there yet"));
        }
        let offered: u32 = devices.values().sum();
        let holds = |pod: &&std::sync::Arc<crate::objects::PodObject>| {
            !pod.finished() && pod.meta.label(names::CHECK).is_none()
        };
        let held: u32 = view.objects.pods_on(node).filter(holds).map(|pod| pod.devices).sum();
        let free = offered.saturating_sub(held);
        (held > 0 && free < order.gpus)
            .then(|| format!("jobs hold {held} of {offered} devices of {node}, and it needs {}", order.gpus))
    })
}

/// No device plugin was ever there. A kubelet goes on telling of a resource whose plugin has died, with a count of 0; and
/// where drydock has put one, GPUs that are missing are the node's trouble, found before the version can be blamed.
fn is_new(view: &View<'_>, node: &NodeObject) -> bool {
    node.devices.is_empty()
        && !view.fleet.components.iter().any(|(name, component)| {
            component.spec.class == ComponentClass::DevicePlugin
                && node.meta.label(&label_key(name)).is_some()
        })
}

/// A DaemonSet that somebody else has made for the component, and that would go on running on this node beside drydock's.
fn beside(view: &View<'_>, name: &ComponentName) -> Option<String> {
    let Delivery::DaemonSet(object) = &view.fleet.components.get(name)?.spec.delivery else { return None };
    let namespace = object.namespace.as_deref().unwrap_or(&view.settings.namespace);
    let found = view.objects.daemon_sets.get(&Key::new(namespace, &object.name))?;
    let own = found.meta.label(names::MANAGED_BY) == Some(names::MANAGER);
    let label = label_key(name);
    if own || !reaches(found, view) || gives_way(found, &label) {
        return None;
    }
    Some(format!(
        "the DaemonSet {namespace}/{} isn't drydock's and would run on this node beside the new version of {name}; \
         add to its pod template, in every term of \
         affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: \
         matchExpressions: [{{key: {label}, operator: DoesNotExist}}]",
        object.name
    ))
}

/// Its selector lets its pods onto this node.
fn reaches(found: &DaemonSetObject, view: &View<'_>) -> bool {
    let selector = found.template.pointer("/spec/nodeSelector").and_then(Value::as_object);
    selector.into_iter().flatten().all(|(key, value)| view.node.meta.label(key) == value.as_str())
}

/// Every alternative of its affinity keeps it off nodes that drydock gives a version: alternatives are ORed, so one that
/// doesn't is enough for its pod to stay.
fn gives_way(found: &DaemonSetObject, label: &str) -> bool {
    let terms = found.template.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let Some(terms) = terms.and_then(Value::as_array).filter(|terms| !terms.is_empty()) else { return false };
    let keeps_off = |term: &Value| {
        let expressions = term.get("matchExpressions").and_then(Value::as_array);
        expressions.into_iter().flatten().any(|e| {
            let text = |field: &str| e.get(field).and_then(Value::as_str);
            text("key") == Some(label) && text("operator") == Some("DoesNotExist")
        })
    };
    terms.iter().all(keeps_off)
}
