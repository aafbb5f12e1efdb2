//! One pass over a fleet that runs `old` and should run `new`.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{
    CommitRef, Cordon, GangId, Inventory, Ledger, LedgerChange, NodeId, ObservedCluster, ObservedGang,
    ObservedNode, Planned, Reason, RolloutState, Stack, Work,
};
use drydock_planner::{Input, check, plan};
use drydock_spec::Fleet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Monday 2026-03-02 09:00 UTC.
pub const START: Timestamp = Timestamp::constant(1_772_442_000, 0);

/// A pool of equal nodes.
#[derive(Debug, Clone)]
pub struct Pool {
    pub name: String,
    pub nodes: u32,
    pub gpus: u32,
    /// The first so many aren't ready.
    pub dead: u32,
    /// The last so many were cordoned by somebody else.
    pub cordoned: u32,
    /// Nodes per NVLink domain.
    pub domain: u32,
}

impl Pool {
    pub fn new(name: &str, nodes: u32, gpus: u32) -> Self {
        Self { name: name.to_owned(), nodes, gpus, dead: 0, cordoned: 0, domain: 18 }
    }
}

/// Documents and what is seen.
#[derive(Debug, Clone)]
pub struct Scene {
    pub pools: Vec<Pool>,
    pub budgets: Vec<Value>,
    pub calendar: Option<Value>,
    /// Fields of the policy that differ from the usual ones.
    pub policy: Value,
    /// Usual time of the component: nine of ten are done by then.
    pub p90: &'static str,
    /// The cluster's scheduler changes as well.
    pub scheduler: bool,
    pub now: Timestamp,
    /// Seconds for which the nodes have been ready.
    pub ready_secs: i64,
    /// Nodes of a job, by name; it has just written a checkpoint.
    pub gang: Vec<&'static str>,
    /// The first so many nodes of each pool run the new release already.
    pub moved: u32,
}

/// What came of it.
pub struct Outcome {
    pub planned: Planned,
    pub after: Ledger,
    pub fleet: Fleet,
    pub inventory: Inventory,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            budgets: Vec::new(),
            calendar: None,
            policy: json!({}),
            p90: "8m",
            scheduler: false,
            now: START,
            ready_secs: 3_600,
            gang: Vec::new(),
            moved: 0,
        }
    }
}

fn named(spec: Value) -> Value {
    json!({"spec": spec, "path": "fleet.yaml", "line": 1})
}

