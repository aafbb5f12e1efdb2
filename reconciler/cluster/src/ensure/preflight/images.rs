//! Images of the new and of the last good version, on the node before it is away: neither the change nor the way back
//! then waits for a download while GPUs idle.
//!
//! A pod with one container for each image is put on the node. The kubelet pulls the image of a container before it
//! starts it, and what is started is a command that no image has. So a container that failed to start is an image that
//! has arrived, and nothing of the image has run.

use std::collections::{BTreeMap, BTreeSet};

use drydock_api::names;
use drydock_plan::{Blocker, StepState};
use drydock_spec::{ComponentName, ComponentVersion, ObjectRef};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::check::{delete_pod, digest, label, short};
use crate::client::Kind;
use crate::delivery;
use crate::ensure::{Call, Effort, Outcome, Request, View};
use crate::objects::{ContainerState, Key, PodObject};

/// A pull that has failed for so long isn't going to work by itself: the kubelet has tried three times by then. A
/// registry that is being restarted is back sooner.
const PULL_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Refusals after which it is said why the pod can't be made.
const REFUSALS: u32 = 3;

/// Images of one pod. A release has some ten components in two versions.
const IMAGES_MAX: usize = 32;

/// The command. Nothing in an image has this name.
const NOTHING: &str = "/drydock-prefetch";

/// Note of an image that is there.
fn there(image: &str) -> String {
    format!("image there {image}")
}

/// Where images are fetched from: with what a pod must carry to be allowed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    namespace: String,
    /// The template's `imagePullSecrets`, as text so that it has an order.
    secrets: String,
    /// The template's service account: it may carry secrets as well.
    account: Option<String>,
}

/// The images are on the node.
pub(super) fn fetched(
    view: &View<'_>,
    effort: &mut Effort,
    artifacts: &BTreeMap<ComponentName, Vec<ComponentVersion>>,
) -> Outcome {
    let mut outcome = Outcome::done();
    let mut missing: u32 = 0;
    let mut blocked_by = None;
    for (access, images) in wanted(view, artifacts) {
        let images: Vec<String> = images.into_iter().take(IMAGES_MAX).collect();
        match fetch(view, effort, &access, &images) {
            Fetch::There(call) => outcome.calls.extend(call),
            Fetch::Never(message) => {
                // Its pod is left to whoever looks why, and goes with the intent.
                return Outcome::failed(message);
            }
            Fetch::Going { call, left, by, again } => {
                missing = missing.saturating_add(left);
                blocked_by = blocked_by.or(by);
                outcome.calls.extend(call);
                outcome.again = Some(outcome.again.map_or(again, |before| before.min(again)));
            }
        }
    }
    if missing > 0 {
        outcome.state = StepState::Working { remaining: missing, blocked_by };
    }
    outcome.calls.retain(|call| effort.may(&call.key, view.now));
    outcome
}

/// The images, by what it takes to fetch them.
fn wanted(
    view: &View<'_>,
    artifacts: &BTreeMap<ComponentName, Vec<ComponentVersion>>,
) -> BTreeMap<Access, BTreeSet<String>> {
    let mut wanted: BTreeMap<Access, BTreeSet<String>> = BTreeMap::new();
    for (name, versions) in artifacts {
        let Some(component) = view.fleet.components.get(name) else { continue };
        let delivery = &component.spec.delivery;
        // What a cluster has once runs anywhere, seldom on this node.
        let Some(object) = delivery.object().filter(|_| !delivery.is_per_cluster()) else { continue };
        for version in versions {
            let Some(image) = delivery::image(object, version) else { continue };
            wanted.entry(access(view, object)).or_default().insert(image);
        }
    }
    wanted
}

fn access(view: &View<'_>, object: &ObjectRef) -> Access {
    let spec = object.template.as_ref().and_then(|t| t.mapping("spec"));
    let secrets = spec.and_then(|s| s.get("imagePullSecrets")).map(Value::to_string).unwrap_or_default();
    let account = spec.and_then(|s| s.get("serviceAccountName")?.as_str()).map(str::to_owned);
    let own = secrets.is_empty() && account.is_none();
    let namespace = object.namespace.as_deref().filter(|_| !own).unwrap_or(&view.settings.namespace);
    Access { namespace: namespace.to_owned(), secrets, account }
}

/// An image by its whole name, as the kubelet lists it.
fn full(image: &str) -> String {
    let Some((first, _)) = image.split_once('/') else { return format!("docker.io/library/{image}") };
    let is_host = first.contains(['.', ':']) || first == "localhost";
    if is_host { image.to_owned() } else { format!("docker.io/{image}") }
}

/// How far the images of one pod are.
enum Fetch {
    /// They are there; the pod, if it is still there, isn't needed any more.
    There(Option<Call>),
    /// One can't be had.
    Never(String),
    /// They are being fetched.
    Going { call: Option<Call>, left: u32, by: Option<Blocker>, again: Timestamp },
}

