//! A plan that breaks an invariant is cut down, not thrown away. What is wrong with one cluster's part stops that part:
//! new reservations go first, then everything of the cluster but what is always safe, and at worst it is asked for what the
//! ledger had decided before. What is on its way home goes on wherever it can.
//!
//! It asks the checker after every cut, so it never has to know which rule was broken, nor why.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Action, Course, Ledger, LedgerChange, NodeId, NodeRecord, Plan, RolloutId, UnitId};

use crate::{
    Input,
    check::{Violation, check},
    pass::Pass,
};

/// What is left of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// What may be carried out.
    pub plan: Plan,
    /// What was left out of it, a sentence each.
    pub left_out: Vec<String>,
}

/// How much of a cluster's part of a plan is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keep {
    /// Nothing of it: only what was decided before.
    Before,
    /// Returns, quarantines, and ends.
    Safe,
    /// Everything but new reservations.
    NothingNew,
    /// All of it.
    All,
}

/// Cuts a plan down until it breaks nothing that wasn't broken before it.
#[must_use]
pub fn cut_down(input: &Input<'_>, plan: &Plan) -> Cut {
    let cutter = Cutter::new(input, plan);
    let whole = cutter.with(&cutter.all(Keep::All));
    if cutter.is_fine(&whole) {
        return Cut { plan: whole, left_out: Vec::new() };
    }
    let nothing_new = cutter.all(Keep::NothingNew);
    let mut keep = if cutter.is_fine(&cutter.with(&nothing_new)) {
        nothing_new
    } else {
        // The least first, and then each cluster gets back as much as does no harm: one is never cut for another's sake.
        let mut keep = cutter.all(Keep::Before);
        for cluster in cutter.clusters.iter().copied() {
            for more in [Keep::NothingNew, Keep::Safe] {
                let tried = keep.clone().into_iter().chain([(cluster, more)]).collect();
                if cutter.is_fine(&cutter.with(&tried)) {
                    keep = tried;
                    break;
                }
            }
        }
        keep
    };
    for cluster in cutter.with_new.iter().copied() {
        let tried: BTreeMap<&str, Keep> = keep.clone().into_iter().chain([(cluster, Keep::All)]).collect();
        if keep.get(cluster) == Some(&Keep::NothingNew) && cutter.is_fine(&cutter.with(&tried)) {
            keep = tried;
        }
    }
    Cut { left_out: cutter.left_out(&keep), plan: cutter.with(&keep) }
}

struct Cutter<'a> {
    input: &'a Input<'a>,
    plan: &'a Plan,
    /// Broken already, whatever is planned: no reason to plan nothing.
    known: Vec<Violation>,
    /// What every node was to be asked for before this plan.
    decided: Vec<Action>,
    /// Clusters that the plan is about.
    clusters: BTreeSet<&'a str>,
    /// Those of them in which it reserves something.
    with_new: BTreeSet<&'a str>,
    /// New records of nodes.
    records: BTreeMap<&'a NodeId, Option<&'a NodeRecord>>,
    /// Clusters whose nodes a rollout has to do with, before or after.
    reach: BTreeMap<&'a RolloutId, BTreeSet<&'a str>>,
}

impl<'a> Cutter<'a> {
    fn new(input: &'a Input<'a>, plan: &'a Plan) -> Self {
        let mut cutter = Self {
            input,
            plan,
            known: Vec::new(),
            decided: Pass::new(*input).actions(),
            clusters: plan.actions.iter().map(|a| a.node.cluster()).collect(),
            with_new: BTreeSet::new(),
            records: BTreeMap::new(),
            reach: BTreeMap::new(),
        };
        let nothing = Plan { parent: plan.parent, changes: Vec::new(), actions: Vec::new() };
        cutter.known = check(input, &nothing, input.ledger);
        for change in &plan.changes {
            let (id, record) = match change {
                LedgerChange::Node(id, record) => (id, Some(&**record)),
                LedgerChange::ForgetNode(id) => (id, None),
                LedgerChange::Rollout(_)
                | LedgerChange::ForgetRollout(_)
                | LedgerChange::ForgetCommand(_)
                | LedgerChange::Quarantine(..)
                | LedgerChange::Release(..)
                | LedgerChange::Remember(..)
                | LedgerChange::Command(..) => continue,
            };
            cutter.records.insert(id, record);
        }
        let changed: Vec<_> = cutter.records.iter().map(|(id, record)| (*id, *record)).collect();
        for (id, after) in changed {
            cutter.clusters.insert(id.cluster());
            if cutter.is_new(id, after) {
                cutter.with_new.insert(id.cluster());
            }
            let before = input.ledger.nodes.get(id);
            for rollout in [before, after].into_iter().flatten().flat_map(rollouts_of) {
                cutter.reach.entry(rollout).or_default().insert(id.cluster());
            }
        }
        cutter
    }

