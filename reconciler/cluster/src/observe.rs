//! From what is kept of a cluster to what the planner calls observed. Facts only.

use std::collections::BTreeMap;
use std::sync::Arc;

use drydock_api::names;
use drydock_plan::{
    Cordon, Epoch, GangId, HealthFault, NodeId, ObservedGang, ObservedNode, Stack, StepReport, Work,
};
use drydock_spec::{
    ClusterName, ComponentName, ComponentVersion, Delivery, Fleet, LayoutId, ObjectRef, ReleaseVector,
};
use jiff::{SignedDuration, Timestamp};

use crate::delivery;
use crate::ensure::apply::{label, operator};
use crate::ensure::{Settings, partition};
use crate::objects::{Key, NodeObject, PodObject};
use crate::watch::State;

/// A pod that is gone for less than this is being replaced; what it ran still counts as running, so that a DaemonSet
/// controller's second isn't a change of the fleet.
const REPLACED_WITHIN: SignedDuration = SignedDuration::from_secs(90);

/// A pod of a component that isn't ready for longer than this is a fault of its node. Shorter is a restart.
const UNREADY_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Component vectors kept for sharing between nodes. Fleets run a handful at a time.
const STACKS_MAX: usize = 1_000;

/// What is remembered between two looks at a cluster.
#[derive(Debug, Default)]
pub struct Observer {
    nodes: BTreeMap<Arc<str>, Memory>,
    stacks: BTreeMap<ReleaseVector, Arc<Stack>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// What ran when it was seen last, and since when it isn't seen any more.
    running: BTreeMap<ComponentName, (ComponentVersion, Option<Timestamp>)>,
    /// Since when a component's pod isn't ready.
    unready: BTreeMap<ComponentName, Timestamp>,
    /// Ready condition and since when it has been seen so, by the own clock.
    ready: Option<(bool, Timestamp)>,
}

/// What a look at one node needs.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// What is kept of it.
    pub state: &'a State,
    /// The documents in force.
    pub fleet: &'a Fleet,
    /// Settings.
    pub settings: &'a Settings,
    /// Now.
    pub now: Timestamp,
}

impl Observer {
    /// What is observed of a node. `in_hand`: drydock is at work on it, so a pod that isn't ready is no news.
    /// Also the instant at which the answer would differ by time alone.
    pub fn node(
        &mut self,
        look: Look<'_>,
        node: &NodeObject,
        report: Option<StepReport>,
        in_hand: bool,
    ) -> (ObservedNode, Option<Timestamp>) {
        let name: Arc<str> = Arc::from(node.meta.name.as_str());
        let memory = self.nodes.entry(Arc::clone(&name)).or_default();
        let mut wake = None;
        let (vector, faults) = memory.components(look, node, in_hand, &mut wake);
        let running = stack(&mut self.stacks, vector);
        let ready_since = match memory.ready {
            Some((ready, since)) if ready == node.ready => since,
            // Seen for the first time: the node's own clock says since when, as far as it isn't ahead.
            None => node.ready_since.map_or(look.now, |since| since.min(look.now)),
            Some(_) => look.now,
        };
        memory.ready = Some((node.ready, ready_since));
        let observed = ObservedNode {
            uid: Arc::from(node.meta.uid.as_str()),
            pool: None,
            contested: Vec::new(),
            labels: node.meta.labels.clone(),
            domains: [None, None, None, None],
            gpus: gpus(node),
            kernel: Arc::from(node.kernel.as_str()),
            boot_id: node.boot_number(),
            ready: node.ready,
            ready_since,
            cordon: Cordon { own: node.own_cordon().map(Epoch), foreign: node.foreign_cordon() },
            running,
            layout: layout(look, node),
            work: work(look, &name),
            faults,
            report,
        };
        (observed, wake)
    }

    /// Forgets nodes that don't exist any more.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.nodes.retain(|name, _| exists(name));
    }
}

