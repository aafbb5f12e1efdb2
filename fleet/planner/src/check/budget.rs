//! I1, I7: after the plan every budget that a new reservation touches still holds.

use std::collections::BTreeMap;

use drydock_plan::{NodeId, RolloutKind};
use drydock_spec::{
    Amount, BudgetName, BudgetSpec, BudgetUnit, DomainKey, Each, Fleet, PoolName, PoolSpec, Reason,
};

use super::{
    facts,
    findings::Findings,
    view::{Fresh, SeenNode, View},
    window,
};

/// One count: a budget, or one value of its `each`. Domains are told apart by cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    budget: &'a BudgetName,
    cluster: &'a str,
    value: &'a str,
}

/// A node of a count that is reserved after the plan.
struct Member<'a> {
    weight: u64,
    /// Its domain of the kind that `atLeastDomain` names.
    domain: Option<(&'a str, &'a str)>,
    /// Reserved by this plan, on a way back.
    new_way_back: bool,
}

/// What is counted for one key. All sums are in the budget's unit.
struct Tally<'a> {
    spec: &'a BudgetSpec,
    size: u64,
    away: u64,
    broken_before: u64,
    reserved: Vec<Member<'a>>,
    /// A new reservation going forward that this budget restricts.
    forward: Option<&'a NodeId>,
    /// A new reservation on a way back, with the largest `budgetBoost`.
    way_back: Option<(&'a NodeId, u64)>,
    /// A new reservation that takes capacity which was there.
    takes: Option<&'a NodeId>,
}

/// The budgets that reach one pool.
#[derive(Default)]
struct PoolBudgets<'a> {
    list: Vec<(&'a BudgetName, &'a BudgetSpec)>,
    gpus: u64,
}

/// Counts of all budgets that a new reservation touches.
pub(super) struct Tallies<'a> {
    view: &'a View<'a>,
    pools: BTreeMap<&'a PoolName, PoolBudgets<'a>>,
    tallies: BTreeMap<Key<'a>, Tally<'a>>,
    fresh: BTreeMap<&'a NodeId, bool>,
    /// Neighbours are mostly of one pool.
    last_pool: Option<&'a PoolName>,
}

