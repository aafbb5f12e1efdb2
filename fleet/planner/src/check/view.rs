//! What a check looks at: nodes whose record changed, nodes that are held, and nodes that were newly reserved.

use std::collections::BTreeSet;

use drydock_plan::{
    Course, Ledger, LedgerChange, NodeId, NodeRecord, ObservedNode, Plan, RolloutKind, RolloutRecord, Visit,
    VisitEnd,
};
use drydock_spec::{DomainKey, PoolName, PoolSpec};

use crate::Input;

/// A node whose record the plan changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) id: &'a NodeId,
    pub(super) before: Option<&'a NodeRecord>,
    pub(super) after: Option<&'a NodeRecord>,
    pub(super) seen: Option<&'a ObservedNode>,
}

impl<'a> Change<'a> {
    pub(super) fn visit_before(&self) -> Option<&'a Visit> {
        self.before?.visit.as_ref()
    }
    pub(super) fn visit_after(&self) -> Option<&'a Visit> {
        self.after?.visit.as_ref()
    }
    /// Both visits, where the plan goes on with one: the same reservation, or one that another rollout took over.
    pub(super) fn going_on(&self) -> Option<(&'a Visit, &'a Visit)> {
        let (before, after) = (self.visit_before()?, self.visit_after()?);
        let again = self.before?.epoch < self.after?.epoch;
        (!begins_anew(before, after, again)).then_some((before, after))
    }
    /// Another machine has the name now.
    pub(super) fn is_replaced(&self) -> bool {
        let known = self.before.and_then(|r| r.place.as_ref()).map_or("", |place| place.uid.as_str());
        let now = self.seen.map_or("", |seen| &*seen.uid);
        !known.is_empty() && !now.is_empty() && known != now
    }
    /// The plan takes the node into a reservation that wasn't there.
    pub(super) fn is_fresh(&self) -> bool {
        self.visit_after().is_some() && self.going_on().is_none()
    }
}

/// The same rollout, but another reservation: the old one ended and a new one began inside one plan.
fn begins_anew(before: &Visit, after: &Visit, another_epoch: bool) -> bool {
    before.rollout == after.rollout && (before.since != after.since || another_epoch)
}

/// A node that is reserved once the plan is committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) id: &'a NodeId,
    pub(super) record: &'a NodeRecord,
    pub(super) visit: &'a Visit,
}

/// A reservation that begins with this plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fresh<'a> {
    pub(super) id: &'a NodeId,
    pub(super) record: &'a NodeRecord,
    pub(super) visit: &'a Visit,
    pub(super) seen: Option<&'a ObservedNode>,
    pub(super) pool: Option<(&'a PoolName, &'a PoolSpec)>,
    pub(super) rollout: Option<&'a RolloutRecord>,
    /// A node that soaked for the same rollout and is sick now. It was moved already and is only being helped, so
    /// intents and calendars, which hold back new movement, don't hold it; budgets do.
    pub(super) urgent: bool,
}

impl Fresh<'_> {
    /// A way back: made by drydock after a halt, or a commit that goes back to what was good on this node.
    pub(super) fn is_way_back(&self) -> bool {
        let good = [&self.record.last_known_good, &self.record.previous_good];
        let was_good = good.into_iter().any(|t| t.as_ref() == Some(&self.visit.to));
        self.rollout.is_some_and(|r| match r.kind {
            RolloutKind::Forward => false,
            RolloutKind::Rollback { .. } => true,
            RolloutKind::Revert => was_good,
        })
    }
}

/// A node that is seen, or that a record speaks of, with its record after the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnyNode<'a> {
    pub(super) id: &'a NodeId,
    pub(super) seen: Option<&'a ObservedNode>,
    pub(super) record: Option<&'a NodeRecord>,
}

impl<'a> AnyNode<'a> {
    /// The pool it is counted in: the one it is seen in, else the one the ledger has it in. What two pools want is the
    /// ledger's, where that is one of them.
    pub(super) fn pool_name(&self) -> Option<&'a PoolName> {
        let part = self.record.and_then(|r| r.assignment.as_ref()).map(|a| &a.pool);
        let recorded = part.or_else(|| self.record?.place.as_ref()?.pool.as_ref());
        match self.seen {
            None => recorded,
            Some(seen) if seen.contested.is_empty() => seen.pool.as_ref().or(part),
            Some(seen) => {
                recorded.filter(|pool| seen.contested.contains(pool)).or(seen.pool.as_ref()).or(part)
            }
        }
    }
    /// Its domain of a kind; where labels don't tell, what its record remembers.
    pub(super) fn domain_name(&self, key: DomainKey) -> Option<&'a str> {
        let remembered = || self.record?.place.as_ref()?.domains.get(&key).map(String::as_str);
        match self.seen {
            Some(seen) => match seen.domain(key) {
                Some(name) => Some(name),
                None if seen.pool.is_none() => remembered(),
                None => None,
            },
            None => remembered(),
        }
    }
    /// Not usable, for whatever reason that isn't a reservation. What isn't seen isn't usable.
    pub(super) fn is_broken(&self) -> bool {
        self.seen.is_none_or(|seen| super::facts::is_broken(seen, self.record))
    }
}

