//! Free mappings that are handed on to Kubernetes: what they may not say, since drydock says it.

use serde_json::Value;

use super::Lint;
use crate::{
    document::Kind,
    kinds::{Delivery, ObjectRef, Template},
    rule::RuleId,
    source::tree::Step,
};

type Document<'a> = (Kind, &'a str);

/// Fields of the objects around a pod. Kubernetes would refuse them in a pod, or, worse, leave them unread.
const AROUND_A_POD: [&str; 5] = ["updateStrategy", "strategy", "replicas", "selector", "template"];

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, component) in &fleet.components {
        let document = (Kind::Component, name.as_str());
        if let Some(object) = component.delivery.object() {
            delivery(lint, document, &component.delivery, object);
        }
    }
    for (name, suite) in &fleet.suites {
        for (i, check) in suite.checks.iter().enumerate() {
            if let Some(template) = &check.template {
                let at = [Step::Key("checks"), Step::Item(i), Step::Key("template")];
                pod(lint, (Kind::CheckSuite, name.as_str()), &at, template);
            }
        }
    }
}

fn delivery(lint: &mut Lint<'_, '_>, document: Document<'_>, delivery: &Delivery, object: &ObjectRef) {
    let word = delivery.word();
    if let Some(probe) = &object.probe {
        let at = path!["delivery", word, "probe"];
        if !matches!(delivery, Delivery::Job(_)) {
            let message = format!("nothing runs the probe of a delivery by `{word}`");
            let hint = Some("remove it: what runs is read from the object itself".to_owned());
            lint.at(document, at, RuleId::Probe, message, hint);
        } else if probe.is_empty() {
            let message = "a command has at least one word".to_owned();
            lint.at(document, at, RuleId::Probe, message, None);
        }
    }
    let Some(template) = &object.template else { return };
    let at = [Step::Key("delivery"), Step::Key(word), Step::Key("template")];
    match delivery {
        Delivery::DaemonSet(_) | Delivery::Deployment(_) | Delivery::Job(_) => {
            pod(lint, document, &at, template);
        }
        Delivery::NvidiaDriver(_) => {
            if template.contains_key("version") {
                let message = "`version` is the release's to say".to_owned();
                taken(lint, document, (&at, "version"), message);
            }
            node_selector(lint, document, &at, template.get("nodeSelector"));
        }
        Delivery::ClusterPolicy(_) => {
            let message = "a ClusterPolicy is there already and takes no template".to_owned();
            let hint = Some("edit the ClusterPolicy itself".to_owned());
            lint.at(document, &at, RuleId::TemplateField, message, hint);
        }
        Delivery::Label(_) | Delivery::Observe {} => {}
    }
}

/// A pod template: `metadata`, and a `spec` with containers that doesn't say where it runs.
fn pod(lint: &mut Lint<'_, '_>, document: Document<'_>, at: &[Step<'_>], template: &Template) {
    for key in template.keys().filter(|k| !matches!(k.as_str(), "metadata" | "spec")) {
        let message = format!("`{key}` isn't part of a pod template");
        let hint = Some(match key.as_str() {
            "updateStrategy" | "strategy" => "remove it: drydock replaces pods node by node".to_owned(),
            _ => "a pod template has `metadata` and `spec`".to_owned(),
        });
        lint.at_key(document, (at, key), RuleId::TemplateField, message, hint);
    }
    let spec = template.mapping("spec");
    let containers = spec.and_then(|s| s.get("containers")).and_then(Value::as_array);
    let inside = [at, &[Step::Key("spec")]].concat();
    if containers.is_none_or(Vec::is_empty) {
        let message = "the template has no container".to_owned();
        let hint = Some("list at least one under spec.containers".to_owned());
        lint.at(document, &inside, RuleId::TemplateField, message, hint);
    }
    let Some(spec) = spec else { return };
    for key in AROUND_A_POD.iter().filter(|key| spec.contains_key(**key)) {
        let message = format!("`{key}` belongs to the object around the pod, which drydock writes");
        taken(lint, document, (&inside, key), message);
    }
    if spec.contains_key("nodeName") {
        let message = "drydock says on which node the pod runs".to_owned();
        taken(lint, document, (&inside, "nodeName"), message);
    }
    node_selector(lint, document, &inside, spec.get("nodeSelector"));
}

/// A selector may narrow where pods run, but not by the labels with which drydock moves nodes.
fn node_selector(lint: &mut Lint<'_, '_>, document: Document<'_>, at: &[Step<'_>], selector: Option<&Value>) {
    let inside = [at, &[Step::Key("nodeSelector")]].concat();
    let keys = selector.and_then(Value::as_object).into_iter().flat_map(|s| s.keys());
    for key in keys.filter(|key| is_own(key)) {
        let message = format!("drydock sets `{key}` itself");
        taken(lint, document, (&inside, key), message);
    }
}

fn taken(lint: &mut Lint<'_, '_>, document: Document<'_>, place: (&[Step<'_>], &str), message: String) {
    lint.at_key(document, place, RuleId::TemplateField, message, Some("remove it".to_owned()));
}

/// A label of drydock's own: `drydock.dev/…` or `….drydock.dev/…`.
fn is_own(key: &str) -> bool {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    prefix.is_some_and(|p| p == "drydock.dev" || p.ends_with(".drydock.dev"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_labels() {
        for key in ["drydock.dev/rollout", "version.drydock.dev/gpu-driver"] {
            assert!(is_own(key), "{key}");
        }
        for key in ["drydock.dev", "notdrydock.dev/x", "nvidia.com/gpu.present", "x/drydock.dev"] {
            assert!(!is_own(key), "{key}");
        }
    }
}
