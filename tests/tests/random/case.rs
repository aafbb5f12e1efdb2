//! One random schedule: a fleet, what Git says when, what people say when, and what goes wrong. One number makes all
//! of it.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{Command, CommandKind, CommitRef, RolloutId};
use drydock_sim::{
    Commit, DomainSizes, Draw, FaultSpec, Run, RunOptions, Runner, Script, Workload, World, WorldOptions,
};
use drydock_spec::{Fleet, GatePoint, Period};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    calendar,
    documents::{Documents, budget, one_of},
    faults,
};

/// Passes after which a run counts as endless.
pub const PASSES_MAX: u32 = 8_000;

/// One random schedule.
#[derive(Clone)]
pub struct Case {
    pub seed: u64,
    pub start: Timestamp,
    /// What runs at first.
    pub before: Fleet,
    /// Each with what it changes.
    pub commits: Vec<(Commit, String)>,
    pub commands: Vec<(Timestamp, Command)>,
    pub faults: Vec<FaultSpec>,
    pub approve_after: Option<Period>,
    sizes: BTreeMap<String, (u64, u64)>,
    workload: Option<Workload>,
    /// Pools of one cluster stand in the same racks.
    pub one_hall: bool,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let draw = Draw::new(seed).text("random schedule");
        let start = calendar::start(draw);
        let mut documents = Documents::random(draw.text("documents"), start);
        let before = documents.fleet();
        let commits = commits(draw.text("commits"), &mut documents, start);
        let fault_count = draw.text("faults").between(0, 5);
        let mut faults: Vec<FaultSpec> = (0..fault_count)
            .filter_map(|n| faults::fault(draw.text("fault").number(n), &documents, start))
            .collect();
        if draw.text("crash").chance(0.25) {
            faults.push(faults::crash(draw.text("crashes")));
        }
        // Releases are bad often here: the way back is what has to be seen.
        if draw.text("bad").chance(0.55) {
            faults.extend(faults::plainly_bad(draw.text("plainly"), &documents));
        }
        if draw.text("gangs").chance(0.6) {
            let count = draw.text("gangs").text("count").between(1, 3);
            faults.extend(
                (0..count).filter_map(|n| faults::gang(draw.text("gang").number(n), &documents.pools, start)),
            );
        }
        let approve = draw.text("approve");
        Self {
            seed,
            start,
            before,
            commands: commands(draw.text("commands"), &documents, start),
            commits,
            faults,
            approve_after: approve
                .chance(0.8)
                .then(|| Period::from_mins(approve.text("after").between(1, 400))),
            sizes: documents.pools.iter().map(|p| (p.name.clone(), (p.size, p.zone))).collect(),
            one_hall: draw.text("hall").chance(0.3),
            workload: draw.text("workload").chance(0.6).then(|| Workload {
                gang_percent: 60,
                gang_nodes: draw.text("gang nodes").between(2, 4) as u32,
                single_pods: true,
            }),
        }
    }
    pub fn run(&self, node_lines: bool) -> Run {
        let sized = |(name, (size, _)): (&String, &(u64, u64))| Some((name.parse().ok()?, *size as u32));
        let zoned = |(name, (_, zone)): (&String, &(u64, u64))| {
            let (zone, rack) = (*zone as u32, (*zone as u32).min(2));
            Some((name.parse().ok()?, DomainSizes { scalable_unit: zone, nvlink_domain: zone, rack }))
        };
        let row = |(name, _): (&String, &(u64, u64))| {
            let pool: drydock_spec::PoolName = name.parse().ok()?;
            let cluster = self.before.pools.get(&pool)?.cluster.clone();
            self.one_hall.then(|| (pool, format!("{cluster}-hall")))
        };
        let kernels = ["6.8.0-79-generic", "6.8.0-85-generic"].map(str::to_owned).to_vec();
        let options = WorldOptions {
            seed: self.seed,
            start: self.start,
            faults: self.faults.clone(),
            sizes: self.sizes.iter().filter_map(sized).collect(),
            domains: self.sizes.iter().filter_map(zoned).collect(),
            rows: self.sizes.iter().filter_map(row).collect(),
            kernels: self
                .sizes
                .keys()
                .filter_map(|name| Some((name.parse().ok()?, kernels.clone())))
                .collect(),
            workload: self.workload,
            ..WorldOptions::default()
        };
        let world = World::from_fleet(&self.before, &options);
        let commits = self.commits.iter().map(|(commit, _)| commit.clone()).collect();
        let script = Script { commits, commands: self.commands.clone() };
        let run = RunOptions {
            node_lines,
            passes_max: PASSES_MAX,
            approve_after: self.approve_after,
            ..RunOptions::default()
        };
        Runner::new(world, script, run).run()
    }
    /// A person has said something that leaves nodes as they are, or has them tried again.
    pub fn people_decide(&self) -> bool {
        let controls = self.commits.iter().any(|(commit, _)| !commit.fleet.controls.is_empty());
        controls || self.commands.iter().any(|(_, c)| !matches!(c.what, CommandKind::Approve { .. }))
    }
    /// Nothing is wrong with any version or node.
    pub fn is_innocent(&self) -> bool {
        self.faults.iter().all(super::judge::is_innocent)
    }
    /// A window or a freeze is about a domain.
    pub fn scopes_calendars(&self) -> bool {
        let domain = |scope: &drydock_spec::Scope| scope.domain.is_some();
        self.commits.iter().flat_map(|(commit, _)| commit.fleet.calendars.values()).any(|calendar| {
            calendar.windows.iter().any(|w| domain(&w.scope))
                || calendar.freezes.iter().any(|f| domain(&f.scope))
        })
    }
    /// A policy repeats checks more often than evidence is kept.
    pub fn many_tries(&self) -> bool {
        let policies = self.commits.iter().flat_map(|(commit, _)| commit.fleet.policies.values());
        policies.into_iter().any(|policy| policy.retry.check_attempts > 4)
    }
    /// What was known is known no more.
    pub fn may_lose_sight(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, FaultSpec::LedgerRestored { .. }))
    }
    /// Documents changed under way, so that what was possible at first may have become impossible.
    pub fn edited(&self) -> bool {
        self.commits.len() > 1
    }
    /// The documents in force at the end.
    pub fn last(&self) -> Option<&Commit> {
        self.commits.iter().map(|(commit, _)| commit).max_by_key(|commit| commit.at)
    }
    /// Everything in it, for people.
    pub fn describe(&self) -> String {
        let mut text = format!("seed {} from {}, sizes and zones {:?}\n", self.seed, self.start, self.sizes);
        text.push_str(&format!("approvals after {:?}, workload {:?}\n", self.approve_after, self.workload));
        for (commit, what) in &self.commits {
            text.push_str(&format!("commit at {}: {what}\n", commit.at));
        }
        for (at, command) in &self.commands {
            text.push_str(&format!("command at {at}: {:?}\n", command.what));
        }
        for fault in &self.faults {
            text.push_str(&format!("fault {}\n", serde_json::to_string(fault).unwrap_or_default()));
        }
        text
    }
    /// The same with one thing less, in every way there is.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for n in 0..self.faults.len() {
            let mut case = self.clone();
            case.faults.remove(n);
            all.push(case);
        }
        for n in 0..self.commands.len() {
            let mut case = self.clone();
            case.commands.remove(n);
            all.push(case);
        }
        for n in 1..self.commits.len() {
            let mut case = self.clone();
            case.commits.remove(n);
            all.push(case);
        }
        if self.workload.is_some() {
            all.push(Self { workload: None, ..self.clone() });
        }
        all
    }
}

