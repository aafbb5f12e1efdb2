//! What the watches of one cluster have gathered, and how fresh it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::Kind;
use crate::ensure::Objects;
use crate::objects::{
    DaemonSetObject, DeploymentObject, JobObject, Key, NodeObject, OperatorObject, PodObject, Watched,
};

/// A stream that has said nothing for so long is taken for dead. The API server sends a bookmark about every minute;
/// two that are late and one that is missing.
pub const SILENCE_MAX: Duration = Duration::from_secs(150);

/// After an API server came back with older data than it had shown before, nothing is done for so long: kubelets report
/// within a minute, and whoever restored a backup is still at work.
pub(crate) const SETTLE: SignedDuration = SignedDuration::from_mins(2);

/// How one stream is.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedStatus {
    /// Its first list hasn't ended.
    Starting,
    /// Its stream is open.
    Live {
        /// When it said something last.
        heard: Instant,
    },
    /// It isn't open.
    Broken {
        /// Why.
        error: String,
    },
    /// The API server doesn't know the kind. A fact, not a failure.
    Absent,
}

/// How the streams of a cluster are, by the plural of their kind.
pub type Feeds = BTreeMap<&'static str, FeedStatus>;

/// Why the facts of a cluster can't be relied upon now.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// Nothing was seen of it yet.
    #[error("its {kind} haven't been listed yet")]
    Starting {
        /// The kind.
        kind: &'static str,
    },
    /// A stream is broken.
    #[error("its {kind} can't be watched: {error}")]
    Broken {
        /// The kind.
        kind: &'static str,
        /// Why.
        error: String,
    },
    /// A stream has been silent for too long.
    #[error("nothing was heard of its {kind} for {seconds} s")]
    Silent {
        /// The kind.
        kind: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// A kind that drydock can't do without isn't there.
    #[error("its API server doesn't know {kind}")]
    Absent {
        /// The kind.
        kind: &'static str,
    },
    /// The API server shows older data than before.
    #[error(
        "its API server went back to older data (a restored backup?); nothing is done there before {until}"
    )]
    WentBack {
        /// Until then.
        until: Timestamp,
    },
    /// Calls fail.
    #[error("its API server fails: {0}")]
    Calls(String),
}

/// Everything known of one cluster.
#[derive(Debug, Default)]
pub struct State {
    /// What is kept of its objects.
    pub objects: Objects,
    /// How its streams are.
    pub feeds: Feeds,
    /// What the inventory hasn't taken in yet.
    pub for_facts: Stirred,
    /// What the executor hasn't looked at yet.
    pub for_steps: Stirred,
    /// The highest version seen of each kind's list.
    pub highest: BTreeMap<&'static str, u64>,
    /// When its data went back.
    pub went_back: Option<Timestamp>,
    /// GPU pods that ended well, by node, since this process began.
    pub passed: BTreeMap<Arc<str>, u64>,
    /// Changes taken in so far.
    pub changes: u64,
    /// The newest thing known of its nodes is that one was deleted; a list that shows none says less.
    pub nodes_told_gone: bool,
}

/// Nodes whose facts may have changed since somebody looked at them last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stirred {
    /// These.
    pub nodes: BTreeSet<Arc<str>>,
    /// All of them: something that concerns the whole cluster has changed.
    pub all: bool,
}

impl Stirred {
    /// What has gathered, and begins anew.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
    /// Nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.all && self.nodes.is_empty()
    }
}

/// Kinds without which nothing can be said about a node.
const NEEDED: &[Kind] = &[Kind::NODE, Kind::POD, Kind::DAEMON_SET, Kind::DEPLOYMENT, Kind::JOB];

impl State {
    /// Why the facts can't be relied upon now; `None` when they are good.
    #[must_use]
    pub fn trouble(&self, now: Timestamp, instant: Instant) -> Option<Trouble> {
        for kind in NEEDED.iter().map(|kind| kind.plural) {
            match self.feeds.get(kind) {
                None | Some(FeedStatus::Starting) => return Some(Trouble::Starting { kind }),
                Some(FeedStatus::Absent) => return Some(Trouble::Absent { kind }),
                Some(FeedStatus::Broken { error }) => {
                    return Some(Trouble::Broken { kind, error: error.clone() });
                }
                Some(FeedStatus::Live { heard }) => {
                    let silent = instant.saturating_duration_since(*heard);
                    if silent > SILENCE_MAX {
                        return Some(Trouble::Silent { kind, seconds: silent.as_secs() });
                    }
                }
            }
        }
        let until = self.went_back?.checked_add(SETTLE).ok()?;
        (now < until).then_some(Trouble::WentBack { until })
    }

