//! `why` is made from the steps of the plan, and is never silent about a node that isn't what Git says.

use std::sync::Arc;

use drydock_plan::{
    Command, CommandKind, CommitRef, HISTORY_MAX, HistoryEntry, Ledger, LedgerChange, NodeId, PauseReason,
    Reason, RolloutEvent, RolloutState, Stack, WaveState,
};
use drydock_planner::{Explanation, Input, plan, why};
use drydock_spec::{ComponentVersion, Fleet, Period, Version};
use jiff::Timestamp;
use serde_json::json;

use super::scene::{Outcome, Pool, START, Scene};

fn commit() -> CommitRef {
    CommitRef { id: "1".repeat(40), summary: "new".into(), author: "op".into(), time: START }
}

/// What `why` says of a node, on this ledger.
fn ask(outcome: &Outcome, fleet: &Fleet, ledger: &Ledger, node: &str, now: Timestamp) -> Explanation {
    let mut inventory = outcome.inventory.clone();
    inventory.clusters.values_mut().for_each(|c| c.seen_at = now);
    let commit = commit();
    let input = Input { fleet, commit: &commit, inventory: &inventory, ledger, now };
    why(&input, &NodeId::new(node)).unwrap()
}

/// The ledger after another pass.
fn again(outcome: &Outcome, ledger: &Ledger, now: Timestamp) -> Ledger {
    let mut inventory = outcome.inventory.clone();
    inventory.clusters.values_mut().for_each(|c| c.seen_at = now);
    let commit = commit();
    let input = Input { fleet: &outcome.fleet, commit: &commit, inventory: &inventory, ledger, now };
    let mut after = ledger.clone();
    plan(&input).plan.changes.into_iter().for_each(|change| after.apply(change));
    after
}

fn say(ledger: &mut Ledger, by: &str, at: Timestamp, what: CommandKind) {
    let number = ledger.commands.keys().next_back().map_or(1, |n| n + 1);
    let command = Command { at, by: by.into(), reason: "because".into(), what, done: false };
    ledger.apply(LedgerChange::Command(number, command));
}

fn scene() -> Scene {
    Scene { pools: vec![Pool::new("a", 4, 8)], ..Scene::default() }
}

fn later(minutes: u64) -> Timestamp {
    Period::from_mins(minutes).after(START)
}

/// Two nodes that were reserved in one pass have the same deadline, and so the same reason: each of them is told.
#[test]
fn two_nodes_that_wait_for_the_same_are_both_told() {
    let first = scene().pass();
    for node in ["c/a-000", "c/a-001"] {
        let told = ask(&first, &first.fleet, &first.after, node, START);
        assert_eq!(told.step.as_deref(), Some("preflight"));
        assert!(matches!(told.waits_for[..], [Reason::Preflight { .. }]), "{node}: {:?}", told.waits_for);
    }
}

#[test]
fn a_pool_that_no_policy_selects_is_named() {
    let scene = Scene { policy: json!({"select": {"pools": ["other"]}}), ..scene() };
    let first = scene.pass();
    let told = ask(&first, &first.fleet, &first.after, "c/a-000", START);
    assert_eq!(told.waits_for, [Reason::NoPolicy { pool: "a".parse().unwrap() }]);
    assert!(first.planned.report.holds.iter().any(|w| w.nodes == 4 && w.reason == told.waits_for[0]));
}

#[test]
fn an_abort_is_told_with_who_and_what_to_say() {
    let first = scene().pass();
    let id = first.after.rollouts.keys().next().unwrap().clone();
    let mut ledger = first.after.clone();
    say(&mut ledger, "ann", START, CommandKind::Abort { rollout: id.clone() });
    let mut now = START;
    for minute in 1..5 {
        now = later(minute);
        ledger = again(&first, &ledger, now);
        // Nobody answers in this scene: what is on its way out is through.
        for record in ledger.nodes.values_mut() {
            record.visit = None;
        }
    }
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Aborted);
    let told = ask(&first, &first.fleet, &ledger, "c/a-001", now);
    let release = told.wanted.clone().unwrap().release;
    let by = Some("ann: because".to_owned());
    assert_eq!(told.waits_for, [Reason::AbortedBefore { rollout: id, by, release: Some(release.clone()) }]);
    // Said about another pool, it changes nothing here.
    for (pool, rollouts) in [("b", 1), ("a", 2)] {
        let what = CommandKind::RetryRelease { release: release.clone(), pool: Some(pool.parse().unwrap()) };
        say(&mut ledger, "ann", now, what);
        now = Period::from_mins(1).after(now);
        ledger = again(&first, &ledger, now);
        assert_eq!(ledger.rollouts.len(), rollouts, "after a retry on {pool}");
    }
}

