//! A Job on the node with the version as its input, and a second one that reads what is in place.

use drydock_api::names;
use drydock_plan::Blocker;
use drydock_spec::{ComponentVersion, ObjectRef};
use serde_json::{Value, json};

use super::super::{Call, Effort, Outcome, Request, View};
use super::{Item, LOOK, asked, workload};
use crate::client::{Kind, Patch};
use crate::delivery;
use crate::objects::{JobObject, Key};

/// Finished Jobs of a delivery vanish by themselves after an hour, should drydock not come back for them.
const TTL_SECONDS: u32 = 3_600;

/// See [`super::applied`].
pub(super) fn applied(view: &View<'_>, effort: &mut Effort, item: Item<'_>, object: &ObjectRef) -> Outcome {
    let Some(version) = item.version else {
        return Outcome::failed(format!("{} is put on a node by a Job; nothing takes it away", item.name));
    };
    let annotation = format!("{}{}", names::APPLIED_PREFIX, item.name);
    if view.node.meta.annotation(&annotation) == Some(delivery::exact(version).as_str()) {
        return Outcome::done();
    }
    if let Some(outcome) = ran(view, effort, item, object, version, Part::Put) {
        return outcome;
    }
    if object.probe.is_some() {
        if let Some(outcome) = ran(view, effort, item, object, version, Part::Probe) {
            return outcome;
        }
        let said =
            last_line(view, &name(view, item, Part::Probe), workload::namespace(object, view.settings));
        match said {
            Some(said) if said == version.version.as_str() => {}
            Some(said) => return Outcome::failed(format!("the Job succeeded, and the probe finds {said:?}")),
            None => return Outcome::failed("the probe printed nothing"),
        }
    }
    let body = json!({ "metadata": { "annotations": { annotation.as_str(): delivery::exact(version) } } });
    let uri = Kind::NODE.one(None, view.name());
    let request = Request::Patch { uri, patch: Patch::Merge, body };
    asked(view, effort, Call { key: format!("note {}", delivery::slug(version)), request })
}

/// Which of the two Jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Put,
    Probe,
}

fn name(view: &View<'_>, item: Item<'_>, part: Part) -> String {
    let word = match part {
        Part::Put => "put",
        Part::Probe => "probe",
    };
    let exact = format!("{}/{}/{}/{}", view.action.node, item.name, view.action.generation, item.attempt);
    // 63 characters are what the Job's pods can carry in a label, with a suffix of six.
    let stem: String = format!("drydock-{word}-{}", item.name).chars().take(40).collect();
    format!("{}-{}", stem.trim_end_matches('-'), names::slug("", &exact))
}

/// Waits for one of the Jobs. `None` when it has succeeded.
fn ran(
    view: &View<'_>,
    effort: &mut Effort,
    item: Item<'_>,
    object: &ObjectRef,
    version: &ComponentVersion,
    part: Part,
) -> Option<Outcome> {
    let namespace = workload::namespace(object, view.settings);
    let name = name(view, item, part);
    let Some(job) = view.objects.jobs.get(&Key::new(namespace, &name)) else {
        // It was there and is gone: somebody deleted it, or its time was up. What it did isn't known.
        if effort.notes.contains_key(&name) {
            return Some(Outcome::failed(format!("the Job {namespace}/{name} is gone")));
        }
        let uri = Kind::JOB.all(Some(namespace));
        let body = body(view, item, object, version, &name, part);
        return Some(asked(
            view,
            effort,
            Call { key: format!("create {name}"), request: Request::Create { uri, body } },
        ));
    };
    effort.since(&name, view.now);
    judge(job).or_else(|| (!job.complete).then(|| waiting(view, &name, namespace)))
}

fn judge(job: &JobObject) -> Option<Outcome> {
    let (reason, message) = job.failure.as_ref()?;
    Some(Outcome::failed(format!(
        "the Job {}/{} failed: {reason}: {message}",
        job.meta.namespace, job.meta.name
    )))
}

fn waiting(view: &View<'_>, job: &str, namespace: &str) -> Outcome {
    let trouble = pods_of(view, job, namespace).find_map(|pod| pod.trouble());
    let outcome = match trouble {
        Some(text) => Outcome::blocked(1, Blocker::NotReady(text)),
        None => Outcome::working(Vec::new()),
    };
    outcome.again(view.now, LOOK)
}

fn pods_of<'a>(
    view: &View<'a>,
    job: &'a str,
    namespace: &'a str,
) -> impl Iterator<Item = &'a std::sync::Arc<crate::objects::PodObject>> {
    view.pods().filter(move |pod| {
        pod.meta.namespace == namespace
            && pod.meta.controller().is_some_and(|o| o.kind == "Job" && o.name == job)
    })
}

fn last_line(view: &View<'_>, job: &str, namespace: &str) -> Option<String> {
    let pod = pods_of(view, job, namespace).find(|pod| pod.finished())?;
    let (_, _, message) = pod.containers.first()?.terminated.as_ref()?;
    message.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn body(
    view: &View<'_>,
    item: Item<'_>,
    object: &ObjectRef,
    version: &ComponentVersion,
    name: &str,
    part: Part,
) -> Value {
    let mut template = workload::pod_template(item.name, object, version, view.settings);
    let labels = json!({
        names::MANAGED_BY: "drydock",
        names::NODE: super::super::check::label(view.name()),
        names::GENERATION: view.action.generation.to_string(),
    });
    if let Some(own) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        // A pod with the component's label would be taken for the component itself.
        own.remove(names::COMPONENT);
        own.remove(&delivery::label_key(item.name));
        if let Value::Object(labels) = labels.clone() {
            own.extend(labels);
        }
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("restartPolicy".to_owned(), json!("Never"));
        // The node is cordoned and this is what it is cordoned for, so the scheduler isn't asked.
        spec.insert("nodeName".to_owned(), json!(view.name()));
        spec.entry("tolerations").or_insert_with(|| json!([{ "operator": "Exists" }]));
        let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            // A successful container's last words are only kept when it writes them there itself.
            container.entry("terminationMessagePolicy").or_insert_with(|| json!("FallbackToLogsOnError"));
            if let (Part::Probe, Some(command)) = (part, &object.probe) {
                container.insert("command".to_owned(), json!(command));
                container.remove("args");
            }
        }
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": workload::namespace(object, view.settings),
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "activeDeadlineSeconds": item.spec.deadline.as_millis() / 1000 + 60,
            "template": template,
        },
    })
}
