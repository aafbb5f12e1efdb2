//! Only a verified node is upgraded or reverted.

use drydock_plan::*;

use super::fixture::*;

const VERIFIED: &str = "verify before return";

/// Node 0 ran its checks on what `course` leads to, and all is well.
fn verified(course: Course) -> World {
    let mut world = World::new();
    let back = course == Course::Back;
    world.was_held(0, |v| {
        v.step = Step::Verify;
        v.course = course;
        v.drained = true;
    });
    world.runs(0, &if back { old_vector() } else { new_vector() });
    world.seen(0, |s| s.report = Some(report(4, RawVerdict::Pass)));
    world
}
fn goes_out(world: &mut World, end: VisitEnd) {
    world.intend(0, |r| {
        let visit = r.visit.as_mut().unwrap();
        visit.step = Step::Return;
        visit.course = Course::Out(end);
    });
    world.act(0, Ensure::Returned);
}
fn goes_to_fence(world: &mut World) {
    world.intend(0, |r| r.visit.as_mut().unwrap().step = Step::Fence);
}

#[test]
fn a_good_answer_leads_out() {
    let mut world = verified(Course::Forward);
    goes_out(&mut world, VisitEnd::Upgraded);
    world.is_fine();
    let mut world = verified(Course::Back);
    goes_out(&mut world, VisitEnd::Reverted);
    world.is_fine();
    let mut world = verified(Course::Forward);
    goes_to_fence(&mut world);
    world.is_fine();
}

#[test]
fn no_other_step_leads_out() {
    for step in [Step::Drain, Step::Apply(ApplyItem::Layout)] {
        let mut world = verified(Course::Forward);
        world.was_held(0, |v| v.step = step);
        goes_out(&mut world, VisitEnd::Upgraded);
        world.breaks(VERIFIED);
    }
    let mut world = verified(Course::Forward);
    world.was_held(0, |v| v.step = Step::Apply(ApplyItem::Layout));
    goes_to_fence(&mut world);
    world.breaks(VERIFIED);
}

#[test]
fn the_fence_leads_out_without_another_answer() {
    let mut world = World::new();
    world.was_held(0, |v| v.step = Step::Fence);
    world.runs(0, &new_vector());
    goes_out(&mut world, VisitEnd::Upgraded);
    world.is_fine();
}

#[test]
fn the_end_fits_the_course() {
    let mut world = verified(Course::Back);
    goes_out(&mut world, VisitEnd::Upgraded);
    world.breaks(VERIFIED);
    let mut world = verified(Course::Forward);
    goes_out(&mut world, VisitEnd::Reverted);
    world.breaks(VERIFIED);
}

#[test]
fn an_old_or_unfinished_answer_counts_for_nothing() {
    let mut world = verified(Course::Forward);
    goes_out(&mut world, VisitEnd::Upgraded);
    world.seen(0, |s| s.report = Some(report(3, RawVerdict::Pass)));
    world.breaks(VERIFIED);
    world.seen(0, |s| s.report = None);
    world.breaks(VERIFIED);
    world.seen(0, |s| {
        let mut working = report(4, RawVerdict::Pass);
        working.state = StepState::Working { remaining: 1, blocked_by: None };
        s.report = Some(working);
    });
    world.breaks(VERIFIED);
}

#[test]
fn nothing_passes_on_a_bad_or_missing_result() {
    for verdict in [RawVerdict::Fail, RawVerdict::Hang, RawVerdict::Inconclusive] {
        let mut world = verified(Course::Forward);
        world.seen(0, |s| s.report = Some(report(4, verdict)));
        goes_out(&mut world, VisitEnd::Upgraded);
        world.breaks("I13 broken control");
    }
    let mut world = verified(Course::Forward);
    world.seen(0, |s| s.report = Some(report(4, RawVerdict::NotApplicable)));
    goes_out(&mut world, VisitEnd::Upgraded);
    world.is_fine();
}

#[test]
fn what_runs_is_what_was_asked_for() {
    let mut world = verified(Course::Forward);
    world.runs(0, &old_vector());
    goes_out(&mut world, VisitEnd::Upgraded);
    world.breaks(VERIFIED);
    // What somebody else moves is left aside.
    let mut world = verified(Course::Forward);
    let mut vector = new_vector();
    vector.0.insert("host".parse().unwrap(), version("6.9"));
    world.runs(0, &vector);
    goes_out(&mut world, VisitEnd::Upgraded);
    world.is_fine();
    // On the way back, so is what can't be taken back.
    let mut world = verified(Course::Back);
    let mut vector = old_vector();
    vector.0.insert("firmware".parse().unwrap(), version("11"));
    world.runs(0, &vector);
    goes_out(&mut world, VisitEnd::Reverted);
    world.is_fine();
}

