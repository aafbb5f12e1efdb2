//! I8, and that a node is drained once.

use drydock_plan::*;

use super::fixture::*;

const OSCILLATION: &str = "I8 no oscillation";

#[test]
fn a_visit_turns_back_once() {
    let mut world = World::new();
    world.was_held(0, |v| v.step = Step::Verify);
    world.intend(0, |r| r.visit.as_mut().unwrap().course = Course::Back);
    world.is_fine();
    world.was_held(0, |v| {
        v.step = Step::Verify;
        v.course = Course::Back;
    });
    world.changes.clear();
    world.intend(0, |r| r.visit.as_mut().unwrap().course = Course::Forward);
    world.breaks(OSCILLATION);
}

#[test]
fn out_is_out() {
    for course in [Course::Forward, Course::Out(VisitEnd::Deferred)] {
        let mut world = World::new();
        world.was_held(0, |v| {
            v.step = Step::Return;
            v.course = Course::Out(VisitEnd::GivenBack);
        });
        world.intend(0, |r| {
            let visit = r.visit.as_mut().unwrap();
            visit.step = if course == Course::Forward { Step::Preflight } else { Step::Return };
            visit.course = course.clone();
        });
        world.act(0, if course == Course::Forward { Ensure::Cordoned } else { Ensure::Returned });
        world.actions.truncate(usize::from(course != Course::Forward));
        world.breaks(OSCILLATION);
    }
}

#[test]
fn out_and_return_go_together() {
    let mut world = World::new();
    world.was_held(0, |v| v.step = Step::Return);
    world.breaks(OSCILLATION);
}

#[test]
fn a_target_changes_only_with_the_rollout() {
    let mut world = World::new();
    world.was_held(0, |v| v.step = Step::Drain);
    world.intend(0, |r| r.visit.as_mut().unwrap().to = target(&old_vector()));
    world.breaks(OSCILLATION);
}

#[test]
fn a_takeover_may_turn_a_visit_round_but_keeps_the_drain() {
    // Where the cordon was taken away meanwhile, pods may have come back, and the node is drained again.
    for (drained, cordoned, fine) in [(true, true, true), (false, true, false), (false, false, true)] {
        let mut world = World::new();
        world.seen(0, |s| s.cordon.own = cordoned.then_some(Epoch(1)));
        world.was_held(0, |v| {
            v.step = Step::Verify;
            v.course = Course::Back;
            v.drained = true;
        });
        world.changes.push(LedgerChange::Rollout(Box::new(rollout("newer", RolloutKind::Forward))));
        world.intend(0, |r| {
            r.epoch = r.epoch.next();
            r.assignment.as_mut().unwrap().rollout = RolloutId::new("newer");
            let visit = r.visit.as_mut().unwrap();
            visit.rollout = RolloutId::new("newer");
            visit.course = Course::Forward;
            visit.drained = drained;
        });
        if fine { world.is_fine() } else { world.breaks("I18 one visit") }
    }
}

#[test]
fn nothing_takes_back_a_way_back() {
    let mut world = World::new();
    rollback(&mut world, &[]);
    let of = RolloutId::new("back");
    let again = rollout("again", RolloutKind::Rollback { of });
    world.changes.push(LedgerChange::Rollout(Box::new(again)));
    world.breaks(OSCILLATION);
    let mut world = World::new();
    let ghost = rollout("back", RolloutKind::Rollback { of: RolloutId::new("ghost") });
    world.changes.push(LedgerChange::Rollout(Box::new(ghost)));
    world.breaks(OSCILLATION);
}
