//! I5 at the point of no return: no node of an atomic domain is changed while one that has to move with it isn't there.

use drydock_plan::{Course, NodeOutcome, NodeRecord, SkipReason, Visit};

use super::{
    facts::{self, Domain},
    findings::Findings,
    view::{AnyNode, Change, View},
};

/// A visit that begins to change its node with this plan.
fn crosses<'a>(change: &Change<'a>) -> Option<&'a Visit> {
    let (before, after) = (change.visit_before()?, change.visit_after()?);
    let forward = after.course == Course::Forward && before.course == Course::Forward;
    let first = before.step.stage() < 4 && after.step.stage() >= 4 && !before.changed;
    let exposed = change.before?.assignment.as_ref().is_some_and(|a| a.exposed.is_some());
    (forward && first && after.atomic && !exposed).then_some(after)
}

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    let crossing: Vec<(&Change<'_>, &Visit)> =
        view.changed.iter().filter_map(|c| Some((c, crosses(c)?))).collect();
    if crossing.is_empty() {
        return;
    }
    view.each_node(|mate| {
        for (change, visit) in &crossing {
            if change.id != mate.id && is_missing(view, change, visit, &mate) {
                found.add("I5 atomic", || {
                    format!("{} is changed and {} of the same domain isn't with it", change.id, mate.id)
                });
            }
        }
    });
}

/// It moves together with the changed node, serves on something else, and isn't held ready to be changed as well.
fn is_missing(view: &View<'_>, change: &Change<'_>, visit: &Visit, mate: &AnyNode<'_>) -> bool {
    let Some(rollout) = view.after.rollouts.get(&visit.rollout) else { return false };
    let (Some(mate_seen), true) = (mate.seen, change.seen.is_some()) else { return false };
    let mine = AnyNode { id: change.id, seen: change.seen, record: change.after };
    let keys = &rollout.strategy.atomic;
    let same = keys.iter().any(|&key| {
        let domain = Domain::of(&mine, key);
        domain.is_some() && domain == Domain::of(mate, key)
    });
    let Some(record) = mate.record.filter(|_| same) else { return false };
    let Some(part) = record.assignment.as_ref().filter(|a| a.rollout == rollout.id) else { return false };
    if change.after.and_then(|r| r.assignment.as_ref()).is_none_or(|mine| mine.wave != part.wave) {
        return false;
    }
    if facts::is_broken(mate_seen, Some(record)) || is_stale(view, mate) || stands_ready(record, visit) {
        return false;
    }
    let open = match &part.outcome {
        None => record.soak.is_none(),
        Some(NodeOutcome::Skipped(SkipReason::AlreadyThere)) => false,
        Some(NodeOutcome::Skipped(_) | NodeOutcome::Reverted) => true,
        Some(NodeOutcome::Done | NodeOutcome::Quarantined | NodeOutcome::Gone) => false,
    };
    let pool = view.pool_of(mate_seen).map(|(_, pool)| pool);
    let back = facts::is_automatic_rollback(rollout);
    let carries = back.then_some(&part.carries[..]);
    let fleet = view.input.fleet;
    let there = facts::runs(fleet, view.after, pool, mate_seen, &part.target, back, carries) == Some(true);
    open && !there
}

/// Emptied and waiting, or past that, in the same unit.
fn stands_ready(record: &NodeRecord, with: &Visit) -> bool {
    record.visit.as_ref().is_some_and(|v| {
        let leaves = matches!(v.course, Course::Out(_)) && !v.changed;
        v.rollout == with.rollout && v.unit == with.unit && v.step.stage() >= 3 && !leaves
    })
}

fn is_stale(view: &View<'_>, mate: &AnyNode<'_>) -> bool {
    let clusters = &view.input.inventory.clusters;
    clusters
        .iter()
        .find(|(name, _)| name.as_str() == mate.id.cluster())
        .is_none_or(|(_, c)| c.error.is_some())
}
