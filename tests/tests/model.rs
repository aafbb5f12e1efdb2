//! Model checking: a planner with a tiny fleet, in every order in which passes, crashes, answers of nodes, lost nodes,
//! a change of mind and a person's command can fall, up to so many mishaps of each kind. Random schedules meet a rare
//! order by chance; this meets all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hash::{Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use drydock_plan::{
    Action, ApplyItem, CheckResult, Command, CommandKind, CommitRef, Cordon, Course, Ensure, Epoch, GangId,
    Inventory, Ledger, LedgerChange, NodeId, ObservedCluster, ObservedGang, ObservedNode, PlanReport,
    Planned, RawVerdict, RolloutId, RolloutState, Stack, Step, StepReport, StepState, Work,
};
use drydock_planner::{Input, check};
use drydock_spec::Fleet;
use jiff::Timestamp;
use serde_json::json;
use stateright::{Checker, Model, Property};

/// Monday 2026-03-02 09:00 UTC.
const START: Timestamp = Timestamp::constant(1_772_442_000, 0);
/// Nodes were ready long before: one that has only just become ready is left to settle.
const SETTLED: Timestamp = Timestamp::constant(1_772_442_000 - 3_600, 0);
const POOLS: [&str; 2] = ["p", "q"];
const DRIVERS: [&str; 3] = ["570.1", "580.2", "590.3"];

/// What the model is made of.
struct Tiny {
    nodes: u8,
    /// Nodes take turns in them.
    pools: u8,
    /// One job runs on all nodes, and two may be away at once.
    job: bool,
    waves: u8,
    /// Bad answers, in any step of any node.
    bad: u8,
    /// Nodes that stop answering; each may come back at any time.
    lost: u8,
    /// Times the reconciler dies between two writes.
    crashes: u8,
    /// Times an answer doesn't come before patience with it ends.
    late: u8,
    /// A second commit, to this release.
    second: Option<u8>,
    abort: bool,
    fleets: Vec<Arc<Fleet>>,
}

/// The truth about a node.
#[derive(Clone, Debug)]
struct NodeSide {
    running: u8,
    own: Option<Epoch>,
    ready: bool,
    ready_since: Timestamp,
    boot: u64,
    intent: Option<Action>,
    report: Option<StepReport>,
    pool: &'static str,
    /// A pod of the job is on it.
    job: bool,
}

#[derive(Clone, Debug)]
struct State {
    ledger: Ledger,
    nodes: BTreeMap<NodeId, NodeSide>,
    now: Timestamp,
    commit: u8,
    bad: u8,
    lost: u8,
    crashes: u8,
    late: u8,
    second: bool,
    abort: bool,
    /// Newest epoch each node's record ever had.
    epochs: BTreeMap<NodeId, Epoch>,
    /// What the checker of invariants says of the last plan.
    broken: Vec<String>,
    digest: u128,
}

/// How a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Failed,
    CheckFails,
    Inconclusive,
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    /// A pass; so many of its actions reach nodes before the reconciler dies, all where absent.
    Pass(Option<usize>),
    Answer(NodeId, Answer),
    Lose(NodeId),
    Back(NodeId),
    /// Time passes until the planner would look again by itself.
    Wake,
    Commit,
    Abort,
}

fn fleet(nodes: u8, pools: u8, job: bool, waves: u8, release: u8) -> Fleet {
    let named = |spec: serde_json::Value| json!({"spec": spec, "path": "fleet.yaml", "line": 1});
    let soak = json!({"time": "10m"});
    let all = json!({"name": "rest", "batch": {"start": nodes}, "soak": soak});
    let canary = json!({"name": "canary", "pick": {"count": 1}, "soak": soak});
    let waves = if waves == 1 { json!([all]) } else { json!([canary, all]) };
    let releases: serde_json::Map<_, _> = DRIVERS
        .iter()
        .enumerate()
        .map(|(n, version)| (format!("r{n}"), named(json!({"components": {"gpu-driver": version}}))))
        .collect();
    serde_json::from_value(json!({
        "name": "tiny",
        "spec": named(json!({})),
        "clusters": {"c": named(json!({"access": {"simulated": {}}}))},
        "pools": POOLS.iter().take(pools.into()).map(|pool| ((*pool).to_owned(), named(json!({
            "cluster": "c", "nodeSelector": {"pool": pool}, "gpu": {"model": "L40S", "count": 4},
            "release": format!("r{release}")})))).collect::<serde_json::Map<_, _>>(),
        "layouts": {},
        "components": {"gpu-driver": named(json!({
            "class": "gpuDriver", "delivery": {"daemonSet": {"name": "driver"}}}))},
        "releases": releases,
        "policies": {"all": named(json!({
            "select": {}, "checks": "suite", "waves": waves,
            "retry": {"applyAttempts": 1, "checkAttempts": 1, "inconclusiveAttempts": 2},
            "deadline": {"rollout": "14d"}}))},
        "budgets": {"one": named(json!({"maxInFlight": if job { 2 } else { 1 }}))},
        "calendars": {},
        "suites": {"suite": named(json!({"checks": [{"name": "vector-add", "class": "driver"}]}))},
        "controls": {},
        "costs": {},
    }))
    .unwrap()
}

