//! State of one planning pass, and its output.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use drydock_plan::{
    ApplyItem, HISTORY_MAX, HistoryEntry, LayoutId, LedgerChange, NodeRecord, Plan, Planned, Reason,
    ReleaseId, RolloutEvent, RolloutId, RolloutRecord, RolloutState, Target, Wait,
};
use drydock_spec::{ComponentName, DomainKey, PolicySpec, PoolSpec, ReleaseVector};
use jiff::Timestamp;

use crate::{
    Input, budgets::Counters, calendar::Movement, desired, domain::Domain, frame::Frame, head::Head, health,
    shared::Carriers,
};

/// Addresses of running stack, layout and target, and the pool: a pass looks at the same few combinations thousands of
/// times, and within a pass an address stands for what it holds. Equal texts at other addresses only cost a second
/// entry.
type NeedKey = [usize; 5];

pub(crate) struct Pass<'a> {
    pub input: Input<'a>,
    pub frame: Frame<'a>,
    /// Records changed in this pass, by node.
    edits: Vec<Option<Box<NodeRecord>>>,
    /// Rollouts that were open when the pass began, and those it made.
    pub rollouts: BTreeMap<RolloutId, Arc<RolloutRecord>>,
    /// Other changes, in order.
    pub changes: Vec<LedgerChange>,
    remembered: BTreeSet<ReleaseId>,
    /// Reasons by rollout and wave; no rollout means nodes outside any.
    pub waits: BTreeMap<(Option<RolloutId>, u16), Vec<Wait>>,
    pub wake: Option<Timestamp>,
    /// The node that somebody asks about, and what the steps say of it.
    pub asked: Option<usize>,
    pub told: Vec<Reason>,
    needs: RefCell<BTreeMap<NeedKey, Rc<[ApplyItem]>>>,
    pub counters: Option<Counters>,
    /// Units that go first; found when first asked for.
    pub heads: Option<Rc<[Head]>>,
    /// Nodes by rollout and wave; made when first asked for, forgotten when an assignment changes.
    roster: RefCell<Option<Rc<Roster>>>,
    /// Why calendars keep nodes from starting, by what they are about and by the kind of movement.
    pub calendars: RefCell<Calendars>,
    /// Sizes of domains, by kind; made when first asked for.
    domain_sizes: RefCell<BTreeMap<DomainKey, DomainSizes<'a>>>,
    /// Why a release can't run on what nodes show, by product, pool and GPUs: thousands of nodes show the same.
    pub misfits: RefCell<Misfits<'a>>,
    /// What clusters have once.
    pub shared: BTreeSet<&'a ComponentName>,
    /// Who changes it just now; made when first asked for, forgotten when one of them changes.
    pub carriers: RefCell<Option<Carriers>>,
}

/// Releases that were looked at for a product, in a pool, with so many GPUs a node.
pub(crate) type Misfits<'a> = BTreeMap<(&'a str, Option<usize>, u32), Vec<(ReleaseId, Option<String>)>>;

/// Answers of calendars, by pool, by which scopes with a domain hold the node, and by movement.
pub(crate) type Calendars = BTreeMap<(usize, Vec<bool>, Movement), Option<Reason>>;

/// Nodes of each domain of one kind.
type DomainSizes<'a> = BTreeMap<Domain<'a>, u32>;

/// Positions of nodes, by rollout and wave.
type Roster = BTreeMap<RolloutId, Vec<Rc<[usize]>>>;

