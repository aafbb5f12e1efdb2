//! The GPU Operator's objects: one `NVIDIADriver` a version, or the one `ClusterPolicy`.

use std::sync::Arc;

use drydock_api::names;
use drydock_plan::Blocker;
use drydock_spec::settings::driver_field;
use drydock_spec::{ComponentName, ComponentVersion, ObjectRef};
use serde_json::{Map, Value, json};

use super::super::{Call, Effort, Outcome, Request, SHARED, View};
use super::{Item, LOOK, asked, label_call, pods, workload};
use crate::client::{Kind, Patch};
use crate::objects::{Key, PodObject};
use crate::{delivery, drift};

/// The operator's driver pod on a node, whichever object made it.
pub(crate) fn driver_pods<'a>(
    pods: impl Iterator<Item = &'a Arc<PodObject>>,
) -> impl Iterator<Item = &'a Arc<PodObject>> {
    pods.filter(|pod| {
        pod.of_daemon_set()
            && (pod.meta.label("app.kubernetes.io/component") == Some("nvidia-driver")
                || pod.meta.label("app") == Some("nvidia-driver-daemonset"))
    })
}

fn split(image: &str) -> (Option<&str>, &str) {
    image.rsplit_once('/').map_or((None, image), |(repository, image)| (Some(repository), image))
}

fn image_fields(object: &ObjectRef, version: &ComponentVersion) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some((repository, image)) = object.image.as_deref().map(split) {
        if let Some(repository) = repository {
            fields.insert("repository".to_owned(), json!(repository));
        }
        fields.insert("image".to_owned(), json!(image));
    }
    // The operator takes a digest in place of a version.
    let text = version.digest.as_deref().unwrap_or(version.version.as_str());
    fields.insert("version".to_owned(), json!(text));
    // The loader refuses settings without a field.
    for (key, value) in &version.config {
        fields.extend(driver_field(key, value).map(|(field, value)| (field.to_owned(), value)));
    }
    fields
}

/// One `NVIDIADriver` a version, chosen by the node's label. The operator's DaemonSet leaves a node that its selector
/// doesn't name any more, so flipping the label is all there is to do.
pub(super) fn driver(view: &View<'_>, effort: &mut Effort, item: Item<'_>, object: &ObjectRef) -> Outcome {
    let key = delivery::label_key(item.name);
    let Some(version) = item.version else {
        return label_call(view, &key, None).map_or_else(Outcome::done, |call| asked(view, effort, call));
    };
    let name = delivery::object_name(&object.name, version);
    let slug = delivery::slug(version);
    let wanted = driver_object(item.name, object, version);
    let live = view.objects.drivers.get(&Key::new("", &name));
    if !live.is_some_and(|live| drift::differences(&wanted["spec"], &live.spec).is_empty()) {
        let uri = Kind::NVIDIA_DRIVER.one(None, &name);
        let request = Request::Patch { uri, patch: Patch::Apply { force: true }, body: wanted };
        return asked(view, effort, Call { key: format!("{SHARED}nvidiadriver {name}"), request });
    }
    if let Some(call) = label_call(view, &key, Some(&slug)) {
        return asked(view, effort, call);
    }
    settled(view, effort, item, version, false)
}

/// The `NVIDIADriver` of one version.
pub(crate) fn driver_object(name: &ComponentName, object: &ObjectRef, version: &ComponentVersion) -> Value {
    let mut spec = object.template.as_ref().map_or_else(Map::new, |t| (**t).clone());
    spec.extend(image_fields(object, version));
    let key = delivery::label_key(name);
    workload::entry(&mut spec, "nodeSelector").insert(key, json!(delivery::slug(version)));
    spec.entry("driverType").or_insert_with(|| json!("gpu"));
    // Its pods have to start just on nodes that are away.
    let bears = json!({ "key": names::TAINT, "operator": "Exists", "effect": "NoSchedule" });
    if let Some(list) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
        list.push(bears);
    }
    json!({
        "apiVersion": Kind::NVIDIA_DRIVER.version,
        "kind": Kind::NVIDIA_DRIVER.kind,
        "metadata": {
            "name": delivery::object_name(&object.name, version),
            "labels": { names::MANAGED_BY: "drydock", names::COMPONENT: name.as_str() },
            "annotations": { names::VERSION: delivery::exact(version) },
        },
        "spec": spec,
    })
}