fn commit(n: u8) -> CommitRef {
    CommitRef { id: format!("{n:040}"), summary: format!("r{n}"), author: "operator".into(), time: START }
}

impl Tiny {
    fn stack(&self, release: u8) -> Arc<Stack> {
        let name = format!("r{release}");
        Arc::new(Stack::new(self.fleets[0].releases.get(name.as_str()).unwrap().vector()))
    }
    fn inventory(&self, state: &State) -> Inventory {
        let stacks: Vec<Arc<Stack>> = (0..3).map(|n| self.stack(n)).collect();
        let see = |node: &NodeSide| ObservedNode {
            uid: Arc::from(""),
            contested: Vec::new(),
            pool: Some(node.pool.parse().unwrap()),
            labels: [("pool".to_owned(), node.pool.to_owned())].into(),
            domains: Default::default(),
            gpus: 4,
            kernel: Arc::from("6.8"),
            boot_id: node.boot,
            ready: node.ready,
            ready_since: node.ready_since,
            cordon: Cordon { own: node.own, foreign: None },
            running: Arc::clone(&stacks[usize::from(node.running)]),
            layout: None,
            work: Work {
                gpu_pods: u32::from(node.job),
                gangs: node.job.then(|| GangId::new("t/job")).into_iter().collect(),
                jobs_passed: 0,
            },
            faults: Vec::new(),
            report: node.report.clone(),
        };
        let of_job: Vec<NodeId> =
            state.nodes.iter().filter(|(_, node)| node.job).map(|(id, _)| id.clone()).collect();
        let job = ObservedGang { tenant: None, nodes: of_job, last_checkpoint: START, expected_end: None };
        let runs = !job.nodes.is_empty();
        Inventory {
            clusters: [("c".parse().unwrap(), ObservedCluster::fresh(state.now))].into(),
            nodes: state.nodes.iter().map(|(id, node)| (id.clone(), see(node))).collect(),
            gangs: runs.then(|| (GangId::new("t/job"), job)).into_iter().collect(),
        }
    }
    fn plan(&self, state: &State) -> (Planned, Vec<String>) {
        let (inventory, commit) = (self.inventory(state), commit(state.commit));
        let input = Input {
            fleet: &self.fleets[usize::from(state.commit)],
            commit: &commit,
            inventory: &inventory,
            ledger: &state.ledger,
            now: state.now,
        };
        let planned = drydock_planner::plan(&input);
        let mut after = state.ledger.clone();
        planned.plan.changes.iter().for_each(|change| after.apply(change.clone()));
        let broken = check::check(&input, &planned.plan, &after).iter().map(ToString::to_string).collect();
        (planned, broken)
    }
    /// The answers a node may give to its intent. Bad ones are used up.
    fn answers(&self, state: &State, node: &NodeSide) -> Vec<Answer> {
        let Some(intent) = node.intent.as_ref().filter(|_| node.ready && node.report.is_none()) else {
            return Vec::new();
        };
        let mut answers = vec![Answer::Done];
        if state.bad > 0 {
            answers.extend(match &intent.ensure {
                Ensure::Preflight { checks, .. } if checks.is_empty() => vec![Answer::Failed],
                Ensure::Preflight { .. } => {
                    vec![Answer::Failed, Answer::CheckFails, Answer::Inconclusive]
                }
                Ensure::Checked { .. } => vec![Answer::CheckFails, Answer::Inconclusive],
                Ensure::Applied { .. } | Ensure::Drained { .. } => vec![Answer::Failed],
                Ensure::Cordoned
                | Ensure::Checkpointed { .. }
                | Ensure::Partitioned { .. }
                | Ensure::Returned
                | Ensure::Kept => Vec::new(),
            });
        }
        answers
    }
}

