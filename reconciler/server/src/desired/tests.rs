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
    let changes = desired.take_in(&read("one", 1, documents("580.95.05", pools)), &[], T);
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
    let nodes: [SeenNode<'_>; 0] = [];
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
        let changes = desired.take_in(&two, &[], at(5));
        let [Change::Problem(SourceProblem::Invalid { commit, errors, first })] = &changes[..] else {
            panic!("{changes:?}")
        };
        assert!(commit == "two" && *errors > 0 && !first.is_empty());
        assert_eq!((in_force(&desired), desired.view().newest.as_deref()), ("one", Some("two")));
        // It isn't judged, and told, again and again.
        assert_eq!(desired.take_in(&two, &[], at(6)), []);
        let changes = desired.take_in(&read("three", 3, documents("580.105.08", 2)), &[], at(7));
        assert!(matches!(&changes[..], [Change::Adopted(_), Change::Well]), "{changes:?}");
        assert_eq!(in_force(&desired), "three");
    }
}

#[test]
fn a_mass_removal_is_held_until_it_is_meant() {
    let mut desired = with_one(10);
    let changes = desired.take_in(&read("two", 2, documents("580.95.05", 3)), &[], at(5));
    assert!(matches!(&changes[..], [Change::Problem(SourceProblem::MassRemoval { .. })]), "{changes:?}");
    assert_eq!(in_force(&desired), "one");
    let mut meant = documents("580.95.05", 3);
    let base = String::from_utf8(meant[0].1.clone()).unwrap();
    meant[0].1 = base.replace("spec: {}", "spec: {removalBudget: \"80%\"}").into_bytes();
    let changes = desired.take_in(&read("three", 3, meant), &[], at(6));
    assert!(matches!(&changes[..], [Change::Adopted(_), Change::Well]), "{changes:?}");
}

fn labels(pool: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("pool".to_owned(), pool.to_owned())])
}

#[test]
fn pools_that_hold_most_nodes_count_as_such() {
    // One of ten pools may go as far as the documents say, but it holds nearly all nodes that are there.
    let mut desired = with_one(10);
    let (large, small) = (labels("h100-9"), labels("h100-0"));
    let mut observed: Vec<SeenNode<'_>> = vec![("c01", &large); 400];
    observed.extend(vec![("c01", &small); 68]);
    let changes = desired.take_in(&read("two", 2, documents("580.95.05", 9)), &observed, at(5));
    let [Change::Problem(SourceProblem::MassRemoval { refused, .. })] = &changes[..] else {
        panic!("{changes:?}")
    };
    // Eight more pools have four nodes each by their documents.
    assert_eq!((refused.removed, refused.before, refused.allowed), (400, 500, 50));
    assert_eq!(refused.names, ["h100-9"]);
}

#[test]
fn a_selector_that_matches_nothing_any_more_takes_its_nodes_out() {
    let mut desired = with_one(3);
    let own = labels("h100-1");
    let observed: Vec<SeenNode<'_>> = vec![("c01", &own); 4];
    let mut slip = documents("580.95.05", 3);
    let (_, bytes) = slip.iter_mut().find(|(path, _)| path == "pools/1.yaml").unwrap();
    *bytes =
        String::from_utf8(bytes.clone()).unwrap().replace("{pool: h100-1}", "{pool: h100-l}").into_bytes();
    let changes = desired.take_in(&read("two", 2, slip), &observed, at(5));
    let [Change::Problem(SourceProblem::MassRemoval { refused, .. })] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert_eq!((refused.removed, refused.before), (4, 12), "{refused}");
    assert!(refused.to_string().contains("4 of 12 nodes (of h100-1)"), "{refused}");
    assert_eq!(in_force(&desired), "one");
}

/// And a calendar, in a file of its own.
fn with_calendar(mut files: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let text = "apiVersion: drydock.dev/v1alpha1\nkind: Calendar\nmetadata: {name: nights}\n\
                spec: {windows: [{from: \"02:00\", for: 2h, timeZone: UTC}]}\n";
    files.push(("calendar.yaml".to_owned(), text.as_bytes().to_vec()));
    files
}

