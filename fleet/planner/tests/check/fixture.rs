//! A small fleet in which everything is in order: ten nodes of one pool, one rollout that runs.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::*;
use drydock_planner::{
    Input,
    check::{Violation, check},
};
use drydock_spec::{BudgetSpec, Fleet, PolicySpec};
use jiff::{Timestamp, ToSpan};

pub(crate) use super::documents::*;

pub(crate) const NODES: usize = 10;

/// A Wednesday.
pub(crate) fn now() -> Timestamp {
    "2027-01-06T12:00:00Z".parse().unwrap()
}
pub(crate) fn ago(minutes: i64) -> Timestamp {
    now() - minutes.minutes()
}
pub(crate) fn in_mins(minutes: i64) -> Timestamp {
    now() + minutes.minutes()
}
pub(crate) fn node(n: usize) -> NodeId {
    NodeId::new(&format!("c/n{n}"))
}
pub(crate) fn roll() -> RolloutId {
    RolloutId::new("roll")
}
pub(crate) fn target(vector: &ReleaseVector) -> Target {
    Target { release: vector.id(), layout: None }
}
pub(crate) fn wave_record(name: &str, state: WaveState) -> WaveRecord {
    WaveRecord {
        state,
        batch: 1,
        batch_size: 10,
        in_batch: 0,
        started: Some(ago(600)),
        ..WaveRecord::new(name.parse().unwrap())
    }
}

fn commit() -> CommitRef {
    CommitRef { id: "0".repeat(40), summary: "s".to_owned(), author: "a".to_owned(), time: ago(600) }
}

pub(crate) fn rollout(id: &str, kind: RolloutKind) -> RolloutRecord {
    let mut record = RolloutRecord::new(NewRollout {
        id: RolloutId::new(id),
        policy: "policy".parse().unwrap(),
        strategy: policy(),
        suite: Arc::new(suite()),
        commit: commit(),
        kind,
        targets: BTreeMap::from([("p".parse().unwrap(), target(&new_vector()))]),
        security: false,
        created: ago(600),
    });
    record.waves = vec![wave_record("main", WaveState::Running)];
    record
}

