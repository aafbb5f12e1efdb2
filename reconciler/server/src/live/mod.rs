//! All of it on real clusters: what `drydock run` runs.
//!
//! Several processes may run; one leads. A follower looks at nothing but the lease, so that what it does when it takes
//! over is what every process does when it starts: read the ledger, look at the clusters, make a pass.

mod notices;
mod options;
mod publishing;
mod world;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use drydock_cluster::client::{Caller, ConnectError, Gate};
use drydock_cluster::clock;
use drydock_cluster::clusters::{Clusters, Options, Wake};
use drydock_cluster::connect::Reach;
use drydock_cluster::lease::{Elector, Leadership, LeaseOptions};
use drydock_source::SourceError;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use drydock_cluster::ensure::Settings;
pub use options::LiveOptions;
pub use world::LiveWorld;

use crate::clock::{Speed, wall};
use crate::desired::Desired;
use crate::engine::{Engine, EngineError, EngineHandle, EngineOptions};
use crate::files::{Directory, FileError, write_whole};
use crate::http::{Api, ApiParts, Hosts};
use crate::lock::{DirectoryLock, LockError};
use crate::sourcing;
use crate::store::{KubernetesOptions, KubernetesStore, LedgerStore, StoreError};
use crate::token::Token;

/// Namespace of what no document places elsewhere.
pub const NAMESPACE: &str = drydock_api::names::NAMESPACE;

/// Patience with open connections, and with the engine's last pass, when stopping.
const GOODBYE: Duration = Duration::from_secs(3);

/// Pause before the ledger is opened again after that failed: the home cluster may just be restarting.
const OPEN_PAUSE: Duration = Duration::from_secs(5);

