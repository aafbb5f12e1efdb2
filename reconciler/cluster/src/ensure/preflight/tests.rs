#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use drydock_api::names;
use drydock_plan::{Blocker, CheckOrder, Ensure, RawVerdict, StepState};
use drydock_spec::{ComponentClass, ComponentName, ComponentVersion};
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::preflight;
use crate::client::{CallError, Refusal};
use crate::ensure::fixture::{FLEET, Scene, effort, fleet};
use crate::ensure::{Effort, Outcome, Request};
use crate::objects::{DaemonSetObject, Key, NodeObject, PodObject};
use crate::watch::Kept as _;

type Artifacts = BTreeMap<ComponentName, Vec<ComponentVersion>>;

fn artifacts(of: &[(&str, &[&str])]) -> Artifacts {
    let version = |text: &&str| serde_json::from_value(json!(text)).unwrap();
    of.iter().map(|(name, v)| (name.parse().unwrap(), v.iter().map(version).collect())).collect()
}

fn node(images: &[&str]) -> Value {
    json!({"metadata": {"name": "n1", "labels": {"pool": "a"}}, "status": {
        "conditions": [{"type": "Ready", "status": "True"}], "images": [{"names": images}]}})
}

struct Stage {
    scene: Scene,
    effort: Effort,
    artifacts: Artifacts,
    pod: Value,
}

impl Stage {
    fn new(images: &[&str], of: &[(&str, &[&str])]) -> Self {
        Self {
            scene: Scene::node(node(images)),
            effort: effort(),
            artifacts: artifacts(of),
            pod: Value::Null,
        }
    }
    fn look(&mut self) -> Outcome {
        let ensure = Ensure::Preflight { artifacts: self.artifacts.clone(), checks: Vec::new() };
        preflight(&self.scene.view(&ensure), &mut self.effort, &self.artifacts, &[])
    }
    fn answer(&mut self, outcome: &Outcome, result: &Result<(), CallError>) {
        for call in &outcome.calls {
            self.effort.begin(&call.key, self.scene.now);
            self.effort.end(&call.key, result.clone(), self.scene.now);
        }
    }
    /// The pod is made, and the watch shows it; the images it fetches.
    fn make(&mut self) -> Vec<String> {
        let outcome = self.look();
        let Request::Create { body, .. } = &outcome.calls[0].request else { panic!("{outcome:?}") };
        self.pod = body.clone();
        self.pod["metadata"]["uid"] = json!("u");
        self.answer(&outcome, &Ok(()));
        self.show();
        let containers = self.pod["spec"]["containers"].as_array().unwrap();
        containers.iter().map(|c| c["image"].as_str().unwrap().to_owned()).collect()
    }
    fn show(&mut self) {
        serde_json::from_value::<PodObject>(self.pod.clone()).unwrap().put(&mut self.scene.state);
    }
    fn gone(&mut self) {
        let pod: PodObject = serde_json::from_value(self.pod.clone()).unwrap();
        PodObject::remove(&Key::new(&pod.meta.namespace, &pod.meta.name), &mut self.scene.state);
    }
    /// States of its containers, by image.
    fn states(&mut self, states: &[(&str, Value)]) {
        let containers = self.pod["spec"]["containers"].as_array().unwrap().clone();
        let name = |image: &str| containers.iter().find(|c| c["image"] == image).unwrap()["name"].clone();
        let statuses: Vec<Value> =
            states.iter().map(|(image, state)| json!({"name": name(image), "state": state})).collect();
        self.pod["status"] = json!({"phase": "Pending", "containerStatuses": statuses});
        self.show();
    }
    fn pass(&mut self, seconds: i64) {
        self.scene.now = self.scene.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": "m"}})
}

fn blocked_by(outcome: &Outcome) -> Option<String> {
    match &outcome.state {
        StepState::Working { blocked_by, .. } => blocked_by.as_ref().map(Blocker::to_string),
        other => panic!("{other:?}"),
    }
}

fn deletes(outcome: &Outcome) -> bool {
    matches!(&outcome.calls[..], [call] if matches!(&call.request, Request::Delete { uid, .. } if uid == "u"))
}

#[test]
fn images_of_both_versions_come_to_the_node() {
    let mut stage = Stage::new(
        &["reg/driver:1"],
        &[("driver", &["1", "2"]), ("firmware", &["5"]), ("sched", &["9"]), ("mig", &["3"])],
    );
    // Named with its registry by the kubelet; what a cluster has once doesn't come here; a label has no image.
    stage.node_images(&["docker.io/reg/driver:1"]);
    assert_eq!(stage.make(), ["reg/driver:2", "reg/fw:5"]);
    let spec = &stage.pod["spec"];
    assert_eq!((&spec["nodeName"], &spec["restartPolicy"]), (&json!("n1"), &json!("Never")));
    assert_eq!(spec["containers"][0]["command"], json!(["/drydock-prefetch"]));
    assert_eq!(stage.pod["metadata"]["labels"][names::PREFETCH], "true");
    assert_eq!(stage.pod["metadata"]["namespace"], "drydock-system");

    stage.states(&[
        ("reg/driver:2", waiting("ContainerCreating")),
        ("reg/fw:5", waiting("ContainerCreating")),
    ]);
    let outcome = stage.look();
    assert_eq!(outcome.state, StepState::Working { remaining: 2, blocked_by: None });
    let started = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}});
    stage.states(&[("reg/driver:2", started.clone()), ("reg/fw:5", waiting("ContainerCreating"))]);
    assert_eq!(stage.look().state, StepState::Working { remaining: 1, blocked_by: None });
    stage.states(&[("reg/driver:2", started), ("reg/fw:5", waiting("CreateContainerError"))]);
    let outcome = stage.look();
    assert!(outcome.state == StepState::Done && deletes(&outcome), "{outcome:?}");
    stage.answer(&outcome, &Ok(()));
    assert!(stage.look().calls.is_empty(), "deleted once");
    stage.gone();
    assert_eq!(stage.look(), Outcome::done(), "and not made again");
}

