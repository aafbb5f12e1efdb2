//! A visit, pass by pass: what answers of a node come to.

use std::sync::Arc;

use drydock_plan::*;
use drydock_planner::{Input, check, plan};
use drydock_spec::{Disruption, Fleet, layout_id};
use jiff::Timestamp;
use serde_json::json;

use super::scene::{Pool, START, Scene};

/// One node of two, in the middle of a visit.
struct Play {
    fleet: Fleet,
    inventory: Inventory,
    ledger: Ledger,
    now: Timestamp,
    commit: u32,
}

impl Play {
    fn new(suite: serde_json::Value, edit: impl FnOnce(&mut Fleet)) -> Self {
        let scene = Scene {
            pools: vec![Pool::new("a", 2, 8)],
            policy: json!({"waves": [{"name": "all", "batch": {"start": 1}}]}),
            ..Scene::default()
        };
        let first = scene.pass();
        let (mut fleet, inventory) = (first.fleet, first.inventory);
        fleet.suites.get_mut("suite").unwrap().spec = serde_json::from_value(suite).unwrap();
        edit(&mut fleet);
        let mut play = Self { fleet, inventory, ledger: Ledger::default(), now: START, commit: 1 };
        play.pass();
        play
    }
    fn pass(&mut self) {
        let commit = CommitRef {
            id: self.commit.to_string().repeat(40),
            summary: "new".into(),
            author: "op".into(),
            time: START,
        };
        self.inventory.clusters.values_mut().for_each(|c| c.seen_at = self.now);
        let input = Input {
            fleet: &self.fleet,
            commit: &commit,
            inventory: &self.inventory,
            ledger: &self.ledger,
            now: self.now,
        };
        let planned = plan(&input);
        let mut after = self.ledger.clone();
        planned.plan.changes.iter().for_each(|change| after.apply(change.clone()));
        assert_eq!(check::check(&input, &planned.plan, &after), []);
        self.ledger = after;
    }
    fn id() -> NodeId {
        NodeId::new("c/a-000")
    }
    fn record(&self) -> &NodeRecord {
        &self.ledger.nodes[&Self::id()]
    }
    fn visit(&self) -> &Visit {
        self.record().visit.as_ref().unwrap()
    }
    fn rollout(&self) -> &RolloutRecord {
        self.ledger.rollouts.values().next().unwrap()
    }
    fn node(&mut self) -> &mut ObservedNode {
        self.inventory.nodes.get_mut(&Self::id()).unwrap()
    }
    /// The node answers its present intent, once that may begin, and a pass hears it.
    fn answers(&mut self, state: StepState, checks: Vec<CheckResult>) {
        self.now = self.visit().not_before.map_or(self.now, |at| at.max(self.now))
            + jiff::SignedDuration::from_secs(1);
        let generation = self.record().generation;
        self.node().report = Some(StepReport { generation, state, checks });
        self.pass();
    }
    fn done(&mut self, checks: Vec<CheckResult>) {
        self.answers(StepState::Done, checks);
    }
    /// Through preflight, cordon and drain, to what is applied first.
    fn go_to_apply(&mut self, preflight: Vec<CheckResult>) {
        self.done(preflight);
        self.pass();
        assert_eq!(self.visit().step, Step::Cordon);
        let epoch = self.record().epoch;
        self.node().cordon.own = Some(epoch);
        self.done(Vec::new());
        assert_eq!(self.visit().step, Step::Drain);
        self.done(Vec::new());
        assert!(matches!(self.visit().step, Step::Apply(_)), "{:?}", self.visit().step);
    }
    fn runs_new(&mut self) {
        let vector = self.fleet.releases.get("new").unwrap().vector();
        self.node().running = Arc::new(Stack::new(vector));
    }
}

fn no_checks() -> serde_json::Value {
    json!({"preflight": {"run": "none"}, "checks": [{"name": "one", "class": "driver"}]})
}

fn result(check: &str, verdict: RawVerdict, value: Option<f64>) -> CheckResult {
    CheckResult {
        check: check.parse().unwrap(),
        verdict,
        value,
        detail: "said".into(),
        started: START,
        finished: START,
        partner: None,
    }
}

#[test]
fn what_cant_be_fetched_blames_nobody() {
    let mut play = Play::new(no_checks(), |_| {});
    assert_eq!(play.visit().step, Step::Preflight);
    for _ in 0..6 {
        play.answers(StepState::Failed { message: "the registry is away".into() }, Vec::new());
    }
    assert_eq!(play.rollout().failures, []);
    assert!(play.ledger.quarantines.is_empty());
    assert!(play.record().quarantine.is_none());
    assert!(
        matches!(&play.rollout().state, RolloutState::Paused(PauseReason::Inconclusive { detail, .. })
            if detail.contains("the registry is away")),
        "{:?}",
        play.rollout().state
    );
    // It keeps trying, later each time, and the pause ends with the first answer.
    play.done(Vec::new());
    assert_eq!(play.rollout().state, RolloutState::Running);
    assert_eq!(play.visit().step, Step::Cordon);
}

