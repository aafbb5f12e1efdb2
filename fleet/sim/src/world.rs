//! The simulated fleet: API servers and nodes in one, on a virtual clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{Action, Epoch, Generation, Inventory, NodeId};
use drydock_spec::{Fleet, Period, PoolName};
use jiff::Timestamp;

use crate::{
    Draw, FaultSpec, Oracle,
    agenda::{Agenda, Turn},
    gang::Gang,
    ground::Ground,
    node::{Activity, Intent, NodeState},
    script::{Happening, Timed},
    stacks::Stacks,
};

/// A simulated fleet. Nothing in it moves but by [`World::advance`] and [`World::execute`].
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) ground: Ground,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) now: Timestamp,
    pub(crate) nodes: BTreeMap<NodeId, NodeState>,
    pub(crate) gangs: BTreeMap<u32, Gang>,
    /// Sorted by instant and number.
    pub(crate) timed: Vec<Timed>,
    pub(crate) timed_number: u64,
    pub(crate) inventory: Inventory,
    pub(crate) stacks: Stacks,
    pub(crate) signals: Agenda,
    pub(crate) background: Agenda,
    /// Changed since readers last saw them.
    pub(crate) unseen: BTreeSet<NodeId>,
    pub(crate) unseen_gangs: BTreeSet<u32>,
    /// Changed since [`World::changes`] was last called.
    pub(crate) changed: BTreeSet<NodeId>,
    pub(crate) changed_gangs: BTreeSet<u32>,
    pub(crate) ground_changed: bool,
    pub(crate) oracle: Oracle,
    pub(crate) log: Vec<LogLine>,
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// What.
    pub text: String,
}

/// Lines kept until somebody takes them.
const LOG_MAX: usize = 10_000;

/// Why a write was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The cluster's API server doesn't answer.
    #[error("cluster {0} can't be reached")]
    Unreachable(String),
    /// There is no such node.
    #[error("node {0} doesn't exist")]
    NoSuchNode(NodeId),
    /// The API server said no.
    #[error("the API server of {0} refused the write")]
    Denied(String),
    /// A newer reservation has reached the node.
    #[error("{node} has seen epoch {seen}, this is {got}")]
    OldEpoch {
        /// The node.
        node: NodeId,
        /// Newest epoch it has seen.
        seen: Epoch,
        /// Epoch of the write.
        got: Epoch,
    },
    /// A newer intent has reached the node.
    #[error("{node} has seen generation {seen}, this is {got}")]
    OldGeneration {
        /// The node.
        node: NodeId,
        /// Newest generation it has seen.
        seen: Generation,
        /// Generation of the write.
        got: Generation,
    },
    /// Another intent has carried this generation.
    #[error("{node} has seen another intent with generation {generation}")]
    Conflict {
        /// The node.
        node: NodeId,
        /// The generation.
        generation: Generation,
    },
}

