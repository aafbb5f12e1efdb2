//! Everything in one process, with a simulated fleet: what `drydock demo` and a first try run.

mod offline;
mod options;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use drydock_plan::{RolloutId, RolloutRecord, RolloutState};
use drydock_sim::{FaultSpec, Oracle};
use drydock_source::{SourceError, SourceHandle, Watching};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use offline::Offline;
pub use options::EmbeddedOptions;

pub use crate::sourcing::SourceOptions;
pub use world::{Backstage, EmbeddedWorld};

use crate::clock::wall;
use crate::desired::Desired;
use crate::engine::{Engine, EngineError, EngineHandle, EngineOptions};
use crate::files::{Directory, FileError, write_whole};
use crate::http::{Api, ApiParts, Hosts};
use crate::lock::{DirectoryLock, LockError};
use crate::sourcing::begin;
use crate::store::{Store, StoreError, WorldStore};
use crate::token::Token;
use crate::view::{Facts, Snapshot};

/// Patience with open connections when stopping.
const GOODBYE: Duration = Duration::from_secs(3);

/// Why the embedded mode couldn't start or end well.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Somebody else works with the directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file of the directory.
    #[error(transparent)]
    File(#[from] FileError),
    /// A store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository as configured.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The address can't be listened on.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The engine ended badly.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A task broke off.
    #[error("a task broke off: {0}")]
    Task(String),
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The fleet's clock.
    pub at: Timestamp,
    /// What the observer of truth in the simulated fleet has noted.
    pub oracle: Oracle,
    /// Rollouts, in the order in which they were made.
    pub rollouts: Vec<Arc<RolloutRecord>>,
    /// Plans that broke an invariant and weren't carried out.
    pub violations: u64,
    /// Planning passes.
    pub passes: u64,
}

/// A running drydock with a simulated fleet.
pub struct Embedded {
    directory: Directory,
    engine: EngineHandle,
    store: Arc<Store>,
    source: SourceHandle,
    backstage: Backstage,
    address: Option<SocketAddr>,
    engine_task: JoinHandle<Result<(), EngineError>>,
    source_task: JoinHandle<()>,
    api_task: Option<JoinHandle<std::io::Result<()>>>,
    _watching: Option<Watching>,
}

impl Embedded {
    /// Starts it. Call it in a Tokio runtime.
    ///
    /// # Errors
    /// When another process works with the directory, a store is damaged or newer, or the address is taken. A
    /// repository that can't be read is no error: it is shown, and the last good commit stays in force.
    pub async fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedError> {
        let directory = Directory::create(&options.directory)?;
        let lock = DirectoryLock::take(&directory)?;
        let (store, world) = if options.in_memory {
            (Store::in_memory()?, WorldStore::in_memory()?)
        } else {
            (Store::open(&directory.ledger())?, WorldStore::open(&directory.world())?)
        };
        let store = Arc::new(store);
        let kept = store.kept_source()?;
        let (source, source_run, watching) =
            begin(&directory, &options.source, options.world.seed, kept.as_ref())?;
        let (world, backstage) = EmbeddedWorld::new(world, options.world);
        let desired = Desired::new(kept, wall());
        let engine_options = EngineOptions { speed: options.speed, rhythm: options.rhythm };
        let (engine_run, engine) = Engine::new(store.clone(), world, desired, source.state(), engine_options);
        let mut api = None;
        if let Some(listen) = options.listen {
            let failed = |error| EmbeddedError::Listen { address: listen, error };
            let listener = TcpListener::bind(listen).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let parts = ApiParts {
                engine: engine.clone(),
                store: store.clone(),
                source: Some(source.clone()),
                token: Token::of(&directory)?,
                hosts: Hosts::of(address, &options.hosts),
                pages: options.pages,
            };
            write_whole(&directory.address(), &format!("{address}\n"), false)?;
            api = Some((Api::new(parts), listener, address));
        }
        // Nothing above has started anything, so an error has left nothing running.
        let engine_task = tokio::spawn(async move {
            let ended = engine_run.run().await;
            drop(lock);
            ended
        });
        let stop = engine.clone();
        let source_task = tokio::spawn(source_run(Box::pin(async move { stop.stopping().await })));
        let address = api.as_ref().map(|(_, _, address)| *address);
        let api_task = api.map(|(api, listener, _)| {
            let stop = engine.clone();
            tokio::spawn(api.serve(listener, async move { stop.stopping().await }))
        });
        let _watching = watching;
        Ok(Self {
            directory,
            engine,
            store,
            source,
            backstage,
            address,
            engine_task,
            source_task,
            api_task,
            _watching,
        })
    }

    /// The published state.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.engine.snapshot()
    }
    /// Where the API listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }
    /// The ledger.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
    /// The source.
    #[must_use]
    pub fn source(&self) -> &SourceHandle {
        &self.source
    }
    /// Adds a fault to the simulated fleet.
    pub fn inject(&self, fault: FaultSpec) {
        self.backstage.inject(fault);
        self.engine.wake();
    }

    /// What came of it so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut rollouts: Vec<_> = self.store.ledger().rollouts.values().cloned().collect();
        rollouts.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        Summary {
            at: self.engine.clock().now(),
            oracle: self.backstage.oracle(),
            rollouts,
            violations: self.engine.stats().violations.get(),
            passes: self.engine.stats().passes.get(),
        }
    }

    /// Waits until what was published is as wished; `None` when the engine has ended before.
    pub async fn wait_until(&self, mut wish: impl FnMut(&Facts) -> bool) -> Option<Arc<Snapshot>> {
        let mut snapshot = self.engine.snapshot();
        let seen = snapshot.wait_for(|snapshot| snapshot.facts.as_deref().is_some_and(&mut wish)).await;
        seen.ok().map(|snapshot| Arc::clone(&snapshot))
    }

    /// Waits until a rollout has ended; `None` when the engine has ended before.
    pub async fn wait_for(&self, rollout: &RolloutId) -> Option<RolloutState> {
        let ended = |facts: &Facts| facts.ledger.rollouts.get(rollout).is_some_and(|r| r.state.is_final());
        let snapshot = self.wait_until(ended).await?;
        snapshot.facts.as_ref()?.ledger.rollouts.get(rollout).map(|record| record.state.clone())
    }

    /// Ends it between two writes: the world is saved, the directory is free for the next.
    ///
    /// # Errors
    /// When something couldn't be saved.
    pub async fn stop(mut self) -> Result<Summary, EmbeddedError> {
        self.engine.stop();
        let broke = |error: tokio::task::JoinError| EmbeddedError::Task(error.to_string());
        if let Some(mut task) = self.api_task.take() {
            match tokio::time::timeout(GOODBYE, &mut task).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => tracing::warn!(%error, "the API ended badly"),
                Ok(Err(error)) => tracing::warn!(%error, "the API broke off"),
                // Somebody holds a connection open; the ledger is more important.
                Err(_) => task.abort(),
            }
        }
        let ended = (&mut self.engine_task).await.map_err(broke)?;
        (&mut self.source_task).await.map_err(broke)?;
        match std::fs::remove_file(self.directory.address()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "the address file is left behind"),
        }
        ended?;
        Ok(self.summary())
    }
}

impl Drop for Embedded {
    /// Without [`Embedded::stop`] the tasks end by themselves a moment later.
    fn drop(&mut self) {
        self.engine.stop();
    }
}