#[test]
fn two_failed_fetches_within_a_minute_settle_nothing() {
    let mut play = Play::new(no_checks(), |_| {});
    for _ in 0..2 {
        play.answers(StepState::Failed { message: "no such host".into() }, Vec::new());
    }
    assert_eq!((play.rollout().failures.len(), &play.rollout().state), (0, &RolloutState::Running));
    assert_eq!(play.visit().step, Step::Preflight);
}

#[test]
fn without_a_check_that_passed_nothing_is_known_good() {
    let mut play = Play::new(no_checks(), |_| {});
    play.go_to_apply(Vec::new());
    assert_eq!(play.record().last_known_good, None);
    let both = json!({"checks": [{"name": "one", "class": "driver"}]});
    let mut play = Play::new(both, |_| {});
    play.go_to_apply(vec![result("one", RawVerdict::Pass, None)]);
    assert_eq!(play.record().last_known_good.as_ref(), Some(&play.visit().from));
}

#[test]
fn one_result_of_two_is_no_pass() {
    let two = json!({"preflight": {"run": "none"}, "checks": [
        {"name": "one", "class": "driver"}, {"name": "two", "class": "custom"}]});
    let mut play = Play::new(two, |_| {});
    play.go_to_apply(Vec::new());
    play.runs_new();
    play.done(Vec::new());
    assert_eq!(play.visit().step, Step::Verify);
    play.done(vec![result("one", RawVerdict::Pass, None)]);
    assert_eq!((&play.visit().step, &play.visit().course), (&Step::Verify, &Course::Forward));
    assert_eq!(play.visit().inconclusive, 1);
    play.done(vec![result("one", RawVerdict::Pass, None), result("two", RawVerdict::Pass, None)]);
    assert_eq!(play.visit().course, Course::Out(VisitEnd::Upgraded));
}

#[test]
fn a_reboot_is_done_with_a_new_boot_and_not_before() {
    let mut play = Play::new(no_checks(), |fleet| {
        fleet.components.get_mut("gpu-driver").unwrap().spec.disruption = Disruption::Reboot;
    });
    play.go_to_apply(Vec::new());
    play.runs_new();
    play.done(Vec::new());
    assert!(matches!(play.visit().step, Step::Apply(_)), "it says done and hasn't booted");
    play.node().boot_id = 2;
    play.done(Vec::new());
    assert_eq!(play.visit().step, Step::Verify);
}

#[test]
fn a_new_target_begins_without_what_was_seen_on_the_old_one() {
    let mut play = Play::new(no_checks(), |_| {});
    play.done(Vec::new());
    play.pass();
    assert_eq!(play.visit().step, Step::Cordon);
    let on = play.visit().to.clone();
    let seen = Evidence { on, class: FailureClass::Health, result: None, text: "xid-79".into(), at: START };
    let visit = play.ledger.nodes.get_mut(&Play::id()).unwrap().visit.as_mut().unwrap();
    (visit.evidence, visit.failed_rounds) = (vec![seen], 1);
    let newer = json!({"components": {"gpu-driver": "590.1"}});
    play.fleet.releases.get_mut("new").unwrap().spec = serde_json::from_value(newer).unwrap();
    play.commit = 2;
    play.pass();
    assert_eq!((play.visit().evidence.len(), play.visit().failed_rounds), (0, 0));
}

#[test]
fn a_layout_that_went_with_the_driver_is_cut_again() {
    let cut = json!({"strategy": "single", "gpus": [{"mig": {"1g.10gb": 7}}]});
    let mut play = Play::new(no_checks(), |fleet| {
        let named = json!({"spec": cut, "path": "fleet.yaml", "line": 1});
        fleet.layouts.insert("slices".parse().unwrap(), serde_json::from_value(named).unwrap());
        fleet.pools.get_mut("a").unwrap().spec.layout = Some("slices".parse().unwrap());
    });
    let layout = layout_id(&play.fleet.layouts.get("slices").unwrap().spec);
    play.inventory.nodes.values_mut().for_each(|n| n.layout = Some(layout.clone()));
    play.go_to_apply(Vec::new());
    assert_eq!(play.visit().step, Step::Apply(ApplyItem::Component("gpu-driver".parse().unwrap())));
    play.runs_new();
    play.node().layout = None;
    play.done(Vec::new());
    assert_eq!(play.visit().step, Step::Apply(ApplyItem::Layout));
    play.node().layout = Some(layout);
    play.done(Vec::new());
    assert_eq!(play.visit().step, Step::Verify);
}

#[test]
fn a_value_that_isnt_told_is_no_pass_where_one_is_asked_for() {
    let measured = json!({"preflight": {"run": "none"}, "checks": [
        {"name": "one", "class": "driver", "regress": "5%"}]});
    let mut play = Play::new(measured, |_| {});
    play.go_to_apply(Vec::new());
    play.runs_new();
    play.done(Vec::new());
    play.done(vec![result("one", RawVerdict::Pass, None)]);
    assert_eq!((&play.visit().step, play.visit().inconclusive), (&Step::Verify, 1));
    play.done(vec![result("one", RawVerdict::Pass, Some(100.0))]);
    assert_eq!(play.visit().course, Course::Out(VisitEnd::Upgraded));
}
