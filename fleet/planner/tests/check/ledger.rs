//! Sanity of the ledger, and one visit a node.

use drydock_plan::*;
use drydock_planner::{Input, check::check};

use super::fixture::*;

const LEDGER: &str = "I18 ledger";

#[test]
fn an_empty_plan_is_fine() {
    World::new().is_fine();
}

#[test]
fn a_plan_is_made_for_the_ledger_it_changes() {
    let mut world = World::new();
    world.parent = Some(6);
    world.breaks(LEDGER);
}

#[test]
fn the_ledger_after_is_the_one_before_with_the_changes() {
    let mut world = World::new();
    world.reserve(0);
    let plan = Plan { parent: 7, changes: world.changes.clone(), actions: Vec::new() };
    let commit = world.before.rollouts[&roll()].commit.clone();
    let input = Input {
        fleet: &world.fleet,
        commit: &commit,
        inventory: &world.inventory,
        ledger: &world.before,
        now: now(),
    };
    assert_eq!(check(&input, &plan, &world.after()), []);
    let found: Vec<_> = check(&input, &plan, &world.before).iter().map(|v| v.invariant).collect();
    assert_eq!(found, [LEDGER, LEDGER]);
}

#[test]
fn every_release_that_is_named_is_remembered() {
    let mut world = World::new();
    world.before.releases.remove(&new_vector().id());
    world.reserve(0);
    world.breaks(LEDGER);
    world.changes.push(LedgerChange::Remember(new_vector().id(), new_vector()));
    world.is_fine();
}

#[test]
fn a_visit_belongs_to_the_assignment() {
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.was(0, |r| r.assignment = None);
    world.breaks("I18 one visit");
    let mut world = World::new();
    let other = rollout("other", RolloutKind::Forward);
    world.before.rollouts.insert(RolloutId::new("other"), std::sync::Arc::new(other));
    world.was_held(0, |_| {});
    world.was(0, |r| r.assignment.as_mut().unwrap().rollout = RolloutId::new("other"));
    world.breaks("I18 one visit");
}

#[test]
fn assignments_end_with_their_rollout() {
    let mut world = World::new();
    world.change_rollout(|r| r.state = RolloutState::Succeeded);
    world.breaks(LEDGER);
    (0..NODES).for_each(|n| world.change(n, |r| r.assignment = None));
    world.is_fine();
}

#[test]
fn two_visits_in_one_plan_are_two_reservations() {
    let mut world = World::new();
    world.was_held(0, |v| {
        v.step = Step::Return;
        v.course = Course::Out(VisitEnd::Deferred);
    });
    world.reserve(0);
    world.is_fine();
    world.budget(|b| b.max_in_flight = Some(drydock_spec::Amount::Count(0)));
    world.breaks("I1 in flight");
}

#[test]
fn only_what_has_ended_and_nobody_names_is_forgotten() {
    let mut world = World::new();
    let ended = |record: &mut RolloutRecord| record.state = RolloutState::Succeeded;
    let mut old = rollout("old", RolloutKind::Forward);
    ended(&mut old);
    world.before.rollouts.insert(old.id.clone(), std::sync::Arc::new(old.clone()));
    world.changes.push(LedgerChange::ForgetRollout(old.id.clone()));
    world.is_fine();
    // Somebody still names it.
    let name_it: [fn(&mut World); 3] = [
        |w| {
            let why = ReleaseQuarantine { rollout: RolloutId::new("old"), since: ago(9), why: String::new() };
            w.before.apply(LedgerChange::Quarantine("p".parse().unwrap(), old_vector().id(), why));
        },
        |w| {
            w.was(3, |r| {
                let rollout = RolloutId::new("old");
                let (blame, evidence) = (Blame::Node, Vec::new());
                r.quarantine = Some(NodeQuarantine { rollout, since: ago(9), blame, evidence, retry: None });
            });
            w.seen(3, |s| s.cordon.own = Some(Epoch(0)));
        },
        |w| w.rollout(|r| r.superseded_by = Some(RolloutId::new("old"))),
    ];
    for edit in name_it {
        let mut world = World::new();
        world.before.rollouts.insert(old.id.clone(), std::sync::Arc::new(old.clone()));
        world.changes.push(LedgerChange::ForgetRollout(old.id.clone()));
        edit(&mut world);
        world.breaks("I18 ledger");
    }
    // It hasn't ended.
    let mut world = World::new();
    let open = rollout("other", RolloutKind::Forward);
    world.before.rollouts.insert(open.id.clone(), std::sync::Arc::new(open.clone()));
    world.changes.push(LedgerChange::ForgetRollout(open.id));
    world.breaks("I18 ledger");
}