fn fetch(view: &View<'_>, effort: &mut Effort, access: &Access, images: &[String]) -> Fetch {
    let generation = view.action.generation.to_string();
    let account = access.account.as_deref().unwrap_or_default();
    let identity = digest(&[view.name(), &generation, &access.secrets, account]);
    let name = format!("drydock-prefetch-{}-{identity}", short(view.name(), 20));
    let at = Key::new(&access.namespace, &name);
    let pod = view.objects.pods.get(&at).filter(|pod| !pod.leaving());
    // The kubelet lists the largest images only, so some are fetched that are there, which takes a second.
    let on_node: BTreeSet<String> = view.node.images.iter().map(|name| full(name)).collect();
    let mut troubles = Vec::new();
    for image in images {
        let state = pod.and_then(|pod| pod.containers.iter().find(|c| c.name == container(image)));
        let pull = if on_node.contains(&full(image)) { Some(Pull::There) } else { state.map(progress) };
        match pull {
            Some(Pull::There) => {
                effort.since(&there(image), view.now);
            }
            Some(Pull::Fails(why)) => troubles.push((image, why)),
            Some(Pull::Going) | None => {}
        }
    }
    let missing: Vec<&String> =
        images.iter().filter(|image| !effort.notes.contains_key(&there(image))).collect();
    if missing.is_empty() {
        return Fetch::There(pod.map(|pod| delete_pod(pod)));
    }
    let left = missing.len();
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let look = view.now.checked_add(SignedDuration::from_secs(5)).unwrap_or(Timestamp::MAX);
    match pod {
        None => {
            let key = format!("prefetch {at}");
            let refused = effort.asked(&key).is_some_and(|asked| asked.failures >= REFUSALS);
            let error = effort.error(&key).filter(|_| refused);
            let by = error.map(|e| Blocker::Refused(format!("images can't be fetched ahead: {e}")));
            let body = body(view, access, &name, &missing);
            let uri = Kind::POD.all(Some(&access.namespace));
            let call = Call { key, request: Request::Create { uri, body } };
            Fetch::Going { call: Some(call), left, by, again: look }
        }
        // The node has no room for it, or threw it out: it is made anew while images are missing.
        Some(pod) if pod.finished() => {
            let why = pod.trouble().unwrap_or_else(|| "its pod ended early".to_owned());
            let by = Some(Blocker::Refused(format!("images can't be fetched ahead: {why}")));
            Fetch::Going { call: Some(delete_pod(pod)), left, by, again: look }
        }
        // Made before a restart, for less.
        Some(pod) if missing.iter().any(|image| !pod.images.contains(image)) => {
            Fetch::Going { call: Some(delete_pod(pod)), left, by: None, again: look }
        }
        Some(pod) => pulling(view, effort, pod, &troubles, left),
    }
}

/// The pod is on the node.
fn pulling(
    view: &View<'_>,
    effort: &mut Effort,
    pod: &PodObject,
    troubles: &[(&String, String)],
    left: u32,
) -> Fetch {
    let failing: BTreeSet<String> = troubles.iter().map(|(image, _)| format!("pull fails {image}")).collect();
    // One that works again after all begins anew when it fails again.
    effort.notes.retain(|name, _| !name.starts_with("pull fails ") || failing.contains(name));
    let mut again = view.now.checked_add(SignedDuration::from_secs(30)).unwrap_or(Timestamp::MAX);
    for (image, why) in troubles {
        let since = effort.since(&format!("pull fails {image}"), view.now);
        let until = since.checked_add(PULL_WITHIN).unwrap_or(Timestamp::MAX);
        if view.now >= until {
            return Fetch::Never(format!("the image {image} can't be pulled: {why}"));
        }
        again = again.min(until);
    }
    let by = match troubles.first() {
        Some((image, why)) => Some(format!("{image}: {why}")),
        None if !view.node.ready => Some("the node isn't ready, so it fetches nothing".to_owned()),
        // The kubelet has said nothing of its containers yet, or pulls.
        None => pod.containers.is_empty().then(|| pod.trouble()).flatten(),
    };
    Fetch::Going { call: None, left, by: by.map(Blocker::Refused), again }
}

enum Pull {
    Going,
    There,
    Fails(String),
}

/// What the state of a container says about its image: the kubelet pulls, then creates, then starts.
fn progress(state: &ContainerState) -> Pull {
    if state.running || state.terminated.is_some() {
        return Pull::There;
    }
    match state.waiting.as_deref() {
        None | Some("ContainerCreating" | "PodInitializing" | "") => Pull::Going,
        Some(
            reason @ ("ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed"),
        ) => Pull::Fails(match state.waiting_message.is_empty() {
            true => reason.to_owned(),
            false => format!("{reason}: {}", state.waiting_message),
        }),
        Some(_) => Pull::There,
    }
}

fn container(image: &str) -> String {
    format!("image-{}", digest(&[image]))
}

fn body(view: &View<'_>, access: &Access, name: &str, images: &[&String]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .map(|image| {
            json!({"name": container(image), "image": image, "command": [NOTHING],
                "imagePullPolicy": view.settings.pull,
                "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "64Mi"}}})
        })
        .collect();
    let mut spec = json!({
        // Not by the scheduler: it asks for nothing that has to be shared out, and the node may be full.
        "nodeName": view.name(),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "tolerations": [{"operator": "Exists"}],
        "containers": containers,
    });
    if let Ok(secrets) = serde_json::from_str::<Value>(&access.secrets) {
        spec["imagePullSecrets"] = secrets;
    }
    if let Some(account) = &access.account {
        spec["serviceAccountName"] = json!(account);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": access.namespace,
            "labels": {
                names::MANAGED_BY: names::MANAGER,
                names::PREFETCH: "true",
                names::NODE: label(view.name()),
                names::GENERATION: view.action.generation.to_string(),
            },
        },
        "spec": spec,
    })
}