impl Memory {
    fn components(
        &mut self,
        look: Look<'_>,
        node: &NodeObject,
        in_hand: bool,
        wake: &mut Option<Timestamp>,
    ) -> (ReleaseVector, Vec<HealthFault>) {
        let (mut vector, mut faults) = (BTreeMap::new(), Vec::new());
        for (name, component) in &look.fleet.components {
            let seen = running(look, node, name, &component.spec.delivery);
            if let Some(version) = self.debounced(look, name, seen.version, in_hand, wake) {
                vector.insert(name.clone(), version);
            }
            match (seen.ready, in_hand) {
                (false, false) => {
                    let since = *self.unready.entry(name.clone()).or_insert(look.now);
                    let until = since.checked_add(UNREADY_AFTER).unwrap_or(Timestamp::MAX);
                    if look.now >= until {
                        faults.push(HealthFault { kind: format!("not-ready-{name}"), since, recovery: None });
                    } else {
                        *wake = Some(wake.map_or(until, |at| at.min(until)));
                    }
                }
                _ => {
                    self.unready.remove(name);
                }
            }
        }
        (ReleaseVector(vector), faults)
    }

    fn debounced(
        &mut self,
        look: Look<'_>,
        name: &ComponentName,
        seen: Option<ComponentVersion>,
        in_hand: bool,
        wake: &mut Option<Timestamp>,
    ) -> Option<ComponentVersion> {
        if let Some(version) = seen {
            self.running.insert(name.clone(), (version.clone(), None));
            return Some(version);
        }
        let (version, gone) = self.running.get_mut(name)?;
        let since = *gone.get_or_insert(look.now);
        let until = since.checked_add(REPLACED_WITHIN).unwrap_or(Timestamp::MAX);
        if !in_hand && look.now < until {
            *wake = Some(wake.map_or(until, |at| at.min(until)));
            return Some(version.clone());
        }
        if look.now >= until {
            self.running.remove(name);
        }
        None
    }
}

struct Seen {
    version: Option<ComponentVersion>,
    /// False only when something is there and doesn't work.
    ready: bool,
}

fn running(look: Look<'_>, node: &NodeObject, name: &ComponentName, delivery: &Delivery) -> Seen {
    let of_pod = |pod: Option<&Arc<PodObject>>| Seen {
        version: pod.and_then(|pod| delivery::of_pod(pod)),
        ready: pod.is_none_or(|pod| pod.ready),
    };
    let quiet = |version| Seen { version, ready: true };
    let node_name = node.meta.name.as_str();
    match delivery {
        Delivery::DaemonSet(object) => of_pod(daemon_pod(look, node_name, name, object)),
        Delivery::NvidiaDriver(_) | Delivery::ClusterPolicy(_) => {
            let pods = operator::driver_pods(look.state.objects.pods_on(node_name));
            let pod = pods.min_by_key(|pod| (pod.leaving(), !pod.ready));
            let mut seen = of_pod(pod);
            seen.version = seen.version.map(|version| exact_of_operator(look, node, name, delivery, version));
            seen
        }
        Delivery::Deployment(object) => quiet(deployment(look, object)),
        Delivery::Job(_) => {
            let key = format!("{}{name}", names::APPLIED_PREFIX);
            quiet(delivery::noted(node.meta.annotation(&key)))
        }
        Delivery::Label(agent) => {
            let done = label::meaning(agent, node.meta.label(&agent.state)) == label::Meaning::Done;
            let value = node.meta.label(&agent.set).filter(|_| done);
            quiet(value.and_then(delivery::plain))
        }
        Delivery::Observe {} => {
            // The one fact about a loaded driver that feature discovery writes for everybody.
            let value = node.meta.label("nvidia.com/cuda.driver-version.full");
            quiet(value.and_then(delivery::plain))
        }
    }
}