#[test]
fn a_document_in_force_that_is_sealed_is_no_removal() {
    let mut desired = Desired::new(None, T);
    desired.take_in(&read("one", 1, with_calendar(documents("580.95.05", 2))), &[], T);
    assert_eq!(in_force(&desired), "one");
    for (n, (bytes, word)) in [
        (b"\0GITCRYPT\0\x01\x02\x03".to_vec(), "git-crypt"),
        (b"\x1f\x8b\x08\0\0".to_vec(), "gzip"),
        (b"$ANSIBLE_VAULT;1.1;AES256\n6162\n".to_vec(), "ansible-vault"),
        (b"apiVersion: ENC[AES256_GCM,data:x]\nsops:\n  mac: y\n".to_vec(), "sops"),
        (b"{ this is no YAML [".to_vec(), "isn't YAML"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut files = documents("580.95.05", 2);
        files.push(("calendar.yaml".to_owned(), bytes));
        let changes = desired.take_in(&read(&format!("two-{n}"), 2 + n as u64, files), &[], at(5));
        let [Change::Problem(SourceProblem::Incomplete { findings, .. })] = &changes[..] else {
            panic!("{word}: {changes:?}")
        };
        assert!(findings.len() == 1 && findings[0].contains("calendar.yaml"), "{findings:?}");
        assert!(findings[0].contains(word), "{findings:?}");
        assert_eq!(in_force(&desired), "one");
    }
}

#[test]
fn a_folder_of_documents_that_became_a_link_is_held_unless_they_are_somewhere_else() {
    let link = |path: &str| Finding { path: path.to_owned(), kind: FindingKind::Symlink };
    let mut desired = with_one(10);
    let mut gone = read("two", 2, documents("580.95.05", 9));
    Arc::make_mut(gone.last_good.as_mut().unwrap()).findings = vec![link("pools")];
    let changes = desired.take_in(&gone, &[], at(5));
    assert!(matches!(&changes[..], [Change::Problem(SourceProblem::Incomplete { .. })]), "{changes:?}");
    // Moved, with a link where the folder was: nothing is lost, and it is said.
    let mut files = documents("580.95.05", 10);
    for (path, _) in &mut files {
        *path = path.replace("pools/", "shared/pools/");
    }
    let mut moved = read("three", 3, files);
    Arc::make_mut(moved.last_good.as_mut().unwrap()).findings = vec![link("pools")];
    desired.take_in(&moved, &[], at(6));
    assert_eq!(in_force(&desired), "three");
    let warnings = &desired.in_force().unwrap().warnings;
    assert!(warnings.iter().any(|d| d.file == "pools" && d.message.contains("link")), "{warnings:?}");
}

#[test]
fn other_peoples_files_are_not_kept() {
    let mut files = documents("580.95.05", 2);
    files.push(("chart/values.yaml".to_owned(), b"a: 1\n".to_vec()));
    files.push(("CODEOWNERS".to_owned(), b"* @gpu\n".to_vec()));
    let mut desired = Desired::new(None, T);
    let changes = desired.take_in(&read("one", 1, files), &[], T);
    let [Change::Adopted(kept)] = &changes[..] else { panic!("{changes:?}") };
    let paths: Vec<&str> = kept.files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["CODEOWNERS", "base.yaml", "pools/0.yaml", "pools/1.yaml", "release.yaml"]);
}

#[test]
fn a_document_that_can_not_be_read_any_more_is_no_removal() {
    let mut desired = with_one(10);
    let mut two = read("two", 2, documents("580.95.05", 9));
    let snapshot = Arc::make_mut(two.last_good.as_mut().unwrap());
    let finding = |path: &str| Finding { path: path.to_owned(), kind: FindingKind::LfsPointer };
    snapshot.findings = vec![finding("charts/x.yaml"), finding("pools/9.yaml")];
    let changes = desired.take_in(&two, &[], at(5));
    let [Change::Problem(SourceProblem::Incomplete { findings, .. })] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(findings.len() == 1 && findings[0].contains("pools/9.yaml"), "{findings:?}");
    // What never was a document doesn't matter.
    let mut three = read("three", 3, documents("580.95.05", 10));
    Arc::make_mut(three.last_good.as_mut().unwrap()).findings = vec![finding("charts/x.yaml")];
    desired.take_in(&three, &[], at(6));
    assert_eq!(in_force(&desired), "three");
}

#[test]
fn a_rewritten_history_is_shown_while_it_is_held() {
    let mut desired = with_one(1);
    let movement = Movement::Rewritten { from: "one".to_owned(), to: "other".to_owned() };
    let held = SourceState { held: Some(movement), ..read("one", 1, documents("580.95.05", 1)) };
    desired.take_in(&held, &[], at(5));
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
    desired.take_in(&dead, &[], T);
    assert_eq!(in_force(&desired), "one");
    // A kept commit that a newer drydock finds wrong puts nothing in force.
    assert!(Desired::new(Some(kept("bad", Vec::new())), T).in_force().is_none());
}

#[test]
fn uncommitted_files_have_an_id_that_changes_with_them() {
    let mut desired = Desired::new(None, T);
    let mut ids = Vec::new();
    for (generation, driver) in [(1, "580.95.05"), (2, "580.105.08"), (3, "580.105.08")] {
        desired.take_in(&read(drydock_source::WORKTREE, generation, documents(driver, 1)), &[], T);
        ids.push(in_force(&desired).to_owned());
    }
    assert!(ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
}
