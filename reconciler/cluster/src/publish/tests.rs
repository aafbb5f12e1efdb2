#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::path::Path;

use drydock_api::crd::{READY, STALLED};
use drydock_plan::{
    Assignment, CommitRef, Course, Epoch, Generation, LedgerChange, NodeId, NodeOutcome, NodeRecord,
    ObservedCluster, ObservedNode, PauseReason, ReleaseVector, RolloutId, RolloutKind, RolloutRecord,
    RolloutState, Soak, Stack, Step, Target, UnitId, Visit, VisitEnd, WaveRecord, WaveState,
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::client::Gate;
use crate::fake::Fake;
use crate::ledger::{gather, rebuild, stride};

const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn release(version: &str) -> ReleaseVector {
    serde_json::from_value(json!({ "gpu-driver": { "version": version } })).unwrap()
}

fn target(version: &str) -> Target {
    Target { release: release(version).id(), layout: None }
}

fn id(n: u32) -> NodeId {
    NodeId::new(&format!("c01/n{n:03}"))
}

/// A fleet in which a rollout is under way, as a test plays it.
struct Scene {
    ledger: Ledger,
    inventory: Inventory,
    report: PlanReport,
    now: Timestamp,
}

impl Scene {
    fn new(nodes: u32) -> Self {
        let mut scene = Self {
            ledger: Ledger::default(),
            inventory: Inventory::default(),
            report: PlanReport::default(),
            now: START,
        };
        for version in ["1", "2"] {
            let vector = release(version);
            scene.apply(LedgerChange::Remember(vector.id(), vector));
        }
        let seen = ObservedCluster::fresh(START);
        scene.inventory.clusters.insert("c01".parse().unwrap(), seen);
        for n in 0..nodes {
            scene.inventory.nodes.insert(id(n), observed("1"));
            let part = Assignment::new(RolloutId::new("h100-1"), "h100".parse().unwrap(), 0, target("2"));
            let record = NodeRecord { assignment: Some(part), ..NodeRecord::default() };
            scene.apply(LedgerChange::Node(id(n), Box::new(record)));
        }
        scene.apply(LedgerChange::Rollout(Box::new(rollout())));
        scene
    }
    fn apply(&mut self, change: LedgerChange) {
        self.ledger.apply(change);
    }
    fn change(&mut self, n: u32, change: impl FnOnce(&mut NodeRecord)) {
        let mut record = self.ledger.nodes[&id(n)].clone();
        record.generation = record.generation.next();
        change(&mut record);
        self.apply(LedgerChange::Node(id(n), Box::new(record)));
    }
    fn change_rollout(&mut self, change: impl FnOnce(&mut RolloutRecord)) {
        let mut record = RolloutRecord::clone(&self.ledger.rollouts[&RolloutId::new("h100-1")]);
        change(&mut record);
        self.apply(LedgerChange::Rollout(Box::new(record)));
    }
    fn reserve(&mut self, n: u32) {
        let now = self.now;
        self.change(n, |record| {
            record.epoch = record.epoch.next();
            record.visit = Some(visit(now));
        });
    }
    fn step(&mut self, n: u32, step: Step) {
        self.change(n, |record| record.visit.as_mut().unwrap().step = step);
    }
    fn finish(&mut self, n: u32) {
        let now = self.now;
        self.inventory.nodes.insert(id(n), observed("2"));
        self.change(n, |record| {
            record.visit = None;
            record.soak = Some(Soak {
                rollout: RolloutId::new("h100-1"),
                target: target("2"),
                from: target("1"),
                since: now,
                jobs_at_start: 0,
                given: None,
                spells: 0,
            });
        });
    }
    fn settle(&mut self, n: u32) {
        self.change(n, |record| {
            record.soak = None;
            record.last_known_good = Some(target("2"));
            record.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Done);
        });
    }
    fn facts(&self) -> Facts {
        Facts {
            now: self.now,
            ledger: Arc::new(self.ledger.clone()),
            inventory: Arc::new(self.inventory.clone()),
            report: Arc::new(self.report.clone()),
        }
    }
}

fn visit(now: Timestamp) -> Visit {
    Visit {
        rollout: RolloutId::new("h100-1"),
        since: now,
        unit: UnitId::new("n"),
        atomic: false,
        from: target("1"),
        to: target("2"),
        course: Course::Forward,
        step: Step::Preflight,
        step_since: now,
        deadline: now + SignedDuration::from_mins(30),
        attempt: 1,
        not_before: None,
        boot_id: 1,
        arrived: false,
        passes: 0,
        drained: false,
        foreign_cordon: false,
        lost_since: None,
        evidence: Vec::new(),
        partner: None,
        inconclusive: 0,
        changed: false,
        held_since: None,
        fights: 0,
        ends: None,
        failed_rounds: 0,
        untold: false,
        quarantined: None,
    }
}

