#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use drydock_source::{Attempt, ErrorKind, Failure, Finding, FindingKind, Movement};
use jiff::Timestamp;

use super::*;
use crate::testing::{documents, kept, read};

const T: Timestamp = Timestamp::UNIX_EPOCH;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// With commit `one` in force, read after a start without anything kept.
fn with_one(pools: usize) -> Desired {
    let mut desired = Desired::new(None, T);
    assert!(desired.in_force().is_none());
    assert_eq!(desired.view().problem, Some(SourceProblem::NotReadYet {}));
    let changes = desired.take_in(&read("one", 1, documents("580.95.05", pools)), &BTreeMap::new(), T);
    assert!(matches!(&changes[..], [Change::Adopted(kept)] if kept.commit.id == "one"), "{changes:?}");
    assert_eq!(desired.view().problem, None);
    desired
}

fn in_force(desired: &Desired) -> &str {
    &desired.in_force().unwrap().commit.id
}

#[test]
fn what_can_not_be_read_keeps_the_last_good_commit() {
    let mut desired = with_one(2);
    let good = read("one", 1, documents("580.95.05", 2));
    let fail = |what: ErrorKind, text: &str, at: Timestamp| {
        let failure = Failure { kind: what, text: text.to_owned() };
        SourceState { last_attempt: Some(Attempt { at, result: Err(failure) }), failures: 3, ..good.clone() }
    };
    let nodes = BTreeMap::new();
    let changes = desired.take_in(&fail(ErrorKind::Unreachable, "port 4711", at(10)), &nodes, at(10));
    assert!(matches!(&changes[..], [Change::Problem(SourceProblem::Unreadable { .. })]), "{changes:?}");
    // Another port is the same trouble, and its age counts from the first.
    assert_eq!(desired.take_in(&fail(ErrorKind::Unreachable, "port 4712", at(20)), &nodes, at(20)), []);
    assert_eq!((desired.view().problem_since, desired.view().failures), (Some(at(10)), 3));
    assert!(desired.view().problem_text.as_ref().unwrap().contains("4712"));
    // An emptied repository is another trouble.
    let changes = desired.take_in(&fail(ErrorKind::EmptyTree, "nothing", at(30)), &nodes, at(30));
    assert_eq!((changes.len(), in_force(&desired)), (1, "one"));
    assert_eq!(desired.take_in(&good, &nodes, at(40)), [Change::Well]);
    assert_eq!((desired.view().problem_since, in_force(&desired)), (None, "one"));
}

#[test]
fn documents_with_errors_keep_the_last_good_commit() {
    let bad: [Vec<(String, Vec<u8>)>; 4] = [
        Vec::new(),
        vec![("x.yaml".to_owned(), b"apiVersion: drydock.dev/v1alpha1\nkind: [".to_vec())],
        vec![("readme.txt".to_owned(), b"hello".to_vec())],
        documents("580.105.08", 2).into_iter().filter(|(path, _)| path != "release.yaml").collect(),
    ];
    for files in bad {
        let mut desired = with_one(2);
        let two = read("two", 2, files);
        let changes = desired.take_in(&two, &BTreeMap::new(), at(5));
        let [Change::Problem(SourceProblem::Invalid { commit, errors, first })] = &changes[..] else {
            panic!("{changes:?}")
        };
        assert!(commit == "two" && *errors > 0 && !first.is_empty());
        assert_eq!((in_force(&desired), desired.view().newest.as_deref()), ("one", Some("two")));
        // It isn't judged, and told, again and again.
        assert_eq!(desired.take_in(&two, &BTreeMap::new(), at(6)), []);
        let changes = desired.take_in(&read("three", 3, documents("580.105.08", 2)), &BTreeMap::new(), at(7));
        assert!(matches!(&changes[..], [Change::Adopted(_), Change::Well]), "{changes:?}");
        assert_eq!(in_force(&desired), "three");
    }
}

