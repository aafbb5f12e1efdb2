//! I2, I3.

use std::collections::BTreeMap;

use drydock_plan::*;

use super::fixture::*;

const FIRST: &str = "I2 reservation first";
const HOLDER: &str = "I3 single holder";

fn preflight() -> Ensure {
    Ensure::Preflight { artifacts: BTreeMap::new(), checks: Vec::new() }
}

#[test]
fn actions_of_a_new_or_an_old_reservation_are_fine() {
    let mut world = World::new();
    world.reserve(0);
    world.act(0, preflight());
    world.was_held(1, |v| v.step = Step::Drain);
    world.act(1, Ensure::Cordoned);
    world.act(1, Ensure::Drained { rules: Default::default() });
    world.is_fine();
}

#[test]
fn an_action_needs_a_reservation() {
    let mut world = World::new();
    world.act(0, Ensure::Cordoned);
    world.breaks(FIRST);
    let mut world = World::new();
    world.act(99, preflight());
    world.breaks(FIRST);
    let mut world = World::new();
    world.act(0, Ensure::Kept);
    world.breaks(FIRST);
}

#[test]
fn an_action_carries_the_newest_numbers() {
    for (epoch, generation) in [(0, 1), (1, 0), (2, 1)] {
        let mut world = World::new();
        world.reserve(0);
        world.act(0, preflight());
        world.actions[0].epoch = Epoch(epoch);
        world.actions[0].generation = Generation(generation);
        world.breaks(FIRST);
    }
}

#[test]
fn an_action_belongs_to_the_step() {
    let checked = Ensure::Checked { checks: Vec::new() };
    let gangs = Ensure::Checkpointed { gangs: Vec::new() };
    for (step, ensure) in [
        (Step::Preflight, Ensure::Cordoned),
        (Step::Preflight, Ensure::Drained { rules: Default::default() }),
        (Step::Cordon, preflight()),
        (Step::Drain, checked),
        (Step::Verify, gangs),
    ] {
        let mut world = World::new();
        world.was_held(0, |v| v.step = step);
        world.act(0, ensure);
        world.breaks(FIRST);
    }
}

#[test]
fn a_quarantined_node_keeps_its_cordon() {
    let mut world = World::new();
    let quarantine = NodeQuarantine {
        rollout: roll(),
        since: ago(9),
        blame: Blame::Unknown,
        evidence: Vec::new(),
        retry: None,
    };
    world.was(0, |r| r.quarantine = Some(quarantine));
    world.seen(0, |s| s.cordon.own = Some(Epoch(0)));
    world.act(0, Ensure::Kept);
    world.is_fine();
    world.actions.clear();
    world.act(0, Ensure::Returned);
    world.breaks(FIRST);
}

#[test]
fn a_cordon_that_nobody_asks_for_may_be_taken_away() {
    let mut world = World::new();
    world.act(0, Ensure::Returned);
    world.breaks(FIRST);
    world.seen(0, |s| s.cordon.own = Some(Epoch(0)));
    world.is_fine();
}

#[test]
fn a_new_holder_has_a_new_epoch() {
    let mut world = World::new();
    world.reserve(0);
    world.change(0, |r| r.epoch = Epoch(0));
    world.breaks(HOLDER);
}

#[test]
fn a_takeover_has_a_new_epoch() {
    for epoch in [1, 2] {
        let mut world = World::new();
        world.was_held(0, |v| v.step = Step::Drain);
        let newer = rollout("newer", RolloutKind::Forward);
        world.changes.push(LedgerChange::Rollout(Box::new(newer)));
        world.intend(0, |r| {
            r.epoch = Epoch(epoch);
            r.visit.as_mut().unwrap().rollout = RolloutId::new("newer");
            r.assignment.as_mut().unwrap().rollout = RolloutId::new("newer");
        });
        if epoch == 1 { world.breaks(HOLDER) } else { world.is_fine() }
    }
}

#[test]
fn numbers_never_fall() {
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.change(0, |r| r.epoch = Epoch(0));
    world.breaks(HOLDER);
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.change(0, |r| r.generation = Generation(3));
    world.breaks(HOLDER);
}

#[test]
fn every_new_intent_has_a_new_generation() {
    type Edit = fn(&mut Visit);
    let edits: [(&str, Edit); 6] = [
        ("step", |v| v.step = Step::Cordon),
        ("course", |v| v.course = Course::Back),
        ("attempt", |v| v.attempt = 2),
        ("inconclusive", |v| v.inconclusive = 1),
        ("partner", |v| v.partner = Some(node(5))),
        ("another round", |v| v.passes = 1),
    ];
    for (what, edit) in edits {
        let mut world = World::new();
        world.was_held(0, |_| {});
        world.change(0, |r| edit(r.visit.as_mut().unwrap()));
        assert!(!world.violations().is_empty(), "{what}");
        world.breaks(HOLDER);
        world.change(0, |r| r.generation = r.generation.next());
        world.is_fine();
    }
    // What is only noted asks nothing.
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.change(0, |r| {
        let visit = r.visit.as_mut().unwrap();
        visit.lost_since = Some(now());
        visit.arrived = true;
        visit.passes = 1;
    });
    world.is_fine();
}

#[test]
fn a_holder_exists() {
    let mut world = World::new();
    world.was_held(0, |v| v.rollout = RolloutId::new("ghost"));
    world.was(0, |r| r.assignment.as_mut().unwrap().rollout = RolloutId::new("ghost"));
    let found: Vec<_> = world.violations().iter().map(|v| v.invariant).collect();
    assert_eq!(found, [HOLDER, "I18 ledger"]);
}