fn observed(version: &str) -> ObservedNode {
    ObservedNode {
        uid: Arc::from(""),
        contested: Vec::new(),
        pool: Some("h100".parse().unwrap()),
        labels: BTreeMap::new(),
        domains: Default::default(),
        gpus: 8,
        kernel: Arc::from("6.8"),
        boot_id: 1,
        ready: true,
        ready_since: START,
        cordon: Default::default(),
        running: Arc::new(Stack::new(release(version))),
        layout: None,
        work: Default::default(),
        faults: Vec::new(),
        report: None,
    }
}

fn rollout() -> RolloutRecord {
    let strategy = json!({"select": {"pools": ["h100"]}, "checks": "smoke", "waves": [{"name": "all"}]});
    let suite = json!({"checks": [{"name": "vector-add", "class": "driver"}]});
    RolloutRecord {
        id: RolloutId::new("h100-1"),
        policy: "h100".parse().unwrap(),
        strategy: Arc::new(serde_json::from_value(strategy).unwrap()),
        suite: Arc::new(serde_json::from_value(suite).unwrap()),
        commit: CommitRef {
            id: "abc".to_owned(),
            summary: "a change".to_owned(),
            author: "ada".to_owned(),
            time: START,
        },
        kind: RolloutKind::Forward,
        targets: BTreeMap::from([("h100".parse().unwrap(), target("2"))]),
        security: false,
        state: RolloutState::Running,
        also_paused: Vec::new(),
        resumed: None,
        created: START,
        ended: None,
        waves: vec![WaveRecord {
            state: WaveState::Running,
            batch: 1,
            batch_size: 2,
            in_batch: 2,
            started: Some(START),
            ..WaveRecord::new("all".parse().unwrap())
        }],
        failures: Vec::new(),
        consecutive: 0,
        exposed: 0,
        exposed_nodes: Vec::new(),
        halt: None,
        child: None,
        superseded_by: None,
        rounds: Default::default(),
        head_of_line: None,
        passed_over: Vec::new(),
        jobs_waited_for: BTreeMap::new(),
        turn: Default::default(),
        history: Vec::new(),
        summary: None,
    }
}

struct Stage {
    fake: Fake,
    publisher: Publisher,
    _stop: oneshot::Sender<()>,
}

impl Stage {
    fn start(fake: &Fake) -> Self {
        let caller = Caller::over(fake.client(), Gate::always());
        let of_cluster = caller.clone();
        let callers: Callers = Arc::new(move |cluster| (cluster == "c01").then(|| of_cluster.clone()));
        let words: Words = Arc::new(|reason| reason.word().to_owned());
        let publisher = Publisher::new(caller, "ns", callers, words);
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(publisher.clone().run(async move {
            // A dropped sender means: stop.
            let _ = stopped.await;
        }));
        Self { fake: fake.clone(), publisher, _stop: stop }
    }
    async fn after(&self, scene: &mut Scene, seconds: u64) {
        self.publisher.submit(scene.facts());
        sleep(Duration::from_secs(seconds)).await;
        scene.now += SignedDuration::from_secs(i64::try_from(seconds).unwrap());
    }
    fn node(&self, n: u32) -> Option<Value> {
        self.fake.object(&format!("/apis/drydock.dev/v1alpha1/gpunodes/{}", id(n).node()))
    }
    fn rollout(&self) -> Value {
        self.fake.object("/apis/drydock.dev/v1alpha1/namespaces/ns/rollouts/h100-1").unwrap()
    }
}

fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().unwrap();
    let one = all.iter().find(|c| c["type"] == kind).unwrap();
    (one["status"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_rollout_costs_at_most_four_requests_a_node_and_ends_are_never_late() {
    const NODES: u32 = 20;
    let fake = Fake::new();
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(NODES);
    stage.after(&mut scene, 60).await;
    assert_eq!(fake.writes(), 2, "the rollout; nodes that only stand in the list have nothing to say");
    let steps = [
        Step::Cordon,
        Step::Checkpoint,
        Step::Drain,
        Step::Apply(drydock_plan::ApplyItem::Layout),
        Step::Verify,
        Step::Return,
    ];
    for pair in 0..NODES / 2 {
        let pair = [2 * pair, 2 * pair + 1];
        pair.iter().for_each(|n| scene.reserve(*n));
        stage.after(&mut scene, 2).await;
        for n in pair {
            let object = stage.node(n).unwrap();
            assert_eq!(object["spec"]["reservation"]["step"], "preflight");
            assert_eq!(object["spec"]["reservation"]["rollout"], "h100-1");
        }
        for step in &steps {
            pair.iter().for_each(|n| scene.step(*n, step.clone()));
            // The engine publishes often, also when nothing is new.
            for _ in 0..12 {
                stage.after(&mut scene, 5).await;
            }
        }
        pair.iter().for_each(|n| scene.finish(*n));
        scene.change_rollout(|rollout| rollout.exposed += 2);
        stage.after(&mut scene, 2).await;
        for n in pair {
            let object = stage.node(n).unwrap();
            assert!(object["spec"]["reservation"].is_null(), "{n}");
            assert_eq!(condition(&object, READY), ("True".to_owned(), "OnTarget".to_owned()));
            assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
            assert_eq!(object["status"]["running"]["versions"]["gpu-driver"], "2");
        }
        stage.after(&mut scene, 600).await;
        pair.iter().for_each(|n| scene.settle(*n));
    }
    scene.change_rollout(|rollout| {
        rollout.state = RolloutState::Succeeded;
        rollout.ended = Some(START);
        rollout.waves[0].state = WaveState::Complete;
    });
    stage.after(&mut scene, 2).await;
    let object = stage.rollout();
    assert_eq!((&object["status"]["done"], &object["status"]["exposed"]), (&json!("20/20"), &json!(20)));
    assert_eq!(condition(&object, READY), ("True".to_owned(), "Succeeded".to_owned()));
    let writes = fake.writes();
    assert!(writes <= 4 * NODES as usize + 12, "{writes} requests for {NODES} nodes");
    // And then nothing.
    stage.after(&mut scene, 4 * 3600).await;
    assert_eq!(fake.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn states_of_rollouts_go_out_at_once() {
    let fake = Fake::new();
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(2);
    stage.after(&mut scene, 2).await;
    let states = [
        (RolloutState::Paused(PauseReason::Deadline), READY, "False", "PausedDeadline"),
        (RolloutState::Paused(PauseReason::Deadline), STALLED, "True", "PausedDeadline"),
        (RolloutState::Halted, STALLED, "False", "Halted"),
        (RolloutState::RollbackBlocked, STALLED, "True", "RollbackBlocked"),
        (RolloutState::RolledBack, READY, "False", "RolledBack"),
    ];
    for (state, kind, value, reason) in states {
        scene.change_rollout(|rollout| rollout.state = state.clone());
        stage.after(&mut scene, 2).await;
        let object = stage.rollout();
        assert_eq!(object["status"]["state"], state.word());
        assert_eq!(condition(&object, kind), (value.to_owned(), reason.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn missing_definitions_are_told_and_found_later() {
    let fake = Fake::new();
    fake.uninstall(Some("drydock.dev"));
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(1);
    scene.reserve(0);
    stage.after(&mut scene, 60).await;
    let troubles = stage.publisher.troubles();
    assert!(troubles["c01"].contains("drydock schema --crds"), "{troubles:?}");
    assert_eq!(stage.publisher.standing()[ROLLOUTS], Published::Missing);
    assert_eq!(fake.writes(), 0);
    fake.uninstall(None);
    stage.after(&mut scene, 180).await;
    assert!(stage.publisher.troubles().is_empty());
    assert!(stage.node(0).is_some());
}

#[tokio::test(start_paused = true)]
async fn being_forbidden_is_told() {
    let fake = Fake::new();
    fake.forbid("gpunodes");
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(1);
    stage.after(&mut scene, 10).await;
    assert!(matches!(stage.publisher.standing()["c01"], Published::Forbidden(_)));
    assert_eq!(stage.publisher.standing()[ROLLOUTS], Published::Well);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_node_takes_its_object_along_and_a_lost_ledger_does_not() {
    let fake = Fake::new();
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(3);
    (0..3).for_each(|n| scene.reserve(n));
    stage.after(&mut scene, 5).await;
    scene.apply(LedgerChange::ForgetNode(id(1)));
    stage.after(&mut scene, 5).await;
    assert!(stage.node(0).is_some() && stage.node(1).is_none() && stage.node(2).is_some());
    let run = || fake.object("/apis/drydock.dev/v1alpha1/namespaces/ns/rollouts/h100-1");
    assert!(run().is_some());
    scene.apply(LedgerChange::ForgetRollout(RolloutId::new("h100-1")));
    stage.after(&mut scene, 5).await;
    assert!(run().is_none());
    drop(stage);
    // Another process with a ledger that knows one node of this cluster only.
    let stage = Stage::start(&fake);
    let mut fresh = Scene::new(1);
    fresh.inventory.nodes.insert(id(2), observed("1"));
    for _ in 0..100 {
        fresh.change(0, |_| {});
    }
    stage.after(&mut fresh, 5).await;
    assert!(stage.node(2).is_some(), "the node is there, so its record was lost and not forgotten");
    fresh.inventory.nodes.remove(&id(2));
    stage.after(&mut fresh, 5).await;
    assert!(stage.node(2).is_none(), "the node is gone, and the ledger is newer than the object");
}

#[tokio::test(start_paused = true)]
async fn the_ledger_is_made_again_from_what_was_published() {
    let fake = Fake::new();
    let stage = Stage::start(&fake);
    let mut scene = Scene::new(4);
    scene.reserve(0);
    scene.reserve(1);
    stage.after(&mut scene, 5).await;
    scene.finish(1);
    scene.change(2, |record| record.last_known_good = Some(target("2")));
    let (pool, bad) = ("h100".parse().unwrap(), release("2").id());
    let why = drydock_plan::ReleaseQuarantine {
        rollout: RolloutId::new("h100-1"),
        since: START,
        why: "it failed".to_owned(),
    };
    scene.apply(LedgerChange::Quarantine(pool, bad, why));
    stage.after(&mut scene, 5).await;
    let caller = Caller::over(fake.client(), Gate::always());
    let (nodes, rollouts) = gather(&caller, "ns", &[]).await.unwrap();
    let rebuilt = rebuild(&nodes, &rollouts).unwrap().unwrap();
    assert_eq!(rebuilt.notes, Vec::<String>::new());
    let mut wanted = scene.ledger.clone();
    stride(&mut wanted);
    // Nodes that were only going to come are found again by the planner.
    wanted.nodes.remove(&id(3));
    wanted.revision = rebuilt.ledger.revision;
    assert_eq!(rebuilt.ledger, wanted);
    assert!(rebuilt.ledger.revision > scene.ledger.revision);
    // A rollout that is over holds nobody.
    let over = rollouts.into_iter().map(|mut rollout| {
        rollout.status.as_mut().unwrap().record["state"] = json!("Aborted");
        rollout
    });
    let rebuilt = rebuild(&nodes, &over.collect::<Vec<_>>()).unwrap().unwrap();
    assert!(rebuilt.ledger.nodes.values().all(|node| node.visit.is_none() && node.assignment.is_none()));
    assert_eq!(rebuilt.notes.len(), 1);
    // A damaged record is named.
    let mut damaged = nodes.clone();
    damaged[0].spec.record.insert("visit".to_owned(), json!(7));
    let error = rebuild(&damaged, &[]).unwrap_err().to_string();
    assert!(error.contains("gpunode/n000"), "{error}");
    assert_eq!(rebuild(&[], &[]).unwrap(), None);
}

#[test]
fn what_a_node_is_asked_for_follows_its_course() {
    let at = |course: Course| {
        let mut record = NodeRecord {
            visit: Some(visit(START)),
            epoch: Epoch(3),
            generation: Generation(9),
            ..NodeRecord::default()
        };
        record.visit.as_mut().unwrap().course = course;
        node::intent(&id(0), &record, None).target.unwrap().release
    };
    let (old, new) = (release("1").id().to_string(), release("2").id().to_string());
    assert_eq!(at(Course::Forward), new);
    assert_eq!(at(Course::Back), old);
    assert_eq!(at(Course::Out(VisitEnd::Upgraded)), new);
    assert_eq!(at(Course::Out(VisitEnd::Deferred)), old);
}

#[test]
fn frozen_parts_read_back_without_their_nulls() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples-repo/model");
    let (mut folders, mut files) = (vec![root], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "yaml") {
                let bytes = std::fs::read(&path).unwrap();
                files.push(drydock_spec::SourceFile { path: path.display().to_string(), bytes });
            }
        }
    }
    let fleet = drydock_spec::load(&files).fleet.unwrap();
    assert!(!fleet.policies.is_empty() && !fleet.suites.is_empty());
    for policy in fleet.policies.values() {
        let read = serde_json::from_value(Value::Object(conditions::record(&policy.spec))).unwrap();
        assert_eq!(policy.spec, read);
    }
    for suite in fleet.suites.values() {
        let read = serde_json::from_value(Value::Object(conditions::record(&suite.spec))).unwrap();
        assert_eq!(suite.spec, read);
    }
}
