//! What hollow nodes are like.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drydock_spec::CheckClass;
use k8s_openapi::api::core::v1::Pod;

/// Annotation on a Job's pod: how long it runs, in milliseconds, or `forever`. Without it
/// [`Timings::job`] counts; a pod of a gang (label `drydock.dev/gang`) runs for ever.
pub const RUN_FOR: &str = "bed.drydock.dev/run-for";
/// Annotation on a Job's pod: its exit code, 0 without it.
pub const EXIT_CODE: &str = "bed.drydock.dev/exit-code";
/// Annotation on a Job's pod: its termination message.
pub const MESSAGE: &str = "bed.drydock.dev/message";
/// Annotation on a pod: with `never` it doesn't answer `drydock.dev/checkpoint-request`. Without it every pod does that
/// has `drydock.dev/checkpoint-hook: annotation`, and a job has written its checkpoint at once.
pub const CHECKPOINTS: &str = "bed.drydock.dev/checkpoints";

/// How hollow nodes behave.
#[derive(Clone)]
pub struct HollowOptions {
    /// The cluster's part in names of nodes in faults: `CLUSTER/NODE`.
    pub cluster: String,
    /// How long things take.
    pub timings: Timings,
    /// Which component an image belongs to, by a piece of the image's name: pods without drydock's own labels, such as
    /// the GPU Operator's, run the version that stands in the tag.
    pub images: BTreeMap<String, String>,
    /// The component that brings devices: nodes advertise theirs once a pod of it has been ready, and none while none is.
    /// Without it they have them from the start.
    pub device_plugin: Option<String>,
    /// Classes of checks by name. A check that isn't in it has the class of its pods' label `drydock.dev/check-class`;
    /// without that label the one that its name begins with (`rdma-write` is of class `rdma`), or `custom`.
    pub classes: BTreeMap<String, CheckClass>,
    /// Values of good checks by name; others measure the usual value of their class.
    pub values: BTreeMap<String, f64>,
    /// How a Job's pod ends, where a test wants to say so itself. Asked first; `None` means as usual.
    pub ends: Option<JobEnds>,
    /// Agents that act on labels of nodes.
    pub agents: Vec<Agent>,
    /// Labels of nodes that say what faults ask for.
    pub labels: Labels,
    /// How often each node renews its lease; needed with all controllers, where a node without one is lost.
    pub leases: Option<Duration>,
    /// Labels in which feature discovery notes what runs, by component: as soon as a pod with another version is ready
    /// the label says so. Empty: none.
    pub features: BTreeMap<String, String>,
    /// Node condition that shows a health fault: `True`, with the kind as reason.
    pub health_condition: String,
    /// Writes that are under way at once.
    pub in_flight: usize,
}

/// Says how a Job's pod ends.
pub type JobEnds = Arc<dyn Fn(&Pod) -> Option<Ended> + Send + Sync>;

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// Termination message.
    pub message: String,
    /// `Completed`, `Error`, `OOMKilled`.
    pub reason: String,
}

impl Ended {
    /// By itself, with this code and message.
    #[must_use]
    pub fn with(code: i32, message: &str) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        Self { code, message: message.to_owned(), reason: reason.to_owned() }
    }
}

/// How long things take on a hollow node. Small by default: a test of a rollout has hundreds of them.
#[derive(Debug, Clone)]
pub struct Timings {
    /// From bound to running.
    pub start: Duration,
    /// From running to ready.
    pub ready: Duration,
    /// A Job's run, checks included.
    pub job: Duration,
    /// From the request for deletion to the end.
    pub terminate: Duration,
    /// First pause between two crashes; it doubles up to ten times, as a kubelet's does.
    pub backoff: Duration,
    /// What an agent takes for a change.
    pub agent: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            start: ms(50),
            ready: ms(50),
            job: ms(100),
            terminate: ms(50),
            backoff: ms(200),
            agent: ms(150),
        }
    }
}

/// Labels of nodes that say what faults ask for in `where`.
#[derive(Debug, Clone)]
pub struct Labels {
    /// The pool.
    pub pool: String,
    /// The GPU model.
    pub model: String,
}

impl Default for Labels {
    fn default() -> Self {
        Self { pool: "pool".to_owned(), model: "nvidia.com/gpu.product".to_owned() }
    }
}

impl Default for HollowOptions {
    fn default() -> Self {
        let images = [("nvidia/driver", "gpu-driver"), ("nvidia/k8s-device-plugin", "device-plugin")];
        Self {
            cluster: String::new(),
            timings: Timings::default(),
            images: images.map(|(image, component)| (image.to_owned(), component.to_owned())).into(),
            device_plugin: None,
            classes: BTreeMap::new(),
            values: BTreeMap::new(),
            ends: None,
            agents: Vec::new(),
            labels: Labels::default(),
            leases: None,
            features: BTreeMap::new(),
            health_condition: "GpuFault".to_owned(),
            in_flight: 32,
        }
    }
}

