//! What every pool should run, and what has to be changed on a node to get there.

use std::collections::BTreeMap;

use drydock_plan::{ApplyItem, ObservedNode, Target};
use drydock_spec::{
    ComponentClass, ComponentName, ComponentSpec, Delivery, Disruption, DriverSource, Fleet, PolicyName,
    PolicySpec, PoolName, PoolSpec, ReleaseVector, layout_id,
};

/// What a pool should run.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolTarget {
    /// Identity of it.
    pub target: Target,
    /// Version of each component.
    pub vector: ReleaseVector,
    /// The policy that moves the pool; absent when none selects it.
    pub policy: Option<PolicyName>,
    /// Its release is marked as security.
    pub security: bool,
}

/// What every pool should run, by pool.
#[must_use]
pub fn pool_targets(fleet: &Fleet) -> BTreeMap<PoolName, PoolTarget> {
    pool_views(fleet)
        .into_iter()
        .map(|p| {
            let PoolView { name, target, vector, policy, security, .. } = p;
            (name.clone(), PoolTarget { target, vector, policy: policy.map(|(n, _)| n.clone()), security })
        })
        .collect()
}

pub(crate) struct PoolView<'a> {
    pub name: &'a PoolName,
    pub spec: &'a PoolSpec,
    pub target: Target,
    pub vector: ReleaseVector,
    pub security: bool,
    pub policy: Option<(&'a PolicyName, &'a PolicySpec)>,
}

pub(crate) fn pool_views<'a>(fleet: &'a Fleet) -> Vec<PoolView<'a>> {
    let layouts: BTreeMap<_, _> = fleet.layouts.iter().map(|(name, l)| (name, layout_id(&l.spec))).collect();
    let releases: BTreeMap<_, _> = fleet
        .releases
        .iter()
        .map(|(name, r)| {
            let vector = r.spec.vector();
            (name, (vector.id(), vector, r.spec.security))
        })
        .collect();
    let view = |(name, pool): (&'a PoolName, &'a drydock_spec::Named<PoolSpec>)| {
        let (release, vector, security) = releases.get(&pool.spec.release)?.clone();
        let layout = pool.spec.layout.as_ref().and_then(|l| layouts.get(l).cloned());
        let policy = fleet.policies.iter().find(|(_, p)| p.spec.select.selects(fleet, name, &pool.spec));
        Some(PoolView {
            name,
            spec: &pool.spec,
            target: Target { release, layout },
            vector,
            security,
            policy: policy.map(|(n, p)| (n, &p.spec)),
        })
    };
    // The loader guarantees that references resolve; a pool whose release doesn't is left alone, never emptied.
    fleet.pools.iter().filter_map(view).collect()
}

/// Whether drydock applies this component on nodes of this pool, or only looks at it.
pub(crate) fn applies(pool: Option<&PoolSpec>, component: &ComponentSpec) -> bool {
    match component.delivery {
        Delivery::Observe {} => false,
        Delivery::Deployment(_)
        | Delivery::DaemonSet(_)
        | Delivery::NvidiaDriver(_)
        | Delivery::ClusterPolicy(_)
        | Delivery::Job(_)
        | Delivery::Label(_) => {
            component.class != ComponentClass::GpuDriver
                || pool.is_none_or(|p| p.driver_source == DriverSource::Managed)
        }
    }
}

/// What has to be changed on a node that runs `obs` to get to `target`, in the order of a visit: network driver, GPU
/// driver with fabric manager, container toolkit, device plugin, layout, the rest; what can't be taken back comes
/// last. Components that the target doesn't name are left alone.
pub(crate) fn needs(
    fleet: &Fleet,
    pool: Option<&PoolSpec>,
    obs: &ObservedNode,
    target: &Target,
    vector: &ReleaseVector,
) -> Vec<ApplyItem> {
    let mut wanted: Vec<(&ComponentName, &ComponentSpec)> = vector
        .0
        .iter()
        .filter(|(name, version)| obs.running.vector.0.get(*name) != Some(*version))
        .filter_map(|(name, _)| Some((name, &fleet.components.get(name)?.spec)))
        .filter(|(_, c)| applies(pool, c))
        .collect();
    wanted.sort_by_key(|(name, c)| (!c.reversible, c.class, *name));
    let mut items = Vec::with_capacity(wanted.len() + 1);
    let mut layout = target.layout.is_some() && obs.layout != target.layout;
    while !wanted.is_empty() {
        // The loader refuses cycles; should one slip through, the order of classes decides.
        let free = |c: &ComponentSpec| !c.after.iter().any(|a| wanted.iter().any(|(n, _)| *n == a));
        let at = wanted.iter().position(|(_, c)| free(c)).unwrap_or(0);
        let (name, spec) = wanted.remove(at);
        if layout && (spec.class > ComponentClass::PartitionManager || !spec.reversible) {
            items.push(ApplyItem::Layout);
            layout = false;
        }
        items.push(ApplyItem::Component(name.clone()));
    }
    if layout {
        items.push(ApplyItem::Layout);
    }
    items
}

/// How much an item disturbs the node. What the cluster has once doesn't: it runs elsewhere, and what runs on the node
/// doesn't notice.
pub(crate) fn disruption(fleet: &Fleet, item: &ApplyItem) -> Disruption {
    match item {
        ApplyItem::Layout => Disruption::Drain,
        ApplyItem::Component(name) => fleet.components.get(name).map_or(Disruption::Drain, |c| {
            if c.spec.delivery.is_per_cluster() { Disruption::None } else { c.spec.disruption }
        }),
    }
}

/// Whether an item can be taken back.
pub(crate) fn reversible(fleet: &Fleet, item: &ApplyItem) -> bool {
    match item {
        ApplyItem::Layout => true,
        ApplyItem::Component(name) => fleet.components.get(name).is_none_or(|c| c.spec.reversible),
    }
}