fn commits(draw: Draw, documents: &mut Documents, start: Timestamp) -> Vec<(Commit, String)> {
    let count = draw.text("count").between(1, 4);
    let mut at = start;
    (0..count)
        .map(|n| {
            let draw = draw.number(n);
            let what = if n == 0 { first_edit(draw, documents) } else { edit(draw, documents, start) };
            if n > 0 {
                at = Period::from_secs(draw.text("at").between(1, 3 * 3600)).after(at);
            }
            let commit = CommitRef {
                id: format!("{:040x}", draw.bits()),
                summary: what.clone(),
                author: "operator".to_owned(),
                time: at,
            };
            (Commit { at, fleet: Arc::new(documents.fleet()), commit }, what)
        })
        .collect()
}

fn set_release(draw: Draw, documents: &mut Documents, release: &str) -> String {
    let mut moved = Vec::new();
    let mixed = draw.text("mixed").chance(0.15);
    for name in documents.names("pools") {
        if draw.text("moves").text(&name).chance(0.8) {
            let own = if mixed { one_of(draw.text("own").text(&name), &["r2", "r3", "r4"]) } else { release };
            documents.spec("pools", &name)["release"] = json!(own);
            moved.push(format!("{name} {own}"));
        }
    }
    let what = format!("releases are {}", moved.join(", "));
    if draw.text("scheduler").chance(0.3) {
        return format!("{what}; {}", set_scheduler(draw, documents));
    }
    what
}

