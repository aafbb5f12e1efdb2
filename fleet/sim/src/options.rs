//! What a simulated fleet is made like.

use std::collections::{BTreeMap, BTreeSet};

use drydock_spec::{Fleet, LayoutId, PoolName, ReleaseVector, layout_id};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::FaultSpec;

/// What a simulated fleet is made like. The default is a quiet fleet that already runs what the documents say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorldOptions {
    /// Of every draw.
    pub seed: u64,
    /// The first instant.
    pub start: Timestamp,
    /// What goes wrong.
    pub faults: Vec<FaultSpec>,
    /// What runs at first, by pool; the pool's own release where absent.
    pub running: BTreeMap<PoolName, ReleaseVector>,
    /// How GPUs are cut at first, by pool; the pool's own layout where absent.
    pub layouts: BTreeMap<PoolName, Option<LayoutId>>,
    /// Number of nodes, by pool; `nodes.min`, else `nodes.max`, else 4 where absent.
    pub sizes: BTreeMap<PoolName, u32>,
    /// Sizes of domains, by pool.
    pub domains: BTreeMap<PoolName, DomainSizes>,
    /// Rows of racks, by pool: nodes of pools in the same row stand in the same domains. A row of its own where absent.
    pub rows: BTreeMap<PoolName, String>,
    /// Kernel releases, by pool; nodes take turns.
    pub kernels: BTreeMap<PoolName, Vec<String>>,
    /// Pools whose drivers are compiled on the node.
    pub compiled: BTreeSet<PoolName>,
    /// A fleet of this size has damage that was there before: nodes that others cordoned, dead nodes, missing GPUs
    /// and rails, labels set by hand.
    pub damage: bool,
    /// What runs on the nodes; absent means nothing does.
    pub workload: Option<Workload>,
}

/// Nodes per domain. The defaults are the public reference sizes: 32 nodes in a scalable unit of a DGX SuperPOD, 18
/// nodes of 4 GPUs in an NVLink domain of 72, 4 nodes in a rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DomainSizes {
    /// Scalable unit, and its rail group.
    pub scalable_unit: u32,
    /// NVLink domain.
    pub nvlink_domain: u32,
    /// Rack.
    pub rack: u32,
}

impl Default for DomainSizes {
    fn default() -> Self {
        Self { scalable_unit: 32, nvlink_domain: 18, rack: 4 }
    }
}

/// What runs on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Workload {
    /// Percent of the nodes of a pool with a fabric that jobs spanning nodes want.
    pub gang_percent: u32,
    /// Largest such job, in nodes.
    pub gang_nodes: u32,
    /// Single pods run on pools without a fabric.
    pub single_pods: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self { gang_percent: 75, gang_nodes: 16, single_pods: true }
    }
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            // Monday 2026-03-02 09:00 UTC: a working day is ahead in Europe, and night in America.
            start: Timestamp::constant(1_772_442_000, 0),
            faults: Vec::new(),
            running: BTreeMap::new(),
            layouts: BTreeMap::new(),
            sizes: BTreeMap::new(),
            domains: BTreeMap::new(),
            rows: BTreeMap::new(),
            kernels: BTreeMap::new(),
            compiled: BTreeSet::new(),
            damage: false,
            workload: None,
        }
    }
}

impl WorldOptions {
    /// Every pool runs at first what an earlier state of the documents said.
    #[must_use]
    pub fn running_as(mut self, earlier: &Fleet) -> Self {
        for (name, pool) in &earlier.pools {
            if let Some(release) = earlier.releases.get(&pool.release) {
                self.running.insert(name.clone(), release.vector());
            }
            let layout = pool.layout.as_ref().and_then(|l| earlier.layouts.get(l)).map(|l| layout_id(l));
            self.layouts.insert(name.clone(), layout);
        }
        self
    }
}
