//! The planner moves the simulated fleet.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::upgrade;
use drydock_sim::{FaultSpec, RunOptions, Workload, WorldOptions};

fn options(faults: &str) -> WorldOptions {
    WorldOptions {
        faults: FaultSpec::list(faults).unwrap(),
        workload: Some(Workload::default()),
        ..WorldOptions::default()
    }
}

fn lines(options: &WorldOptions) -> drydock_sim::Summary {
    let run = upgrade(options, RunOptions { node_lines: true, ..RunOptions::default() });
    if std::env::var_os("SHOW").is_some() {
        for line in &run.summary.timeline {
            eprintln!("{} {}", line.at, line.text);
        }
        let mut short = run.summary.clone();
        short.timeline.clear();
        eprintln!("{}", serde_json::to_string_pretty(&short).unwrap());
        eprintln!("{:#?}", run.report);
    }
    run.summary
}

#[test]
fn a_good_release_reaches_every_node() {
    let summary = lines(&options(""));
    assert_eq!(summary.outcome.values().collect::<Vec<_>>(), ["Succeeded"]);
    assert_eq!((summary.nodes_total, summary.nodes_on_target), (14, 14));
    assert_eq!(summary.nodes_cordoned_by_drydock_at_end, 0);
    assert_eq!(summary.invariant_violations, Vec::<String>::new());
    assert_eq!(summary.budget_violations, Vec::<String>::new());
    assert_eq!(summary.drains, 1);
    assert!(summary.max_in_flight >= 2);
}

#[test]
fn a_release_that_computes_wrongly_is_taken_back() {
    let summary = lines(&options(
        "- badVersion: {component: gpu-driver, version: \"580.2\", how: {readyButBroken: {check: driver}}}",
    ));
    assert!(summary.outcome.values().any(|word| word == "RolledBack"), "{:?}", summary.outcome);
    assert_eq!((summary.nodes_on_target, summary.nodes_on_previous), (0, 14));
    assert_eq!(summary.nodes_cordoned_by_drydock_at_end, 0);
    assert!(summary.exposed_nodes <= 2, "{}", summary.exposed_nodes);
    assert_eq!(summary.detections.len(), 1);
    assert_eq!(summary.invariant_violations, Vec::<String>::new());
    assert_eq!(summary.budget_violations, Vec::<String>::new());
}

#[test]
fn a_node_that_breaks_is_told_from_the_version() {
    let summary = lines(&options("- badNode: {node: c2/infer-002, how: checkFails}"));
    assert_eq!(summary.outcome.values().collect::<Vec<_>>(), ["Succeeded"]);
    assert_eq!((summary.nodes_on_target, summary.nodes_quarantined), (13, 1));
    assert_eq!(summary.nodes_cordoned_by_drydock_at_end, 1);
    assert_eq!(summary.invariant_violations, Vec::<String>::new());
}

#[test]
fn a_crash_before_any_write_changes_nothing_but_time() {
    for write in 1..=60 {
        let summary = lines(&options(&format!("- crash: {{atWrite: {write}}}")));
        assert_eq!(summary.outcome.values().collect::<Vec<_>>(), ["Succeeded"], "before write {write}");
        assert_eq!((summary.nodes_on_target, summary.drains), (14, 1), "before write {write}");
        assert_eq!(summary.invariant_violations, Vec::<String>::new(), "before write {write}");
        assert!(summary.timeline.iter().any(|line| line.text.contains("dies")), "before write {write}");
    }
}

#[test]
fn approvals_come_when_a_forecast_assumes_them() {
    let mut fleet = common::fleet("new");
    let gates =
        serde_json::from_value(serde_json::json!({"before": [{"approval": {"team": "sre", "count": 2}}]}));
    fleet.policies.values_mut().next().unwrap().spec.waves.get_mut(1).unwrap().gates = gates.unwrap();
    let options = options("");
    let run = |approve_after| {
        let world = drydock_sim::World::from_fleet(&common::fleet("old"), &options);
        let commit = common::commit_of(options.start, std::sync::Arc::new(fleet.clone()), "new");
        let script = drydock_sim::Script { commits: vec![commit], commands: Vec::new() };
        drydock_sim::Runner::new(world, script, RunOptions { approve_after, ..RunOptions::default() })
            .run()
            .summary
    };
    let waiting = run(None);
    assert_eq!(waiting.outcome.values().collect::<Vec<_>>(), ["Unfinished"]);
    assert!(waiting.reasons.contains_key("approval"));
    let assumed = run(Some(drydock_spec::Period::from_hours(2)));
    assert_eq!(assumed.outcome.values().collect::<Vec<_>>(), ["Succeeded"]);
    assert!(assumed.virtual_seconds > 2 * 3600);
}