/// What a cluster has once is the same in all releases, since pools of one cluster run different ones.
fn set_scheduler(draw: Draw, documents: &mut Documents) -> String {
    let version = one_of(draw.text("which scheduler"), &["7.1", "7.1", "7.2", "7.0"]);
    for name in documents.names("releases") {
        documents.spec("releases", &name)["components"]["scheduler"] = json!(version);
    }
    format!("schedulers are {version}")
}

fn first_edit(draw: Draw, documents: &mut Documents) -> String {
    let mut what = set_release(draw, documents, "r2");
    if draw.text("layouts").chance(0.2) {
        what.push_str(&format!("; {}", set_layout(draw, documents)));
    }
    what
}

fn set_layout(draw: Draw, documents: &mut Documents) -> String {
    let layout = one_of(draw.text("layout"), &["whole", "halves"]);
    for name in documents.names("pools") {
        if documents.spec("pools", &name).get("layout").is_some() {
            documents.spec("pools", &name)["layout"] = json!(layout);
        }
    }
    format!("layouts are {layout}")
}

fn edit(draw: Draw, documents: &mut Documents, start: Timestamp) -> String {
    let (pools, policies) = (documents.names("pools"), documents.names("policies"));
    let pool =
        pools.get(draw.text("pool").between(0, pools.len() as u64) as usize % pools.len().max(1)).cloned();
    let drawn = documents.pools.clone();
    match draw.text("what").between(0, 20) {
        0..=3 => set_release(draw, documents, one_of(draw.text("release"), &["r3", "r4", "r2"])),
        4 | 5 => set_release(draw, documents, "r1"),
        6 => "nothing".to_owned(),
        7 => set_layout(draw, documents),
        8 | 9 => {
            for name in &policies {
                let select = documents.spec("policies", name)["select"].clone();
                *documents.spec("policies", name) = super::policy::policy(draw.text(name), &drawn, select);
            }
            "policies are edited".to_owned()
        }
        10 => {
            let new = budget(draw.text("budget"), &drawn);
            documents.value["budgets"]["late"] = super::documents::named(new);
            "a budget more".to_owned()
        }
        11 => {
            documents.value["budgets"] = json!({});
            "no budgets".to_owned()
        }
        12 => match pool.filter(|_| pools.len() > 1) {
            Some(name) => remove(documents, "pools", &name),
            None => "nothing".to_owned(),
        },
        13 => match pool {
            // The same nodes under another name.
            Some(name) => {
                let spec = documents.value["pools"][&name].clone();
                remove(documents, "pools", &name);
                documents.value["pools"][format!("{name}-new")] = spec;
                format!("pool {name} is renamed")
            }
            None => "nothing".to_owned(),
        },
        14 => control(draw.text("control"), documents),
        15 => {
            documents.value["controls"] = json!({});
            "no controls".to_owned()
        }
        16 => match policies.first().zip(pool) {
            // Pools come under a policy and leave it.
            Some((name, pool)) => {
                let select = if draw.text("all").chance(0.5) { json!({}) } else { json!({"pools": [pool]}) };
                let only = policies.len() == 1;
                documents.spec("policies", name)["select"] =
                    if only { select } else { json!({"pools": [pool]}) };
                for other in policies.iter().skip(1) {
                    let others: Vec<&String> = pools.iter().filter(|p| **p != pool).collect();
                    documents.spec("policies", other)["select"] = json!({"pools": others});
                }
                format!("policy {name} selects others")
            }
            None => "nothing".to_owned(),
        },
        17 => match pool {
            // Nodes come to it by their label.
            Some(name) => {
                let mut spec = documents.value["pools"][&name].clone();
                spec["spec"]["nodeSelector"] = json!({"pool": "new"});
                documents.value["pools"]["pnew"] = spec;
                "a pool more".to_owned()
            }
            None => "nothing".to_owned(),
        },
        18 => {
            // A cluster goes with its pools.
            let clusters = documents.names("clusters");
            match clusters.last().filter(|_| clusters.len() > 1) {
                Some(cluster) => {
                    for name in &pools {
                        if documents.value["pools"][name]["spec"]["cluster"] == json!(cluster) {
                            remove(documents, "pools", name);
                        }
                    }
                    remove(documents, "clusters", cluster)
                }
                None => "nothing".to_owned(),
            }
        }
        _ if draw.text("calendar").chance(0.6) => {
            let new = calendar::calendar(draw.text("new"), &drawn, start);
            documents.value["calendars"]["calendar"] = super::documents::named(new);
            "a new calendar".to_owned()
        }
        _ => match policies.first() {
            Some(name) if policies.len() > 1 || draw.text("policy").chance(0.3) => {
                remove(documents, "policies", &name.clone())
            }
            _ => "nothing".to_owned(),
        },
    }
}

