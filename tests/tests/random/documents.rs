//! Random documents of small fleets.

use drydock_sim::Draw;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Components and their versions in releases `r1` to `r4`.
const DRIVERS: [&str; 4] = ["570.1", "580.2", "590.3", "600.4"];

/// The documents of a small fleet, still open to edits.
#[derive(Debug, Clone)]
pub struct Documents {
    /// What the loader would have made of them.
    pub value: Value,
    /// Names of pools, with their cluster and number of nodes.
    pub pools: Vec<Pool>,
    /// Names of policies.
    pub policies: Vec<String>,
}

/// A pool as far as the generator has to know.
#[derive(Debug, Clone)]
pub struct Pool {
    pub name: String,
    pub cluster: String,
    pub size: u64,
    /// Nodes per scalable unit or NVLink domain.
    pub zone: u64,
}

/// One of several.
pub fn one_of<'a, T: ?Sized>(draw: Draw, options: &[&'a T]) -> &'a T {
    options[draw.between(0, options.len() as u64 - 1) as usize]
}

pub fn named(spec: Value) -> Value {
    json!({"spec": spec, "path": "fleet.yaml", "line": 1})
}

fn named_all(specs: Map<String, Value>) -> Value {
    Value::Object(specs.into_iter().map(|(name, spec)| (name, named(spec))).collect())
}

impl Documents {
    pub fn random(draw: Draw, start: Timestamp) -> Self {
        let clusters = draw.text("clusters").between(1, 3);
        let count = draw.text("pools").between(1, 4).max(clusters.min(2));
        let most = if draw.text("large").chance(0.1) { 40 } else { 12 };
        let mut left = draw.text("nodes").between(3, 2 * most);
        let pools: Vec<Pool> = (1..=count)
            .map(|n| {
                let draw = draw.text("size").number(n);
                let size = if n == count { left } else { draw.between(1, left.saturating_sub(count - n)) };
                let size = size.clamp(1, most);
                left = left.saturating_sub(size).max(1);
                let cluster =
                    format!("c{}", if n <= clusters { n } else { draw.text("c").between(1, clusters) });
                Pool { name: format!("p{n}"), cluster, size, zone: draw.text("zone").between(1, 4) }
            })
            .collect();
        let specs =
            pools.iter().map(|p| (p.name.clone(), pool(draw.text("pool").text(&p.name), p, start))).collect();
        let policies = policies(draw.text("policies"), &pools);
        let clusters = (1..=clusters).map(|n| (format!("c{n}"), cluster(draw.text("cluster").number(n), n)));
        let value = json!({
            "name": "random",
            "spec": named(json!({"environments": ["stage", "prod"]})),
            "clusters": named_all(clusters.collect()),
            "pools": named_all(specs),
            "layouts": {
                "whole": named(json!({})),
                "halves": named(json!({"strategy": "single", "gpus": [{"mig": {"3g.40gb": 2}}]})),
            },
            "components": named_all(components(draw.text("components"))),
            "releases": named_all(releases(draw.text("releases"))),
            "policies": named_all(policies.clone()),
            "budgets": named_all(budgets(draw.text("budgets"), &pools)),
            "calendars": named_all(super::calendar::calendars(draw.text("calendars"), &pools, start)),
            "suites": {"suite": named(suite(draw.text("suite")))},
            "controls": {},
            "costs": {},
        });
        Self { value, pools, policies: policies.keys().cloned().collect() }
    }
    /// The part of a document under this kind and name.
    pub fn spec(&mut self, kind: &str, name: &str) -> &mut Value {
        &mut self.value[kind][name]["spec"]
    }
    /// Names of all documents of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.value[kind].as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    }
    pub fn fleet(&self) -> drydock_spec::Fleet {
        match serde_json::from_value(self.value.clone()) {
            Ok(fleet) => fleet,
            Err(error) => panic!("the generator made no fleet: {error}\n{:#}", self.value),
        }
    }
}

fn cluster(draw: Draw, n: u64) -> Value {
    json!({
        "access": {"simulated": {}},
        "region": if n == 2 { "us" } else { "eu" },
        "environment": one_of(draw, &["stage", "prod"]),
        "labels": {"tier": if n == 1 { "first" } else { "later" }},
    })
}

