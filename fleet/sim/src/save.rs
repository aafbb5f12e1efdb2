//! A world that is written down and read again goes on exactly as if nothing had happened.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{GangId, Inventory, NodeId, ObservedCluster, ObservedGang, ObservedNode};
use drydock_spec::{ClusterName, Fleet};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Gang, Ground, NodeState, Oracle, World, agenda::Agenda, agenda::Turn, script::Timed, stacks::Stacks,
};

/// Everything about a world but the documents, which come from Git.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The fixed side.
    pub ground: Ground,
    /// The small moving parts.
    pub meta: Meta,
    /// Nodes.
    pub nodes: BTreeMap<NodeId, SavedNode>,
    /// Jobs, by their place in the queue.
    pub gangs: BTreeMap<u32, SavedGang>,
}

/// The small moving parts of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    now: Timestamp,
    timed: Vec<Timed>,
    timed_number: u64,
    clusters: BTreeMap<ClusterName, ObservedCluster>,
    oracle: Oracle,
}

/// A node: the truth, and what readers see of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedNode {
    state: NodeState,
    seen: Option<ObservedNode>,
    unseen: bool,
}

/// A job: the truth, and what readers see of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedGang {
    state: Gang,
    seen: Option<ObservedGang>,
    unseen: bool,
}

/// What changed since the last one: replaces the parts of the same name in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldDelta {
    /// Absent when it didn't change.
    pub ground: Option<Ground>,
    /// Always there, and small.
    pub meta: Meta,
    /// Nodes that changed.
    pub nodes: BTreeMap<NodeId, SavedNode>,
    /// Jobs that changed.
    pub gangs: BTreeMap<u32, SavedGang>,
}

impl Snapshot {
    /// Takes over what changed since.
    pub fn apply(&mut self, delta: WorldDelta) {
        if let Some(ground) = delta.ground {
            self.ground = ground;
        }
        self.meta = delta.meta;
        self.nodes.extend(delta.nodes);
        self.gangs.extend(delta.gangs);
    }
}

impl World {
    /// The whole world, written down.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            ground: self.ground.clone(),
            meta: self.meta(),
            nodes: self.nodes.keys().filter_map(|id| Some((id.clone(), self.saved_node(id)?))).collect(),
            gangs: self.gangs.keys().filter_map(|&slot| Some((slot, self.saved_gang(slot)?))).collect(),
        }
    }
    /// What changed since the last call (or since the world was made or restored).
    pub fn changes(&mut self) -> WorldDelta {
        let nodes = std::mem::take(&mut self.changed);
        let gangs = std::mem::take(&mut self.changed_gangs);
        WorldDelta {
            ground: std::mem::take(&mut self.ground_changed).then(|| self.ground.clone()),
            meta: self.meta(),
            nodes: nodes.into_iter().filter_map(|id| self.saved_node(&id).map(|node| (id, node))).collect(),
            gangs: gangs
                .into_iter()
                .filter_map(|slot| self.saved_gang(slot).map(|gang| (slot, gang)))
                .collect(),
        }
    }
    /// The world that was written down. `fleet` is what was last given to [`World::reassign`] or
    /// [`World::from_fleet`].
    #[must_use]
    pub fn restore(snapshot: Snapshot, fleet: &Fleet) -> Self {
        let Snapshot { ground, meta, nodes, gangs } = snapshot;
        let Meta { now, timed, timed_number, clusters, oracle } = meta;
        let mut world = Self {
            ground,
            fleet: Arc::new(fleet.clone()),
            now,
            nodes: BTreeMap::new(),
            gangs: BTreeMap::new(),
            timed,
            timed_number,
            inventory: Inventory { clusters, ..Inventory::default() },
            stacks: Stacks::default(),
            signals: Agenda::default(),
            background: Agenda::default(),
            unseen: Default::default(),
            unseen_gangs: Default::default(),
            changed: Default::default(),
            changed_gangs: Default::default(),
            ground_changed: false,
            oracle,
            log: Vec::new(),
        };
        world.signals.set(&Turn::Script, world.timed.first().map(|timed| timed.at));
        for (id, SavedNode { mut state, seen, unseen }) in nodes {
            state.running = world.stacks.share(&state.running);
            state.image = world.stacks.share(&state.image);
            world.nodes.insert(id.clone(), state);
            if let Some(mut seen) = seen {
                seen.running = world.stacks.share(&seen.running);
                world.inventory.nodes.insert(id.clone(), seen);
            }
            world.touch(&id);
            if !unseen {
                world.unseen.remove(&id);
            }
        }
        for (slot, SavedGang { state, seen, unseen }) in gangs {
            let shown: Option<GangId> = state.shown.as_ref().map(|(_, id)| id.clone());
            world.gangs.insert(slot, state);
            if let Some((id, seen)) = shown.zip(seen) {
                world.inventory.gangs.insert(id, seen);
            }
            world.touch_gang(slot);
            if !unseen {
                world.unseen_gangs.remove(&slot);
            }
        }
        world.changed.clear();
        world.changed_gangs.clear();
        world
    }
    fn meta(&self) -> Meta {
        Meta {
            now: self.now,
            timed: self.timed.clone(),
            timed_number: self.timed_number,
            clusters: self.inventory.clusters.clone(),
            oracle: self.oracle.clone(),
        }
    }
    fn saved_node(&self, id: &NodeId) -> Option<SavedNode> {
        let state = self.nodes.get(id)?.clone();
        Some(SavedNode {
            state,
            seen: self.inventory.nodes.get(id).cloned(),
            unseen: self.unseen.contains(id),
        })
    }
    fn saved_gang(&self, slot: u32) -> Option<SavedGang> {
        let state = self.gangs.get(&slot)?.clone();
        let seen = state.shown.as_ref().and_then(|(_, id)| self.inventory.gangs.get(id)).cloned();
        Some(SavedGang { state, seen, unseen: self.unseen_gangs.contains(&slot) })
    }
}