/// The world before a plan, and the plan.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) inventory: Inventory,
    pub(crate) before: Ledger,
    pub(crate) changes: Vec<LedgerChange>,
    pub(crate) actions: Vec<Action>,
    pub(crate) parent: Option<u64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of_size(NODES)
    }
    pub(crate) fn of_size(nodes: usize) -> Self {
        let mut inventory = Inventory::default();
        inventory.clusters.insert("c".parse().unwrap(), ObservedCluster::fresh(now()));
        let mut before = Ledger { revision: 7, ..Ledger::default() };
        let running = Arc::new(Stack::new(old_vector()));
        for vector in [old_vector(), new_vector()] {
            before.releases.insert(vector.id(), vector);
        }
        for n in 0..nodes {
            let mut seen = observed(&running);
            for (key, size) in [("nvl", 2), ("su", 5), ("rack", 5), ("rail", 2)] {
                seen.labels.insert(key.to_owned(), format!("{key}{}", n / size));
            }
            inventory.nodes.insert(node(n), seen);
            before.nodes.insert(node(n), assigned());
        }
        before.rollouts.insert(roll(), Arc::new(rollout("roll", RolloutKind::Forward)));
        let fleet = fleet();
        inventory.assign_pools(&fleet);
        Self { fleet, inventory, before, changes: Vec::new(), actions: Vec::new(), parent: None }
    }

    // The world before.

    pub(crate) fn was(&mut self, n: usize, edit: impl FnOnce(&mut NodeRecord)) {
        edit(self.before.nodes.get_mut(&node(n)).unwrap());
    }
    pub(crate) fn seen(&mut self, n: usize, edit: impl FnOnce(&mut ObservedNode)) {
        edit(self.inventory.nodes.get_mut(&node(n)).unwrap());
    }
    pub(crate) fn rollout(&mut self, edit: impl FnOnce(&mut RolloutRecord)) {
        self.edit_rollout(&roll(), edit);
    }
    pub(crate) fn edit_rollout(&mut self, id: &RolloutId, edit: impl FnOnce(&mut RolloutRecord)) {
        edit(Arc::make_mut(self.before.rollouts.get_mut(id).unwrap()));
    }
    pub(crate) fn strategy(&mut self, edit: impl FnOnce(&mut PolicySpec)) {
        self.rollout(|r| edit(Arc::make_mut(&mut r.strategy)));
    }
    pub(crate) fn budget(&mut self, edit: impl FnOnce(&mut BudgetSpec)) {
        let mut spec = budget();
        edit(&mut spec);
        let name = format!("b{}", self.fleet.budgets.len()).parse().unwrap();
        self.fleet.budgets.insert(name, named(spec));
    }
    /// It is in flight already.
    pub(crate) fn was_held(&mut self, n: usize, edit: impl FnOnce(&mut Visit)) {
        let mut held = visit(n);
        edit(&mut held);
        self.was(n, |r| {
            r.epoch = Epoch(1);
            r.generation = Generation(4);
            r.visit = Some(held);
            r.assignment.as_mut().unwrap().batch = Some(1);
        });
    }
    /// It serves on the new release and is watched.
    pub(crate) fn was_soaking(&mut self, n: usize, minutes: i64) {
        let soak = Soak {
            rollout: roll(),
            target: target(&new_vector()),
            from: target(&old_vector()),
            since: ago(minutes),
            jobs_at_start: 0,
            given: None,
            spells: 0,
        };
        self.was(n, |r| {
            r.epoch = Epoch(1);
            r.generation = Generation(8);
            r.soak = Some(soak);
            let assignment = r.assignment.as_mut().unwrap();
            assignment.exposed = Some(ago(minutes + 10));
            assignment.batch = Some(1);
        });
        self.runs(n, &new_vector());
    }
    pub(crate) fn runs(&mut self, n: usize, vector: &ReleaseVector) {
        let stack = Arc::new(Stack::new(vector.clone()));
        self.seen(n, |s| s.running = stack);
    }
    pub(crate) fn breaks_down(&mut self, n: usize) {
        self.seen(n, |s| {
            s.ready = false;
            s.ready_since = ago(5);
        });
    }

    // The plan.

    pub(crate) fn after(&self) -> Ledger {
        let mut after = self.before.clone();
        for change in &self.changes {
            after.apply(change.clone());
        }
        after
    }
    pub(crate) fn change(&mut self, n: usize, edit: impl FnOnce(&mut NodeRecord)) {
        let mut record = self.after().nodes.get(&node(n)).cloned().unwrap_or_default();
        edit(&mut record);
        self.changes.push(LedgerChange::Node(node(n), Box::new(record)));
    }
    /// As `change`, with a new generation, as every new intent has.
    pub(crate) fn intend(&mut self, n: usize, edit: impl FnOnce(&mut NodeRecord)) {
        self.change(n, |r| {
            r.generation = r.generation.next();
            edit(r);
        });
    }
    pub(crate) fn change_rollout(&mut self, edit: impl FnOnce(&mut RolloutRecord)) {
        let mut record = RolloutRecord::clone(&self.after().rollouts[&roll()]);
        edit(&mut record);
        self.changes.push(LedgerChange::Rollout(Box::new(record)));
    }
    /// Reserves a node the way it is done right, as a unit of its own.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.reserve_as(n, |_| {});
    }
    pub(crate) fn reserve_as(&mut self, n: usize, edit: impl FnOnce(&mut Visit)) {
        let mut fresh = visit(n);
        fresh.since = now();
        edit(&mut fresh);
        let holder = fresh.rollout.clone();
        self.intend(n, |r| {
            r.epoch = r.epoch.next();
            r.soak = None;
            r.visit = Some(fresh);
            let assignment = r.assignment.as_mut().unwrap();
            assignment.batch = assignment.batch.or(Some(1));
        });
        let mut record = RolloutRecord::clone(&self.after().rollouts[&holder]);
        record.waves[0].in_batch += 1;
        self.changes.push(LedgerChange::Rollout(Box::new(record)));
    }
    pub(crate) fn act(&mut self, n: usize, ensure: Ensure) {
        let record = self.after().nodes.get(&node(n)).cloned().unwrap_or_default();
        self.actions.push(Action {
            node: node(n),
            generation: record.generation,
            epoch: record.epoch,
            ensure,
        });
    }

    // The judgement.

    pub(crate) fn violations(&self) -> Vec<Violation> {
        let commit = commit();
        let input = Input {
            fleet: &self.fleet,
            commit: &commit,
            inventory: &self.inventory,
            ledger: &self.before,
            now: now(),
        };
        let plan = Plan {
            parent: self.parent.unwrap_or(self.before.revision),
            changes: self.changes.clone(),
            actions: self.actions.clone(),
        };
        check(&input, &plan, &self.after())
    }
    #[track_caller]
    pub(crate) fn is_fine(&self) {
        assert_eq!(self.violations(), []);
    }
    /// This invariant is broken, and no other.
    #[track_caller]
    pub(crate) fn breaks(&self, invariant: &str) {
        let found = self.violations();
        assert!(!found.is_empty(), "{invariant} is broken and nothing was found");
        assert!(found.iter().all(|v| v.invariant == invariant), "{invariant} expected, found {found:#?}");
    }
}