impl NodeSide {
    /// It has something to answer, and can.
    fn is_awaited(&self) -> bool {
        self.ready && self.intent.is_some() && self.report.is_none()
    }
    /// As an API server would: older numbers are refused, the same intent again is no news.
    fn hear(&mut self, action: &Action) {
        if let Some(known) = &self.intent {
            let old = action.epoch < known.epoch || action.generation < known.generation;
            if old || action.generation == known.generation {
                return;
            }
        }
        self.intent = Some(action.clone());
        self.report = None;
    }
    fn answer(&mut self, answer: Answer, now: Timestamp) {
        let Some(intent) = self.intent.clone() else { return };
        let mut checks = Vec::new();
        match &intent.ensure {
            Ensure::Cordoned | Ensure::Kept => self.own = Some(intent.epoch),
            Ensure::Returned => self.own = None,
            Ensure::Applied { version, .. } if answer == Answer::Done => {
                let wanted = version.as_ref().map(|v| v.version.as_str());
                let found = DRIVERS.iter().position(|d| Some(*d) == wanted);
                self.running = u8::try_from(found.unwrap()).unwrap();
            }
            Ensure::Checked { checks: orders } | Ensure::Preflight { checks: orders, .. } => {
                let verdict = match answer {
                    Answer::Done | Answer::Failed => RawVerdict::Pass,
                    Answer::CheckFails => RawVerdict::Fail,
                    Answer::Inconclusive => RawVerdict::Inconclusive,
                };
                checks.extend(orders.iter().map(|order| CheckResult {
                    check: order.name.clone(),
                    verdict,
                    value: None,
                    detail: String::new(),
                    started: now,
                    finished: now,
                    partner: None,
                }));
            }
            Ensure::Applied { .. }
            | Ensure::Drained { .. }
            | Ensure::Checkpointed { .. }
            | Ensure::Partitioned { .. } => {}
        }
        let state = match answer {
            Answer::Failed => StepState::Failed { message: "it failed".to_owned() },
            Answer::Done | Answer::CheckFails | Answer::Inconclusive => StepState::Done,
        };
        self.report = Some(StepReport { generation: intent.generation, state, checks });
    }
}

