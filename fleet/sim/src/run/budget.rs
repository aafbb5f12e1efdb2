//! Budgets once more, counted from the documents in the plainest way: what is reserved and what is broken, right after
//! a plan, for every budget that a new reservation touches.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Ledger, NodeId, ObservedNode, ReleaseId, RolloutKind};
use drydock_planner::Input;
use drydock_spec::{
    BudgetSpec, BudgetUnit, ComponentClass, Delivery, DomainKey, DriverSource, Each, PoolSpec, Reason, Window,
};
use jiff::{Timestamp, ToSpan, civil::Time, tz::TimeZone};

/// One count.
#[derive(Default)]
struct Count<'a> {
    size: u32,
    reserved: u32,
    away: u32,
    broken: u32,
    domains: BTreeSet<Option<&'a str>>,
    new: Vec<&'a NodeId>,
    takes: bool,
    boost: u32,
}

/// What the documents forbid and `after` has done.
pub(super) fn violations(input: &Input<'_>, after: &Ledger) -> Vec<String> {
    let new: BTreeSet<&NodeId> = after
        .nodes
        .iter()
        .filter(|(id, node)| {
            node.visit.is_some() && input.ledger.nodes.get(*id).is_none_or(|old| old.visit.is_none())
        })
        .map(|(id, _)| id)
        .collect();
    if new.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (name, budget) in &input.fleet.budgets {
        if !budget.active.is_empty() && !budget.active.iter().any(|window| inside(window, input.now)) {
            continue;
        }
        for (each, count) in counts(input, after, budget, &new) {
            let mut wrong = |what: String| {
                found.push(format!(
                    "budget {name} {}: {what}; {:?} were reserved",
                    each.join("/"),
                    count.new
                ));
            };
            if let Some(max) = budget.max_in_flight {
                let limit = max.floor_of(count.size).max(least(input, budget)).saturating_add(count.boost);
                let one_domain = budget.at_least_domain.is_some()
                    && count.domains.len() == 1
                    && !count.domains.contains(&None);
                if count.reserved > limit && !one_domain {
                    wrong(format!("{} of {limit} in flight", count.reserved));
                }
            }
            if let Some(min) = budget.min_available.filter(|_| count.takes) {
                let allowance = budget.broken_allowance.0.floor_of(count.size);
                let left = (count.size + count.broken.min(allowance)).saturating_sub(count.away);
                if left < min.ceil_of(count.size) {
                    wrong(format!(
                        "{left} of {} left, at least {} must be",
                        count.size,
                        min.ceil_of(count.size)
                    ));
                }
            }
        }
    }
    found
}

/// What a percentage that rounds to nothing lets go when the document says "at least one".
fn least(input: &Input<'_>, budget: &BudgetSpec) -> u32 {
    match (budget.at_least_one && budget.max_in_flight.is_some_and(|max| !max.is_zero()), budget.unit) {
        (false, _) => 0,
        (true, BudgetUnit::Nodes) => 1,
        (true, BudgetUnit::Gpus) => input.fleet.pools.values().map(|pool| pool.gpu.count).max().unwrap_or(0),
    }
}