impl World {
    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }
    /// What can be observed, as fresh as faults allow.
    #[must_use]
    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }
    /// What the observer of truth has noted.
    #[must_use]
    pub const fn oracle(&self) -> &Oracle {
        &self.oracle
    }
    /// The fixed side.
    #[must_use]
    pub const fn ground(&self) -> &Ground {
        &self.ground
    }
    /// The next instant at which something happens that a planner would want to know of. Jobs that begin and single
    /// pods that come and go aren't such things, though they happen on the way.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.signals.first().map(|(at, _)| *at)
    }
    /// The same without jobs that end or have written a checkpoint: for whoever waits for no job.
    #[must_use]
    pub fn next_node_event(&self) -> Option<Timestamp> {
        self.signals.first_but_gangs()
    }
    /// The node has seen this very intent: a write that was answered well may have been lost all the same.
    pub(crate) fn has_seen(&self, action: &Action) -> bool {
        let intent = self.nodes.get(&action.node).and_then(|node| node.intent.as_ref());
        intent.is_some_and(|intent| intent.generation == action.generation)
    }
    /// The next instant at which anything happens.
    #[must_use]
    pub fn next_any(&self) -> Option<Timestamp> {
        let first = |agenda: &Agenda| agenda.first().map(|(at, _)| *at);
        first(&self.signals).into_iter().chain(first(&self.background)).min()
    }
    /// What happened that is worth telling, since the last call.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.log)
    }
    pub(crate) fn say(&mut self, text: String) {
        if self.log.len() < LOG_MAX {
            self.log.push(LogLine { at: self.now, text });
        }
    }
    /// Lets everything happen up to `to`, in the order of time. Does nothing when `to` is over already.
    pub fn advance(&mut self, to: Timestamp) {
        while let Some((at, turn)) =
            self.signals.first().into_iter().chain(self.background.first()).min().cloned()
            && at <= to
        {
            self.now = self.now.max(at);
            match turn {
                Turn::Script => self.script_turn(),
                Turn::Node(id) => self.node_turn(&id),
                Turn::Gang(slot) => self.gang_turn(slot),
            }
        }
        self.now = self.now.max(to);
        self.publish();
    }
    /// Takes over new documents: pools of nodes, components, layouts.
    pub fn reassign(&mut self, fleet: &Fleet) {
        self.fleet = Arc::new(fleet.clone());
        // A pool that is new in the documents has no nodes here, so how its drivers come doesn't matter.
        self.ground.learn(fleet, &|_| false);
        self.ground_changed = true;
        for name in fleet.clusters.keys() {
            let now = self.now;
            self.inventory
                .clusters
                .entry(name.clone())
                .or_insert_with(|| drydock_plan::ObservedCluster::fresh(now));
        }
        self.inventory.assign_pools(fleet);
        self.changed.extend(self.nodes.keys().cloned());
        self.publish();
    }
    /// Adds a fault. Instants of it that are over happen at once.
    pub fn inject(&mut self, fault: FaultSpec) {
        self.schedule_fault(&fault);
        self.ground.faults.push(fault);
        self.ground_changed = true;
    }
    /// Makes an action true, as far as it isn't.
    ///
    /// # Errors
    /// Writes that don't reach the node, and writes that are older than what the node has seen.
    pub fn execute(&mut self, action: &Action) -> Result<(), Refused> {
        let id = &action.node;
        let now = self.now;
        if self.unreachable(id.cluster()) {
            return Err(Refused::Unreachable(id.cluster().to_owned()));
        }
        let Some(node) = self.nodes.get_mut(id).filter(|node| node.present) else {
            return Err(Refused::NoSuchNode(id.clone()));
        };
        node.writes = node.writes.saturating_add(1);
        self.changed.insert(id.clone());
        let draw = Draw::new(self.ground.seed).text(id.as_str()).text("write").number(node.writes);
        if refused(&self.ground, id, now, draw) {
            return Err(Refused::Denied(id.cluster().to_owned()));
        }
        if action.epoch < node.epoch {
            self.oracle.stale_writes += 1;
            return Err(Refused::OldEpoch { node: id.clone(), seen: node.epoch, got: action.epoch });
        }
        if let Some(intent) = &node.intent {
            if action.generation < intent.generation {
                self.oracle.stale_writes += 1;
                let (seen, got) = (intent.generation, action.generation);
                return Err(Refused::OldGeneration { node: id.clone(), seen, got });
            }
            if action.generation == intent.generation {
                let same = intent.ensure == action.ensure && intent.epoch == action.epoch;
                let generation = action.generation;
                return if same { Ok(()) } else { Err(Refused::Conflict { node: id.clone(), generation }) };
            }
        }
        if lost(&self.ground, draw) {
            return Ok(());
        }
        node.epoch = action.epoch;
        node.intent = Some(Intent {
            generation: action.generation,
            epoch: action.epoch,
            ensure: action.ensure.clone(),
            started: now,
        });
        let id = id.clone();
        if doubled(&self.ground, draw) {
            let late = Period::from_secs(draw.text("late").between(1, 600)).after(now);
            self.at(late, Happening::Again(Box::new(action.clone())));
        }
        self.take_up(&id);
        self.publish();
        Ok(())
    }
    /// Puts a node's next instants on the agenda and notes that it changed.
    pub(crate) fn touch(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let turn = Turn::Node(id.clone());
        self.signals.set(&turn, node.next_signal());
        self.background.set(&turn, node.next_background());
        self.unseen.insert(id.clone());
        self.changed.insert(id.clone());
    }
    /// The same for a job.
    pub(crate) fn touch_gang(&mut self, slot: u32) {
        self.touch_gang_silently(slot);
        self.unseen_gangs.insert(slot);
    }
    /// The same for a job of which readers have nothing new to see.
    pub(crate) fn touch_gang_silently(&mut self, slot: u32) {
        let Some(gang) = self.gangs.get(&slot) else { return };
        self.signals.set(&Turn::Gang(slot), gang.next_signal());
        self.background.set(&Turn::Gang(slot), gang.next_background());
        self.changed_gangs.insert(slot);
    }
    /// Ends what a node is doing, unless that can't be broken off, and begins its intent.
    pub(crate) fn take_up(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        // What a machine was doing that never comes back doesn't go on, and its cordon is the API server's matter.
        let dead = node.down.is_some_and(|down| down.back.is_none());
        if node.busy() && !dead {
            node.answer(drydock_plan::StepState::Working { remaining: 1, blocked_by: None });
            self.touch(id);
        } else {
            node.activity = Activity::Idle;
            node.old_report = node.report.take();
            self.begin(id);
            self.touch(id);
        }
    }
    /// GPUs of a node of this pool when nothing is wrong.
    #[must_use]
    pub fn gpus_of(&self, pool: &PoolName) -> u32 {
        self.ground.gpus(pool)
    }
}

fn refused(ground: &Ground, id: &NodeId, now: Timestamp, draw: Draw) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::RefusedWrites { probability, cluster, at, length } => {
            let here = cluster.as_ref().is_none_or(|c| c.as_str() == id.cluster());
            let begun = at.is_none_or(|at| at <= now);
            let over = at.zip(*length).is_some_and(|(at, length)| length.after(at) <= now);
            here && begun && !over && probability.is_none_or(|p| draw.text("refused").chance(p))
        }
        _ => false,
    })
}

fn lost(ground: &Ground, draw: Draw) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::LostWrites { probability } => draw.text("lost").chance(*probability),
        _ => false,
    })
}

fn doubled(ground: &Ground, draw: Draw) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::DoubledWrites { probability } => draw.text("doubled").chance(*probability),
        _ => false,
    })
}
