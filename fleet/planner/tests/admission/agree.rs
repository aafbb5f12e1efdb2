//! Planner and checker agree: whatever the documents say and whatever is seen, a plan breaks no invariant. Racks are shared
//! by pools and bear the same names in all clusters, windows and budgets are about single racks, clusters fall silent and
//! come back, nodes go and are replaced, jobs are seen on nodes and nowhere else.

use std::sync::Arc;

use drydock_plan::{Ensure, GangId, NodeId, ObservedCluster, Stack, StepReport, StepState};
use drydock_spec::Fleet;
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};

use super::{
    scene::START,
    two::{Two, observed},
};

const CLUSTERS: usize = 3;
const NODES: u32 = 4;

#[derive(Debug, Clone)]
struct Shape {
    scope: u8,
    each: u8,
    gpus: bool,
    in_flight: u32,
    floor: u32,
    allowance: u32,
    calendar: u8,
    spread: Option<u32>,
    atomic: bool,
    gangs: u8,
    max_clusters: u32,
    batch: u32,
    missing: u32,
}

fn shape() -> impl Strategy<Value = Shape> {
    let first = (0u8..7, 0u8..6, any::<bool>(), 1u32..8, 0u32..90, 0u32..4);
    let second = (0u8..5, prop::option::of(1u32..3), any::<bool>(), 0u8..3, 1u32..4, 1u32..8, 0u32..2);
    (first, second).prop_map(|((scope, each, gpus, in_flight, floor, allowance), rest)| {
        let (calendar, spread, atomic, gangs, max_clusters, batch, missing) = rest;
        Shape {
            scope,
            each,
            gpus,
            in_flight,
            floor,
            allowance,
            calendar,
            spread,
            atomic,
            gangs,
            max_clusters,
            batch,
            missing,
        }
    })
}

fn named(spec: Value) -> Value {
    json!({"spec": spec, "path": "fleet.yaml", "line": 1})
}

fn scope(n: u8) -> Value {
    match n {
        1 => json!({"cluster": "c1"}),
        2 => json!({"domain": {"key": "rack", "value": "r0"}}),
        3 => json!({"cluster": "c2", "domain": {"key": "rack", "value": "r1"}}),
        4 => json!({"pools": ["a-*"]}),
        5 => json!({"tenant": "red"}),
        6 => json!({"region": "eu"}),
        _ => json!({}),
    }
}

fn calendar(n: u8) -> Value {
    let always = |scope: Value| json!({"from": "00:00", "for": "24h", "timeZone": "UTC", "scope": scope});
    let never = json!({"days": ["sun"], "from": "00:00", "for": "1h", "timeZone": "UTC"});
    let freeze =
        |scope: Value| json!({"from": "2026-03-01T00:00:00Z", "to": "2026-03-09T00:00:00Z", "scope": scope});
    match n {
        1 => json!({"windows": [always(scope(2)), never], "mustFit": "no"}),
        2 => json!({"freezes": [freeze(scope(2))]}),
        3 => json!({"windows": [always(scope(3)), always(scope(4))], "freezes": [freeze(scope(3))]}),
        4 => json!({"windows": [always(json!({}))], "inFlightAtClose": "returnIfNotApplied"}),
        _ => json!({}),
    }
}

fn fleet(shape: &Shape) -> Fleet {
    let gangs = ["together", "avoid", "ignore"][usize::from(shape.gangs)];
    let mut policy = json!({
        "select": {}, "checks": "suite", "maxClusters": shape.max_clusters, "order": ["name"],
        "drain": {"gangs": gangs},
        "waves": [{"name": "all", "batch": {"start": shape.batch}, "soak": {"time": "5m"}}]});
    if let Some(max) = shape.spread {
        policy["spread"] = json!([{"key": "rack", "max": max}]);
    }
    if shape.atomic {
        policy["atomic"] = json!(["nvlinkDomain"]);
    }
    let mut budget = json!({
        "scope": scope(shape.scope), "unit": if shape.gpus { "gpus" } else { "nodes" },
        "maxInFlight": shape.in_flight * if shape.gpus { 8 } else { 1 }});
    if shape.floor > 0 {
        budget["minAvailable"] = json!(format!("{}%", shape.floor));
        budget["brokenAllowance"] = json!(shape.allowance);
    }
    if let Some(each) = ["rack", "pool", "cluster", "region", "tenant"].get(usize::from(shape.each)) {
        budget["each"] = json!(each);
    }
    let mut clusters = Map::new();
    let mut pools = Map::new();
    for c in 1..=CLUSTERS {
        let region = if c == 1 { "us" } else { "eu" };
        clusters.insert(format!("c{c}"), named(json!({"access": {"simulated": {}}, "region": region})));
        for (letter, tenant) in [("a", "red"), ("b", "blue")] {
            let spec = json!({
                "cluster": format!("c{c}"), "nodeSelector": {"pool": format!("c{c}"), "letter": letter},
                "release": "new", "gpu": {"model": "H100-80GB", "count": if letter == "a" { 8 } else { 4 }},
                "nodes": {"min": NODES / 2 + shape.missing}, "tenant": tenant,
                "domains": {"rack": "rack", "nvlinkDomain": "rack"}});
            pools.insert(format!("{letter}-{c}"), named(spec));
        }
    }
    let release = |driver: &str| named(json!({"components": {"gpu-driver": driver}}));
    serde_json::from_value(json!({
        "name": "agree", "spec": named(json!({})), "clusters": clusters, "pools": pools, "layouts": {},
        "components": {"gpu-driver": named(json!({
            "class": "gpuDriver", "delivery": {"daemonSet": {"name": "driver"}}}))},
        "releases": {"old": release("570.1"), "new": release("580.2")},
        "policies": {"all": named(policy)}, "budgets": {"b": named(budget)},
        "calendars": {"c": named(calendar(shape.calendar))},
        "suites": {"suite": named(json!({"checks": []}))}, "controls": {}, "costs": {},
    }))
    .unwrap()
}

