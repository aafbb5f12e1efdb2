//! I8: a visit goes forward, back, out, and never round in circles. I18: it drains once.

use drydock_plan::{Course, LedgerChange, RolloutKind, Step};

use super::{
    findings::Findings,
    view::{Change, View},
};

const OSCILLATION: &str = "I8 no oscillation";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for change in &view.changed {
        visit_goes_on(change, found);
    }
    for held in &view.held {
        let out = matches!(held.visit.course, Course::Out(_));
        found.when(out != (held.visit.step == Step::Return), OSCILLATION, || {
            format!("{}: course {:?} at step {}", held.id, held.visit.course, held.visit.step.word())
        });
    }
    for change in &view.plan.changes {
        let LedgerChange::Rollout(record) = change else { continue };
        let RolloutKind::Rollback { of } = &record.kind else { continue };
        match view.after.rollouts.get(of).map(|parent| &parent.kind) {
            Some(RolloutKind::Rollback { .. }) => found
                .add(OSCILLATION, || format!("{} takes back {of}, which is itself a way back", record.id)),
            Some(RolloutKind::Forward | RolloutKind::Revert) => {}
            None => found.add(OSCILLATION, || format!("{} takes back {of}, which doesn't exist", record.id)),
        }
    }
}

fn visit_goes_on(change: &Change<'_>, found: &mut Findings) {
    let Some((old, new)) = change.going_on() else { return };
    let id = change.id;
    // Pods never come back to a cordoned node, so a drained one is drained, also for whoever takes it over.
    let cordoned = change.seen.is_some_and(|n| n.cordon.own.is_some());
    found.when(old.drained && !new.drained && cordoned, "I18 one visit", || {
        format!("{id} was drained in this visit and is to be drained again")
    });
    // A newer rollout may turn a visit round: that is Git's change of mind, not drydock's.
    if old.rollout != new.rollout {
        return;
    }
    let turned_back = match (&old.course, &new.course) {
        (Course::Forward, _) | (Course::Back, Course::Back | Course::Out(_)) => false,
        (Course::Back, Course::Forward) => true,
        (Course::Out(was), Course::Out(is)) => was != is,
        (Course::Out(_), Course::Forward | Course::Back) => true,
    };
    found.when(turned_back, OSCILLATION, || {
        format!("{id} turns from {:?} to {:?} inside one visit", old.course, new.course)
    });
    found.when(old.to != new.to, OSCILLATION, || {
        format!("{id}: the target changes from {} to {} inside one visit", old.to, new.to)
    });
}
