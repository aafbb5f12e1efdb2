//! I5. Racks and scalable units hold five nodes, NVLink domains and rails two.

use drydock_plan::*;
use drydock_spec::{Amount, DomainKey, Spread};

use super::fixture::*;

fn spread(max: Amount, at_least_one: bool) -> World {
    let mut world = World::new();
    world.strategy(|s| s.spread = vec![Spread { key: DomainKey::Rack, max, at_least_one }]);
    world
}

#[test]
fn a_domain_loses_no_more_than_its_spread() {
    let mut world = spread(Amount::Count(1), false);
    world.reserve(0);
    world.reserve(5);
    world.is_fine();
    world.reserve(1);
    world.breaks("I5 spread");
}

#[test]
fn nodes_in_flight_already_count() {
    let mut world = spread(Amount::Count(1), false);
    world.was_held(4, |_| {});
    world.is_fine();
    world.reserve(0);
    world.breaks("I5 spread");
}

#[test]
fn percentages_of_a_domain_round_down() {
    // 40 % of five are two, 10 % none.
    let mut world = spread(Amount::Percent(4000), false);
    world.reserve(0);
    world.reserve(1);
    world.is_fine();
    let mut world = spread(Amount::Percent(1000), false);
    world.reserve(0);
    world.breaks("I5 spread");
    let mut world = spread(Amount::Percent(1000), true);
    world.reserve(0);
    world.is_fine();
}

#[test]
fn a_way_back_keeps_the_spread() {
    let mut world = World::new();
    rollback(&mut world, &[0, 1]);
    let rule = Spread { key: DomainKey::Rack, max: Amount::Count(1), at_least_one: false };
    strategy_back(&mut world, |s| s.spread = vec![rule]);
    reserve_back(&mut world, 0);
    world.is_fine();
    reserve_back(&mut world, 1);
    world.breaks("I5 spread");
}

fn atomic() -> World {
    let mut world = World::new();
    world.strategy(|s| s.atomic = vec![DomainKey::NvlinkDomain]);
    world
}

#[test]
fn an_atomic_domain_enters_as_a_whole() {
    let mut world = atomic();
    world.reserve(0);
    world.breaks("I5 atomic");
    world.reserve(1);
    world.is_fine();
}

#[test]
fn members_that_cannot_come_along_stay() {
    type Edit = fn(&mut World);
    let excuses: [(&str, Edit); 6] = [
        ("broken", |w| w.breaks_down(1)),
        ("foreign cordon", |w| w.seen(1, |s| s.cordon.foreign = Some("kubectl".to_owned()))),
        ("gone", |w| drop(w.inventory.nodes.remove(&node(1)))),
        ("there already", |w| w.runs(1, &new_vector())),
        ("settled", |w| w.was(1, |r| r.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Reverted))),
        ("not of this rollout", |w| w.was(1, |r| r.assignment = None)),
    ];
    for (what, excuse) in excuses {
        let mut world = atomic();
        excuse(&mut world);
        world.reserve(0);
        assert_eq!(world.violations(), [], "{what}");
    }
}

#[test]
fn a_sick_node_does_not_take_its_domain_out_again() {
    let mut world = atomic();
    world.was_soaking(0, 10);
    world.was_soaking(1, 10);
    world.breaks_down(0);
    world.reserve(0);
    world.is_fine();
}