impl Scene {
    pub fn fleet(&self) -> Fleet {
        let mut policy = json!({
            "select": {}, "checks": "suite", "maxClusters": 9, "order": ["name"],
            "waves": [{"name": "all", "batch": {"start": 10_000}}]});
        for (key, value) in self.policy.as_object().unwrap() {
            policy[key] = value.clone();
        }
        let pools: Map<String, Value> = self
            .pools
            .iter()
            .map(|pool| {
                let spec = json!({
                    "cluster": "c", "nodeSelector": {"pool": pool.name}, "release": "new",
                    "gpu": {"model": "H100-80GB", "count": pool.gpus}, "domains": {"nvlinkDomain": "nvl"}});
                (pool.name.clone(), named(spec))
            })
            .collect();
        let budgets: Map<String, Value> =
            self.budgets.iter().enumerate().map(|(n, b)| (format!("b{n}"), named(b.clone()))).collect();
        let calendars: Map<String, Value> =
            self.calendar.iter().map(|c| ("calendar".to_owned(), named(c.clone()))).collect();
        let release = |driver: &str, scheduler: &str| {
            let mut components = json!({"gpu-driver": driver});
            if self.scheduler {
                components["scheduler"] = json!(scheduler);
            }
            named(json!({"components": components}))
        };
        serde_json::from_value(json!({
            "name": "scene",
            "spec": named(json!({})),
            "clusters": {"c": named(json!({"access": {"simulated": {}}}))},
            "pools": pools,
            "layouts": {},
            "components": {
                "gpu-driver": named(json!({
                    "class": "gpuDriver", "delivery": {"daemonSet": {"name": "driver"}},
                    "expect": {"p50": "3m", "p90": self.p90}})),
                "scheduler": named(json!({
                    "class": "scheduler", "delivery": {"deployment": {"name": "scheduler"}}}))},
            "releases": {"old": release("570.1", "1.4.0"), "new": release("580.2", "1.5.0")},
            "policies": {"all": named(policy)},
            "budgets": budgets,
            "calendars": calendars,
            "suites": {"suite": named(json!({"checks": []}))},
            "controls": {},
            "costs": {},
        }))
        .unwrap()
    }
    fn inventory(&self, fleet: &Fleet) -> Inventory {
        let old = fleet.releases.get("old").unwrap().vector();
        let stack = Arc::new(Stack::new(old));
        let new = Arc::new(Stack::new(fleet.releases.get("new").unwrap().vector()));
        let gang = GangId::new("job");
        let mut nodes = BTreeMap::new();
        for pool in &self.pools {
            for n in 0..pool.nodes {
                let (dead, cordoned) = (n < pool.dead, n >= pool.nodes - pool.cordoned);
                let name = format!("{}-{n:03}", pool.name);
                let domain = format!("{}-{}", pool.name, n / pool.domain);
                let node = ObservedNode {
                    uid: Arc::from(""),
                    pool: None,
                    contested: Vec::new(),
                    labels: [("pool".to_owned(), pool.name.clone()), ("nvl".to_owned(), domain)].into(),
                    domains: Default::default(),
                    gpus: pool.gpus,
                    kernel: Arc::from("6.8"),
                    boot_id: 1,
                    ready: !dead,
                    ready_since: self.now - jiff::SignedDuration::from_secs(self.ready_secs),
                    cordon: Cordon { own: None, foreign: cordoned.then(|| "somebody".to_owned()) },
                    running: Arc::clone(if n < self.moved { &new } else { &stack }),
                    layout: None,
                    work: Work {
                        gangs: self.gang.iter().filter(|g| **g == name).map(|_| gang.clone()).collect(),
                        ..Work::default()
                    },
                    faults: Vec::new(),
                    report: None,
                };
                nodes.insert(NodeId::new(&format!("c/{name}")), node);
            }
        }
        let cluster = ObservedCluster::fresh(self.now);
        let clusters = [("c".parse().unwrap(), cluster)].into();
        let job = ObservedGang {
            tenant: None,
            nodes: self.gang.iter().map(|name| NodeId::new(&format!("c/{name}"))).collect(),
            last_checkpoint: self.now,
            expected_end: None,
        };
        let gangs = if job.nodes.is_empty() { BTreeMap::new() } else { [(gang, job)].into() };
        let mut inventory = Inventory { clusters, nodes, gangs };
        inventory.assign_pools(fleet);
        inventory
    }
    /// One pass, which must break no invariant.
    pub fn pass(&self) -> Outcome {
        self.pass_on(&Ledger::default())
    }
    /// The same on a ledger that knows something.
    pub fn pass_on(&self, ledger: &Ledger) -> Outcome {
        let fleet = self.fleet();
        let inventory = self.inventory(&fleet);
        let commit =
            CommitRef { id: "1".repeat(40), summary: "new".into(), author: "op".into(), time: self.now };
        let input = Input { fleet: &fleet, commit: &commit, inventory: &inventory, ledger, now: self.now };
        let planned = plan(&input);
        let mut after = ledger.clone();
        planned.plan.changes.iter().for_each(|change: &LedgerChange| after.apply(change.clone()));
        assert_eq!(check::check(&input, &planned.plan, &after), []);
        Outcome { planned, after, fleet, inventory }
    }
}

impl Outcome {
    /// Nodes that were reserved.
    pub fn admitted(&self) -> Vec<&NodeId> {
        self.after.nodes.iter().filter(|(_, r)| r.visit.is_some()).map(|(id, _)| id).collect()
    }
    /// GPUs, by the documents.
    pub fn gpus(&self, id: &NodeId) -> u32 {
        let pool = self.inventory.nodes.get(id).and_then(|n| n.pool.as_ref());
        pool.and_then(|p| self.fleet.pools.get(p)).map_or(0, |p| p.gpu.count)
    }
    /// Every reason that was given.
    pub fn reasons(&self) -> Vec<&Reason> {
        let rollouts = &self.planned.report.rollouts;
        rollouts.iter().flat_map(|r| &r.waves).flat_map(|w| &w.waits).map(|wait| &wait.reason).collect()
    }
    /// Why the rollout was rejected.
    pub fn rejected(&self) -> Option<String> {
        self.after.rollouts.values().find_map(|r| match &r.state {
            RolloutState::Rejected { why } => Some(why.join("; ")),
            _ => None,
        })
    }
}
