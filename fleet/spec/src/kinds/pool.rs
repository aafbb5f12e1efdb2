use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{CheckName, ClusterName, LayoutName, ReleaseName, TenantName};

/// `kind: GpuNodePool`: nodes of one cluster that carry the same hardware and the same software.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSpec {
    /// The cluster its nodes are in.
    pub cluster: ClusterName,
    /// Labels that make a node a member. No two pools may select the same node.
    pub node_selector: BTreeMap<String, String>,
    /// What is in each node.
    pub gpu: GpuSpec,
    /// Wanted software.
    pub release: ReleaseName,
    /// Wanted partitioning; absent means drydock doesn't touch partitioning here.
    #[serde(default)]
    pub layout: Option<LayoutName>,
    /// Where a node's topology stands: for each kind of domain, the node label that names it.
    #[serde(default)]
    pub domains: DomainLabels,
    /// Bounds on the number of nodes.
    #[serde(default)]
    pub nodes: NodeCount,
    /// Labels that nodes of this pool should carry.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints that nodes of this pool carry, and that every component and check must tolerate.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Whose jobs run here.
    #[serde(default)]
    pub tenant: Option<TenantName>,
    /// Rails with RDMA per node; 0 means no RDMA, and checks of class `rdma` don't apply.
    #[serde(default)]
    pub rdma_rails: u32,
    /// Who installs the driver. Where it isn't `managed`, drydock only observes it.
    #[serde(default)]
    pub driver_source: DriverSource,
    /// Capacity that ends on a date: nothing starts that can't be done before it.
    #[serde(default)]
    pub lease_until: Option<Timestamp>,
    /// The cloud may take nodes away at any time. For people: drydock acts the same either way.
    #[serde(default)]
    pub preemptible: bool,
    /// Somebody else repairs nodes of this pool. For people: drydock acts the same either way.
    #[serde(default)]
    pub auto_repair: bool,
    /// Least value a check must reach on this pool. Floors belong to the pool, not to the GPU model: the same H100
    /// reaches 300 GB/s in one cloud and 100 in another.
    #[serde(default)]
    pub floors: BTreeMap<CheckName, f64>,
}

/// GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuSpec {
    /// Model name as in the catalogue, for example `H100-80GB`.
    pub model: String,
    /// How many in each node.
    pub count: u32,
}

/// Number of nodes a pool should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeCount {
    /// Fewer is shown as a finding.
    #[serde(default)]
    pub min: Option<u32>,
    /// More is shown as a finding.
    #[serde(default)]
    pub max: Option<u32>,
}

/// For each kind of domain, the node label whose value names the domain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DomainLabels {
    /// NVLink (IMEX) domain, for example `nvidia.com/gpu.clique`.
    #[serde(default)]
    pub nvlink_domain: Option<String>,
    /// Scalable unit: the nodes under one set of leaf switches.
    #[serde(default)]
    pub scalable_unit: Option<String>,
    /// Rack.
    #[serde(default)]
    pub rack: Option<String>,
    /// Rail group.
    #[serde(default)]
    pub rail: Option<String>,
}

/// A kind of topology domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DomainKey {
    /// NVLink (IMEX) domain.
    NvlinkDomain,
    /// Scalable unit.
    ScalableUnit,
    /// Rack.
    Rack,
    /// Rail group.
    Rail,
}

impl DomainKey {
    /// All kinds, in the order of [`DomainKey::index`].
    pub const ALL: [Self; 4] = [Self::NvlinkDomain, Self::ScalableUnit, Self::Rack, Self::Rail];

    /// Position in arrays indexed by kind of domain.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::NvlinkDomain => 0,
            Self::ScalableUnit => 1,
            Self::Rack => 2,
            Self::Rail => 3,
        }
    }
    /// The word used in documents and on screens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NvlinkDomain => "nvlinkDomain",
            Self::ScalableUnit => "scalableUnit",
            Self::Rack => "rack",
            Self::Rail => "rail",
        }
    }
}

impl DomainLabels {
    /// The label that names the domain of this kind, when there is one.
    #[must_use]
    pub fn label(&self, key: DomainKey) -> Option<&str> {
        match key {
            DomainKey::NvlinkDomain => self.nvlink_domain.as_deref(),
            DomainKey::ScalableUnit => self.scalable_unit.as_deref(),
            DomainKey::Rack => self.rack.as_deref(),
            DomainKey::Rail => self.rail.as_deref(),
        }
    }
}

/// A node taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value; absent and empty are the same.
    #[serde(default)]
    pub value: Option<String>,
    /// What it does to pods.
    pub effect: TaintEffect,
}

/// What a taint does to pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Running pods leave as well.
    NoExecute,
}

/// Who installs the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DriverSource {
    /// drydock does, through the component's delivery.
    #[default]
    Managed,
    /// It is a host package somebody else updates.
    Host,
    /// It is part of the node image.
    NodeImage,
    /// It is an extension of the operating system.
    OsExtension,
    /// The cloud does.
    Cloud,
}
