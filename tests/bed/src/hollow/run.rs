//! The loop of the hollow kubelets: events in, writes out, a bounded number at a time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use drydock_api::names;
use futures_util::StreamExt as _;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::Receiver,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    Inner,
    face::{self, Face},
    fate::{View, brought},
    faults::Deed,
    pods::Act,
    state::{Item, PodKey, PodState, State, node_of},
    watch::Event,
};
use crate::{clock, process::lock};

/// Pause before something refused is tried again.
const RETRY: Duration = Duration::from_millis(200);

pub(super) async fn run(inner: Arc<Inner>, mut pods: Receiver<Event<Pod>>, mut nodes: Receiver<Event<Node>>) {
    let mut busy: BTreeSet<Item> = BTreeSet::new();
    let mut work: JoinSet<Item> = JoinSet::new();
    loop {
        let next = loop {
            let mut state = lock(&inner.state);
            if busy.len() >= inner.options.in_flight {
                break None;
            }
            let Some(item) = state.take(Instant::now(), &busy) else { break state.next(&busy) };
            drop(state);
            busy.insert(item.clone());
            work.spawn(step(Arc::clone(&inner), item));
        };
        tokio::select! {
            Some(event) = pods.recv() => inner.change(|state, now| pod_event(&inner, state, event, now)),
            Some(event) = nodes.recv() => inner.change(|state, now| node_event(state, event, now)),
            Some(done) = work.join_next() => {
                if let Ok(item) = done {
                    busy.remove(&item);
                }
            }
            () = inner.wake.notified() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

fn pod_event(inner: &Inner, state: &mut State, event: Event<Pod>, now: Instant) {
    match event {
        Event::All(all) => {
            let keys: BTreeSet<PodKey> = all.iter().map(PodKey::of).collect();
            state.pods.retain(|key, _| keys.contains(key));
            for pod in all {
                let key = PodKey::of(&pod);
                set_pod(inner, state, pod, now);
                // What was written may be gone: the API server can have gone back to a backup.
                if let Some(known) = state.pods.get_mut(&key)
                    && !shows(&known.pod, known.shown.as_ref())
                {
                    known.shown = None;
                }
            }
        }
        Event::Set(pod) => set_pod(inner, state, pod, now),
        Event::Gone(pod) => {
            let key = PodKey::of(&pod);
            if state.pods.get(&key).is_some_and(|known| known.pod.metadata.uid == pod.metadata.uid) {
                state.pods.remove(&key);
            }
            if let Some(node) = node_of(&pod) {
                state.look(Item::Node(node.to_owned()), now);
            }
        }
    }
}

fn set_pod(inner: &Inner, state: &mut State, pod: Pod, now: Instant) {
    let Some(node) = node_of(&pod).map(str::to_owned) else { return };
    let key = PodKey::of(&pod);
    let pod = Arc::new(pod);
    let fresh = state.pods.get(&key).is_none_or(|known| known.pod.metadata.uid != pod.metadata.uid);
    if fresh {
        let mut new = PodState::new(Arc::clone(&pod), now);
        if pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running") {
            // It ran before we came: it isn't started again.
            let t = &inner.options.timings;
            new.since = now.checked_sub(t.start + t.ready).unwrap_or(now);
        }
        if let (Some(node), Some(brought)) = (state.nodes.get_mut(&node), brought(&pod, &inner.options)) {
            node.puts(&brought.component, &brought.version, now);
        }
        state.pods.insert(key.clone(), new);
    }
    if let Some(known) = state.pods.get_mut(&key) {
        if pod.metadata.deletion_timestamp.is_some() && known.leaving.is_none() {
            known.leaving = Some(now);
        }
        known.pod = pod;
    }
    state.look(Item::Pod(key), now);
}

/// Whether a pod's object shows this face, as far as it matters.
fn shows(pod: &Pod, face: Option<&Face>) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    let ready = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
    match face {
        None => true,
        Some(Face::Creating | Face::PullFails { .. }) => phase == "Pending",
        Some(Face::Running { ready: wanted, .. }) => phase == "Running" && ready == *wanted,
        Some(Face::CrashLoop { .. }) => phase == "Running" && !ready,
        Some(Face::Ended(_)) => matches!(phase, "Succeeded" | "Failed"),
    }
}

fn node_event(state: &mut State, event: Event<Node>, now: Instant) {
    let set = |state: &mut State, node: Node| {
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(known) = state.nodes.get_mut(&name) {
            known.node = Some(Arc::new(node));
            state.look(Item::Node(name), now);
        }
    };
    match event {
        Event::All(all) => all.into_iter().for_each(|node| set(state, node)),
        Event::Set(node) => set(state, node),
        Event::Gone(node) => {
            let name = node.metadata.name.clone().unwrap_or_default();
            let known = state.nodes.get_mut(&name);
            if let Some(known) = known
                && known.node.as_ref().is_some_and(|n| n.metadata.uid == node.metadata.uid)
            {
                known.node = None;
            }
        }
    }
}

async fn step(inner: Arc<Inner>, item: Item) -> Item {
    let done = match &item {
        Item::Pod(key) => inner.pod_step(key).await,
        Item::Node(name) => inner.node_step(name).await,
    };
    match done {
        Ok(Some(again)) => lock(&inner.state).look(item.clone(), again),
        Ok(None) => {}
        // Gone meanwhile: the watch says so.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => {
            tracing::debug!(?item, %error, "refused; once more");
            lock(&inner.state).look(item.clone(), Instant::now() + RETRY);
        }
    }
    item
}