impl Stage {
    fn node_images(&mut self, images: &[&str]) {
        let node: NodeObject = serde_json::from_value(node(images)).unwrap();
        self.scene.node = std::sync::Arc::new(node.clone());
        node.put(&mut self.scene.state);
    }
}

#[test]
fn nothing_is_made_where_everything_is_there() {
    let mut stage =
        Stage::new(&["docker.io/reg/driver:1", "docker.io/reg/driver:2"], &[("driver", &["1", "2"])]);
    assert_eq!(stage.look(), Outcome::done());
    let mut stage = Stage::new(&[], &[("nobody", &["1"]), ("mig", &["1"])]);
    assert_eq!(stage.look(), Outcome::done());
    // It has arrived by another way; the pod goes.
    let mut stage = Stage::new(&[], &[("driver", &["1"])]);
    stage.make();
    stage.node_images(&["docker.io/reg/driver:1"]);
    let outcome = stage.look();
    assert!(outcome.state == StepState::Done && deletes(&outcome), "{outcome:?}");
}

#[test]
fn an_image_that_cant_be_pulled_fails_after_a_minute() {
    for reason in ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"] {
        let mut stage = Stage::new(&[], &[("driver", &["1", "2"])]);
        stage.make();
        stage.states(&[("reg/driver:1", waiting("ContainerCreating")), ("reg/driver:2", waiting(reason))]);
        let outcome = stage.look();
        assert!(blocked_by(&outcome).unwrap().contains("reg/driver:2"), "{outcome:?}");
        stage.pass(59);
        assert!(matches!(stage.look().state, StepState::Working { .. }));
        stage.pass(1);
        let StepState::Failed { message } = stage.look().state else { panic!("{reason}") };
        assert_eq!(message, format!("the image reg/driver:2 can't be pulled: {reason}: m"));
    }
    // A minute in one piece: one that works in between begins anew.
    let mut stage = Stage::new(&[], &[("driver", &["1"])]);
    stage.make();
    for state in ["ImagePullBackOff", "ContainerCreating", "ImagePullBackOff"] {
        stage.states(&[("reg/driver:1", waiting(state))]);
        assert!(matches!(stage.look().state, StepState::Working { .. }), "{state}");
        stage.pass(59);
    }
    assert!(matches!(stage.look().state, StepState::Working { .. }));
}

