//! A new world, made from documents.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{Cordon, HealthFault, Inventory, NodeId, ObservedCluster};
use drydock_spec::{DomainKey, Fleet, Period, PoolName, PoolSpec, layout_id};

use crate::{
    DomainSizes, Draw, Oracle, World, WorldOptions,
    agenda::Agenda,
    ground::Ground,
    node::{Activity, Down, NodeState},
    oracle::Tally,
    script::Happening,
    stacks::Stacks,
};

/// Nodes of a pool whose document doesn't say how many it has.
const NODES_DEFAULT: u32 = 4;
/// The kernel where options name none: that of Ubuntu 24.04.
const KERNEL: &str = "6.8.0-79-generic";

/// How long the nodes of a fleet have been ready when the simulation begins.
const SETTLED: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

impl World {
    /// Makes the fleet that the documents describe.
    #[must_use]
    pub fn from_fleet(fleet: &Fleet, options: &WorldOptions) -> Self {
        let mut ground = Ground {
            seed: options.seed,
            pools: BTreeMap::new(),
            parts: BTreeMap::new(),
            layouts: BTreeMap::new(),
            faults: options.faults.clone(),
            workload: options.workload,
        };
        ground.learn(fleet, &|pool| options.compiled.contains(pool));
        let clusters =
            fleet.clusters.keys().map(|name| (name.clone(), ObservedCluster::fresh(options.start)));
        let mut world = Self {
            ground,
            fleet: Arc::new(fleet.clone()),
            now: options.start,
            nodes: BTreeMap::new(),
            gangs: BTreeMap::new(),
            timed: Vec::new(),
            timed_number: 0,
            inventory: Inventory { clusters: clusters.collect(), ..Inventory::default() },
            stacks: Stacks::default(),
            signals: Agenda::default(),
            background: Agenda::default(),
            unseen: Default::default(),
            unseen_gangs: Default::default(),
            changed: Default::default(),
            changed_gangs: Default::default(),
            ground_changed: true,
            oracle: Oracle::default(),
            log: Vec::new(),
        };
        for (name, pool) in &fleet.pools {
            world.found_pool(name, pool, options);
        }
        world.found_shared();
        if options.damage {
            world.damage();
        }
        world.inventory.assign_pools(fleet);
        let ids: Vec<NodeId> = world.nodes.keys().cloned().collect();
        for id in &ids {
            world.touch(id);
        }
        for fault in &options.faults {
            world.schedule_fault(fault);
        }
        world.found_gangs();
        world.advance(options.start);
        world.log.clear();
        world
    }
    fn found_pool(&mut self, name: &PoolName, pool: &PoolSpec, options: &WorldOptions) {
        let documented = pool.nodes.min.or(pool.nodes.max).unwrap_or(NODES_DEFAULT);
        let count = options.sizes.get(name).copied().unwrap_or(documented);
        let sizes = options.domains.get(name).copied().unwrap_or_default();
        let row = options.rows.get(name).map_or(name.as_str(), String::as_str);
        let own = self.fleet.releases.get(&pool.release).map(|release| release.vector());
        let vector = options.running.get(name).cloned().or(own).unwrap_or_default();
        let stack = self.stacks.get(vector);
        let documented = pool.layout.as_ref().and_then(|l| self.fleet.layouts.get(l)).map(|l| layout_id(l));
        let layout = options.layouts.get(name).cloned().unwrap_or(documented);
        let kernels = options.kernels.get(name).filter(|kernels| !kernels.is_empty());
        let kernels: Vec<Arc<str>> = match kernels {
            Some(kernels) => kernels.iter().map(|k| Arc::from(k.as_str())).collect(),
            None => vec![Arc::from(KERNEL)],
        };
        let single = self.ground.workload.is_some_and(|w| w.single_pods) && !self.gangs_on(name);
        for index in 0..count {
            let id = NodeId::of(&pool.cluster, &format!("{name}-{index:03}"));
            let draw = self.ground.draw(&id, "first");
            let kernel = usize::try_from(index).ok().and_then(|i| kernels.get(i % kernels.len()));
            let pods =
                if single { draw.between(u64::from(pool.gpu.count) / 2, pool.gpu.count.into()) } else { 0 };
            let shift = Period::from_mins(draw.text("shift").between(1, 120)).after(self.now);
            let node = NodeState {
                pool: name.clone(),
                zone: zone(pool, index, sizes),
                present: true,
                kernel: kernel.cloned().unwrap_or_else(|| Arc::from(KERNEL)),
                boot_id: 1,
                machine: 0,
                ready: true,
                // It has been there for long.
                ready_since: self.now - SETTLED,
                cordon: Cordon::default(),
                running: Arc::clone(&stack),
                image: Arc::clone(&stack),
                layout: layout.clone(),
                image_layout: layout.clone(),
                pods: u32::try_from(pods).unwrap_or(0),
                gang: None,
                jobs_passed: 0,
                faults: Vec::new(),
                version_faults: Vec::new(),
                epoch: Default::default(),
                intent: None,
                report: None,
                activity: Activity::Idle,
                dead: Default::default(),
                down: None,
                struck: false,
                next_fault: None,
                fault_number: 0,
                next_shift: single.then_some(shift),
                shift_number: 0,
                writes: 0,
                relabel: Vec::new(),
                stash: BTreeMap::new(),
                uncordoned_by_others: false,
                tally: Tally::default(),
                domains: DomainKey::ALL
                    .map(|key| domain(row, pool, index, sizes, key).map(|(_, name)| Arc::from(name))),
                wedged: None,
                changed: None,
                fetched: Default::default(),
                old_report: None,
                looked_back: None,
                looks_back: None,
                cordon_changed: None,
                partners_taken: 0,
            };
            let seen = node.first_look(&self.ground, labels(row, pool, index, sizes), self.now);
            self.inventory.nodes.insert(id.clone(), seen);
            self.nodes.insert(id, node);
        }
    }
    fn gangs_on(&self, pool: &PoolName) -> bool {
        self.ground.pools.get(pool).is_some_and(|hardware| hardware.gangs)
    }
    /// Damage that was there before, in the proportions of the model fleet of 3,000 nodes: 30 cordoned by others, 5
    /// not ready, 3 with a GPU missing, 2 without a rail, 4 with labels set by hand.
    fn damage(&mut self) {
        let mut ids: Vec<(u64, NodeId)> =
            self.nodes.keys().map(|id| (self.ground.draw(id, "damage").bits(), id.clone())).collect();
        ids.sort();
        let size = ids.len();
        let mut ids = ids.into_iter().map(|(_, id)| id);
        // Rounded up, so that a small fleet knows each kind as well.
        let part = |of_3000: usize| (size * of_3000).div_ceil(3000);
        let since = self.now;
        for id in ids.by_ref().take(part(30)) {
            let by = "operations: disk replacement".to_owned();
            self.at(since, Happening::Cordon { node: id, by });
        }
        let mut each = |count: usize, damage: &dyn Fn(&mut NodeState)| {
            for id in ids.by_ref().take(count) {
                if let Some(node) = self.nodes.get_mut(&id) {
                    damage(node);
                }
            }
        };
        each(part(5), &|node| {
            node.ready = false;
            node.down = Some(Down { back: None, awake: false });
            node.pods = 0;
        });
        each(part(3), &|node| {
            node.faults.push(HealthFault { kind: "gpu-missing".to_owned(), since, recovery: None })
        });
        each(part(2), &|node| {
            node.faults.push(HealthFault { kind: "rail-missing".to_owned(), since, recovery: None })
        });
        each(part(4), &|node| {
            node.relabel.push(("example.com/set-by-hand".to_owned(), Some("true".to_owned())));
        });
    }
}

