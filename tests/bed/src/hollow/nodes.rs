//! Node objects: what they show, and the agents that act on their labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use drydock_sim::{BadNodeHow, How};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    face::Face,
    fate::{Brought, View, brought},
    options::{Agent, HollowOptions, NodeSpec},
    state::NodeState,
};

/// Taint of a node that doesn't answer.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// What is to be written about a node, if anything.
#[derive(Debug, Default)]
pub(super) struct NodePlan {
    /// A strategic merge patch of its status.
    pub(super) status: Option<Value>,
    /// Labels to set.
    pub(super) labels: BTreeMap<String, String>,
    /// A merge patch of its taints, bound to the version it was read at.
    pub(super) taints: Option<Value>,
    /// An agent's change takes the node with it.
    pub(super) lose: Option<Option<Duration>>,
    /// When to look again.
    pub(super) again: Option<Instant>,
    /// What the agents know now.
    pub(super) agents: Vec<(String, super::state::AgentState)>,
    /// Its devices after that.
    pub(super) devices: Option<BTreeMap<String, String>>,
    /// An agent began to change it.
    pub(super) touched: bool,
}

impl NodePlan {
    fn look(&mut self, when: Instant) {
        self.again = Some(self.again.map_or(when, |earlier| earlier.min(when)));
    }
}

/// A new Node object, as a kubelet registers it.
pub(super) fn object(state: &NodeState, options: &HollowOptions, stamp: &str) -> Value {
    let NodeSpec { name, labels, annotations, .. } = &state.spec;
    let mut all = labels.clone();
    for (key, value) in [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        all.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    let conditions: Vec<Value> = wanted_conditions(state, &BTreeSet::new(), options)
        .iter()
        .map(|(kind, (status, reason))| condition(kind, status, reason, stamp))
        .collect();
    let bare = BTreeMap::new();
    let devices = capacity(if options.device_plugin.is_some() { &bare } else { &state.devices });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": all, "annotations": annotations},
        "status": {
            "conditions": conditions, "capacity": devices, "allocatable": devices,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": node_info(state),
        },
    })
}

fn node_info(state: &NodeState) -> Value {
    json!({
        "machineID": format!("hollow-{}", state.spec.name), "systemUUID": format!("hollow-{}", state.spec.name),
        "bootID": state.boot_id(), "kernelVersion": state.spec.kernel, "osImage": "Ubuntu 24.04.2 LTS",
        "containerRuntimeVersion": "hollow://1", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
        "operatingSystem": "linux", "architecture": "amd64",
    })
}

fn capacity(devices: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = devices.clone();
    for (resource, amount) in
        [("cpu", "128"), ("memory", "1024Gi"), ("pods", "250"), ("ephemeral-storage", "1024Gi")]
    {
        all.entry(resource.to_owned()).or_insert_with(|| amount.to_owned());
    }
    all
}

fn condition(kind: &str, status: &str, reason: &str, stamp: &str) -> Value {
    let message = if status == "Unknown" { "Kubelet stopped posting node status." } else { "" };
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": stamp, "lastHeartbeatTime": stamp,
    })
}

/// Conditions that ours are to have: type to status and reason.
fn wanted_conditions(
    state: &NodeState,
    later: &BTreeSet<String>,
    options: &HollowOptions,
) -> BTreeMap<String, (String, String)> {
    let mut wanted = BTreeMap::new();
    let mut put = |kind: &str, status: &str, reason: &str| {
        wanted.insert(kind.to_owned(), (status.to_owned(), reason.to_owned()));
    };
    if state.lost {
        // With leases the node lifecycle controller finds out by itself; without it somebody must say so.
        if options.leases.is_none() {
            put("Ready", "Unknown", "NodeStatusUnknown");
        }
        return wanted;
    }
    put("Ready", "True", "KubeletReady");
    put("MemoryPressure", "False", "KubeletHasSufficientMemory");
    put("DiskPressure", "False", "KubeletHasNoDiskPressure");
    put("PIDPressure", "False", "KubeletHasSufficientPID");
    match state.health.iter().chain(later).next() {
        Some(kind) => put(&options.health_condition, "True", kind),
        None => put(&options.health_condition, "False", "Healthy"),
    }
    wanted
}

