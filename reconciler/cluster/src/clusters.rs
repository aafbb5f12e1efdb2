//! All clusters of a fleet: each with its own connection, watches and executor, so that none waits for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drydock_plan::{Action, GangId, Inventory, NodeId, ObservedCluster};
use drydock_spec::{Access, ClusterName, Fleet};
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::client::{Caller, Gate};
use crate::clock;
use crate::connect::Reach;
use crate::delivery;
use crate::ensure::Settings;
use crate::executor::{Desk, Runner};
use crate::objects::{DaemonSetObject, DeploymentObject, JobObject, NodeObject, OperatorObject, PodObject};
use crate::observe::{self, Look, Observer};
use crate::watch::{self, Shared};

/// What changes within this time is told to the engine once.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// So long the first pass waits for a cluster that hasn't answered since this process began. Lists of a large cluster take
/// seconds; one that takes longer is left behind, and the others go on.
const FIRST_FACTS_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// Pause between two tries to make a client: a Secret that is missing appears when somebody makes it.
const CONNECT_PAUSE: Duration = Duration::from_secs(15);

/// "Something has changed; look again."
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Callers of the clusters that could be connected to, for whoever writes beside the executor.
#[derive(Clone, Default)]
pub struct Callers(Arc<Mutex<BTreeMap<ClusterName, Caller>>>);

impl Callers {
    /// The caller of a cluster.
    #[must_use]
    pub fn get(&self, cluster: &str) -> Option<Caller> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(name, _)| name.as_str() == cluster).map(|(_, caller)| caller.clone())
    }
    fn put(&self, cluster: &ClusterName, caller: &Caller) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.clone(), caller.clone());
    }
    fn remove(&self, cluster: &ClusterName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

/// How clusters are worked with.
#[derive(Clone)]
pub struct Options {
    /// How they are reached.
    pub reach: Reach,
    /// Names and images.
    pub settings: Settings,
    /// Whether this process may write.
    pub gate: Gate,
    /// Told when something has changed.
    pub wake: Wake,
    /// Where the tasks run.
    pub runtime: Handle,
}

/// All clusters of the fleet in force.
pub struct Clusters {
    options: Options,
    fleet: Option<Arc<Fleet>>,
    members: BTreeMap<ClusterName, Member>,
    inventory: Inventory,
    laid_out: BTreeMap<ClusterName, BTreeMap<Arc<str>, Action>>,
    wake_at: Option<Timestamp>,
    callers: Callers,
}

struct Member {
    access: Access,
    caller: Arc<Mutex<Result<Caller, String>>>,
    shared: Arc<Shared>,
    desk: Arc<Desk>,
    observer: Observer,
    seen_at: Timestamp,
    /// When it was begun with.
    begun: Timestamp,
    /// Its facts have been complete once.
    whole: bool,
    /// Instants at which a node's facts change by time alone.
    wakes: BTreeMap<Arc<str>, Timestamp>,
    gangs: BTreeMap<GangId, drydock_plan::ObservedGang>,
    task: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Clusters {
    /// None yet: they come with the first fleet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            fleet: None,
            members: BTreeMap::new(),
            inventory: Inventory::default(),
            laid_out: BTreeMap::new(),
            wake_at: None,
            callers: Callers::default(),
        }
    }

    /// What was observed, as of the last [`Clusters::refresh`].
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }
    /// The next instant at which facts change by time alone.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }
    /// Callers, as clusters are connected to.
    #[must_use]
    pub fn callers(&self) -> Callers {
        self.callers.clone()
    }

    /// Every cluster has been seen whole since it was begun with, or has had its time. What a cluster's nodes are is then
    /// known, or it is known that it doesn't answer.
    #[must_use]
    pub fn is_complete(&self, now: Timestamp) -> bool {
        let patient = |member: &Member| now.duration_since(member.begun) < FIRST_FACTS_WITHIN;
        self.members.values().all(|member| member.whole || !patient(member))
    }

    /// Another fleet is in force: clusters that it names are looked at, others aren't any more. A cluster whose access
    /// has changed is connected to anew and keeps its last facts until the new ones are complete.
    pub fn follow(&mut self, fleet: &Arc<Fleet>, now: Timestamp) {
        let callers = self.callers.clone();
        self.members.retain(|name, member| {
            let stays = fleet.clusters.get(name).is_some_and(|named| named.spec.access == member.access);
            if !stays {
                callers.remove(name);
            }
            stays
        });
        for (name, named) in &fleet.clusters {
            if !self.members.contains_key(name) && !matches!(named.spec.access, Access::Simulated {}) {
                self.members.insert(name.clone(), self.begin(name, &named.spec.access, now));
            }
        }
        for member in self.members.values() {
            member.desk.follow(fleet);
            member.shared.lock().for_facts.all = true;
        }
        self.fleet = Some(Arc::clone(fleet));
        self.refresh(now);
    }

    fn begin(&self, name: &ClusterName, access: &Access, now: Timestamp) -> Member {
        let (shared, desk) = (Arc::new(Shared::default()), Arc::new(Desk::default()));
        let caller = Arc::new(Mutex::new(Err("not connected yet".to_owned())));
        let member = Alone {
            name: name.clone(),
            access: access.clone(),
            options: self.options.clone(),
            callers: self.callers.clone(),
            caller: Arc::clone(&caller),
            shared: Arc::clone(&shared),
            desk: Arc::clone(&desk),
        };
        let task = self.options.runtime.spawn(member.run()).abort_handle();
        // What was known of it under another access stays until the new facts are complete.
        let seen_at = self.inventory.clusters.get(name).map_or(now, |cluster| cluster.seen_at);
        Member {
            access: access.clone(),
            caller,
            shared,
            desk,
            observer: Observer::default(),
            seen_at,
            begun: now,
            whole: false,
            wakes: BTreeMap::new(),
            gangs: BTreeMap::new(),
            task,
        }
    }

    /// Takes in what has changed since the last call.
    pub fn refresh(&mut self, now: Timestamp) {
        let Some(fleet) = self.fleet.clone() else { return };
        let mut changed = false;
        for (name, member) in &mut self.members {
            changed |= refresh_member(&mut self.inventory, name, member, &fleet, &self.options.settings, now);
        }
        let members = &self.members;
        self.inventory.clusters.retain(|name, _| members.contains_key(name));
        let before = self.inventory.nodes.len();
        self.inventory.nodes.retain(|id, _| members.contains_key(id.cluster()));
        changed |= before != self.inventory.nodes.len();
        if changed {
            self.inventory.assign_pools(&fleet);
            self.inventory.gangs = members.values().flat_map(|m| m.gangs.clone()).collect();
        }
        self.wake_at = members.values().flat_map(|m| m.wakes.values().copied()).min();
    }

    /// Asks for something; it is laid out together with everything else of the pass by [`Clusters::lay_out`].
    ///
    /// # Errors
    /// When the fleet has no such cluster.
    pub fn ask(&mut self, action: &Action) -> Result<(), String> {
        let known = self.members.keys().find(|name| name.as_str() == action.node.cluster()).cloned();
        let cluster =
            known.ok_or_else(|| format!("the fleet in force has no cluster {}", action.node.cluster()))?;
        let node: Arc<str> = Arc::from(action.node.node());
        self.laid_out.entry(cluster).or_default().insert(node, action.clone());
        Ok(())
    }

    /// The pass is over: what it has asked for is what is wanted now, and nothing else.
    pub fn lay_out(&mut self, now: Timestamp) {
        let mut all = std::mem::take(&mut self.laid_out);
        for (name, member) in &self.members {
            member.desk.lay_out(all.remove(name).unwrap_or_default(), now);
        }
    }
}

