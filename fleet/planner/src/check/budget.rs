//! I1, I7: after the plan every budget that a new reservation touches still holds.

use std::collections::BTreeMap;

use drydock_plan::{NodeId, Target};
use drydock_spec::{
    Amount, BudgetName, BudgetSpec, BudgetUnit, DomainKey, Each, Fleet, PoolName, PoolSpec, Reason,
};

use super::{
    facts::{self, Domain},
    findings::Findings,
    scope,
    view::{AnyNode, Fresh, View},
    window,
};

/// One count: a budget by its place in the list, and one value of its `each`.
type Key<'a> = (u32, Domain<'a>);

/// A node of a count that is reserved after the plan.
struct Member<'a> {
    weight: u64,
    /// Its domain of the kind that `atLeastDomain` names.
    domain: Option<Domain<'a>>,
    /// Reserved by this plan, on a way back.
    new_way_back: bool,
}

/// What is counted for one key. All sums are in the budget's unit.
struct Tally<'a> {
    budget: &'a BudgetName,
    spec: &'a BudgetSpec,
    value: Domain<'a>,
    size: u64,
    away: u64,
    broken_before: u64,
    /// Taken by this plan and none of this budget's business: what it restricts may have come first.
    free: u64,
    reserved: Vec<Member<'a>>,
    /// A new reservation going forward that this budget restricts.
    forward: Option<&'a NodeId>,
    /// A new reservation on a way back, with the largest `budgetBoost`.
    way_back: Option<(&'a NodeId, u64)>,
    /// A new reservation that takes capacity which was there.
    takes: Option<&'a NodeId>,
}

/// A budget as it reaches one pool.
struct PoolBudget<'a> {
    place: u32,
    name: &'a BudgetName,
    spec: &'a BudgetSpec,
    by: By<'a>,
}

/// What tells the counts of a budget apart, for nodes of one pool.
#[derive(Clone, Copy)]
enum By<'a> {
    /// All nodes of the pool belong to one count; its tally, when it is open.
    Pool(Domain<'a>, Option<usize>),
    /// Each node belongs to the count of its domain.
    Domain(DomainKey),
}

/// The budgets that reach one pool.
struct PoolBudgets<'a> {
    list: Vec<PoolBudget<'a>>,
    gpus: u64,
    /// Nodes it should have at least, and those that are seen or have a record.
    minimum: u64,
    known: u64,
}

/// Counts of all budgets that a new reservation touches.
pub(super) struct Tallies<'a> {
    view: &'a View<'a>,
    pools: BTreeMap<&'a PoolName, PoolBudgets<'a>>,
    active: Vec<(u32, &'a BudgetName, &'a BudgetSpec)>,
    tallies: Vec<Tally<'a>>,
    index: BTreeMap<Key<'a>, usize>,
    fresh: BTreeMap<&'a NodeId, &'a Fresh<'a>>,
}

