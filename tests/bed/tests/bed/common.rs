//! What the tests of the bed share.

use std::time::Duration;

use drydock_bed::{Hollow, HollowOptions, Plane, User, eventually, hollow::NodeSpec};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    batch::v1::Job,
    core::v1::{Node, Pod},
};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};

/// Ten times what the slowest of these takes alone on two cores.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A plane with so many hollow nodes, `gpu-000` and up.
macro_rules! started {
    ($nodes:expr) => {
        started!($nodes, drydock_bed::HollowOptions::default())
    };
    ($nodes:expr, $options:expr) => {{
        let tools = drydock_bed::Tools::find().unwrap();
        let plane = drydock_bed::Plane::start(drydock_bed::PlaneOptions::new(tools)).await.unwrap();
        crate::common::Ground::on(plane, $nodes, $options).await
    }};
}
pub(crate) use started;

pub(crate) struct Ground {
    // Dropped first: it talks to the plane.
    pub(crate) hollow: Hollow,
    pub(crate) client: Client,
    pub(crate) plane: Plane,
}

impl Ground {
    pub(crate) async fn on(plane: Plane, nodes: usize, options: HollowOptions) -> Self {
        let hollow = Hollow::start(&plane, options).await.unwrap();
        let nodes = NodeSpec::many("gpu", nodes).into_iter();
        hollow.add_nodes(nodes.map(|n| n.label("version.drydock.dev/driver", "1-0"))).await.unwrap();
        Self { hollow, client: plane.client(User::Admin).unwrap(), plane }
    }

    pub(crate) async fn pods(&self, selector: &str) -> Vec<Pod> {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.list(&ListParams::default().labels(selector)).await.unwrap().items
    }

    /// Waits until a DaemonSet wants so many pods and all are ready.
    pub(crate) async fn ready(&self, name: &str, count: i32) {
        let api: Api<DaemonSet> = Api::default_namespaced(self.client.clone());
        eventually(&format!("{name} is ready on {count}"), LONG, || async {
            let status = api.get(name).await?.status.unwrap_or_default();
            let found = (status.desired_number_scheduled, status.number_ready);
            Ok(if found == (count, count) { Ok(()) } else { Err(format!("wanted, ready: {found:?}")) })
        })
        .await
        .unwrap();
    }

    /// Waits until every pod of the selector, at least one, shows this.
    pub(crate) async fn shows(&self, selector: &str, what: &str) {
        eventually(&format!("{selector} shows {what}"), LONG, || async {
            let shown: Vec<String> = self.pods(selector).await.iter().map(show).collect();
            let done = !shown.is_empty() && shown.iter().all(|s| s == what);
            Ok(if done { Ok(()) } else { Err(format!("{shown:?}")) })
        })
        .await
        .unwrap();
    }

    /// Waits until the pod of the selector has ended; exit code and message.
    pub(crate) async fn ended(&self, selector: &str) -> (i32, String) {
        eventually(&format!("{selector} has ended"), LONG, || async {
            let pods = self.pods(selector).await;
            let status =
                pods.first().and_then(|p| p.status.as_ref()?.container_statuses.as_ref()?.first().cloned());
            let ended = status.and_then(|s| s.state).and_then(|s| s.terminated);
            Ok(ended
                .map(|e| (e.exit_code, e.message.unwrap_or_default()))
                .ok_or_else(|| format!("{:?}", pods.iter().map(show).collect::<Vec<_>>())))
        })
        .await
        .unwrap()
    }

    /// Waits until no pod of the selector is there.
    pub(crate) async fn none(&self, selector: &str) {
        eventually(&format!("no pod of {selector}"), LONG, || async {
            let left = self.pods(selector).await.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
        })
        .await
        .unwrap();
    }

    /// Waits until a pod is gone.
    pub(crate) async fn gone(&self, pod: &str) {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        eventually(&format!("{pod} is gone"), LONG, || async {
            Ok(if api.get_opt(pod).await?.is_none() { Ok(()) } else { Err("it is there".to_owned()) })
        })
        .await
        .unwrap();
    }

    /// Waits until a node's `Ready` is this.
    pub(crate) async fn node_ready(&self, node: &str, status: &str) {
        self.condition(node, "Ready", status).await;
    }

    /// Waits until a condition of a node is this.
    pub(crate) async fn condition(&self, node: &str, kind: &str, status: &str) {
        let api: Api<Node> = Api::all(self.client.clone());
        eventually(&format!("{kind} of {node} is {status}"), LONG, || async {
            let conditions = api.get(node).await?.status.unwrap_or_default().conditions.unwrap_or_default();
            let found = conditions.into_iter().find(|c| c.type_ == kind).map(|c| c.status);
            Ok(if found.as_deref() == Some(status) { Ok(()) } else { Err(format!("{found:?}")) })
        })
        .await
        .unwrap();
    }
}

/// A pod in three words.
pub(crate) fn show(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let state = status.container_statuses.iter().flatten().find_map(|s| s.state.clone()).unwrap_or_default();
    match (state.waiting, state.terminated) {
        (Some(waiting), _) => format!("waiting {}", waiting.reason.unwrap_or_default()),
        (None, Some(ended)) => format!("ended {}", ended.exit_code),
        (None, None) if ready => "ready".to_owned(),
        (None, None) => format!("{}, not ready", status.phase.unwrap_or_default().to_lowercase()),
    }
}

/// A DaemonSet as drydock makes them: for the nodes whose label asks for this version.
pub(crate) fn daemon_set(name: &str, version: &str, image: &str) -> DaemonSet {
    let labels = json!({"app": name, "drydock.dev/component": "driver"});
    let annotations = json!({"drydock.dev/version": json!({"version": version}).to_string()});
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "nodeSelector": {"version.drydock.dev/driver": version.replace('.', "-")},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": format!("{image}:{version}")}],
                },
            },
        },
    }))
    .unwrap()
}

/// A Job on one node.
pub(crate) fn job(name: &str, node: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Job {
    let map = |pairs: &[(&str, &str)]| -> Value {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect::<serde_json::Map<_, _>>().into()
    };
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": map(labels), "annotations": map(annotations)},
                "spec": {
                    "nodeName": node, "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "checks:1"}],
                },
            },
        },
    }))
    .unwrap()
}