fn pool(draw: Draw, pool: &Pool, start: Timestamp) -> Value {
    let (model, gpus) =
        [("H100-80GB", 8), ("L40S", 4), ("GB200", 4), ("T4", 1)][draw.text("gpu").between(0, 3) as usize];
    let mut domains = Map::new();
    for (key, label) in [
        ("scalableUnit", "example.com/su"),
        ("nvlinkDomain", "example.com/nvl"),
        ("rack", "example.com/rack"),
        ("rail", "example.com/rail"),
    ] {
        if draw.text(key).chance(0.4) {
            domains.insert(key.to_owned(), json!(label));
        }
    }
    let rdma = draw.text("rdma").chance(0.4);
    let mut spec = json!({
        "cluster": pool.cluster,
        "nodeSelector": {"pool": pool.name},
        "gpu": {"model": model, "count": gpus},
        "release": "r1",
        "domains": domains,
        "rdmaRails": if rdma { 8 } else { 0 },
        "floors": if rdma { json!({"all-reduce": 300.0}) } else { json!({}) },
    });
    if gpus == 8 && draw.text("layout").chance(0.5) {
        spec["layout"] = json!(one_of(draw.text("which"), &["whole", "halves"]));
    }
    if draw.text("tenant").chance(0.4) {
        spec["tenant"] = json!(one_of(draw.text("whose"), &["red", "blue"]));
    }
    if draw.text("lease").chance(0.06) {
        let ends = drydock_spec::Period::from_hours(draw.text("ends").between(4, 60)).after(start);
        spec["leaseUntil"] = json!(ends.to_string());
    }
    if draw.text("host").chance(0.05) {
        spec["driverSource"] = json!("host");
    }
    spec
}

fn components(draw: Draw) -> Map<String, Value> {
    let daemon_set = |name: &str| json!({"daemonSet": {"name": name}});
    let some = |name: &str, options: &[&str]| one_of(draw.text(name), options).to_owned();
    let mut all = Map::new();
    let mut add = |name: &str, spec: Value| all.insert(name.to_owned(), spec);
    add(
        "gpu-driver",
        json!({"class": "gpuDriver", "delivery": daemon_set("driver"),
            "disruption": some("driver", &["drain", "drain", "reboot"])}),
    );
    add(
        "toolkit",
        json!({"class": "containerToolkit", "delivery": daemon_set("toolkit"),
            "disruption": some("toolkit", &["restart", "drain"])}),
    );
    add(
        "plugin",
        json!({"class": "devicePlugin", "delivery": daemon_set("plugin"), "disruption": "restart",
            "after": if draw.text("after").chance(0.3) { json!(["toolkit"]) } else { json!([]) }}),
    );
    add("agent", json!({"class": "agent", "delivery": daemon_set("agent"), "disruption": "none"}));
    add("scheduler", json!({"class": "scheduler", "delivery": {"deployment": {"name": "scheduler"}}}));
    add(
        "firmware",
        json!({"class": "firmware", "delivery": {"job": {"name": "firmware"}}, "disruption": "reboot",
            "reversible": !draw.text("fuse").chance(0.5)}),
    );
    all
}

fn releases(draw: Draw) -> Map<String, Value> {
    let firmware = draw.text("firmware").chance(0.15);
    (0..4u64)
        .map(|n| {
            let draw = draw.number(n);
            // r2 differs from r1 in the driver, so that there is always something to do.
            let driver = if n < 2 || draw.text("driver").chance(0.8) { n } else { n - 1 };
            let moved = |name: &str| if draw.text(name).chance(0.4) { n } else { 0 };
            let mut parts = json!({
                "gpu-driver": DRIVERS[driver as usize],
                "toolkit": format!("1.{}", moved("toolkit")),
                "plugin": format!("0.{}", moved("plugin")),
                "agent": format!("4.{}", moved("agent")),
                // All pools of a cluster share one, so all releases name the same.
                "scheduler": "7.0",
            });
            if firmware {
                parts["firmware"] = json!(format!("99.{}", moved("firmware")));
            }
            (
                format!("r{}", n + 1),
                json!({"components": parts, "security": draw.text("security").chance(0.1)}),
            )
        })
        .collect()
}

fn policies(draw: Draw, pools: &[Pool]) -> Map<String, Value> {
    if pools.len() == 1 || draw.text("one").chance(0.5) {
        let spec = super::policy::policy(draw, pools, json!({}));
        return [("all".to_owned(), spec)].into_iter().collect();
    }
    let at = draw.text("split").between(1, pools.len() as u64 - 1) as usize;
    let (left, right) = pools.split_at(at);
    [("left", left), ("right", right)]
        .into_iter()
        .map(|(name, pools)| {
            let names: Vec<&str> = pools.iter().map(|p| p.name.as_str()).collect();
            (name.to_owned(), super::policy::policy(draw.text(name), pools, json!({"pools": names})))
        })
        .collect()
}