impl<'a> Tallies<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let fleet = view.input.fleet;
        let touched: BTreeMap<_, _> = view.fresh.iter().filter_map(|f| f.pool).collect();
        let reaches = |b: &BudgetSpec, name: &PoolName, pool: &PoolSpec| {
            scope::may_hold(&b.scope, fleet, pool.cluster.as_str(), Some((name, pool)))
        };
        let touches = |b: &BudgetSpec| touched.iter().any(|(n, p)| reaches(b, n, p));
        let active: Vec<_> = (0..)
            .zip(&fleet.budgets)
            .map(|(place, (name, budget))| (place, name, &budget.spec))
            .filter(|(.., b)| touches(b) && is_active(view, b))
            .collect();
        let mut pools = BTreeMap::new();
        for (name, pool) in &fleet.pools {
            let list: Vec<_> = active
                .iter()
                .filter(|(.., b)| reaches(b, name, pool))
                .filter_map(|&(place, budget, spec)| {
                    Some(PoolBudget { place, name: budget, spec, by: by(fleet, spec, name, pool)? })
                })
                .collect();
            if !list.is_empty() {
                let minimum = u64::from(pool.nodes.min.unwrap_or(0));
                pools.insert(name, PoolBudgets { list, gpus: u64::from(pool.gpu.count), minimum, known: 0 });
            }
        }
        let fresh = view.fresh.iter().map(|f| (f.id, f)).collect();
        let mut all = Self { view, pools, active, tallies: Vec::new(), index: BTreeMap::new(), fresh };
        for fresh in &view.fresh {
            all.open(fresh);
        }
        for budget in all.pools.values_mut().flat_map(|p| &mut p.list) {
            if let By::Pool(value, tally) = &mut budget.by {
                *tally = all.index.get(&(budget.place, *value)).copied();
            }
        }
        all
    }

    /// Opens the counts that a new reservation is judged by.
    fn open(&mut self, fresh: &'a Fresh<'a>) {
        let (Some(seen), Some((name, _))) = (fresh.seen, fresh.pool) else { return };
        let node = AnyNode { id: fresh.id, seen: fresh.seen, record: Some(fresh.record) };
        let Some(budgets) = self.pools.get(name) else { return };
        for budget in budgets.list.iter().filter(|b| is_restricted(self.view, b.spec, fresh)) {
            if !has_domain(budget.spec, &node) {
                continue;
            }
            let value = match budget.by {
                By::Pool(value, _) => Some(value),
                By::Domain(key) => Domain::of(&node, key),
            };
            let Some(value) = value else { continue };
            let place = *self.index.entry((budget.place, value)).or_insert_with(|| {
                self.tallies.push(Tally::new(budget, value));
                self.tallies.len() - 1
            });
            let Some(tally) = self.tallies.get_mut(place) else { continue };
            if fresh.is_way_back() {
                let boost = fresh.rollout.map_or(0, |r| u64::from(r.strategy.rollback.budget_boost));
                let boost = boost.max(tally.way_back.map_or(0, |(_, b)| b));
                tally.way_back = Some((fresh.id, boost));
            } else {
                tally.forward = Some(fresh.id);
            }
            // What is broken already, or sick from its upgrade, isn't capacity that a reservation could take.
            if !fresh.urgent
                && !facts::is_broken(seen, Some(fresh.record))
                && !facts::is_short(self.view.input.fleet, seen)
            {
                tally.takes = Some(fresh.id);
            }
        }
    }

    /// Counts one node, whether it is seen or only known to the ledger.
    pub(super) fn add(&mut self, node: AnyNode<'a>) {
        match node.pool_name().and_then(|name| self.pools.get_mut(name)) {
            Some(budgets) => {
                budgets.known += 1;
                let mut mine = Vec::with_capacity(budgets.list.len());
                for budget in &budgets.list {
                    let place = match budget.by {
                        By::Pool(_, tally) => tally,
                        By::Domain(key) => Domain::of(&node, key)
                            .and_then(|value| self.index.get(&(budget.place, value)).copied()),
                    };
                    if has_domain(budget.spec, &node) {
                        mine.extend(place);
                    }
                }
                // What Git says is in a node, not what it advertises just now: a node without its driver would weigh
                // nothing.
                let gpus = budgets.gpus;
                mine.into_iter().for_each(|place| self.add_to(place, &node, gpus));
            }
            None if node.pool_name().is_none_or(|p| !self.view.input.fleet.pools.contains_key(p)) => {
                self.add_without_pool(&node);
            }
            None => {}
        }
    }

    /// Git has no pool for it any more, and a visit of it goes on: whatever isn't about pools counts it.
    fn add_without_pool(&mut self, node: &AnyNode<'a>) {
        let Some(record) = node.record.filter(|r| r.visit.is_some()) else { return };
        let cluster = node.id.cluster();
        let fleet = self.view.input.fleet;
        let mut mine = Vec::new();
        for (place, _, spec) in &self.active {
            if !scope::holds(&spec.scope, fleet, cluster, None, |key| node.domain_name(key)) {
                continue;
            }
            let region =
                || fleet.clusters.iter().find(|(name, _)| name.as_str() == cluster)?.1.spec.region.as_deref();
            let value = match spec.each {
                None => Some(Domain::new("", "")),
                Some(Each::Cluster) => Some(Domain::new("", cluster)),
                Some(Each::Region) => region().map(|region| Domain::new("", region)),
                Some(Each::Pool | Each::Tenant) => None,
                Some(Each::NvlinkDomain) => Domain::of(node, DomainKey::NvlinkDomain),
                Some(Each::ScalableUnit) => Domain::of(node, DomainKey::ScalableUnit),
                Some(Each::Rack) => Domain::of(node, DomainKey::Rack),
                Some(Each::Rail) => Domain::of(node, DomainKey::Rail),
            };
            mine.extend(value.and_then(|value| self.index.get(&(*place, value)).copied()));
        }
        let remembered = record.place.as_ref().map_or(0, |place| place.gpus);
        let gpus = u64::from(node.seen.map_or(0, |seen| seen.gpus).max(remembered));
        mine.into_iter().for_each(|place| self.add_to(place, node, gpus));
    }

    fn add_to(&mut self, place: usize, node: &AnyNode<'a>, gpus: u64) {
        let Some(tally) = self.tallies.get_mut(place) else { return };
        let reserved = node.record.is_some_and(|r| r.visit.is_some());
        let short = |seen| facts::is_short(self.view.input.fleet, seen);
        let broken = node.is_broken() || node.seen.is_some_and(short);
        let before = broken && !facts::is_exposed(node.record, self.view.after);
        let spec = tally.spec;
        let weight = weight(spec, gpus);
        tally.size += weight;
        tally.away += if reserved || broken { weight } else { 0 };
        tally.broken_before += if before { weight } else { 0 };
        let fresh = self.fresh.get(node.id);
        let free = fresh.is_some_and(|f| !is_restricted(self.view, spec, f));
        tally.free += if free && !broken { weight } else { 0 };
        if reserved && !free {
            tally.reserved.push(Member {
                weight,
                domain: spec.at_least_domain.and_then(|key| Domain::of(node, key)),
                new_way_back: fresh.is_some_and(|f| f.is_way_back()),
            });
        }
    }

    /// After all nodes: what the documents say is there, and is neither seen nor known to the ledger, is away.
    pub(super) fn add_missing(&mut self) {
        for budgets in self.pools.values() {
            let missing = budgets.minimum.saturating_sub(budgets.known);
            for budget in &budgets.list {
                let By::Pool(_, Some(place)) = budget.by else { continue };
                let Some(tally) = self.tallies.get_mut(place).filter(|t| t.spec.scope.domain.is_none())
                else {
                    continue;
                };
                let weight = weight(tally.spec, budgets.gpus) * missing;
                tally.size += weight;
                tally.away += weight;
                tally.broken_before += weight;
            }
        }
    }

    pub(super) fn judge(&self, found: &mut Findings) {
        for tally in &self.tallies {
            tally.judge_floor(found);
            tally.judge_in_flight(found);
        }
    }
}