/// The counts of a budget that a new reservation restricts.
fn counts<'a>(
    input: &Input<'a>,
    after: &'a Ledger,
    budget: &BudgetSpec,
    new: &BTreeSet<&'a NodeId>,
) -> BTreeMap<Vec<String>, Count<'a>> {
    let mut counts: BTreeMap<Vec<String>, Count<'a>> = BTreeMap::new();
    for (id, seen) in &input.inventory.nodes {
        let Some((pool_name, pool)) = seen.pool.as_ref().and_then(|p| input.fleet.pools.get_key_value(p))
        else {
            continue;
        };
        let scope = &budget.scope;
        let in_domain =
            scope.domain.as_ref().is_none_or(|d| seen.domain(d.key).is_some_and(|v| **v == *d.value));
        if !scope.covers_pool(input.fleet, pool_name, pool) || !in_domain {
            continue;
        }
        let Some(key) = key(input, budget.each, id, seen, pool) else { continue };
        let count = counts.entry(key).or_default();
        let weight = match budget.unit {
            BudgetUnit::Nodes => 1,
            BudgetUnit::Gpus => pool.gpu.count,
        };
        let record = after.nodes.get(id);
        let visit = record.and_then(|record| record.visit.as_ref());
        let broken =
            !seen.ready || seen.cordon.foreign.is_some() || record.is_some_and(|r| r.quarantine.is_some());
        count.size += weight;
        count.broken += if broken { weight } else { 0 };
        count.away += if broken { weight } else { 0 };
        let Some(visit) = visit else { continue };
        let rollout = after.rollouts.get(&visit.rollout);
        let back = rollout.is_some_and(|r| matches!(r.kind, RolloutKind::Rollback { .. }));
        let reason = match (
            back,
            seen.layout != visit.to.layout && has_release(input, after, seen, pool, &visit.to.release),
        ) {
            (true, _) => Reason::Rollback,
            (false, true) => Reason::Repartition,
            (false, false) => Reason::Upgrade,
        };
        let restricts = back || budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
        if new.contains(id) && !restricts {
            // None of this budget's business, and what is may have come first.
            continue;
        }
        count.reserved += weight;
        count.away += if broken { 0 } else { weight };
        count.domains.insert(budget.at_least_domain.and_then(|key| seen.domain(key)).map(|domain| &**domain));
        if new.contains(id) && restricts {
            count.new.push(id);
            // Broken already, or sick from its upgrade: it takes nothing away that was there.
            count.takes |= !broken && seen.faults.is_empty();
            let boost = rollout.filter(|_| back).map_or(0, |r| r.strategy.rollback.budget_boost);
            count.boost = count.boost.max(boost.saturating_mul(weight));
        }
    }
    counts.retain(|_, count| !count.new.is_empty());
    counts
}

/// Whether nothing but the layout changes: every component of the release that drydock moves on the node is there. Ids
/// aren't compared, since a release may name what lives in the cluster.
fn has_release(
    input: &Input<'_>,
    after: &Ledger,
    seen: &ObservedNode,
    pool: &PoolSpec,
    release: &ReleaseId,
) -> bool {
    let Some(wanted) = after.releases.get(release) else { return false };
    wanted.0.iter().all(|(name, version)| {
        let Some(component) = input.fleet.components.get(name) else { return true };
        let elsewhere = matches!(component.delivery, Delivery::Deployment(_) | Delivery::Observe {})
            || (component.class == ComponentClass::GpuDriver && pool.driver_source != DriverSource::Managed);
        elsewhere || seen.running.vector.get(name) == Some(version)
    })
}

/// The value of `each` a node is counted under; `None` where it has none.
fn key(
    input: &Input<'_>,
    each: Option<Each>,
    id: &NodeId,
    seen: &ObservedNode,
    pool: &PoolSpec,
) -> Option<Vec<String>> {
    let domain = |key: DomainKey| {
        // Names of domains repeat between pools.
        let pool = seen.pool.as_ref()?;
        Some(vec![pool.to_string(), seen.domain(key)?.to_string()])
    };
    match each {
        None => Some(Vec::new()),
        Some(Each::Region) => {
            input.fleet.clusters.get(&pool.cluster)?.region.clone().map(|region| vec![region])
        }
        Some(Each::Cluster) => Some(vec![id.cluster().to_owned()]),
        Some(Each::Pool) => seen.pool.as_ref().map(|pool| vec![pool.to_string()]),
        Some(Each::Tenant) => pool.tenant.as_ref().map(|tenant| vec![tenant.to_string()]),
        Some(Each::NvlinkDomain) => domain(DomainKey::NvlinkDomain),
        Some(Each::ScalableUnit) => domain(DomainKey::ScalableUnit),
        Some(Each::Rack) => domain(DomainKey::Rack),
        Some(Each::Rail) => domain(DomainKey::Rail),
    }
}

