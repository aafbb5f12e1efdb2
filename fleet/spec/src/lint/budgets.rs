//! Budgets: limits under which something can still move.

use std::collections::BTreeMap;

use super::{Lint, Pool};
use crate::{
    document::Kind,
    kinds::{BudgetSpec, BudgetUnit, Each},
    rule::RuleId,
    text::Amount,
};

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, budget) in &fleet.budgets {
        let document = (Kind::Budget, name.as_str());
        let pools = lint.covered(&budget.scope);
        if pools.is_empty() && lint.is_complete() {
            let message = "its scope covers no pool".to_owned();
            lint.at(document, path!["scope"], RuleId::MatchesNothing, message, None);
        }
        let limits = ["minAvailable", "maxInFlight"];
        let unlimited = budget.min_available.is_none() && budget.max_in_flight.is_none();
        if unlimited && !limits.iter().any(|&field| lint.was_reported(document, path![field])) {
            let message = "it sets neither minAvailable nor maxInFlight, so it limits nothing".to_owned();
            lint.at(document, path![], RuleId::BudgetWithoutLimit, message, None);
        }
        if budget.max_in_flight.is_some_and(Amount::is_zero) {
            let message = "with none in flight nothing can ever move, not even back".to_owned();
            let hint = Some("to stop a rollout, write a RolloutControl with state: Pause".to_owned());
            lint.at(document, path!["maxInFlight"], RuleId::ZeroInFlight, message, hint);
        }
        let gated = floor(lint, document, budget, &pools) | rounding(lint, document, budget, &pools);
        if !gated {
            room(lint, document, budget, &pools);
        }
        unit(lint, document, budget, &pools);
        domains(lint, document, budget, &pools);
    }
    for (name, cost) in &fleet.costs {
        if lint.covered(&cost.scope).is_empty() && lint.is_complete() {
            let message = "its scope covers no pool".to_owned();
            lint.at((Kind::CostBudget, name.as_str()), path!["scope"], RuleId::MatchesNothing, message, None);
        }
    }
}