impl<'a> Tally<'a> {
    fn new(budget: &PoolBudget<'a>, value: Domain<'a>) -> Self {
        Self {
            budget: budget.name,
            spec: budget.spec,
            value,
            size: 0,
            away: 0,
            broken_before: 0,
            free: 0,
            reserved: Vec::new(),
            forward: None,
            way_back: None,
            takes: None,
        }
    }

    fn judge_floor(&self, found: &mut Findings) {
        let (Some(minimum), Some(node)) = (self.spec.min_available, self.takes) else { return };
        let floor = round_up(minimum, self.size);
        let allowance = round_down(self.spec.broken_allowance.0, self.size);
        let borne = self.broken_before.min(allowance);
        let available = (self.size - self.away) + borne + self.free;
        found.when(available < floor, "I1 floor", || {
            format!(
                "{node} is reserved and {self} keeps {available} of {} (allowance {borne} in it), floor {floor}",
                self.size
            )
        });
    }

    /// Forward movement is judged without what goes back in the same plan: it may have come first.
    fn judge_in_flight(&self, found: &mut Findings) {
        let Some(maximum) = self.spec.max_in_flight else { return };
        let mut judge = |node: &NodeId, members: &[&Member<'_>], boost: u64, invariant: &'static str| {
            let used: u64 = members.iter().map(|m| m.weight).sum();
            found.when(!self.fits(maximum, members, boost), invariant, || {
                let limit = round_down(maximum, self.size);
                format!("{node} is reserved and {self} has {used} in flight of {limit} (boost {boost})")
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

impl std::fmt::Display for Tally<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "budget {}", self.budget)?;
        match self.value.value {
            "" => Ok(()),
            _ => write!(f, " [{}]", self.value),
        }
    }
}

/// How nodes of a pool are counted; `None` when the pool has nothing to be counted under. Of the nodes, those without
/// the domain aren't counted either.
fn by<'a>(fleet: &'a Fleet, spec: &BudgetSpec, name: &'a PoolName, pool: &'a PoolSpec) -> Option<By<'a>> {
    let one = |value: &'a str| By::Pool(Domain::new("", value), None);
    Some(match spec.each {
        None => one(""),
        Some(Each::Region) => one(fleet.clusters.get(&pool.cluster)?.spec.region.as_deref()?),
        Some(Each::Cluster) => one(pool.cluster.as_str()),
        Some(Each::Pool) => one(name.as_str()),
        Some(Each::Tenant) => one(pool.tenant.as_ref()?.as_str()),
        Some(Each::NvlinkDomain) => By::Domain(DomainKey::NvlinkDomain),
        Some(Each::ScalableUnit) => By::Domain(DomainKey::ScalableUnit),
        Some(Each::Rack) => By::Domain(DomainKey::Rack),
        Some(Each::Rail) => By::Domain(DomainKey::Rail),
    })
}

/// Inside the budget's scope as far as that is a property of nodes.
fn has_domain(spec: &BudgetSpec, node: &AnyNode<'_>) -> bool {
    spec.scope.domain.as_ref().is_none_or(|d| node.domain_name(d.key) == Some(d.value.as_str()))
}

fn weight(spec: &BudgetSpec, gpus: u64) -> u64 {
    match spec.unit {
        BudgetUnit::Nodes => 1,
        BudgetUnit::Gpus => gpus,
    }
}

/// In doubt about a window the budget restricts.
fn is_active(view: &View<'_>, spec: &BudgetSpec) -> bool {
    spec.active.is_empty() || spec.active.iter().any(|w| window::is_open(w, view.input.now).unwrap_or(true))
}

/// A way back is covered by every budget, whatever its list of reasons says.
fn is_restricted(view: &View<'_>, spec: &BudgetSpec, fresh: &Fresh<'_>) -> bool {
    let Some(reasons) = &spec.reasons else { return true };
    if fresh.rollout.is_none() || fresh.is_way_back() {
        return true;
    }
    // Ids differ where a release names what doesn't live on nodes, so contents are compared.
    let release = Target { release: fresh.visit.to.release.clone(), layout: None };
    let pool = fresh.pool.map(|(_, pool)| pool);
    let fleet = view.input.fleet;
    let runs = |n| facts::runs(fleet, view.after, pool, n, &release, false, None) == Some(true);
    // A node that is only being helped on what it was upgraded to is no matter of layouts.
    let only_cut = !fresh.urgent && fresh.seen.is_some_and(runs);
    reasons.contains(if only_cut { &Reason::Repartition } else { &Reason::Upgrade })
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