impl<'a> Pass<'a> {
    pub(crate) fn new(input: Input<'a>) -> Self {
        let frame = Frame::new(&input);
        let components = &input.fleet.components;
        let shared = components.iter().filter(|(_, c)| c.delivery.is_per_cluster()).map(|(name, _)| name);
        let rollouts = input.ledger.open_rollouts().map(|r| (r.id.clone(), Arc::clone(r))).collect();
        let mut edits = Vec::new();
        edits.resize_with(frame.nodes.len(), || None);
        Self {
            input,
            frame,
            edits,
            rollouts,
            changes: Vec::new(),
            remembered: BTreeSet::new(),
            waits: BTreeMap::new(),
            wake: None,
            asked: None,
            told: Vec::new(),
            needs: RefCell::new(BTreeMap::new()),
            counters: None,
            heads: None,
            roster: RefCell::new(None),
            calendars: RefCell::new(BTreeMap::new()),
            domain_sizes: RefCell::new(BTreeMap::new()),
            misfits: RefCell::new(BTreeMap::new()),
            shared: shared.collect(),
            carriers: RefCell::new(None),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.input.now
    }
    /// A node's record as it stands in this pass.
    pub(crate) fn rec(&self, i: usize) -> &NodeRecord {
        self.edits[i].as_deref().unwrap_or(self.frame.nodes[i].rec)
    }
    /// The same, to be changed.
    pub(crate) fn edit(&mut self, i: usize) -> &mut NodeRecord {
        let rec = self.frame.nodes[i].rec;
        if self.rec(i).assignment.as_ref().is_some_and(|a| !a.carries.is_empty()) {
            self.forget_carriers();
        }
        self.edits[i].get_or_insert_with(|| Box::new(rec.clone()))
    }
    /// Its record isn't any more what it was when the pass began.
    pub(crate) fn is_edited(&self, i: usize) -> bool {
        self.edits[i].as_deref().is_some_and(|record| *record != *self.frame.nodes[i].rec)
    }
    /// Changes an intent: the generation grows, so older answers stop counting.
    pub(crate) fn intend(&mut self, i: usize) -> &mut NodeRecord {
        let record = self.edit(i);
        record.generation = record.generation.next();
        record
    }
    pub(crate) fn rollout(&self, id: &RolloutId) -> Option<&Arc<RolloutRecord>> {
        self.rollouts.get(id).or_else(|| self.input.ledger.rollouts.get(id))
    }
    /// A rollout to be changed; `None` for one that had ended before the pass.
    pub(crate) fn edit_rollout(&mut self, id: &RolloutId) -> Option<&mut RolloutRecord> {
        self.rollouts.get_mut(id).map(Arc::make_mut)
    }
    /// Nodes with a part in this wave, in the order of ids.
    pub(crate) fn wave_nodes(&self, id: &RolloutId, wave: usize) -> Rc<[usize]> {
        let roster = Rc::clone(self.roster.borrow_mut().get_or_insert_with(|| Rc::new(self.make_roster())));
        roster.get(id).and_then(|waves| waves.get(wave)).map_or_else(|| Rc::from([]), Rc::clone)
    }
    fn make_roster(&self) -> Roster {
        let mut lists: BTreeMap<&RolloutId, Vec<Vec<usize>>> = BTreeMap::new();
        // Neighbours mostly share their rollout, so the last list is kept at hand.
        let mut last: Option<(&RolloutId, Vec<Vec<usize>>)> = None;
        for i in 0..self.frame.nodes.len() {
            let Some(a) = &self.rec(i).assignment else { continue };
            if last.as_ref().is_none_or(|(id, _)| **id != a.rollout) {
                if let Some((id, waves)) = last.take() {
                    lists.insert(id, waves);
                }
                last = Some((&a.rollout, lists.remove(&a.rollout).unwrap_or_default()));
            }
            if let Some((_, waves)) = &mut last {
                let wave = usize::from(a.wave);
                if waves.len() <= wave {
                    waves.resize_with(wave + 1, Vec::new);
                }
                waves[wave].push(i);
            }
        }
        lists.extend(last);
        lists.into_iter().map(|(id, waves)| (id.clone(), waves.into_iter().map(Rc::from).collect())).collect()
    }
    /// Nodes of a domain, whatever state they are in and whichever pool they are in.
    pub(crate) fn domain_size(&self, key: DomainKey, domain: Domain<'a>) -> u32 {
        let mut sizes = self.domain_sizes.borrow_mut();
        let of_kind = sizes.entry(key).or_insert_with(|| {
            let mut sizes = BTreeMap::new();
            for i in (0..self.frame.nodes.len()).filter(|&i| self.home(i).is_some()) {
                if let Some(domain) = self.frame.domain(i, key) {
                    *sizes.entry(domain).or_default() += 1;
                }
            }
            sizes
        });
        of_kind.get(&domain).copied().unwrap_or(0)
    }
    /// Somebody carries something else, or doesn't any more.
    pub(crate) fn forget_carriers(&mut self) {
        *self.carriers.get_mut() = None;
    }
    /// Assignments have changed.
    pub(crate) fn forget_roster(&mut self) {
        *self.roster.get_mut() = None;
    }
    pub(crate) fn open_ids(&self) -> Vec<RolloutId> {
        self.rollouts.values().filter(|r| !r.state.is_final()).map(|r| r.id.clone()).collect()
    }
    pub(crate) fn log(&mut self, id: &RolloutId, what: RolloutEvent) {
        let at = self.now();
        if let Some(rollout) = self.edit_rollout(id) {
            if rollout.history.len() >= HISTORY_MAX {
                // The beginning tells what it was about, the end what became of it: the middle goes.
                rollout.history.remove(HISTORY_MAX / 2);
            }
            rollout.history.push(HistoryEntry { at, what });
        }
    }
    pub(crate) fn set_state(&mut self, id: &RolloutId, state: RolloutState, why: &str) {
        let now = self.now();
        let Some(rollout) = self.edit_rollout(id) else { return };
        if rollout.state == state {
            return;
        }
        rollout.also_paused.clear();
        let (from, to) = (rollout.state.word().to_owned(), state.word().to_owned());
        if state.is_final() {
            rollout.ended = Some(now);
        }
        rollout.state = state;
        self.log(id, RolloutEvent::State { from, to, why: why.to_owned() });
    }
    fn pool_index_of(&self, i: usize) -> Option<usize> {
        let now = self.frame.nodes[i].pool;
        let Some(a) = &self.rec(i).assignment else { return now };
        let same = now.and_then(|p| self.frame.pools.get(p)).is_some_and(|p| *p.name == a.pool);
        if same { now } else { self.frame.pool_index.get(&a.pool).copied().or(now) }
    }
    /// The pool of a node: the one it was assigned in, else the one it is in.
    pub(crate) fn pool_of(&self, i: usize) -> Option<&'a PoolSpec> {
        let at = self.pool_index_of(i)?;
        self.frame.pools.get(at).map(|p| p.spec)
    }
    /// Contents of a release, from the ledger or from Git.
    pub(crate) fn vector(&self, id: &ReleaseId) -> Option<&ReleaseVector> {
        self.input
            .ledger
            .releases
            .get(id)
            .or_else(|| self.frame.pools.iter().find(|p| p.target.release == *id).map(|p| &p.vector))
            .or_else(|| {
                self.frame.nodes.iter().find(|n| n.obs.running.id == *id).map(|n| &n.obs.running.vector)
            })
    }
    /// Keeps the contents of a release in the ledger, so that the way back never depends on Git.
    pub(crate) fn remember(&mut self, id: &ReleaseId) {
        if self.input.ledger.releases.contains_key(id) || !self.remembered.insert(id.clone()) {
            return;
        }
        if let Some(vector) = self.vector(id).cloned() {
            self.changes.push(LedgerChange::Remember(id.clone(), vector));
        }
    }
    /// In what a node differs from a target, in the order of a visit.
    pub(crate) fn differences(&self, i: usize, target: &Target) -> Rc<[ApplyItem]> {
        let node = &self.frame.nodes[i];
        let pool = self.pool_index_of(i);
        let address = |layout: &Option<LayoutId>| layout.as_ref().map_or(0, |l| l.as_str().as_ptr() as usize);
        let key = [
            Arc::as_ptr(&node.obs.running) as usize,
            address(&node.obs.layout),
            target.release.as_str().as_ptr() as usize,
            address(&target.layout),
            pool.map_or(0, |p| p + 1),
        ];
        if let Some(found) = self.needs.borrow().get(&key) {
            return Rc::clone(found);
        }
        let spec = pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.spec);
        let items: Rc<[ApplyItem]> = match self.vector(&target.release) {
            Some(vector) => desired::needs(self.input.fleet, spec, node.obs, target, vector).into(),
            // A release nobody knows the contents of can't be applied; nothing is changed.
            None => Rc::from([]),
        };
        self.needs.borrow_mut().insert(key, Rc::clone(&items));
        items
    }
    /// Whether the node is away whatever drydock does.
    pub(crate) fn broken(&self, i: usize) -> bool {
        let obs = self.frame.nodes[i].obs;
        !obs.ready
            || obs.cordon.foreign.is_some()
            || self.rec(i).quarantine.is_some()
            || self.rec(i).visit.as_ref().is_some_and(|v| v.quarantined.is_some())
            || obs.faults.iter().any(|fault| health::takes_capacity(self.input.fleet, fault))
    }
    pub(crate) fn strategy(&self, i: usize) -> Option<std::sync::Arc<PolicySpec>> {
        let id = &self.rec(i).visit.as_ref()?.rollout;
        self.rollout(id).map(|r| r.strategy.clone())
    }
    pub(crate) fn visiting(&self) -> Vec<usize> {
        (0..self.frame.nodes.len()).filter(|&i| self.rec(i).visit.is_some()).collect()
    }

    /// Notes why a node isn't moving.
    pub(crate) fn wait(&mut self, i: usize, reason: Reason) {
        let key = match &self.rec(i).assignment {
            Some(a) => (Some(a.rollout.clone()), a.wave),
            None => (None, 0),
        };
        let example = self.frame.nodes[i].id.clone();
        self.tell(i, &reason);
        self.wait_many(key, reason, 1, Some(example));
    }
    /// The same for nodes outside any rollout.
    pub(crate) fn wait_all(&mut self, nodes: &[usize], reason: Reason) {
        nodes.iter().for_each(|&i| self.tell(i, &reason));
        let example = nodes.first().map(|&i| self.frame.nodes[i].id.clone());
        self.wait_many((None, 0), reason, u32::try_from(nodes.len()).unwrap_or(u32::MAX), example);
    }
    /// Notes of different nodes that say the same are folded into one; whoever asks about a node gets its own.
    fn tell(&mut self, i: usize, reason: &Reason) {
        if self.asked == Some(i) && !self.told.contains(reason) {
            self.told.push(reason.clone());
        }
    }
    pub(crate) fn wait_many(
        &mut self,
        key: (Option<RolloutId>, u16),
        reason: Reason,
        nodes: u32,
        example: Option<drydock_plan::NodeId>,
    ) {
        if let Some(at) = reason.until() {
            self.wake_at(at);
        }
        let waits = self.waits.entry(key).or_default();
        match waits.iter_mut().find(|w| w.reason == reason) {
            Some(wait) => wait.nodes += nodes,
            None => waits.push(Wait { reason, nodes, example }),
        }
    }
    /// Asks for a pass at this instant, if it is in the future.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        if at > self.now() && self.wake.is_none_or(|w| at < w) {
            self.wake = Some(at);
        }
    }

    /// Turns what was edited into changes, and writes down what every node in flight should be asked for.
    pub(crate) fn finish(mut self) -> Planned {
        self.note_places();
        let actions = self.actions();
        let report = self.report();
        let mut changes = std::mem::take(&mut self.changes);
        for rollout in std::mem::take(&mut self.rollouts).into_values() {
            let before = self.input.ledger.rollouts.get(&rollout.id);
            if before.is_none_or(|b| !Arc::ptr_eq(b, &rollout) && *b != rollout) {
                changes.push(LedgerChange::Rollout(Box::new(Arc::unwrap_or_clone(rollout))));
            }
        }
        for (node, edit) in self.frame.nodes.iter().zip(self.edits) {
            if let Some(record) = edit.filter(|record| **record != *node.rec) {
                changes.push(LedgerChange::Node(node.id.clone(), record));
            }
        }
        Planned { plan: Plan { parent: self.input.ledger.revision, changes, actions }, report }
    }
}
