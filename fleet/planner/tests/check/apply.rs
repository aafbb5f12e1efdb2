//! What is applied, where, and on which nodes.

use drydock_plan::*;
use drydock_spec::{DriverSource, OnTimeout};

use super::fixture::*;

const DRAINED: &str = "drain before apply";
const INTENDED: &str = "apply what is intended";

fn applying(component: &str, course: Course, drained: bool) -> World {
    let mut world = World::new();
    let (name, vector) = (
        component.parse::<drydock_spec::ComponentName>().unwrap(),
        if course == Course::Back { old_vector() } else { new_vector() },
    );
    let version = vector.get(&name).cloned();
    world.was_held(0, |v| {
        v.step = Step::Apply(ApplyItem::Component(name.clone()));
        v.course = course;
        v.drained = drained;
    });
    world.act(0, Ensure::Applied { component: name, version, reboot: false, attempt: 1 });
    world
}
fn edit(world: &mut World, change: impl FnOnce(&mut Option<drydock_spec::ComponentVersion>, &mut bool)) {
    if let Ensure::Applied { version, reboot, .. } = &mut world.actions[0].ensure {
        change(version, reboot);
    }
}

#[test]
fn a_driver_is_changed_on_an_empty_node() {
    applying("driver", Course::Forward, true).is_fine();
    applying("driver", Course::Back, true).is_fine();
    applying("driver", Course::Forward, false).breaks(DRAINED);
    applying("driver", Course::Back, false).breaks(DRAINED);
}

#[test]
fn what_restarts_in_place_needs_no_drain() {
    let mut world = applying("plugin", Course::Forward, false);
    world.is_fine();
    edit(&mut world, |_, reboot| *reboot = true);
    world.breaks(DRAINED);
}

#[test]
fn what_git_does_not_know_needs_a_drain() {
    let mut world = applying("plugin", Course::Forward, false);
    world.fleet.components.clear();
    world.breaks(DRAINED);
}

#[test]
fn a_policy_may_go_on_without_a_full_drain() {
    let mut world = applying("driver", Course::Forward, false);
    world.strategy(|s| s.drain.on_timeout = OnTimeout::Proceed);
    world.is_fine();
}

#[test]
fn what_is_observed_is_not_applied() {
    applying("host", Course::Forward, true).breaks(INTENDED);
    let mut world = applying("driver", Course::Forward, true);
    world.fleet.pools.get_mut("p").unwrap().spec.driver_source = DriverSource::NodeImage;
    world.breaks(INTENDED);
}

#[test]
fn the_version_is_the_target_s() {
    let mut world = applying("driver", Course::Forward, true);
    edit(&mut world, |v, _| *v = Some(version("575")));
    world.breaks(INTENDED);
    edit(&mut world, |v, _| *v = None);
    world.breaks(INTENDED);
}

#[test]
fn what_cannot_be_taken_back_is_not() {
    applying("firmware", Course::Forward, true).is_fine();
    applying("firmware", Course::Back, true).breaks(INTENDED);
}

#[test]
fn gpus_are_cut_on_an_empty_node_as_the_target_says() {
    let cut = |drained: bool, wanted: &str| {
        let mut world = World::new();
        let layout: LayoutId = "l-00000001".parse().unwrap();
        let target = Target { layout: Some(layout.clone()), ..target(&new_vector()) };
        world.was_held(0, |v| {
            v.step = Step::Apply(ApplyItem::Layout);
            v.to = target;
            v.drained = drained;
        });
        world.act(0, Ensure::Partitioned { layout: wanted.parse().unwrap(), name: None, attempt: 1 });
        world
    };
    cut(true, "l-00000001").is_fine();
    cut(true, "l-00000002").breaks(INTENDED);
    cut(false, "l-00000001").breaks(DRAINED);
}