    /// Notes that a node has to be looked at again.
    pub fn touch(&mut self, node: Option<&str>) {
        if let Some(node) = node.filter(|n| !n.is_empty()) {
            let name: Arc<str> = Arc::from(node);
            self.for_facts.nodes.insert(Arc::clone(&name));
            self.for_steps.nodes.insert(name);
        }
    }
    /// Notes that every node has to be looked at again.
    pub fn touch_all(&mut self) {
        self.for_facts.all = true;
        self.for_steps.all = true;
    }
}

/// State shared between watches, executor and whoever asks.
#[derive(Debug, Default)]
pub struct Shared {
    state: Mutex<State>,
    pulse: watch::Sender<u64>,
}

impl Shared {
    /// The state. Held for moments only, never over an await.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the maps whole, so a panic elsewhere can't have left them half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Tells everybody who has subscribed that something has changed. A pulse that nobody awaits just then isn't lost.
    pub fn pulse(&self) {
        self.pulse.send_modify(|beats| *beats = beats.wrapping_add(1));
    }
    /// Pulses from now on.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }
}

/// An object with a place in [`State`].
pub trait Kept: Watched {
    /// Takes it in.
    fn put(self, state: &mut State);
    /// Forgets it.
    fn remove(key: &Key, state: &mut State);
    /// Keys of all that are kept of its kind.
    fn keys(state: &State) -> Vec<Key>;
}

impl Kept for NodeObject {
    fn put(self, state: &mut State) {
        let name: Arc<str> = Arc::from(self.meta.name.as_str());
        if !state.objects.nodes.get(&name).is_some_and(|old| only_a_heartbeat(old, &self)) {
            state.touch(Some(&name));
        }
        state.objects.nodes.insert(name, Arc::new(self));
    }
    fn remove(key: &Key, state: &mut State) {
        state.objects.nodes.remove(&*key.name);
        state.touch(Some(&key.name));
    }
    fn keys(state: &State) -> Vec<Key> {
        state
            .objects
            .nodes
            .keys()
            .map(|name| Key { namespace: Arc::from(""), name: Arc::clone(name) })
            .collect()
    }
}

/// A kubelet's heartbeat changes nothing but the version, which is worth no look at the node.
fn only_a_heartbeat(old: &NodeObject, new: &NodeObject) -> bool {
    let mut same = old.clone();
    same.meta.resource_version.clone_from(&new.meta.resource_version);
    same == *new
}

impl Kept for PodObject {
    fn put(self, state: &mut State) {
        let key = self.key();
        let before = state.objects.pods.get(&key).cloned();
        if let Some(node) = before.as_ref().and_then(|old| old.node.as_deref())
            && self.node.as_deref() != Some(node)
        {
            unbind(state, node, &key);
        }
        let ended_now = before.as_ref().is_some_and(|old| !old.finished() && old.meta.uid == self.meta.uid);
        if let Some(node) = self.node.as_deref() {
            let name: Arc<str> = Arc::from(node);
            if ended_now && self.on_gpus() && self.phase == crate::objects::PodPhase::Succeeded {
                *state.passed.entry(Arc::clone(&name)).or_default() += 1;
            }
            state.objects.on_node.entry(name).or_default().insert(key.clone());
        }
        if let Some(gang) = before.as_ref().and_then(|old| old.gang()) {
            leave_gang(state, &gang, &key);
        }
        if let Some(gang) = self.gang().filter(|_| self.on_gpus() && self.node.is_some() && !self.finished())
        {
            state.objects.gangs.entry(gang).or_default().insert(key.clone());
        }
        state.touch(self.node.as_deref());
        state.objects.pods.insert(key, Arc::new(self));
    }
    fn remove(key: &Key, state: &mut State) {
        let Some(old) = state.objects.pods.remove(key) else { return };
        if let Some(gang) = old.gang() {
            leave_gang(state, &gang, key);
        }
        if let Some(node) = old.node.as_deref() {
            unbind(state, node, key);
            state.touch(Some(node));
        }
    }
    fn keys(state: &State) -> Vec<Key> {
        state.objects.pods.keys().cloned().collect()
    }
}