pub(crate) fn observed(running: &Arc<Stack>) -> ObservedNode {
    ObservedNode {
        uid: Arc::from(""),
        pool: None,
        contested: Vec::new(),
        labels: BTreeMap::from([("pool".to_owned(), "p".to_owned())]),
        domains: [None, None, None, None],
        gpus: 8,
        kernel: Arc::from("6.8"),
        boot_id: 1,
        ready: true,
        ready_since: ago(6000),
        cordon: Cordon::default(),
        running: running.clone(),
        layout: None,
        work: Work::default(),
        faults: Vec::new(),
        report: None,
    }
}

fn assigned() -> NodeRecord {
    NodeRecord {
        assignment: Some(Assignment::new(roll(), "p".parse().unwrap(), 0, target(&new_vector()))),
        last_known_good: Some(target(&old_vector())),
        ..NodeRecord::default()
    }
}

pub(crate) fn visit(n: usize) -> Visit {
    Visit {
        rollout: roll(),
        since: ago(60),
        unit: UnitId::new(&format!("c/n{n}")),
        atomic: false,
        from: target(&old_vector()),
        to: target(&new_vector()),
        course: Course::Forward,
        step: Step::Preflight,
        step_since: ago(10),
        deadline: in_mins(20),
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

pub(crate) fn evidence() -> Evidence {
    Evidence {
        on: target(&new_vector()),
        class: FailureClass::Apply,
        result: None,
        text: "no module".to_owned(),
        at: ago(2),
    }
}

pub(crate) fn fault(minutes: i64) -> HealthFault {
    HealthFault { kind: "xid-79".to_owned(), since: ago(minutes), recovery: None }
}

pub(crate) fn report(generation: u64, verdict: RawVerdict) -> StepReport {
    let result = CheckResult {
        check: "vector-add".parse().unwrap(),
        verdict,
        value: None,
        detail: String::new(),
        started: ago(3),
        finished: ago(2),
        partner: None,
    };
    StepReport { generation: Generation(generation), state: StepState::Done, checks: vec![result] }
}

/// A rollback of `roll`, which halted; the nodes given are assigned to it.
pub(crate) fn rollback(world: &mut World, nodes: &[usize]) {
    let of = roll();
    world.rollout(|r| r.state = RolloutState::RollingBack);
    let mut child = rollout("back", RolloutKind::Rollback { of });
    child.targets.clear();
    world.before.rollouts.insert(child.id.clone(), Arc::new(child));
    for &n in nodes {
        world.runs(n, &new_vector());
        world.was(n, |r| {
            let assignment = r.assignment.as_mut().unwrap();
            assignment.rollout = RolloutId::new("back");
            assignment.target = target(&old_vector());
        });
    }
}
/// Edits the strategy of that rollback.
pub(crate) fn strategy_back(world: &mut World, edit: impl FnOnce(&mut PolicySpec)) {
    world.edit_rollout(&RolloutId::new("back"), |r| edit(Arc::make_mut(&mut r.strategy)));
}
pub(crate) fn reserve_back(world: &mut World, n: usize) {
    world.reserve_as(n, |v| {
        v.rollout = RolloutId::new("back");
        v.from = target(&new_vector());
        v.to = target(&old_vector());
    });
}