#[test]
fn a_mass_removal_is_held_until_it_is_meant() {
    let mut desired = with_one(10);
    let changes = desired.take_in(&read("two", 2, documents("580.95.05", 3)), &BTreeMap::new(), at(5));
    assert!(matches!(&changes[..], [Change::Problem(SourceProblem::MassRemoval { .. })]), "{changes:?}");
    assert_eq!(in_force(&desired), "one");
    let mut meant = documents("580.95.05", 3);
    let base = String::from_utf8(meant[0].1.clone()).unwrap();
    meant[0].1 = base.replace("spec: {}", "spec: {removalBudget: \"80%\"}").into_bytes();
    let changes = desired.take_in(&read("three", 3, meant), &BTreeMap::new(), at(6));
    assert!(matches!(&changes[..], [Change::Adopted(_), Change::Well]), "{changes:?}");
}

#[test]
fn pools_that_hold_most_nodes_count_as_such() {
    // One of ten pools may go as far as the documents say, but it holds nearly all nodes that are there.
    let mut desired = with_one(10);
    let observed = BTreeMap::from([("h100-9".parse().unwrap(), 400), ("h100-0".parse().unwrap(), 100)]);
    let changes = desired.take_in(&read("two", 2, documents("580.95.05", 9)), &observed, at(5));
    let [Change::Problem(SourceProblem::MassRemoval { refused, .. })] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert_eq!((refused.removed, refused.before, refused.allowed), (400, 500, 50));
}

#[test]
fn a_document_that_can_not_be_read_any_more_is_no_removal() {
    let mut desired = with_one(10);
    let mut two = read("two", 2, documents("580.95.05", 9));
    let snapshot = Arc::make_mut(two.last_good.as_mut().unwrap());
    let finding = |path: &str| Finding { path: path.to_owned(), kind: FindingKind::LfsPointer };
    snapshot.findings = vec![finding("charts/x.yaml"), finding("pools/9.yaml")];
    let changes = desired.take_in(&two, &BTreeMap::new(), at(5));
    let [Change::Problem(SourceProblem::Incomplete { findings, .. })] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(findings.len() == 1 && findings[0].contains("pools/9.yaml"), "{findings:?}");
    // What never was a document doesn't matter.
    let mut three = read("three", 3, documents("580.95.05", 10));
    Arc::make_mut(three.last_good.as_mut().unwrap()).findings = vec![finding("charts/x.yaml")];
    desired.take_in(&three, &BTreeMap::new(), at(6));
    assert_eq!(in_force(&desired), "three");
}

#[test]
fn a_rewritten_history_is_shown_while_it_is_held() {
    let mut desired = with_one(1);
    let movement = Movement::Rewritten { from: "one".to_owned(), to: "other".to_owned() };
    let held = SourceState { held: Some(movement), ..read("one", 1, documents("580.95.05", 1)) };
    desired.take_in(&held, &BTreeMap::new(), at(5));
    let Some(SourceProblem::Rewritten { from, to }) = &desired.view().problem else { panic!() };
    assert_eq!((from.as_str(), to.as_str(), in_force(&desired)), ("one", "other", "one"));
}

#[test]
fn the_kept_commit_is_in_force_after_a_restart_whatever_the_repository_says() {
    let desired = Desired::new(Some(kept("one", documents("580.95.05", 2))), T);
    assert_eq!((in_force(&desired), desired.in_force().unwrap().fleet.pools.len()), ("one", 2));
    let mut desired = desired;
    let dead = SourceState {
        last_attempt: Some(Attempt {
            at: T,
            result: Err(Failure { kind: ErrorKind::Unreachable, text: "gone".to_owned() }),
        }),
        ..SourceState::default()
    };
    desired.take_in(&dead, &BTreeMap::new(), T);
    assert_eq!(in_force(&desired), "one");
    // A kept commit that a newer drydock finds wrong puts nothing in force.
    assert!(Desired::new(Some(kept("bad", Vec::new())), T).in_force().is_none());
}

#[test]
fn uncommitted_files_have_an_id_that_changes_with_them() {
    let mut desired = Desired::new(None, T);
    let mut ids = Vec::new();
    for (generation, driver) in [(1, "580.95.05"), (2, "580.105.08"), (3, "580.105.08")] {
        desired.take_in(
            &read(drydock_source::WORKTREE, generation, documents(driver, 1)),
            &BTreeMap::new(),
            T,
        );
        ids.push(in_force(&desired).to_owned());
    }
    assert!(ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
}
