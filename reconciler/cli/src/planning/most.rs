//! Upper bounds of what is away at once in a wave: from the largest batch and from every budget that touches it.

use std::collections::BTreeMap;

use drydock_plan::{Inventory, NodeId, RolloutRecord};
use drydock_spec::{BudgetSpec, BudgetUnit, DomainKey, Each, Fleet, Gangs};

use super::draft::{Members, count, gpus};

/// Size of a part of a budget's scope, and how much of it is in the wave.
#[derive(Default)]
struct Group {
    size: u32,
    inside: u32,
    largest_domain: u32,
}

/// Most nodes and most GPUs that can be away at once.
pub(super) fn away(
    fleet: &Fleet,
    record: &RolloutRecord,
    wave: usize,
    members: &Members<'_>,
    inventory: &Inventory,
) -> (u32, u32) {
    let mut weights: Vec<u32> = members.nodes.iter().map(|id| gpus(inventory, id)).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let smallest = weights.last().copied().unwrap_or(0).max(1);
    let mut nodes = count(weights.len());
    let mut total: u32 = weights.iter().sum();
    if let Some(batch) = batch(record, wave, count(members.nodes.len())) {
        nodes = nodes.min(batch);
    }
    for budget in fleet.budgets.values() {
        let Some(limit) = limit(fleet, budget, members, inventory) else { continue };
        match budget.unit {
            BudgetUnit::Nodes => nodes = nodes.min(limit),
            BudgetUnit::Gpus => {
                total = total.min(limit);
                nodes = nodes.min(limit / smallest);
            }
        }
    }
    let largest: u32 = weights.iter().take(usize::try_from(nodes).unwrap_or(usize::MAX)).sum();
    (nodes, total.min(largest))
}

/// Nodes of the largest batch; `None` where a unit may be more than a node, which batches don't see.
fn batch(record: &RolloutRecord, wave: usize, units: u32) -> Option<u32> {
    let units_are_nodes = record.strategy.atomic.is_empty() && record.strategy.drain.gangs != Gangs::Together;
    let batch = record.strategy.waves.get(wave)?.batch;
    units_are_nodes.then(|| batch.max.unwrap_or(batch.start).floor_of(units).max(1))
}

/// What a budget lets be away of the wave, in the budget's unit; `None` when it doesn't touch it.
fn limit(fleet: &Fleet, budget: &BudgetSpec, members: &Members<'_>, inventory: &Inventory) -> Option<u32> {
    if budget.reasons.as_ref().is_some_and(|r| !r.contains(&drydock_spec::Reason::Upgrade))
        || !budget.active.is_empty()
    {
        return None;
    }
    let weight = |id: &NodeId| match budget.unit {
        BudgetUnit::Nodes => 1,
        BudgetUnit::Gpus => gpus(inventory, id),
    };
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for id in inventory.nodes.keys() {
        let Some(key) = group(fleet, budget, id, inventory) else { continue };
        groups.entry(key).or_default().size += weight(id);
    }
    let mut touched = 0;
    for id in &members.nodes {
        let Some(key) = group(fleet, budget, id, inventory) else { continue };
        touched += 1;
        groups.entry(key).or_default().inside += weight(id);
    }
    if let Some(key) = budget.at_least_domain {
        for (group, size) in largest_domains(fleet, budget, key, inventory, &weight) {
            groups.entry(group).or_default().largest_domain = size;
        }
    }
    // Nodes of the wave that the budget doesn't cover aren't held by it.
    let free: u32 = members
        .nodes
        .iter()
        .filter(|id| group(fleet, budget, id, inventory).is_none())
        .map(|id| weight(id))
        .sum();
    let of_group = |Group { size, inside, largest_domain }: &Group| {
        let flight = budget.max_in_flight.map_or(u32::MAX, |max| {
            let least = if budget.at_least_one && !max.is_zero() { 1 } else { 0 };
            max.floor_of(*size).max(least).max(*largest_domain)
        });
        let floor = budget.min_available.map_or(u32::MAX, |min| size.saturating_sub(min.ceil_of(*size)));
        flight.min(floor).min(*inside)
    };
    (touched > 0).then(|| groups.values().map(of_group).sum::<u32>().saturating_add(free))
}

fn largest_domains(
    fleet: &Fleet,
    budget: &BudgetSpec,
    key: DomainKey,
    inventory: &Inventory,
    weight: &dyn Fn(&NodeId) -> u32,
) -> BTreeMap<String, u32> {
    let mut sizes: BTreeMap<(String, String), u32> = BTreeMap::new();
    for (id, node) in &inventory.nodes {
        if let (Some(group), Some(domain)) = (group(fleet, budget, id, inventory), node.domain(key)) {
            *sizes.entry((group, domain.to_string())).or_default() += weight(id);
        }
    }
    let mut largest: BTreeMap<String, u32> = BTreeMap::new();
    for ((group, _), size) in sizes {
        let entry = largest.entry(group).or_default();
        *entry = (*entry).max(size);
    }
    largest
}

/// The part of a budget's scope that a node is counted in; `None` when it isn't in the scope.
pub(super) fn group(
    fleet: &Fleet,
    budget: &BudgetSpec,
    id: &NodeId,
    inventory: &Inventory,
) -> Option<String> {
    let node = inventory.nodes.get(id)?;
    let name = node.pool.as_ref()?;
    let pool = fleet.pools.get(name)?;
    if !budget.scope.covers_pool(fleet, name, pool) {
        return None;
    }
    if let Some(domain) = &budget.scope.domain
        && node.domain(domain.key).map(|d| &**d) != Some(domain.value.as_str())
    {
        return None;
    }
    let domain = |key| node.domain(key).map(|domain| format!("{name}/{domain}"));
    match budget.each {
        None => Some(String::new()),
        Some(Each::Region) => fleet.clusters.get(&pool.cluster)?.region.clone(),
        Some(Each::Cluster) => Some(pool.cluster.to_string()),
        Some(Each::Pool) => Some(name.to_string()),
        Some(Each::Tenant) => pool.tenant.as_ref().map(ToString::to_string),
        Some(Each::NvlinkDomain) => domain(DomainKey::NvlinkDomain),
        Some(Each::ScalableUnit) => domain(DomainKey::ScalableUnit),
        Some(Each::Rack) => domain(DomainKey::Rack),
        Some(Each::Rail) => domain(DomainKey::Rail),
    }
}