/// Sizes of what the budget counts over, in its unit, one for each of `each`: the total, and the weight of the
/// lightest node. `None` where the size isn't written anywhere.
fn sizes(
    budget: &BudgetSpec,
    pools: &[Pool<'_>],
    bound: fn(&Pool<'_>) -> Option<u32>,
) -> Vec<(Option<u32>, u32)> {
    let mut groups: BTreeMap<String, (Option<u32>, u32)> = BTreeMap::new();
    for pool in pools {
        let (name, spec) = pool;
        let key = match budget.each {
            None | Some(Each::Region) => String::new(),
            Some(Each::Cluster) => spec.cluster.to_string(),
            Some(Each::Pool) => name.to_string(),
            Some(Each::Tenant) => spec.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            // How many nodes a domain has stands in no document.
            Some(Each::NvlinkDomain | Each::ScalableUnit | Each::Rack | Each::Rail) => return Vec::new(),
        };
        let weight = match budget.unit {
            BudgetUnit::Nodes => 1,
            BudgetUnit::Gpus => spec.gpu.count,
        };
        let nodes = bound(pool);
        let size = nodes.map(|n| n.saturating_mul(weight));
        groups
            .entry(key)
            .and_modify(|(total, least)| {
                *total = total.and_then(|t| Some(t.saturating_add(size?)));
                *least = (*least).min(weight);
            })
            .or_insert((size, weight));
    }
    groups.into_values().collect()
}

/// A floor that no node can be taken from.
fn floor(lint: &mut Lint<'_, '_>, document: Document<'_>, budget: &BudgetSpec, pools: &[Pool<'_>]) -> bool {
    let Some(floor) = budget.min_available else { return false };
    let hint = || Some("leave room for at least one node".to_owned());
    if floor == Amount::Percent(10_000) {
        let message = "a floor of 100% lets nothing move".to_owned();
        lint.at(document, path!["minAvailable"], RuleId::GatesEverything, message, hint());
        return true;
    }
    let Amount::Count(floor) = floor else { return false };
    let sizes = sizes(budget, pools, |(_, pool)| pool.nodes.max);
    let largest = sizes.iter().map(|(size, _)| *size).try_fold(0, |most, size| Some(u32::max(most, size?)));
    let Some(largest) = largest.filter(|&n| n > 0 && floor >= n) else { return false };
    let message = format!("of at most {largest}, {floor} have to stay: nothing can move");
    lint.at(document, path!["minAvailable"], RuleId::GatesEverything, message, hint());
    true
}

/// A percentage that rounds to nothing wherever the size is known.
fn rounding(
    lint: &mut Lint<'_, '_>,
    document: Document<'_>,
    budget: &BudgetSpec,
    pools: &[Pool<'_>],
) -> bool {
    let Some(Amount::Percent(percent @ 1..)) = budget.max_in_flight else { return false };
    if budget.at_least_one || budget.at_least_domain.is_some() {
        return false;
    }
    let known: Vec<(u32, u32)> = sizes(budget, pools, |(_, pool)| pool.nodes.min)
        .into_iter()
        .filter_map(|(size, least)| size.filter(|&n| n > 0).map(|n| (n, least)))
        .collect();
    let amount = Amount::Percent(percent);
    let nothing = |&(size, least): &(u32, u32)| amount.floor_of(size) < least.max(1);
    if let Some(&(size, least)) = known.iter().max()
        && known.iter().all(nothing)
    {
        let allowed = amount.floor_of(size);
        let message = match budget.unit {
            BudgetUnit::Nodes => format!("{amount} of {size} nodes is {allowed}: nothing can move"),
            BudgetUnit::Gpus => {
                format!("{amount} of {size} GPUs is {allowed}, and a node has {least}: nothing can move")
            }
        };
        let hint = Some("raise it, or say atLeastOne: true".to_owned());
        lint.at(document, path!["maxInFlight"], RuleId::RoundsToNothing, message, hint);
        return true;
    }
    false
}

/// Pools of which no node can ever go, however many of their nodes there are: the largest size that the documents allow
/// decides. Others that the budget covers may move all the same, so nobody would notice.
fn room(lint: &mut Lint<'_, '_>, document: Document<'_>, budget: &BudgetSpec, pools: &[Pool<'_>]) {
    let groups = groups(lint, budget, pools);
    let weigh = |pool: &Pool<'_>| match budget.unit {
        BudgetUnit::Nodes => 1,
        BudgetUnit::Gpus => pool.1.gpu.count,
    };
    let unit = match budget.unit {
        BudgetUnit::Nodes => "nodes",
        BudgetUnit::Gpus => "GPUs",
    };
    let exempt = budget.at_least_one || budget.at_least_domain.is_some();
    for group in groups {
        let total = group
            .iter()
            .map(|pool| Some(pool.1.nodes.max?.saturating_mul(weigh(pool))))
            .try_fold(0u32, |sum, size| Some(sum.saturating_add(size?)))
            .filter(|&total| total > 0);
        for pool in group {
            let (name, weight) = (pool.0, weigh(pool));
            let allowed = match (budget.max_in_flight, total) {
                (Some(Amount::Count(n)), _) => Some((n, n.to_string())),
                (Some(percent @ Amount::Percent(1..)), Some(total)) if !exempt => {
                    let n = percent.floor_of(total);
                    Some((n, format!("{percent} of at most {total} {unit} is {n}, and that")))
                }
                (Some(Amount::Percent(_)), _) | (None, _) => None,
            };
            let hint = || Some("raise it, or say atLeastOne: true".to_owned());
            if let Some((_, text)) =
                allowed.filter(|&(n, _)| n > 0 && n < weight || n == 0 && total.is_some())
            {
                let message =
                    format!("{text} is less than a node of pool `{name}` ({weight} {unit}): it never moves");
                lint.at(document, path!["maxInFlight"], RuleId::SmallerThanANode, message, hint());
                return;
            }
            if let (Some(floor), Some(total)) = (budget.min_available, total)
                && floor.ceil_of(total).saturating_add(weight) > total
            {
                let floor = floor.ceil_of(total);
                let message = format!(
                    "{floor} of at most {total} {unit} have to stay, so no node of pool `{name}` ({weight} {unit}) can \
                     ever go"
                );
                let hint = Some("leave room for at least one node".to_owned());
                lint.at(document, path!["minAvailable"], RuleId::SmallerThanANode, message, hint);
                return;
            }
        }
    }
}

