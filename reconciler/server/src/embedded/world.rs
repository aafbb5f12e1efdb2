//! The simulated fleet as a world that survives restarts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drydock_plan::{Action, Inventory};
use drydock_sim::{FaultSpec, Oracle, SavedGang, SavedNode, Snapshot, World as Simulation, WorldOptions};
use drydock_spec::Fleet;
use jiff::Timestamp;

use crate::store::{StoreError, WorldStore, WorldWrite};
use crate::world::{World, WorldError};

const META: &str = "meta";
const GROUND: &str = "ground";
const NODE: &str = "node/";
const GANG: &str = "gang/";

/// What is seen of and done to the simulated fleet from outside; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Backstage {
    oracle: Arc<Mutex<Oracle>>,
    faults: Arc<Mutex<Vec<FaultSpec>>>,
}

impl Backstage {
    /// What the observer of truth has noted.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        lock(&self.oracle).clone()
    }
    /// Adds a fault; it begins with the next pass.
    pub fn inject(&self, fault: FaultSpec) {
        lock(&self.faults).push(fault);
    }
}

/// Values are replaced whole, so a panic elsewhere can't have left one half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A simulated fleet with its file. It comes into being with the first fleet in force.
pub struct EmbeddedWorld {
    store: WorldStore,
    options: WorldOptions,
    backstage: Backstage,
    simulation: Option<Simulation>,
    /// Until there is a fleet.
    nothing: Inventory,
}

impl EmbeddedWorld {
    /// A world in `store`; made with `options` when nothing is stored.
    #[must_use]
    pub fn new(store: WorldStore, options: WorldOptions) -> (Self, Backstage) {
        let backstage = Backstage::default();
        let world = Self {
            store,
            options,
            backstage: backstage.clone(),
            simulation: None,
            nothing: Inventory::default(),
        };
        (world, backstage)
    }

    fn restore(&self, fleet: &Fleet) -> Result<Option<Simulation>, StoreError> {
        let (Some(meta), Some(ground)) = (self.store.get(META)?, self.store.get(GROUND)?) else {
            return Ok(None);
        };
        let nodes = self.store.list::<SavedNode>(NODE)?;
        let gangs = self.store.list::<SavedGang>(GANG)?;
        let snapshot = Snapshot {
            ground,
            meta,
            nodes: nodes.into_iter().map(|(id, node)| (drydock_plan::NodeId::new(&id), node)).collect(),
            gangs: gangs.into_iter().filter_map(|(slot, gang)| Some((slot.parse().ok()?, gang))).collect(),
        };
        Ok(Some(Simulation::restore(snapshot, fleet)))
    }

    fn make(&self, fleet: &Fleet) -> Result<Simulation, StoreError> {
        let mut simulation = Simulation::from_fleet(fleet, &self.options);
        // What `changes` collects from here on comes on top of what is written now.
        let _ = simulation.changes();
        let Snapshot { ground, meta, nodes, gangs } = simulation.snapshot();
        let mut write = WorldWrite::default();
        write.put(GROUND, &ground)?;
        write.put(META, &meta)?;
        parts(&mut write, nodes, gangs)?;
        self.store.save(&write)?;
        Ok(simulation)
    }
}

fn parts(
    write: &mut WorldWrite,
    nodes: impl IntoIterator<Item = (drydock_plan::NodeId, SavedNode)>,
    gangs: impl IntoIterator<Item = (u32, SavedGang)>,
) -> Result<(), StoreError> {
    for (id, node) in nodes {
        write.put(&format!("{NODE}{id}"), &node)?;
    }
    for (slot, gang) in gangs {
        write.put(&format!("{GANG}{slot}"), &gang)?;
    }
    Ok(())
}

impl World for EmbeddedWorld {
    fn now(&self) -> Timestamp {
        self.simulation.as_ref().map_or(self.options.start, Simulation::now)
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.simulation.as_ref().and_then(Simulation::next_event)
    }

    fn advance(&mut self, to: Timestamp) {
        let Some(simulation) = &mut self.simulation else { return };
        for fault in std::mem::take(&mut *lock(&self.backstage.faults)) {
            simulation.inject(fault);
        }
        simulation.advance(to);
        for line in simulation.take_log() {
            tracing::debug!(at = %line.at, "{}", line.text);
        }
        *lock(&self.backstage.oracle) = simulation.oracle().clone();
    }

    fn inventory(&self) -> &Inventory {
        self.simulation.as_ref().map_or(&self.nothing, Simulation::inventory)
    }

    fn execute(&mut self, action: &Action) -> Result<(), WorldError> {
        let Some(simulation) = &mut self.simulation else {
            return Err(WorldError::Refused("there is no fleet yet".to_owned()));
        };
        simulation.execute(action).map_err(|refused| WorldError::Refused(refused.to_string()))
    }

    fn follow(&mut self, fleet: &Arc<Fleet>) -> Result<(), WorldError> {
        match &mut self.simulation {
            Some(simulation) => simulation.reassign(fleet),
            None => {
                let simulation = match self.restore(fleet)? {
                    Some(mut simulation) => {
                        // It may have been written down before this commit came into force.
                        simulation.reassign(fleet);
                        simulation
                    }
                    None => self.make(fleet)?,
                };
                *lock(&self.backstage.oracle) = simulation.oracle().clone();
                self.simulation = Some(simulation);
            }
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), WorldError> {
        let Some(simulation) = &mut self.simulation else { return Ok(()) };
        let delta = simulation.changes();
        let mut write = WorldWrite::default();
        if let Some(ground) = &delta.ground {
            write.put(GROUND, ground)?;
        }
        write.put(META, &delta.meta)?;
        let saved = parts(&mut write, delta.nodes, delta.gangs).and_then(|()| self.store.save(&write));
        if let Err(error) = saved {
            // What changed is forgotten by now, so the next save has to write everything.
            let Snapshot { ground, meta, nodes, gangs } = simulation.snapshot();
            let mut write = WorldWrite::default();
            write.put(GROUND, &ground)?;
            write.put(META, &meta)?;
            parts(&mut write, nodes, gangs)?;
            tracing::warn!(%error, "saving the world failed; all of it is saved now");
            self.store.save(&write)?;
        }
        Ok(())
    }
}
