//! Real nodes: a kubelet, containerd and runc each, whose pods are real processes.
//!
//! They need Linux, root, and Debian's `containerd`, `runc` and `containernetworking-plugins`; no registry is reached.
//! Images are made of static files by [`image()`] and imported; pods name them with `imagePullPolicy: Never` or
//! `IfNotPresent`. What isn't imported can't be pulled, which is a failing pull for free.
//!
//! Each node has mount and process namespaces of its own. Whatever runs on it ends with the first process in there, and
//! its mounts with the last.

mod config;
mod image;
mod stand_in;

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, geteuid, pidfd_open},
};

pub use image::{Image, image};
pub use stand_in::{STAND_IN, stand_in, stand_in_image, stand_in_with};

use crate::{
    Missing, Plane, User, eventually,
    process::{Folder, Port, Process, Reaper, lock},
    tools::{Tool, locate, on_path},
};
use config::{CNI_BIN, PAUSE, Places};

/// How long a node may take; it takes two seconds.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// Programs of the machine that nodes need, with the Debian package that has them.
const PROGRAMS: [(&str, &str); 7] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("sh", "dash"),
];

/// Runs as the first process of a node: it mounts what must be the node's own, and buries the dead. Arguments: the
/// folder for `/var/lib/kubelet`, containerd and its configuration.
const INIT: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /var/lib/kubelet
mount --bind "$1" /var/lib/kubelet
"$2" --config "$3" &
wait $!
"#;

/// What real nodes need of the machine.
#[derive(Debug, Clone)]
pub struct RealTools {
    kubelet: PathBuf,
    device_plugin: PathBuf,
    programs: BTreeMap<&'static str, PathBuf>,
}

impl RealTools {
    /// Looks for everything.
    ///
    /// # Errors
    /// What is missing: being root, programs, plugins, the kubelet.
    pub fn find() -> Result<Self, Missing> {
        let [kubelet, device_plugin] = locate([Tool::Kubelet, Tool::DevicePlugin])?;
        let found: Vec<_> = PROGRAMS.iter().map(|(name, package)| (*name, *package, on_path(name))).collect();
        let mut what: Vec<String> = Vec::new();
        what.extend(found.iter().filter(|f| f.2.is_none()).map(|f| format!("{} ({})", f.0, f.1)));
        for plugin in ["ptp", "host-local", "loopback"] {
            if !Path::new(CNI_BIN).join(plugin).is_file() {
                what.push(format!("{CNI_BIN}/{plugin} (containernetworking-plugins)"));
            }
        }
        if !geteuid().is_root() {
            what.push("being root".to_owned());
        }
        if !what.is_empty() {
            let remedy = "Install the packages, and run as root.".to_owned();
            return Err(Missing { what, remedy });
        }
        let programs = found.into_iter().filter_map(|(name, _, path)| Some((name, path?))).collect();
        Ok(Self { kubelet, device_plugin, programs })
    }

    /// An image of the device plugin, which tells the kubelet of so many `nvidia.com/gpu`. Its pods have the node's
    /// `/var/lib/kubelet/device-plugins`.
    ///
    /// # Errors
    /// It can't be read.
    pub fn device_plugin_image(&self, name: &str, tag: &str, count: u32) -> anyhow::Result<Image> {
        let program = std::fs::read(&self.device_plugin).context("the device plugin")?;
        let count = count.to_string();
        let entrypoint = ["/device-plugin", "--count", &count];
        Ok(image(name, tag, &[("/device-plugin", &program, 0o755)], &entrypoint, &[]))
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.programs.get(name).map_or(Path::new(name), PathBuf::as_path))
    }
}

/// What real nodes are like.
#[derive(Debug, Clone)]
pub struct RealOptions {
    /// Names are `PREFIX-0` and up.
    pub prefix: String,
    /// Labels of all of them.
    pub labels: BTreeMap<String, String>,
    /// Images that are there from the start.
    pub images: Vec<Image>,
}

impl Default for RealOptions {
    fn default() -> Self {
        Self { prefix: "real".to_owned(), labels: BTreeMap::new(), images: Vec::new() }
    }
}

/// Real nodes of one plane. They end with the value, and all that runs on them.
#[derive(Debug)]
pub struct RealNodes {
    // Dropped in this order: kubelets, then what they started, then who looks after them, then their folder.
    nodes: Vec<RealNode>,
    reaper: Arc<Reaper>,
    tools: RealTools,
    folder: Folder,
}