impl std::fmt::Debug for HollowOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HollowOptions").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl HollowOptions {
    /// For the cluster that faults call by this name.
    #[must_use]
    pub fn of(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), ..Self::default() }
    }

    /// The class of a check: by name, by what its label says, by what its name begins with.
    pub(super) fn class(&self, check: &str, told: Option<&str>) -> CheckClass {
        let classes = [CheckClass::Driver, CheckClass::Rdma, CheckClass::Training];
        let by_label = || classes.into_iter().find(|class| told == Some(class.as_str()));
        let by_name = || classes.into_iter().find(|class| check.starts_with(class.as_str()));
        let known = self.classes.get(check).copied().or_else(by_label);
        known.or_else(|| if told.is_none() { by_name() } else { None }).unwrap_or(CheckClass::Custom)
    }

    /// The value of a check on good hardware. Without one by name it is the usual one of its class, in GB/s, GB/s and
    /// TFLOP/s: the same as in the simulation.
    pub(super) fn value(&self, check: &str, class: CheckClass) -> f64 {
        self.values.get(check).copied().unwrap_or(match class {
            CheckClass::Driver => 460.0,
            CheckClass::Rdma => 380.0,
            CheckClass::Training => 120.0,
            CheckClass::Custom => 100.0,
        })
    }
}

/// An agent on the nodes that acts on a label, as NVIDIA's MIG manager does: the state label says `pending`, and after
/// a while `success` or `failed`; then the node has other devices.
#[derive(Clone)]
pub struct Agent {
    /// Label that asks: `nvidia.com/mig.config`.
    pub label: String,
    /// Label that answers: `nvidia.com/mig.config.state`.
    pub state_label: String,
    /// The component it delivers, for `badVersion`; `badLayout` goes by the value itself.
    pub component: Option<String>,
    /// Devices of a node with this value: resource to count. `None` leaves them.
    pub devices: Option<Devices>,
}

/// Devices of a node by the value of the label that asks for them.
pub type Devices = Arc<dyn Fn(&NodeSpec, &str) -> BTreeMap<String, String> + Send + Sync>;

impl Agent {
    /// MIG manager: `nvidia.com/mig.config`, and no change of devices.
    #[must_use]
    pub fn mig_manager() -> Self {
        Self {
            label: "nvidia.com/mig.config".to_owned(),
            state_label: "nvidia.com/mig.config.state".to_owned(),
            component: None,
            devices: None,
        }
    }
    /// With devices that follow the value.
    #[must_use]
    pub fn devices(
        mut self,
        devices: impl Fn(&NodeSpec, &str) -> BTreeMap<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.devices = Some(Arc::new(devices));
        self
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("label", &self.label).finish_non_exhaustive()
    }
}

/// One hollow node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Name of the Node object.
    pub name: String,
    /// Labels; `kubernetes.io/hostname`, `os` and `arch` are added.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// What pods can ask for beside CPU and memory: resource to count.
    pub devices: BTreeMap<String, String>,
    /// Release of the kernel.
    pub kernel: String,
}

impl NodeSpec {
    /// A node with eight GPUs.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            devices: BTreeMap::from([("nvidia.com/gpu".to_owned(), "8".to_owned())]),
            kernel: "6.8.0-55-generic".to_owned(),
        }
    }
    /// So many nodes, `PREFIX-000` and up.
    #[must_use]
    pub fn many(prefix: &str, count: usize) -> Vec<Self> {
        (0..count).map(|n| Self::new(&format!("{prefix}-{n:03}"))).collect()
    }
    /// With a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }
    /// With an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }
    /// With so many of a resource; none takes the resource away.
    #[must_use]
    pub fn device(mut self, resource: &str, count: u32) -> Self {
        if count == 0 {
            self.devices.remove(resource);
        } else {
            self.devices.insert(resource.to_owned(), count.to_string());
        }
        self
    }
    /// With another kernel.
    #[must_use]
    pub fn kernel(mut self, kernel: &str) -> Self {
        kernel.clone_into(&mut self.kernel);
        self
    }
}

/// Picks pods. All that is given must match; nothing given picks every pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodSelector {
    /// On this node.
    pub node: Option<String>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of this name.
    pub name: Option<String>,
    /// With these labels.
    pub labels: BTreeMap<String, String>,
}

impl PodSelector {
    /// Pods on one node.
    #[must_use]
    pub fn on(node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..Self::default() }
    }
    /// One pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), name: Some(name.to_owned()), ..Self::default() }
    }
    /// Pods with a label.
    #[must_use]
    pub fn labelled(key: &str, value: &str) -> Self {
        Self { labels: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..Self::default() }
    }
    pub(super) fn picks(&self, pod: &Pod) -> bool {
        let Self { node, namespace, name, labels } = self;
        let spec_node = pod.spec.as_ref().and_then(|s| s.node_name.as_ref());
        let has =
            |wanted: &Option<String>, found: Option<&String>| wanted.is_none() || wanted.as_ref() == found;
        has(node, spec_node)
            && has(namespace, pod.metadata.namespace.as_ref())
            && has(name, pod.metadata.name.as_ref())
            && labels.iter().all(|(k, v)| pod.metadata.labels.as_ref().and_then(|l| l.get(k)) == Some(v))
    }
}
