//! I6, I17.

use drydock_plan::*;

use super::fixture::*;

const HYGIENE: &str = "I6 cordon hygiene";
const RECOVERY: &str = "I17 recovery";

fn out(end: VisitEnd) -> impl FnOnce(&mut Visit) {
    move |v| {
        v.course = Course::Out(end);
        v.step = Step::Return;
    }
}
fn quarantine(evidence: Vec<Evidence>) -> NodeQuarantine {
    NodeQuarantine { rollout: roll(), since: now(), blame: Blame::Node, evidence, retry: None }
}

#[test]
fn a_rollout_that_ended_holds_nothing() {
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.change_rollout(|r| r.state = RolloutState::Aborted);
    assert!(world.violations().iter().any(|v| v.invariant == HYGIENE));
    for n in 0..NODES {
        world.change(n, |r| {
            r.assignment = None;
            r.visit = None;
        });
    }
    world.is_fine();
}

#[test]
fn a_node_on_its_way_out_is_let_go_and_nothing_else() {
    let mut world = World::new();
    world.was_held(0, out(VisitEnd::GivenBack));
    world.breaks(RECOVERY);
    world.act(0, Ensure::Returned);
    world.is_fine();
    world.act(0, Ensure::Drained { rules: Default::default() });
    let found: Vec<_> = world.violations().iter().map(|v| v.invariant).collect();
    assert_eq!(found, ["I2 reservation first", HYGIENE]);
}

#[test]
fn pauses_halts_freezes_and_budgets_do_not_hold_it() {
    for state in [RolloutState::Halted, RolloutState::Paused(PauseReason::Deadline)] {
        let mut world = World::new();
        world.rollout(|r| r.state = state);
        world.budget(|b| b.max_in_flight = Some(drydock_spec::Amount::Count(0)));
        world.was_held(0, out(VisitEnd::Deferred));
        world.breaks(RECOVERY);
    }
}

#[test]
fn a_node_that_cannot_be_reached_waits() {
    let mut world = World::new();
    world.was_held(0, out(VisitEnd::GivenBack));
    world.inventory.clusters.get_mut("c").unwrap().error = Some("timeout".to_owned());
    world.is_fine();
    let mut world = World::new();
    world.was_held(0, out(VisitEnd::GivenBack));
    world.inventory.clusters.get_mut("c").unwrap().seen_at = ago(6);
    world.is_fine();
    let mut world = World::new();
    world.was_held(0, out(VisitEnd::GivenBack));
    world.inventory.nodes.remove(&node(0));
    world.is_fine();
}

#[test]
fn a_node_is_not_let_go_in_the_middle() {
    let mut world = World::new();
    world.was_held(0, |v| v.step = Step::Verify);
    world.act(0, Ensure::Returned);
    let found: Vec<_> = world.violations().iter().map(|v| v.invariant).collect();
    assert_eq!(found, ["I2 reservation first", HYGIENE]);
}

#[test]
fn a_halt_gives_back_what_it_has_not_begun_to_change() {
    let states = [
        RolloutState::Halted,
        RolloutState::RollingBack,
        RolloutState::Paused(PauseReason::Aborting { by: "ann".to_owned() }),
    ];
    for state in states {
        let mut world = World::new();
        world.was_held(0, |v| v.step = Step::Drain);
        world.change_rollout(|r| r.state = state.clone());
        world.is_fine();
        let mut world = World::new();
        world.rollout(|r| r.state = state);
        world.was_held(0, |v| v.step = Step::Verify);
        world.is_fine();
        world.was_held(0, |v| v.step = Step::Drain);
        world.breaks(RECOVERY);
    }
    let mut world = World::new();
    world.rollout(|r| r.state = RolloutState::Paused(PauseReason::Deadline));
    world.was_held(0, |v| v.step = Step::Drain);
    world.is_fine();
}

#[test]
fn a_visit_ends_when_the_cordon_is_gone() {
    let mut world = World::new();
    world.was_held(0, out(VisitEnd::Deferred));
    world.change(0, |r| r.visit = None);
    world.is_fine();
    world.seen(0, |s| s.cordon.own = Some(Epoch(1)));
    world.breaks(HYGIENE);
    // The node is gone, and its cordon with it.
    world.inventory.nodes.remove(&node(0));
    world.is_fine();
}

#[test]
fn a_visit_does_not_end_in_the_middle() {
    for (step, fine) in [(Step::Preflight, true), (Step::Cordon, false), (Step::Verify, false)] {
        let mut world = World::new();
        world.was_held(0, |v| v.step = step);
        world.change(0, |r| r.visit = None);
        if fine { world.is_fine() } else { world.breaks(HYGIENE) }
    }
}

#[test]
fn a_node_is_quarantined_for_a_reason() {
    let with = |evidence: Vec<Evidence>, lost: bool| {
        let mut world = World::new();
        world.was_held(0, |v| {
            v.step = Step::Verify;
            v.course = Course::Back;
            v.lost_since = lost.then(|| ago(40));
        });
        world.seen(0, |s| s.cordon.own = Some(Epoch(1)));
        world.intend(0, |r| {
            r.visit = None;
            r.quarantine = Some(quarantine(evidence));
        });
        world.act(0, Ensure::Kept);
        world
    };
    with(vec![evidence()], false).is_fine();
    with(Vec::new(), true).is_fine();
    with(Vec::new(), false).breaks(HYGIENE);
}

#[test]
fn a_quarantined_node_is_not_in_flight() {
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.intend(0, |r| r.quarantine = Some(quarantine(vec![evidence()])));
    world.breaks(HYGIENE);
}

#[test]
fn only_a_person_ends_a_quarantine() {
    let mut world = World::new();
    world.was(0, |r| r.quarantine = Some(quarantine(vec![evidence()])));
    world.change(0, |r| r.quarantine = None);
    world.breaks(HYGIENE);
    let command = Command {
        at: ago(1),
        by: "ann".to_owned(),
        reason: "new board".to_owned(),
        what: CommandKind::RetryNode { node: node(0) },
        done: false,
    };
    world.before.commands.insert(1, command);
    world.is_fine();
}

#[test]
fn a_record_is_kept_while_its_node_is_held() {
    let mut world = World::new();
    world.was_held(0, |_| {});
    world.changes.push(LedgerChange::ForgetNode(node(0)));
    world.breaks(HYGIENE);
    world.inventory.nodes.remove(&node(0));
    world.is_fine();
    let mut world = World::new();
    world.changes.push(LedgerChange::ForgetNode(node(1)));
    world.is_fine();
}
