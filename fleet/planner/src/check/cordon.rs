//! I6: no cordon is left behind. I17: nothing holds a return.

use std::collections::BTreeSet;

use drydock_plan::{CommandKind, Course, Ensure, LedgerChange, NodeId, PauseReason, RolloutState, Step};

use super::{
    findings::Findings,
    view::{Change, View},
};

const HYGIENE: &str = "I6 cordon hygiene";
const RECOVERY: &str = "I17 recovery";
/// A cluster without news for so long is as good as unreachable: an answer from it wouldn't be seen either.
const OUT_OF_TOUCH: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    final_rollouts_hold_nothing(view, found);
    returning_nodes_are_left_alone(view, found);
    returning_nodes_return(view, found);
    halted_rollouts_give_back(view, found);
    for change in &view.changed {
        visit_ends_cleanly(change, found);
        quarantine(view, change, found);
    }
    for change in &view.plan.changes {
        if let LedgerChange::ForgetNode(id) = change {
            forgotten(view, id, found);
        }
    }
}

fn final_rollouts_hold_nothing(view: &View<'_>, found: &mut Findings) {
    for held in &view.held {
        let state = view.after.rollouts.get(&held.visit.rollout).map(|r| &r.state);
        found.when(state.is_some_and(RolloutState::is_final), HYGIENE, || {
            let word = state.map_or("gone", RolloutState::word);
            format!("{} is held by {}, which is {word}", held.id, held.visit.rollout)
        });
    }
}

/// Once a node is on its way out, nothing is done to it any more but to let it go.
fn returning_nodes_are_left_alone(view: &View<'_>, found: &mut Findings) {
    for action in &view.plan.actions {
        let course = view.after.nodes.get(&action.node).and_then(|r| r.visit.as_ref()).map(|v| &v.course);
        match (&action.ensure, course) {
            (Ensure::Returned, Some(Course::Out(_)) | None) => {}
            (Ensure::Returned, Some(course)) => {
                found.add(HYGIENE, || format!("{} is let go on course {course:?}", action.node))
            }
            (other, Some(Course::Out(_))) => {
                found.add(HYGIENE, || format!("{} on {}, which is on its way out", other.word(), action.node))
            }
            _ => {}
        }
    }
}

/// No budget, pause, freeze or halt keeps a node that is ready to go; only a cluster that can't be reached does.
fn returning_nodes_return(view: &View<'_>, found: &mut Findings) {
    let mut returned: Option<BTreeSet<&NodeId>> = None;
    for held in view.held.iter().filter(|h| matches!(h.visit.course, Course::Out(_))) {
        let returned = returned.get_or_insert_with(|| {
            let let_go = |a: &&drydock_plan::Action| a.ensure == Ensure::Returned;
            view.plan.actions.iter().filter(let_go).map(|a| &a.node).collect()
        });
        let reachable = view.input.inventory.nodes.contains_key(held.id)
            && view.input.inventory.clusters.get(held.id.cluster()).is_none_or(|c| {
                c.error.is_none() && view.input.now.duration_since(c.seen_at) <= OUT_OF_TOUCH
            });
        found.when(reachable && !returned.contains(held.id), RECOVERY, || {
            format!("{} is on its way out and isn't let go", held.id)
        });
    }
}

/// A node that a halted or aborted rollout hasn't begun to change is given back. One pass of grace: the halt and the return may
/// be decided one after the other.
fn halted_rollouts_give_back(view: &View<'_>, found: &mut Findings) {
    for held in &view.held {
        let id = &held.visit.rollout;
        let halted = |l: &drydock_plan::Ledger| {
            l.rollouts.get(id).is_some_and(|r| match r.state {
                RolloutState::Halted
                | RolloutState::RollingBack
                | RolloutState::Paused(PauseReason::Aborting { .. }) => true,
                RolloutState::Rejected { .. }
                | RolloutState::Running
                | RolloutState::Paused(_)
                | RolloutState::Succeeded
                | RolloutState::RolledBack
                | RolloutState::RollbackBlocked
                | RolloutState::Superseded
                | RolloutState::Aborted => false,
            })
        };
        let untouched = held.visit.course == Course::Forward
            && matches!(held.visit.step, Step::Preflight | Step::Cordon | Step::Checkpoint | Step::Drain)
            && held.record.assignment.as_ref().is_none_or(|a| a.exposed.is_none());
        let waited = || {
            view.input
                .ledger
                .nodes
                .get(held.id)
                .is_some_and(|r| r.visit.as_ref().is_some_and(|v| v.rollout == *id))
        };
        found.when(
            untouched && halted(view.input.ledger) && halted(view.after) && waited(),
            RECOVERY,
            || format!("{id} has stopped and keeps {} at {}", held.id, held.visit.step.word()),
        );
    }
}

/// A visit ends when the own cordon is seen to be gone, or was never asked for, or stays with a quarantine, or went
/// with the node.
fn visit_ends_cleanly(change: &Change<'_>, found: &mut Findings) {
    let Some(visit) = change.visit_before() else { return };
    // With the machine its cordon went, too.
    if change.going_on().is_some()
        || change.is_replaced()
        || change.after.is_some_and(|r| r.quarantine.is_some())
    {
        return;
    }
    let Some(seen) = change.seen else { return };
    let id = change.id;
    let asked = visit.step.stage() > Step::Preflight.stage();
    found.when(asked && !matches!(visit.course, Course::Out(_)), HYGIENE, || {
        format!("the visit of {id} ends at {} without a return", visit.step.word())
    });
    found.when(seen.cordon.own.is_some(), HYGIENE, || {
        format!("the visit of {id} ends and its cordon is still there")
    });
}

fn quarantine(view: &View<'_>, change: &Change<'_>, found: &mut Findings) {
    let before = change.before.and_then(|r| r.quarantine.as_ref());
    let after = change.after.and_then(|r| r.quarantine.as_ref());
    let id = change.id;
    match (before, after) {
        (None, Some(new)) => {
            let lost = change.visit_before().is_some_and(|v| v.lost_since.is_some());
            found.when(new.evidence.is_empty() && !lost, HYGIENE, || {
                format!("{id} is quarantined without anything against it")
            });
        }
        (Some(_), None) => {
            // Without its record the node is gone, which is looked at elsewhere.
            let free = change.is_replaced() || somebody_said_retry(view, id);
            found.when(change.after.is_some() && !free, HYGIENE, || {
                format!("{id} leaves quarantine and nobody said so")
            });
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
}

fn somebody_said_retry(view: &View<'_>, id: &NodeId) -> bool {
    let commanded = view
        .input
        .ledger
        .commands
        .values()
        .any(|c| matches!(&c.what, CommandKind::RetryNode { node } if node == id));
    let written =
        || view.input.fleet.controls.values().any(|c| c.retry.iter().any(|r| r.what == id.as_str()));
    commanded || written()
}

/// A record is forgotten when its node is gone; before that it is the only trace of a cordon.
fn forgotten(view: &View<'_>, id: &NodeId, found: &mut Findings) {
    let Some(record) = view.input.ledger.nodes.get(id) else { return };
    let Some(seen) = view.input.inventory.nodes.get(id) else { return };
    let needed = record.visit.is_some() || record.quarantine.is_some() || seen.cordon.own.is_some();
    found.when(needed && !view.after.nodes.contains_key(id), HYGIENE, || {
        format!("{id} is forgotten while it is still held")
    });
}