pub fn scope(draw: Draw, pools: &[Pool]) -> Value {
    let pool = &pools[draw.text("pool").between(0, pools.len() as u64 - 1) as usize];
    match draw.text("scope").between(0, 9) {
        0..=3 => json!({}),
        4 => json!({"cluster": pool.cluster}),
        5 => json!({"pools": [pool.name]}),
        6 => json!({"region": one_of(draw.text("region"), &["eu", "us"])}),
        7 => json!({"tenant": one_of(draw.text("tenant"), &["red", "blue"])}),
        8 => json!({"domain": {"key": "rack", "value": format!("{}-rack1", pool.name)}}),
        _ => json!({"environment": one_of(draw.text("environment"), &["stage", "prod"])}),
    }
}

/// A random budget. Small fleets and large percentages: most of them leave something to do.
pub fn budget(draw: Draw, pools: &[Pool]) -> Value {
    let gpus = draw.text("unit").chance(0.4);
    let mut spec = json!({"scope": scope(draw, pools), "unit": if gpus { "gpus" } else { "nodes" }});
    if draw.text("each").chance(0.4) {
        let each = ["cluster", "pool", "tenant", "region", "rack", "scalableUnit", "nvlinkDomain", "rail"];
        spec["each"] = json!(one_of(draw.text("of"), &each));
    }
    let in_flight = draw.text("inFlight");
    if in_flight.chance(0.8) {
        spec["maxInFlight"] = match (in_flight.text("as").between(0, 9), gpus) {
            (0..=3, _) => json!(format!("{}%", in_flight.text("n").between(10, 100))),
            (_, true) => json!(in_flight.text("n").between(8, 40)),
            (_, false) => json!(in_flight.text("n").between(1, 6)),
        };
    }
    let floor = draw.text("floor");
    // A floor for each of many small parts leaves nothing to be taken, and the document is an error.
    let small = spec.get("each").is_some_and(|each| !matches!(each.as_str(), Some("cluster" | "region")));
    if floor.chance(if small { 0.1 } else { 0.4 }) {
        spec["minAvailable"] = if floor.text("as").chance(0.7) {
            json!(format!("{}%", floor.text("n").between(10, 55)))
        } else {
            json!(floor.text("n").between(1, 2))
        };
        if floor.text("allow").chance(0.4) {
            spec["brokenAllowance"] = json!(floor.text("allowance").between(0, if gpus { 16 } else { 3 }));
        }
    }
    // Without it, a share of a small fleet is often nothing at all, and the document an error.
    spec["atLeastOne"] = json!(draw.text("one").chance(0.95));
    if draw.text("domain").chance(0.2) {
        spec["atLeastDomain"] = json!(one_of(draw.text("which"), &["scalableUnit", "nvlinkDomain", "rack"]));
    }
    if draw.text("reasons").chance(0.2) {
        spec["reasons"] = json!([one_of(draw.text("why"), &["upgrade", "repartition"])]);
    }
    if draw.text("active").chance(0.2) {
        spec["active"] = json!([super::calendar::window(draw.text("window"), json!({}))]);
    }
    spec
}

fn budgets(draw: Draw, pools: &[Pool]) -> Map<String, Value> {
    let count = draw.text("count").between(0, 3);
    (1..=count).map(|n| (format!("b{n}"), budget(draw.number(n), pools))).collect()
}

fn suite(draw: Draw) -> Value {
    let mut checks = vec![json!({"name": "vector-add", "class": "driver"})];
    if draw.text("rdma").chance(0.6) {
        checks.push(
            json!({"name": "all-reduce", "class": "rdma", "on": "pair", "regress": "5%", "unit": "GB/s"}),
        );
    }
    if draw.text("training").chance(0.4) {
        checks.push(
            json!({"name": "steps", "class": "training", "repeats": draw.text("repeats").between(1, 3)}),
        );
    }
    if draw.text("group").chance(0.15) {
        checks.push(json!({"name": "together", "class": "training", "on": "group", "timeout": "20m"}));
    }
    if draw.text("empty").chance(0.02) {
        checks.clear();
    }
    let run = one_of(draw.text("preflight"), &["same", "same", "driver", "none"]);
    json!({"preflight": {"run": run, "freshness": one_of(draw.text("fresh"), &["1h", "24h"])}, "checks": checks})
}