impl<'a> Tallies<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let mut all = Self {
            view,
            pools: BTreeMap::new(),
            tallies: BTreeMap::new(),
            fresh: view.fresh.iter().map(|f| (f.id, f.is_way_back())).collect(),
            last_pool: None,
        };
        let fleet = view.input.fleet;
        let touched: BTreeMap<_, _> = view.fresh.iter().filter_map(|f| f.pool).collect();
        let active: Vec<_> = fleet
            .budgets
            .iter()
            .map(|(name, budget)| (name, &budget.spec))
            .filter(|(_, b)| touched.iter().any(|(name, pool)| b.scope.covers_pool(fleet, name, pool)))
            .filter(|(_, b)| is_active(view, b))
            .collect();
        for (name, pool) in &fleet.pools {
            let reaches = |(_, b): &&(_, &BudgetSpec)| b.scope.covers_pool(fleet, name, pool);
            let list: Vec<_> = active.iter().filter(reaches).copied().collect();
            if !list.is_empty() {
                all.pools.insert(name, PoolBudgets { list, gpus: u64::from(pool.gpu.count) });
            }
        }
        for fresh in &view.fresh {
            all.open(fresh);
        }
        all
    }

    /// Opens the counts that a new reservation is judged by.
    fn open(&mut self, fresh: &'a Fresh<'a>) {
        let (Some(seen), Some((name, pool))) = (fresh.seen, fresh.pool) else { return };
        let Some(budgets) = self.pools.get(name) else { return };
        let node = SeenNode { id: fresh.id, seen, record: Some(fresh.record) };
        for (budget, spec) in &budgets.list {
            if !is_restricted(spec, fresh) {
                continue;
            }
            let Some(key) = key_of(self.view.input.fleet, budget, spec, node, name, pool) else { continue };
            let tally = self.tallies.entry(key).or_insert_with(|| Tally::new(spec));
            if fresh.is_way_back() {
                let boost = fresh.rollout.map_or(0, |r| u64::from(r.strategy.rollback.budget_boost));
                let boost = boost.max(tally.way_back.map_or(0, |(_, b)| b));
                tally.way_back = Some((fresh.id, boost));
            } else {
                tally.forward = Some(fresh.id);
            }
            // What is broken already, or sick from its upgrade, isn't capacity that a reservation could take.
            if !fresh.urgent && !facts::is_broken(seen, Some(fresh.record)) {
                tally.takes = Some(fresh.id);
            }
        }
    }

    /// Counts one node of the inventory.
    pub(super) fn add(&mut self, node: SeenNode<'a>) {
        let Some(wanted) = node.seen.pool.as_ref() else { return };
        let name = match self.last_pool {
            Some(last) if last == wanted => last,
            _ => match self.view.input.fleet.pools.get_key_value(wanted) {
                Some((name, _)) => name,
                None => return,
            },
        };
        self.last_pool = Some(name);
        let (Some(budgets), Some(pool)) = (self.pools.get(name), self.view.input.fleet.pools.get(name))
        else {
            return;
        };
        let reserved = node.record.is_some_and(|r| r.visit.is_some());
        let broken = facts::is_broken(node.seen, node.record);
        let before = broken && !facts::is_exposed(node.record, self.view.after);
        for (budget, spec) in &budgets.list {
            let Some(key) = key_of(self.view.input.fleet, budget, spec, node, name, pool) else { continue };
            let Some(tally) = self.tallies.get_mut(&key) else { continue };
            let weight = match spec.unit {
                BudgetUnit::Nodes => 1,
                // What Git says is in a node, not what it advertises just now: a node without its driver would
                // weigh nothing.
                BudgetUnit::Gpus => budgets.gpus,
            };
            tally.size += weight;
            tally.away += if reserved || broken { weight } else { 0 };
            tally.broken_before += if before { weight } else { 0 };
            if reserved {
                tally.reserved.push(Member {
                    weight,
                    domain: spec.at_least_domain.and_then(|key| facts::domain_of(node.id, node.seen, key)),
                    new_way_back: self.fresh.get(node.id).copied().unwrap_or(false),
                });
            }
        }
    }

    pub(super) fn judge(&self, found: &mut Findings) {
        for (key, tally) in &self.tallies {
            tally.judge_floor(key, found);
            tally.judge_in_flight(key, found);
        }
    }
}

impl<'a> Tally<'a> {
    fn new(spec: &'a BudgetSpec) -> Self {
        Self {
            spec,
            size: 0,
            away: 0,
            broken_before: 0,
            reserved: Vec::new(),
            forward: None,
            way_back: None,
            takes: None,
        }
    }

    fn judge_floor(&self, key: &Key<'_>, found: &mut Findings) {
        let (Some(minimum), Some(node)) = (self.spec.min_available, self.takes) else { return };
        let floor = round_up(minimum, self.size);
        let allowance = round_down(self.spec.broken_allowance.0, self.size);
        let borne = self.broken_before.min(allowance);
        let available = (self.size - self.away) + borne;
        found.when(available < floor, "I1 floor", || {
            format!(
                "{node} is reserved and {key} keeps {available} of {} (allowance {borne} in it), floor {floor}",
                self.size
            )
        });
    }

