//! `drydock plan`: what a reviewer needs, from Git alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{commit, drydock, edit, repository, stable};

const AT: &str = "2026-03-02T17:00:00Z";

#[test]
fn a_new_driver_is_shown_by_its_waves() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "580.95.05", "580.105.08");
    let id = commit(dir.path(), "releases/driver.yaml", "Driver 580.105.08");
    let ran = drydock(dir.path(), &["plan", "--from", "HEAD~1", "--to", "HEAD", "--at", AT]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = ran.out.split_once('\n').unwrap().1.to_owned();
    insta::assert_snapshot!(stable(&text, &[&id]), @r"
      fabric-manager 580.95.05 -> 580.105.08 on 4 pools: a100-40-stage, a100-80-stage, h100-stage and 1 more
      gpu-driver 580.95.05 -> 580.105.08 on 9 pools: a100-40-research, a100-40-stage, a100-80-stage and 6 more

    rollout stage-driver-580.105.08 (RolloutPolicy stage-driver)
      wave  clusters      nodes  GPUs  away at most  window              checks       approval
      lab   c12-stage        24   192  6 / 48 GPUs   any                 driver rdma  -
                                                                         training
      dev   c08-research    160   448  12 / 48 GPUs  22:00-06:00 Berlin  driver rdma  -
                                                                         training

    limit                        value                            said by
    fleet-gpus maxInFlight       10% = 64 GPUs                    budgets/fleet.yaml:10
    fleet-gpus minAvailable      85% = 544 GPUs                   budgets/fleet.yaml:12
    research-floor minAvailable  92% = 148 nodes                  budgets/research.yaml:23
    research-pools maxInFlight   25% = 6 to 18 nodes, each pool   budgets/research.yaml:10
    research-pools minAvailable  70% = 17 to 51 nodes, each pool  budgets/research.yaml:12
    stage-floor maxInFlight      25% = 1 node, each pool          budgets/stage.yaml:11
    stage-floor minAvailable     75% = 3 nodes, each pool         budgets/stage.yaml:14
    batch of lab                 1 to 4 units, growing by 2       policies/stage-driver.yaml:16
    soak of lab                  30m                              policies/stage-driver.yaml:17
    tolerated in lab             0 failures                       policies/stage-driver.yaml:18
    batch of dev                 2 to 7.50% units, growing by 2   policies/stage-driver.yaml:25
    soak of dev                  30m                              policies/stage-driver.yaml:26
    tolerated in dev             1 failure                        policies/stage-driver.yaml:29
    maxClusters                  1                                policies/stage-driver.yaml:34
    wait for checkpoint          30m                              policies/stage-driver.yaml:40
    drain timeout                10m                              policies/stage-driver.yaml:41
    defaults  wait for disruption budgets 30m; deadline preflight 30m; deadline reboot 20m; deadline
              rollout 14d; deadline unit 12h; tries 2 of apply, 3 of checks; lost after 30m; patience 2h
    not seen  live clusters: node counts are nodes.min of the pools, and what runs is what the older
              documents say
    not seen  how long it takes: add --forecast
    ");
    let detailed = drydock(dir.path(), &["plan", "--from", "HEAD~1", "--to", "HEAD", "--detailed-exitcode"]);
    assert_eq!(detailed.code, 2);
}

#[test]
fn nothing_changed_is_said_in_one_line() {
    let dir = repository();
    let ran = drydock(dir.path(), &["plan", "--detailed-exitcode"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("no change ") && ran.out.lines().count() == 1, "{}", ran.out);
}

#[test]
fn a_change_that_moves_no_node_says_so() {
    let dir = repository();
    edit(dir.path(), "budgets/fleet.yaml", "maxInFlight: \"10%\"", "maxInFlight: \"9%\"");
    let ran = drydock(dir.path(), &["plan", "--detailed-exitcode"]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.starts_with("1 document changed, no node moves"), "{}", ran.out);
    assert!(ran.out.contains("1 Budget"), "{}", ran.out);
}

#[test]
fn removals_are_named_and_held() {
    let dir = repository();
    std::fs::remove_file(dir.path().join("pools/c08-research.yaml")).unwrap();
    edit(dir.path(), "costs/research.yaml", "pools: [\"h100-research\"]", "pools: [\"h100-stage\"]");
    edit(dir.path(), "costs/research.yaml", "pools: [\"a100-40-research\"]", "pools: [\"a100-40-stage\"]");
    edit(dir.path(), "fleet.yaml", "removalBudget: \"10%\"", "removalBudget: \"11%\"");
    let plan = drydock(dir.path(), &["plan", "--format", "json"]);
    assert_eq!(plan.code, 0, "{}{}", plan.out, plan.err);
    let plan = plan.json();
    assert_eq!(plan["removed"].as_array().unwrap().len(), 3);
    assert!(plan["held"].as_str().unwrap().contains("removalBudget"), "{plan}");
}

#[test]
fn json_has_waves_limits_and_the_forecast() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "580.95.05", "580.105.08");
    let args = ["plan", "--format", "json", "--at", AT, "--forecast", "--seeds", "2"];
    let plan = drydock(dir.path(), &args).json();
    assert_eq!((plan["nodes"].as_u64(), plan["gpus"].as_u64()), (Some(184), Some(640)));
    assert_eq!(plan["class"], "drain");
    let waves = plan["rollouts"][0]["waves"].as_array().unwrap();
    let sizes: Vec<_> = waves.iter().map(|wave| wave["nodes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [24, 160]);
    assert_eq!(waves[1]["windows"][0], "22:00-06:00 Berlin");
    let floor = plan["limits"].as_array().unwrap().iter().find(|l| l["of"] == "Budget stage-floor").unwrap();
    assert!(floor["origin"].as_str().unwrap().starts_with("budgets/stage.yaml:"), "{floor}");
    assert_eq!(plan["forecast"]["runs"], 2);
    assert_eq!(plan["forecast"]["ifBad"]["exposedNodes"], 1);
    assert!(plan["forecast"]["maxGpusAway"].as_u64().unwrap() <= 64);
}

#[test]
fn documents_with_errors_give_no_plan() {
    let dir = repository();
    edit(dir.path(), "releases/driver.yaml", "\"580.95.05\"", "580.10");
    let ran = drydock(dir.path(), &["plan"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("error[DD017]") && ran.out.contains("no plan: working tree has"), "{}", ran.out);
    let outside = tempfile::tempdir().unwrap();
    let outside = drydock(outside.path(), &["plan"]);
    assert!(outside.code == 66 && outside.err.contains("no Git repository"), "{}", outside.err);
}