impl Inner {
    fn view<'s>(&'s self, state: &'s State) -> View<'s> {
        View { state, options: &self.options, now: Instant::now(), clock: clock::now() }
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn pod_step(self: &Arc<Self>, key: &PodKey) -> kube::Result<Option<Instant>> {
        let (plan, pod) = {
            let mut state = lock(&self.state);
            let Some(known) = state.pods.get(key) else { return Ok(None) };
            let plan = self.view(&state).pod_plan(known);
            let pod = Arc::clone(&known.pod);
            if let (Some(back), Some(node)) = (plan.lose, node_of(&pod)) {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                if let Some(node) = state.nodes.get_mut(node) {
                    node.takers.insert(uid);
                }
                self.lose_for(&mut state, node, back);
            }
            (plan, pod)
        };
        let (api, uid) = (self.pods(&key.namespace), pod.metadata.uid.clone());
        match plan.act {
            Act::Nothing => {}
            Act::Show(face) => {
                let mut patch = face::status(&pod, &face, &clock::stamp());
                // Not the next pod of the same name.
                patch["metadata"] = json!({"uid": uid});
                api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
                self.change(|state, now| {
                    if let Some(known) = state.pods.get_mut(key).filter(|k| k.pod.metadata.uid == uid) {
                        known.shown = Some(face);
                    }
                    // Health faults that come later count from here.
                    if let Some(node) = node_of(&pod) {
                        state.look(Item::Node(node.to_owned()), now);
                    }
                });
            }
            Act::Finish => {
                let here = Preconditions { uid: uid.clone(), resource_version: None };
                let now = DeleteParams::default().grace_period(0).preconditions(here);
                api.delete(&key.name, &now).await?;
                if let Some(known) = lock(&self.state).pods.get_mut(key).filter(|k| k.pod.metadata.uid == uid)
                {
                    known.finished = true;
                }
            }
            Act::Checkpoint(request) => {
                let patch = json!({"metadata": {"annotations": {
                    names::CHECKPOINT_FOR: request, names::CHECKPOINT_DONE: clock::stamp(),
                }}});
                api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                if let Some(known) = lock(&self.state).pods.get_mut(key) {
                    known.checkpoint = Some(request);
                }
            }
        }
        Ok(plan.again)
    }

    async fn node_step(self: &Arc<Self>, name: &str) -> kube::Result<Option<Instant>> {
        let plan = {
            let mut state = lock(&self.state);
            let Some(node) = state.nodes.get(name) else { return Ok(None) };
            let view = self.view(&state);
            let plan = view.node_plan(node, &clock::stamp());
            let now = view.now;
            if let Some(node) = state.nodes.get_mut(name) {
                node.agents.extend(plan.agents.iter().cloned());
                if let Some(devices) = plan.devices.clone() {
                    node.devices = devices;
                    // They are shown in the next step, after the agent has said what it did.
                    state.look(Item::Node(name.to_owned()), now);
                }
            }
            if plan.touched
                && let Some(node) = state.nodes.get_mut(name)
            {
                node.touched = Some(now);
            }
            if let Some(back) = plan.lose {
                self.lose_for(&mut state, name, back);
            }
            plan
        };
        let api = self.nodes();
        let params = PatchParams::default();
        let mut shown = None;
        if let Some(patch) = &plan.status {
            shown = Some(api.patch_status(name, &params, &Patch::Strategic(patch)).await?);
        }
        if let Some(patch) = &plan.taints {
            // Read at a version: when somebody else was quicker, it is made anew from what they wrote.
            shown = Some(api.patch(name, &params, &Patch::Merge(with_version(patch, shown.as_ref()))).await?);
        }
        let labels = Patch::Merge(json!({"metadata": {"labels": plan.labels}}));
        if !plan.labels.is_empty()
            && let Err(error) = api.patch(name, &params, &labels).await
        {
            // It must be said again.
            if let Some(node) = lock(&self.state).nodes.get_mut(name) {
                node.agents.values_mut().for_each(|agent| agent.said = None);
            }
            return Err(error);
        }
        if let Some(node) = shown {
            lock(&self.state).newer(name, node);
        }
        Ok(plan.again)
    }

    /// A node goes, and comes back after this time if any.
    fn lose_for(self: &Arc<Self>, state: &mut State, name: &str, back: Option<Duration>) {
        state.lost_by_fault.insert(name.to_owned());
        state.set_lost(name, true, false, Instant::now());
        if let Some(back) = back {
            let (inner, name) = (Arc::clone(self), name.to_owned());
            let timer = tokio::spawn(async move {
                tokio::time::sleep(back).await;
                // It changes what is known and asks nobody, so it can't be refused.
                let _ = inner.deed(&name, &Deed::Restore).await;
            });
            state.timers.push(timer.abort_handle());
        }
    }
}

impl State {
    /// Takes the answer to a write for what the node is now, unless the watch was quicker.
    fn newer(&mut self, name: &str, answer: Node) {
        let number = |node: &Node| {
            node.metadata.resource_version.as_deref().and_then(|v| v.parse::<u64>().ok()).unwrap_or_default()
        };
        if let Some(node) = self.nodes.get_mut(name)
            && let Some(known) = &node.node
            && known.metadata.uid == answer.metadata.uid
            && number(known) < number(&answer)
        {
            node.node = Some(Arc::new(answer));
        }
    }
}

/// The same patch, bound to the version that a write of ours has just made.
fn with_version(patch: &Value, newest: Option<&Node>) -> Value {
    let mut patch = patch.clone();
    if let Some(version) = newest.and_then(|node| node.metadata.resource_version.as_deref()) {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    patch
}

/// Renews the lease of one node, or makes it.
pub(super) async fn renew(client: &Client, node: &str) -> kube::Result<()> {
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micros()},
    });
    api.patch(node, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await?;
    Ok(())
}

/// Now, as leases write it.
fn micros() -> String {
    format!("{:.6}", clock::now())
}

/// Renews the leases of all nodes that aren't lost, for ever.
pub(super) async fn renew_leases(inner: Arc<Inner>, every: Duration) {
    let mut tick = tokio::time::interval(every);
    loop {
        tick.tick().await;
        let names: Vec<String> = {
            let state = lock(&inner.state);
            state.nodes.iter().filter(|(_, node)| !node.lost).map(|(name, _)| name.clone()).collect()
        };
        futures_util::stream::iter(names)
            .for_each_concurrent(inner.options.in_flight, |name| {
                let client = inner.client.clone();
                async move {
                    if let Err(error) = renew(&client, &name).await {
                        tracing::debug!(name, %error, "a lease isn't renewed");
                    }
                }
            })
            .await;
    }
}
