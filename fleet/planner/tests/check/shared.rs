//! I19. The release here carries a scheduler that the whole cluster shares.

use drydock_plan::*;
use drydock_spec::{ComponentClass, Delivery, ObjectRef};

use super::fixture::*;

const SHARED: &str = "I19 one carrier";

fn scheduler() -> drydock_spec::ComponentName {
    "scheduler".parse().unwrap()
}

fn wanted() -> ReleaseVector {
    let mut vector = new_vector();
    vector.0.insert(scheduler(), version("2"));
    vector
}

/// All nodes are to get another scheduler as well.
fn world() -> World {
    let mut world = World::new();
    let mut component = world.fleet.components["plugin"].clone();
    component.spec.class = ComponentClass::Scheduler;
    component.spec.delivery = Delivery::Deployment(ObjectRef::named("scheduler"));
    component.spec.disruption = drydock_spec::Disruption::Drain;
    world.fleet.components.insert(scheduler(), component);
    world.before.releases.insert(wanted().id(), wanted());
    for n in 0..NODES {
        world.was(n, |r| r.assignment.as_mut().unwrap().target = target(&wanted()));
    }
    world.rollout(|r| r.targets.values_mut().for_each(|t| *t = target(&wanted())));
    world
}

fn carrying(world: &mut World, n: usize, step: Step) {
    world.was_held(n, |v| {
        v.to = target(&wanted());
        v.step = step;
    });
    world.was(n, |r| r.assignment.as_mut().unwrap().carries = vec![scheduler()]);
}

fn begins(world: &mut World, n: usize) {
    world.reserve_as(n, |v| v.to = target(&wanted()));
}

fn applies(world: &mut World, n: usize) {
    let (component, version) = (scheduler(), Some(version("2")));
    world.act(n, Ensure::Applied { component, version, reboot: false, attempt: 1 });
}

#[test]
fn nobody_begins_who_relies_on_what_another_changes() {
    let mut world = world();
    carrying(&mut world, 0, Step::Verify);
    world.is_fine();
    begins(&mut world, 1);
    world.breaks(SHARED);
    // Whose target doesn't name it doesn't rely on it.
    let mut world = self::world();
    carrying(&mut world, 0, Step::Verify);
    world.was(1, |r| r.assignment.as_mut().unwrap().target = target(&new_vector()));
    world.reserve(1);
    world.is_fine();
}

#[test]
fn on_its_way_out_it_holds_nobody() {
    let mut world = world();
    carrying(&mut world, 0, Step::Return);
    world.was(0, |r| r.visit.as_mut().unwrap().course = Course::Out(VisitEnd::Upgraded));
    world.act(0, Ensure::Returned);
    begins(&mut world, 1);
    world.is_fine();
}

#[test]
fn a_unit_moves_together_with_one_carrier() {
    let mut world = world();
    let unit = UnitId::new("gang/t/a");
    for n in [0, 1] {
        world.reserve_as(n, |v| {
            v.to = target(&wanted());
            v.unit = unit.clone();
        });
    }
    world.change(0, |r| r.assignment.as_mut().unwrap().carries = vec![scheduler()]);
    world.is_fine();
    world.change(1, |r| r.assignment.as_mut().unwrap().carries = vec![scheduler()]);
    world.breaks(SHARED);
}

#[test]
fn only_the_carrier_applies_it_and_needs_no_empty_node() {
    let mut world = world();
    carrying(&mut world, 0, Step::Apply(ApplyItem::Component(scheduler())));
    world.was(0, |r| r.visit.as_mut().unwrap().drained = false);
    applies(&mut world, 0);
    world.is_fine();
    world.was(0, |r| r.assignment.as_mut().unwrap().carries.clear());
    world.breaks(SHARED);
}
