//! What the hollow kubelets know: their nodes, their pods, the faults, and what is to be looked at when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use drydock_sim::FaultSpec;
use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::{task::AbortHandle, time::Instant};

use super::options::{NodeSpec, PodSelector};

/// A pod by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodKey {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl PodKey {
    pub(super) fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Node(String),
    Pod(PodKey),
}

/// One pod on one of our nodes.
#[derive(Debug, Clone)]
pub(super) struct PodState {
    pub(super) pod: Arc<Pod>,
    /// When its present life began: it was seen, or its node came back.
    pub(super) since: Instant,
    /// How often it had started anew before that.
    pub(super) restarts: u32,
    /// The face that was written last.
    pub(super) shown: Option<super::face::Face>,
    /// When its deletion was seen.
    pub(super) leaving: Option<Instant>,
    /// The request for a checkpoint that was answered.
    pub(super) checkpoint: Option<String>,
    /// Its node went away under it and it doesn't start again by itself.
    pub(super) cut_off: bool,
    /// Its end was asked of the API server; a finalizer may still hold it.
    pub(super) finished: bool,
}

/// One of our nodes.
#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) spec: NodeSpec,
    /// As the API server last showed it.
    pub(super) node: Option<Arc<Node>>,
    /// Number of its boot: part of the boot id.
    pub(super) boot: u32,
    pub(super) lost: bool,
    /// Health faults that are present, by kind.
    pub(super) health: BTreeSet<String>,
    /// What its devices are now.
    pub(super) devices: BTreeMap<String, String>,
    /// What the agents have done, by label.
    pub(super) agents: BTreeMap<String, AgentState>,
    /// The versions that were here first, by component. Another one is a change.
    pub(super) first: BTreeMap<String, String>,
    /// When something on it was last changed.
    pub(super) touched: Option<Instant>,
    /// Pods by uid that have taken the node with them.
    pub(super) takers: BTreeSet<String>,
}

/// How far an agent is with its label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AgentState {
    /// The value it acts on, and since when.
    pub(super) wanted: Option<(String, Instant)>,
    /// The value that is in force on the node.
    pub(super) applied: Option<String>,
    /// The state it has written last.
    pub(super) said: Option<String>,
}

impl NodeState {
    pub(super) fn new(spec: NodeSpec) -> Self {
        Self {
            devices: spec.devices.clone(),
            spec,
            node: None,
            boot: 0,
            lost: false,
            health: BTreeSet::new(),
            agents: BTreeMap::new(),
            first: BTreeMap::new(),
            touched: None,
            takers: BTreeSet::new(),
        }
    }
    /// A label as the API server last showed it.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let node = self.node.as_ref()?;
        node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }
    /// A boot that is told from the one before, in the form of a kernel's.
    pub(super) fn boot_id(&self) -> String {
        let name = self.spec.name.bytes().fold(0u64, |hash, b| hash.wrapping_mul(131).wrapping_add(b.into()));
        format!("{:08x}-0000-4000-8000-{:012x}", self.boot, name & 0xffff_ffff_ffff)
    }
    /// Notes that a version of a component is put here; another than the first is a change.
    pub(super) fn puts(&mut self, component: &str, version: &str, now: Instant) {
        let first = self.first.entry(component.to_owned()).or_insert_with(|| version.to_owned());
        if first != version {
            version.clone_into(first);
            self.touched = Some(now);
        }
    }
}

/// A fault that is in force.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) spec: FaultSpec,
    pub(super) since: Instant,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<String, NodeState>,
    pub(super) pods: BTreeMap<PodKey, PodState>,
    pub(super) faults: Vec<Fault>,
    /// Tasks that wait for the moment of a fault.
    pub(super) timers: Vec<AbortHandle>,
    /// Nodes that faults have lost: they come back when faults are cleared.
    pub(super) lost_by_fault: BTreeSet<String>,
    /// Pieces of names of images that can't be pulled.
    pub(super) broken_images: Vec<String>,
    /// Pods that never terminate.
    pub(super) stuck: Vec<PodSelector>,
    /// What must be looked at, by time.
    due: BTreeSet<(Instant, Item)>,
    at: BTreeMap<Item, Instant>,
}