impl State {
    /// Two states are the same when everything a planner can tell apart from now on is: instants count as distances
    /// from now, numbers as whether they are the newest, and history not at all.
    fn sealed(mut self) -> Self {
        let mut text = format!("{} {} {} {} ", self.commit, self.bad, self.lost, self.crashes);
        let _ = write!(text, "{} ", self.late);
        let ago = |at: Timestamp| at.duration_since(self.now).as_secs().max(-86_400 * 2);
        let _ = write!(text, "{} {} {:?}", self.second, self.abort, self.broken);
        for (id, node) in &self.nodes {
            let record = self.ledger.nodes.get(id).cloned().unwrap_or_default();
            let _ = write!(
                text,
                "\n{id} {} {} {:?} ",
                node.job,
                node.running,
                node.own.map(|e| e == record.epoch)
            );
            let since_soak = record.soak.as_ref().is_some_and(|s| s.since < node.ready_since);
            let away = (!node.ready).then(|| ago(node.ready_since).max(-600));
            let _ = write!(text, "{away:?} {since_soak} ");
            let answer = node
                .report
                .as_ref()
                .map(|r| (r.generation == record.generation, &r.state, r.checks.first().map(|c| c.verdict)));
            let intent = node.intent.as_ref().map(|i| (i.generation == record.generation, &i.ensure));
            let _ = write!(text, "{answer:?} {intent:?} ");
            if let Some(a) = &record.assignment {
                let ended = (a.outcome.as_ref(), a.deferrals, a.batch, a.exposed.is_some());
                let _ = write!(text, "A {} {} {} {ended:?} ", a.rollout, a.wave, a.target);
            }
            if let Some(v) = &record.visit {
                let times = (ago(v.deadline), v.not_before.map(ago), v.lost_since.map(ago));
                let counts =
                    (v.attempt, v.arrived, v.passes, v.drained, v.inconclusive, v.boot_id == node.boot);
                let evidence: Vec<_> = v.evidence.iter().map(|e| (&e.on, e.class)).collect();
                let _ = write!(text, "V {} {} {} {:?} {:?} ", v.rollout, v.from, v.to, v.course, v.step);
                let _ = write!(text, "{times:?} {counts:?} {evidence:?} ");
            }
            if let Some(s) = &record.soak {
                let _ = write!(text, "S {} {} {} {} ", s.rollout, s.target, s.from, ago(s.since));
            }
            let good =
                (&record.last_known_good, &record.previous_good, record.not_before.map(|at| ago(at).max(0)));
            let kept = (record.quarantine.as_ref().map(|q| q.blame), record.incidents);
            let day = |at: Timestamp| ago(at) <= -86_400;
            let skipped = record.skipped.as_ref().map(|s| (&s.target, &s.reason, day(s.at)));
            let bases: Vec<_> = record.baselines.values().map(|b| (&b.on, day(b.at))).collect();
            let _ = write!(text, "{good:?} {kept:?} {skipped:?} {bases:?}");
        }
        for rollout in self.ledger.rollouts.values() {
            let fails: Vec<_> =
                rollout.failures.iter().map(|f| (&f.node, f.wave, f.class, f.blame, &f.release)).collect();
            let _ = write!(text, "\n{} {:?} {:?} ", rollout.id, rollout.state, rollout.kind);
            let _ = write!(text, "{:?} {fails:?} {}", rollout.targets, rollout.consecutive);
            let _ = write!(text, "{:?}", rollout.child);
            for wave in &rollout.waves {
                let counts = (wave.batch, wave.batch_size, wave.in_batch, wave.attempted, wave.lost);
                let drawn = (wave.grown, wave.drawn, wave.excused);
                // Two hours of patience, ten minutes of soak.
                let started = wave.started.map(|at| ago(at) <= -7_200);
                let times = (started, wave.last_return.map(|at| ago(at).max(-7_200)), wave.ended.is_some());
                let _ = write!(text, " {:?} {counts:?} {drawn:?} {times:?}", wave.state);
            }
        }
        let _ = write!(text, "\n{:?}", self.ledger.quarantines.keys());
        for command in self.ledger.commands.values() {
            let _ = write!(text, " {:?} {}", command.what, command.done);
        }
        self.digest = digest(&text);
        self
    }
    fn has(&self, wanted: impl Fn(&RolloutState) -> bool) -> bool {
        self.ledger.rollouts.values().any(|r| wanted(&r.state))
    }
    /// A rollout was made, all that were have ended or wait for a person, and nobody is away.
    fn is_over(&self) -> bool {
        let ended = |state: &RolloutState| match state {
            RolloutState::Running | RolloutState::RollingBack => false,
            RolloutState::Paused(_)
            | RolloutState::Halted
            | RolloutState::Rejected { .. }
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => true,
        };
        // Whoever goes back before anything was begun has nothing to roll out.
        (!self.ledger.rollouts.is_empty() || self.commit == 0)
            && self.ledger.rollouts.values().all(|r| ended(&r.state))
            && self.in_flight() == 0
    }
    fn in_flight(&self) -> usize {
        self.ledger.nodes.values().filter(|r| r.visit.is_some()).count()
    }
}

/// FNV-1a of 128 bits.
fn digest(text: &str) -> u128 {
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let mix = |h: u128, byte: u8| (h ^ u128::from(byte)).wrapping_mul(prime);
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, mix)
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}
impl Eq for State {}
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

fn open_rollout(state: &State) -> Option<RolloutId> {
    state.ledger.open_rollouts().map(|r| r.id.clone()).next()
}

fn news(state: &State, action: &Action) -> bool {
    let known = state.nodes.get(&action.node).and_then(|node| node.intent.as_ref());
    known.is_none_or(|known| known.generation != action.generation)
}