/// The pod of a component that is delivered by DaemonSet: drydock's own, or that of the install that was there before.
fn daemon_pod<'a>(
    look: Look<'a>,
    node: &str,
    name: &ComponentName,
    object: &ObjectRef,
) -> Option<&'a Arc<PodObject>> {
    let namespace = object.namespace.as_deref().unwrap_or(&look.settings.namespace);
    let pods = look.state.objects.pods_on(node).filter(|pod| pod.of_daemon_set());
    let own = |pod: &PodObject| pod.meta.label(names::COMPONENT) == Some(name.as_str());
    let adopted = |pod: &PodObject| {
        pod.meta.namespace == namespace && pod.meta.controller().is_some_and(|o| o.name == object.name)
    };
    pods.filter(|pod| own(pod) || adopted(pod)).min_by_key(|pod| (pod.leaving(), !own(pod), !pod.ready))
}

/// An operator's pod tells its version by its image; digest and settings stand on the object that drydock made.
fn exact_of_operator(
    look: Look<'_>,
    node: &NodeObject,
    name: &ComponentName,
    delivery: &Delivery,
    seen: ComponentVersion,
) -> ComponentVersion {
    let noted = match delivery {
        Delivery::NvidiaDriver(_) => {
            let slug = node.meta.label(&delivery::label_key(name));
            look.state.objects.drivers.values().find_map(|driver| {
                let version = delivery::noted(driver.meta.annotation(names::VERSION))?;
                (Some(delivery::slug(&version).as_str()) == slug).then_some(version)
            })
        }
        Delivery::ClusterPolicy(object) => {
            let policy = look.state.objects.policies.get(&Key::new("", &object.name));
            policy.and_then(|policy| delivery::noted(policy.meta.annotation(names::VERSION)))
        }
        _ => None,
    };
    noted
        .filter(|noted| noted.version == seen.version || noted.digest == seen.digest && seen.digest.is_some())
        .unwrap_or(seen)
}

fn deployment(look: Look<'_>, object: &ObjectRef) -> Option<ComponentVersion> {
    let namespace = object.namespace.as_deref().unwrap_or(&look.settings.namespace);
    let live = look.state.objects.deployments.get(&Key::new(namespace, &object.name))?;
    delivery::noted(live.version.as_deref()).or_else(|| delivery::of_image(live.images.first()?))
}

/// Whole GPUs. Partitions and shares are counted back by what feature discovery says of the node.
fn gpus(node: &NodeObject) -> u32 {
    let count = |name: &str| node.devices.get(name).copied().unwrap_or(0);
    let whole = count("nvidia.com/gpu").max(count("amd.com/gpu"));
    let labelled = node.meta.label("nvidia.com/gpu.count").and_then(|n| n.parse().ok());
    let cut =
        node.devices.iter().any(|(name, n)| *n > 0 && (name.contains("mig-") || name.ends_with(".shared")));
    match labelled {
        Some(count) if cut => count,
        Some(count) => whole.min(count),
        None => whole,
    }
}

fn layout(look: Look<'_>, node: &NodeObject) -> Option<LayoutId> {
    let agent = partition::agent(look.fleet)?;
    if label::meaning(agent, node.meta.label(&agent.state)) != label::Meaning::Done {
        return None;
    }
    let name = node.meta.label(&agent.set)?;
    let (_, layout) = look.fleet.layouts.iter().find(|(layout, _)| layout.as_str() == name)?;
    let pool = delivery::pool_of(look.fleet, look.cluster, &node.meta.labels);
    // The label says what was asked for; the devices say what is.
    let expected = pool.and_then(|pool| partition::expected(&layout.spec, pool.gpu.count));
    let fits = expected.is_none_or(|expected| partition::fits(&expected, &node.devices));
    fits.then(|| drydock_spec::layout_id(&layout.spec))
}

fn work(look: Look<'_>, name: &Arc<str>) -> Work {
    let state = look.state;
    let holding = |pod: &&Arc<PodObject>| {
        pod.on_gpus() && !pod.finished() && !pod.of_daemon_set() && pod.meta.label(names::CHECK).is_none()
    };
    let pods: Vec<&Arc<PodObject>> = state.objects.pods_on(name).filter(holding).collect();
    let mut gangs: Vec<GangId> = pods
        .iter()
        .filter_map(|pod| pod.gang())
        .filter(|gang| spans_nodes(state, gang))
        .map(|gang| GangId::of(look.cluster, &gang))
        .collect();
    gangs.sort_unstable();
    gangs.dedup();
    let jobs_passed = state.passed.get(name).copied().unwrap_or(0);
    Work { gpu_pods: u32::try_from(pods.len()).unwrap_or(u32::MAX), gangs, jobs_passed }
}