    fn all(&self, keep: Keep) -> BTreeMap<&'a str, Keep> {
        self.clusters.iter().map(|cluster| (*cluster, keep)).collect()
    }

    fn is_fine(&self, plan: &Plan) -> bool {
        let mut after = Ledger::clone(self.input.ledger);
        plan.changes.iter().for_each(|change| after.apply(change.clone()));
        check(self.input, plan, &after).iter().all(|found| self.known.contains(found))
    }

    /// The plan with so much of every cluster.
    fn with(&self, keep: &BTreeMap<&str, Keep>) -> Plan {
        let of = |cluster: &str| keep.get(cluster).copied().unwrap_or(Keep::All);
        let whole = keep.values().all(|k| *k == Keep::All);
        // What people said is done only where all of it is done.
        let nearly = keep.values().all(|k| *k >= Keep::NothingNew);
        let reached = |rollout: &RolloutId| {
            self.reach.get(rollout).is_none_or(|clusters| clusters.iter().all(|c| of(c) >= Keep::NothingNew))
        };
        let mut dropped: BTreeSet<&NodeId> = BTreeSet::new();
        let mut entered: BTreeMap<&RolloutId, BTreeSet<(u16, &UnitId)>> = BTreeMap::new();
        let mut changes = Vec::new();
        for change in &self.plan.changes {
            let kept = match change {
                LedgerChange::Node(id, record) => {
                    let (before, keep) = (self.input.ledger.nodes.get(id), of(id.cluster()));
                    let new = self.is_new(id, Some(record));
                    match keep {
                        Keep::All => Some(change.clone()),
                        Keep::NothingNew if new => {
                            dropped.insert(id);
                            entered_by(before, record, &mut entered);
                            without_visit(before, record).map(|r| LedgerChange::Node(id.clone(), Box::new(r)))
                        }
                        Keep::NothingNew => Some(change.clone()),
                        Keep::Safe => is_safe(before, record).then(|| change.clone()),
                        Keep::Before => None,
                    }
                }
                LedgerChange::ForgetNode(id) => (of(id.cluster()) >= Keep::Safe).then(|| change.clone()),
                LedgerChange::Rollout(record) => reached(&record.id).then(|| change.clone()),
                LedgerChange::Quarantine(_, _, why) => reached(&why.rollout).then(|| change.clone()),
                LedgerChange::Remember(..) => Some(change.clone()),
                LedgerChange::Release(..)
                | LedgerChange::Command(..)
                | LedgerChange::ForgetCommand(_)
                | LedgerChange::ForgetRollout(_) => (whole || nearly).then(|| change.clone()),
            };
            changes.extend(kept);
        }
        for change in &mut changes {
            let LedgerChange::Rollout(record) = change else { continue };
            let before = self.input.ledger.rollouts.get(&record.id);
            let units = entered.get(&record.id);
            for (at, wave) in record.waves.iter_mut().enumerate() {
                let left = units.map_or(0, |u| u.iter().filter(|(w, _)| usize::from(*w) == at).count());
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                let old = before.and_then(|b| b.waves.get(at));
                // No more than this very plan has counted.
                let entered = old.filter(|o| o.batch == wave.batch).map_or(0, |o| o.in_batch);
                wave.in_batch -= left.min(wave.in_batch.saturating_sub(entered));
            }
        }
        let written: BTreeSet<&NodeId> = changes.iter().filter_map(node_of).collect();
        let unmoved = |id: &NodeId| {
            dropped.contains(id) || of(id.cluster()) < Keep::NothingNew && !written.contains(id)
        };
        let planned = self.plan.actions.iter().filter(|a| !unmoved(&a.node));
        let before = self.decided.iter().filter(|a| unmoved(&a.node));
        let mut actions: Vec<Action> = planned.chain(before).cloned().collect();
        actions.sort_by(|a, b| a.node.cmp(&b.node));
        Plan { parent: self.plan.parent, changes, actions }
    }

    /// The plan takes the node into a reservation that wasn't there.
    fn is_new(&self, id: &NodeId, record: Option<&NodeRecord>) -> bool {
        let Some(visit) = record.and_then(|r| r.visit.as_ref()) else { return false };
        let before = self.input.ledger.nodes.get(id).and_then(|r| r.visit.as_ref());
        before.is_none_or(|old| old.rollout == visit.rollout && old.since != visit.since)
    }

    fn left_out(&self, keep: &BTreeMap<&str, Keep>) -> Vec<String> {
        let new = |cluster: &str| {
            let mine = self
                .records
                .iter()
                .filter(|(id, record)| id.cluster() == cluster && self.is_new(id, **record));
            mine.count()
        };
        let text = |(cluster, keep): (&&str, &Keep)| match keep {
            Keep::All => None,
            Keep::NothingNew => match new(cluster) {
                0 => None,
                n => Some(format!("{cluster}: {n} new reservations are left out")),
            },
            Keep::Safe => {
                Some(format!("{cluster}: everything but returns, quarantines and ends is left out"))
            }
            Keep::Before => Some(format!("{cluster}: everything is left out that wasn't decided before")),
        };
        keep.iter().filter_map(text).collect()
    }
}

