//! Faults by themselves: what each does to a machine, and what readers see of it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Hand, apply, fleet, node, order, version};
use drydock_plan::{Ensure, NodeId, RawVerdict, StepReport, StepState};
use drydock_sim::{FaultSpec, Workload, World, WorldOptions};
use drydock_spec::{CheckClass, CheckOn, DomainKey, Period};

const START: &str = "2026-03-02T09:00:00Z";

fn hand(faults: &str) -> Hand {
    let faults = FaultSpec::list(&faults.replace("START", START)).unwrap();
    Hand::new(World::from_fleet(&fleet("old"), &WorldOptions { faults, ..WorldOptions::default() }))
}

fn first() -> NodeId {
    node("c1/train-000")
}

fn check(hand: &mut Hand, id: &NodeId) -> StepReport {
    hand.ensure(id, Ensure::Checked { checks: vec![order("vector-add", CheckClass::Driver)] })
}

fn verdict(report: &StepReport) -> RawVerdict {
    report.checks.first().unwrap().verdict
}

fn pass_time(hand: &mut Hand, minutes: u64) {
    let to = Period::from_mins(minutes).after(hand.world.now());
    hand.world.advance(to);
}

fn runs(hand: &Hand, id: &NodeId) -> Option<String> {
    let driver = "gpu-driver".parse().unwrap();
    hand.seen(id).running.vector.get(&driver).map(|v| v.version.as_str().to_owned())
}

#[test]
fn a_wedged_node_fails_on_every_release_until_its_power_is_cut() {
    let cycle = "- powerCycle: {node: c1/train-000, at: \"2026-03-02T12:00:00Z\"}";
    let bad = "- badVersion: {component: gpu-driver, version: \"580.2\", how: wedges}";
    let mut hand = hand(&format!("{bad}\n{cycle}"));
    hand.ensure(&first(), Ensure::Cordoned);
    hand.ensure(&first(), apply("gpu-driver", "580.2"));
    assert_eq!(verdict(&check(&mut hand, &first())), RawVerdict::Fail);
    hand.ensure(&first(), apply("gpu-driver", "570.1"));
    assert_eq!(verdict(&check(&mut hand, &first())), RawVerdict::Fail);
    let boot = hand.seen(&first()).boot_id;
    pass_time(&mut hand, 240);
    assert_eq!(hand.seen(&first()).boot_id, boot + 1);
    assert_eq!(verdict(&check(&mut hand, &first())), RawVerdict::Pass);
}

#[test]
fn nothing_can_be_installed_on_a_brick() {
    let mut hand = hand("- badVersion: {component: gpu-driver, version: \"580.2\", how: bricks}");
    hand.ensure(&first(), Ensure::Cordoned);
    assert_eq!(hand.ensure(&first(), apply("gpu-driver", "580.2")).state, StepState::Done);
    assert_eq!(verdict(&check(&mut hand, &first())), RawVerdict::Fail);
    let back = hand.ensure(&first(), apply("gpu-driver", "570.1"));
    assert!(matches!(back.state, StepState::Failed { .. }), "{back:?}");
}

#[test]
fn a_failed_installation_leaves_the_old_part_the_new_one_or_nothing() {
    for (how, left) in [("failsEarly", Some("570.1")), ("failsHalfway", Some("580.2")), ("crashLoops", None)]
    {
        let mut hand =
            hand(&format!("- badVersion: {{component: gpu-driver, version: \"580.2\", how: {how}}}"));
        hand.ensure(&first(), Ensure::Cordoned);
        let failed = hand.ensure(&first(), apply("gpu-driver", "580.2"));
        assert!(matches!(failed.state, StepState::Failed { .. }), "{how}: {failed:?}");
        assert_eq!(runs(&hand, &first()).as_deref(), left, "{how}");
        // Half a driver carries no GPUs.
        let gpus = if how == "failsEarly" { 8 } else { 0 };
        assert_eq!(hand.seen(&first()).gpus, gpus, "{how}");
        assert_eq!(hand.ensure(&first(), apply("gpu-driver", "570.1")).state, StepState::Done, "{how}");
        assert_eq!(verdict(&check(&mut hand, &first())), RawVerdict::Pass, "{how}");
    }
}

#[test]
fn a_version_gets_slower_while_it_runs_and_a_node_by_itself() {
    let version = "- badVersion: {component: gpu-driver, version: \"580.2\", how: {slowsDown: {percent: 40, over: 10h, check: driver}}}";
    let alone = "- nodeSlows: {node: c1/train-001, at: START, percent: 40, over: 10h, check: driver}";
    let value = |report: &StepReport| report.checks.first().unwrap().value.unwrap();
    for (fault, id) in [(version, first()), (alone, node("c1/train-001"))] {
        let mut hand = hand(fault);
        hand.ensure(&id, Ensure::Cordoned);
        hand.ensure(&id, apply("gpu-driver", "580.2"));
        let young = value(&check(&mut hand, &id));
        pass_time(&mut hand, 300);
        let middle = value(&check(&mut hand, &id));
        pass_time(&mut hand, 600);
        let old = value(&check(&mut hand, &id));
        assert!(young > 440.0 && young < 470.0, "{young}");
        assert!(middle < young * 0.95, "{young} {middle}");
        assert!(old < 0.62 * 467.0 && old < middle, "{middle} {old}");
    }
}

