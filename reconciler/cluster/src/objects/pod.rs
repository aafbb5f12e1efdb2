//! What is kept of a pod.

use std::collections::BTreeMap;

use drydock_api::names;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{Meta, Watched};
use crate::client::Kind;

/// Phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[allow(missing_docs)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

/// State of a container, init containers included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerState {
    /// Name.
    pub name: String,
    /// It answers its readiness probe.
    pub ready: bool,
    /// Restarts so far.
    pub restarts: u32,
    /// Why it isn't running yet: `ImagePullBackOff`, `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// What the kubelet says of that.
    pub waiting_message: String,
    /// It is running.
    pub running: bool,
    /// How it ended: exit code, signal, message.
    pub terminated: Option<(i32, Option<i32>, String)>,
    /// Why it ended: `OOMKilled`, `StartError`.
    pub reason: String,
    /// When it began and ended, by the node's clock.
    pub times: (Option<Timestamp>, Option<Timestamp>),
    /// How the run before the present one ended.
    pub last: Option<(i32, Option<i32>, String)>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodObject {
    /// Metadata; labels and annotations of others that nothing here reads are dropped.
    pub meta: Meta,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Phase.
    pub phase: PodPhase,
    /// Ready condition.
    pub ready: bool,
    /// Why the pod as a whole is as it is: `DeadlineExceeded`, `Evicted`, `UnexpectedAdmissionError`.
    pub reason: String,
    /// Text to it, or the scheduler's reason for not binding it.
    pub message: String,
    /// GPU devices it asks for.
    pub devices: u32,
    /// It reaches GPUs by its runtime class, without asking for a device.
    pub gpu_runtime: bool,
    /// It keeps data in an emptyDir on disk.
    pub local_storage: bool,
    /// Written by the kubelet from a file: it can't be evicted.
    pub mirror: bool,
    /// Images, in the order of containers.
    pub images: Vec<String>,
    /// Containers.
    pub containers: Vec<ContainerState>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: Meta,
    spec: RawSpec,
    status: RawStatus,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Option<String>,
    runtime_class_name: Option<String>,
    containers: Vec<RawContainer>,
    init_containers: Vec<RawContainer>,
    volumes: Vec<Volume>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawContainer {
    image: String,
    resources: Resources,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    limits: BTreeMap<String, serde_json::Value>,
    requests: BTreeMap<String, serde_json::Value>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    empty_dir: Option<EmptyDir>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct EmptyDir {
    medium: String,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: PodPhase,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<RawState>,
    init_container_statuses: Vec<RawState>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawState {
    name: String,
    ready: bool,
    restart_count: u32,
    state: States,
    last_state: States,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct States {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Timestamp>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    signal: Option<i32>,
    reason: String,
    message: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

/// Label keys of others that are read: what pods belong to.
pub(crate) const GANG_LABELS: &[&str] = &[
    names::GANG,
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
];
/// Label keys of the GPU Operator that are read.
const OPERATOR_LABELS: &[&str] = &["app", "app.kubernetes.io/component", "app.kubernetes.io/managed-by"];

fn is_device(name: &str) -> bool {
    name.starts_with("nvidia.com/gpu")
        || name.starts_with("nvidia.com/mig-")
        || name.starts_with("amd.com/gpu")
}

fn count(value: &serde_json::Value) -> u32 {
    match value {
        serde_json::Value::Number(n) => n.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        serde_json::Value::String(s) => s.parse().unwrap_or(0),
        _ => 0,
    }
}

fn devices(containers: &[RawContainer]) -> u32 {
    let of = |c: &RawContainer| -> u32 {
        let mut asked: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, value) in c.resources.requests.iter().chain(&c.resources.limits) {
            if is_device(name) {
                let most = asked.entry(name).or_default();
                *most = (*most).max(count(value));
            }
        }
        asked.values().sum()
    };
    containers.iter().map(of).sum()
}

fn ended(t: &Terminated) -> (i32, Option<i32>, String) {
    (t.exit_code, t.signal, t.message.clone())
}

fn state(raw: RawState) -> ContainerState {
    let RawState { name, ready, restart_count, state, last_state } = raw;
    let times = match (&state.running, &state.terminated) {
        (_, Some(t)) => (t.started_at, t.finished_at),
        (Some(r), None) => (r.started_at, None),
        (None, None) => (None, None),
    };
    let (waiting, waiting_message) =
        state.waiting.map_or((None, String::new()), |w| (Some(w.reason), w.message));
    ContainerState {
        name,
        ready,
        restarts: restart_count,
        waiting,
        waiting_message,
        running: state.running.is_some(),
        reason: state.terminated.as_ref().map(|t| t.reason.clone()).unwrap_or_default(),
        terminated: state.terminated.as_ref().map(ended),
        times,
        last: last_state.terminated.as_ref().map(ended),
    }
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata: mut meta, spec, status } = Raw::deserialize(d)?;
        let mirror = meta.annotations.contains_key("kubernetes.io/config.mirror");
        meta.trim(|_| false);
        meta.labels.retain(|key, _| {
            key.contains("drydock.dev/") || GANG_LABELS.contains(&&**key) || OPERATOR_LABELS.contains(&&**key)
        });
        let condition = |kind: &str| status.conditions.iter().find(|c| c.kind == kind);
        let unbound = condition("PodScheduled").filter(|c| c.status == "False").map(|c| c.message.clone());
        let ready = condition("Ready").is_some_and(|c| c.status == "True");
        let runtime = spec.runtime_class_name.as_deref().unwrap_or("");
        let inits = status
            .init_container_statuses
            .into_iter()
            .filter(|s| s.state.terminated.as_ref().is_none_or(|t| t.exit_code != 0));
        Ok(Self {
            devices: devices(&spec.containers).max(devices(&spec.init_containers)),
            gpu_runtime: runtime.contains("nvidia"),
            local_storage: spec
                .volumes
                .iter()
                .any(|v| v.empty_dir.as_ref().is_some_and(|e| e.medium != "Memory")),
            mirror,
            node: spec.node_name.filter(|n| !n.is_empty()),
            phase: status.phase,
            ready,
            reason: status.reason,
            message: if status.message.is_empty() { unbound.unwrap_or_default() } else { status.message },
            images: spec.containers.into_iter().map(|c| c.image).collect(),
            containers: inits.chain(status.container_statuses).map(state).collect(),
            meta,
        })
    }
}

impl Watched for PodObject {
    const KIND: Kind = Kind::POD;
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl PodObject {
    /// It has run to its end.
    #[must_use]
    pub fn finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
    /// It is being deleted.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }
    /// It holds GPUs, or may.
    #[must_use]
    pub fn on_gpus(&self) -> bool {
        self.devices > 0 || self.gpu_runtime
    }
    /// It belongs to a DaemonSet: it comes back wherever it is deleted, so it isn't evicted.
    #[must_use]
    pub fn of_daemon_set(&self) -> bool {
        self.meta.controller().is_some_and(|o| o.kind == "DaemonSet")
    }
    /// The job it runs together with others for, `namespace/name`.
    #[must_use]
    pub fn gang(&self) -> Option<String> {
        let name = GANG_LABELS.iter().find_map(|key| self.meta.label(key))?;
        Some(format!("{}/{name}", self.meta.namespace))
    }
    /// What keeps it from running, for people: the first container that waits or has failed.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let of = |c: &ContainerState| match (&c.waiting, &c.terminated) {
            (Some(reason), _) if reason != "ContainerCreating" && reason != "PodInitializing" => {
                Some(match c.waiting_message.is_empty() {
                    true => format!("container {}: {reason}", c.name),
                    false => format!("container {}: {reason}: {}", c.name, c.waiting_message),
                })
            }
            (_, Some((code, _, message))) if *code != 0 => Some(
                format!("container {} ended with {code} {} {message}", c.name, c.reason)
                    .trim_end()
                    .to_owned(),
            ),
            _ => None,
        };
        let own = (!self.reason.is_empty()).then(|| format!("{}: {}", self.reason, self.message));
        self.containers
            .iter()
            .find_map(of)
            .or(own)
            .or_else(|| (self.node.is_none() && !self.message.is_empty()).then(|| self.message.clone()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_counts_as_holding_gpus_and_data() {
        let pod: PodObject = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"drydock.dev/gang": "train", "x": "y"}},
            "spec": {"nodeName": "n1", "runtimeClassName": "nvidia",
                "containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "1"}, "requests": {"nvidia.com/gpu": 4}}}],
                "volumes": [{"emptyDir": {"medium": "Memory"}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3,
                    "lastState": {"terminated": {"exitCode": 139, "message": "boom"}}}]}
        }))
        .unwrap();
        assert_eq!((pod.devices, pod.gpu_runtime, pod.local_storage), (4, true, false));
        assert_eq!(pod.gang().as_deref(), Some("a/train"));
        assert_eq!(pod.meta.labels.len(), 1);
        assert_eq!(pod.trouble().as_deref(), Some("container c: CrashLoopBackOff"));
        assert_eq!(pod.containers[0].last.as_ref().unwrap().0, 139);
    }
}
