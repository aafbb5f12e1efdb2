//! The model fleet: options that make a realistic world of the example documents, and larger copies of documents.

use std::collections::BTreeSet;

use drydock_spec::{ClusterName, ComponentName, Fleet, Glob, Period, PoolName, PoolSelector, Scope, Version};

use crate::{FaultSpec, Workload, WorldOptions};

/// Sizes of the model fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelSize {
    /// 184 nodes in 2 clusters, for a laptop.
    S,
    /// 3,000 nodes in 12 clusters.
    L,
    /// 30,000 nodes in 120 clusters.
    Xl,
}

/// Spontaneous faults per GPU and day: 419 unplanned interruptions of 16,384 GPUs in 54 days, as published for the
/// training of Llama 3.
pub const FAULTS_PER_GPU_DAY: f64 = 4.7e-4;

impl ModelSize {
    /// Copies of the documents of L (or S) that make this size.
    #[must_use]
    pub const fn copies(self) -> u32 {
        match self {
            Self::S | Self::L => 1,
            Self::Xl => 10,
        }
    }
}

/// A world as it is found on a usual day: work on all nodes, damage that was there before, hardware that fails. Where
/// a pool of `c06` is named in the documents, its drivers are compiled and its nodes have two kernels.
#[must_use]
pub fn model_options(size: ModelSize, fleet: &Fleet) -> WorldOptions {
    let mut options = WorldOptions {
        damage: true,
        workload: Some(Workload::default()),
        faults: vec![FaultSpec::Spontaneous { per_gpu_day: FAULTS_PER_GPU_DAY }],
        ..WorldOptions::default()
    };
    for (name, pool) in &fleet.pools {
        if pool.cluster.as_str().starts_with("c06") {
            options.compiled.insert(name.clone());
            let kernels = ["6.8.0-79-generic", "6.8.0-85-generic"].map(str::to_owned);
            options.kernels.insert(name.clone(), kernels.to_vec());
        }
    }
    let lonely = match size {
        ModelSize::S => None,
        // One cluster can't be reached for twenty minutes, half an hour after the beginning.
        ModelSize::L | ModelSize::Xl => fleet.clusters.keys().find(|name| name.as_str().starts_with("c03")),
    };
    options.faults.extend(lonely.map(|cluster| FaultSpec::ClusterUnreachable {
        cluster: cluster.clone(),
        at: Period::from_mins(30).after(options.start),
        length: Period::from_mins(20),
    }));
    options
}

/// Another version of a component in every release that carries it: a commit to roll out.
#[must_use]
pub fn with_version(fleet: &Fleet, component: &ComponentName, version: &str) -> Fleet {
    let mut next = fleet.clone();
    for release in next.releases.values_mut() {
        if let Some(entry) = release.spec.components.get_mut(component) {
            entry.version = Version::new(version);
            entry.digest = None;
        }
    }
    next
}

/// The same documents with `times` copies of every cluster and pool. Copies are named `NAME-x2`, `NAME-x3`, …;
/// whatever selects a cluster or a pool selects its copies as well, and budgets of one cluster are copied with it.
#[must_use]
pub fn scale(fleet: &Fleet, times: u32) -> Fleet {
    let mut next = fleet.clone();
    for copy in 2..=times {
        for (name, cluster) in &fleet.clusters {
            if let Some(name) = suffixed::<ClusterName>(name.as_str(), copy) {
                next.clusters.insert(name, cluster.clone());
            }
        }
        for (name, pool) in &fleet.pools {
            let cluster = suffixed::<ClusterName>(pool.cluster.as_str(), copy);
            if let Some((name, cluster)) = suffixed::<PoolName>(name.as_str(), copy).zip(cluster) {
                let mut pool = pool.clone();
                pool.spec.cluster = cluster;
                next.pools.insert(name, pool);
            }
        }
        for (name, budget) in &fleet.budgets {
            let cluster = budget.scope.cluster.as_ref().and_then(|c| suffixed(c.as_str(), copy));
            if let Some((name, cluster)) = suffixed(name.as_str(), copy).zip(cluster) {
                let mut budget = budget.clone();
                budget.spec.scope.cluster = Some(cluster);
                next.budgets.insert(name, budget);
            }
        }
        for calendar in next.calendars.values_mut() {
            let copied = |scope: &Scope| {
                let cluster = scope.cluster.as_ref().filter(|c| !is_copy(c.as_str()))?;
                Some(Scope { cluster: suffixed(cluster.as_str(), copy), ..scope.clone() })
            };
            let windows = calendar.spec.windows.clone();
            calendar.spec.windows.extend(windows.into_iter().filter_map(|mut window| {
                window.scope = copied(&window.scope)?;
                Some(window)
            }));
            let freezes = calendar.spec.freezes.clone();
            calendar.spec.freezes.extend(freezes.into_iter().filter_map(|mut freeze| {
                freeze.scope = copied(&freeze.scope)?;
                Some(freeze)
            }));
        }
    }
    let budgets = next.budgets.values_mut().map(|budget| &mut budget.spec.scope.pools);
    let windows = next.calendars.values_mut().flat_map(|calendar| {
        let calendar = &mut calendar.spec;
        let windows = calendar.windows.iter_mut().map(|window| &mut window.scope.pools);
        windows.chain(calendar.freezes.iter_mut().map(|freeze| &mut freeze.scope.pools))
    });
    budgets.chain(windows).for_each(|globs| widen(globs, times));
    for policy in next.policies.values_mut() {
        let policy = &mut policy.spec;
        let selectors =
            std::iter::once(&mut policy.select).chain(policy.waves.iter_mut().map(|w| &mut w.select));
        for PoolSelector { pools, clusters, .. } in selectors {
            widen(pools, times);
            let copies = clusters.iter().flat_map(|c| (2..=times).filter_map(|n| suffixed(c.as_str(), n)));
            let copies: BTreeSet<ClusterName> = copies.collect();
            clusters.extend(copies);
        }
    }
    next
}

fn suffixed<N: std::str::FromStr>(name: &str, copy: u32) -> Option<N> {
    format!("{name}-x{copy}").parse().ok()
}

/// The name of a copy, as [`suffixed`] makes it.
fn is_copy(name: &str) -> bool {
    name.rsplit_once("-x").is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

/// Lets patterns match the copies of what they match.
fn widen(globs: &mut Vec<Glob>, times: u32) {
    if times > 1 {
        let more: Vec<Glob> = globs
            .iter()
            .filter(|glob| !glob.as_str().ends_with('*'))
            .map(|glob| Glob::new(&format!("{}-x*", glob.as_str())))
            .collect();
        globs.extend(more);
    }
}
