//! Budgets: how much is away, and whether more may go. Every budget that touches a unit must agree.

use std::collections::BTreeMap;

use drydock_plan::{NodeId, Reason};
use drydock_spec::{Amount, BudgetName, BudgetSpec, BudgetUnit, DomainKey, Each};
use jiff::Timestamp;

use crate::{calendar, frame::Frame, pass::Pass};

mod rooms;

pub(crate) use rooms::{Room, RoomAt};

/// One count of one budget: a budget with `each` has many.
pub(crate) struct Counter {
    budget: usize,
    /// The value of `each` it is for.
    each: Option<String>,
    /// All nodes inside, in the budget's unit. Nodes that are away or broken stay in it: losing nodes never loosens a
    /// budget.
    size: u32,
    reserved: u32,
    broken: u32,
    broken_before: u32,
    /// Of what is broken: documented, and not there at all.
    missing: u32,
    /// Reserved or broken, each node once.
    away: u32,
}

/// Counts of all budgets, and which of them every node touches.
pub(crate) struct Counters {
    counters: Vec<Counter>,
    /// For each pool, the counters that all its nodes touch.
    of_pool: Vec<Vec<u32>>,
    /// For nodes in counted domains, the others.
    of_node: BTreeMap<usize, Vec<u32>>,
    /// Nodes in flight, those reserved in this pass included.
    flying: Vec<usize>,
    /// The pool that every node is counted in.
    homes: Vec<Option<usize>>,
}

impl Counters {
    fn at(
        &mut self,
        index: &mut BTreeMap<(usize, Option<String>), u32>,
        b: usize,
        each: Option<String>,
    ) -> u32 {
        *index.entry((b, each.clone())).or_insert_with(|| {
            self.counters.push(Counter::new(b, each));
            u32::try_from(self.counters.len() - 1).unwrap_or(u32::MAX)
        })
    }
    /// The counters a node touches.
    fn touched(&self, i: usize) -> impl Iterator<Item = u32> {
        let home = self.homes.get(i).copied().flatten();
        let pool = home.and_then(|p| self.of_pool.get(p));
        pool.into_iter().flatten().chain(self.of_node.get(&i).into_iter().flatten()).copied()
    }
}

#[derive(Clone, Copy)]
struct ActiveBudget<'a> {
    name: &'a BudgetName,
    spec: &'a BudgetSpec,
}

/// What a unit is, as far as budgets care.
#[derive(Clone, Copy)]
pub(crate) struct Asking {
    pub reason: drydock_spec::Reason,
    /// Nodes more than `maxInFlight`.
    pub boost: u32,
}

fn domain_of(each: Each) -> Option<DomainKey> {
    match each {
        Each::NvlinkDomain => Some(DomainKey::NvlinkDomain),
        Each::ScalableUnit => Some(DomainKey::ScalableUnit),
        Each::Rack => Some(DomainKey::Rack),
        Each::Rail => Some(DomainKey::Rail),
        Each::Region | Each::Cluster | Each::Pool | Each::Tenant => None,
    }
}

fn active<'a>(frame_input: &crate::Input<'a>) -> Vec<ActiveBudget<'a>> {
    let now = frame_input.now;
    let is_active = |spec: &BudgetSpec, now: Timestamp| {
        // A window that can't be read counts as active: in doubt the budget restricts.
        spec.active.is_empty()
            || spec.active.iter().any(|w| calendar::opening(w, now).is_none_or(|o| o.opens <= now))
    };
    frame_input
        .fleet
        .budgets
        .iter()
        .filter(|(_, b)| is_active(&b.spec, now))
        .map(|(name, b)| ActiveBudget { name, spec: &b.spec })
        .collect()
}

