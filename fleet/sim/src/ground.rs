//! What doesn't move by itself: the seed, the hardware of each pool, the faults that are in force.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::NodeId;
use drydock_spec::{
    CheckName, ClusterName, ComponentClass, ComponentName, Delivery, Disruption, DomainKey, Fleet, LayoutId,
    LayoutName, PoolName, PoolSpec, ReleaseVector, TenantName,
};
use serde::{Deserialize, Serialize};

use crate::{Draw, FaultSpec, Place, Workload, node::NodeState};

/// The fixed side of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ground {
    /// Of every draw.
    pub seed: u64,
    /// Hardware by pool.
    pub pools: BTreeMap<PoolName, Hardware>,
    /// Software parts.
    pub parts: BTreeMap<ComponentName, Part>,
    /// Names of layouts, since faults name them and nodes carry ids.
    pub layouts: BTreeMap<LayoutId, LayoutName>,
    /// What goes wrong.
    pub faults: Vec<FaultSpec>,
    /// What runs on the nodes; absent means nothing does.
    pub workload: Option<Workload>,
}

/// The hardware of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Its cluster.
    pub cluster: ClusterName,
    /// GPU model.
    pub model: Arc<str>,
    /// GPUs per node.
    pub gpus: u32,
    /// Rails with RDMA per node.
    pub rails: u32,
    /// Whose jobs run here.
    pub tenant: Option<TenantName>,
    /// What checks reach on good hardware: a little above the pool's floors.
    pub values: BTreeMap<CheckName, f64>,
    /// Drivers are compiled on the node instead of coming ready-made.
    pub compiled: bool,
    /// Jobs span nodes here.
    pub gangs: bool,
}

/// A component as far as the simulation is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is.
    pub class: ComponentClass,
    /// What changing it does.
    pub disruption: Disruption,
    /// The cluster has it once: all its nodes have the same version.
    pub cluster_wide: bool,
}

impl Hardware {
    pub(crate) fn of(pool: &PoolSpec, compiled: bool) -> Self {
        // Floors are what a good node passes with some margin; 12 % is between the floors of public suites and the
        // values that the same suites print for good nodes.
        let values = pool.floors.iter().map(|(name, floor)| (name.clone(), floor * 1.12)).collect();
        let spans = pool.rdma_rails > 0
            || pool.domains.scalable_unit.is_some()
            || pool.domains.nvlink_domain.is_some();
        Self {
            cluster: pool.cluster.clone(),
            model: Arc::from(pool.gpu.model.as_str()),
            gpus: pool.gpu.count,
            rails: pool.rdma_rails,
            tenant: pool.tenant.clone(),
            values,
            compiled,
            gangs: spans,
        }
    }
}

impl Ground {
    /// Takes over what the documents say of components and layouts, and hardware of pools that are new. Hardware that
    /// is known stays: a floor that is edited doesn't make a cable faster.
    pub(crate) fn learn(&mut self, fleet: &Fleet, compiled: &dyn Fn(&PoolName) -> bool) {
        for (name, component) in &fleet.components {
            let cluster_wide = matches!(component.delivery, Delivery::Deployment(_));
            // What runs elsewhere disturbs no node.
            let disruption = if cluster_wide { Disruption::None } else { component.disruption };
            let part = Part { class: component.class, disruption, cluster_wide };
            self.parts.insert(name.clone(), part);
        }
        for (name, layout) in &fleet.layouts {
            self.layouts.insert(drydock_spec::layout_id(layout), name.clone());
        }
        for (name, pool) in &fleet.pools {
            if !self.pools.contains_key(name) {
                self.pools.insert(name.clone(), Hardware::of(pool, compiled(name)));
            }
        }
    }
    /// All nodes of a cluster share it.
    pub(crate) fn is_shared(&self, component: &ComponentName) -> bool {
        self.parts.get(component).is_some_and(|part| part.cluster_wide)
    }
    /// Whether a node with `running` has all of a release and nothing else, but what its cluster has for others.
    pub(crate) fn has_all(&self, running: &ReleaseVector, wanted: &ReleaseVector) -> bool {
        wanted.0.iter().all(|(name, version)| running.get(name) == Some(version))
            && running.0.keys().all(|name| wanted.get(name).is_some() || self.is_shared(name))
    }
    /// A draw about something on a node.
    #[must_use]
    pub fn draw(&self, node: &NodeId, what: &str) -> Draw {
        Draw::new(self.seed).text(node.as_str()).text(what)
    }
    pub(crate) fn class(&self, component: &ComponentName) -> ComponentClass {
        self.parts.get(component).map_or(ComponentClass::Agent, |part| part.class)
    }
    pub(crate) fn disruption(&self, component: &ComponentName) -> Disruption {
        self.parts.get(component).map_or(Disruption::Drain, |part| part.disruption)
    }
    pub(crate) fn gpus(&self, pool: &PoolName) -> u32 {
        self.pools.get(pool).map_or(0, |hardware| hardware.gpus)
    }
    pub(crate) fn holds(&self, place: &Place, id: &NodeId, node: &NodeState) -> bool {
        let model = self.pools.get(&node.pool).map_or("", |hardware| &*hardware.model);
        let layout = node.layout.as_ref().and_then(|l| self.layouts.get(l)).map(LayoutName::as_str);
        let domain = |key: DomainKey| node.domains.get(key.index()).and_then(Option::as_deref);
        place.holds(id, &node.pool, model, &node.kernel, layout, &domain)
    }
}
