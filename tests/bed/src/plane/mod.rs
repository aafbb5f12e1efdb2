//! A control plane of one test's own: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

mod access;
mod audit;
mod etcd;
mod flags;
mod options;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use tokio::time::Instant;

pub use access::{User, write_kubeconfig};
pub use audit::AuditEntry;
pub use etcd::Snapshot;
pub use options::{Authorization, Controllers, PlaneOptions};

use crate::process::{Folder, Port, Process, Reaper, lock};

/// How long a part may take until it answers. It takes about three seconds on two idle cores.
const START_WITHIN: Duration = Duration::from_secs(90);

/// Pause between two looks at a server that starts.
const PACE: Duration = Duration::from_millis(50);

/// A running control plane. It ends with the value, also when the test panics or is killed.
///
/// Several run side by side; each is about 0.5 GB of memory, 1 GB with a thousand nodes. All methods take `&self`, so
/// a plane can be shared with the tasks of a test.
#[derive(Debug)]
pub struct Plane {
    options: PlaneOptions,
    ports: Ports,
    // Dropped in this order: first the processes, then who looks after them, then their folder.
    parts: Mutex<Parts>,
    reaper: Arc<Reaper>,
    folder: Folder,
}

#[derive(Debug)]
struct Ports {
    api: Port,
    etcd: Port,
    peer: Port,
}

#[derive(Debug, Default)]
struct Parts {
    scheduler: Option<Process>,
    controllers: Option<Process>,
    api: Option<Process>,
    etcd: Option<Process>,
}

impl Plane {
    /// Starts one and waits until its API server is ready and its default namespace is there: a few seconds.
    ///
    /// # Errors
    /// A part doesn't start; the error shows the end of its log, and the folder is kept.
    pub async fn start(options: PlaneOptions) -> anyhow::Result<Self> {
        let folder = Folder::new(&options.name)?;
        let reaper = Reaper::start(folder.path())?;
        let ports = Ports { api: Port::lease()?, etcd: Port::lease()?, peer: Port::lease()? };
        let plane = Self { options, ports, parts: Mutex::default(), reaper, folder };
        plane.write_files()?;
        let started = plane.start_all().await;
        if started.is_err() {
            plane.folder.keep();
        }
        started.with_context(|| format!("control plane in {}", plane.folder.path().display()))?;
        Ok(plane)
    }

    async fn start_all(&self) -> anyhow::Result<()> {
        self.start_etcd()?;
        self.start_apiserver().await?;
        self.start_others()
    }

    /// Name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Its folder: logs, kubeconfigs, audit log. It goes with the plane, unless `DRYDOCK_BED_KEEP` is set.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Address of the API server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api.number())
    }

    /// Kills the API server, as a crash of its machine would. etcd and what is in it stay.
    pub fn stop_apiserver(&self) {
        lock(&self.parts).api = None;
    }

    /// Starts the API server again, on the same port and the same etcd, and waits until it is ready. Does nothing when
    /// it runs.
    ///
    /// # Errors
    /// It doesn't become ready.
    pub async fn start_apiserver(&self) -> anyhow::Result<()> {
        {
            let mut parts = lock(&self.parts);
            if parts.api.as_mut().is_some_and(|api| api.ended().is_none()) {
                return Ok(());
            }
            parts.api = Some(self.spawn("kube-apiserver", self.api_command())?);
        }
        self.wait_ready().await
    }

    /// Stops the API server where it stands: connections stay open and nothing is answered.
    ///
    /// # Errors
    /// It doesn't run.
    pub fn hang_apiserver(&self) -> anyhow::Result<()> {
        lock(&self.parts).api.as_ref().context("the API server is stopped")?.pause()
    }

    /// Lets a hanging API server go on.
    ///
    /// # Errors
    /// It doesn't run.
    pub fn resume_apiserver(&self) -> anyhow::Result<()> {
        lock(&self.parts).api.as_ref().context("the API server is stopped")?.resume()
    }

    /// Fails when a part that should run has ended, with the end of its log.
    ///
    /// # Errors
    /// That one.
    pub fn check(&self) -> anyhow::Result<()> {
        let mut parts = lock(&self.parts);
        let Parts { scheduler, controllers, api, etcd } = &mut *parts;
        [etcd, api, controllers, scheduler].into_iter().flatten().try_for_each(Process::check)
    }

    fn start_etcd(&self) -> anyhow::Result<()> {
        lock(&self.parts).etcd = Some(self.spawn("etcd", self.etcd_command())?);
        Ok(())
    }

    fn start_others(&self) -> anyhow::Result<()> {
        let controllers = self.spawn("kube-controller-manager", self.controllers_command())?;
        let scheduler = self.spawn("kube-scheduler", self.scheduler_command())?;
        let mut parts = lock(&self.parts);
        parts.controllers = Some(controllers);
        parts.scheduler = Some(scheduler);
        Ok(())
    }

    fn spawn(&self, name: &str, command: std::process::Command) -> anyhow::Result<Process> {
        Process::start(name, command, &self.path(&format!("{name}.log")), &self.reaper)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the API server says it is ready and the namespace `default` exists, which it makes a moment later.
    async fn wait_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        loop {
            // An API server whose etcd is gone waits for ever: so look at both.
            self.check()?;
            // The certificate is made by the first start, so a client can't be made before.
            let client = if self.authority_path().exists() { self.client(User::Admin).ok() } else { None };
            let missing = match client {
                None => "it has made no certificate yet".to_owned(),
                Some(client) => match tokio::time::timeout(Duration::from_secs(2), ready(&client)).await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error)) => format!("{error:#}"),
                    Err(_) => "it doesn't answer".to_owned(),
                },
            };
            if Instant::now() > deadline {
                let log = self.path("kube-apiserver.log");
                let tail = crate::process::tail(&log);
                anyhow::bail!(
                    "not ready within {START_WITHIN:?}: {missing}. The end of {}:\n{tail}",
                    log.display()
                );
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

async fn ready(client: &kube::Client) -> anyhow::Result<()> {
    for path in ["/readyz", "/api/v1/namespaces/default"] {
        client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    }
    Ok(())
}