/// What people write about a rollout in Git.
fn control(draw: Draw, documents: &mut Documents) -> String {
    let policies = documents.names("policies");
    let Some(policy) = policies.first() else { return "nothing".to_owned() };
    let node = faults::any_node(draw.text("node"), &documents.pools);
    let mut spec = json!({"policy": policy, "reason": "drawn"});
    match draw.text("says").between(0, 4) {
        0 => spec["state"] = json!("Pause"),
        1 => spec["state"] = json!("Abort"),
        2 => spec["skip"] = json!([node.as_str()]),
        3 => {
            let pool = draw.text("pool").chance(0.5).then(|| documents.pools[0].name.clone());
            spec["retry"] = json!([{"what": node.as_str(), "pool": pool, "reason": "drawn"}]);
        }
        _ => spec["approve"] = json!([{"wave": "w1", "team": "sre", "by": "ann"}]),
    }
    let what = format!("control: {spec}");
    documents.value["controls"]["control"] = super::documents::named(spec);
    what
}

fn remove(documents: &mut Documents, kind: &str, name: &str) -> String {
    if let Some(Value::Object(map)) = documents.value.get_mut(kind) {
        map.remove(name);
    }
    format!("{kind} without {name}")
}

fn commands(draw: Draw, documents: &Documents, start: Timestamp) -> Vec<(Timestamp, Command)> {
    let count = if draw.text("any").chance(0.4) { draw.text("count").between(1, 3) } else { 0 };
    (0..count).flat_map(|n| command(draw.number(n), documents, start)).collect()
}

fn command(draw: Draw, documents: &Documents, start: Timestamp) -> Vec<(Timestamp, Command)> {
    let at = faults::instant(draw, start);
    let policy =
        &documents.policies[draw.text("policy").between(0, documents.policies.len() as u64 - 1) as usize];
    let driver =
        one_of(draw.text("driver"), &["580.2", "580.2", "580.2", "590.3", "600.4", "580.2-rollback"]);
    let rollout = RolloutId::new(&format!("{policy}-{driver}"));
    let node = faults::any_node(draw, &documents.pools);
    let say = |at: Timestamp, what: CommandKind| {
        (at, Command { at, by: "operator".to_owned(), reason: "drawn".to_owned(), what, done: false })
    };
    let later = Period::from_mins(draw.text("later").between(1, 300)).after(at);
    match draw.text("what").between(0, 8) {
        0 | 1 => {
            let mut both = vec![say(at, CommandKind::Pause { rollout: rollout.clone() })];
            if draw.text("resume").chance(0.8) {
                both.push(say(later, CommandKind::Resume { rollout }));
            }
            both
        }
        2 => vec![say(at, CommandKind::Abort { rollout })],
        3 => vec![say(at, CommandKind::Skip { node })],
        4 | 5 => vec![say(at, CommandKind::RetryNode { node })],
        6 => {
            let release = documents.value["releases"]["r2"]["spec"].clone();
            match serde_json::from_value::<drydock_spec::ReleaseSpec>(release) {
                Ok(spec) => {
                    vec![say(at, CommandKind::RetryRelease { release: spec.vector().id(), pool: None })]
                }
                Err(error) => panic!("release r2: {error}"),
            }
        }
        _ => {
            let wave = one_of(draw.text("wave"), &["w1", "w2"]).parse();
            let team = "sre".parse();
            let gate = if draw.text("gate").chance(0.5) { GatePoint::Before } else { GatePoint::After };
            match (wave, team) {
                (Ok(wave), Ok(team)) => vec![say(at, CommandKind::Approve { rollout, wave, gate, team })],
                _ => Vec::new(),
            }
        }
    }
}
