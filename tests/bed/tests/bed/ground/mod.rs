//! A fleet on real API servers: planes with hollow nodes, a repository, and the real program.

#![allow(unreachable_pub, reason = "what is said of a ground is said in public words")]

pub(crate) mod documents;
pub(crate) mod people;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail};
use drydock_bed::hollow::NodeSpec;
use drydock_bed::{
    Hollow, HollowOptions, Plane, PlaneOptions, RealNodes, RealOptions, RealTools, Tools, User,
};
use drydock_cluster::client::{Caller, Gate};
use drydock_cluster::ledger::Home;
use drydock_plan::{Ledger, RolloutRecord};
use drydock_source::{Author, commit_all, init_repository};
use jiff::Timestamp;

/// A setting of a run of the tests.
#[expect(clippy::disallowed_methods, reason = "tests have no arguments of their own")]
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where one cluster of the ground is.
pub struct Site {
    pub name: String,
    /// Where the cluster has real nodes; they end before the plane does.
    pub real: Option<RealNodes>,
    pub hollow: Hollow,
    pub plane: Plane,
}

/// Several clusters, a repository and a folder.
pub struct Ground {
    pub sites: Vec<Site>,
    pub folder: tempfile::TempDir,
    pub kubeconfig: PathBuf,
    commits: Mutex<i64>,
}

/// A cluster to make.
pub struct SiteSpec {
    pub name: &'static str,
    /// Hollow nodes.
    pub nodes: Vec<NodeSpec>,
    /// Real ones: how many, with what.
    pub real: Option<(usize, RealTools, RealOptions)>,
    pub hollow: HollowOptions,
    pub plane: PlaneOptions,
}

impl SiteSpec {
    /// `count` nodes with eight GPUs in pool `name`.
    pub fn new(tools: &Tools, name: &'static str, count: usize) -> Self {
        let node = |node: NodeSpec| {
            node.label("pool", name).label("nvidia.com/gpu.deploy.driver", "true").device("nvidia.com/gpu", 8)
        };
        Self {
            name,
            nodes: NodeSpec::many(&format!("{name}-n"), count).into_iter().map(node).collect(),
            real: None,
            hollow: HollowOptions::of(name),
            plane: PlaneOptions::new(tools.clone()).named(name),
        }
    }
}

impl Ground {
    /// Starts everything; the namespaces that the documents name exist.
    pub async fn start(specs: Vec<SiteSpec>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("drydock-ground-").tempdir()?;
        let mut sites = Vec::new();
        for SiteSpec { name, nodes, real, hollow, plane } in specs {
            let plane = Plane::start(plane).await?;
            let hollow = Hollow::start(&plane, hollow).await?;
            hollow.add_nodes(nodes).await?;
            let real = match real {
                Some((count, tools, options)) => Some(RealNodes::start(&plane, count, tools, options).await?),
                None => None,
            };
            sites.push(Site { name: name.to_owned(), real, hollow, plane });
        }
        let kubeconfig = folder.path().join("kubeconfig");
        let ground = Self { sites, folder, kubeconfig, commits: Mutex::new(0) };
        ground.kubeconfig(User::DrydockA, &ground.kubeconfig)?;
        for site in &ground.sites {
            for namespace in ["drydock-system", "gpu", "team"] {
                ground
                    .create(site, "/api/v1/namespaces", &serde_json::json!({"metadata": {"name": namespace}}))
                    .await?;
            }
            ground.install_crds(site).await?;
        }
        Ok(ground)
    }

    /// Writes a kubeconfig with every cluster as a context of its name.
    pub fn kubeconfig(&self, user: User, path: &Path) -> anyhow::Result<()> {
        let planes: Vec<(&Plane, &str)> = self.sites.iter().map(|s| (&s.plane, s.name.as_str())).collect();
        drydock_bed::plane::write_kubeconfig(&planes, user, path)
    }

    pub fn site(&self, name: &str) -> &Site {
        self.sites.iter().find(|s| s.name == name).expect("a site of this name")
    }

    /// A caller as the administrator.
    pub fn admin(&self, site: &Site) -> anyhow::Result<Caller> {
        Ok(Caller::over(site.plane.client(User::Admin)?, Gate::always()))
    }