impl View<'_> {
    /// What is to be written about a node so that it shows what is true.
    pub(super) fn node_plan(&self, state: &NodeState, stamp: &str) -> NodePlan {
        let mut plan = NodePlan::default();
        let Some(node) = state.node.as_deref() else { return plan };
        let later = self.later_faults(state, &mut plan);
        plan.status = self.status_patch(state, node, &later, stamp);
        if self.options.leases.is_none() {
            plan.taints = taints_patch(node, state.lost, stamp);
        }
        if !state.lost {
            for agent in &self.options.agents {
                self.agent(agent, state, &mut plan);
            }
            self.features(state, &mut plan);
        }
        plan
    }

    /// Health faults of versions that are good at first.
    fn later_faults(&self, state: &NodeState, plan: &mut NodePlan) -> BTreeSet<String> {
        let mut kinds = BTreeSet::new();
        for (_, pod) in self.state.pods_on(&state.spec.name) {
            let Some(brought) = brought(&pod.pod, self.options) else { continue };
            if !matches!(pod.shown, Some(Face::Running { .. })) {
                continue;
            }
            for how in self.bad_version(state, &brought) {
                let How::FaultsLater { kind, after } = how else { continue };
                let at = pod.since + self.options.timings.start + Duration::from_millis(after.as_millis());
                if at <= self.now {
                    kinds.insert(kind.clone());
                } else {
                    plan.look(at);
                }
            }
        }
        kinds
    }

    fn status_patch(
        &self,
        state: &NodeState,
        node: &Node,
        later: &BTreeSet<String>,
        stamp: &str,
    ) -> Option<Value> {
        let status = node.status.as_ref();
        let shown = |kind: &str| {
            let conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
            conditions
                .filter(|c| c.type_ == kind)
                .map(|c| (c.status.clone(), c.reason.clone().unwrap_or_default()))
                .next()
        };
        // A condition that is as it was keeps its time.
        let conditions: Vec<Value> = wanted_conditions(state, later, self.options)
            .iter()
            .filter(|(kind, wanted)| shown(kind).as_ref() != Some(*wanted))
            .map(|(kind, (status, reason))| condition(kind, status, reason, stamp))
            .collect();
        let mut patch = Map::new();
        if !conditions.is_empty() {
            patch.insert("conditions".to_owned(), json!(conditions));
        }
        if !state.lost {
            let boot = status.and_then(|s| s.node_info.as_ref()).map(|info| info.boot_id.clone());
            if boot != Some(state.boot_id()) {
                patch.insert("nodeInfo".to_owned(), node_info(state));
            }
            let allocatable = status.and_then(|s| s.allocatable.as_ref());
            let shown: BTreeMap<&str, &str> =
                allocatable.into_iter().flatten().map(|(k, v)| (k.as_str(), v.0.as_str())).collect();
            let wanted = capacity(&self.advertised(state, &shown));
            let mut changes: BTreeMap<&str, Option<&str>> = wanted
                .iter()
                .filter(|(k, v)| shown.get(k.as_str()) != Some(&v.as_str()))
                .map(|(k, v)| (k.as_str(), Some(v.as_str())))
                .collect();
            changes.extend(shown.keys().filter(|k| !wanted.contains_key(**k)).map(|k| (*k, None)));
            if !changes.is_empty() {
                patch.insert("allocatable".to_owned(), json!(changes));
                patch.insert("capacity".to_owned(), json!(changes));
            }
        }
        (!patch.is_empty()).then(|| json!({"status": patch}))
    }

    /// What a kubelet tells of devices: what their plugin has said, with a count of 0 once that is gone.
    fn advertised(&self, state: &NodeState, shown: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
        let Some(plugin) = &self.options.device_plugin else { return state.devices.clone() };
        let serves = self.state.pods_on(&state.spec.name).any(|(_, pod)| {
            matches!(pod.shown, Some(Face::Running { ready: true, .. }))
                && brought(&pod.pod, self.options).is_some_and(|brought| brought.component == *plugin)
        });
        let known = state.devices.iter().filter(|(name, _)| serves || shown.contains_key(name.as_str()));
        known
            .map(|(name, count)| (name.clone(), if serves { count.clone() } else { "0".to_owned() }))
            .collect()
    }

    /// Feature discovery notes the versions of what is ready. What isn't ready leaves the label as it was.
    fn features(&self, state: &NodeState, plan: &mut NodePlan) {
        if self.options.features.is_empty() {
            return;
        }
        for (_, pod) in self.state.pods_on(&state.spec.name) {
            let ready = matches!(pod.shown, Some(Face::Running { ready: true, .. })) && pod.leaving.is_none();
            let Some(brought) = brought(&pod.pod, self.options).filter(|_| ready) else { continue };
            let Some(label) = self.options.features.get(&brought.component) else { continue };
            let version = brought.plain();
            if state.label(label) != Some(version) {
                plan.labels.insert(label.clone(), version.to_owned());
            }
        }
    }

    /// What an agent does about its label.
    fn agent(&self, agent: &Agent, state: &NodeState, plan: &mut NodePlan) {
        let Some(value) = state.label(&agent.label) else { return };
        let mut known = state.agents.get(&agent.label).cloned().unwrap_or_default();
        if known.wanted.is_none()
            && known.applied.is_none()
            && state.label(&agent.state_label) == Some("success")
        {
            // The node came with it.
            known.applied = Some(value.to_owned());
            plan.agents.push((agent.label.clone(), known));
            return;
        }
        let asked = match &known.wanted {
            Some((wanted, since)) if wanted == value => *since,
            None if known.applied.as_deref() == Some(value) => return,
            Some(_) | None => {
                known.wanted = Some((value.to_owned(), self.now));
                known.said = None;
                plan.touched = known.applied.is_some();
                self.now
            }
        };
        let done_at = asked + self.options.timings.agent;
        let says = if self.now < done_at {
            plan.look(done_at);
            "pending"
        } else {
            self.agent_result(agent, state, value, &mut known, plan)
        };
        if known.said.as_deref() != Some(says) {
            known.said = Some(says.to_owned());
            plan.labels.insert(agent.state_label.clone(), says.to_owned());
        }
        plan.agents.push((agent.label.clone(), known));
    }

    fn agent_result(
        &self,
        agent: &Agent,
        state: &NodeState,
        value: &str,
        known: &mut super::state::AgentState,
        plan: &mut NodePlan,
    ) -> &'static str {
        if known.said.as_deref() == Some("failed") {
            // It doesn't try again until it is asked for something else.
            return "failed";
        }
        let brought = Brought::exactly(agent.component.as_deref().unwrap_or_default(), value);
        for how in self.bad_layout(state, value).chain(self.bad_version(state, &brought)) {
            match how {
                How::CrashLoops => return "failed",
                How::NotReady | How::Hangs => return "pending",
                How::LosesNode { back_after } if known.applied.as_deref() != Some(value) => {
                    plan.lose = Some(back_after.map(|period| Duration::from_millis(period.as_millis())));
                }
                How::LosesNode { .. }
                | How::ReadyButBroken { .. }
                | How::HangsInCheck { .. }
                | How::Slow { .. }
                | How::FaultsLater { .. }
                // Refused where faults are read.
                | How::FailsEarly
                | How::FailsHalfway
                | How::NotFound
                | How::Wedges
                | How::Bricks
                | How::Flaps { .. }
                | How::SlowsDown { .. } => {}
            }
        }
        if self.bad_node(state, BadNodeHow::ApplyFails).next().is_some() {
            return "failed";
        }
        if known.applied.as_deref() != Some(value) {
            known.applied = Some(value.to_owned());
            plan.devices = agent.devices.as_ref().map(|devices| devices(&state.spec, value));
        }
        "success"
    }
}

/// The taints that a node which doesn't answer gets, and loses when it does again.
fn taints_patch(node: &Node, lost: bool, stamp: &str) -> Option<Value> {
    let taints = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let has = taints.iter().any(|t| t.key == UNREACHABLE);
    if has == lost {
        return None;
    }
    let mut all: Vec<Value> = taints.iter().filter(|t| t.key != UNREACHABLE).map(|t| json!(t)).collect();
    if lost {
        all.extend(
            ["NoSchedule", "NoExecute"].map(|e| json!({"key": UNREACHABLE, "effect": e, "timeAdded": stamp})),
        );
    }
    let version = node.metadata.resource_version.as_deref();
    Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": all}}))
}