impl Model for Tiny {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let side = NodeSide {
            running: 0,
            own: None,
            ready: true,
            ready_since: SETTLED,
            boot: 1,
            intent: None,
            report: None,
            pool: POOLS[0],
            job: self.job,
        };
        let side = |n: u8| NodeSide { pool: POOLS[usize::from(n % self.pools)], ..side.clone() };
        let nodes = (0..self.nodes).map(|n| (NodeId::new(&format!("c/n{n}")), side(n))).collect();
        let state = State {
            ledger: Ledger::default(),
            nodes,
            now: START,
            commit: 1,
            bad: self.bad,
            lost: self.lost,
            crashes: self.crashes,
            late: self.late,
            second: self.second.is_some(),
            abort: self.abort,
            epochs: BTreeMap::new(),
            broken: Vec::new(),
            digest: 0,
        };
        vec![state.sealed()]
    }
    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if !state.broken.is_empty() {
            return;
        }
        let (planned, _) = self.plan(state);
        let PlanReport { wake, .. } = planned.report;
        let plan = planned.plan;
        let unheard = plan.actions.iter().filter(|action| news(state, action)).count();
        if !plan.changes.is_empty() || unheard > 0 {
            events.push(Event::Pass(None));
            if state.crashes > 0 {
                events.extend((0..plan.actions.len()).map(|n| Event::Pass(Some(n))));
            }
        }
        for (id, node) in &state.nodes {
            events.extend(self.answers(state, node).into_iter().map(|a| Event::Answer(id.clone(), a)));
            match node.ready {
                true if state.lost > 0 => events.push(Event::Lose(id.clone())),
                true => {}
                false => events.push(Event::Back(id.clone())),
            }
        }
        // Time passes only when there is nothing left to write: a pass takes no time.
        let awaited = state.nodes.values().any(NodeSide::is_awaited);
        if plan.changes.is_empty() && unheard == 0 && wake.is_some() && (!awaited || state.late > 0) {
            events.push(Event::Wake);
        }
        if state.second {
            events.push(Event::Commit);
        }
        if state.abort && open_rollout(state).is_some() {
            events.push(Event::Abort);
        }
    }
    fn next_state(&self, last: &State, event: Event) -> Option<State> {
        let mut state = last.clone();
        match event {
            Event::Pass(reached) => {
                let (planned, broken) = self.plan(last);
                for change in planned.plan.changes {
                    state.ledger.apply(change);
                }
                state.broken = broken;
                let reached = reached.inspect(|_| state.crashes -= 1).unwrap_or(usize::MAX);
                for action in planned.plan.actions.iter().take(reached) {
                    if let Some(node) = state.nodes.get_mut(&action.node) {
                        node.hear(action);
                    }
                }
                for (id, record) in &state.ledger.nodes {
                    let newest = state.epochs.entry(id.clone()).or_default();
                    if record.epoch < *newest {
                        state.broken.push(format!("the epoch of {id} falls"));
                    }
                    *newest = record.epoch;
                }
            }
            Event::Answer(id, answer) => {
                state.bad -= u8::from(answer != Answer::Done);
                let node = state.nodes.get_mut(&id)?;
                node.answer(answer, last.now);
                let drained =
                    node.intent.as_ref().is_some_and(|i| matches!(i.ensure, Ensure::Drained { .. }));
                if drained && answer == Answer::Done {
                    // A job ends everywhere when it loses a node.
                    state.nodes.values_mut().for_each(|node| node.job = false);
                }
            }
            Event::Lose(id) => {
                state.lost -= 1;
                let node = state.nodes.get_mut(&id)?;
                (node.ready, node.ready_since) = (false, last.now);
            }
            Event::Back(id) => {
                let node = state.nodes.get_mut(&id)?;
                (node.ready, node.ready_since) = (true, last.now);
                node.boot += 1;
            }
            Event::Wake => {
                state.late -= u8::from(state.nodes.values().any(NodeSide::is_awaited));
                state.now = self.plan(last).0.report.wake?;
            }
            Event::Commit => {
                state.second = false;
                state.commit = self.second?;
            }
            Event::Abort => {
                state.abort = false;
                let what = CommandKind::Abort { rollout: open_rollout(last)? };
                let command =
                    Command { at: last.now, by: "op".into(), reason: "r".into(), what, done: false };
                state.ledger.apply(LedgerChange::Command(1, command));
            }
        }
        Some(state.sealed())
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no invariant is broken", |_, s: &State| s.broken.is_empty()),
            Property::always("no more in flight than may be", |m: &Self, s: &State| {
                s.in_flight() <= if m.job { 2 } else { 1 }
            }),
            // Where nothing can happen any more, all of it is over or waits for a person who is told.
            Property::eventually("everything comes to an end", |_, s: &State| s.is_over()),
            Property::always("a cordon has a reservation or a quarantine behind it", |_, s: &State| {
                s.nodes.iter().filter(|(_, node)| node.own.is_some()).all(|(id, _)| {
                    s.ledger.nodes.get(id).is_some_and(|r| r.visit.is_some() || r.quarantine.is_some())
                })
            }),
            // Of two that are changed at once, one may be in the middle of it when the other one fails.
            Property::always("what failed isn't given to a node", |m: &Self, s: &State| {
                let visits = s.ledger.nodes.iter().filter_map(|(id, r)| Some((id, r.visit.as_ref()?)));
                m.job
                    || visits.clone().all(|(id, visit)| {
                        let applies = matches!(visit.step, Step::Apply(ApplyItem::Component(_)));
                        let Some(node) = s.nodes.get(id) else { return true };
                        let pool: drydock_spec::PoolName = node.pool.parse().unwrap();
                        let known = s.ledger.quarantines.contains_key(&(pool, visit.to.release.clone()));
                        visit.course != Course::Forward || !applies || !known
                    })
            }),
            Property::always("a rollout that has ended holds nothing", |_, s: &State| {
                s.ledger
                    .nodes
                    .values()
                    .filter_map(|r| r.visit.as_ref())
                    .all(|visit| s.ledger.rollouts.get(&visit.rollout).is_some_and(|r| !r.state.is_final()))
            }),
            Property::sometimes("succeeded", |_, s: &State| s.has(|r| *r == RolloutState::Succeeded)),
            Property::sometimes("rolled back", |m: &Self, s: &State| {
                m.bad == 0 || s.has(|r| *r == RolloutState::RolledBack)
            }),
            Property::sometimes("a node quarantined", |m: &Self, s: &State| {
                m.bad < 2 && m.lost == 0 || s.ledger.nodes.values().any(|r| r.quarantine.is_some())
            }),
            Property::sometimes("superseded", |m: &Self, s: &State| {
                m.second.is_none() || s.has(|r| *r == RolloutState::Superseded)
            }),
            Property::sometimes("aborted", |m: &Self, s: &State| {
                !m.abort || s.has(|r| *r == RolloutState::Aborted)
            }),
        ]
    }
}