/// Why it couldn't start or end well.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Somebody else works with the directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file of the directory.
    #[error(transparent)]
    File(#[from] FileError),
    /// The home cluster.
    #[error("the home cluster can't be reached: {0}")]
    Home(#[from] ConnectError),
    /// The ledger.
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

/// What every term of leading needs.
struct House {
    options: LiveOptions,
    directory: Directory,
    reach: Reach,
    home: Caller,
    gate: Gate,
    holder: String,
}

/// Runs until `shutdown`: follows while another leads, leads while it may.
///
/// # Errors
/// When it can't start, or something breaks that shouldn't. A cluster or a repository that can't be reached is no error.
pub async fn run(options: LiveOptions, shutdown: impl Future<Output = ()> + Send) -> Result<(), LiveError> {
    let directory = Directory::create(&options.directory)?;
    let _lock = DirectoryLock::take(&directory)?;
    let gate = Gate::closed();
    let mut reach = Reach { kubeconfig: options.kubeconfig.clone(), home: None };
    let config = reach.context(options.context.as_deref()).await?;
    // Connections of its own, so that a burst of calls doesn't cost the lease.
    let lease = Caller::new(config.clone(), Gate::always())?;
    let home = Caller::new(config, gate.clone())?;
    reach.home = Some(home.clone());
    let holder = format!("{}-{}", options.identity, Token::draw()?);
    let namespace = options.settings.namespace.clone();
    let lease_options = LeaseOptions::lasting(&namespace, &holder, options.lease);
    let (elector, mut leadership) =
        Elector::new(lease.client().clone(), gate.clone(), lease_options, clock::wall);
    let elector = elector.telling(clock::agree);
    let (stop, stopped) = watch::channel(false);
    let stopping = |mut stopped: watch::Receiver<bool>| async move {
        // Without a sender nobody is left to run for.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let elector = tokio::spawn(elector.run(stopping(stopped.clone())));
    let house = House { options, directory, reach, home, gate, holder };
    let mut shutdown = std::pin::pin!(shutdown);
    let outcome = loop {
        let leads = |leadership: &Leadership| matches!(leadership, Leadership::Leading { .. });
        tokio::select! {
            () = &mut shutdown => break Ok(()),
            changed = leadership.wait_for(leads) => {
                if changed.is_err() {
                    break Err(LiveError::Task("leader election".to_owned()));
                }
            }
        }
        let term = leadership.borrow_and_update().clone();
        tracing::info!(holder = house.holder, "this process leads");
        let over = lost(leadership.clone(), term);
        match house.lead(over, shutdown.as_mut()).await {
            Ok(Ended::Lost) => {
                tracing::warn!("another process leads, or the lease couldn't be renewed; following")
            }
            Ok(Ended::Asked) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    stop.send_replace(true);
    // Lets go of the lease, so that another takes over at once.
    let _ = tokio::time::timeout(GOODBYE, elector).await;
    outcome
}

async fn lost(mut leadership: watch::Receiver<Leadership>, term: Leadership) {
    let _ = leadership.wait_for(|now| *now != term).await;
}

enum Ended {
    Lost,
    Asked,
}

impl House {
    /// One term.
    async fn lead(
        &self,
        over: impl Future<Output = ()> + Send,
        mut shutdown: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<Ended, LiveError> {
        let mut over = std::pin::pin!(over);
        let store = loop {
            let opening = self.open();
            let opened = tokio::select! {
                opened = opening => opened,
                () = &mut over => return Ok(Ended::Lost),
                () = &mut shutdown => return Ok(Ended::Asked),
            };
            match opened {
                Ok(store) => break store,
                Err(error) => {
                    tracing::error!(%error, "the ledger can't be opened; trying again");
                    tokio::select! {
                        () = tokio::time::sleep(OPEN_PAUSE) => {}
                        () = &mut over => return Ok(Ended::Lost),
                        () = &mut shutdown => return Ok(Ended::Asked),
                    }
                }
            }
        };
        let running = self.start(store).await?;
        let ended = tokio::select! {
            () = &mut over => Ended::Lost,
            () = &mut shutdown => Ended::Asked,
            () = running.engine.stopping() => Ended::Asked,
        };
        running.stop(&self.directory).await?;
        Ok(ended)
    }

    async fn open(&self) -> Result<Arc<KubernetesStore>, StoreError> {
        let mut options =
            KubernetesOptions::new(self.directory.ledger(), self.options.settings.namespace.clone());
        options.holder = self.holder.clone();
        options.accept_restored = self.options.accept_restored_ledger;
        KubernetesStore::open(self.home.clone(), options).await.map(Arc::new)
    }

    async fn start(&self, store: Arc<KubernetesStore>) -> Result<Running, LiveError> {
        let options = &self.options;
        let reading = Arc::clone(&store);
        let kept = tokio::task::spawn_blocking(move || reading.kept_source()).await;
        let kept = kept.map_err(|error| LiveError::Task(error.to_string()))??;
        // Different for each process, so that they don't all poll at the same instant.
        let seed =
            self.holder.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let (source, source_run, watching) =
            sourcing::begin(&self.directory, &options.source, seed, kept.as_ref())?;
        // The engine comes into being with the world, and the world has to wake it: the place of its handle is filled
        // in between.
        let bell: Arc<std::sync::OnceLock<EngineHandle>> = Arc::default();
        let rung = Arc::clone(&bell);
        let wake: Wake = Arc::new(move || {
            if let Some(engine) = rung.get() {
                engine.wake();
            }
        });
        let clusters = Clusters::new(Options {
            reach: self.reach.clone(),
            settings: options.settings.clone(),
            gate: self.gate.clone(),
            wake,
            runtime: tokio::runtime::Handle::current(),
        });
        let callers = clusters.callers();
        let desired = Desired::new(kept, wall());
        let engine_options = EngineOptions { speed: Speed::Times(1.0), rhythm: options.rhythm };
        let shared: Arc<dyn LedgerStore> = store;
        let (engine_run, engine) = Engine::new(
            Arc::clone(&shared),
            LiveWorld::new(clusters),
            desired,
            source.state(),
            engine_options,
        );
        // Set once, right here.
        let _ = bell.set(engine.clone());
        let mut api = None;
        if let Some(listen) = options.listen {
            let failed = |error| LiveError::Listen { address: listen, error };
            let listener = TcpListener::bind(listen).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let parts = ApiParts {
                engine: engine.clone(),
                store: Arc::clone(&shared),
                source: Some(source.clone()),
                token: Token::of(&self.directory)?,
                hosts: Hosts::of(address, &options.hosts),
                pages: options.pages.clone(),
            };
            write_whole(&self.directory.address(), &format!("{address}\n"), false)?;
            tracing::info!(%address, "serving");
            let stop = engine.clone();
            api = Some(tokio::spawn(Api::new(parts).serve(listener, async move { stop.stopping().await })));
        }
        let stop = engine.clone();
        let source_task = tokio::spawn(source_run(Box::pin(async move { stop.stopping().await })));
        let feed = shared.subscribe();
        let namespace = options.settings.namespace.clone();
        let records =
            publishing::run(self.home.clone(), namespace.clone(), callers.clone(), engine.snapshot());
        let records = tokio::spawn(records).abort_handle();
        let notices = tokio::spawn(notices::run(feed, callers, self.home.clone(), namespace)).abort_handle();
        let engine_task = tokio::spawn(engine_run.run());
        Ok(Running { engine, engine_task, notices, records, source_task, api, _watching: watching })
    }
}

struct Running {
    engine: EngineHandle,
    engine_task: tokio::task::JoinHandle<Result<(), EngineError>>,
    source_task: tokio::task::JoinHandle<()>,
    api: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
    notices: tokio::task::AbortHandle,
    records: tokio::task::AbortHandle,
    _watching: Option<drydock_source::Watching>,
}

impl Running {
    async fn stop(mut self, directory: &Directory) -> Result<(), LiveError> {
        self.engine.stop();
        if let Some(mut api) = self.api.take()
            && tokio::time::timeout(GOODBYE, &mut api).await.is_err()
        {
            // Somebody holds a connection open; the next leader doesn't wait for that.
            api.abort();
        }
        self.notices.abort();
        self.records.abort();
        let ended = self.engine_task.await.map_err(|error| LiveError::Task(error.to_string()))?;
        let _ = self.source_task.await;
        match std::fs::remove_file(directory.address()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "the address file is left behind"),
        }
        Ok(ended?)
    }
}