struct Played {
    two: Two,
    hidden: std::collections::BTreeMap<NodeId, drydock_plan::ObservedNode>,
}

impl Played {
    fn new(shape: &Shape) -> Self {
        let fleet = fleet(shape);
        let mut two = Two::new(fleet, NODES);
        for (id, node) in &mut two.inventory.nodes {
            let letter = if id.node().ends_with(['0', '2']) { "a" } else { "b" };
            node.labels.insert("letter".to_owned(), letter.to_owned());
        }
        let fleet = two.fleet.clone();
        two.inventory.assign_pools(&fleet);
        Self { two, hidden: Default::default() }
    }
    /// What was asked for comes true, on nodes that are seen.
    fn obey(&mut self) {
        let stacks =
            ["old", "new"].map(|r| Arc::new(Stack::new(self.two.fleet.releases.get(r).unwrap().vector())));
        for action in self.two.planned.plan.actions.clone() {
            let Some(node) = self.two.inventory.nodes.get_mut(&action.node) else { continue };
            match &action.ensure {
                Ensure::Cordoned => node.cordon.own = Some(action.epoch),
                Ensure::Applied { version, .. } => {
                    let new = version.as_ref().is_some_and(|v| v.version.as_str() == "580.2");
                    node.running = Arc::clone(&stacks[usize::from(new)]);
                }
                Ensure::Returned => node.cordon.own = None,
                Ensure::Preflight { .. }
                | Ensure::Checkpointed { .. }
                | Ensure::Drained { .. }
                | Ensure::Partitioned { .. }
                | Ensure::Checked { .. }
                | Ensure::Kept => {}
            }
            node.report = Some(StepReport {
                generation: action.generation,
                state: StepState::Done,
                checks: Vec::new(),
            });
        }
    }
    fn strike(&mut self, kind: u8, c: usize, n: u32) {
        let cluster = format!("c{}", c % CLUSTERS + 1);
        let id = NodeId::new(&format!("{cluster}/n{}", n % NODES));
        let two = &mut self.two;
        match kind {
            0 => {
                let mine = |id: &NodeId| id.cluster() == cluster;
                let gone: Vec<NodeId> = two.inventory.nodes.keys().filter(|id| mine(id)).cloned().collect();
                for id in gone {
                    self.hidden.extend(two.inventory.nodes.remove_entry(&id));
                }
                two.silence(&cluster);
            }
            1 => {
                let back: Vec<NodeId> =
                    self.hidden.keys().filter(|id| id.cluster() == cluster).cloned().collect();
                for id in back {
                    two.inventory.nodes.extend(self.hidden.remove_entry(&id));
                }
                two.inventory.clusters.insert(cluster.parse().unwrap(), ObservedCluster::fresh(two.now));
            }
            2 => {
                if let Some(node) = two.inventory.nodes.get_mut(&id) {
                    node.ready = !node.ready;
                    node.ready_since = two.now;
                }
            }
            3 => {
                if let Some(node) = two.inventory.nodes.get_mut(&id) {
                    node.work.gangs = vec![GangId::new("somebody/job")];
                }
            }
            4 if two
                .inventory
                .clusters
                .iter()
                .any(|(c, seen)| c.as_str() == cluster && seen.error.is_none()) =>
            {
                two.inventory.nodes.remove(&id);
            }
            5 => {
                if let Some(node) = two.inventory.nodes.get_mut(&id) {
                    let old = Arc::new(Stack::new(two.fleet.releases.get("old").unwrap().vector()));
                    let mut fresh = observed(&cluster, n % NODES, &old);
                    fresh.uid = Arc::from(format!("{}-again", node.uid));
                    fresh.labels = node.labels.clone();
                    fresh.ready_since = two.now;
                    *node = fresh;
                    let fleet = two.fleet.clone();
                    two.inventory.assign_pools(&fleet);
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn plans_break_no_invariant(shape in shape(), events in vec((0u8..10, 0usize..CLUSTERS, 0u32..NODES, 0i64..30), 4..24)) {
        let mut played = Played::new(&shape);
        prop_assert_eq!(played.two.now, START);
        for (kind, cluster, node, minutes) in events {
            played.strike(kind, cluster, node);
            played.two.pass(minutes);
            played.obey();
        }
    }
}
