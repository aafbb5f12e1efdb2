//! Budgets once more, counted from the documents in the plainest way: what is reserved and what is broken, right after
//! a plan, for every budget that a new reservation touches.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Ledger, NodeId, NodeRecord, ObservedNode, ReleaseId, RolloutKind};
use drydock_planner::Input;
use drydock_spec::{
    BudgetSpec, BudgetUnit, ComponentClass, Delivery, DomainKey, DriverSource, Each, PoolName, PoolSpec,
    Reason, Scope, Window,
};
use jiff::{Timestamp, ToSpan, civil::Time, tz::TimeZone};

/// One count.
#[derive(Default)]
struct Count<'a> {
    size: u32,
    reserved: u32,
    away: u32,
    broken: u32,
    domains: BTreeSet<Option<(&'a str, &'a str)>>,
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

/// One node as budgets count it: what is seen of it, what is written of it, and where it stands.
struct Subject<'a> {
    id: &'a NodeId,
    seen: Option<&'a ObservedNode>,
    record: Option<&'a NodeRecord>,
    pool: Option<(&'a PoolName, &'a PoolSpec)>,
}

impl<'a> Subject<'a> {
    fn domain(&self, key: DomainKey) -> Option<&'a str> {
        let written = || self.record?.place.as_ref()?.domains.get(&key).map(String::as_str);
        match self.seen {
            Some(seen) if seen.pool.is_some() => seen.domain(key).map(|name| &**name),
            Some(seen) => seen.domain(key).map(|name| &**name).or_else(written),
            None => written(),
        }
    }
    fn gpus(&self) -> u32 {
        let written = self.record.and_then(|r| r.place.as_ref()).map_or(0, |place| place.gpus);
        self.pool
            .map_or_else(|| written.max(self.seen.map_or(0, |seen| seen.gpus)), |(_, pool)| pool.gpu.count)
    }
}

/// Everything that counts: what is seen, and what the ledger speaks of and nobody sees.
fn subjects<'a>(input: &Input<'a>, after: &'a Ledger) -> Vec<Subject<'a>> {
    let ids: BTreeSet<&NodeId> = input.inventory.nodes.keys().chain(after.nodes.keys()).collect();
    let subject = |id: &'a NodeId| {
        let (seen, record) = (input.inventory.nodes.get(id), after.nodes.get(id));
        let part = record.and_then(|r| r.assignment.as_ref()).map(|a| &a.pool);
        let written = part.or_else(|| record?.place.as_ref()?.pool.as_ref());
        let name = match seen {
            None => written,
            Some(seen) => {
                let kept = written.filter(|name| seen.contested.contains(name));
                kept.or(seen.pool.as_ref()).or(part)
            }
        };
        let pool = name.and_then(|name| input.fleet.pools.get_key_value(name));
        Subject { id, seen, record, pool: pool.map(|(name, pool)| (name, &pool.spec)) }
    };
    ids.into_iter()
        .map(subject)
        .filter(|s| s.pool.is_some() || s.record.is_some_and(|r| r.visit.is_some()))
        .collect()
}

/// Whether a scope is about it: each thing that it names has to be so.
fn inside_scope(input: &Input<'_>, scope: &Scope, node: &Subject<'_>) -> bool {
    let cluster = input.fleet.clusters.iter().find(|(name, _)| name.as_str() == node.id.cluster());
    let cluster = cluster.map(|(_, c)| &c.spec);
    let mut demands = Vec::new();
    demands.extend(scope.cluster.as_ref().map(|name| name.as_str() == node.id.cluster()));
    demands.extend(
        scope.region.as_ref().map(|region| cluster.is_some_and(|c| c.region.as_ref() == Some(region))),
    );
    demands.extend(
        scope
            .environment
            .as_ref()
            .map(|environment| cluster.is_some_and(|c| c.environment.as_ref() == Some(environment))),
    );
    for (key, value) in &scope.cluster_labels {
        demands.push(cluster.is_some_and(|c| c.labels.get(key) == Some(value)));
    }
    if !scope.pools.is_empty() {
        demands.push(node.pool.is_some_and(|(name, _)| scope.pools.iter().any(|p| p.matches(name.as_str()))));
    }
    demands.extend(
        scope
            .tenant
            .as_ref()
            .map(|tenant| node.pool.is_some_and(|(_, pool)| pool.tenant.as_ref() == Some(tenant))),
    );
    demands.extend(scope.domain.as_ref().map(|d| node.domain(d.key) == Some(d.value.as_str())));
    !demands.contains(&false)
}