#[test]
fn what_keeps_the_pod_from_the_node_is_said() {
    let mut stage = Stage::new(&[], &[("driver", &["1"])]);
    let refused = Refusal::read(StatusCode::FORBIDDEN, None, b"{\"message\":\"exceeded quota\"}");
    for i in 0..4 {
        let outcome = stage.look();
        assert_eq!(outcome.calls.len(), 1);
        assert_eq!(blocked_by(&outcome).is_some(), i >= 3, "{outcome:?}");
        stage.answer(&outcome, &Err(CallError::Refused(refused.clone())));
        stage.pass(60);
    }
    assert!(blocked_by(&stage.look()).unwrap().contains("exceeded quota"));

    let mut stage = Stage::new(&[], &[("driver", &["1"])]);
    stage.make();
    stage.pod["status"] = json!({"phase": "Failed", "reason": "OutOfpods", "message": "node is full"});
    stage.show();
    let outcome = stage.look();
    assert!(deletes(&outcome) && blocked_by(&outcome).unwrap().contains("node is full"), "{outcome:?}");
    stage.gone();
    stage.pass(60);
    assert_eq!(stage.make(), ["reg/driver:1"], "it is tried again");
}

#[test]
fn after_a_restart_the_pod_is_found_again() {
    let mut stage = Stage::new(&[], &[("driver", &["1", "2"])]);
    stage.make();
    stage.effort = effort();
    assert!(stage.look().calls.is_empty());
    // Made for less than is wanted now.
    stage.artifacts = artifacts(&[("driver", &["1", "3"])]);
    assert!(deletes(&stage.look()));
}

