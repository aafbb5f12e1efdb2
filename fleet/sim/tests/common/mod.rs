//! A small fleet, and a hand that moves single nodes through a visit.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;

use drydock_plan::{Action, Ensure, Epoch, Generation, NodeId, StepReport, StepState};
use drydock_sim::World;
use drydock_spec::{CheckClass, CheckOn, ComponentVersion, Fleet, Period, ReleaseVector, Version};
use serde_json::{Value, json};

fn named(spec: Value) -> Value {
    json!({"spec": spec, "path": "fleet.yaml", "line": 1})
}

fn named_all(specs: Value) -> Value {
    let Value::Object(map) = specs else { panic!("an object is expected") };
    Value::Object(map.into_iter().map(|(name, spec)| (name, named(spec))).collect())
}

/// Two clusters: `c1` with eight training nodes in two scalable units of four, `c2` with six inference nodes.
pub fn fleet(release: &str) -> Fleet {
    let versions = |driver: &str, plugin: &str| json!({"components": {"gpu-driver": driver, "plugin": plugin, "scheduler": "1.0"}});
    let value = json!({
        "name": "small",
        "spec": named(json!({})),
        "clusters": named_all(json!({
            "c1": {"access": {"simulated": {}}, "region": "eu"},
            "c2": {"access": {"simulated": {}}, "region": "us"}})),
        "pools": named_all(json!({
            "train": {
                "cluster": "c1", "nodeSelector": {"pool": "train"}, "gpu": {"model": "H100-80GB", "count": 8},
                "release": release, "layout": "whole", "rdmaRails": 8, "nodes": {"min": 8},
                "domains": {"scalableUnit": "example.com/su", "rack": "example.com/rack"},
                "floors": {"all-reduce": 300.0}},
            "infer": {
                "cluster": "c2", "nodeSelector": {"pool": "infer"}, "gpu": {"model": "L40S", "count": 4},
                "release": release, "nodes": {"min": 6}}})),
        "layouts": named_all(json!({"whole": {}, "halves": {"strategy": "single", "gpus": [{"mig": {"3g.40gb": 2}}]}})),
        "components": named_all(json!({
            "gpu-driver": {"class": "gpuDriver", "delivery": {"daemonSet": {"name": "driver"}}},
            "plugin": {"class": "devicePlugin", "delivery": {"daemonSet": {"name": "plugin"}}, "disruption": "restart"},
            "scheduler": {"class": "scheduler", "delivery": {"deployment": {"name": "scheduler"}}}})),
        "releases": named_all(json!({
            "old": versions("570.1", "0.17"),
            "new": versions("580.2", "0.18"),
            "next": versions("590.3", "0.18")})),
        "policies": named_all(json!({
            "all": {
                "select": {},
                "checks": "suite",
                "maxClusters": 2,
                "waves": [
                    {"name": "canary", "pick": {"count": 2, "cover": ["pool"]}, "soak": {"time": "30m"}},
                    {"name": "rest", "batch": {"start": 2, "grow": 2.0, "max": "50%"}, "soak": {"time": "30m"}}]}})),
        "budgets": named_all(json!({
            "train": {"scope": {"pools": ["train"]}, "maxInFlight": 4, "minAvailable": "50%"},
            "infer": {"scope": {"pools": ["infer"]}, "unit": "gpus", "maxInFlight": 8}})),
        "calendars": {},
        "suites": named_all(json!({"suite": {"checks": [
            {"name": "vector-add", "class": "driver"},
            {"name": "all-reduce", "class": "rdma", "on": "pair", "regress": "5%", "unit": "GB/s"}]}})),
        "controls": {},
        "costs": {},
    });
    serde_json::from_value(value).unwrap()
}

pub fn node(text: &str) -> NodeId {
    NodeId::new(text)
}

pub fn version(text: &str) -> ComponentVersion {
    ComponentVersion { version: Version::new(text), digest: None, config: BTreeMap::new() }
}

pub fn release(fleet: &Fleet, name: &str) -> ReleaseVector {
    fleet.releases.get(name).unwrap().vector()
}

/// A check on one node.
pub fn order(name: &str, class: CheckClass) -> drydock_plan::CheckOrder {
    drydock_plan::CheckOrder {
        name: name.parse().unwrap(),
        class,
        on: CheckOn::Node,
        partner: None,
        nodes: Vec::new(),
        run: Default::default(),
        template: None,
        gpus: 0,
        timeout: Period::from_mins(5),
        repeats: 1,
        attempt: 1,
    }
}

pub fn apply(component: &str, to: &str) -> Ensure {
    let (component, version) = (component.parse().unwrap(), Some(version(to)));
    Ensure::Applied { component, version, reboot: false, attempt: 1 }
}

/// Writes intents with ever new generations and waits for answers.
pub struct Hand {
    pub world: World,
    generation: u64,
    pub epoch: u64,
}

impl Hand {
    pub fn new(world: World) -> Self {
        Self { world, generation: 0, epoch: 1 }
    }
    pub fn action(&mut self, id: &NodeId, ensure: Ensure) -> Action {
        self.generation += 1;
        Action { node: id.clone(), generation: Generation(self.generation), epoch: Epoch(self.epoch), ensure }
    }
    pub fn ask(&mut self, id: &NodeId, ensure: Ensure) {
        let action = self.action(id, ensure);
        self.world.execute(&action).unwrap();
    }
    /// Asks and waits until the answer is final or nothing more happens.
    pub fn ensure(&mut self, id: &NodeId, ensure: Ensure) -> StepReport {
        self.ask(id, ensure);
        for _ in 0..200 {
            let report = self.report(id);
            if !matches!(report.state, StepState::Working { .. }) {
                return report;
            }
            let Some(next) = self.world.next_event() else { return report };
            self.world.advance(next);
        }
        self.report(id)
    }
    pub fn report(&self, id: &NodeId) -> StepReport {
        self.world.inventory().nodes.get(id).unwrap().report.clone().unwrap()
    }
    pub fn seen(&self, id: &NodeId) -> &drydock_plan::ObservedNode {
        self.world.inventory().nodes.get(id).unwrap()
    }
}

/// A commit of the small fleet.
pub fn commit(at: jiff::Timestamp, release: &str) -> drydock_sim::Commit {
    commit_of(at, std::sync::Arc::new(fleet(release)), release)
}

pub fn commit_of(at: jiff::Timestamp, fleet: std::sync::Arc<Fleet>, name: &str) -> drydock_sim::Commit {
    let commit = drydock_plan::CommitRef {
        id: format!("{name:0<40}"),
        summary: format!("release {name}"),
        author: "operator".to_owned(),
        time: at,
    };
    drydock_sim::Commit { at, fleet, commit }
}

/// The small fleet runs `old`, and a commit asks for `new`.
pub fn upgrade(options: &drydock_sim::WorldOptions, run: drydock_sim::RunOptions) -> drydock_sim::Run {
    let world = World::from_fleet(&fleet("old"), options);
    let script = drydock_sim::Script { commits: vec![commit(options.start, "new")], commands: Vec::new() };
    drydock_sim::Runner::new(world, script, run).run()
}
