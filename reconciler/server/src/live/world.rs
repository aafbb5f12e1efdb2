//! Real clusters as a world: its clock is the home cluster's, and it acts through executors of their own.

use std::sync::Arc;

use drydock_cluster::clock::wall;
use drydock_cluster::clusters::Clusters;
use drydock_plan::{Action, Inventory};
use drydock_spec::Fleet;
use jiff::Timestamp;

use crate::world::{World, WorldError};

/// Real clusters.
pub struct LiveWorld {
    clusters: Clusters,
    now: Timestamp,
}

impl LiveWorld {
    /// Over clusters that are followed from the first fleet on.
    #[must_use]
    pub fn new(clusters: Clusters) -> Self {
        Self { clusters, now: wall() }
    }
    fn tick(&mut self) {
        // A clock that is set back must not make anything happen twice.
        self.now = self.now.max(wall());
    }
}

impl World for LiveWorld {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.clusters.wake_at()
    }

    /// The engine asks for no later instant than there is; what has happened by now is taken in, whatever it asked for.
    fn advance(&mut self, _to: Timestamp) {
        self.tick();
        self.clusters.refresh(self.now);
    }

    fn is_complete(&self) -> bool {
        self.clusters.is_complete(self.now)
    }

    fn inventory(&self) -> &Inventory {
        self.clusters.inventory()
    }

    fn execute(&mut self, action: &Action) -> Result<(), WorldError> {
        self.clusters.ask(action).map_err(WorldError::Refused)
    }

    fn asked_everything(&mut self) {
        self.clusters.lay_out(self.now);
    }

    fn follow(&mut self, fleet: &Arc<Fleet>) -> Result<(), WorldError> {
        self.tick();
        self.clusters.follow(fleet, self.now);
        Ok(())
    }

    /// Clusters keep what is true of them by themselves.
    fn save(&mut self) -> Result<(), WorldError> {
        Ok(())
    }
}