impl State {
    /// Asks for a look at something at a time; an earlier appointment stands.
    pub(super) fn look(&mut self, item: Item, when: Instant) {
        match self.at.get(&item) {
            Some(earlier) if *earlier <= when => return,
            Some(later) => {
                self.due.remove(&(*later, item.clone()));
            }
            None => {}
        }
        self.at.insert(item.clone(), when);
        self.due.insert((when, item));
    }

    /// Asks for a look at everything now.
    pub(super) fn look_at_all(&mut self, now: Instant) {
        let nodes = self.nodes.keys().cloned().map(Item::Node);
        let pods = self.pods.keys().cloned().map(Item::Pod);
        for item in nodes.chain(pods).collect::<Vec<_>>() {
            self.look(item, now);
        }
    }

    /// Asks for a look at a node and its pods.
    pub(super) fn look_at_node(&mut self, node: &str, now: Instant) {
        self.look(Item::Node(node.to_owned()), now);
        for key in self.keys_on(node) {
            self.look(Item::Pod(key), now);
        }
    }

    /// Takes the first appointment whose time has come and that isn't `busy`.
    pub(super) fn take(&mut self, now: Instant, busy: &BTreeSet<Item>) -> Option<Item> {
        let found = self
            .due
            .iter()
            .take_while(|(when, _)| *when <= now)
            .find(|(_, item)| !busy.contains(item))
            .cloned()?;
        self.due.remove(&found);
        self.at.remove(&found.1);
        Some(found.1)
    }

    /// When the next appointment is, those of busy things apart.
    pub(super) fn next(&self, busy: &BTreeSet<Item>) -> Option<Instant> {
        self.due.iter().find(|(_, item)| !busy.contains(item)).map(|(when, _)| *when)
    }

    pub(super) fn keys_on(&self, node: &str) -> Vec<PodKey> {
        self.pods_on(node).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn pods_on<'s>(&'s self, node: &'s str) -> impl Iterator<Item = (&'s PodKey, &'s PodState)> {
        self.pods.iter().filter(move |(_, state)| node_of(&state.pod) == Some(node))
    }

    /// Loses a node, or brings it back. Back after a boot its containers start anew, as after a power cut.
    pub(super) fn set_lost(&mut self, name: &str, lost: bool, booted: bool, now: Instant) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.lost = lost;
        if !lost && booted {
            node.boot += 1;
            for key in self.keys_on(name) {
                if let Some(pod) = self.pods.get_mut(&key) {
                    pod.begin_anew(now);
                }
            }
        }
        self.look_at_node(name, now);
    }
}

impl PodState {
    pub(super) fn new(pod: Arc<Pod>, now: Instant) -> Self {
        Self {
            pod,
            since: now,
            restarts: 0,
            shown: None,
            leaving: None,
            checkpoint: None,
            cut_off: false,
            finished: false,
        }
    }
    fn begin_anew(&mut self, now: Instant) {
        // What had run starts again, and what mustn't start again has ended.
        if matches!(self.shown, Some(super::face::Face::Running { .. } | super::face::Face::CrashLoop { .. }))
        {
            self.restarts += 1;
            self.cut_off = never_restarts(&self.pod);
        }
        self.since = now;
    }
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
    /// Whether its end is written down: then nothing changes it any more.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.pod.status.as_ref().and_then(|s| s.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }
}

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(super) fn never_restarts(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) == Some("Never")
}

pub(super) fn pod_label<'p>(pod: &'p Pod, key: &str) -> Option<&'p str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

pub(super) fn pod_annotation<'p>(pod: &'p Pod, key: &str) -> Option<&'p str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

impl State {
    /// A health fault appears on a node, or goes.
    pub(super) fn set_health(&mut self, name: &str, kind: &str, present: bool, now: Instant) {
        if let Some(node) = self.nodes.get_mut(name) {
            if present {
                node.health.insert(kind.to_owned());
            } else {
                node.health.remove(kind);
            }
        }
        self.look(Item::Node(name.to_owned()), now);
    }
}