/// drydock doesn't move what it only observes, and what the release doesn't name. `why` says who has to.
#[test]
fn what_others_have_to_move_is_named() {
    let first = scene().pass();
    let mut inventory = first.inventory.clone();
    let mut vector = first.fleet.releases["new"].vector();
    let version = |text: &str| ComponentVersion {
        version: Version::new(text),
        digest: None,
        config: Default::default(),
    };
    vector.0.insert("leftover".parse().unwrap(), version("1.0"));
    let stack = Arc::new(Stack::new(vector));
    inventory.nodes.values_mut().for_each(|node| node.running = Arc::clone(&stack));
    let outcome = Outcome { inventory, ..first };
    let told = ask(&outcome, &outcome.fleet, &Ledger::default(), "c/a-000", START);
    let leftover = Reason::LeftToOthers {
        component: "leftover".parse().unwrap(),
        running: Some("1.0".to_owned()),
        wanted: None,
    };
    assert_eq!((told.synced, told.waits_for), (true, vec![leftover]));
}

/// Each cause of a pause ends by itself, and all of them are told.
#[test]
fn every_cause_of_a_pause_is_kept() {
    let scene = Scene { policy: json!({"waves": [{"name": "all", "batch": {"start": 1}}]}), ..scene() };
    let first = scene.pass();
    let id = first.after.rollouts.keys().next().unwrap().clone();
    let mut ledger = first.after.clone();
    let node = NodeId::new("c/a-000");
    let broken = PauseReason::Inconclusive { node: node.clone(), detail: "no image".to_owned() };
    let mut record = (*ledger.rollouts[&id]).clone();
    record.state = RolloutState::Paused(broken.clone());
    ledger.apply(LedgerChange::Rollout(Box::new(record)));
    ledger.nodes.get_mut(&node).unwrap().visit.as_mut().unwrap().inconclusive = 3;
    say(&mut ledger, "ann", START, CommandKind::Pause { rollout: id.clone() });
    ledger = again(&first, &ledger, later(1));
    let hers = PauseReason::Control { by: "ann: because".to_owned() };
    assert_eq!(ledger.rollouts[&id].pauses().cloned().collect::<Vec<_>>(), [broken.clone(), hers.clone()]);
    let told = ask(&first, &first.fleet, &ledger, "c/a-003", later(1)).waits_for;
    for why in [broken, hers.clone()] {
        assert!(told.contains(&Reason::Paused { why: why.clone() }), "{why:?} in {told:?}");
    }
    // The runner works again: hers still holds.
    ledger.nodes.get_mut(&node).unwrap().visit.as_mut().unwrap().inconclusive = 0;
    ledger = again(&first, &ledger, later(2));
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Paused(hers));
    say(&mut ledger, "ann", later(2), CommandKind::Resume { rollout: id.clone() });
    ledger = again(&first, &ledger, later(3));
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Running);
    assert!(ledger.rollouts[&id].also_paused.is_empty());
}

/// A rollout that was resumed after its deadline isn't paused by it again, however much has happened since.
#[test]
fn a_long_history_doesnt_forget_that_somebody_resumed() {
    let scene = Scene { policy: json!({"deadline": {"rollout": "1h"}}), ..scene() };
    let first = scene.pass();
    let id = first.after.rollouts.keys().next().unwrap().clone();
    let mut ledger = again(&first, &first.after, later(61));
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Paused(PauseReason::Deadline));
    say(&mut ledger, "ann", later(62), CommandKind::Resume { rollout: id.clone() });
    ledger = again(&first, &ledger, later(62));
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Running);
    let mut record = (*ledger.rollouts[&id]).clone();
    let wave = record.waves[0].name.clone();
    let entry = |n: u64| HistoryEntry {
        at: later(62 + n),
        what: RolloutEvent::Wave { wave: wave.clone(), state: WaveState::Running },
    };
    record.history = (1..=HISTORY_MAX as u64).map(entry).collect();
    ledger.apply(LedgerChange::Rollout(Box::new(record)));
    ledger = again(&first, &ledger, later(700));
    assert_eq!(ledger.rollouts[&id].state, RolloutState::Running);
}

/// What the ledger of an older drydock says is still understood.
#[test]
fn commands_of_an_older_ledger_are_read() {
    let old = json!({"RetryRelease": {"release": "r-00000000"}});
    let read: CommandKind = serde_json::from_value(old.clone()).unwrap();
    let release = "r-00000000".parse().unwrap();
    assert_eq!(read, CommandKind::RetryRelease { release, pool: None });
    assert_eq!(serde_json::to_value(read).unwrap(), old);
}