#[test]
fn the_answer_is_judged_when_the_node_has_arrived() {
    let mut world = verified(Course::Forward);
    world.seen(0, |s| s.report = Some(report(3, RawVerdict::Pass)));
    world.change(0, |r| r.visit.as_mut().unwrap().arrived = true);
    world.breaks(VERIFIED);
    // Later on it isn't asked for again.
    let mut world = verified(Course::Forward);
    world.was_held(0, |v| {
        v.step = Step::Verify;
        v.arrived = true;
    });
    world.seen(0, |s| s.report = None);
    goes_to_fence(&mut world);
    world.is_fine();
}

#[test]
fn only_an_untouched_node_is_given_back() {
    for end in [VisitEnd::Deferred, VisitEnd::GivenBack, VisitEnd::Preexisting] {
        let mut world = World::new();
        world.was_held(0, |v| v.step = Step::Drain);
        goes_out(&mut world, end);
        world.is_fine();
        let mut world = verified(Course::Forward);
        goes_out(&mut world, end);
        world.breaks(VERIFIED);
        let mut world = World::new();
        world.was_held(0, |v| v.step = Step::Apply(ApplyItem::Layout));
        goes_out(&mut world, end);
        world.breaks(VERIFIED);
    }
}

#[test]
fn a_visit_begins_at_its_beginning() {
    let mut world = World::new();
    world.reserve_as(0, |v| v.step = Step::Fence);
    world.breaks(VERIFIED);
}

#[test]
fn reverted_means_gone_back() {
    for (course, fine) in [(Course::Back, true), (Course::Forward, false)] {
        let mut world = World::new();
        world.was_held(0, |v| {
            v.step = Step::Verify;
            v.course = course;
        });
        world.change(0, |r| r.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Reverted));
        if fine { world.is_fine() } else { world.breaks(VERIFIED) }
    }
}

const BROKEN: &str = "I13 broken control";

/// Node 0 passed with a value; the check asks for one, the pool has a floor, and the node had 100 before.
fn passes_with(value: Option<f64>, edit: impl FnOnce(&mut World)) -> World {
    let mut world = verified(Course::Forward);
    let check = "vector-add".parse().unwrap();
    world.rollout(|r| {
        let suite = std::sync::Arc::make_mut(&mut r.suite);
        suite.checks[0].regress = Some("5%".parse().unwrap());
    });
    world.fleet.pools.get_mut("p").unwrap().spec.floors.insert(check, 50.0);
    world.was(0, |r| {
        let baseline = Baseline { value: Some(100.0), at: ago(600), on: target(&old_vector()) };
        r.baselines.insert("vector-add".parse().unwrap(), baseline);
    });
    world.seen(0, |s| s.report.as_mut().unwrap().checks[0].value = value);
    edit(&mut world);
    goes_out(&mut world, VisitEnd::Upgraded);
    world
}

#[test]
fn numbers_are_compared_once_more() {
    passes_with(Some(100.0), |_| {}).is_fine();
    passes_with(Some(95.0), |_| {}).is_fine();
    passes_with(Some(94.0), |_| {}).breaks(BROKEN);
    passes_with(None, |_| {}).breaks(BROKEN);
    passes_with(Some(f64::NAN), |_| {}).breaks(BROKEN);
    // Without a value of its own the floor still holds.
    let alone = |world: &mut World| world.was(0, |r| r.baselines.clear());
    passes_with(Some(51.0), alone).is_fine();
    passes_with(Some(49.0), alone).breaks(BROKEN);
}

#[test]
fn a_value_of_another_release_is_no_measure() {
    let other = |world: &mut World| {
        world.was(0, |r| {
            r.baselines.get_mut("vector-add").unwrap().on.layout = Some("l-00000001".parse().unwrap());
        });
    };
    passes_with(Some(60.0), other).is_fine();
    let before = |world: &mut World| {
        world.was(0, |r| r.baselines.get_mut("vector-add").unwrap().on = target(&new_vector()));
    };
    passes_with(Some(60.0), before).is_fine();
}

#[test]
fn a_check_without_a_result_hasnt_passed() {
    let mut world = verified(Course::Forward);
    world.rollout(|r| {
        let suite = std::sync::Arc::make_mut(&mut r.suite);
        let mut second = suite.checks[0].clone();
        second.name = "second".parse().unwrap();
        suite.checks.push(second);
    });
    goes_out(&mut world, VisitEnd::Upgraded);
    world.breaks(BROKEN);
}
