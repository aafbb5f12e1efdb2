//! What an action asks for, made true step by step: pure functions from what is seen to the next calls.
//!
//! Nothing here does IO. A function looks at the node, at what is on it and at what was tried for this very intent so
//! far ([`Effort`]), and says how far the intent is and what to call next ([`Outcome`]). The runner makes the calls
//! and asks again when something has changed. Asking twice is asking once: every function first looks whether what
//! it wants is so already.

pub mod apply;
mod check;
mod cordon;
mod drain;
mod effort;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod fixture;
pub mod keep;
pub mod partition;
mod preflight;

use std::collections::BTreeMap;
use std::sync::Arc;

use drydock_plan::{Action, Blocker, CheckResult, StepState};
use drydock_spec::{ClusterName, Fleet};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::check::{checked, leftovers, scheduled_probe};
pub use self::cordon::{cordoned, returned};
pub use self::drain::{checkpointed, drained};
pub use self::effort::{Asked, Effort, Ended, SHOWS_WITHIN};
pub use self::preflight::preflight;
use crate::client::Patch;
use crate::objects::{
    DaemonSetObject, DeploymentObject, JobObject, Key, NodeObject, OperatorObject, PodObject,
};

/// Everything kept of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Nodes by name.
    pub nodes: BTreeMap<Arc<str>, Arc<NodeObject>>,
    /// Pods.
    pub pods: BTreeMap<Key, Arc<PodObject>>,
    /// Keys of the pods that are bound to a node.
    pub on_node: BTreeMap<Arc<str>, std::collections::BTreeSet<Key>>,
    /// Keys of the GPU pods of each job whose pods run together, while they run.
    pub gangs: BTreeMap<String, std::collections::BTreeSet<Key>>,
    /// DaemonSets.
    pub daemon_sets: BTreeMap<Key, Arc<DaemonSetObject>>,
    /// Deployments.
    pub deployments: BTreeMap<Key, Arc<DeploymentObject>>,
    /// Jobs.
    pub jobs: BTreeMap<Key, Arc<JobObject>>,
    /// Drivers of the GPU Operator.
    pub drivers: BTreeMap<Key, Arc<OperatorObject<false>>>,
    /// Policies of the GPU Operator.
    pub policies: BTreeMap<Key, Arc<OperatorObject<true>>>,
}

impl Objects {
    /// Pods bound to a node, in the order of their keys.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<PodObject>> {
        self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }
}

/// How drydock works in clusters, as started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Namespace for what isn't placed elsewhere by a document.
    pub namespace: String,
    /// Image with the checks that come with drydock, without its tag where a version is to be added.
    pub smoke_image: String,
    /// Pull policy of check pods and prefetch pods: `IfNotPresent`, or `Never` where images are put on nodes by hand.
    pub pull: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: drydock_api::names::NAMESPACE.to_owned(),
            smoke_image: format!("drydock-smoke:{}", env!("CARGO_PKG_VERSION")),
            pull: "IfNotPresent".to_owned(),
        }
    }
}

/// What a function looks at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// The node the action is about.
    pub node: &'a Arc<NodeObject>,
    /// All that is kept of the cluster.
    pub objects: &'a Objects,
    /// The documents in force.
    pub fleet: &'a Fleet,
    /// Settings.
    pub settings: &'a Settings,
    /// What is asked for.
    pub action: &'a Action,
    /// Now, by the reconciler's clock.
    pub now: Timestamp,
}

impl<'a> View<'a> {
    /// Name of the node.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.node.meta.name
    }
    /// Pods on the node.
    pub fn pods(&self) -> impl Iterator<Item = &'a Arc<PodObject>> {
        self.objects.pods_on(&self.node.meta.name)
    }
}

/// How far an intent is, and what to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How far it is.
    pub state: StepState,
    /// Results of checks that have ended.
    pub checks: Vec<CheckResult>,
    /// Calls to make now; the runner leaves out those that are under way.
    pub calls: Vec<Call>,
    /// Look again at this instant even when nothing was seen to change.
    pub again: Option<Timestamp>,
}

impl Outcome {
    /// It is so.
    #[must_use]
    pub fn done() -> Self {
        Self::of(StepState::Done)
    }
    /// It was tried and failed.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::of(StepState::Failed { message: message.into() })
    }
    /// It is being carried out.
    #[must_use]
    pub fn working(calls: Vec<Call>) -> Self {
        Self { calls, ..Self::of(StepState::Working { remaining: 0, blocked_by: None }) }
    }
    /// Something stands in the way.
    #[must_use]
    pub fn blocked(remaining: u32, by: Blocker) -> Self {
        Self::of(StepState::Working { remaining, blocked_by: Some(by) })
    }
    /// With nothing to call.
    #[must_use]
    pub fn of(state: StepState) -> Self {
        Self { state, checks: Vec::new(), calls: Vec::new(), again: None }
    }
    /// Look again after this time.
    #[must_use]
    pub fn again(mut self, now: Timestamp, after: SignedDuration) -> Self {
        let at = now.checked_add(after).unwrap_or(Timestamp::MAX);
        self.again = Some(self.again.map_or(at, |before| before.min(at)));
        self
    }
}

/// Calls whose key begins so are the same for every node of a cluster, and are made once for all of them.
pub const SHARED: &str = "shared ";

/// One call to the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names it among the calls of its intent: the same key isn't called twice at a time, and [`Effort`] remembers how
    /// it ended.
    pub key: String,
    /// The call.
    pub request: Request,
}

/// What is called.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Changes an object.
    Patch {
        /// Address.
        uri: String,
        /// How it is meant.
        patch: Patch,
        /// Body.
        body: Value,
    },
    /// Makes an object. That it exists already is as good.
    Create {
        /// Address of the list.
        uri: String,
        /// Body.
        body: Value,
    },
    /// Asks for the eviction of a pod. Never repeated by the client: a 429 is an answer.
    Evict {
        /// The pod.
        pod: Key,
        /// Only this very pod, not one that was made anew under the same name.
        uid: String,
        /// Grace period in seconds instead of the pod's own.
        grace: Option<i64>,
    },
    /// Deletes an object. That it is gone already is as good.
    Delete {
        /// Address.
        uri: String,
        /// Only this very object.
        uid: String,
        /// What happens to what it owns: `Background` or `Foreground`.
        propagation: &'static str,
        /// Grace period in seconds instead of the pod's own.
        grace: Option<i64>,
    },
}
