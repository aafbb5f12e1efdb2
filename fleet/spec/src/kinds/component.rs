use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{ComponentName, Period};

use super::Template;

/// `kind: Component`: how a piece of software is delivered and observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentSpec {
    /// What it is; this also fixes its place in the order of a visit.
    pub class: ComponentClass,
    /// How a version of it reaches a node or a cluster.
    pub delivery: Delivery,
    /// What changing it does to the node.
    #[serde(default)]
    pub disruption: Disruption,
    /// False for what can't be taken back (some firmware, one-way data formats): it is applied last in a visit and
    /// never rolled back automatically.
    #[serde(default = "yes")]
    pub reversible: bool,
    /// Components that must be in place first, beyond the order of classes.
    #[serde(default)]
    pub after: Vec<ComponentName>,
    /// Longest one application may take on one node. Default 25m: a driver container's start probe alone may run
    /// 21 minutes.
    #[serde(default = "default_deadline")]
    pub deadline: Period,
    /// How long an application usually takes.
    #[serde(default)]
    pub expect: Expect,
}

fn yes() -> bool {
    true
}
fn default_deadline() -> Period {
    Period::from_mins(25)
}

/// What a component is. The order of the variants is the order of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ComponentClass {
    /// Network driver (DOCA-OFED). First, since GPU modules are built against it.
    NetworkDriver,
    /// GPU driver.
    GpuDriver,
    /// Fabric manager; must equal the driver on NVSwitch nodes.
    FabricManager,
    /// Container toolkit.
    ContainerToolkit,
    /// Device plugin or DRA driver.
    DevicePlugin,
    /// Agent that cuts GPUs (MIG manager).
    PartitionManager,
    /// Scheduler; per cluster.
    Scheduler,
    /// Monitoring and other agents.
    Agent,
    /// Firmware.
    Firmware,
    /// Node image.
    NodeImage,
}

/// What changing a component does to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Disruption {
    /// Nothing that runs notices.
    None,
    /// A restart in place; the node is cordoned but keeps its pods.
    Restart,
    /// Pods have to leave first. The careful default.
    #[default]
    Drain,
    /// Pods have to leave and the node reboots.
    Reboot,
}

/// How a version reaches a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Delivery {
    /// One DaemonSet per version, selected by a node label.
    DaemonSet(ObjectRef),
    /// One NVIDIADriver per version, same label.
    NvidiaDriver(ObjectRef),
    /// One ClusterPolicy with automatic upgrade off; OnDelete pods are deleted node by node.
    ClusterPolicy(ObjectRef),
    /// A Deployment, which the cluster has once. It travels with the first node of its cluster that needs it, which is
    /// checked with it before others begin, and it never makes a node drain.
    Deployment(ObjectRef),
    /// A Job on the node with the version as input.
    Job(ObjectRef),
    /// A label that an agent on the node acts on.
    Label(LabelDelivery),
    /// Somebody else moves it; it is only shown and checked for compatibility.
    Observe {},
}

/// A Kubernetes object, and the image it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// Namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name, or the stem of it where there is one object per version.
    pub name: String,
    /// Image without its tag; the version is the tag.
    #[serde(default)]
    pub image: Option<String>,
    /// For `daemonSet`, `deployment` and `job` the pod template, for `nvidiaDriver` further fields of its `spec`.
    /// Containers that name no image get `image` with the version as its tag. All containers get the version as the
    /// environment variable `DRYDOCK_VERSION`, so `$(DRYDOCK_VERSION)` in their commands and arguments is the version,
    /// and each setting of the release as `DRYDOCK_CONFIG_…`; nothing else is filled in. It is no part of a release: a change of it alone moves no node.
    #[serde(default)]
    pub template: Option<Template>,
    /// For `job` only: a command that prints the version that is in place as its last line. It runs on the node in
    /// the same image.
    #[serde(default)]
    pub probe: Option<Vec<String>>,
}

/// Labels that an agent on the node acts on and answers with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelDelivery {
    /// Label that carries the wanted value.
    pub set: String,
    /// Label that carries the agent's state.
    pub state: String,
    /// Values of `state` and what they mean.
    #[serde(default)]
    pub states: BTreeMap<String, String>,
}

/// How long something usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Half are done by then. Default 3m, the middle of a precompiled driver's start.
    #[serde(default = "default_p50")]
    pub p50: Period,
    /// Nine of ten are done by then. Default 8m, above a compiled driver's start.
    #[serde(default = "default_p90")]
    pub p90: Period,
}

fn default_p50() -> Period {
    Period::from_mins(3)
}
fn default_p90() -> Period {
    Period::from_mins(8)
}

impl Default for Expect {
    fn default() -> Self {
        Self { p50: default_p50(), p90: default_p90() }
    }
}

impl ObjectRef {
    /// An object of this name, and nothing else said about it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { namespace: None, name: name.to_owned(), image: None, template: None, probe: None }
    }
}

impl Delivery {
    /// The object it works with, where there is one.
    #[must_use]
    pub const fn object(&self) -> Option<&ObjectRef> {
        match self {
            Self::DaemonSet(object)
            | Self::NvidiaDriver(object)
            | Self::ClusterPolicy(object)
            | Self::Deployment(object)
            | Self::Job(object) => Some(object),
            Self::Label(_) | Self::Observe {} => None,
        }
    }
    /// All nodes of a cluster share one version of it.
    #[must_use]
    pub const fn is_per_cluster(&self) -> bool {
        match self {
            Self::Deployment(_) => true,
            Self::DaemonSet(_)
            | Self::NvidiaDriver(_)
            | Self::ClusterPolicy(_)
            | Self::Job(_)
            | Self::Label(_)
            | Self::Observe {} => false,
        }
    }
    /// The key under which documents have it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::DaemonSet(_) => "daemonSet",
            Self::NvidiaDriver(_) => "nvidiaDriver",
            Self::ClusterPolicy(_) => "clusterPolicy",
            Self::Deployment(_) => "deployment",
            Self::Job(_) => "job",
            Self::Label(_) => "label",
            Self::Observe {} => "observe",
        }
    }
}
