//! I10. It is noon on a Wednesday.

use drydock_spec::{
    AtClose, CalendarSpec, Day, DomainKey, DomainRef, Freeze, FreezeAllow, InFreeze, MustFit, Period,
    ReleaseSpec, Scope, Window,
};

use super::fixture::*;

const CALENDAR: &str = "I10 calendar";

fn calendar(world: &mut World, windows: Vec<Window>, freezes: Vec<Freeze>) {
    let spec = CalendarSpec { windows, freezes, in_flight_at_close: AtClose::Finish, must_fit: MustFit::No };
    let name = format!("cal{}", world.fleet.calendars.len()).parse().unwrap();
    world.fleet.calendars.insert(name, named(spec));
}
fn window(day: Day, from: &str) -> Window {
    Window {
        name: None,
        days: vec![day],
        from: from.to_owned(),
        length: Period::from_hours(2),
        time_zone: "UTC".to_owned(),
        scope: Scope::default(),
    }
}
fn freeze(allow: &[FreezeAllow]) -> Freeze {
    Freeze { name: None, from: ago(60), to: in_mins(60), scope: Scope::default(), allow: allow.to_vec() }
}
fn on_rack(value: &str) -> Scope {
    Scope { domain: Some(DomainRef { key: DomainKey::Rack, value: value.to_owned() }), ..Scope::default() }
}

#[test]
fn work_starts_inside_a_window() {
    let mut world = World::new();
    world.reserve(0);
    calendar(&mut world, vec![window(Day::Thu, "11:00")], Vec::new());
    world.breaks(CALENDAR);
    // One open window of several is enough, in whichever calendar.
    calendar(&mut world, vec![window(Day::Wed, "11:00")], Vec::new());
    world.is_fine();
}

#[test]
fn a_window_is_closed_in_doubt() {
    let mut world = World::new();
    world.reserve(0);
    let nowhere = Window { time_zone: "Nowhere/Else".to_owned(), ..window(Day::Wed, "11:00") };
    calendar(&mut world, vec![nowhere], Vec::new());
    world.breaks(CALENDAR);
}

#[test]
fn a_window_is_about_its_scope() {
    let mut world = World::new();
    world.reserve(0);
    let other = Window { scope: on_rack("rack1"), ..window(Day::Thu, "11:00") };
    calendar(&mut world, vec![other], Vec::new());
    world.is_fine();
    world.reserve(5);
    world.breaks(CALENDAR);
}

#[test]
fn nothing_goes_forward_in_a_freeze() {
    let mut world = World::new();
    world.reserve(0);
    calendar(&mut world, vec![window(Day::Wed, "11:00")], vec![freeze(&[FreezeAllow::Rollback])]);
    world.breaks(CALENDAR);
    let mut world = World::new();
    world.reserve(0);
    let over = Freeze { to: now(), ..freeze(&[]) };
    let to_come = Freeze { from: in_mins(1), ..freeze(&[]) };
    let elsewhere = Freeze { scope: on_rack("rack1"), ..freeze(&[]) };
    calendar(&mut world, Vec::new(), vec![over, to_come, elsewhere]);
    world.is_fine();
}

#[test]
fn security_passes_where_it_may() {
    // What the rollout's other pools get says nothing about this one.
    for (security, own, allow, fine) in [
        (true, true, vec![FreezeAllow::Security], true),
        (true, true, vec![], false),
        (false, false, vec![FreezeAllow::Security], false),
        (true, false, vec![FreezeAllow::Security], false),
    ] {
        let mut world = World::new();
        world.rollout(|r| r.security = security);
        let spec = ReleaseSpec {
            components: new_vector().0,
            requires: Default::default(),
            security: own,
            notes: None,
        };
        world.fleet.releases.insert("new".parse().unwrap(), named(spec));
        world.reserve(0);
        calendar(&mut world, Vec::new(), vec![freeze(&allow)]);
        if fine { world.is_fine() } else { world.breaks(CALENDAR) }
    }
}

#[test]
fn a_rollback_passes_unless_denied() {
    for (rule, allow, fine) in [
        (InFreeze::Allow, vec![], true),
        (InFreeze::Deny, vec![], false),
        (InFreeze::Deny, vec![FreezeAllow::Rollback], true),
    ] {
        let mut world = World::new();
        rollback(&mut world, &[0]);
        strategy_back(&mut world, |s| s.rollback.in_freeze = rule);
        reserve_back(&mut world, 0);
        calendar(&mut world, vec![window(Day::Thu, "11:00")], vec![freeze(&allow)]);
        if fine { world.is_fine() } else { world.breaks(CALENDAR) }
    }
}

#[test]
fn a_sick_soaking_node_is_helped_at_any_time() {
    let mut world = World::new();
    world.was_soaking(0, 10);
    world.breaks_down(0);
    world.reserve(0);
    calendar(&mut world, vec![window(Day::Thu, "11:00")], vec![freeze(&[])]);
    world.is_fine();
}

/// A commit that goes back is a way back for nodes that were good on it, and for nobody else.
#[test]
fn a_commit_that_goes_back_passes_with_nodes_that_were_good_on_it() {
    for (good, fine) in [(true, true), (false, false)] {
        let mut world = World::new();
        world.rollout(|r| r.kind = drydock_plan::RolloutKind::Revert);
        if good {
            world.was(0, |r| r.previous_good = Some(target(&new_vector())));
        }
        world.reserve(0);
        calendar(&mut world, vec![window(Day::Thu, "11:00")], vec![freeze(&[])]);
        if fine { world.is_fine() } else { world.breaks(CALENDAR) }
    }
}
