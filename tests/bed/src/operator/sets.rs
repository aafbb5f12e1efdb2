//! The DaemonSet of an object. Pure.

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::NAMESPACE;

/// The system that the operator takes the nodes to run; it stands in names, and in tags of images.
const SYSTEM: &str = "ubuntu24.04";

/// Taints that driver pods tolerate by themselves.
fn tolerations(more: &Value) -> Vec<Value> {
    let mut all = vec![json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})];
    all.extend(more.as_array().into_iter().flatten().cloned());
    all
}

/// The image: a digest stands alone, a version is a tag. `None` where something is missing.
///
/// The real operator adds the nodes' system to a tag (`580.95.05-ubuntu24.04`), and so does this one.
fn image(spec: &Value) -> Option<String> {
    let (image, version) = (spec["image"].as_str()?, spec["version"].as_str()?);
    let path = match spec["repository"].as_str() {
        Some(repository) => format!("{repository}/{image}"),
        None => image.to_owned(),
    };
    Some(if version.starts_with("sha256:") {
        format!("{path}@{version}")
    } else {
        format!("{path}:{version}-{SYSTEM}")
    })
}

/// Name and body of the DaemonSet of an `NVIDIADriver`.
pub(super) fn of_driver(object: &DynamicObject) -> Option<(String, Value)> {
    let spec = &object.data["spec"];
    let digest: String =
        Sha256::digest(object.name_any()).iter().take(5).map(|b| format!("{b:02x}")).collect();
    let name = format!("nvidia-gpu-driver-{SYSTEM}-{digest}");
    let selector = spec["nodeSelector"].as_object().cloned().unwrap_or_default();
    let body = set(object, &name, spec, selector, &spec["tolerations"])?;
    Some((name, body))
}

/// Name and body of the DaemonSet of a `ClusterPolicy`.
pub(super) fn of_policy(object: &DynamicObject) -> Option<(String, Value)> {
    let spec = &object.data["spec"];
    let driver = &spec["driver"];
    if driver["enabled"] == json!(false) {
        return None;
    }
    let name = "nvidia-driver-daemonset".to_owned();
    let selector = Map::from_iter([("nvidia.com/gpu.deploy.driver".to_owned(), json!("true"))]);
    let body = set(object, &name, driver, selector, &spec["daemonsets"]["tolerations"])?;
    Some((name, body))
}

fn set(
    owner: &DynamicObject,
    name: &str,
    driver: &Value,
    selector: Map<String, Value>,
    more: &Value,
) -> Option<Value> {
    let types = owner.types.as_ref()?;
    let labels = json!({"app": name, "app.kubernetes.io/component": "nvidia-driver"});
    let strategy = if driver["upgradePolicy"]["autoUpgrade"] == json!(true) {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
    } else {
        json!({"type": "OnDelete"})
    };
    Some(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": labels,
            "ownerReferences": [{
                "apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid()?,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": selector,
                    "tolerations": tolerations(more),
                    "priorityClassName": "system-node-critical",
                    "containers": [{
                        "name": "nvidia-driver-ctr", "image": image(driver)?,
                        "command": ["nvidia-driver"], "args": ["init"],
                    }],
                },
            },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, spec: Value) -> DynamicObject {
        let body = json!({
            "apiVersion": "nvidia.com/v1", "kind": kind, "metadata": {"name": "a", "uid": "u"}, "spec": spec,
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn images_have_tags_of_their_system_or_digests() {
        let of =
            |version: &str| image(&json!({"repository": "r/nvidia", "image": "driver", "version": version}));
        assert_eq!(of("580.1").unwrap(), "r/nvidia/driver:580.1-ubuntu24.04");
        assert_eq!(of("sha256:00").unwrap(), "r/nvidia/driver@sha256:00");
        assert_eq!(image(&json!({"image": "driver"})), None);
    }

    #[test]
    fn both_kinds_delete_nothing_by_themselves() {
        let driver = json!({"image": "driver", "version": "1", "nodeSelector": {"pool": "a"}});
        let (name, set) = of_driver(&object("NVIDIADriver", driver.clone())).unwrap();
        assert!(name.starts_with("nvidia-gpu-driver-"));
        assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete");
        assert_eq!(set["spec"]["template"]["spec"]["nodeSelector"], json!({"pool": "a"}));
        let (name, set) = of_policy(&object("ClusterPolicy", json!({"driver": driver}))).unwrap();
        assert_eq!(name, "nvidia-driver-daemonset");
        assert_eq!(
            set["spec"]["template"]["spec"]["nodeSelector"],
            json!({"nvidia.com/gpu.deploy.driver": "true"})
        );
        assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "ClusterPolicy");
    }
}
