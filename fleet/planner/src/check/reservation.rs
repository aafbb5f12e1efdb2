//! I2, I3: reservation before effect, one holder, numbers that only grow.

use drydock_plan::{Action, Ensure, NodeRecord, Step, Visit};

use super::{
    findings::Findings,
    view::{Change, View},
};

const FIRST: &str = "I2 reservation first";
const HOLDER: &str = "I3 single holder";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for action in &view.plan.actions {
        action_has_a_reservation(view, action, found);
    }
    for change in &view.changed {
        numbers_grow(change, found);
    }
}

/// Nothing is done to a node but for a durable intent, under its newest numbers: an old executor that still carries
/// out an older plan can then be told apart.
fn action_has_a_reservation(view: &View<'_>, action: &Action, found: &mut Findings) {
    let (node, word) = (&action.node, action.ensure.word());
    let Some(record) = view.after.nodes.get(node) else {
        return found.add(FIRST, || format!("{word} on {node}, of which the ledger knows nothing"));
    };
    found.when(action.epoch != record.epoch || action.generation != record.generation, FIRST, || {
        format!(
            "{word} on {node} carries epoch {} generation {}, the ledger has {} and {}",
            action.epoch, action.generation, record.epoch, record.generation
        )
    });
    found.when(!is_covered(view, action, record), FIRST, || match &record.visit {
        Some(visit) => format!("{word} on {node}, whose visit is at {}", visit.step.word()),
        None => format!("{word} on {node}, which isn't reserved"),
    });
}

fn is_covered(view: &View<'_>, action: &Action, record: &NodeRecord) -> bool {
    let step = record.visit.as_ref().map(|v| &v.step);
    match &action.ensure {
        Ensure::Preflight { .. } => step == Some(&Step::Preflight),
        // It may have to be put back at any time until the node returns.
        Ensure::Cordoned => step.is_some_and(|s| (1..=6).contains(&s.stage())),
        Ensure::Checkpointed { .. } => step == Some(&Step::Checkpoint),
        Ensure::Drained { .. } => step == Some(&Step::Drain),
        Ensure::Applied { component, .. } => {
            matches!(step, Some(Step::Apply(drydock_plan::ApplyItem::Component(c))) if c == component)
        }
        Ensure::Partitioned { .. } => {
            matches!(step, Some(Step::Apply(drydock_plan::ApplyItem::Layout)))
        }
        // A quarantined node on which somebody said retry is checked where it stands: that changes nothing on it.
        Ensure::Checked { .. } => match step {
            Some(step) => *step == Step::Verify,
            None => record.quarantine.as_ref().is_some_and(|q| q.retry.is_some()),
        },
        Ensure::Returned => match step {
            Some(step) => *step == Step::Return,
            // An own cordon that nothing asks for any more is taken away: that is recovery, it needs no reservation. But
            // only where the visit it was made for is known to have ended well: otherwise the node may be half changed.
            None => {
                let own = view.input.inventory.nodes.get(&action.node).and_then(|n| n.cordon.own);
                record.quarantine.is_none() && own.is_some_and(|epoch| epoch <= record.released)
            }
        },
        Ensure::Kept => record.quarantine.is_some() && step.is_none(),
    }
}

fn numbers_grow(change: &Change<'_>, found: &mut Findings) {
    let Some(after) = change.after else { return };
    let none = NodeRecord::default();
    let before = change.before.unwrap_or(&none);
    let id = change.id;
    found.when(after.epoch < before.epoch, HOLDER, || {
        format!("{id}: epoch falls from {} to {}", before.epoch, after.epoch)
    });
    found.when(after.generation < before.generation, HOLDER, || {
        format!("{id}: generation falls from {} to {}", before.generation, after.generation)
    });
    let taken_over = change.going_on().is_some_and(|(old, new)| old.rollout != new.rollout);
    found.when((change.is_fresh() || taken_over) && after.epoch <= before.epoch, HOLDER, || {
        format!("{id} has a new holder under epoch {}, the old one was {}", after.epoch, before.epoch)
    });
    let quarantined = after.quarantine.is_some() && before.quarantine.is_none();
    let new_intent = match change.going_on() {
        Some((old, new)) => !is_same_intent(old, new),
        None => change.is_fresh(),
    };
    found.when((new_intent || quarantined) && after.generation <= before.generation, HOLDER, || {
        format!("{id} is given a new intent under the old generation {}", after.generation)
    });
}

/// Everything that makes a question another question: an answer to the old one must not be taken for one to the new.
fn is_same_intent(old: &Visit, new: &Visit) -> bool {
    old.course == new.course
        && old.step == new.step
        && old.attempt == new.attempt
        && old.inconclusive == new.inconclusive
        && old.from == new.from
        && old.to == new.to
        && old.partner == new.partner
        && old.rollout == new.rollout
        // Another round asks again; when it was the last one, nothing more is asked.
        && (old.passes == new.passes || new.arrived)
}