#[test]
fn outliers_are_single_runs() {
    let mut hand = hand("- outliers: {check: vector-add, probability: 0.5, percent: 50}");
    let mut low = 0;
    for _ in 0..40 {
        low += u32::from(check(&mut hand, &first()).checks.first().unwrap().value.unwrap() < 300.0);
    }
    assert!((8..=32).contains(&low), "{low}");
}

#[test]
fn a_flapping_node_is_not_ready_again_and_again_and_never_boots() {
    let mut hand = hand("- flaps: {node: c1/train-000, at: START, every: 10m, down: 3m, times: 4}");
    let boot = hand.seen(&first()).boot_id;
    let mut spells = 0;
    let mut ready = true;
    for _ in 0..120 {
        pass_time(&mut hand, 1);
        let now = hand.seen(&first()).ready;
        spells += u32::from(now && !ready);
        ready = now;
    }
    assert_eq!((spells, hand.seen(&first()).boot_id), (4, boot));
    assert!(ready);
}

#[test]
fn a_version_makes_its_nodes_flap_as_long_as_it_runs() {
    let mut hand = hand(
        "- badVersion: {component: gpu-driver, version: \"580.2\", how: {flaps: {every: 10m, down: 2m, times: 50}}}",
    );
    hand.ensure(&first(), Ensure::Cordoned);
    hand.ensure(&first(), apply("gpu-driver", "580.2"));
    pass_time(&mut hand, 11);
    assert!(!hand.seen(&first()).ready);
    pass_time(&mut hand, 3);
    assert!(hand.seen(&first()).ready);
    hand.ensure(&first(), apply("gpu-driver", "570.1"));
    for _ in 0..60 {
        pass_time(&mut hand, 1);
        assert!(hand.seen(&first()).ready);
    }
}

#[test]
fn a_domain_fails_as_a_whole() {
    let rack = "{key: rack, value: train-rack2}";
    let power = format!("- domainFails: {{cluster: c1, domain: {rack}, at: START, for: 20m}}");
    let mut lost = hand(&power);
    let away = |hand: &Hand| hand.world.inventory().nodes.values().filter(|node| !node.ready).count();
    pass_time(&mut lost, 1);
    assert_eq!(away(&lost), 4);
    assert!(!lost.seen(&node("c1/train-004")).ready);
    pass_time(&mut lost, 30);
    assert_eq!(away(&lost), 0);
    let mut sick = hand(&power.replace("START,", "START, kind: rail-missing,"));
    pass_time(&mut sick, 1);
    assert_eq!(sick.seen(&node("c1/train-005")).faults.len(), 1);
    assert!(sick.seen(&node("c1/train-003")).faults.is_empty());
    pass_time(&mut sick, 30);
    assert!(sick.seen(&node("c1/train-005")).faults.is_empty());
}

#[test]
fn a_place_may_be_a_domain_and_pools_may_share_one() {
    let bad = "- badVersion: {component: gpu-driver, version: \"580.2\", where: {domain: {key: rack, value: \"*rack1\"}}, how: {readyButBroken: {check: driver}}}";
    let mut hand = hand(bad);
    for (id, expected) in [(first(), RawVerdict::Fail), (node("c1/train-004"), RawVerdict::Pass)] {
        hand.ensure(&id, Ensure::Cordoned);
        hand.ensure(&id, apply("gpu-driver", "580.2"));
        assert_eq!(verdict(&check(&mut hand, &id)), expected, "{id}");
    }
    let rows = [("train".parse().unwrap(), "hall".to_owned())].into_iter().collect();
    let world = World::from_fleet(&fleet("old"), &WorldOptions { rows, ..WorldOptions::default() });
    let seen = world.inventory().nodes.get(&first()).unwrap();
    assert_eq!(&**seen.domain(DomainKey::Rack).unwrap(), "hall-rack1");
}

fn prefetch(to: &str) -> Ensure {
    let artifacts = [("gpu-driver".parse().unwrap(), vec![version(to)])].into_iter().collect();
    Ensure::Preflight { artifacts, checks: Vec::new() }
}