#[derive(Debug)]
struct RealNode {
    name: String,
    kubelet: Mutex<Option<Process>>,
    /// The namespaces; their first process has this id outside.
    space: Option<Process>,
    first: Pid,
    folder: PathBuf,
    /// Nobody else takes them while it lives.
    _ports: [Port; 2],
    labels: String,
}

impl RealNodes {
    /// Starts so many and waits until they are ready.
    ///
    /// # Errors
    /// One doesn't become ready; the error shows the end of its log, and the folder is kept.
    pub async fn start(
        plane: &Plane,
        count: usize,
        tools: RealTools,
        options: RealOptions,
    ) -> anyhow::Result<Self> {
        let folder = Folder::new("real")?;
        let reaper = Reaper::start(folder.path())?;
        let mut nodes = Self { nodes: Vec::new(), reaper, tools, folder };
        let done = nodes.start_all(plane, count, &options).await;
        if done.is_err() {
            nodes.folder.keep();
        }
        done.with_context(|| format!("real nodes in {}", nodes.folder.path().display()))?;
        Ok(nodes)
    }

    async fn start_all(&mut self, plane: &Plane, count: usize, options: &RealOptions) -> anyhow::Result<()> {
        let kubeconfig = self.folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, plane.kubeconfig(User::Hollow, "plane")?).context("kubeconfig")?;
        for number in 0..count {
            let node = self.space(number, options)?;
            self.nodes.push(node);
        }
        let pause = stand_in::pause_image(PAUSE.0, PAUSE.1)?;
        for node in &self.nodes {
            let socket = node.folder.join("c.sock");
            eventually(&format!("containerd of {}", node.name), READY_WITHIN, || async {
                Ok(if socket.exists() { Ok(()) } else { Err("no socket".to_owned()) })
            })
            .await
            .with_context(|| crate::process::tail(&node.folder.join("containerd.log")))?;
        }
        for image in std::iter::once(&pause).chain(&options.images) {
            self.import(image)?;
        }
        for node in &self.nodes {
            self.start_kubelet_of(node)?;
        }
        let api: Api<Node> = Api::all(plane.client(User::Admin)?);
        for node in &self.nodes {
            let what = format!("node {} is ready", node.name);
            let ready = eventually(&what, READY_WITHIN, || async {
                let conditions = api.get(&node.name).await?.status.unwrap_or_default().conditions;
                let ready = conditions.into_iter().flatten().find(|c| c.type_ == "Ready");
                Ok(match ready {
                    Some(c) if c.status == "True" => Ok(()),
                    Some(c) => Err(c.message.unwrap_or_default()),
                    None => Err("it says nothing".to_owned()),
                })
            });
            ready.await.with_context(|| crate::process::tail(&node.folder.join("kubelet.log")))?;
        }
        Ok(())
    }

    /// The namespaces of a node, with containerd in them.
    fn space(&self, number: usize, options: &RealOptions) -> anyhow::Result<RealNode> {
        let name = format!("{}-{number}", options.prefix);
        let folder = self.folder.path().join(number.to_string());
        let places = Places { folder: &folder };
        for path in places.folders() {
            std::fs::create_dir_all(&path).context(path)?;
        }
        let ports = [Port::lease()?, Port::lease()?];
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("containerd.toml", places.containerd())?;
        write("net.d/10-bed.conflist", places.network(number))?;
        write("kubelet.yaml", places.kubelet_config(ports[0].number(), ports[1].number()))?;
        let mut command = self.tools.program("unshare");
        command
            // When the parent is killed, so is the first process inside, and with it everything in there.
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT, "node"])
            .arg(places.kubelet())
            .arg(self.tools.program("containerd").get_program())
            .arg(folder.join("containerd.toml"));
        let space = Process::start(
            &format!("{name} (containerd)"),
            command,
            &folder.join("containerd.log"),
            &self.reaper,
        )?;
        let first = first_child(space.id())?;
        let pairs: Vec<String> = options.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Ok(RealNode {
            name,
            kubelet: Mutex::default(),
            space: Some(space),
            first,
            folder,
            _ports: ports,
            labels: pairs.join(","),
        })
    }

    fn start_kubelet_of(&self, node: &RealNode) -> anyhow::Result<()> {
        let mut command = self.tools.program("nsenter");
        command
            .args(["--target", &node.first.to_string(), "--mount", "--pid", "--"])
            .arg(&self.tools.kubelet)
            .arg(format!("--kubeconfig={}", self.folder.path().join("kubeconfig").display()))
            .arg(format!("--config={}", node.folder.join("kubelet.yaml").display()))
            .arg(format!("--cert-dir={}", node.folder.join("certificates").display()))
            .arg(format!("--hostname-override={}", node.name));
        if !node.labels.is_empty() {
            command.arg(format!("--node-labels={}", node.labels));
        }
        let log = node.folder.join("kubelet.log");
        let kubelet = Process::start(&format!("{} (kubelet)", node.name), command, &log, &self.reaper)?;
        *lock(&node.kubelet) = Some(kubelet);
        Ok(())
    }

    /// Names of the nodes.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// Their folder, with a log of each containerd and kubelet.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Brings an image to all nodes.
    ///
    /// # Errors
    /// containerd refuses it.
    pub fn import(&self, image: &Image) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(|node| self.import_on(node, image))
    }

    fn import_on(&self, node: &RealNode, image: &Image) -> anyhow::Result<()> {
        // Inside: unpacking mounts.
        let mut child = self
            .tools
            .program("nsenter")
            .args(["--target", &node.first.to_string(), "--mount", "--pid", "--"])
            .arg(self.tools.program("ctr").get_program())
            .arg("--address")
            .arg(node.folder.join("c.sock"))
            .args(["--namespace", "k8s.io", "images", "import", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("ctr")?;
        let written = child.stdin.take().context("standard input of ctr")?.write_all(&image.tar);
        let output = child.wait_with_output().context("ctr")?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{} on {}: {said}", image.reference, node.name);
        written.with_context(|| format!("{} on {}", image.reference, node.name))
    }

    /// Writes a file on all nodes, under their own `/run` for instance. The folder is there: a pod has mounted it.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        for node in &self.nodes {
            let output = self
                .tools
                .program("nsenter")
                .args(["--target", &node.first.to_string(), "--mount", "--"])
                .args(["sh", "-c", r#"printf %s "$2" > "$1""#, "write", path, text])
                .output()
                .context("nsenter")?;
            let said = String::from_utf8_lossy(&output.stderr);
            anyhow::ensure!(output.status.success(), "{path} on {}: {said}", node.name);
        }
        Ok(())
    }

    /// Kills the kubelet of a node; its containers go on.
    ///
    /// # Errors
    /// There is no such node.
    pub fn stop_kubelet(&self, name: &str) -> anyhow::Result<()> {
        *lock(&self.node(name)?.kubelet) = None;
        Ok(())
    }

    /// Starts the kubelet of a node again.
    ///
    /// # Errors
    /// There is no such node.
    pub fn start_kubelet(&self, name: &str) -> anyhow::Result<()> {
        self.start_kubelet_of(self.node(name)?)
    }

    fn node(&self, name: &str) -> anyhow::Result<&RealNode> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| format!("no node {name}"))
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        *lock(&self.kubelet) = None;
        // Held open before the kill, so that it can't mean another process.
        let watched = pidfd_open(self.first, PidfdFlags::empty());
        self.space = None;
        // All that ran in there is gone when the first process is; the folder can't be removed before.
        if let Ok(fd) = watched {
            let long = Timespec { tv_sec: 10, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&long));
        }
        self.remove_cgroups();
    }
}

impl RealNode {
    /// Removes the cgroups of containers that were killed with the node. They are containerd's usual ones, so they are
    /// found by the ids of the containers; those of others on this machine stay.
    fn remove_cgroups(&self) {
        let known = self.folder.join("root/io.containerd.grpc.v1.cri");
        let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        let kinds = ["containers", "sandboxes"];
        for container in kinds.into_iter().flat_map(|kind| entries(known.join(kind))) {
            for controller in entries(PathBuf::from("/sys/fs/cgroup")) {
                // The kernel lets only empty ones go.
                let _ = std::fs::remove_dir(controller.path().join("k8s.io").join(container.file_name()));
            }
        }
    }
}

/// The process that `unshare` has forked: the first one inside, by its id outside.
fn first_child(parent: u32) -> anyhow::Result<Pid> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    // It forks within milliseconds; a bounded number of looks, each of which lets others run.
    for _ in 0..200_000 {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let child = text.split_whitespace().next().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
        if let Some(child) = child {
            return Ok(child);
        }
        std::thread::yield_now();
    }
    anyhow::bail!("unshare has started nothing")
}
