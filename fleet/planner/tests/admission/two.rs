//! Several clusters with a pool each, looked at pass after pass: what is seen, and what isn't any more.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{
    Command, CommandKind, CommitRef, Cordon, Epoch, Inventory, Ledger, LedgerChange, NodeId, ObservedCluster,
    ObservedNode, Planned, Reason, RolloutId, RolloutState, Stack, Work,
};
use drydock_planner::{Input, check, plan};
use drydock_spec::Fleet;
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};

use super::scene::START;

pub struct Two {
    pub fleet: Fleet,
    pub inventory: Inventory,
    pub ledger: Ledger,
    pub now: Timestamp,
    pub planned: Planned,
}

fn named(spec: Value) -> Value {
    json!({"spec": spec, "path": "fleet.yaml", "line": 1})
}

/// Documents: clusters `c1`, `c2`, …, each with a pool of its name and these nodes; fields of the policy, and budgets.
pub fn fleet(clusters: &[(&str, u32)], policy: Value, budgets: &[Value]) -> Fleet {
    let mut all = json!({
        "select": {}, "checks": "suite", "maxClusters": 9, "order": ["name"],
        "waves": [{"name": "all", "batch": {"start": 10_000}}]});
    for (key, value) in policy.as_object().unwrap() {
        all[key] = value.clone();
    }
    let pool = |(name, nodes): &(&str, u32)| {
        let spec = json!({
            "cluster": name, "nodeSelector": {"pool": name}, "release": "new", "nodes": {"min": nodes},
            "gpu": {"model": "H100-80GB", "count": 8}, "domains": {"rack": "rack"}});
        ((*name).to_owned(), named(spec))
    };
    let cluster = |(name, _): &(&str, u32)| ((*name).to_owned(), named(json!({"access": {"simulated": {}}})));
    let release = |driver: &str| named(json!({"components": {"gpu-driver": driver}}));
    let budgets: Map<String, Value> =
        budgets.iter().enumerate().map(|(n, b)| (format!("b{n}"), named(b.clone()))).collect();
    serde_json::from_value(json!({
        "name": "two", "spec": named(json!({})),
        "clusters": clusters.iter().map(cluster).collect::<Map<_, _>>(),
        "pools": clusters.iter().map(pool).collect::<Map<_, _>>(),
        "layouts": {},
        "components": {"gpu-driver": named(json!({
            "class": "gpuDriver", "delivery": {"daemonSet": {"name": "driver"}}}))},
        "releases": {"old": release("570.1"), "new": release("580.2")},
        "policies": {"all": named(all)},
        "budgets": budgets, "calendars": {},
        "suites": {"suite": named(json!({"checks": []}))},
        "controls": {}, "costs": {},
    }))
    .unwrap()
}

impl Two {
    pub fn new(fleet: Fleet, nodes: u32) -> Self {
        let stack = Arc::new(Stack::new(fleet.releases.get("old").unwrap().vector()));
        let mut inventory = Inventory::default();
        for name in fleet.clusters.keys() {
            inventory.clusters.insert(name.clone(), ObservedCluster::fresh(START));
            for n in 0..nodes {
                let node = observed(name.as_str(), n, &stack);
                inventory.nodes.insert(NodeId::new(&format!("{name}/n{n}")), node);
            }
        }
        inventory.assign_pools(&fleet);
        Self { fleet, inventory, ledger: Ledger::default(), now: START, planned: Planned::default() }
    }
    /// One pass, which must break no invariant. Time goes on by so much before it.
    pub fn pass(&mut self, minutes: i64) {
        self.now += minutes.minutes();
        for cluster in self.inventory.clusters.values_mut().filter(|c| c.error.is_none()) {
            cluster.seen_at = self.now;
        }
        let commit =
            CommitRef { id: "1".repeat(40), summary: "new".into(), author: "op".into(), time: START };
        let input = Input {
            fleet: &self.fleet,
            commit: &commit,
            inventory: &self.inventory,
            ledger: &self.ledger,
            now: self.now,
        };
        let planned = plan(&input);
        let mut after = self.ledger.clone();
        planned.plan.changes.iter().for_each(|change: &LedgerChange| after.apply(change.clone()));
        assert_eq!(check::check(&input, &planned.plan, &after), []);
        (self.ledger, self.planned) = (after, planned);
    }
    /// The process began anew, and this cluster doesn't answer.
    pub fn silence(&mut self, cluster: &str) {
        self.inventory.nodes.retain(|id, _| id.cluster() != cluster);
        let name = cluster.parse().unwrap();
        let silent =
            ObservedCluster { error: Some("not connected yet".to_owned()), ..ObservedCluster::fresh(START) };
        self.inventory.clusters.insert(name, silent);
    }
    pub fn visits(&self) -> Vec<&str> {
        self.ledger.nodes.iter().filter(|(_, r)| r.visit.is_some()).map(|(id, _)| id.as_str()).collect()
    }
    pub fn state(&self) -> &RolloutState {
        &self.ledger.rollouts.values().next().unwrap().state
    }
    pub fn say(&mut self, what: CommandKind) {
        let command = Command { at: self.now, by: "ann".into(), reason: "so".into(), what, done: false };
        let number = self.ledger.commands.len() as u64 + 1;
        self.ledger.apply(LedgerChange::Command(number, command));
    }
    pub fn rollout(&self) -> RolloutId {
        self.ledger.rollouts.keys().next().unwrap().clone()
    }
    pub fn edit(&mut self, id: &str, how: impl FnOnce(&mut ObservedNode)) {
        how(self.inventory.nodes.get_mut(&NodeId::new(id)).unwrap());
    }
    pub fn reasons(&self) -> Vec<&Reason> {
        let report = &self.planned.report;
        let waves = report.rollouts.iter().flat_map(|r| &r.waves).flat_map(|w| &w.waits);
        waves.chain(&report.holds).map(|wait| &wait.reason).collect()
    }
    pub fn asked(&self, id: &str) -> Option<&'static str> {
        self.planned.plan.actions.iter().find(|a| a.node.as_str() == id).map(|a| a.ensure.word())
    }
}

pub fn observed(cluster: &str, n: u32, stack: &Arc<Stack>) -> ObservedNode {
    ObservedNode {
        uid: Arc::from(format!("{cluster}-{n}")),
        pool: None,
        contested: Vec::new(),
        labels: BTreeMap::from([
            ("pool".to_owned(), cluster.to_owned()),
            ("rack".to_owned(), format!("r{}", n / 2)),
        ]),
        domains: Default::default(),
        gpus: 8,
        kernel: Arc::from("6.8"),
        boot_id: 1,
        ready: true,
        ready_since: START - jiff::SignedDuration::from_hours(1),
        cordon: Cordon::default(),
        running: Arc::clone(stack),
        layout: None,
        work: Work::default(),
        faults: Vec::new(),
        report: None,
    }
}

/// drydock's own cordon.
pub fn own(epoch: u64) -> Cordon {
    Cordon { own: Some(Epoch(epoch)), foreign: None }
}