/// A model that takes longer than this has grown too large for a test.
const TIME_MAX: Duration = Duration::from_secs(50);

fn explore(name: &str, mut model: Tiny) {
    model.fleets =
        (0..3).map(|r| Arc::new(fleet(model.nodes, model.pools, model.job, model.waves, r))).collect();
    let begun = Instant::now();
    let checker = model.checker().threads(2).timeout(TIME_MAX).spawn_bfs().join();
    let (unique, depth) = (checker.unique_state_count(), checker.max_depth());
    eprintln!("{name}: {unique} unique states, {depth} deep");
    // Else it may have ended before it had seen them all.
    assert!(begun.elapsed() < TIME_MAX, "{name} has grown too large");
    let found: BTreeMap<_, _> = checker.discoveries().into_iter().collect();
    for (property, path) in found {
        let expectation = checker.discovery_classification(property).to_string();
        if expectation != "example" {
            let last = path.last_state().clone();
            let trace: Vec<String> = path.into_actions().iter().map(|event| format!("{event:?}")).collect();
            panic!("{name}: {property}: {:?}\n{}\n{:#?}", last.broken, trace.join("\n"), last.ledger.nodes);
        }
    }
    checker.assert_properties();
}

const TINY: Tiny = Tiny {
    nodes: 2,
    pools: 1,
    job: false,
    waves: 1,
    bad: 0,
    lost: 0,
    crashes: 0,
    late: 0,
    second: None,
    abort: false,
    fleets: Vec::new(),
};

#[test]
fn bad_answers_and_crashes() {
    explore("bad answers and crashes", Tiny { bad: 2, crashes: 1, late: 1, ..TINY });
}

#[test]
fn lost_nodes() {
    explore("lost nodes", Tiny { lost: 1, bad: 1, late: 1, ..TINY });
}

#[test]
fn a_change_of_mind() {
    explore("a change of mind", Tiny { second: Some(2), bad: 1, ..TINY });
    explore("back to what ran before", Tiny { second: Some(0), bad: 1, ..TINY });
}

#[test]
fn an_abort() {
    explore("an abort", Tiny { abort: true, bad: 1, crashes: 1, ..TINY });
}

#[test]
fn waves_with_three_nodes() {
    explore("waves with three nodes", Tiny { nodes: 3, waves: 2, bad: 2, crashes: 1, ..TINY });
}

#[test]
fn two_pools() {
    explore("two pools", Tiny { pools: 2, bad: 2, ..TINY });
}

#[test]
fn a_job_on_both_nodes() {
    explore("a job on both nodes", Tiny { job: true, bad: 1, ..TINY });
}