#[test]
fn what_cannot_be_pulled_is_not_prefetched() {
    let mut hand = hand("- registryAway: {at: START, for: 2h}");
    let away = hand.ensure(&first(), prefetch("580.2"));
    assert!(matches!(&away.state, StepState::Failed { message } if message.contains("can't be pulled")));
    // What runs is there.
    assert_eq!(hand.ensure(&first(), prefetch("570.1")).state, StepState::Done);
    // An installation waits for the registry.
    let asked = hand.world.now();
    hand.ensure(&first(), Ensure::Cordoned);
    assert_eq!(hand.ensure(&first(), apply("gpu-driver", "580.2")).state, StepState::Done);
    assert!(hand.world.now() > Period::from_mins(100).after(asked));
    assert_eq!(hand.ensure(&node("c1/train-001"), prefetch("580.2")).state, StepState::Done);
}

#[test]
fn an_image_that_does_not_exist_is_never_pulled() {
    let mut hand = hand("- badVersion: {component: gpu-driver, version: \"580.2\", how: notFound}");
    let failed = hand.ensure(&first(), prefetch("580.2"));
    assert!(matches!(&failed.state, StepState::Failed { message } if message.contains("not found")));
    hand.ensure(&first(), Ensure::Cordoned);
    let working = hand.ensure(&first(), apply("gpu-driver", "580.2"));
    assert!(matches!(working.state, StepState::Working { .. }));
}

#[test]
fn a_driver_may_take_the_layout_with_it() {
    let mut hand = hand("- layoutLost: {component: gpu-driver}");
    assert!(hand.seen(&first()).layout.is_some());
    hand.ensure(&first(), Ensure::Cordoned);
    hand.ensure(&first(), apply("gpu-driver", "580.2"));
    assert_eq!(hand.seen(&first()).layout, None);
}

#[test]
fn an_operator_puts_its_own_version_back_each_time() {
    let mut hand = hand("- rewrites: {component: gpu-driver, version: \"570.1\", after: 2m}");
    hand.ensure(&first(), Ensure::Cordoned);
    for _ in 0..3 {
        hand.ensure(&first(), apply("gpu-driver", "580.2"));
        assert_eq!(runs(&hand, &first()).as_deref(), Some("580.2"));
        pass_time(&mut hand, 3);
        assert_eq!(runs(&hand, &first()).as_deref(), Some("570.1"));
    }
}

#[test]
fn somebody_uncordons_after_every_cordon() {
    let mut hand = hand("- uncordonFight: {node: c1/train-000, after: 1m}");
    for _ in 0..3 {
        hand.ensure(&first(), Ensure::Cordoned);
        assert!(hand.seen(&first()).cordon.own.is_some());
        pass_time(&mut hand, 2);
        assert!(hand.seen(&first()).cordon.own.is_none());
    }
}

#[test]
fn a_report_may_lack_a_result() {
    let mut hand = hand("- missingResult: {check: all-reduce}");
    let checks = vec![order("vector-add", CheckClass::Driver), order("all-reduce", CheckClass::Rdma)];
    let report = hand.ensure(&first(), Ensure::Checked { checks });
    assert_eq!((report.state, report.checks.len()), (StepState::Done, 1));
}

#[test]
fn an_old_answer_is_seen_before_the_new_one() {
    let mut hand = hand("- oldReports: {probability: 1.0}");
    hand.ensure(&first(), Ensure::Cordoned);
    let action = hand.action(&first(), Ensure::Drained { rules: Default::default() });
    hand.world.execute(&action).unwrap();
    let mut seen = Vec::new();
    for _ in 0..120 {
        let to = Period::from_secs(1).after(hand.world.now());
        hand.world.advance(to);
        let report = hand.report(&first());
        if seen.last() != Some(&(report.generation, report.state == StepState::Done)) {
            seen.push((report.generation, report.state == StepState::Done));
        }
    }
    let new = action.generation;
    let old = drydock_plan::Generation(new.0 - 1);
    assert_eq!(seen, [(new, false), (old, true), (new, true)]);
}

#[test]
fn cordons_are_seen_late() {
    let mut hand = hand("- lateCordons: {lag: 1m}");
    assert_eq!(hand.ensure(&first(), Ensure::Cordoned).state, StepState::Done);
    assert!(hand.seen(&first()).cordon.own.is_none());
    pass_time(&mut hand, 1);
    assert!(hand.seen(&first()).cordon.own.is_some());
    hand.ensure(&first(), Ensure::Returned);
    assert!(hand.seen(&first()).cordon.own.is_some());
    pass_time(&mut hand, 1);
    assert!(hand.seen(&first()).cordon.own.is_none());
}

