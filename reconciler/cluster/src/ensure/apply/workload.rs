//! Workloads as drydock makes them: a template of the documents with names, image and version filled in.

use drydock_api::names;
use drydock_spec::settings::environment_name;
use drydock_spec::{ComponentName, ComponentVersion, ObjectRef, Template};
use serde_json::{Map, Value, json};

use super::super::Settings;
use crate::delivery;

/// Environment variable with the version, in every container of a template.
pub(crate) const ENV_VERSION: &str = "DRYDOCK_VERSION";

/// Namespace of a component's objects.
pub(crate) fn namespace<'a>(object: &'a ObjectRef, settings: &'a Settings) -> &'a str {
    object.namespace.as_deref().unwrap_or(&settings.namespace)
}

/// Labels of everything made for a version of a component.
pub(crate) fn labels(component: &ComponentName, version: &ComponentVersion) -> Value {
    json!({
        names::MANAGED_BY: "drydock",
        names::COMPONENT: component.as_str(),
        delivery::label_key(component): delivery::slug(version),
    })
}

/// A pod template: the document's, or one container with nothing but the image.
pub(crate) fn pod_template(
    component: &ComponentName,
    object: &ObjectRef,
    version: &ComponentVersion,
    settings: &Settings,
) -> Value {
    let mut template = object.template.as_ref().map_or_else(Map::new, |t: &Template| (**t).clone());
    let metadata = entry(&mut template, "metadata");
    merge(entry(metadata, "labels"), labels(component, version));
    entry(metadata, "annotations").insert(names::VERSION.to_owned(), json!(delivery::exact(version)));
    let spec = entry(&mut template, "spec");
    let image = delivery::image(object, version);
    if !spec.contains_key("containers") {
        spec.insert("containers".to_owned(), json!([{ "name": component.as_str() }]));
    }
    for list in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(image) = image.as_ref().filter(|_| !container.contains_key("image")) {
                container.insert("image".to_owned(), json!(image));
                container.entry("imagePullPolicy").or_insert_with(|| json!(settings.pull));
            }
            if let Some(env) = container.entry("env").or_insert_with(|| json!([])).as_array_mut() {
                env.splice(0..0, environment(version));
            }
        }
    }
    Value::Object(template)
}

/// The version and its settings, as variables. They come first, so that those of the document can name them.
fn environment(version: &ComponentVersion) -> Vec<Value> {
    let settings =
        version.config.iter().filter_map(|(key, value)| Some((environment_name(key)?, value.as_str())));
    std::iter::once((ENV_VERSION.to_owned(), version.version.as_str()))
        .chain(settings)
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

/// The DaemonSet of one version: it runs where the node's label names the version, in spite of every cordon, and its
/// pods are replaced only when somebody deletes them.
pub(crate) fn daemon_set_object(
    component: &ComponentName,
    object: &ObjectRef,
    version: &ComponentVersion,
    settings: &Settings,
) -> Value {
    let mut template = pod_template(component, object, version, settings);
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        let key = delivery::label_key(component);
        entry(spec, "nodeSelector").insert(key, json!(delivery::slug(version)));
        // A node that is away carries the cordon and drydock's taint, and is just where the new version has to start.
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(list) = tolerations.as_array_mut() {
            list.push(json!({ "key": names::TAINT, "operator": "Exists", "effect": "NoSchedule" }));
        }
    }
    let name = delivery::object_name(&object.name, version);
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace(object, settings),
            "labels": labels(component, version),
            "annotations": { names::VERSION: delivery::exact(version) },
        },
        "spec": {
            "selector": { "matchLabels": {
                names::COMPONENT: component.as_str(),
                delivery::label_key(component): delivery::slug(version),
            } },
            "updateStrategy": { "type": "OnDelete" },
            "template": template,
        },
    })
}

/// The Deployment of a component; one for all versions, so that the change is a rolling one.
pub(crate) fn deployment_object(
    component: &ComponentName,
    object: &ObjectRef,
    version: &ComponentVersion,
    settings: &Settings,
) -> Value {
    let mut template = pod_template(component, object, version, settings);
    // The selector of a Deployment can't change, so the version stays out of it.
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.insert("app".to_owned(), json!(object.name));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": object.name,
            "namespace": namespace(object, settings),
            "labels": { names::MANAGED_BY: "drydock", names::COMPONENT: component.as_str() },
            "annotations": { names::VERSION: delivery::exact(version) },
        },
        "spec": {
            "selector": { "matchLabels": { "app": object.name } },
            "template": template,
        },
    })
}

/// The mapping under a key, made when it isn't there. Whatever else stood there (a document's mistake that the API
/// server would refuse anyway) makes way.
pub(crate) fn entry<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    if !map.get(key).is_some_and(Value::is_object) {
        map.insert(key.to_owned(), Value::Object(Map::new()));
    }
    #[expect(clippy::expect_used, reason = "the lines above have put a mapping there")]
    map.get_mut(key).and_then(Value::as_object_mut).expect("a mapping")
}

fn merge(into: &mut Map<String, Value>, from: Value) {
    if let Value::Object(from) = from {
        into.extend(from);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_arrive_as_variables() {
        let version = json!({ "version": "1.2.0", "config": { "kernelModule": "open", "mode": "x" } });
        let version: ComponentVersion = serde_json::from_value(version).unwrap();
        let made = daemon_set_object(
            &"agent".parse().unwrap(),
            &ObjectRef::named("agent"),
            &version,
            &Settings::default(),
        );
        let env = &made["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(
            *env,
            json!([
                { "name": "DRYDOCK_VERSION", "value": "1.2.0" },
                { "name": "DRYDOCK_CONFIG_KERNEL_MODULE", "value": "open" },
                { "name": "DRYDOCK_CONFIG_MODE", "value": "x" },
            ])
        );
    }

    #[test]
    fn a_daemon_set_runs_on_nodes_that_name_its_version_and_restarts_nothing() {
        let version: ComponentVersion = serde_json::from_value(json!("580.95.05")).unwrap();
        let mut object = ObjectRef::named("driver");
        object.image = Some("reg/driver".to_owned());
        object.template = Some(Template::new(
            json!({"spec": {"hostPID": true, "containers": [{"name": "main", "args": ["$(DRYDOCK_VERSION)"]}, {"name": "side", "image": "x:1"}]}})
                .as_object()
                .unwrap()
                .clone(),
        ));
        let made = daemon_set_object(&"driver".parse().unwrap(), &object, &version, &Settings::default());
        let spec = &made["spec"]["template"]["spec"];
        assert_eq!(made["spec"]["updateStrategy"]["type"], "OnDelete");
        assert_eq!(spec["containers"][0]["image"], "reg/driver:580.95.05");
        assert_eq!(spec["containers"][1]["image"], "x:1");
        assert_eq!(spec["containers"][0]["env"][0]["value"], "580.95.05");
        assert_eq!(spec["hostPID"], true);
        let slug = delivery::slug(&version);
        assert_eq!(spec["nodeSelector"]["version.drydock.dev/driver"], slug.as_str());
        assert_eq!(made["spec"]["selector"]["matchLabels"]["version.drydock.dev/driver"], slug.as_str());
        let noted = made["spec"]["template"]["metadata"]["annotations"][names::VERSION].as_str();
        assert_eq!(delivery::noted(noted), Some(version));
    }
}
