use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `kind: PartitionLayout`: how the GPUs of a node are cut up and shared. Checked against the geometry of the model
/// of every pool that uses it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LayoutSpec {
    /// How slices are advertised.
    #[serde(default)]
    pub strategy: MigStrategy,
    /// Groups of GPUs, each with its geometry. GPUs that no group names follow `unnamed`.
    #[serde(default)]
    pub gpus: Vec<GpuGroup>,
    /// What happens to GPUs that no group names.
    #[serde(default)]
    pub unnamed: Unnamed,
    /// Time-slicing of each advertised device.
    #[serde(default)]
    pub time_slicing: Option<Sharing>,
    /// MPS sharing of each advertised device.
    #[serde(default)]
    pub mps: Option<Sharing>,
}

/// How MIG slices become resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MigStrategy {
    /// No MIG.
    #[default]
    None,
    /// All slices are alike and advertised as `nvidia.com/gpu`.
    Single,
    /// Each profile is a resource of its own.
    Mixed,
}

/// GPUs that are cut alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuGroup {
    /// Indices of the GPUs; absent means all.
    #[serde(default)]
    pub devices: Option<Vec<u32>>,
    /// Profiles and how many of each on every GPU of the group; empty means MIG off, the whole GPU.
    #[serde(default)]
    pub mig: BTreeMap<String, u32>,
}

/// What happens to GPUs that no group names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unnamed {
    /// MIG is switched off on them.
    #[default]
    Whole,
    /// They stay as they are.
    Unchanged,
}

/// Sharing of a device between pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sharing {
    /// How many pods share one device; at least 2 (no sharing is written as absence).
    #[schemars(range(min = 2))]
    pub replicas: u32,
    /// Advertise as `….shared`.
    #[serde(default)]
    pub rename_by_default: bool,
}
