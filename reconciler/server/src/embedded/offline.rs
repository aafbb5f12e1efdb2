//! Looking at a directory while nothing runs in it: the same facts as a running drydock shows, and nothing moves.

use std::path::Path;
use std::sync::Arc;

use drydock_planner::{plan, pool_targets};
use drydock_sim::WorldOptions;

use super::{EmbeddedError, EmbeddedWorld};
use crate::clock::wall;
use crate::desired::Desired;
use crate::files::Directory;
use crate::lock::DirectoryLock;
use crate::store::{Store, WorldStore};
use crate::view::{ClockView, Facts, Snapshot};
use crate::world::World;

/// A directory in which nothing runs. As long as this lives, nothing else can start there.
pub struct Offline {
    /// What a running drydock would publish.
    pub snapshot: Snapshot,
    /// The ledger and its events.
    pub store: Store,
    _lock: DirectoryLock,
}

impl Offline {
    /// Opens what lies at `path`; `None` when there is no ledger.
    ///
    /// # Errors
    /// When a drydock runs there, or a store is damaged or newer.
    pub fn open(path: &Path) -> Result<Option<Self>, EmbeddedError> {
        if !path.join("ledger.redb").is_file() {
            return Ok(None);
        }
        let directory = Directory::create(path)?;
        let lock = DirectoryLock::take(&directory)?;
        let store = Store::open(&directory.ledger())?;
        let desired = Desired::new(store.kept_source()?, wall());
        let (mut world, _) =
            EmbeddedWorld::new(WorldStore::open(&directory.world())?, WorldOptions::default());
        let mut trouble = None;
        let facts = desired.in_force().map(|now| {
            // The plan is made for its reasons and isn't carried out.
            if let Err(error) = world.follow(&now.fleet) {
                trouble = Some(error.to_string());
            }
            let (inventory, ledger) = (Arc::new(world.inventory().clone()), store.ledger());
            let targets = Arc::new(pool_targets(&now.fleet));
            let facts = |report| {
                let (targets, inventory) = (Arc::clone(&targets), Arc::clone(&inventory));
                Facts::new(world.now(), now, targets, inventory, Arc::clone(&ledger), report)
            };
            let report = plan(&facts(Arc::default()).input()).report;
            facts(Arc::new(report))
        });
        let snapshot = Snapshot {
            number: 0,
            clock: ClockView { at: world.now(), wall: wall(), speed: Some(0.0) },
            source: desired.view().clone(),
            facts: facts.map(Arc::new),
            trouble,
        };
        Ok(Some(Self { snapshot, store, _lock: lock }))
    }
}