impl Pass<'_> {
    /// Counts everything, once per pass; later reservations are added one by one. Nodes that aren't seen count like any
    /// other that is broken, in the pool and the domains where they were last.
    pub(crate) fn count(&mut self) {
        if self.counters.is_some() {
            return;
        }
        let budgets = active(&self.input);
        let homes: Vec<Option<usize>> = (0..self.frame.nodes.len()).map(|i| self.home(i)).collect();
        let mut counts = Counters {
            counters: Vec::new(),
            of_pool: vec![Vec::new(); self.frame.pools.len()],
            of_node: BTreeMap::new(),
            flying: self.visiting(),
            homes: Vec::new(),
        };
        let mut index: BTreeMap<(usize, Option<String>), u32> = BTreeMap::new();
        let per_pool = self.budgets_of_pools(&budgets);
        // Most budgets depend on the pool alone; only those about a domain have to look at every node.
        for (pool, covering) in per_pool.iter().enumerate() {
            for &b in covering.iter().filter(|&&b| !by_node(budgets[b].spec)) {
                if let Some(each) = each_of_pool(&self.frame, &self.input, pool, budgets[b].spec) {
                    let at = counts.at(&mut index, b, each);
                    counts.of_pool[pool].push(at);
                }
            }
        }
        let mut known = vec![0u32; self.frame.pools.len()];
        for (i, home) in homes.iter().enumerate() {
            let reserved = self.rec(i).visit.is_some();
            let mine: Vec<(usize, Option<String>)> = match home {
                Some(pool) => {
                    known[*pool] += 1;
                    let by_node = per_pool[*pool].iter().filter(|&&b| by_node(budgets[b].spec));
                    by_node
                        .filter_map(|&b| Some((b, self.each_of_node(i, *home, budgets[b].spec)?)))
                        .collect()
                }
                // Its pool is gone from Git, and it is still in the middle of its visit: whatever isn't about pools counts it.
                None if reserved => (0..budgets.len())
                    .filter_map(|b| Some((b, self.each_of_node(i, None, budgets[b].spec)?)))
                    .collect(),
                None => continue,
            };
            for (b, each) in mine {
                let at = counts.at(&mut index, b, each);
                counts.of_node.entry(i).or_default().push(at);
            }
            let broken = self.broken(i);
            let before = broken && self.was_there_before(i);
            let Counters { counters, of_pool, of_node, .. } = &mut counts;
            let whole = home.map_or(&[][..], |pool| &of_pool[pool]);
            for &at in whole.iter().chain(of_node.get(&i).into_iter().flatten()) {
                let counter = &mut counters[at as usize];
                let weight = weight(budgets[counter.budget].spec, self.frame.nodes[i].gpus);
                counter.size += weight;
                counter.reserved += if reserved { weight } else { 0 };
                counter.broken += if broken { weight } else { 0 };
                counter.broken_before += if before { weight } else { 0 };
                counter.away += if reserved || broken { weight } else { 0 };
            }
        }
        // What the documents say is there and nobody has a record of is away as well: losing nodes never loosens a floor.
        for (pool, known) in known.into_iter().enumerate() {
            let spec = self.frame.pools[pool].spec;
            let missing = spec.nodes.min.unwrap_or(0).saturating_sub(known);
            for &at in counts.of_pool[pool].iter().filter(|_| missing > 0) {
                let counter = &mut counts.counters[at as usize];
                let weight = weight(budgets[counter.budget].spec, spec.gpu.count).saturating_mul(missing);
                counter.size += weight;
                counter.broken += weight;
                counter.broken_before += weight;
                counter.missing += weight;
                counter.away += weight;
            }
        }
        counts.homes = homes;
        self.counters = Some(counts);
    }

    /// Which count of a budget a node belongs to: `Some(None)` for the only one, `None` for none.
    fn each_of_node(&self, i: usize, home: Option<usize>, spec: &BudgetSpec) -> Option<Option<String>> {
        if !self.covers(i, &spec.scope) {
            return None;
        }
        if let Some(key) = spec.each.and_then(domain_of) {
            return Some(Some(self.frame.domain_text(self.frame.domain(i, key)?)));
        }
        if let Some(pool) = home {
            return each_of_pool(&self.frame, &self.input, pool, spec);
        }
        let cluster = self.frame.nodes[i].id.cluster();
        let region = || {
            let clusters = &self.input.fleet.clusters;
            clusters.iter().find(|(name, _)| name.as_str() == cluster).and_then(|(_, c)| c.region.clone())
        };
        match spec.each {
            None => Some(None),
            Some(Each::Cluster) => Some(Some(cluster.to_owned())),
            Some(Each::Region) => region().map(Some),
            Some(
                Each::Pool | Each::Tenant | Each::NvlinkDomain | Each::ScalableUnit | Each::Rack | Each::Rail,
            ) => None,
        }
    }

    /// If it is broken, no rollout has had a hand in it. Between two rollouts it has no part in any, but its visit or soak
    /// still tells.
    fn was_there_before(&self, i: usize) -> bool {
        let record = self.rec(i);
        let changed =
            |v: &drydock_plan::Visit| v.step.stage() >= 4 || v.course != drydock_plan::Course::Forward;
        record.soak.is_none()
            && !record.visit.as_ref().is_some_and(changed)
            && record.assignment.as_ref().is_none_or(|a| a.exposed.is_none())
    }

    fn budgets_of_pools(&self, budgets: &[ActiveBudget<'_>]) -> Vec<Vec<usize>> {
        let covers = |pool: &crate::desired::PoolView<'_>, b: &ActiveBudget<'_>| {
            b.spec.scope.covers_pool(self.input.fleet, pool.name, pool.spec)
        };
        self.frame
            .pools
            .iter()
            .map(|pool| (0..budgets.len()).filter(|&b| covers(pool, &budgets[b])).collect())
            .collect()
    }

    /// Whether these nodes may go as well. With `all`, every refusal is listed, not only the first.
    pub(crate) fn budget_reasons(&mut self, unit: &[usize], asking: Asking, all: bool) -> Vec<Reason> {
        self.count();
        let budgets = active(&self.input);
        let Some(counts) = &self.counters else { return Vec::new() };
        // What the unit adds to each counter: to what is in flight, and to what is away.
        let mut adds: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for &i in unit {
            for at in counts.touched(i) {
                let weight =
                    weight(budgets[counts.counters[at as usize].budget].spec, self.frame.nodes[i].gpus);
                let add = adds.entry(at).or_default();
                add.0 += if self.rec(i).visit.is_some() { 0 } else { weight };
                add.1 += if self.rec(i).visit.is_some() || self.broken(i) { 0 } else { weight };
            }
        }
        let mut reasons = Vec::new();
        for (at, (in_flight, away)) in adds {
            let counter = &counts.counters[at as usize];
            let budget = &budgets[counter.budget];
            if let Some(reason) = self.refuses(budget, counter, at, unit, (in_flight, away), asking) {
                reasons.push(reason);
                if !all {
                    break;
                }
            }
        }
        reasons
    }

    fn refuses(
        &self,
        budget: &ActiveBudget<'_>,
        counter: &Counter,
        at: u32,
        unit: &[usize],
        (in_flight, away): (u32, u32),
        asking: Asking,
    ) -> Option<Reason> {
        let spec = budget.spec;
        // Rollback is always covered, whatever `reasons` says.
        let concerned = asking.reason == drydock_spec::Reason::Rollback
            || spec.reasons.as_ref().is_none_or(|r| r.contains(&asking.reason));
        if !concerned {
            return None;
        }
        if let Some(max) = spec.max_in_flight {
            let limit = self.limit(spec, counter, max, unit).saturating_add(match spec.unit {
                BudgetUnit::Nodes => asking.boost,
                BudgetUnit::Gpus => {
                    asking.boost.saturating_mul(unit.first().map_or(0, |&i| self.frame.nodes[i].gpus))
                }
            });
            if in_flight > 0 && counter.reserved + in_flight > limit && !self.one_domain(spec, at, unit) {
                return Some(Reason::BudgetInFlight {
                    budget: budget.name.clone(),
                    each: counter.each.clone(),
                    unit: spec.unit.into(),
                    limit,
                    used: counter.reserved,
                    adds: in_flight,
                    held_by: self.holders(at),
                });
            }
        }
        let min = spec.min_available?;
        let floor = min.ceil_of(counter.size);
        let allowance = spec.broken_allowance.0.floor_of(counter.size);
        let spared = counter.broken_before.min(allowance);
        let available = (counter.size + spared).saturating_sub(counter.away);
        // A unit that is broken already adds nothing: this is how a fix reaches what the last release broke.
        (away > 0 && available.saturating_sub(away) < floor).then(|| Reason::BudgetFloor {
            budget: budget.name.clone(),
            each: counter.each.clone(),
            unit: spec.unit.into(),
            floor,
            available,
            broken: counter.broken,
            missing: counter.missing,
            spared,
            adds: away,
        })
    }

    /// The limit as this unit meets it.
    fn limit(&self, spec: &BudgetSpec, counter: &Counter, max: Amount, unit: &[usize]) -> u32 {
        let limit = max.floor_of(counter.size);
        // One node is one of these, whatever others weigh: a limit of the largest would let many small ones go.
        let one = unit.first().map_or(0, |&i| weight(spec, self.frame.nodes[i].gpus));
        let to_nothing = matches!(max, Amount::Percent(1..)) && limit < one;
        if spec.at_least_one && to_nothing { one } else { limit }
    }

    /// `atLeastDomain`: everything in flight here, the unit included, lies in one domain.
    fn one_domain(&self, spec: &BudgetSpec, at: u32, unit: &[usize]) -> bool {
        let Some(key) = spec.at_least_domain else { return false };
        let Some(counts) = &self.counters else { return false };
        let Some(domain) = unit.first().and_then(|&i| self.frame.domain(i, key)) else { return false };
        let same = |i: usize| self.frame.domain(i, key) == Some(domain);
        unit.iter().all(|&i| same(i))
            && counts.flying.iter().copied().filter(|&i| counts.touched(i).any(|t| t == at)).all(same)
    }

    /// Nodes in flight, those reserved in this pass included.
    pub(crate) fn flying(&self) -> Vec<usize> {
        self.counters.as_ref().map_or_else(|| self.visiting(), |c| c.flying.clone())
    }

    /// The first few nodes in flight under a counter.
    fn holders(&self, at: u32) -> Vec<NodeId> {
        let Some(counts) = &self.counters else { return Vec::new() };
        counts
            .flying
            .iter()
            .copied()
            .filter(|&i| counts.touched(i).any(|t| t == at))
            .take(3)
            .map(|i| self.frame.nodes[i].id.clone())
            .collect()
    }

    /// Adds a node that is about to be reserved to the counts. Must come before its record changes.
    pub(crate) fn count_reservation(&mut self, i: usize) {
        let fresh = self.rec(i).visit.is_none();
        let adds = fresh && !self.broken(i);
        let budgets = active(&self.input);
        let gpus = self.frame.nodes[i].gpus;
        let Some(counts) = &mut self.counters else { return };
        if fresh {
            counts.flying.push(i);
        }
        let touched: Vec<u32> = counts.touched(i).collect();
        for at in touched {
            let counter = &mut counts.counters[at as usize];
            let weight = weight(budgets[counter.budget].spec, gpus);
            counter.reserved += if fresh { weight } else { 0 };
            counter.away += if adds { weight } else { 0 };
        }
    }

    /// Budgets that could never let a unit of these nodes go, whatever else happens.
    pub(crate) fn never_fits(&mut self, unit: &[usize], reason: drydock_spec::Reason) -> Option<String> {
        self.count();
        let budgets = active(&self.input);
        let counts = self.counters.as_ref()?;
        let mut weights: BTreeMap<u32, u32> = BTreeMap::new();
        for &i in unit {
            for at in counts.touched(i) {
                let spec = budgets[counts.counters[at as usize].budget].spec;
                *weights.entry(at).or_default() += weight(spec, self.frame.nodes[i].gpus);
            }
        }
        weights.into_iter().find_map(|(at, adds)| {
            let counter = &counts.counters[at as usize];
            let (name, spec) = (budgets[counter.budget].name, budgets[counter.budget].spec);
            let rollback = reason == drydock_spec::Reason::Rollback;
            if !rollback && spec.reasons.as_ref().is_some_and(|r| !r.contains(&reason)) {
                return None;
            }
            let unit_word = drydock_plan::BudgetUnitText::from(spec.unit);
            let whole_domain = spec.at_least_domain.is_some_and(|key| {
                let domain = unit.first().and_then(|&i| self.frame.domain(i, key));
                domain.is_some() && unit.iter().all(|&i| self.frame.domain(i, key) == domain)
            });
            let limit = spec.max_in_flight.map(|max| self.limit(spec, counter, max, unit));
            if let Some(limit) = limit.filter(|&l| adds > l && !whole_domain) {
                return Some(format!("a unit of {adds} {unit_word} never fits budget {name}, which allows {limit} in flight"));
            }
            let floor = spec.min_available.map_or(0, |min| min.ceil_of(counter.size));
            let most = counter.size.saturating_sub(floor);
            (adds > most).then(|| {
                format!("a unit of {adds} {unit_word} never fits budget {name}, which keeps {floor} of {} available", counter.size)
            })
        })
    }
}

