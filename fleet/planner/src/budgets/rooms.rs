//! How much room budgets leave: for a unit that waits to go first, and for one that is reserved and still serves.

use std::collections::BTreeMap;

use drydock_plan::Reason;
use drydock_spec::BudgetName;

use super::{ActiveBudget, Asking, active, weight};
use crate::pass::Pass;

/// One limit of one count: how much may be in flight, or how much must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoomAt {
    counter: u32,
    floor: bool,
}

/// The room that a limit leaves, as a unit meets it.
#[derive(Debug, Clone)]
pub(crate) struct Room<'a> {
    pub at: RoomAt,
    pub budget: &'a BudgetName,
    /// What is left; below zero where it is passed already.
    pub free: i64,
    /// What would be left if everything in flight were back and well.
    pub most: i64,
    /// What the unit takes.
    pub adds: u32,
}

impl Room<'_> {
    pub(crate) const fn is_floor(&self) -> bool {
        self.at.floor
    }
}

impl<'a> Pass<'a> {
    /// The room of every limit that concerns these nodes.
    pub(crate) fn rooms(&mut self, unit: &[usize], asking: Asking) -> Vec<Room<'a>> {
        self.count();
        let budgets = active(&self.input);
        let Some(counts) = &self.counters else { return Vec::new() };
        let mut adds: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for &i in unit {
            for at in counts.touched(i) {
                let spec = budgets[counts.counters[at as usize].budget].spec;
                let weight = weight(spec, self.frame.nodes[i].gpus);
                let add = adds.entry(at).or_default();
                add.0 += if self.rec(i).visit.is_some() { 0 } else { weight };
                add.1 += if self.rec(i).visit.is_some() || self.broken(i) { 0 } else { weight };
            }
        }
        let mut rooms = Vec::new();
        for (at, (in_flight, away)) in adds {
            let counter = &counts.counters[at as usize];
            let ActiveBudget { name, spec } = budgets[counter.budget];
            let rollback = asking.reason == drydock_spec::Reason::Rollback;
            if !rollback && spec.reasons.as_ref().is_some_and(|r| !r.contains(&asking.reason)) {
                continue;
            }
            if let Some(max) = spec.max_in_flight
                && in_flight > 0
                && !self.one_domain(spec, at, unit)
            {
                let limit = i64::from(self.limit(spec, counter, max, unit));
                let free = limit - i64::from(counter.reserved);
                let at = RoomAt { counter: at, floor: false };
                rooms.push(Room { at, budget: name, free, most: limit, adds: in_flight });
            }
            if let Some(min) = spec.min_available
                && away > 0
            {
                let floor = i64::from(min.ceil_of(counter.size));
                let spared = counter.broken_before.min(spec.broken_allowance.0.floor_of(counter.size));
                let there = i64::from(counter.size) + i64::from(spared) - floor;
                let (free, most) = (there - i64::from(counter.away), there - i64::from(counter.broken));
                let at = RoomAt { counter: at, floor: true };
                rooms.push(Room { at, budget: name, free, most, adds: away });
            }
        }
        rooms
    }

    /// What a node in flight gives back to a limit when it returns.
    pub(crate) fn weight_at(&self, at: RoomAt, i: usize) -> u32 {
        let Some(counts) = &self.counters else { return 0 };
        let touches = counts.touched(i).any(|t| t == at.counter);
        if !touches || at.floor && self.broken(i) {
            return 0;
        }
        let budget = counts.counters[at.counter as usize].budget;
        active(&self.input).get(budget).map_or(0, |b| weight(b.spec, self.frame.nodes[i].gpus))
    }

    /// A floor that doesn't hold any more for nodes that are reserved and still serve. Others that still serve aren't
    /// away yet either: whoever crosses first takes what is left.
    pub(crate) fn floor_broken(&mut self, unit: &[usize], asking: Asking) -> Option<Reason> {
        self.count();
        let budgets = active(&self.input);
        let counts = self.counters.as_ref()?;
        let serves = |i: usize| {
            let visit = self.rec(i).visit.as_ref();
            visit.is_some_and(|v| v.step == drydock_plan::Step::Preflight) && !self.broken(i)
        };
        let others: Vec<usize> =
            counts.flying.iter().copied().filter(|&i| serves(i) && !unit.contains(&i)).collect();
        let healthy: Vec<usize> = unit.iter().copied().filter(|&i| !self.broken(i)).collect();
        let weigh = |at: u32, nodes: &[usize]| -> u32 {
            let spec = budgets[counts.counters[at as usize].budget].spec;
            let touches = |i: &&usize| counts.touched(**i).any(|t| t == at);
            nodes.iter().filter(touches).map(|&i| weight(spec, self.frame.nodes[i].gpus)).sum()
        };
        let mut touched: Vec<u32> = healthy.iter().flat_map(|&i| counts.touched(i)).collect();
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().find_map(|at| {
            let counter = &counts.counters[at as usize];
            let ActiveBudget { name, spec } = budgets[counter.budget];
            let rollback = asking.reason == drydock_spec::Reason::Rollback;
            if !rollback && spec.reasons.as_ref().is_some_and(|r| !r.contains(&asking.reason)) {
                return None;
            }
            let floor = spec.min_available?.ceil_of(counter.size);
            let spared = counter.broken_before.min(spec.broken_allowance.0.floor_of(counter.size));
            let away = counter.away.saturating_sub(weigh(at, &others));
            let available = (counter.size + spared).saturating_sub(away);
            (available < floor).then(|| Reason::BudgetFloor {
                budget: name.clone(),
                each: counter.each.clone(),
                unit: spec.unit.into(),
                floor,
                available,
                broken: counter.broken,
                missing: counter.missing,
                spared,
                adds: weigh(at, &healthy),
            })
        })
    }
}