/// Everything a check looks at.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) plan: &'a Plan,
    pub(super) after: &'a Ledger,
    pub(super) changed: Vec<Change<'a>>,
    pub(super) held: Vec<Held<'a>>,
    pub(super) fresh: Vec<Fresh<'a>>,
}

impl<'a> View<'a> {
    pub(super) fn new(input: &'a Input<'a>, plan: &'a Plan, after: &'a Ledger) -> Self {
        let ids: BTreeSet<&NodeId> = plan.changes.iter().filter_map(node_of).collect();
        let changed = ids
            .into_iter()
            .map(|id| Change {
                id,
                before: input.ledger.nodes.get(id),
                after: after.nodes.get(id),
                seen: input.inventory.nodes.get(id),
            })
            .collect();
        let held = after
            .nodes
            .iter()
            .filter_map(|(id, record)| Some(Held { id, record, visit: record.visit.as_ref()? }))
            .collect();
        let mut view = Self { input, plan, after, changed, held, fresh: Vec::new() };
        view.fresh = view.changed.iter().filter_map(|c| view.fresh_of(c)).collect();
        view
    }

    fn fresh_of(&self, change: &Change<'a>) -> Option<Fresh<'a>> {
        if !change.is_fresh() {
            return None;
        }
        let (record, visit) = (change.after?, change.visit_after()?);
        let soak = change.before.and_then(|b| b.soak.as_ref()).filter(|s| s.rollout == visit.rollout);
        let done = |a: &drydock_plan::Assignment| {
            a.rollout == visit.rollout && a.outcome == Some(drydock_plan::NodeOutcome::Done)
        };
        let was_done = change.before.and_then(|b| b.assignment.as_ref()).is_some_and(done);
        // It may have returned in this very plan, with the fault it is taken out for.
        let returned = change
            .visit_before()
            .is_some_and(|v| v.course == Course::Out(VisitEnd::Upgraded) && v.rollout == visit.rollout);
        let soaked = soak.is_some() || was_done || returned;
        // One that was away and is back again looks well; that it was away before is in its soak.
        let away_again = |n: &ObservedNode| soak.is_some_and(|s| s.spells > 0 && n.ready_since > s.since);
        let sick = change.seen.is_some_and(|n| !n.ready || !n.faults.is_empty() || away_again(n));
        Some(Fresh {
            id: change.id,
            record,
            visit,
            seen: change.seen,
            pool: change.seen.and_then(|n| {
                // Nothing may begin on a node that is in no pool, whatever it was taken for once.
                let any = AnyNode { id: change.id, seen: Some(n), record: change.after };
                let name = if n.contested.is_empty() { n.pool.as_ref() } else { any.pool_name() };
                let (name, pool) = self.input.fleet.pools.get_key_value(name?)?;
                Some((name, &pool.spec))
            }),
            rollout: self.after.rollouts.get(&visit.rollout).map(|r| &**r),
            urgent: soaked && sick,
        })
    }

    /// The pool of a node, as long as Git has it.
    pub(super) fn pool_of(&self, seen: &ObservedNode) -> Option<(&'a PoolName, &'a PoolSpec)> {
        let (name, pool) = self.input.fleet.pools.get_key_value(seen.pool.as_ref()?)?;
        Some((name, &pool.spec))
    }

    /// The pool a node belongs to as far as its part in a rollout goes: a label that flaps later doesn't change that.
    pub(super) fn pool_of_part(
        &self,
        record: Option<&NodeRecord>,
        seen: &ObservedNode,
    ) -> Option<&'a PoolSpec> {
        let assigned =
            record.and_then(|r| r.assignment.as_ref()).and_then(|a| self.input.fleet.pools.get(&a.pool));
        assigned.map(|pool| &pool.spec).or_else(|| self.pool_of(seen).map(|(_, pool)| pool))
    }

    /// Every node of the inventory with its record after the plan, and every record without a node. Both maps are sorted
    /// alike, so they are walked side by side instead of searched.
    pub(super) fn each_node(&self, mut look: impl FnMut(AnyNode<'a>)) {
        let mut records = self.after.nodes.iter();
        let mut next = records.next();
        for (id, seen) in &self.input.inventory.nodes {
            let mut record = None;
            while let Some((other, candidate)) = next {
                let order = other.cmp(id);
                if order.is_gt() {
                    break;
                }
                next = records.next();
                if order.is_eq() {
                    record = Some(candidate);
                    break;
                }
                look(AnyNode { id: other, seen: None, record: Some(candidate) });
            }
            look(AnyNode { id, seen: Some(seen), record });
        }
        for (id, record) in next.into_iter().chain(records) {
            look(AnyNode { id, seen: None, record: Some(record) });
        }
    }
}

fn node_of(change: &LedgerChange) -> Option<&NodeId> {
    match change {
        LedgerChange::Node(id, _) | LedgerChange::ForgetNode(id) => Some(id),
        LedgerChange::Rollout(_)
        | LedgerChange::ForgetRollout(_)
        | LedgerChange::ForgetCommand(_)
        | LedgerChange::Quarantine(..)
        | LedgerChange::Release(..)
        | LedgerChange::Remember(..)
        | LedgerChange::Command(..) => None,
    }
}
