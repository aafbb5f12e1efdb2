//! A node whose checks run, driven by hand.

use std::time::Duration;

use drydock_plan::{CheckOrder, Ensure, NodeId};
use drydock_spec::{CheckClass, CheckOn, CheckRun, Period};
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::client::{CallError, Refusal};
use crate::ensure::fixture::{Scene, effort};
use crate::ensure::{Call, Effort, Outcome, Request};
use crate::objects::{JobObject, Key, NodeObject, PodObject};
use crate::watch::Kept as _;

pub(super) fn both(mut into: Value, more: Value) -> Value {
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
    merge(&mut into, more);
    into
}

/// On the node alone, for 5 minutes, once, without GPUs.
pub(super) fn order(name: &str) -> CheckOrder {
    CheckOrder {
        name: name.parse().unwrap(),
        class: CheckClass::Driver,
        on: CheckOn::Node,
        partner: None,
        nodes: vec![NodeId::new("c1/n1")],
        run: CheckRun::Builtin(name.to_owned()),
        template: None,
        gpus: 0,
        timeout: Period::from_mins(5),
        repeats: 1,
        attempt: 1,
    }
}

pub(super) fn refusal(status: u16, message: &str) -> CallError {
    let body = json!({"message": message}).to_string();
    CallError::Refused(Refusal::read(StatusCode::from_u16(status).unwrap(), None, body.as_bytes()))
}

pub(super) struct Bench {
    pub(super) scene: Scene,
    pub(super) effort: Effort,
    pub(super) orders: Vec<CheckOrder>,
    calls: Vec<Call>,
    made: Vec<Value>,
    jobs: Vec<Value>,
}

impl Bench {
    pub(super) fn new(orders: impl IntoIterator<Item = CheckOrder>) -> Self {
        Self::on("n1", orders)
    }
    pub(super) fn on(node: &str, orders: impl IntoIterator<Item = CheckOrder>) -> Self {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let scene = Scene::node(json!({"metadata": {"name": node}, "status": ready}));
        Self {
            scene,
            effort: effort(),
            orders: orders.into_iter().collect(),
            calls: Vec::new(),
            made: Vec::new(),
            jobs: Vec::new(),
        }
    }
    pub(super) fn look(&mut self) -> Outcome {
        let view = self.scene.view(&Ensure::Checked { checks: self.orders.clone() });
        let outcome = super::super::checked(&view, &mut self.effort, &self.orders);
        self.calls.clone_from(&outcome.calls);
        outcome
    }
    /// The calls of the last look are carried out.
    pub(super) fn answer(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.effort.begin(&call.key, self.scene.now);
            self.effort.end(&call.key, Ok(()), self.scene.now);
            if let Request::Create { body, .. } = call.request {
                self.made.push(body);
            }
        }
    }
    /// The calls of the last look fail.
    pub(super) fn fail(&mut self, error: &CallError) {
        for call in std::mem::take(&mut self.calls) {
            self.effort.begin(&call.key, self.scene.now);
            self.effort.end(&call.key, Err(error.clone()), self.scene.now);
        }
    }
    /// The watch shows the Job that was made last.
    pub(super) fn show(&mut self) {
        let job = both(self.made.last().unwrap().clone(), json!({"metadata": {"uid": "job-uid"}}));
        self.jobs.push(job);
        self.put_job();
    }
    /// A look, its call carried out, and its Job seen.
    pub(super) fn make(&mut self) {
        let outcome = self.look();
        assert!(matches!(outcome.calls[..], [Call { request: Request::Create { .. }, .. }]), "{outcome:?}");
        self.answer();
        self.show();
    }
    fn put_job(&mut self) {
        let job: JobObject = serde_json::from_value(self.jobs.last().unwrap().clone()).unwrap();
        job.put(&mut self.scene.state);
    }
    pub(super) fn job_condition(&mut self, condition: Value) {
        if let Some(job) = self.jobs.last_mut() {
            job["status"] = json!({"conditions": [condition]});
        }
        self.put_job();
    }
    pub(super) fn job_gone(&mut self) {
        let job = self.jobs.pop().unwrap();
        let name = job["metadata"]["name"].as_str().unwrap();
        JobObject::remove(&Key::new("drydock-system", name), &mut self.scene.state);
    }
    pub(super) fn jobs_gone(&mut self) {
        while !self.jobs.is_empty() {
            self.job_gone();
        }
    }
    /// The Job's pod on this node, with this state of its container.
    pub(super) fn pod(&mut self, state: Value) {
        let phase = if state.get("terminated").is_some() { "Failed" } else { "Running" };
        self.pod_status(json!({"phase": phase, "containerStatuses": [{"name": "check", "state": state}]}));
    }
    pub(super) fn pod_status(&mut self, status: Value) {
        let node = self.scene.node.meta.name.clone();
        self.pod_on(&node, status);
    }
    pub(super) fn pod_on(&mut self, node: &str, status: Value) {
        let job = self.jobs.last().unwrap();
        let name = job["metadata"]["name"].as_str().unwrap();
        let unbound = status["conditions"][0]["type"] == "PodScheduled";
        let pod = json!({
            "metadata": {"name": format!("{name}-{node}"), "namespace": "drydock-system", "uid": format!("{name}-{node}"),
                "ownerReferences": [{"kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": true}]},
            "spec": {"nodeName": if unbound { "" } else { node }, "containers": [{"image": "i"}]},
            "status": status
        });
        serde_json::from_value::<PodObject>(pod).unwrap().put(&mut self.scene.state);
    }
    /// Another state of the node.
    pub(super) fn node(&mut self, more: Value) {
        let name = self.scene.node.meta.name.clone();
        let node: NodeObject =
            serde_json::from_value(both(json!({"metadata": {"name": name}}), more)).unwrap();
        self.scene.node = std::sync::Arc::new(node.clone());
        node.put(&mut self.scene.state);
    }
    pub(super) fn pass(&mut self, seconds: u64) {
        let by = SignedDuration::try_from(Duration::from_secs(seconds)).unwrap();
        self.scene.now = self.scene.now.checked_add(by).unwrap();
    }
    /// Everything that was only in memory is gone.
    pub(super) fn restart(&mut self) {
        self.effort = effort();
    }
    pub(super) fn creations(&self) -> usize {
        self.made.len()
    }
    /// The Job that would be made.
    pub(super) fn body(&mut self) -> Value {
        match self.look().calls.remove(0).request {
            Request::Create { body, uri } => {
                assert_eq!(uri, "/apis/batch/v1/namespaces/drydock-system/jobs");
                body
            }
            other => panic!("{other:?}"),
        }
    }
}
