//! The fleet by itself: intents, answers, faults, without a planner.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Hand, apply, fleet, node, order};
use drydock_plan::{Blocker, Ensure, Epoch, Generation, RawVerdict, StepState};
use drydock_sim::{FaultSpec, Refused, Workload, World, WorldOptions};
use drydock_spec::{CheckClass, DomainKey, Period, layout_id};

fn options(faults: &str) -> WorldOptions {
    WorldOptions { faults: FaultSpec::list(faults).unwrap(), ..WorldOptions::default() }
}

fn hand(faults: &str) -> Hand {
    Hand::new(World::from_fleet(&fleet("old"), &options(faults)))
}

#[test]
fn a_world_is_what_the_documents_say() {
    let fleet = fleet("old");
    let world = World::from_fleet(&fleet, &WorldOptions::default());
    let inventory = world.inventory();
    assert_eq!(inventory.nodes.len(), 14);
    let first = inventory.nodes.get(&node("c1/train-000")).unwrap();
    assert_eq!(first.pool.as_ref().unwrap().as_str(), "train");
    assert_eq!(&**first.domain(DomainKey::ScalableUnit).unwrap(), "train-su1");
    assert_eq!(
        &**inventory.nodes.get(&node("c1/train-005")).unwrap().domain(DomainKey::Rack).unwrap(),
        "train-rack2"
    );
    assert_eq!(first.gpus, 8);
    assert_eq!(first.layout, Some(layout_id(fleet.layouts.get("whole").unwrap())));
    // The scheduler is software of the cluster; every node of it shows the same one.
    assert_eq!(first.running.vector.0.len(), 3);
    assert!(world.next_event().is_none());
}

#[test]
fn a_visit_changes_what_runs() {
    let mut hand = hand("");
    let id = node("c1/train-000");
    assert_eq!(hand.ensure(&id, Ensure::Cordoned).state, StepState::Done);
    assert_eq!(hand.seen(&id).cordon.own, Some(Epoch(1)));
    assert_eq!(hand.ensure(&id, Ensure::Drained { rules: Default::default() }).state, StepState::Done);
    hand.ask(&id, apply("gpu-driver", "580.2"));
    assert_eq!(hand.seen(&id).gpus, 0, "without a driver there are no GPUs");
    let before = hand.world.now();
    let next = hand.world.next_event().unwrap();
    hand.world.advance(next);
    let took = Period::between(before, next).as_secs_f64();
    assert!((120.0..=1260.0).contains(&took), "{took}");
    assert_eq!(hand.report(&id).state, StepState::Done);
    assert_eq!(
        hand.seen(&id).running.vector.get(&"gpu-driver".parse().unwrap()).unwrap().version.as_str(),
        "580.2"
    );
    assert_eq!(hand.seen(&id).gpus, 8);
    let checks = vec![order("vector-add", CheckClass::Driver), order("all-reduce", CheckClass::Rdma)];
    let report = hand.ensure(&id, Ensure::Checked { checks });
    assert!(report.checks.iter().all(|check| check.verdict == RawVerdict::Pass), "{report:?}");
    let reduce = report.checks.get(1).unwrap().value.unwrap();
    assert!((300.0..360.0).contains(&reduce), "{reduce}");
    assert_eq!(hand.ensure(&id, Ensure::Returned).state, StepState::Done);
    assert_eq!(hand.seen(&id).cordon.own, None);
    assert_eq!(hand.world.oracle().most.nodes, 1);
    assert_eq!(hand.world.oracle().away.nodes, 0);
    assert!(hand.world.oracle().away_gpu_millis > 8 * 120_000);
    assert!(hand.world.oracle().findings.is_empty());
}

#[test]
fn the_same_intent_twice_is_once_and_old_ones_are_refused() {
    let mut hand = hand("");
    let id = node("c2/infer-001");
    let first = hand.action(&id, Ensure::Cordoned);
    let second = hand.action(&id, Ensure::Drained { rules: Default::default() });
    hand.world.execute(&first).unwrap();
    hand.world.execute(&second).unwrap();
    let snapshot = hand.world.snapshot();
    hand.world.execute(&second).unwrap();
    let writes = |s: &drydock_sim::Snapshot| {
        serde_json::to_string(&s.nodes).unwrap().replace("\"writes\":3", "\"writes\":2")
    };
    assert_eq!(writes(&hand.world.snapshot()), writes(&snapshot));
    assert!(matches!(hand.world.execute(&first), Err(Refused::OldGeneration { .. })));
    let mut other = second.clone();
    other.ensure = Ensure::Returned;
    assert!(matches!(hand.world.execute(&other), Err(Refused::Conflict { .. })));
    let mut newer = second.clone();
    newer.epoch = Epoch(2);
    newer.generation = Generation(9);
    hand.world.execute(&newer).unwrap();
    let mut stale = newer.clone();
    stale.epoch = Epoch(1);
    stale.generation = Generation(10);
    assert!(matches!(hand.world.execute(&stale), Err(Refused::OldEpoch { .. })));
    assert_eq!(hand.world.oracle().stale_writes, 2);
}