#[test]
fn an_image_with_a_secret_is_fetched_where_the_secret_is() {
    let mut stage = Stage::new(&[], &[("driver", &["1"]), ("firmware", &["5"])]);
    let secret = "{imagePullSecrets: [{name: pull}], containers: [{name: main}]}";
    let with =
        FLEET.replace("image: reg/driver}", &format!("image: reg/driver, template: {{spec: {secret}}}}}"));
    stage.scene.fleet = fleet(&with);
    let outcome = stage.look();
    let told: Vec<(Value, Value)> = outcome
        .calls
        .iter()
        .map(|call| match &call.request {
            Request::Create { body, .. } => {
                (body["metadata"]["namespace"].clone(), body["spec"]["imagePullSecrets"].clone())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(json!("drydock-system"), Value::Null), (json!("gpu"), json!([{"name": "pull"}]))]);
}

#[test]
fn software_of_others_that_would_stay_is_found_before_the_cordon() {
    let gives_way = |terms: Value| {
        json!({"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}}})
    };
    let off =
        json!({"matchExpressions": [{"key": "version.drydock.dev/driver", "operator": "DoesNotExist"}]});
    let on = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]});
    let selector = |pool: &str| json!({"spec": {"template": {"spec": {"nodeSelector": {"pool": pool}}}}});
    let rows = [
        ("a plain one", json!({}), false),
        ("one for these nodes", selector("a"), false),
        ("one for other nodes", selector("b"), true),
        ("drydock's own", json!({"metadata": {"labels": {names::MANAGED_BY: "drydock"}}}), true),
        ("one of another name", json!({"metadata": {"name": "x"}}), true),
        ("one elsewhere", json!({"metadata": {"namespace": "x"}}), true),
        ("one that gives way", gives_way(json!([off])), true),
        ("one with another alternative", gives_way(json!([off, on])), false),
    ];
    for (what, more, fine) in rows {
        let mut object =
            json!({"metadata": {"name": "driver", "namespace": "gpu"}, "spec": {"template": {"spec": {}}}});
        merge(&mut object, more);
        let mut stage = Stage::new(&["docker.io/reg/driver:1"], &[("driver", &["1"])]);
        stage.scene = stage.scene.with::<DaemonSetObject>([object]);
        match stage.look().state {
            StepState::Failed { message } => {
                assert!(!fine, "{what}: {message}");
                assert!(
                    message.contains("{key: version.drydock.dev/driver, operator: DoesNotExist}"),
                    "{message}"
                );
            }
            state => assert!(fine && state == StepState::Done, "{what}: {state:?}"),
        }
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// A check of all eight GPUs of a node.
fn smoke() -> CheckOrder {
    serde_json::from_value(json!({
        "name": "smoke", "class": "driver", "on": "node", "partner": null, "nodes": ["c1/n1"], "run": {"image": "i"},
        "gpus": 8, "timeout": "20s", "repeats": 1, "attempt": 1
    }))
    .unwrap()
}

/// The first install of a cluster waited for GPUs that only it could bring. A plugin that has died is another matter.
#[test]
fn a_node_without_a_device_plugin_has_nothing_to_check_yet() {
    let label = json!({"version.drydock.dev/driver": "v-1"});
    for (devices, labels, wanted) in [
        (json!({"cpu": "8"}), json!({}), Some(RawVerdict::NotApplicable)),
        (json!({"cpu": "8", "nvidia.com/gpu": "0"}), json!({}), None),
        (json!({"cpu": "8"}), label, None),
    ] {
        let node = json!({"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": devices}});
        let mut scene = Scene::node(node);
        let plugin = scene.fleet.components.get_mut("driver").unwrap();
        plugin.spec.class = ComponentClass::DevicePlugin;
        let (none, orders) = (BTreeMap::new(), [smoke()]);
        let ensure = Ensure::Preflight { artifacts: none.clone(), checks: orders.to_vec() };
        let outcome = preflight(&scene.view(&ensure), &mut effort(), &none, &orders);
        assert_eq!(outcome.checks.first().map(|result| result.verdict), wanted, "{outcome:?}");
    }
}

#[test]
fn a_check_gives_way_to_jobs_that_hold_the_gpus() {
    let pod = |name: &str, gpus: u32| {
        json!({"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {"nodeName": "n1",
            "containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}, "status": {"phase": "Running"}})
    };
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}});
    let order = smoke();
    let none = BTreeMap::new();
    let ensure = Ensure::Preflight { artifacts: none.clone(), checks: vec![order.clone()] };
    let orders = [order];

    // They hold some from the begin.
    let busy = Scene::node(node.clone()).with::<PodObject>([pod("work", 1)]);
    let outcome = preflight(&busy.view(&ensure), &mut effort(), &none, &orders);
    assert_eq!((outcome.state, outcome.checks[0].verdict), (StepState::Done, RawVerdict::NotApplicable));

    // They come after its Job was made and before its pod has a place.
    let free = Scene::node(node);
    let mut tried = effort();
    let outcome = preflight(&free.view(&ensure), &mut tried, &none, &orders);
    assert!(outcome.checks.is_empty() && outcome.calls.len() == 1, "{outcome:?}");
    let busy = free.with::<PodObject>([pod("work", 8)]);
    preflight(&busy.view(&ensure), &mut tried, &none, &orders);
    let outcome = preflight(&busy.view(&ensure), &mut tried, &none, &orders);
    assert_eq!((outcome.state, outcome.checks[0].verdict), (StepState::Done, RawVerdict::NotApplicable));
}
