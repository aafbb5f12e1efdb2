//! Hollow nodes: Node objects and a kubelet that starts no containers, for a thousand nodes in one process.
//!
//! One watch of all pods and one of all nodes; what a kubelet would write is written. Pods become ready, Jobs end with
//! exit code and message, deleted pods go, all after small delays. A pod that drydock made is of the component and
//! version that its label and annotation say; faults are those of the simulation ([`drydock_sim::FaultSpec`]), with
//! nodes called `CLUSTER/NODE` where `CLUSTER` is [`HollowOptions::cluster`].

mod face;
mod fate;
mod faults;
mod nodes;
mod options;
mod pods;
mod run;
mod state;
pub(crate) mod watch;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use drydock_sim::FaultSpec;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::Instant,
};

pub use faults::Unsupported;
pub use options::{
    Agent, CHECKPOINTS, Devices, EXIT_CODE, Ended, HollowOptions, JobEnds, Labels, MESSAGE, NodeSpec,
    PodSelector, RUN_FOR, Timings,
};

use crate::{Plane, User, clock, process::lock};
use faults::Deed;
use state::{Fault, NodeState, State};

/// Events that may wait: enough for a burst of a few DaemonSets, and bounded.
const EVENTS: usize = 1024;

/// Hollow nodes of one plane. They stop with the value; their objects stay in the plane.
#[derive(Debug)]
pub struct Hollow {
    inner: Arc<Inner>,
    _tasks: JoinSet<()>,
}

struct Inner {
    client: Client,
    options: HollowOptions,
    state: Mutex<State>,
    wake: Notify,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Hollow {
    /// Begins to watch; nodes are added by [`Hollow::add_nodes`]. Without a cluster in the options, nodes in faults
    /// are called by the name of the plane.
    ///
    /// # Errors
    /// The plane has never started.
    pub async fn start(plane: &Plane, mut options: HollowOptions) -> anyhow::Result<Self> {
        if options.cluster.is_empty() {
            plane.name().clone_into(&mut options.cluster);
        }
        Ok(Self::with_client(plane.client(User::Hollow)?, options))
    }

    /// The same on any cluster.
    #[must_use]
    pub fn with_client(client: Client, options: HollowOptions) -> Self {
        let inner = Arc::new(Inner { client, options, state: Mutex::default(), wake: Notify::new() });
        let (pod_sender, pods) = mpsc::channel(EVENTS);
        let (node_sender, nodes) = mpsc::channel(EVENTS);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch::follow(Api::<Pod>::all(inner.client.clone()), pod_sender));
        tasks.spawn(watch::follow(Api::<Node>::all(inner.client.clone()), node_sender));
        tasks.spawn(run::run(Arc::clone(&inner), pods, nodes));
        if let Some(every) = inner.options.leases {
            tasks.spawn(run::renew_leases(Arc::clone(&inner), every));
        }
        Self { inner, _tasks: tasks }
    }

    /// Registers nodes, many at once. A node that is there already is taken over.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn add_nodes(&self, nodes: impl IntoIterator<Item = NodeSpec>) -> anyhow::Result<()> {
        let nodes: Vec<NodeSpec> = nodes.into_iter().collect();
        let renew = self.inner.options.leases.is_some();
        futures_util::stream::iter(nodes)
            .map(|spec| async {
                let name = spec.name.clone();
                lock(&self.inner.state).nodes.insert(name.clone(), NodeState::new(spec));
                self.inner.register(&name).await?;
                if renew {
                    run::renew(&self.inner.client, &name).await?;
                }
                anyhow::Ok(())
            })
            .buffer_unordered(self.inner.options.in_flight)
            .try_collect::<()>()
            .await
    }

    /// Puts a fault in force. What it says about an instant happens then, or now where it has passed.
    ///
    /// # Errors
    /// Hollow nodes can't have it.
    pub fn inject(&self, fault: FaultSpec) -> Result<(), Unsupported> {
        let deeds = faults::deeds(&fault)?;
        let now = Instant::now();
        let mut state = lock(&self.inner.state);
        state.faults.push(Fault { spec: fault, since: now });
        for (at, node, deed) in
            deeds.into_iter().filter(|(_, n, _)| n.cluster() == self.inner.options.cluster)
        {
            let inner = Arc::clone(&self.inner);
            let wait = Duration::try_from(at.duration_since(clock::now())).unwrap_or_default();
            let timer = tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                if let Err(error) = inner.deed(node.node(), &deed).await {
                    tracing::warn!(node = node.node(), ?deed, %error, "a fault could not be carried out");
                }
            });
            state.timers.push(timer.abort_handle());
        }
        state.look_at_all(now);
        drop(state);
        self.inner.wake.notify_one();
        Ok(())
    }

    /// Puts faults in force that are written as YAML: `- badVersion: {component: gpu-driver, …}`.
    ///
    /// # Errors
    /// Text that isn't a list of faults; one that hollow nodes can't have.
    pub fn inject_yaml(&self, text: &str) -> anyhow::Result<()> {
        let faults = FaultSpec::list(text)?;
        faults.into_iter().try_for_each(|fault| Ok(self.inject(fault)?))
    }

    /// Ends all faults, broken images and pods that never terminate; nodes that a fault has lost come back. What has
    /// ended stays ended.
    pub fn clear(&self) {
        self.inner.change(|state, now| {
            for timer in state.timers.drain(..) {
                timer.abort();
            }
            state.faults.clear();
            state.broken_images.clear();
            state.stuck.clear();
            state.nodes.values_mut().for_each(|node| node.health.clear());
            for node in std::mem::take(&mut state.lost_by_fault) {
                state.set_lost(&node, false, true, now);
            }
            state.look_at_all(now);
        });
    }

    /// The node stops answering; its pods stay as they are.
    pub fn lose(&self, node: &str) {
        self.inner.change(|state, now| state.set_lost(node, true, false, now));
    }

    /// A lost node comes back after a boot: another boot id, its containers start anew.
    pub fn restore(&self, node: &str) {
        self.inner.change(|state, now| state.set_lost(node, false, true, now));
    }

    /// A lost node can be reached again: it had gone on all the time.
    pub fn reconnect(&self, node: &str) {
        self.inner.change(|state, now| state.set_lost(node, false, false, now));
    }

    /// The node boots: its containers start anew, with another boot id.
    pub fn reboot(&self, node: &str) {
        self.restore(node);
    }

    /// The node object goes, and with it the kubelet.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete_node(&self, node: &str) -> anyhow::Result<()> {
        self.inner.deed(node, &Deed::Delete).await
    }

    /// A health fault appears on a node, or goes.
    pub fn set_health(&self, node: &str, kind: &str, present: bool) {
        self.inner.change(|state, now| state.set_health(node, kind, present, now));
    }

    /// These pods don't go when they are deleted, until [`Hollow::let_terminate`].
    pub fn never_terminate(&self, pods: PodSelector) {
        self.inner.change(|state, now| {
            state.stuck.push(pods);
            state.look_at_all(now);
        });
    }

    /// Pods go again.
    pub fn let_terminate(&self) {
        self.inner.change(|state, now| {
            state.stuck.clear();
            state.look_at_all(now);
        });
    }

    /// Images whose name holds this piece can't be pulled, until [`Hollow::clear`]. Pods that run already go on.
    pub fn break_image(&self, piece: &str) {
        self.inner.change(|state, now| {
            state.broken_images.push(piece.to_owned());
            state.look_at_all(now);
        });
    }

    /// Changes what a node offers: resource to count.
    pub fn set_devices(&self, node: &str, devices: BTreeMap<String, String>) {
        self.inner.change(|state, now| {
            if let Some(node) = state.nodes.get_mut(node) {
                node.devices = devices;
            }
            state.look_at_node(node, now);
        });
    }
}

