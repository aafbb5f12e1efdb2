//! `drydock validate`: every mistake with its place, and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{commit, drydock, edit, repository, stable};

#[test]
fn mistakes_are_shown_with_a_caret_and_a_hint() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "fabric-manager: \"580.95.05\"", "fabric-manager: 580.10");
    edit(dir.path(), "policies/stage-driver.yaml", "maxClusters: 1", "maxCluster: 1");
    let ran = drydock(dir.path(), &["validate", "--quiet"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    insta::assert_snapshot!(stable(&ran.out, &[]), @r#"
    error[DD019]: unknown field `maxCluster`
      --> policies/stage-driver.yaml:34:3
       |
    34 |   maxCluster: 1
       |   ^^^^^^^^^^
       |
       = help: did you mean `maxClusters`?
    error[DD017]: `fabric-manager` must be text, but `580.10` is read as the number 580.1
      --> releases/driver.yaml:32:21
       |
    32 |     fabric-manager: 580.10
       |                     ^^^^^^
       |
       = help: quote it: fabric-manager: "580.10"
    2 errors, 0 warnings in 33 documents (N ms)
    "#);
}

#[test]
fn a_good_fleet_ends_with_0_wherever_one_stands() {
    let dir = repository();
    let ran = drydock(dir.path(), &["validate", "--quiet"]);
    insta::assert_snapshot!(stable(&ran.out, &[]), @"0 errors, 0 warnings in 33 documents (N ms)");
    assert_eq!(ran.code, 0);
    let parent = dir.path().parent().unwrap();
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(drydock(parent, &["validate", name]).code, 0);
}

#[test]
fn json_has_all_of_it() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "fabric-manager: \"580.95.05\"", "fabric-manager: 580.10");
    let report = drydock(dir.path(), &["validate", "--format", "json"]).json();
    assert_eq!(report["errors"], 1);
    assert_eq!(report["valid"], false);
    let first = report["diagnostics"].as_array().unwrap().iter().find(|d| d["severity"] == "error").unwrap();
    assert_eq!(first["rule"], "DD017");
    assert_eq!(first["file"], "releases/driver.yaml");
    assert!(first["span"]["line"].as_u64().unwrap() > 1);
}

#[test]
fn a_revision_is_read_as_it_was_committed() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "fabric-manager: \"580.95.05\"", "fabric-manager: 580.10");
    commit(dir.path(), "releases/driver.yaml", "A slip");
    edit(dir.path(), "releases/driver.yaml", "fabric-manager: 580.10", "fabric-manager: \"580.95.05\"");
    assert_eq!(drydock(dir.path(), &["validate"]).code, 0);
    assert_eq!(drydock(dir.path(), &["validate", "--rev", "HEAD"]).code, 1);
    assert_eq!(drydock(dir.path(), &["validate", "--rev", "HEAD~1"]).code, 0);
}

#[test]
fn what_isnt_there_has_words_and_a_code_of_its_own() {
    let dir = repository();
    let missing = drydock(dir.path(), &["validate", "nowhere"]);
    assert_eq!((missing.code, missing.out.as_str()), (66, ""));
    assert!(missing.err.contains("nowhere doesn't exist"), "{}", missing.err);
    let revision = drydock(dir.path(), &["validate", "--rev", "no-such-branch"]);
    assert!(revision.code == 66 && revision.err.contains("git log"), "{}", revision.err);
    let empty = tempfile::tempdir().unwrap();
    let empty = drydock(empty.path(), &["validate"]);
    assert!(empty.code == 66 && empty.err.contains("drydock demo"), "{}", empty.err);
    assert_eq!(drydock(dir.path(), &["validate", "--what"]).code, 64);
    assert_eq!(drydock(dir.path(), &[]).code, 64);
    assert_eq!(drydock(dir.path(), &["validate", "--help"]).code, 0);
}
