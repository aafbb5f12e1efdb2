//! I12.

use drydock_plan::*;
use drydock_spec::{DomainKey, Gangs};

use super::fixture::*;

const EXPOSURE: &str = "I12 exposure";

fn batch(number: u32, size: u32) -> World {
    let mut world = World::new();
    world.rollout(|r| {
        r.waves[0].batch = number;
        r.waves[0].batch_size = size;
    });
    world
}
fn reserve_in(world: &mut World, n: usize, batch: u32) {
    world.was(n, |r| r.assignment.as_mut().unwrap().batch = Some(batch));
    world.reserve(n);
}

#[test]
fn a_batch_holds_as_many_units_as_it_may() {
    let mut world = batch(1, 2);
    world.reserve(0);
    world.reserve(1);
    world.is_fine();
    world.reserve(2);
    assert!(world.violations().iter().all(|v| v.invariant == EXPOSURE));
    world.breaks(EXPOSURE);
}

#[test]
fn units_count_not_nodes() {
    let mut world = batch(1, 1);
    world.strategy(|s| s.atomic = vec![DomainKey::NvlinkDomain]);
    for n in 0..2 {
        world.reserve_as(n, |v| v.unit = UnitId::new("nvl0"));
    }
    world.change_rollout(|r| r.waves[0].in_batch = 1);
    world.is_fine();
    world.reserve_as(2, |v| v.unit = UnitId::new("nvl1"));
    world.reserve_as(3, |v| v.unit = UnitId::new("nvl1"));
    world.breaks(EXPOSURE);
}

#[test]
fn what_came_back_still_counts() {
    // One node of the batch soaks; the batch is of two.
    let mut world = batch(1, 2);
    world.was_soaking(0, 5);
    world.rollout(|r| r.waves[0].in_batch = 1);
    world.reserve(1);
    world.is_fine();
    world.reserve(2);
    world.breaks(EXPOSURE);
    // With gangs it can't be told how many units came back, but the count of the record holds.
    let mut world = batch(1, 3);
    world.strategy(|s| s.drain.gangs = Gangs::Together);
    (0..3).for_each(|n| world.was_soaking(n, 5));
    world.rollout(|r| r.waves[0].in_batch = 3);
    world.reserve(3);
    world.breaks(EXPOSURE);
}

#[test]
fn what_enters_is_counted() {
    let mut world = batch(1, 5);
    world.reserve(0);
    world.reserve(1);
    world.change_rollout(|r| r.waves[0].in_batch = 1);
    world.breaks(EXPOSURE);
}

#[test]
fn nothing_enters_another_batch_than_the_open_one() {
    for number in [1, 3] {
        let mut world = batch(2, 5);
        reserve_in(&mut world, 0, number);
        world.breaks(EXPOSURE);
    }
    let mut world = batch(2, 5);
    reserve_in(&mut world, 0, 2);
    world.is_fine();
}

#[test]
fn a_batch_opens_when_the_one_before_is_settled() {
    let mut world = batch(2, 5);
    world.was_held(0, |v| v.step = Step::Verify);
    reserve_in(&mut world, 1, 2);
    world.breaks(EXPOSURE);
    // A lost node doesn't hold it, nor one that only has its cordon taken away.
    world.was_held(0, |v| v.lost_since = Some(ago(3)));
    world.is_fine();
    world.was_held(0, |v| {
        v.course = Course::Out(VisitEnd::Deferred);
        v.step = Step::Return;
    });
    world.act(0, Ensure::Returned);
    world.is_fine();
}

#[test]
fn only_the_running_wave_admits() {
    for state in [WaveState::Pending, WaveState::GatedBefore, WaveState::Soaking, WaveState::Complete] {
        let mut world = World::new();
        world.rollout(|r| r.waves[0].state = state);
        world.reserve(0);
        world.breaks(EXPOSURE);
    }
}

#[test]
fn a_wave_waits_for_those_before_it() {
    for (state, fine) in [
        (WaveState::Complete, true),
        (WaveState::Skipped, true),
        (WaveState::Running, false),
        (WaveState::Soaking, false),
        (WaveState::GatedAfter, false),
    ] {
        let mut world = World::new();
        world.rollout(|r| {
            r.waves[0].in_batch = 0;
            r.waves.insert(0, wave_record("canary", state));
            r.waves[1].in_batch = 1;
        });
        world.was(0, |r| r.assignment.as_mut().unwrap().wave = 1);
        world.reserve(0);
        world.change_rollout(|r| r.waves[1].in_batch = 2);
        if fine { world.is_fine() } else { world.breaks(EXPOSURE) }
    }
    let mut world = World::new();
    world.was(0, |r| r.assignment.as_mut().unwrap().wave = 7);
    world.reserve(0);
    world.breaks(EXPOSURE);
}