/// The pools that the budget counts together: one group for each value of `each`. None for domains, whose members stand
/// in no document.
fn groups<'p, 'r>(lint: &Lint<'_, '_>, budget: &BudgetSpec, pools: &'p [Pool<'r>]) -> Vec<Vec<&'p Pool<'r>>> {
    let region = |pool: &Pool<'_>| {
        let cluster = lint.fleet().clusters.get(&pool.1.cluster);
        cluster.and_then(|c| c.region.clone()).unwrap_or_default()
    };
    let mut groups: BTreeMap<String, Vec<&Pool<'_>>> = BTreeMap::new();
    for pool in pools {
        let key = match budget.each {
            None => String::new(),
            Some(Each::Region) => region(pool),
            Some(Each::Cluster) => pool.1.cluster.to_string(),
            Some(Each::Pool) => pool.0.to_string(),
            Some(Each::Tenant) => pool.1.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            Some(Each::NvlinkDomain | Each::ScalableUnit | Each::Rack | Each::Rail) => return Vec::new(),
        };
        groups.entry(key).or_default().push(pool);
    }
    groups.into_values().collect()
}

/// Domains that move together under a budget with room for one node.
fn unit(lint: &mut Lint<'_, '_>, document: Document<'_>, budget: &BudgetSpec, pools: &[Pool<'_>]) {
    let Some(Amount::Count(most @ 1..)) = budget.max_in_flight else { return };
    let fleet = lint.fleet();
    for (name, policy) in &fleet.policies {
        for &key in &policy.atomic {
            if budget.at_least_domain == Some(key) {
                continue;
            }
            let narrow = pools.iter().find(|(pool, spec)| {
                let weight = match budget.unit {
                    BudgetUnit::Nodes => 1,
                    BudgetUnit::Gpus => spec.gpu.count,
                };
                // Less than two nodes: whatever a domain is, it is more than this.
                policy.select.selects(fleet, pool, spec)
                    && spec.domains.label(key).is_some()
                    && most < weight.saturating_mul(2)
            });
            if let Some((pool, _)) = narrow {
                let message = format!(
                    "policy `{name}` moves each {} of pool `{pool}` as one, and there is room for one node only",
                    key.as_str()
                );
                let hint =
                    Some(format!("say atLeastDomain: {}, or raise it to a whole domain", key.as_str()));
                lint.at(document, path!["maxInFlight"], RuleId::SmallerThanAUnit, message, hint);
                return;
            }
        }
    }
}

fn domains(lint: &mut Lint<'_, '_>, document: Document<'_>, budget: &BudgetSpec, pools: &[Pool<'_>]) {
    use crate::kinds::DomainKey;
    let each = match budget.each {
        Some(Each::NvlinkDomain) => Some(DomainKey::NvlinkDomain),
        Some(Each::ScalableUnit) => Some(DomainKey::ScalableUnit),
        Some(Each::Rack) => Some(DomainKey::Rack),
        Some(Each::Rail) => Some(DomainKey::Rail),
        None | Some(Each::Region | Each::Cluster | Each::Pool | Each::Tenant) => None,
    };
    let scope = budget.scope.domain.as_ref().map(|d| d.key);
    for (field, key) in [("each", each), ("atLeastDomain", budget.at_least_domain), ("scope", scope)] {
        let Some(key) = key else { continue };
        let without: Vec<&str> =
            pools.iter().filter(|(_, p)| p.domains.label(key).is_none()).map(|(n, _)| n.as_str()).collect();
        if !without.is_empty() {
            let message = format!("no label names the {} of nodes in {}", key.as_str(), super::list(without));
            let hint = Some(format!("set domains.{} of the pool", key.as_str()));
            lint.at(document, path![field], RuleId::LabelWithoutDomain, message, hint);
        }
    }
}