/// Whether an instant lies in a window, by trying every start of the last ten days. A window that can't be read
/// counts as active.
fn inside(window: &Window, now: Timestamp) -> bool {
    let (Ok(zone), Ok(from)) = (TimeZone::get(&window.time_zone), window.from.parse::<Time>()) else {
        return true;
    };
    let today = now.to_zoned(zone.clone()).date();
    (-1..=10).any(|back: i64| {
        let Ok(day) = today.checked_sub(back.days()) else { return false };
        let word = format!("{:?}", day.weekday());
        let starts = window.days.is_empty()
            || window.days.iter().any(|wanted| word.starts_with(&format!("{wanted:?}")));
        let Ok(start) = day.to_datetime(from).to_zoned(zone.clone()) else { return false };
        let start = start.timestamp();
        starts && start <= now && now < window.length.after(start)
    })
}

#[cfg(test)]
#[path = "../../tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use drydock_plan::NodeRecord;

    use super::{common, *};
    use crate::{FaultSpec, World, WorldOptions};

    /// A reservation as the planner writes it.
    fn reserved() -> NodeRecord {
        let once = crate::RunOptions { passes_max: 1, ..crate::RunOptions::default() };
        let ledger = common::upgrade(&WorldOptions::default(), once).ledger;
        ledger.nodes.into_values().find(|record| record.visit.is_some()).unwrap()
    }

    /// Nodes that are reserved in one plan, faults, and what is said about it.
    fn judge(nodes: &[&str], faults: &str) -> Vec<String> {
        let fleet = common::fleet("new");
        let faults = FaultSpec::list(faults).unwrap();
        let world = World::from_fleet(&fleet, &WorldOptions { faults, ..WorldOptions::default() });
        let (before, mut after) = (Ledger::default(), Ledger::default());
        let record = reserved();
        after.nodes.extend(nodes.iter().map(|id| (common::node(id), record.clone())));
        let commit = common::commit(world.now(), "new").commit;
        let input = Input {
            fleet: &fleet,
            commit: &commit,
            inventory: world.inventory(),
            ledger: &before,
            now: world.now(),
        };
        violations(&input, &after)
    }

    #[test]
    fn what_is_in_flight_is_counted_in_the_budgets_unit() {
        let four = ["c1/train-000", "c1/train-001", "c1/train-002", "c1/train-003"];
        assert_eq!(judge(&four, ""), Vec::<String>::new());
        let five = [&four[..], &["c1/train-004"]].concat();
        assert_eq!(judge(&five, "").len(), 2, "five of four, and fewer than half are left");
        assert_eq!(judge(&["c2/infer-000", "c2/infer-001"], ""), Vec::<String>::new());
        assert_eq!(judge(&["c2/infer-000", "c2/infer-001", "c2/infer-002"], "").len(), 1, "12 of 8 GPUs");
    }

    #[test]
    fn broken_nodes_take_from_the_floor_and_cost_nothing_themselves() {
        let cordons = "
- foreignCordon: {node: c1/train-005, at: \"2026-03-02T09:00:00Z\"}
- foreignCordon: {node: c1/train-006, at: \"2026-03-02T09:00:00Z\"}
- foreignCordon: {node: c1/train-007, at: \"2026-03-02T09:00:00Z\"}";
        assert_eq!(
            judge(&["c1/train-000"], cordons),
            Vec::<String>::new(),
            "4 of 8 are left, half is the floor"
        );
        assert_eq!(judge(&["c1/train-000", "c1/train-001"], cordons).len(), 1);
        assert_eq!(judge(&["c1/train-005", "c1/train-006"], cordons), Vec::<String>::new());
    }

    #[test]
    fn windows_are_found_over_midnight() {
        let window: Window = serde_json::from_value(serde_json::json!(
            {"days": ["fri"], "from": "22:00", "for": "6h", "timeZone": "Europe/Berlin"}
        ))
        .unwrap();
        let at = |text: &str| text.parse().unwrap();
        assert!(inside(&window, at("2026-03-07T00:00:00Z")), "Saturday 01:00 in Berlin");
        assert!(!inside(&window, at("2026-03-06T00:00:00Z")), "Friday 01:00 in Berlin");
        assert!(!inside(&window, at("2026-03-07T03:00:00Z")), "the end is outside");
    }
}