/// The counts of a budget that a new reservation restricts.
fn counts<'a>(
    input: &Input<'a>,
    after: &'a Ledger,
    budget: &BudgetSpec,
    new: &BTreeSet<&'a NodeId>,
) -> BTreeMap<Vec<String>, Count<'a>> {
    let mut counts: BTreeMap<Vec<String>, Count<'a>> = BTreeMap::new();
    let mut known: BTreeMap<&PoolName, u32> = BTreeMap::new();
    for node in subjects(input, after) {
        if let Some((name, _)) = node.pool {
            *known.entry(name).or_default() += 1;
        }
        if !inside_scope(input, &budget.scope, &node) {
            continue;
        }
        let Some(key) = key(input, budget.each, &node) else { continue };
        let count = counts.entry(key).or_default();
        let (id, record) = (node.id, node.record);
        let weight = match budget.unit {
            BudgetUnit::Nodes => 1,
            BudgetUnit::Gpus => node.gpus(),
        };
        let visit = record.and_then(|record| record.visit.as_ref());
        let held = |v: &drydock_plan::Visit| v.quarantined.is_some();
        let broken = node.seen.is_none_or(|seen| {
            !seen.ready
                || seen.cordon.foreign.is_some()
                // Codes of a workload that the device plugin passes over take nothing away; anything else does.
                || seen.faults.iter().any(|fault| {
                    !matches!(fault.kind.as_str(), "xid-13" | "xid-31" | "xid-43" | "xid-45" | "xid-68")
                })
        }) || record
            .is_some_and(|r| r.quarantine.is_some() || r.visit.as_ref().is_some_and(held));
        count.size += weight;
        count.broken += if broken { weight } else { 0 };
        count.away += if broken { weight } else { 0 };
        let Some(visit) = visit else { continue };
        let rollout = after.rollouts.get(&visit.rollout);
        let back = rollout.is_some_and(|r| matches!(r.kind, RolloutKind::Rollback { .. }));
        let only_cut = node.seen.zip(node.pool).is_some_and(|(seen, (_, pool))| {
            seen.layout != visit.to.layout && has_release(input, after, seen, pool, &visit.to.release)
        });
        let reason = match (back, only_cut) {
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
        count.domains.insert(
            budget.at_least_domain.and_then(|key| node.domain(key)).map(|domain| (node.id.cluster(), domain)),
        );
        if new.contains(id) && restricts {
            count.new.push(id);
            // Broken already, or sick from its upgrade: it takes nothing away that was there.
            count.takes |= !broken && node.seen.is_some_and(|seen| seen.faults.is_empty());
            let boost = rollout.filter(|_| back).map_or(0, |r| r.strategy.rollback.budget_boost);
            count.boost = count.boost.max(boost.saturating_mul(weight));
        }
    }
    add_missing(input, budget, &known, &mut counts);
    counts.retain(|_, count| !count.new.is_empty());
    counts
}

/// Nodes that a pool's document says are there at least, and that nobody sees or remembers.
fn add_missing(
    input: &Input<'_>,
    budget: &BudgetSpec,
    known: &BTreeMap<&PoolName, u32>,
    counts: &mut BTreeMap<Vec<String>, Count<'_>>,
) {
    for (name, pool) in &input.fleet.pools {
        let missing = pool.nodes.min.unwrap_or(0).saturating_sub(known.get(name).copied().unwrap_or(0));
        let id = NodeId::new(&format!("{}/?", pool.cluster));
        let nobody = Subject { id: &id, seen: None, record: None, pool: Some((name, &pool.spec)) };
        if missing == 0 || !inside_scope(input, &budget.scope, &nobody) {
            continue;
        }
        let Some(count) = key(input, budget.each, &nobody).and_then(|key| counts.get_mut(&key)) else {
            continue;
        };
        let weight = missing
            * match budget.unit {
                BudgetUnit::Nodes => 1,
                BudgetUnit::Gpus => pool.gpu.count,
            };
        count.size += weight;
        count.broken += weight;
        count.away += weight;
    }
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

/// The value of `each` a node is counted under; `None` where it has none. A domain is one of its cluster, whichever pools
/// stand in it.
fn key(input: &Input<'_>, each: Option<Each>, node: &Subject<'_>) -> Option<Vec<String>> {
    let cluster = node.id.cluster();
    let domain = |key: DomainKey| Some(vec![cluster.to_owned(), node.domain(key)?.to_owned()]);
    match each {
        None => Some(Vec::new()),
        Some(Each::Region) => {
            let found = input.fleet.clusters.iter().find(|(name, _)| name.as_str() == cluster)?;
            found.1.region.clone().map(|region| vec![region])
        }
        Some(Each::Cluster) => Some(vec![cluster.to_owned()]),
        Some(Each::Pool) => node.pool.map(|(name, _)| vec![name.to_string()]),
        Some(Each::Tenant) => node.pool?.1.tenant.as_ref().map(|tenant| vec![tenant.to_string()]),
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