/// Gives true when a fact has changed.
fn refresh_member(
    inventory: &mut Inventory,
    name: &ClusterName,
    member: &mut Member,
    fleet: &Fleet,
    settings: &Settings,
    now: Timestamp,
) -> bool {
    let unconnected = match &*member.caller.lock().unwrap_or_else(PoisonError::into_inner) {
        Ok(caller) => caller.breaker().trouble().map(|text| format!("its API server fails: {text}")),
        Err(error) => Some(error.clone()),
    };
    let mut state = member.shared.lock();
    let trouble = unconnected.or_else(|| state.trouble(now, Instant::now()).map(|t| t.to_string()));
    if trouble.is_none() {
        // Every stream was heard lately, so what was seen of them is how it is.
        member.seen_at = now;
        member.whole = true;
    }
    // A list of no nodes at all is believed only where each of them was told to be deleted.
    let empty_is_true = !state.objects.nodes.is_empty() || state.nodes_told_gone;
    let observed = ObservedCluster { seen_at: member.seen_at, error: trouble, empty_is_true };
    let mut changed = inventory.clusters.insert(name.clone(), observed.clone()).is_none_or(|before| {
        before.error != observed.error || before.empty_is_true != observed.empty_is_true
    });
    // A first list that isn't complete must not make nodes look gone, so nothing is taken in before it is.
    if observed.error.is_some() {
        return changed;
    }
    let mut stirred = state.for_facts.take();
    let due: Vec<Arc<str>> =
        member.wakes.iter().filter(|(_, at)| **at <= now).map(|(node, _)| Arc::clone(node)).collect();
    stirred.nodes.extend(due);
    if stirred.all {
        stirred.nodes.extend(state.objects.nodes.keys().cloned());
        let gone = inventory.nodes.keys().filter(|id| id.cluster() == name.as_str());
        stirred.nodes.extend(gone.map(|id| Arc::from(id.node())));
    }
    if stirred.nodes.is_empty() {
        return changed;
    }
    let look = Look { cluster: name, state: &state, fleet, settings, now };
    for node in &stirred.nodes {
        let id = NodeId::of(name, node);
        let object = state.objects.nodes.get(node).filter(|object| concerns(fleet, name, object));
        let Some(object) = object else {
            member.wakes.remove(node);
            changed |= inventory.nodes.remove(&id).is_some();
            continue;
        };
        let (report, in_hand) = (member.desk.report(node), member.desk.has(node));
        let (observed, wake) = member.observer.node(look, object, report, in_hand);
        match wake {
            Some(at) => member.wakes.insert(Arc::clone(node), at),
            None => member.wakes.remove(node),
        };
        // Where several pools match it stays in the one it is in.
        let pool = inventory.nodes.get(&id).and_then(|before| before.pool.clone());
        inventory.nodes.insert(id, drydock_plan::ObservedNode { pool, ..observed });
        changed = true;
    }
    member.observer.retain(|node| state.objects.nodes.contains_key(node));
    member.gangs = observe::gangs(look);
    changed
}

