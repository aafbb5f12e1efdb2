//! I13 and the plain rules of admission, I4.

use drydock_plan::*;
use drydock_spec::{ForeignCordon, Gangs, PoolName};

use super::fixture::*;

const STATE: &str = "admission state";
const LEASE: &str = "admission lease";
const BROKEN_CONTROL: &str = "I13 broken control";

fn pause() -> RolloutState {
    RolloutState::Paused(PauseReason::Deadline)
}
fn quarantined(release: &ReleaseVector) -> LedgerChange {
    let pool: PoolName = "p".parse().unwrap();
    let why = ReleaseQuarantine { rollout: roll(), since: now(), why: "it failed".to_owned() };
    LedgerChange::Quarantine(pool, release.id(), why)
}

#[test]
fn only_a_running_rollout_admits() {
    for state in [pause(), RolloutState::Halted, RolloutState::RollingBack] {
        let mut world = World::new();
        world.rollout(|r| r.state = state);
        world.reserve(0);
        world.breaks(STATE);
    }
    // Also when it stops with the very plan.
    let mut world = World::new();
    world.reserve(0);
    world.change_rollout(|r| r.state = pause());
    world.breaks(STATE);
    // And it may begin with the very plan.
    let mut world = World::new();
    world.rollout(|r| r.state = pause());
    world.reserve(0);
    world.change_rollout(|r| r.state = RolloutState::Running);
    world.is_fine();
}

#[test]
fn a_sick_soaking_node_is_helped_while_the_rollout_stands() {
    for state in [pause(), RolloutState::Halted] {
        let mut world = World::new();
        world.rollout(|r| r.state = state.clone());
        world.was_soaking(0, 10);
        world.reserve(0);
        world.breaks(STATE);
        world.seen(0, |s| s.faults.push(fault(1)));
        world.is_fine();
    }
}

#[test]
fn a_release_that_failed_is_not_tried_again() {
    let mut world = World::new();
    world.before.apply(quarantined(&new_vector()));
    world.reserve(0);
    world.breaks(BROKEN_CONTROL);
    // Somebody says so in the same pass.
    world.changes.push(LedgerChange::Release("p".parse().unwrap(), new_vector().id()));
    world.is_fine();
    // It is found bad in the same pass.
    let mut world = World::new();
    world.reserve(0);
    world.changes.push(quarantined(&new_vector()));
    world.breaks(BROKEN_CONTROL);
}

#[test]
fn nor_as_a_way_back() {
    let mut world = World::new();
    rollback(&mut world, &[0]);
    world.before.apply(quarantined(&old_vector()));
    reserve_back(&mut world, 0);
    world.breaks(BROKEN_CONTROL);
}

#[test]
fn nor_by_turning_a_visit_to_it() {
    let mut world = World::new();
    world.before.apply(quarantined(&old_vector()));
    world.was_held(0, |v| v.step = Step::Drain);
    world.changes.push(LedgerChange::Rollout(Box::new(rollout("newer", RolloutKind::Forward))));
    world.intend(0, |r| {
        r.epoch = r.epoch.next();
        let visit = r.visit.as_mut().unwrap();
        visit.rollout = RolloutId::new("newer");
        visit.to = target(&old_vector());
        let assignment = r.assignment.as_mut().unwrap();
        assignment.rollout = RolloutId::new("newer");
        assignment.target = target(&old_vector());
    });
    world.breaks(BROKEN_CONTROL);
}

#[test]
fn a_foreign_cordon_is_waited_for_or_recorded() {
    let mut world = World::new();
    world.seen(0, |s| s.cordon.foreign = Some("kubectl".to_owned()));
    world.reserve_as(0, |v| v.foreign_cordon = true);
    world.breaks(LEASE);
    world.strategy(|s| s.foreign_cordon = ForeignCordon::Opportunistic);
    let mut world_of_waiting = world;
    world_of_waiting.changes.clear();
    world_of_waiting.reserve_as(0, |v| v.foreign_cordon = true);
    world_of_waiting.is_fine();
    world_of_waiting.change(0, |r| r.visit.as_mut().unwrap().foreign_cordon = false);
    world_of_waiting.breaks("I6 cordon hygiene");
}

#[test]
fn nothing_starts_where_nothing_is_seen() {
    let mut world = World::new();
    world.reserve(0);
    world.inventory.clusters.get_mut("c").unwrap().error = Some("timeout".to_owned());
    world.breaks(LEASE);
    let mut world = World::new();
    world.reserve(0);
    world.inventory.nodes.remove(&node(0));
    world.breaks(LEASE);
    let mut world = World::new();
    world.reserve(0);
    world.seen(0, |s| s.pool = None);
    world.breaks(LEASE);
}

#[test]
fn a_deferred_node_rests() {
    let mut world = World::new();
    world.was(0, |r| r.not_before = Some(in_mins(1)));
    world.reserve(0);
    world.breaks(LEASE);
    let mut world = World::new();
    world.was(0, |r| r.not_before = Some(now()));
    world.reserve(0);
    world.is_fine();
}

#[test]
fn a_node_heads_where_it_is_assigned() {
    let mut world = World::new();
    world.reserve_as(0, |v| v.to = target(&old_vector()));
    world.breaks(LEASE);
    let mut world = World::new();
    world.was(0, |r| r.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Reverted));
    world.reserve(0);
    world.breaks(LEASE);
}

fn with_gang(gangs: Gangs, size: usize) -> World {
    let mut world = World::new();
    world.strategy(|s| s.drain.gangs = gangs);
    let id = GangId::new("team/train");
    let gang = ObservedGang {
        tenant: None,
        nodes: (0..size).map(node).collect(),
        last_checkpoint: ago(30),
        expected_end: None,
    };
    world.inventory.gangs.insert(id.clone(), gang);
    (0..size).for_each(|n| world.seen(n, |s| s.work.gangs.push(id.clone())));
    world
}

#[test]
fn a_gang_goes_as_a_whole_or_not_at_all() {
    let mut world = with_gang(Gangs::Together, 3);
    world.reserve(0);
    world.reserve(1);
    world.breaks("I4 gang purity");
    world.reserve(2);
    world.is_fine();
    let mut world = with_gang(Gangs::Avoid, 1);
    world.reserve(0);
    world.breaks("I4 gang purity");
    let mut world = with_gang(Gangs::Ignore, 3);
    world.reserve(0);
    world.is_fine();
    // On a node that is out already the gang is broken anyway.
    let mut world = with_gang(Gangs::Together, 3);
    world.breaks_down(0);
    world.reserve(0);
    world.is_fine();
}