fn members<'a>(state: &'a State, gang: &str) -> impl Iterator<Item = &'a Arc<PodObject>> {
    state.objects.gangs.get(gang).into_iter().flatten().filter_map(|key| state.objects.pods.get(key))
}

fn spans_nodes(state: &State, gang: &str) -> bool {
    let mut nodes = members(state, gang).filter_map(|pod| pod.node.as_deref());
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

/// Jobs of a cluster that span nodes.
#[must_use]
pub fn gangs(look: Look<'_>) -> BTreeMap<GangId, ObservedGang> {
    let names = look.state.objects.gangs.keys().filter(|gang| spans_nodes(look.state, gang));
    names.map(|gang| (GangId::of(look.cluster, gang), observe_gang(look, gang))).collect()
}

fn observe_gang(look: Look<'_>, gang: &str) -> ObservedGang {
    let mut nodes: Vec<NodeId> = members(look.state, gang)
        .filter_map(|pod| Some(NodeId::of(look.cluster, pod.node.as_deref()?)))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let time =
        |pod: &Arc<PodObject>, key: &str| pod.meta.annotation(key).and_then(|t| t.parse::<Timestamp>().ok());
    let begun = members(look.state, gang).filter_map(|pod| pod.meta.creation_timestamp).max();
    let saved = members(look.state, gang).filter_map(|pod| time(pod, names::CHECKPOINT_DONE)).max();
    ObservedGang {
        tenant: None,
        nodes,
        // A clock that is ahead must not make a checkpoint of the future.
        last_checkpoint: saved.or(begun).unwrap_or(look.now).min(look.now),
        expected_end: members(look.state, gang).filter_map(|pod| time(pod, names::EXPECTED_END)).max(),
    }
}

fn stack(stacks: &mut BTreeMap<ReleaseVector, Arc<Stack>>, vector: ReleaseVector) -> Arc<Stack> {
    if let Some(stack) = stacks.get(&vector) {
        return Arc::clone(stack);
    }
    if stacks.len() >= STACKS_MAX {
        stacks.clear();
    }
    let stack = Arc::new(Stack::new(vector.clone()));
    stacks.insert(vector, Arc::clone(&stack));
    stack
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::ensure::fixture::Scene;

    /// Two clusters had a job of the same name, and the nodes of one counted as the gang's of both.
    #[test]
    fn jobs_of_the_same_name_in_two_clusters_are_two_gangs() {
        let node = |name: &str| json!({"metadata": {"name": name, "labels": {"pool": "p"}}});
        let pod = |name: &str, node: &str| {
            json!({"metadata": {"name": name, "namespace": "team", "uid": name, "labels": {names::GANG: "train"}},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x",
                    "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
                "status": {"phase": "Running"}})
        };
        let scene = || {
            Scene::node(node("n1"))
                .with::<NodeObject>([node("n2")])
                .with::<PodObject>([pod("a", "n1"), pod("b", "n2")])
        };
        let (one, mut two) = (scene(), scene());
        two.cluster = "c2".parse().unwrap();
        let mut all = BTreeMap::new();
        for scene in [&one, &two] {
            let look = Look {
                cluster: &scene.cluster,
                state: &scene.state,
                fleet: &scene.fleet,
                settings: &scene.settings,
                now: scene.now,
            };
            let own = gangs(look);
            let of_node = work(look, &Arc::from("n1")).gangs;
            assert_eq!(own.keys().cloned().collect::<Vec<_>>(), of_node);
            assert_eq!(of_node[0].job(), "team/train");
            all.extend(own);
        }
        let nodes: Vec<&str> = all.values().flat_map(|gang| gang.nodes.iter().map(NodeId::as_str)).collect();
        assert_eq!(nodes, ["c1/n1", "c1/n2", "c2/n1", "c2/n2"]);
    }
}