/// The one `ClusterPolicy`: its template is for all nodes, so it is set first, and each node's pod is deleted in its
/// turn. Automatic upgrades are off, or the operator would move all nodes by itself.
pub(super) fn policy(view: &View<'_>, effort: &mut Effort, item: Item<'_>, object: &ObjectRef) -> Outcome {
    let Some(version) = item.version else {
        return Outcome::failed("a ClusterPolicy can't take the driver from one node alone");
    };
    let mut driver = image_fields(object, version);
    driver.insert("upgradePolicy".to_owned(), json!({ "autoUpgrade": false }));
    let spec = json!({ "driver": driver });
    let Some(live) = view.objects.policies.get(&Key::new("", &object.name)) else {
        return Outcome::failed(format!("there is no ClusterPolicy {} in the cluster", object.name));
    };
    if !drift::differences(&spec, &live.spec).is_empty() {
        let body = json!({
            "apiVersion": Kind::CLUSTER_POLICY.version, "kind": Kind::CLUSTER_POLICY.kind,
            "metadata": { "name": object.name, "annotations": { names::VERSION: delivery::exact(version) } },
            "spec": spec,
        });
        let uri = Kind::CLUSTER_POLICY.one(None, &object.name);
        let request = Request::Patch { uri, patch: Patch::Apply { force: true }, body };
        let key = format!("{SHARED}clusterpolicy {}={}", object.name, delivery::slug(version));
        return asked(view, effort, Call { key, request });
    }
    settled(view, effort, item, version, true)
}

/// Waits for the operator's pod; with `delete` the pod of another version is deleted, since its DaemonSet doesn't.
fn settled(
    view: &View<'_>,
    effort: &mut Effort,
    item: Item<'_>,
    version: &ComponentVersion,
    delete: bool,
) -> Outcome {
    let right = |pod: &PodObject| {
        delivery::of_pod(pod)
            .is_some_and(|v| v.version == version.version || v.digest.is_some() && v.digest == version.digest)
    };
    let wrong = driver_pods(view.pods()).find(|pod| !right(pod) && !pod.leaving());
    if let Some(pod) = wrong {
        if !delete {
            let text =
                format!("pod {}/{} of the other version is still there", pod.meta.namespace, pod.meta.name);
            return Outcome::blocked(0, Blocker::NotReady(text)).again(view.now, LOOK);
        }
        // A pod made a moment ago from the template as it was before: the operator needs some seconds to see a change.
        return asked(view, effort, pods::delete(pod, "replace"));
    }
    let pod = driver_pods(view.pods()).find(|pod| right(pod) && !pod.leaving());
    pods::not_ready(view, effort, pod.map(Arc::as_ref), item.attempt).unwrap_or_else(Outcome::done)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_arrive_as_the_operators_fields() {
        let version = json!({
            "version": "580.95.05",
            "config": { "kernelModule": "proprietary", "usePrecompiled": "true" },
        });
        let version: ComponentVersion = serde_json::from_value(version).unwrap();
        let made = driver_object(&"gpu-driver".parse().unwrap(), &ObjectRef::named("driver"), &version);
        assert_eq!(made["spec"]["kernelModuleType"], "proprietary");
        assert_eq!(made["spec"]["usePrecompiled"], true);
        let fields = image_fields(&ObjectRef::named("cluster-policy"), &version);
        assert_eq!(
            (&fields["kernelModuleType"], &fields["usePrecompiled"]),
            (&json!("proprietary"), &json!(true))
        );
    }
}