impl Drop for Hollow {
    fn drop(&mut self) {
        for timer in lock(&self.inner.state).timers.drain(..) {
            timer.abort();
        }
    }
}

impl Inner {
    /// Changes what is known, and wakes the loop.
    fn change(&self, with: impl FnOnce(&mut State, Instant)) {
        with(&mut lock(&self.state), Instant::now());
        self.wake.notify_one();
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Creates the object of a node that is known.
    async fn register(&self, name: &str) -> anyhow::Result<()> {
        let object = {
            let state = lock(&self.state);
            let node = state.nodes.get(name).with_context(|| format!("node {name} is not ours"))?;
            nodes::object(node, &self.options, &clock::stamp())
        };
        let object: Node = serde_json::from_value(object).context("a Node")?;
        let created = match self.nodes().create(&PostParams::default(), &object).await {
            Ok(created) => Some(created),
            // There already: the watch shows it, and it is made to look like ours.
            Err(kube::Error::Api(status)) if status.code == 409 => None,
            Err(error) => return Err(error).with_context(|| format!("node {name}")),
        };
        self.change(|state, now| {
            if let (Some(node), Some(created)) = (state.nodes.get_mut(name), created) {
                node.node = Some(Arc::new(created));
            }
            state.look_at_node(name, now);
        });
        Ok(())
    }

    async fn deed(&self, name: &str, deed: &Deed) -> anyhow::Result<()> {
        let person = PatchParams::default();
        match deed {
            Deed::Lose => self.change(|state, now| {
                state.lost_by_fault.insert(name.to_owned());
                state.set_lost(name, true, false, now);
            }),
            Deed::Restore => self.change(|state, now| {
                state.lost_by_fault.remove(name);
                state.set_lost(name, false, true, now);
            }),
            Deed::Health { kind, present } => {
                self.change(|state, now| state.set_health(name, kind, *present, now));
            }
            Deed::Cordon(cordon) => {
                let patch = json!({"spec": {"unschedulable": cordon}});
                self.nodes().patch(name, &person, &Patch::Merge(patch)).await?;
            }
            Deed::Relabel { label, value } => {
                let patch = json!({"metadata": {"labels": {label.as_str(): value}}});
                self.nodes().patch(name, &person, &Patch::Merge(patch)).await?;
            }
            Deed::Delete => {
                lock(&self.state).nodes.remove(name);
                self.nodes().delete(name, &DeleteParams::default()).await?;
            }
            Deed::Recreate => {
                let old = lock(&self.state).nodes.remove(name);
                let old = old.with_context(|| format!("node {name} is not ours"))?;
                self.nodes().delete(name, &DeleteParams::default()).await?;
                let mut fresh = NodeState::new(old.spec);
                fresh.boot = old.boot;
                self.change(|state, now| {
                    state.nodes.insert(name.to_owned(), fresh);
                    state.set_lost(name, false, true, now);
                });
                self.register(name).await?;
            }
        }
        Ok(())
    }
}
