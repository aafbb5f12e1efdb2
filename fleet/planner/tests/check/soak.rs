//! I9. The policy asks for 30 minutes.

use drydock_plan::*;
use drydock_spec::Period;

use super::fixture::*;

const SOAK: &str = "I9 soak truth";

fn done(world: &mut World, n: usize) {
    world.change(n, |r| {
        r.soak = None;
        r.last_known_good = Some(target(&new_vector()));
        let assignment = r.assignment.as_mut().unwrap();
        assignment.outcome = Some(NodeOutcome::Done);
        assignment.ended = Some(now());
    });
}
fn soaked(minutes: i64) -> World {
    let mut world = World::new();
    world.was_soaking(0, minutes);
    done(&mut world, 0);
    world
}

#[test]
fn done_means_soaked_for_long_enough() {
    soaked(30).is_fine();
    soaked(29).breaks(SOAK);
}

#[test]
fn the_frozen_policy_counts() {
    let mut world = soaked(30);
    world.strategy(|s| s.waves[0].soak.time = Period::from_hours(24));
    world.breaks(SOAK);
}

#[test]
fn done_without_a_soak_is_not_done() {
    let mut world = World::new();
    world.runs(0, &new_vector());
    done(&mut world, 0);
    world.breaks(SOAK);
    world.strategy(|s| s.waves[0].soak.time = Period::ZERO);
    world.is_fine();
}

#[test]
fn a_soak_on_something_else_does_not_count() {
    let mut world = soaked(60);
    world.was(0, |r| r.soak.as_mut().unwrap().target = target(&old_vector()));
    world.breaks(SOAK);
}

#[test]
fn health_is_continuous() {
    let mut world = soaked(60);
    world.seen(0, |s| s.ready_since = ago(10));
    world.breaks(SOAK);
    let mut world = soaked(60);
    world.seen(0, |s| s.ready = false);
    world.breaks(SOAK);
    let mut world = soaked(60);
    world.seen(0, |s| s.faults.push(fault(5)));
    world.breaks(SOAK);
    // One that came before the return and after the release is a fault of that release all the same.
    let mut world = soaked(60);
    world.seen(0, |s| s.faults.push(fault(65)));
    world.breaks(SOAK);
    // What a workload did to itself is none.
    let mut world = soaked(60);
    world.seen(0, |s| s.faults.push(HealthFault { kind: "xid-13".to_owned(), ..fault(5) }));
    world.is_fine();
    // A fault that was there before the upgrade is no news.
    let mut world = soaked(60);
    world.seen(0, |s| s.faults.push(fault(600)));
    world.is_fine();
}

#[test]
fn what_runs_is_what_soaked() {
    let mut world = soaked(60);
    world.runs(0, &old_vector());
    world.breaks(SOAK);
}

#[test]
fn done_is_remembered_as_good() {
    let mut world = soaked(60);
    world.change(0, |r| r.last_known_good = Some(target(&old_vector())));
    world.breaks(SOAK);
}

fn begins_to_soak(end: VisitEnd, since: jiff::Timestamp) -> World {
    let mut world = World::new();
    world.was_held(0, |v| {
        v.step = Step::Return;
        v.course = Course::Out(end);
    });
    world.runs(0, &new_vector());
    world.change(0, |r| {
        r.visit = None;
        r.soak = Some(Soak {
            rollout: roll(),
            target: target(&new_vector()),
            from: target(&old_vector()),
            since,
            jobs_at_start: 0,
            given: None,
            spells: 0,
        });
    });
    world
}

#[test]
fn a_soak_begins_with_the_return_of_an_upgraded_node() {
    begins_to_soak(VisitEnd::Upgraded, now()).is_fine();
    begins_to_soak(VisitEnd::Reverted, now()).breaks(SOAK);
    begins_to_soak(VisitEnd::Upgraded, in_mins(1)).breaks(SOAK);
    // What was seen before the visit says nothing about what it brought.
    begins_to_soak(VisitEnd::Upgraded, ago(61)).breaks(SOAK);
    let mut world = World::new();
    let soak = begins_to_soak(VisitEnd::Upgraded, now()).after().nodes[&node(0)].soak.clone();
    world.change(0, |r| r.soak = soak);
    world.breaks(SOAK);
}

#[test]
fn the_clock_starts_again_but_never_gains_time() {
    for (since, fine) in [(ago(0), true), (ago(40), false)] {
        let mut world = World::new();
        world.was_soaking(0, 20);
        world.change(0, |r| r.soak.as_mut().unwrap().since = since);
        if fine { world.is_fine() } else { world.breaks(SOAK) }
    }
}

#[test]
fn a_way_back_soaks_as_well() {
    for (minutes, fine) in [(30, true), (10, false)] {
        let mut world = World::new();
        rollback(&mut world, &[0]);
        world.was_soaking(0, minutes);
        world.was(0, |r| r.soak.as_mut().unwrap().target = target(&old_vector()));
        // Firmware can't be taken back and doesn't count.
        let mut vector = old_vector();
        vector.0.insert("firmware".parse().unwrap(), version("11"));
        world.runs(0, &vector);
        world.change(0, |r| {
            r.soak = None;
            r.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Done);
        });
        if fine { world.is_fine() } else { world.breaks(SOAK) }
    }
}