#[test]
fn a_part_is_done_before_its_reboot() {
    let mut hand = hand("- doneBeforeReboot: {}");
    hand.ensure(&first(), Ensure::Cordoned);
    let boot = hand.seen(&first()).boot_id;
    let (component, to) = ("gpu-driver".parse().unwrap(), Some(version("580.2")));
    let asked = Ensure::Applied { component, version: to, reboot: true, attempt: 1 };
    assert_eq!(hand.ensure(&first(), asked).state, StepState::Done);
    assert_eq!((hand.seen(&first()).boot_id, hand.seen(&first()).ready), (boot, true));
    pass_time(&mut hand, 2);
    assert!(!hand.seen(&first()).ready);
    pass_time(&mut hand, 20);
    assert_eq!((hand.seen(&first()).boot_id, hand.seen(&first()).ready), (boot + 1, true));
}

#[test]
fn a_partner_goes_in_the_middle_of_a_check() {
    let mut hand = hand("- partnerTaken: {check: all-reduce, times: 1}");
    let mut pair = order("all-reduce", CheckClass::Rdma);
    (pair.on, pair.partner) = (CheckOn::Pair, Some(node("c1/train-001")));
    let report = hand.ensure(&first(), Ensure::Checked { checks: vec![pair.clone()] });
    assert_eq!(verdict(&report), RawVerdict::Inconclusive);
    assert!(!hand.seen(&node("c1/train-001")).ready);
    pass_time(&mut hand, 15);
    let report = hand.ensure(&first(), Ensure::Checked { checks: vec![pair] });
    assert_eq!(verdict(&report), RawVerdict::Pass);
}

#[test]
fn jobs_are_seen_on_nodes_and_not_described() {
    let text = "- gangLong: {nodes: [c1/train-000, c1/train-001], at: START, for: 10h, checkpoint: 30m}\n- gangsHidden: {cluster: c1, at: \"2026-03-02T09:10:00Z\", for: 1h}";
    let mut hand = hand(text);
    pass_time(&mut hand, 5);
    assert_eq!(hand.world.inventory().gangs.len(), 1);
    pass_time(&mut hand, 10);
    assert!(hand.world.inventory().gangs.is_empty());
    assert_eq!(hand.seen(&first()).work.gangs.len(), 1);
    pass_time(&mut hand, 60);
    assert_eq!(hand.world.inventory().gangs.len(), 1);
}

#[test]
fn a_cluster_is_unknown_after_a_restart_and_known_again() {
    let text = "- factsAbsent: {cluster: c2, at: \"2026-03-02T09:10:00Z\", for: 30m}";
    let mut hand = hand(text);
    let before = hand.world.inventory().nodes.clone();
    pass_time(&mut hand, 11);
    let inventory = hand.world.inventory();
    assert_eq!(inventory.nodes.len(), 8);
    assert!(inventory.clusters.get("c2").unwrap().error.is_some());
    let action = hand.action(&node("c2/infer-000"), Ensure::Cordoned);
    assert!(hand.world.execute(&action).is_err());
    pass_time(&mut hand, 30);
    assert_eq!(hand.world.inventory().nodes, before);
}

#[test]
fn a_list_may_be_empty_or_hold_a_part_without_an_error() {
    for (percent, least, most) in [(0, 0, 0), (50, 1, 7)] {
        let text = format!(
            "- partialList: {{cluster: c1, at: \"2026-03-02T09:10:00Z\", for: 30m, percent: {percent}}}"
        );
        let mut hand = hand(&text);
        pass_time(&mut hand, 11);
        let inventory = hand.world.inventory();
        let listed = inventory.nodes.keys().filter(|id| id.cluster() == "c1").count();
        assert!((least..=most).contains(&listed), "{listed}");
        assert!(inventory.clusters.values().all(|cluster| cluster.error.is_none()));
        pass_time(&mut hand, 30);
        assert_eq!(hand.world.inventory().nodes.len(), 14);
    }
}

#[test]
fn a_machine_joins_beside_another() {
    let mut hand =
        hand("- nodeAdded: {node: c1/train-008, at: \"2026-03-02T09:10:00Z\", like: c1/train-007}");
    let new = node("c1/train-008");
    assert!(!hand.world.inventory().nodes.contains_key(&new));
    pass_time(&mut hand, 11);
    let (like, seen) = (hand.seen(&node("c1/train-007")), hand.seen(&new));
    assert_eq!((&seen.pool, &seen.domains, &seen.running), (&like.pool, &like.domains, &like.running));
    assert_eq!(hand.ensure(&new, Ensure::Cordoned).state, StepState::Done);
}

#[test]
fn jobs_stay_on_a_node_whose_kubelet_is_silent_for_a_moment() {
    let faults = FaultSpec::list(&format!(
        "- flaps: {{node: c1/train-000, at: \"{START}\", every: 10m, down: 3m, times: 1}}"
    ));
    let options = WorldOptions {
        faults: faults.unwrap(),
        workload: Some(Workload::default()),
        ..WorldOptions::default()
    };
    let mut world = World::from_fleet(&fleet("old"), &options);
    world.advance(Period::from_mins(30).after(options.start));
    assert_eq!(world.oracle().gangs_struck, 0);
}
