//! The ledger forgets what ended long ago and what nothing refers to.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{
    Blame, Command, CommandKind, CommitRef, Ledger, LedgerChange, NewRollout, NodeId, NodeQuarantine,
    NodeRecord, ReleaseQuarantine, RolloutId, RolloutKind, RolloutRecord, RolloutState, Target,
};
use drydock_spec::{Period, ReleaseId};

use crate::scene::{Pool, START, Scene};

/// A fleet where nothing moves: its one node isn't ready.
fn scene() -> Scene {
    Scene { pools: vec![Pool { dead: 1, ..Pool::new("p", 1, 8) }], ..Scene::default() }
}

fn id(n: u32) -> RolloutId {
    RolloutId::new(&format!("all-{n:03}"))
}

/// The n-th rollout of the policy, which succeeded an hour after the one before it.
fn ended(n: u32, release: &ReleaseId) -> RolloutRecord {
    let fleet = scene().fleet();
    let created = Period::from_hours(u64::from(n)).after("2026-01-01T00:00:00Z".parse().unwrap());
    let commit = CommitRef { id: "2".repeat(40), summary: "s".into(), author: "a".into(), time: created };
    let mut record = RolloutRecord::new(NewRollout {
        id: id(n),
        policy: "all".parse().unwrap(),
        strategy: fleet.policies["all"].spec.clone(),
        suite: Arc::new(fleet.suites["suite"].spec.clone()),
        commit,
        kind: RolloutKind::Forward,
        targets: BTreeMap::from([("p".parse().unwrap(), Target { release: release.clone(), layout: None })]),
        security: false,
        created,
    });
    record.state = RolloutState::Succeeded;
    record.ended = Some(created);
    record
}

fn ledger(rollouts: u32) -> Ledger {
    let old = scene().fleet().releases["old"].vector().id();
    let mut ledger = Ledger::default();
    for n in 0..rollouts {
        ledger.apply(LedgerChange::Rollout(Box::new(ended(n, &old))));
    }
    ledger
}

fn said(ledger: &mut Ledger, number: u64, what: CommandKind) {
    let command = Command { at: START, by: "ann".into(), reason: "because".into(), what, done: true };
    ledger.apply(LedgerChange::Command(number, command));
}

fn forgotten(before: &Ledger) -> Vec<String> {
    let outcome = scene().pass_on(before);
    let gone = outcome.planned.plan.changes.iter().filter_map(|change| match change {
        LedgerChange::ForgetRollout(id) => Some(id.to_string()),
        LedgerChange::ForgetCommand(number) => Some(format!("command {number}")),
        _ => None,
    });
    let gone = gone.collect();
    // What is forgotten isn't missed: planning again forgets nothing more.
    let again = scene().pass_on(&outcome.after).planned.plan.changes;
    let more =
        |c: &LedgerChange| matches!(c, LedgerChange::ForgetRollout(_) | LedgerChange::ForgetCommand(_));
    assert!(!again.iter().any(more), "{again:?}");
    gone
}

#[test]
fn the_newest_fifty_stay() {
    assert!(forgotten(&ledger(50)).is_empty());
    assert_eq!(forgotten(&ledger(53)), ["all-000", "all-001", "all-002"]);
}

#[test]
fn what_something_refers_to_stays() {
    let fleet = scene().fleet();
    let (old, new) = (fleet.releases["old"].vector().id(), fleet.releases["new"].vector().id());
    let mut ledger = ledger(56);
    let why = ReleaseQuarantine { rollout: id(0), since: START, why: "it failed".into() };
    ledger.apply(LedgerChange::Quarantine("p".parse().unwrap(), old, why));
    let quarantine = NodeQuarantine {
        rollout: id(1),
        since: START,
        blame: Blame::Node,
        evidence: Vec::new(),
        retry: None,
    };
    let record = NodeRecord { quarantine: Some(quarantine), ..NodeRecord::default() };
    ledger.apply(LedgerChange::Node(NodeId::new("c/p-000"), Box::new(record)));
    // A person ended it, and Git still asks for the same.
    let aborted = RolloutRecord { state: RolloutState::Aborted, ..ended(2, &new) };
    ledger.apply(LedgerChange::Rollout(Box::new(aborted)));
    assert_eq!(forgotten(&ledger), ["all-003", "all-004", "all-005"]);
}

#[test]
fn what_was_said_about_a_forgotten_rollout_is_forgotten_with_it() {
    let mut ledger = ledger(51);
    said(&mut ledger, 1, CommandKind::Pause { rollout: id(0) });
    said(&mut ledger, 2, CommandKind::Pause { rollout: id(1) });
    assert_eq!(forgotten(&ledger), ["all-000", "command 1"]);
}

#[test]
fn the_newest_commands_stay_and_retries_that_still_count() {
    let mut ledger = ledger(1);
    let aborted = RolloutRecord {
        state: RolloutState::Aborted,
        ..ended(0, &scene().fleet().releases["new"].vector().id())
    };
    ledger.apply(LedgerChange::Rollout(Box::new(aborted)));
    said(&mut ledger, 1, CommandKind::RetryRelease { release: "r-00000000".parse().unwrap(), pool: None });
    let release = scene().fleet().releases["new"].vector().id();
    said(&mut ledger, 2, CommandKind::RetryRelease { release, pool: None });
    for number in 3..=202 {
        said(&mut ledger, number, CommandKind::Skip { node: NodeId::new("c/p-000") });
    }
    assert_eq!(forgotten(&ledger), ["command 1"]);
}
