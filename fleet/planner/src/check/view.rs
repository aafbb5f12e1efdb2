//! What a check looks at: nodes whose record changed, nodes that are held, and nodes that were newly reserved.

use std::collections::BTreeSet;

use drydock_plan::{
    Ledger, LedgerChange, NodeId, NodeRecord, ObservedNode, Plan, RolloutKind, RolloutRecord, Visit,
};
use drydock_spec::{PoolName, PoolSpec};

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
    /// A way back: made by drydock after a halt, or a commit that goes back to what was good.
    pub(super) fn is_way_back(&self) -> bool {
        self.rollout.is_some_and(|r| match r.kind {
            RolloutKind::Forward => false,
            RolloutKind::Rollback { .. } | RolloutKind::Revert => true,
        })
    }
}

/// A node of the inventory with its record after the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenNode<'a> {
    pub(super) id: &'a NodeId,
    pub(super) seen: &'a ObservedNode,
    pub(super) record: Option<&'a NodeRecord>,
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
        let was = |b: &NodeRecord| {
            let done = |a: &drydock_plan::Assignment| {
                a.rollout == visit.rollout && a.outcome == Some(drydock_plan::NodeOutcome::Done)
            };
            b.soak.as_ref().is_some_and(|s| s.rollout == visit.rollout)
                || b.assignment.as_ref().is_some_and(done)
        };
        let soaked = change.before.is_some_and(was);
        let sick = change.seen.is_some_and(|n| !n.ready || !n.faults.is_empty());
        Some(Fresh {
            id: change.id,
            record,
            visit,
            seen: change.seen,
            pool: change.seen.and_then(|n| self.pool_of(n)),
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

    /// Every node of the inventory with its record after the plan. Both maps are sorted alike, so they are walked
    /// side by side instead of searched.
    pub(super) fn each_seen(&self, mut look: impl FnMut(SeenNode<'a>)) {
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
            }
            look(SeenNode { id, seen, record });
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
