//! I5: no domain loses more nodes than its spread allows, and what must move together enters together.

use std::collections::BTreeMap;

use drydock_plan::{NodeId, NodeRecord, ObservedNode, RolloutId, RolloutRecord};
use drydock_spec::{Amount, DomainKey, Spread};

use super::{
    facts::{self, Domain},
    findings::Findings,
    view::{AnyNode, View},
};

type DomainOf<'a> = (DomainKey, Domain<'a>);

/// What is counted for one domain.
#[derive(Default)]
struct Tally<'a> {
    size: u64,
    reserved: u64,
    members: Vec<AnyNode<'a>>,
    /// A new reservation, and the strictest limit among the rollouts that made one.
    spread: Option<(&'a NodeId, &'a Spread)>,
    /// Rollouts that newly reserved a part and must move the whole.
    atomic: BTreeMap<&'a RolloutId, (&'a NodeId, &'a RolloutRecord)>,
}

/// Counts of all domains that a new reservation touches.
pub(super) struct Tallies<'a> {
    domains: BTreeMap<DomainOf<'a>, Tally<'a>>,
    keys: Vec<DomainKey>,
}

impl<'a> Tallies<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let mut domains: BTreeMap<DomainOf<'a>, Tally<'a>> = BTreeMap::new();
        for fresh in &view.fresh {
            let Some(rollout) = fresh.rollout else { continue };
            let node = AnyNode { id: fresh.id, seen: fresh.seen, record: Some(fresh.record) };
            let of = |key| Domain::of(&node, key).map(|domain| (key, domain));
            for spread in &rollout.strategy.spread {
                let Some(domain) = of(spread.key) else { continue };
                let tally = domains.entry(domain).or_default();
                let stricter = tally.spread.is_none_or(|(_, old)| is_stricter(spread, old));
                if stricter {
                    tally.spread = Some((fresh.id, spread));
                }
            }
            // A node that is only being helped doesn't take its whole domain out again.
            for &key in rollout.strategy.atomic.iter().filter(|_| !fresh.urgent) {
                let Some(domain) = of(key) else { continue };
                domains.entry(domain).or_default().atomic.insert(&rollout.id, (fresh.id, rollout));
            }
        }
        let mut keys: Vec<DomainKey> = domains.keys().map(|(key, _)| *key).collect();
        keys.dedup();
        Self { domains, keys }
    }

    pub(super) fn add(&mut self, node: AnyNode<'a>) {
        for &key in &self.keys {
            let Some(domain) = Domain::of(&node, key) else { continue };
            let Some(tally) = self.domains.get_mut(&(key, domain)) else { continue };
            tally.size += u64::from(node.pool_name().is_some());
            tally.reserved += u64::from(node.record.is_some_and(|r| r.visit.is_some()));
            if !tally.atomic.is_empty() {
                tally.members.push(node);
            }
        }
    }

    pub(super) fn judge(&self, view: &View<'_>, found: &mut Findings) {
        for ((key, domain), tally) in &self.domains {
            let name = || format!("{} {domain}", key.as_str());
            if let Some((node, spread)) = tally.spread {
                let limit = limit_of(spread, tally.size);
                found.when(tally.reserved > limit, "I5 spread", || {
                    format!("{node} is reserved and {} has {} away of {limit}", name(), tally.reserved)
                });
            }
            for (id, (node, rollout)) in &tally.atomic {
                let left = tally.members.iter().find(|m| is_left_behind(view, m, id, rollout));
                if let Some(left) = left {
                    found.add("I5 atomic", || {
                        format!("{node} is reserved and {} of the same {} isn't", left.id, name())
                    });
                }
            }
        }
    }
}

/// Of two limits on one domain, whether the first can allow less. Counts and percentages aren't compared: the first
/// seen stays.
fn is_stricter(new: &Spread, old: &Spread) -> bool {
    match (new.max, old.max) {
        (Amount::Count(new), Amount::Count(old)) | (Amount::Percent(new), Amount::Percent(old)) => new < old,
        (Amount::Count(_), Amount::Percent(_)) | (Amount::Percent(_), Amount::Count(_)) => false,
    }
}

fn limit_of(spread: &Spread, size: u64) -> u64 {
    match spread.max {
        Amount::Count(n) => u64::from(n),
        Amount::Percent(hundredths) => {
            let limit = size * u64::from(hundredths) / 10_000;
            let one = spread.at_least_one && hundredths > 0;
            limit.max(u64::from(one))
        }
    }
}

/// A member that the rollout should have taken along: assigned to it, with its part still to do, fit to be taken, and
/// not held.
fn is_left_behind(view: &View<'_>, member: &AnyNode<'_>, id: &RolloutId, rollout: &RolloutRecord) -> bool {
    let Some(record) = member.record else { return false };
    let Some(assignment) = record.assignment.as_ref().filter(|a| a.rollout == *id) else { return false };
    let held = record.visit.as_ref().is_some_and(|v| v.rollout == *id);
    let moved = record.soak.as_ref().is_some_and(|s| s.target == assignment.target);
    // What isn't seen can't be taken along.
    let Some(seen) = member.seen else { return false };
    let pool = view.pool_of(seen).map(|(_, pool)| pool);
    let there = || {
        let back = facts::is_automatic_rollback(rollout);
        let carries = back.then_some(&assignment.carries[..]);
        let target = &assignment.target;
        facts::runs(view.input.fleet, view.after, pool, seen, target, back, carries) == Some(true)
    };
    assignment.outcome.is_none() && !held && !moved && is_fit(seen, record) && !there()
}

fn is_fit(seen: &ObservedNode, record: &NodeRecord) -> bool {
    !facts::is_broken(seen, Some(record))
}