#[test]
fn a_running_change_finishes_before_the_next_intent() {
    let mut hand = hand("");
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ask(&id, apply("gpu-driver", "580.2"));
    hand.ask(&id, apply("gpu-driver", "570.1"));
    assert!(matches!(hand.report(&id).state, StepState::Working { .. }));
    let next = hand.world.next_event().unwrap();
    hand.world.advance(next);
    let running =
        |hand: &Hand| hand.seen(&id).running.vector.get(&"gpu-driver".parse().unwrap()).unwrap().clone();
    assert_eq!(running(&hand).version.as_str(), "580.2");
    assert!(matches!(hand.report(&id).state, StepState::Working { .. }), "the way back has only begun");
    let next = hand.world.next_event().unwrap();
    hand.world.advance(next);
    assert_eq!(running(&hand).version.as_str(), "570.1");
    assert_eq!(hand.report(&id).state, StepState::Done);
}

#[test]
fn a_reboot_changes_the_boot_and_takes_the_node_away_meanwhile() {
    let mut hand = hand("");
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    let boot = hand.seen(&id).boot_id;
    let Ensure::Applied { component, version, attempt, .. } = apply("gpu-driver", "580.2") else {
        unreachable!()
    };
    hand.ask(&id, Ensure::Applied { component, version, reboot: true, attempt });
    let next = hand.world.next_event().unwrap();
    hand.world.advance(next);
    assert!(!hand.seen(&id).ready);
    let next = hand.world.next_event().unwrap();
    hand.world.advance(next);
    assert!(hand.seen(&id).ready);
    assert_eq!(hand.seen(&id).boot_id, boot + 1);
    assert_eq!(hand.report(&id).state, StepState::Done);
}

/// One row: a way of being bad, the answer to the application, the verdict of a driver check on it.
#[test]
fn bad_versions_are_bad_in_their_way_and_go_away_with_another_version() {
    let rows = [
        ("crashLoops", "Failed", RawVerdict::Fail),
        ("hangs", "Working", RawVerdict::Fail),
        ("notReady", "Working", RawVerdict::Fail),
        ("{readyButBroken: {check: driver}}", "Done", RawVerdict::Fail),
        ("{hangsInCheck: {check: vector-add}}", "Done", RawVerdict::Hang),
        ("{slow: {percent: 40, check: driver}}", "Done", RawVerdict::Pass),
    ];
    for (how, answer, verdict) in rows {
        let fault = format!("- badVersion: {{component: gpu-driver, version: \"580.2\", how: {how}}}");
        let mut hand = hand(&fault);
        let id = node("c1/train-000");
        let check = |hand: &mut Hand| {
            let report =
                hand.ensure(&id, Ensure::Checked { checks: vec![order("vector-add", CheckClass::Driver)] });
            report.checks.first().unwrap().clone()
        };
        let good = check(&mut hand).value.unwrap();
        hand.ensure(&id, Ensure::Cordoned);
        let report = hand.ensure(&id, apply("gpu-driver", "580.2"));
        assert!(format!("{:?}", report.state).starts_with(answer), "{how}: {report:?}");
        let result = check(&mut hand);
        assert_eq!(result.verdict, verdict, "{how}");
        if let Some(value) = result.value {
            assert!(value < good * 0.65, "{how}: {value} of {good}");
        }
        assert_eq!(hand.ensure(&id, apply("gpu-driver", "570.1")).state, StepState::Done, "{how}");
        assert_eq!(check(&mut hand).verdict, RawVerdict::Pass, "{how}");
    }
}

#[test]
fn a_bad_node_stays_bad_on_every_version() {
    let mut hand = hand("- badNode: {node: c1/train-000, how: checkFails}");
    let id = node("c1/train-000");
    let check = |hand: &mut Hand| {
        let report =
            hand.ensure(&id, Ensure::Checked { checks: vec![order("vector-add", CheckClass::Driver)] });
        report.checks.first().unwrap().verdict
    };
    assert_eq!(check(&mut hand), RawVerdict::Pass, "it breaks when it is touched");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ensure(&id, apply("gpu-driver", "580.2"));
    assert_eq!(check(&mut hand), RawVerdict::Fail);
    hand.ensure(&id, apply("gpu-driver", "570.1"));
    assert_eq!(check(&mut hand), RawVerdict::Fail);
}

#[test]
fn foreign_cordons_are_left_alone() {
    let mut hand = hand("- foreignCordon: {node: c1/train-000, at: \"2026-03-02T09:00:00Z\"}");
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ensure(&id, Ensure::Returned);
    assert_eq!(hand.seen(&id).cordon.own, None);
    assert_eq!(hand.seen(&id).cordon.foreign.as_deref(), Some("somebody"));
}

