//! The story: the first rollout, a broken driver that goes back, and what the other commands say about it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;

use common::{Ran, drydock};

fn once(dir: &Path, act: &str) -> Ran {
    let args = [
        "demo",
        "--once",
        act,
        "--dir",
        "d",
        "--speed",
        "100000",
        "--listen",
        "127.0.0.1:0",
        "--format",
        "json",
    ];
    drydock(dir, &args)
}

#[test]
fn a_broken_driver_is_seen_by_one_node_and_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let ran = once(dir.path(), "broken");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    assert_eq!(summary["outcome"], serde_json::json!({"stage-driver-580.126.09": "RolledBack"}));
    assert_eq!(summary["exposed_nodes"], 1);
    assert_eq!(
        (summary["nodes_total"].as_u64(), summary["nodes_on_previous"].as_u64()),
        (Some(184), Some(184))
    );
    for zero in
        ["nodes_cordoned_by_drydock_at_end", "budget_violations", "invariant_violations", "nodes_quarantined"]
    {
        assert_eq!(summary[zero], 0, "{zero}: {summary}");
    }
    assert_eq!(summary["max_in_flight"], 1);
    assert!(summary["gpu_hours_lost"].as_f64().unwrap() > 0.0);
    assert!(ran.err.contains("Driver 580.126.09"), "{}", ran.err);

    // The same commit isn't started again.
    let again = once(dir.path(), "broken");
    assert_eq!(again.code, 0, "{}", again.err);
    let again_summary = again.json();
    assert_eq!(again_summary["already"], true);
    assert_eq!(again_summary["outcome"], summary["outcome"]);
    assert!(again.err.contains("nothing to start"), "{}", again.err);

    // What lies there can be read while nothing runs.
    let node = summary["exposed"][0].as_str().unwrap();
    let story = drydock(dir.path(), &["rollouts", "stage-driver-580.126.09", "--dir", "d", "--evidence"]);
    assert_eq!(story.code, 0, "{}", story.err);
    assert!(story.err.contains("no drydock runs in d"), "{}", story.err);
    for line in [
        "stage-driver-580.126.09   RolledBack   at ",
        &format!("  exposed     1 of 184 nodes   {node}"),
        "  why         driver check: vector-add: wrong result",
        "  blame       the version: ",
        "drydock retry r-",
        "expected 1048576, got 0",
    ] {
        assert!(story.out.contains(line), "{line}\n{}", story.out);
    }
    let list = drydock(dir.path(), &["rollouts", "--dir", "d"]);
    assert!(list.out.contains("Succeeded") && list.out.contains("RolledBack"), "{}", list.out);
    let why = drydock(dir.path(), &["why", node, "--dir", "d"]);
    assert_eq!(why.code, 0, "{}", why.err);
    assert!(why.out.starts_with(&format!("{node}   OutOfSync, Healthy, serving")), "{}", why.out);
    assert!(
        why.out.contains("to change  ") && why.out.contains("gpu-driver 580.95.05 -> 580.126.09"),
        "{}",
        why.out
    );
    assert!(why.out.contains("1. release r-") && why.out.contains("judged     "), "{}", why.out);
    let why = drydock(dir.path(), &["why", node, "--dir", "d", "--format", "json"]).json();
    assert_eq!(why["why"]["waitsFor"][0]["kind"], "releaseQuarantined");
    let status = drydock(dir.path(), &["status", "--dir", "d"]);
    assert!(status.out.starts_with("demo   OutOfSync, Healthy   at "), "{}", status.out);
    assert!(status.out.contains("640 of 640 GPUs in service"), "{}", status.out);
    let history = drydock(dir.path(), &["history", "--dir", "d"]);
    assert!(history.out.contains("Halted -> RolledBack"), "{}", history.out);

    // Nobody hears a command, and what isn't there is told.
    let pause = drydock(dir.path(), &["pause", "stage-driver-580.126.09", "--dir", "d"]);
    assert_eq!(pause.code, 75, "{}", pause.err);
    let slip = drydock(dir.path(), &["why", "c12-stage/h100-03", "--dir", "d"]);
    assert!(slip.code == 66 && slip.err.contains("did you mean c12-stage/h100-stage-003?"), "{}", slip.err);
    let slip = drydock(dir.path(), &["rollouts", "stage", "--dir", "d"]);
    assert!(slip.code == 66 && slip.err.contains("did you mean stage-driver-"), "{}", slip.err);
}

#[test]
fn nothing_there_has_words_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let status = drydock(dir.path(), &["status"]);
    assert_eq!((status.code, status.out.as_str()), (75, ""));
    assert!(status.err.contains("drydock demo"), "{}", status.err);
    let gone = drydock(dir.path(), &["status", "--server", "http://127.0.0.1:9"]);
    assert!(gone.code == 75 && gone.err.contains("doesn't answer"), "{}", gone.err);
    assert_eq!(drydock(dir.path(), &["why", "nonsense"]).code, 64);
    assert_eq!(drydock(dir.path(), &["retry", "r-12345678"]).code, 64);
    std::fs::write(dir.path().join("mine.txt"), "precious").unwrap();
    let foreign = drydock(dir.path(), &["demo", "--once", "good", "--dir", "."]);
    assert!(foreign.code == 64 && foreign.err.contains("isn't empty"), "{}", foreign.err);
}

#[test]
fn a_simulated_run_ends_with_3_when_it_ends_badly() {
    let dir = tempfile::tempdir().unwrap();
    let good =
        drydock(dir.path(), &["simulate", "--size", "S", "--seed", "2", "--until", "4h", "--format", "json"]);
    let summary = good.json();
    assert_eq!((good.code, summary["nodes_total"].as_u64()), (3, Some(184)));
    assert_eq!(summary["outcome"]["stage-driver-580.105.08"], "Unfinished");
    let fault = "- badVersion: {component: gpu-driver, version: \"580.105.08\", how: {readyButBroken: {check: driver}}}";
    std::fs::write(dir.path().join("f.yaml"), fault).unwrap();
    let bad = drydock(dir.path(), &["simulate", "--size", "S", "--fault", "f.yaml"]);
    assert_eq!(bad.code, 3, "{}", bad.err);
    assert!(bad.out.contains("RolledBack") && bad.out.contains("exposed   1 node"), "{}", bad.out);
    std::fs::write(dir.path().join("f.yaml"), "- nonsense: {}").unwrap();
    assert_eq!(drydock(dir.path(), &["simulate", "--size", "S", "--fault", "f.yaml"]).code, 66);
}