    pub async fn create(&self, site: &Site, uri: &str, body: &serde_json::Value) -> anyhow::Result<()> {
        let made: Result<serde_json::Value, _> = self.admin(site)?.create(uri, body).await;
        match made {
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop).with_context(|| format!("creating at {uri}")),
        }
    }

    async fn install_crds(&self, site: &Site) -> anyhow::Result<()> {
        let uri = drydock_cluster::client::Kind::DEFINITION.all(None);
        for definition in drydock_api::crd::definitions() {
            self.create(site, &uri, &serde_json::to_value(definition)?).await?;
        }
        Ok(())
    }

    /// The repository's folder.
    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("fleet")
    }

    /// Commits these files, the first time as a new repository.
    pub fn commit(&self, message: &str, files: &[(&str, String)]) -> anyhow::Result<String> {
        let author = Author { name: "Test".to_owned(), email: "test@example.com".to_owned() };
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| drydock_spec::SourceFile {
                path: (*path).to_owned(),
                bytes: text.clone().into_bytes(),
            })
            .collect();
        let loaded = drydock_spec::load(&sources);
        anyhow::ensure!(loaded.fleet.is_some(), "the test's documents are wrong: {:?}", loaded.diagnostics);
        let mut count = self.commits.lock().expect("no test panics while it commits");
        *count += 1;
        let time = Timestamp::from_second(1_790_000_000 + *count * 60)?;
        let repository = self.repository();
        if *count == 1 {
            let files: Vec<_> =
                files.iter().map(|(p, t)| ((*p).to_owned(), t.clone().into_bytes())).collect();
            return Ok(init_repository(&repository, &files, &author, message, time)?);
        }
        let files: Vec<_> =
            files.iter().map(|(p, t)| ((*p).to_owned(), Some(t.clone().into_bytes()))).collect();
        Ok(commit_all(&repository, &files, &author, message, time)?)
    }

    /// Starts the program; the first cluster is its home.
    pub fn drydock(&self, identity: &str) -> anyhow::Result<Drydock> {
        self.drydock_with(identity, &self.kubeconfig, &[])
    }

    pub fn drydock_with(&self, identity: &str, kubeconfig: &Path, more: &[&str]) -> anyhow::Result<Drydock> {
        self.drydock_in(identity, kubeconfig, more, &[])
    }

    /// With variables of the environment.
    pub fn drydock_in(
        &self,
        identity: &str,
        kubeconfig: &Path,
        more: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Drydock> {
        let folder = self.folder.path().join(identity);
        std::fs::create_dir_all(&folder)?;
        let log = folder.join("log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let child = Command::new(program()?)
            .arg("run")
            .args(["--repo", &self.repository().display().to_string()])
            .args(["--kubeconfig", &kubeconfig.display().to_string()])
            .args(["--context", &self.sites[0].name])
            .args(["--dir", &folder.join("data").display().to_string()])
            .args(["--identity", identity])
            .args(["--listen", "127.0.0.1:0"])
            .args(["--poll", "1"])
            .args(["--smoke-image", "check:1"])
            .args(more)
            .env("DRYDOCK_LOG", "info,drydock_cluster=debug,drydock_server=debug")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file))
            .spawn()
            .context("starting drydock")?;
        Ok(Drydock { child, log, address: folder.join("data").join("address") })
    }

    /// The ledger as it lies in the home cluster.
    pub async fn ledger(&self) -> anyhow::Result<Ledger> {
        let home = Home::new(self.admin(&self.sites[0])?, "drydock-system", "test");
        Ok(home.load().await?.map(|(_, ledger)| ledger).unwrap_or_default())
    }

    /// Waits until something is so of the ledger.
    pub async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&Ledger) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = std::time::Instant::now() + within;
        loop {
            let ledger = self.ledger().await;
            if let Some(found) = ledger.as_ref().ok().and_then(&mut look) {
                return Ok(found);
            }
            if std::time::Instant::now() >= deadline {
                bail!(
                    "{what}: not within {within:?}; the ledger:\n{}\n{}",
                    ledger.map_or_else(|e| format!("{e:#}"), |l| describe(&l)),
                    self.logs()
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The last lines of every log.
    fn logs(&self) -> String {
        let folders = std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let logs = folders.map(|entry| entry.path().join("log")).filter(|log| log.is_file());
        let told = |log: PathBuf| {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(25).collect();
            let last: Vec<&str> = lines.into_iter().rev().collect();
            format!("---- {}\n{}\n", log.display(), last.join("\n"))
        };
        logs.map(told).collect()
    }

    /// Waits until the rollout of a commit has ended, with the way back it may have started.
    pub async fn ended(&self, commit: &str, within: Duration) -> anyhow::Result<Arc<RolloutRecord>> {
        self.until(&format!("the end of the rollout of {commit}"), within, |ledger| {
            let of = |r: &&Arc<RolloutRecord>| r.commit.id == commit;
            let mut all = ledger.rollouts.values().filter(of);
            let first = all.clone().find(|r| matches!(r.kind, drydock_plan::RolloutKind::Forward))?;
            all.all(|r| r.state.is_final()).then(|| Arc::clone(first))
        })
        .await
    }

    /// Nodes of a cluster with their labels, annotations and whether they are cordoned.
    pub async fn nodes(&self, site: &Site) -> anyhow::Result<Vec<serde_json::Value>> {
        self.list(site, "/api/v1/nodes").await
    }

    pub async fn list(&self, site: &Site, uri: &str) -> anyhow::Result<Vec<serde_json::Value>> {
        let list: serde_json::Value = self.admin(site)?.get(uri).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Everything that drydock must not leave behind when all is over.
    pub async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for site in &self.sites {
            for node in self.nodes(site).await? {
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                if node["spec"]["unschedulable"] == true {
                    found.push(format!("{}/{name} is cordoned", site.name));
                }
                let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                if taints.iter().any(|t| t["key"] == drydock_api::names::TAINT) {
                    found.push(format!("{}/{name} is tainted", site.name));
                }
            }
            let own = "?labelSelector=app.kubernetes.io%2Fmanaged-by%3Ddrydock";
            for job in self.list(site, &format!("/apis/batch/v1/jobs{own}")).await? {
                found.push(format!("{}: Job {}", site.name, job["metadata"]["name"]));
            }
            for pod in self.list(site, &format!("/api/v1/pods{own}")).await? {
                let labels = &pod["metadata"]["labels"];
                if labels[drydock_api::names::COMPONENT].is_null() {
                    found.push(format!("{}: Pod {}", site.name, pod["metadata"]["name"]));
                }
            }
        }
        Ok(found)
    }

    /// Waits until nothing is left behind: finished checks are deleted half a minute after their round.
    pub async fn tidy(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = std::time::Instant::now() + within;
        loop {
            let left = self.leftovers().await?;
            if left.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(std::time::Instant::now() < deadline, "left behind: {left:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Versions of a component's pods on the nodes of a cluster: how many nodes run which.
    pub async fn versions(&self, site: &Site, component: &str) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut found = BTreeMap::new();
        let selector = format!("/api/v1/pods?labelSelector=drydock.dev%2Fcomponent%3D{component}");
        for pod in self.list(site, &selector).await? {
            if pod["metadata"]["deletionTimestamp"].is_null() {
                let exact =
                    pod["metadata"]["annotations"][drydock_api::names::VERSION].as_str().unwrap_or_default();
                let version: serde_json::Value = serde_json::from_str(exact).unwrap_or_default();
                *found.entry(version["version"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        Ok(found)
    }
}

/// One line for each rollout and each node that is away: what a failing test prints.
pub fn describe(ledger: &Ledger) -> String {
    let mut text = format!("revision {}\n", ledger.revision);
    for rollout in ledger.rollouts.values() {
        text += &format!(
            "{} {:?} {} exposed {} failures {:?}\n",
            rollout.id,
            rollout.kind,
            rollout.state.word(),
            rollout.exposed,
            rollout
                .failures
                .iter()
                .map(|f| format!("{} {:?} {:?}", f.node, f.blame, f.evidence.last().map(|e| &e.text)))
                .collect::<Vec<_>>()
        );
        for entry in rollout.history.iter().rev().take(12).rev() {
            text += &format!("    {} {:?}\n", entry.at, entry.what);
        }
    }
    for (id, node) in
        ledger.nodes.iter().filter(|(_, n)| n.visit.is_some() || n.quarantine.is_some()).take(10)
    {
        let visit = node.visit.as_ref();
        text += &format!(
            "{id} {:?} {:?} attempt {:?} quarantine {}\n",
            visit.map(|v| &v.step),
            visit.map(|v| &v.course),
            visit.map(|v| v.attempt),
            node.quarantine.is_some()
        );
    }
    text
}

/// The program under test: the newest of the release and the debug build, which the test command has just made.
pub fn program() -> anyhow::Result<PathBuf> {
    let mut target = std::env::current_exe()?;
    // target/debug/deps/test-…
    while target.file_name().is_some_and(|name| name != "debug" && name != "release") {
        if !target.pop() {
            bail!("the target folder can't be found");
        }
    }
    target.pop();
    let found = ["release", "debug"].map(|profile| target.join(profile).join("drydock"));
    let newest = found
        .into_iter()
        .filter(|p| p.is_file())
        .max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    newest.context("there is no build of drydock: cargo build -p drydock")
}

/// A running drydock; killed when it is dropped.
pub struct Drydock {
    child: Child,
    pub log: PathBuf,
    address: PathBuf,
}

impl Drydock {
    /// `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Sends it a signal by its number.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status()?;
        anyhow::ensure!(sent.success(), "kill -{name} failed");
        Ok(())
    }
    /// What its API says.
    pub fn get(&self, path: &str) -> anyhow::Result<serde_json::Value> {
        let address = std::fs::read_to_string(&self.address).context("its API isn't up yet")?;
        let text = ureq::get(&format!("http://{}/api/v1{path}", address.trim()))
            .call()?
            .body_mut()
            .read_to_string()?;
        Ok(serde_json::from_str(&text)?)
    }
    /// Waits until what a node waits for, as JSON text, has all of these words in it.
    pub async fn why(&self, node: &str, words: &[&str], within: Duration) -> anyhow::Result<String> {
        let deadline = std::time::Instant::now() + within;
        loop {
            let said =
                self.get(&format!("/nodes/{node}")).map_or_else(|e| format!("{e:#}"), |v| v.to_string());
            if words.iter().all(|word| said.contains(word)) {
                return Ok(said);
            }
            if std::time::Instant::now() > deadline {
                bail!("{node} never said {words:?}; at last: {said}\n{}", self.tail());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    /// The last lines of its log.
    pub fn tail(&self) -> String {
        drydock_bed::process::tail(&self.log)
    }
}

impl Drop for Drydock {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- {}\n{}", self.log.display(), self.tail());
        }
    }
}
