//! One DaemonSet a version; the node's label chooses.

use std::sync::Arc;

use drydock_api::names;
use drydock_spec::{ComponentVersion, ObjectRef};

use super::super::{Call, Effort, Outcome, Request, SHARED, View};
use super::{Item, LOOK, asked, devices_missing, label_call, pods, workload};
use crate::client::{Kind, Patch};
use crate::objects::{Key, PodObject};
use crate::{delivery, drift};

/// See [`super::applied`].
pub(super) fn applied(view: &View<'_>, effort: &mut Effort, item: Item<'_>, object: &ObjectRef) -> Outcome {
    let key = delivery::label_key(item.name);
    let Some(version) = item.version else { return removed(view, effort, item, &key) };
    if let Some(call) = missing(view, item, object, version) {
        return asked(view, effort, call);
    }
    let slug = delivery::slug(version);
    if let Some(call) = label_call(view, &key, Some(&slug)) {
        return asked(view, effort, call);
    }
    let mut of_version = ours(view, item).filter(|pod| pod.meta.label(&key) == Some(slug.as_str()));
    let pod = of_version.clone().find(|pod| !pod.leaving()).or_else(|| of_version.next());
    if let Some(outcome) = pods::not_ready(view, effort, pod.map(Arc::as_ref), item.attempt) {
        return outcome;
    }
    // Two versions side by side would both hold the devices.
    if ours(view, item).any(|pod| pod.meta.label(&key) != Some(slug.as_str())) {
        return Outcome::working(Vec::new()).again(view.now, LOOK);
    }
    devices_missing(view, effort, item).unwrap_or_else(Outcome::done)
}

fn removed(view: &View<'_>, effort: &Effort, item: Item<'_>, key: &str) -> Outcome {
    if let Some(call) = label_call(view, key, None) {
        return asked(view, effort, call);
    }
    if ours(view, item).next().is_some() {
        return Outcome::working(Vec::new()).again(view.now, LOOK);
    }
    Outcome::done()
}

fn ours<'a>(view: &View<'a>, item: Item<'a>) -> impl Iterator<Item = &'a Arc<PodObject>> + Clone {
    let component = item.name.as_str();
    let node = view.node.meta.name.as_str();
    let keys = view.objects.on_node.get(node);
    let objects = view.objects;
    keys.into_iter()
        .flatten()
        .filter_map(move |key| objects.pods.get(key))
        .filter(move |pod| pod.meta.label(names::COMPONENT) == Some(component) && pod.of_daemon_set())
}

/// The call that makes the DaemonSet what it should be; `None` when it is.
fn missing(view: &View<'_>, item: Item<'_>, object: &ObjectRef, version: &ComponentVersion) -> Option<Call> {
    let wanted = workload::daemon_set_object(item.name, object, version, view.settings);
    let namespace = workload::namespace(object, view.settings);
    let name = delivery::object_name(&object.name, version);
    if let Some(live) = view.objects.daemon_sets.get(&Key::new(namespace, &name))
        && drift::differences(wanted.pointer("/spec/template")?, &live.template).is_empty()
    {
        return None;
    }
    let uri = Kind::DAEMON_SET.one(Some(namespace), &name);
    Some(Call {
        key: format!("{SHARED}daemonset {namespace}/{name}"),
        request: Request::Patch { uri, patch: Patch::Apply { force: true }, body: wanted },
    })
}
