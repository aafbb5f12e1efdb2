//! Sanity of the ledger: what the plan is based on, and references between records.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{LedgerChange, NodeId, NodeRecord, RolloutId, RolloutKind, Target};

use super::{findings::Findings, view::View};

const LEDGER: &str = "I18 ledger";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    revisions(view, found);
    changes_are_in_place(view, found);
    references(view, found);
    visits(view, found);
    assignments(view, found);
    forgotten(view, found);
}

/// A plan may be committed only on the ledger it was made from, and `after` is that ledger with the changes applied.
fn revisions(view: &View<'_>, found: &mut Findings) {
    let (parent, have) = (view.plan.parent, view.input.ledger.revision);
    found.when(parent != have, LEDGER, || {
        format!("the plan is made for revision {parent}, the ledger is at {have}")
    });
    let expected = have.saturating_add(view.plan.changes.len() as u64);
    found.when(view.after.revision != expected, LEDGER, || {
        format!("revision {} after the plan, {expected} expected", view.after.revision)
    });
}

fn changes_are_in_place(view: &View<'_>, found: &mut Findings) {
    let mut last: BTreeMap<&NodeId, Option<&NodeRecord>> = BTreeMap::new();
    for change in &view.plan.changes {
        match change {
            LedgerChange::Node(id, record) => {
                last.insert(id, Some(&**record));
            }
            LedgerChange::ForgetNode(id) => {
                last.insert(id, None);
            }
            LedgerChange::Rollout(_)
            | LedgerChange::ForgetRollout(_)
            | LedgerChange::ForgetCommand(_)
            | LedgerChange::Quarantine(..)
            | LedgerChange::Release(..)
            | LedgerChange::Remember(..)
            | LedgerChange::Command(..) => {}
        }
    }
    for (id, record) in last {
        found.when(view.after.nodes.get(id) != record, LEDGER, || {
            format!("{id}: the record isn't what the last change says")
        });
    }
}

/// The way back must never depend on Git: every release that a changed record names has its contents in the ledger.
fn references(view: &View<'_>, found: &mut Findings) {
    for change in &view.changed {
        let Some(record) = change.after else { continue };
        let mut named: Vec<(&str, &Target)> = Vec::new();
        if let Some(visit) = &record.visit {
            named.extend([("visit.from", &visit.from), ("visit.to", &visit.to)]);
        }
        if let Some(soak) = &record.soak {
            named.extend([("soak.target", &soak.target), ("soak.from", &soak.from)]);
        }
        if let Some(assignment) = &record.assignment {
            named.push(("assignment.target", &assignment.target));
        }
        named.extend(record.last_known_good.iter().map(|good| ("lastKnownGood", good)));
        named.extend(record.previous_good.iter().map(|good| ("previousGood", good)));
        for (what, target) in named {
            found.when(!view.after.releases.contains_key(&target.release), LEDGER, || {
                format!("{}: nobody remembers {} of {what}", change.id, target.release)
            });
        }
    }
}

fn visits(view: &View<'_>, found: &mut Findings) {
    for held in &view.held {
        let holder = &held.visit.rollout;
        found.when(!view.after.rollouts.contains_key(holder), "I3 single holder", || {
            format!("{} is held by {holder}, which doesn't exist", held.id)
        });
        match &held.record.assignment {
            None => found
                .add("I18 one visit", || format!("{} is held by {holder} without an assignment", held.id)),
            Some(a) => found.when(a.rollout != *holder, "I18 one visit", || {
                format!("{} is held by {holder} and assigned to {}", held.id, a.rollout)
            }),
        }
        found.when(held.record.quarantine.is_some(), "I6 cordon hygiene", || {
            format!("{} is held by {holder} and quarantined at the same time", held.id)
        });
    }
}

/// Assignments end with their rollout. Every record is looked at, since a rollout that ends can leave any of them
/// behind; neighbours mostly share a rollout, so the last answer is kept.
fn assignments(view: &View<'_>, found: &mut Findings) {
    let mut last: Option<(&RolloutId, bool)> = None;
    for (id, record) in &view.after.nodes {
        let Some(assignment) = &record.assignment else { continue };
        let open = match last {
            Some((rollout, open)) if *rollout == assignment.rollout => open,
            _ => view.after.rollouts.get(&assignment.rollout).is_some_and(|r| !r.state.is_final()),
        };
        last = Some((&assignment.rollout, open));
        found.when(!open, LEDGER, || {
            format!("{id} is assigned to {}, which isn't an open rollout", assignment.rollout)
        });
    }
}

/// What is forgotten has ended, nothing names it, and nobody will hear what was said about it.
fn forgotten(view: &View<'_>, found: &mut Findings) {
    let gone: BTreeSet<&RolloutId> = view.plan.changes.iter().filter_map(forgets).collect();
    for id in &gone {
        let ended = view.input.ledger.rollouts.get(*id).is_some_and(|r| r.state.is_final());
        found.when(!ended, LEDGER, || format!("{id} is forgotten and hasn't ended"));
    }
    for change in &view.plan.changes {
        let LedgerChange::ForgetCommand(number) = change else { continue };
        let done = view.input.ledger.commands.get(number).is_some_and(|c| c.done);
        found.when(!done, LEDGER, || format!("command {number} is forgotten and wasn't obeyed"));
    }
    if gone.is_empty() {
        return;
    }
    let mut named: Vec<(String, &RolloutId)> = Vec::new();
    for (id, record) in &view.after.nodes {
        let of = [
            record.assignment.as_ref().map(|a| &a.rollout),
            record.visit.as_ref().map(|v| &v.rollout),
            record.soak.as_ref().map(|s| &s.rollout),
            record.quarantine.as_ref().map(|q| &q.rollout),
        ];
        let named_gone = of.into_iter().flatten().filter(|rollout| gone.contains(*rollout));
        named.extend(named_gone.map(|rollout| (id.to_string(), rollout)));
    }
    for ((pool, release), why) in &view.after.quarantines {
        named.push((format!("the quarantine of {release} on {pool}"), &why.rollout));
    }
    for open in view.after.open_rollouts() {
        let of = match &open.kind {
            RolloutKind::Rollback { of } => Some(of),
            RolloutKind::Forward | RolloutKind::Revert => None,
        };
        let all = open.child.iter().chain(&open.superseded_by).chain(of);
        named.extend(all.map(|other| (open.id.to_string(), other)));
    }
    for (who, rollout) in named {
        found.when(gone.contains(rollout), LEDGER, || format!("{rollout} is forgotten, and {who} names it"));
    }
}

fn forgets(change: &LedgerChange) -> Option<&RolloutId> {
    match change {
        LedgerChange::ForgetRollout(id) => Some(id),
        LedgerChange::Node(..)
        | LedgerChange::ForgetNode(_)
        | LedgerChange::Rollout(_)
        | LedgerChange::Quarantine(..)
        | LedgerChange::Release(..)
        | LedgerChange::Remember(..)
        | LedgerChange::Command(..)
        | LedgerChange::ForgetCommand(_) => None,
    }
}