    /// Forward movement is judged without what goes back in the same plan: it may have come first.
    fn judge_in_flight(&self, key: &Key<'_>, found: &mut Findings) {
        let Some(maximum) = self.spec.max_in_flight else { return };
        let mut judge = |node: &NodeId, members: &[&Member<'_>], boost: u64, invariant: &'static str| {
            let used: u64 = members.iter().map(|m| m.weight).sum();
            found.when(!self.fits(maximum, members, boost), invariant, || {
                let limit = round_down(maximum, self.size);
                format!("{node} is reserved and {key} has {used} in flight of {limit} (boost {boost})")
            });
        };
        if let Some(node) = self.forward {
            let members: Vec<_> = self.reserved.iter().filter(|m| !m.new_way_back).collect();
            judge(node, &members, 0, "I1 in flight");
        }
        if let Some((node, boost)) = self.way_back {
            let members: Vec<_> = self.reserved.iter().collect();
            judge(node, &members, boost, "I7 rollback budgets");
        }
    }

    fn fits(&self, maximum: Amount, members: &[&Member<'_>], boost: u64) -> bool {
        let used: u64 = members.iter().map(|m| m.weight).sum();
        let node = members.iter().map(|m| m.weight).max().unwrap_or(0);
        let limit = round_down(maximum, self.size);
        if used <= limit + boost * node {
            return true;
        }
        let count = members.len() as u64;
        let rounds_to_nothing = matches!(maximum, Amount::Percent(1..)) && limit < node;
        if self.spec.at_least_one && rounds_to_nothing && count <= 1 + boost {
            return true;
        }
        // One whole domain: everything in flight is in it, but for what the boost adds.
        let mut by_domain: BTreeMap<_, u64> = BTreeMap::new();
        for domain in members.iter().filter_map(|m| m.domain) {
            *by_domain.entry(domain).or_default() += 1;
        }
        by_domain.values().max().is_some_and(|inside| count - inside <= boost)
    }
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "budget {}", self.budget)?;
        match (self.cluster, self.value) {
            ("", "") => Ok(()),
            ("", value) => write!(f, " [{value}]"),
            (cluster, value) => write!(f, " [{cluster}/{value}]"),
        }
    }
}

/// The count a node belongs to; `None` when it is outside. A node without a value for `each` has nothing to be
/// counted under.
fn key_of<'a>(
    fleet: &'a Fleet,
    budget: &'a BudgetName,
    spec: &BudgetSpec,
    node: SeenNode<'a>,
    name: &'a PoolName,
    pool: &'a PoolSpec,
) -> Option<Key<'a>> {
    let domain = |key: DomainKey| facts::domain_of(node.id, node.seen, key);
    if let Some(wanted) = &spec.scope.domain
        && domain(wanted.key).is_none_or(|(_, value)| *value != *wanted.value)
    {
        return None;
    }
    let (cluster, value) = match spec.each {
        None => ("", ""),
        Some(Each::Region) => ("", fleet.clusters.get(&pool.cluster)?.spec.region.as_deref()?),
        Some(Each::Cluster) => ("", pool.cluster.as_str()),
        Some(Each::Pool) => ("", name.as_str()),
        Some(Each::Tenant) => ("", pool.tenant.as_ref()?.as_str()),
        Some(Each::NvlinkDomain) => domain(DomainKey::NvlinkDomain)?,
        Some(Each::ScalableUnit) => domain(DomainKey::ScalableUnit)?,
        Some(Each::Rack) => domain(DomainKey::Rack)?,
        Some(Each::Rail) => domain(DomainKey::Rail)?,
    };
    Some(Key { budget, cluster, value })
}

/// In doubt about a window the budget restricts.
fn is_active(view: &View<'_>, spec: &BudgetSpec) -> bool {
    spec.active.is_empty() || spec.active.iter().any(|w| window::is_open(w, view.input.now).unwrap_or(true))
}

/// A way back is covered by every budget, whatever its list of reasons says.
fn is_restricted(spec: &BudgetSpec, fresh: &Fresh<'_>) -> bool {
    let Some(reasons) = &spec.reasons else { return true };
    match fresh.rollout.map(|r| &r.kind) {
        None | Some(RolloutKind::Rollback { .. } | RolloutKind::Revert) => true,
        Some(RolloutKind::Forward) => {
            let same_release = fresh.seen.is_some_and(|n| n.running.id == fresh.visit.to.release);
            reasons.contains(if same_release { &Reason::Repartition } else { &Reason::Upgrade })
        }
    }
}

/// As a maximum.
fn round_down(amount: Amount, size: u64) -> u64 {
    match amount {
        Amount::Count(n) => u64::from(n),
        Amount::Percent(hundredths) => size * u64::from(hundredths) / 10_000,
    }
}

/// As a minimum.
fn round_up(amount: Amount, size: u64) -> u64 {
    match amount {
        Amount::Count(n) => u64::from(n),
        Amount::Percent(hundredths) => (size * u64::from(hundredths)).div_ceil(10_000),
    }
}