impl Counter {
    fn new(budget: usize, each: Option<String>) -> Self {
        Self { budget, each, size: 0, reserved: 0, broken: 0, broken_before: 0, missing: 0, away: 0 }
    }
}

const fn weight(spec: &BudgetSpec, gpus: u32) -> u32 {
    match spec.unit {
        BudgetUnit::Nodes => 1,
        BudgetUnit::Gpus => gpus,
    }
}

/// Whether the count a node belongs to depends on its domain, not only on its pool.
fn by_node(spec: &BudgetSpec) -> bool {
    spec.scope.domain.is_some() || spec.each.and_then(domain_of).is_some()
}

/// Which count of a budget the nodes of a pool belong to: `Some(None)` for the only one, `None` for none.
fn each_of_pool(
    frame: &Frame<'_>,
    input: &crate::Input<'_>,
    pool: usize,
    spec: &BudgetSpec,
) -> Option<Option<String>> {
    let pool = frame.pools.get(pool)?;
    let value = match spec.each {
        None => return Some(None),
        Some(Each::Region) => input.fleet.clusters.get(&pool.spec.cluster)?.region.clone()?,
        Some(Each::Cluster) => pool.spec.cluster.to_string(),
        Some(Each::Tenant) => pool.spec.tenant.as_ref()?.to_string(),
        Some(Each::Pool) => pool.name.to_string(),
        // That depends on the node.
        Some(Each::NvlinkDomain | Each::ScalableUnit | Each::Rack | Each::Rail) => return None,
    };
    Some(Some(value))
}