/// Number of the group of nodes that share a fabric.
fn zone(pool: &PoolSpec, index: u32, sizes: DomainSizes) -> u32 {
    if pool.domains.nvlink_domain.is_some() {
        index / sizes.nvlink_domain.max(1)
    } else if pool.domains.scalable_unit.is_some() {
        index / sizes.scalable_unit.max(1)
    } else {
        0
    }
}

/// The label that names a domain of a node, and the name; none where the pool's document says nothing of this kind.
fn domain<'p>(
    row: &str,
    pool: &'p PoolSpec,
    index: u32,
    sizes: DomainSizes,
    key: DomainKey,
) -> Option<(&'p str, String)> {
    let label = pool.domains.label(key)?;
    let (word, size) = match key {
        DomainKey::NvlinkDomain => ("nvl", sizes.nvlink_domain),
        DomainKey::ScalableUnit => ("su", sizes.scalable_unit),
        DomainKey::Rack => ("rack", sizes.rack),
        DomainKey::Rail => ("rail", sizes.scalable_unit),
    };
    Some((label, format!("{row}-{word}{}", index / size.max(1) + 1)))
}

fn labels(row: &str, pool: &PoolSpec, index: u32, sizes: DomainSizes) -> BTreeMap<String, String> {
    let mut labels = pool.labels.clone();
    for (label, name) in DomainKey::ALL.into_iter().filter_map(|key| domain(row, pool, index, sizes, key)) {
        labels.insert(label.to_owned(), name);
    }
    // Last, so that a label of the pool's own can't take a member out of its pool.
    labels.extend(pool.node_selector.clone());
    labels
}

impl Ground {
    /// A draw about the whole run.
    #[must_use]
    pub fn run_draw(&self, what: &str) -> Draw {
        Draw::new(self.seed).text(what)
    }
}