fn node_of(change: &LedgerChange) -> Option<&NodeId> {
    match change {
        LedgerChange::Node(id, _) => Some(id),
        LedgerChange::ForgetNode(_)
        | LedgerChange::Rollout(_)
        | LedgerChange::ForgetRollout(_)
        | LedgerChange::ForgetCommand(_)
        | LedgerChange::Quarantine(..)
        | LedgerChange::Release(..)
        | LedgerChange::Remember(..)
        | LedgerChange::Command(..) => None,
    }
}

fn rollouts_of(record: &NodeRecord) -> impl Iterator<Item = &RolloutId> {
    let part = record.assignment.as_ref().map(|a| &a.rollout);
    let held = record.visit.as_ref().map(|v| &v.rollout);
    let watched = record.soak.as_ref().map(|s| &s.rollout);
    [part, held, watched].into_iter().flatten()
}

/// Nothing is begun by it: the node goes home, is home, or is kept away from work.
fn is_safe(before: Option<&NodeRecord>, after: &NodeRecord) -> bool {
    let was = before.and_then(|r| r.visit.as_ref());
    let quarantined = after.quarantine.is_some() && before.is_none_or(|r| r.quarantine.is_none());
    let out = |v: &drydock_plan::Visit| matches!(v.course, Course::Out(_));
    match &after.visit {
        Some(visit) => was.is_some() && out(visit),
        None => quarantined || was.is_some_and(out),
    }
}

/// A record without the reservation that a plan puts into it; absent when nothing else changes.
fn without_visit(before: Option<&NodeRecord>, after: &NodeRecord) -> Option<NodeRecord> {
    let none = NodeRecord::default();
    let old = before.unwrap_or(&none);
    if old.visit.is_some() {
        // One visit ended and another began: the end comes with a pass of its own.
        return None;
    }
    let mut record = after.clone();
    record.visit = None;
    (record.epoch, record.generation) = (old.epoch, old.generation);
    record.soak.clone_from(&old.soak);
    record.not_before = old.not_before;
    if let Some(part) = &mut record.assignment {
        let same = old.assignment.as_ref().filter(|a| a.rollout == part.rollout);
        part.batch = same.and_then(|a| a.batch);
        part.carries = same.map(|a| a.carries.clone()).unwrap_or_default();
    }
    (record != *old).then_some(record)
}

/// The unit that a new reservation counts as in its batch. A node that is taken out of its soak counts as none.
fn entered_by<'r>(
    before: Option<&NodeRecord>,
    after: &'r NodeRecord,
    entered: &mut BTreeMap<&'r RolloutId, BTreeSet<(u16, &'r UnitId)>>,
) {
    let (Some(visit), Some(part)) = (&after.visit, &after.assignment) else { return };
    let soaked = before.and_then(|r| r.soak.as_ref()).is_some_and(|s| s.rollout == visit.rollout);
    if !soaked {
        entered.entry(&visit.rollout).or_default().insert((part.wave, &visit.unit));
    }
}