fn leave_gang(state: &mut State, gang: &str, key: &Key) {
    if let Some(keys) = state.objects.gangs.get_mut(gang) {
        keys.remove(key);
        if keys.is_empty() {
            state.objects.gangs.remove(gang);
        }
    }
}

fn unbind(state: &mut State, node: &str, key: &Key) {
    if let Some(keys) = state.objects.on_node.get_mut(node) {
        keys.remove(key);
        if keys.is_empty() {
            state.objects.on_node.remove(node);
        }
    }
}

macro_rules! kept {
    ($name:ty, $field:ident) => {
        impl Kept for $name {
            fn put(self, state: &mut State) {
                state.touch_all();
                state.objects.$field.insert(self.key(), Arc::new(self));
            }
            fn remove(key: &Key, state: &mut State) {
                state.touch_all();
                state.objects.$field.remove(key);
            }
            fn keys(state: &State) -> Vec<Key> {
                state.objects.$field.keys().cloned().collect()
            }
        }
    };
}
kept!(DeploymentObject, deployments);
kept!(OperatorObject<false>, drivers);
kept!(OperatorObject<true>, policies);

impl Kept for DaemonSetObject {
    /// Its status changes with every pod of it; nodes are told by their own pods.
    fn put(self, state: &mut State) {
        let before = state.objects.daemon_sets.insert(self.key(), Arc::new(self.clone()));
        // Steps wait for it to be there, and somebody may have edited it.
        if before.is_none_or(|before| before.template != self.template) {
            state.for_steps.all = true;
        }
    }
    fn remove(key: &Key, state: &mut State) {
        if state.objects.daemon_sets.remove(key).is_some() {
            state.for_steps.all = true;
        }
    }
    fn keys(state: &State) -> Vec<Key> {
        state.objects.daemon_sets.keys().cloned().collect()
    }
}

impl Kept for JobObject {
    /// A Job made for a node concerns that node.
    fn put(self, state: &mut State) {
        let node = self.meta.label(drydock_api::names::NODE).map(str::to_owned);
        state.touch(node.as_deref());
        state.objects.jobs.insert(self.key(), Arc::new(self));
    }
    fn remove(key: &Key, state: &mut State) {
        if let Some(old) = state.objects.jobs.remove(key) {
            let node = old.meta.label(drydock_api::names::NODE).map(str::to_owned);
            state.touch(node.as_deref());
        }
    }
    fn keys(state: &State) -> Vec<Key> {
        state.objects.jobs.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pod(name: &str, node: Option<&str>, phase: &str) -> PodObject {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"nodeName": node, "containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            "status": {"phase": phase}
        }))
        .unwrap()
    }

    #[test]
    fn pods_are_found_by_their_node() {
        let mut state = State::default();
        pod("p", None, "Pending").put(&mut state);
        assert!(state.for_facts.is_empty() && state.objects.on_node.is_empty());
        pod("p", Some("n1"), "Running").put(&mut state);
        pod("q", Some("n1"), "Running").put(&mut state);
        assert_eq!(state.objects.pods_on("n1").count(), 2);
        pod("p", Some("n1"), "Succeeded").put(&mut state);
        assert_eq!(state.passed.get("n1"), Some(&1));
        PodObject::remove(&Key::new("a", "p"), &mut state);
        PodObject::remove(&Key::new("a", "q"), &mut state);
        assert!(state.objects.on_node.is_empty() && state.objects.pods.is_empty());
        assert_eq!(state.for_steps.take().nodes.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn facts_are_good_only_while_every_stream_is_heard() {
        let mut state = State::default();
        let (now, start) = (Timestamp::constant(1_000, 0), Instant::now());
        assert!(matches!(state.trouble(now, start), Some(Trouble::Starting { .. })));
        for kind in NEEDED {
            state.feeds.insert(kind.plural, FeedStatus::Live { heard: start });
        }
        assert_eq!(state.trouble(now, start), None);
        let later = start + SILENCE_MAX + Duration::from_secs(1);
        assert!(matches!(state.trouble(now, later), Some(Trouble::Silent { .. })));
        state.went_back = Some(now);
        assert!(matches!(state.trouble(now, start), Some(Trouble::WentBack { .. })));
        assert_eq!(state.trouble(now.checked_add(SETTLE).unwrap(), start), None);
        state.feeds.insert("pods", FeedStatus::Broken { error: "403".to_owned() });
        let text = state.trouble(now, start).unwrap().to_string();
        assert_eq!(text, "its pods can't be watched: 403");
    }
}
