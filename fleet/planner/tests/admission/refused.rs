//! A cluster refuses to make what a node is to run: nobody has seen the version run, so it isn't to blame.

use drydock_plan::{
    Blocker, CommitRef, Inventory, Ledger, PauseReason, Planned, Reason, RolloutState, Step, StepReport,
    StepState,
};
use drydock_planner::{Input, check, plan};
use drydock_spec::{Fleet, Period};
use jiff::Timestamp;

use super::scene::{Pool, START, Scene};

/// A pass, which must break no invariant; the ledger takes in what it says.
fn pass(fleet: &Fleet, inventory: &mut Inventory, ledger: &mut Ledger, now: Timestamp) -> Planned {
    let commit = CommitRef { id: "1".repeat(40), summary: "new".into(), author: "op".into(), time: START };
    inventory.clusters.values_mut().for_each(|cluster| cluster.seen_at = now);
    let before = ledger.clone();
    let input = Input { fleet, commit: &commit, inventory, ledger: &before, now };
    let planned = plan(&input);
    planned.plan.changes.iter().for_each(|change| ledger.apply(change.clone()));
    assert_eq!(check::check(&input, &planned.plan, ledger), []);
    planned
}

#[test]
fn what_was_never_made_says_nothing_about_the_version() {
    let refused = Blocker::Refused("daemonsets is forbidden: namespace gpu is being terminated".to_owned());
    let scene = Scene { pools: vec![Pool::new("a", 1, 8)], ..Scene::default() };
    let first = scene.pass();
    let (fleet, mut inventory, mut ledger) = (first.fleet, first.inventory, first.after);
    let (mut now, mut named) = (START, false);
    for _ in 0..40 {
        let Some((id, record)) = ledger.nodes.iter().find(|(_, record)| record.visit.is_some()) else {
            break;
        };
        let visit = record.visit.as_ref().unwrap();
        let applies = matches!(visit.step, Step::Apply(_));
        let node = inventory.nodes.get_mut(id).unwrap();
        if visit.step != Step::Preflight {
            node.cordon.own = Some(record.epoch);
        }
        let blocked_by = Some(refused.clone());
        let state = if applies { StepState::Working { remaining: 0, blocked_by } } else { StepState::Done };
        node.report = Some(StepReport { generation: record.generation, state, checks: Vec::new() });
        // A step a second, and a whole patience where it is refused.
        let length = if applies { Period::between(now, visit.deadline) } else { Period::from_secs(1) };
        let planned = pass(&fleet, &mut inventory, &mut ledger, now);
        now = length.after(now);
        let _ = pass(&fleet, &mut inventory, &mut ledger, now);
        let waves = planned.report.rollouts.iter().flat_map(|rollout| &rollout.waves);
        named |= waves.flat_map(|wave| &wave.waits).any(
            |wait| matches!(&wait.reason, Reason::Applying { blocked_by: Some(by), .. } if *by == refused),
        );
        let rollout = ledger.rollouts.values().next().unwrap();
        assert!(rollout.failures.is_empty(), "{:?}", rollout.failures);
        if let RolloutState::Paused(PauseReason::Inconclusive { detail, .. }) = &rollout.state {
            assert!(named && detail.contains("being terminated"), "{detail}");
            return;
        }
    }
    panic!("it never waited for a person: {:?}", ledger.rollouts);
}