#[test]
fn drains_wait_for_a_disruption_budget() {
    let mut hand = hand("- pdbBlocks: {node: c2/infer-000, until: \"2026-03-02T09:30:00Z\"}");
    let id = node("c2/infer-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ask(&id, Ensure::Drained { rules: Default::default() });
    let StepState::Working { remaining, blocked_by } = hand.report(&id).state else {
        panic!("still working")
    };
    assert!(remaining >= 1);
    assert!(matches!(blocked_by, Some(Blocker::DisruptionBudget(_))));
    for _ in 0..20 {
        if let Some(next) = hand.world.next_event() {
            hand.world.advance(next);
        }
    }
    assert_eq!(hand.report(&id).state, StepState::Done);
    assert!(hand.world.now() >= "2026-03-02T09:30:00Z".parse().unwrap());
}

#[test]
fn an_unreachable_cluster_keeps_its_last_facts_and_goes_on() {
    let faults = "- clusterUnreachable: {cluster: c1, at: \"2026-03-02T09:00:30Z\", for: 20m}";
    let mut hand = hand(faults);
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ask(&id, apply("gpu-driver", "580.2"));
    hand.world.advance("2026-03-02T09:10:00Z".parse().unwrap());
    let cluster = hand.world.inventory().clusters.get("c1").unwrap();
    assert!(cluster.error.is_some());
    assert!(cluster.seen_at < "2026-03-02T09:00:31Z".parse().unwrap());
    assert!(matches!(hand.report(&id).state, StepState::Working { .. }), "nobody has seen the end");
    let action = hand.action(&id, Ensure::Returned);
    assert!(matches!(hand.world.execute(&action), Err(Refused::Unreachable(_))));
    hand.world.advance("2026-03-02T09:21:00Z".parse().unwrap());
    assert_eq!(hand.report(&id).state, StepState::Done);
    assert!(hand.world.inventory().clusters.get("c1").unwrap().error.is_none());
}

#[test]
fn stale_reads_lag_and_catch_up() {
    let faults = "- staleReads: {cluster: c2, at: \"2026-03-02T09:00:00Z\", for: 10m, lag: 2m}";
    let mut hand = hand(faults);
    let id = node("c2/infer-000");
    hand.world.advance("2026-03-02T09:00:10Z".parse().unwrap());
    hand.ask(&id, Ensure::Cordoned);
    assert!(hand.seen(&id).report.is_none());
    hand.world.advance("2026-03-02T09:02:10Z".parse().unwrap());
    assert_eq!(hand.report(&id).state, StepState::Done);
}

#[test]
fn gangs_write_checkpoints_when_asked_and_are_interrupted_as_a_whole() {
    let options = WorldOptions {
        faults: FaultSpec::list(
            "- gangLong: {nodes: [c1/train-000, c1/train-001, c1/train-002], at: \"2026-03-02T09:00:00Z\", for: 20h, checkpoint: 1h}",
        )
        .unwrap(),
        ..WorldOptions::default()
    };
    let mut hand = Hand::new(World::from_fleet(&fleet("old"), &options));
    hand.world.advance("2026-03-02T09:20:00Z".parse().unwrap());
    let id = node("c1/train-001");
    let gangs = hand.seen(&id).work.gangs.clone();
    assert_eq!(gangs.len(), 1);
    assert_eq!(hand.world.inventory().gangs.get(gangs.first().unwrap()).unwrap().nodes.len(), 3);
    hand.ensure(&id, Ensure::Cordoned);
    assert_eq!(hand.ensure(&id, Ensure::Checkpointed { gangs }).state, StepState::Done);
    hand.ask(&id, Ensure::Drained { rules: Default::default() });
    assert!(hand.seen(&node("c1/train-000")).work.gangs.is_empty());
    assert_eq!(hand.seen(&id).work.gpu_pods, 1, "the pod here has still to leave");
    assert_eq!((hand.world.oracle().gangs_moved, hand.world.oracle().gangs_cut), (1, 0));
    // It comes back on nodes that are free.
    hand.world.advance("2026-03-02T10:00:00Z".parse().unwrap());
    let running = hand.world.inventory().gangs.values().next().unwrap();
    assert!(!running.nodes.contains(&id));
}

#[test]
fn a_lost_node_comes_back_and_goes_on() {
    let mut hand = hand("- nodeLost: {node: c1/train-000, at: \"2026-03-02T09:01:00Z\", backAfter: 30m}");
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ask(&id, apply("gpu-driver", "580.2"));
    hand.world.advance("2026-03-02T09:20:00Z".parse().unwrap());
    assert!(!hand.seen(&id).ready);
    assert!(matches!(hand.report(&id).state, StepState::Working { .. }));
    hand.world.advance("2026-03-02T09:40:00Z".parse().unwrap());
    assert!(hand.seen(&id).ready);
    assert_eq!(hand.report(&id).state, StepState::Done);
}

#[test]
fn a_fault_that_comes_later_goes_with_the_version() {
    let fault = "- badVersion: {component: plugin, version: \"0.18\", how: {faultsLater: {kind: xid-95, after: 20m}}}";
    let mut hand = hand(fault);
    let id = node("c1/train-000");
    hand.ensure(&id, apply("plugin", "0.18"));
    assert!(hand.seen(&id).faults.is_empty());
    let later = Period::from_mins(21).after(hand.world.now());
    hand.world.advance(later);
    assert_eq!(hand.seen(&id).faults.first().unwrap().kind, "xid-95");
    hand.ensure(&id, apply("plugin", "0.17"));
    assert!(hand.seen(&id).faults.is_empty());
}

#[test]
fn deleted_nodes_go_and_fresh_ones_take_their_place() {
    let faults = "
- nodeDeleted: {node: c1/train-000, at: \"2026-03-02T09:10:00Z\"}
- nodeRecreated: {node: c1/train-000, at: \"2026-03-02T09:20:00Z\"}";
    let mut hand = hand(faults);
    let id = node("c1/train-000");
    hand.ensure(&id, Ensure::Cordoned);
    hand.world.advance("2026-03-02T09:15:00Z".parse().unwrap());
    assert!(!hand.world.inventory().nodes.contains_key(&id));
    assert_eq!(hand.world.oracle().away.nodes, 0);
    hand.world.advance("2026-03-02T09:25:00Z".parse().unwrap());
    let seen = hand.seen(&id);
    assert_eq!(seen.pool.as_ref().unwrap().as_str(), "train");
    assert_eq!(seen.cordon.own, None);
    assert!(seen.report.is_none());
}

#[test]
fn the_oracle_sees_changes_without_a_cordon() {
    let mut hand = hand("");
    hand.ensure(&node("c1/train-000"), apply("plugin", "0.18"));
    assert!(hand.world.oracle().findings.is_empty(), "a restart in place needs no cordon here");
    hand.ensure(&node("c1/train-000"), apply("gpu-driver", "580.2"));
    assert_eq!(hand.world.oracle().findings.len(), 1);
}

#[test]
fn hardware_fails_at_the_stated_rate_and_is_repaired() {
    let mut options = options("- spontaneous: {perGpuDay: 0.05}");
    options.workload = Some(Workload::default());
    let mut world = World::from_fleet(&fleet("old"), &options);
    let mut seen = 0;
    let end = Period::from_hours(24 * 10).after(options.start);
    while let Some(next) = world.next_event().filter(|next| *next <= end) {
        world.advance(next);
        seen += world
            .take_log()
            .iter()
            .filter(|line| line.text.contains("xid") || line.text.contains("rail"))
            .count();
    }
    // 88 GPUs for ten days at 0.05: 44 are expected.
    assert!((20..=80).contains(&seen), "{seen}");
    let broken = world.inventory().nodes.values().filter(|node| !node.faults.is_empty()).count();
    assert!(broken < 10, "{broken}");
}

#[test]
fn durations_do_not_depend_on_when_a_step_begins() {
    let length = |wait: u64| {
        let mut hand = hand("");
        let id = node("c1/train-003");
        let start = Period::from_mins(wait).after(hand.world.now());
        hand.world.advance(start);
        hand.ask(&id, apply("gpu-driver", "580.2"));
        Period::between(start, hand.world.next_event().unwrap())
    };
    assert_eq!(length(0), length(77));
}

#[test]
fn a_scheduler_changes_for_its_whole_cluster() {
    let mut hand = hand(
        "- handEdit: {node: c2/infer-001, at: \"2026-03-02T12:00:00Z\", component: scheduler, version: \"1.2\"}",
    );
    let id = node("c1/train-003");
    hand.ensure(&id, Ensure::Cordoned);
    hand.ensure(&id, apply("scheduler", "1.1"));
    let versions = |hand: &Hand, cluster: &str| {
        let nodes = hand.world.inventory().nodes.iter().filter(|(id, _)| id.cluster() == cluster);
        let mut all: Vec<String> = nodes
            .map(|(_, n)| n.running.vector.get(&"scheduler".parse().unwrap()).unwrap().version.to_string())
            .collect();
        all.dedup();
        all
    };
    assert_eq!(versions(&hand, "c1"), ["1.1"]);
    assert_eq!(versions(&hand, "c2"), ["1.0"]);
    hand.world.advance("2026-03-02T13:00:00Z".parse().unwrap());
    assert_eq!(versions(&hand, "c2"), ["1.2"]);
}