/// Nodes with GPUs, and those that a pool asks for by its selector. One that carries drydock's cordon stays one, whatever
/// becomes of its devices and labels meanwhile.
fn concerns(fleet: &Fleet, cluster: &ClusterName, node: &NodeObject) -> bool {
    node.has_gpus()
        || node.own_cordon().is_some()
        || delivery::pool_of(fleet, cluster, &node.meta.labels).is_some()
}

/// What one cluster's task needs.
struct Alone {
    name: ClusterName,
    access: Access,
    options: Options,
    callers: Callers,
    caller: Arc<Mutex<Result<Caller, String>>>,
    shared: Arc<Shared>,
    desk: Arc<Desk>,
}

impl Alone {
    async fn run(self) {
        let caller = loop {
            match self.options.reach.connect(&self.access, self.options.gate.clone()).await {
                Ok(caller) => break caller,
                Err(error) => {
                    tracing::warn!(cluster = %self.name, %error, "can't connect");
                    *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Err(error.to_string());
                    (self.options.wake)();
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
            }
        };
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Ok(caller.clone());
        self.callers.put(&self.name, &caller);
        let mut tasks = JoinSet::new();
        let feed = |tasks: &mut JoinSet<()>, caller: Caller| {
            let shared = || Arc::clone(&self.shared);
            tasks.spawn(watch::run::<NodeObject>(caller.clone(), shared()));
            tasks.spawn(watch::run::<PodObject>(caller.clone(), shared()));
            tasks.spawn(watch::run::<DaemonSetObject>(caller.clone(), shared()));
            tasks.spawn(watch::run::<DeploymentObject>(caller.clone(), shared()));
            tasks.spawn(watch::run::<JobObject>(caller.clone(), shared()));
            tasks.spawn(watch::run::<OperatorObject<false>>(caller.clone(), shared()));
            tasks.spawn(watch::run::<OperatorObject<true>>(caller, shared()));
        };
        feed(&mut tasks, caller.clone());
        let runner = Runner {
            cluster: self.name.clone(),
            caller,
            shared: Arc::clone(&self.shared),
            desk: Arc::clone(&self.desk),
            settings: self.options.settings.clone(),
            news: Arc::clone(&self.options.wake),
            kept: std::cell::Cell::new(None),
        };
        tasks.spawn(runner.run());
        let mut pulses = self.shared.subscribe();
        let wake = Arc::clone(&self.options.wake);
        let shared = Arc::clone(&self.shared);
        tasks.spawn(async move {
            loop {
                // The sender lives in `shared`, so waiting can't fail.
                let _ = pulses.changed().await;
                tokio::time::sleep(TELL_EVERY).await;
                pulses.mark_unchanged();
                if !shared.lock().for_facts.is_empty()
                    || shared.lock().trouble(clock::wall(), Instant::now()).is_some()
                {
                    wake();
                }
            }
        });
        // None of these tasks ends by itself; one that broke off takes the others with it, and the cluster is stale.
        if let Some(Err(error)) = tasks.join_next().await {
            tracing::error!(cluster = %self.name, %error, "a task broke off");
            *self.caller.lock().unwrap_or_else(PoisonError::into_inner) =
                Err(format!("a task of drydock broke off: {error}"));
            (self.options.wake)();
        }
    }
}
