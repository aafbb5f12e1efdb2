//! The truth about one node: what it is, what it was last asked for, what it is doing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{
    ApplyItem, Cordon, Ensure, Epoch, GangId, Generation, HealthFault, ObservedNode, Stack, StepReport,
    StepState, Work,
};
use drydock_spec::{ComponentName, ComponentVersion, LayoutId, PoolName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ground::Ground, lies, oracle::Tally};

/// The truth about one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    pub(crate) pool: PoolName,
    /// Nodes of one zone share a fabric; a job never leaves its zone.
    pub(crate) zone: u32,
    /// The node object exists.
    pub(crate) present: bool,
    pub(crate) kernel: Arc<str>,
    pub(crate) boot_id: u64,
    /// Machines that had the name before.
    #[serde(default)]
    pub(crate) machine: u32,
    pub(crate) ready: bool,
    pub(crate) ready_since: Timestamp,
    pub(crate) cordon: Cordon,
    pub(crate) running: Arc<Stack>,
    /// What a fresh machine of this pool runs.
    pub(crate) image: Arc<Stack>,
    pub(crate) layout: Option<LayoutId>,
    pub(crate) image_layout: Option<LayoutId>,
    /// Single pods, and pods of a job that are on their way out.
    pub(crate) pods: u32,
    pub(crate) gang: Option<GangId>,
    pub(crate) jobs_passed: u64,
    pub(crate) faults: Vec<HealthFault>,
    /// Those of `faults` that a bad version causes.
    pub(crate) version_faults: Vec<String>,
    /// Newest epoch that reached it.
    pub(crate) epoch: Epoch,
    pub(crate) intent: Option<Intent>,
    pub(crate) report: Option<StepReport>,
    pub(crate) activity: Activity,
    /// Parts that were applied and didn't come up.
    pub(crate) dead: BTreeSet<ApplyItem>,
    pub(crate) down: Option<Down>,
    /// A bad node that breaks when it is touched has been touched.
    pub(crate) struck: bool,
    pub(crate) next_fault: Option<Timestamp>,
    pub(crate) fault_number: u64,
    pub(crate) next_shift: Option<Timestamp>,
    pub(crate) shift_number: u64,
    /// Writes that reached its API server, refused ones as well.
    pub(crate) writes: u64,
    /// Changes of labels that no reader has seen yet.
    pub(crate) relabel: Vec<(String, Option<String>)>,
    /// Labels of a node object that is gone, for the machine that takes its place.
    pub(crate) stash: BTreeMap<String, String>,
    /// Somebody else took drydock's cordon away in this visit.
    pub(crate) uncordoned_by_others: bool,
    pub(crate) tally: Tally,
    /// Where the machine stands, by kind of domain.
    #[serde(default)]
    pub(crate) domains: [Option<Arc<str>>; 4],
    /// What a version has done to the hardware, until its power is cut.
    #[serde(default)]
    pub(crate) wedged: Option<Wedge>,
    /// Since when it runs what it runs.
    #[serde(default)]
    pub(crate) changed: Option<Timestamp>,
    /// Artefacts it has, as `component=version`.
    #[serde(default)]
    pub(crate) fetched: BTreeSet<String>,
    /// The last final answer to an intent before this one.
    #[serde(default)]
    pub(crate) old_report: Option<StepReport>,
    /// The answer before which the old one was perhaps seen once more.
    #[serde(default)]
    pub(crate) looked_back: Option<Generation>,
    /// Until then the old answer is seen.
    #[serde(default)]
    pub(crate) looks_back: Option<Timestamp>,
    /// When its cordon last changed.
    #[serde(default)]
    pub(crate) cordon_changed: Option<Timestamp>,
    /// How often its partner was taken away.
    #[serde(default)]
    pub(crate) partners_taken: u32,
}

/// What a version has done to the hardware of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wedge {
    /// Driver checks fail.
    Checks,
    /// Nothing can be installed, and driver checks fail.
    Installs,
}

/// What a node was last asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) generation: Generation,
    pub(crate) epoch: Epoch,
    pub(crate) ensure: Ensure,
    pub(crate) started: Timestamp,
}

/// A node that doesn't answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Down {
    /// When it comes back by itself.
    pub(crate) back: Option<Timestamp>,
    /// It doesn't boot: its kubelet alone is silent.
    #[serde(default)]
    pub(crate) awake: bool,
}

/// What is being changed on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Change {
    Component { component: ComponentName, version: Option<ComponentVersion>, attempt: u32, reboot: bool },
    Layout { layout: LayoutId, attempt: u32 },
}

impl Change {
    pub(crate) fn item(&self) -> ApplyItem {
        match self {
            Self::Component { component, .. } => ApplyItem::Component(component.clone()),
            Self::Layout { .. } => ApplyItem::Layout,
        }
    }
}

/// What a node is doing. An absent instant is something that never ends by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Activity {
    Idle,
    /// The answer to a write is on its way.
    Acknowledge {
        until: Timestamp,
    },
    /// Artefacts are fetched.
    Prefetch {
        until: Timestamp,
    },
    /// The n-th check of the intent runs.
    Check {
        index: usize,
        started: Timestamp,
        until: Option<Timestamp>,
        hangs: bool,
    },
    /// Jobs are awaited; they wake the node.
    Checkpoint,
    /// Pods leave, in the order of their instants; the last ones may never.
    Drain {
        leaving: Vec<Leaving>,
    },
    /// A part is being changed.
    Apply {
        change: Change,
        until: Option<Timestamp>,
    },
    /// The node reboots for a part.
    Reboot {
        change: Change,
        until: Timestamp,
    },
}

/// A pod on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaving {
    pub(crate) at: Option<Timestamp>,
    /// Until then a PodDisruptionBudget says no.
    pub(crate) refused: bool,
}

impl NodeState {
    /// New pods may come.
    pub(crate) fn schedulable(&self) -> bool {
        self.present && self.ready && self.cordon.own.is_none() && self.cordon.foreign.is_none()
    }
    /// A change is under way that can't be broken off. One that hangs can.
    pub(crate) fn busy(&self) -> bool {
        match &self.activity {
            Activity::Apply { until, .. } => until.is_some(),
            Activity::Reboot { .. } => true,
            Activity::Idle
            | Activity::Acknowledge { .. }
            | Activity::Prefetch { .. }
            | Activity::Check { .. }
            | Activity::Checkpoint
            | Activity::Drain { .. } => false,
        }
    }
    /// The part that is being changed.
    pub(crate) fn changing(&self) -> Option<&Change> {
        match &self.activity {
            Activity::Apply { change, .. } | Activity::Reboot { change, .. } => Some(change),
            Activity::Idle
            | Activity::Acknowledge { .. }
            | Activity::Prefetch { .. }
            | Activity::Check { .. }
            | Activity::Checkpoint
            | Activity::Drain { .. } => None,
        }
    }
    /// When its activity goes on.
    pub(crate) fn activity_due(&self) -> Option<Timestamp> {
        match &self.activity {
            Activity::Idle | Activity::Checkpoint => None,
            Activity::Acknowledge { until }
            | Activity::Prefetch { until }
            | Activity::Reboot { until, .. } => Some(*until),
            Activity::Check { until, .. } | Activity::Apply { until, .. } => *until,
            Activity::Drain { leaving } => leaving.first().and_then(|pod| pod.at),
        }
    }
    /// The next instant at which something happens that a planner would want to know of.
    pub(crate) fn next_signal(&self) -> Option<Timestamp> {
        if !self.present {
            return None;
        }
        let activity = match (&self.down, &self.activity) {
            // A write to the node object is answered by the API server, whether the node lives or not.
            (Some(down), Activity::Acknowledge { until }) => down.back.into_iter().chain([*until]).min(),
            (Some(down), _) => down.back,
            // Only the last pod is news; where one never leaves, none is.
            (None, Activity::Drain { leaving }) if leaving.len() > 1 => leaving.last().and_then(|pod| pod.at),
            (None, _) => self.activity_due(),
        };
        activity.into_iter().chain(self.next_fault).min()
    }
    /// The next instant at which something happens that can wait to be noticed.
    pub(crate) fn next_background(&self) -> Option<Timestamp> {
        if !self.present {
            return None;
        }
        let pod = match &self.activity {
            Activity::Drain { leaving } if self.down.is_none() && leaving.len() > 1 => self.activity_due(),
            _ => None,
        };
        pod.into_iter().chain(self.next_shift).min()
    }
    /// Answers its intent.
    pub(crate) fn answer(&mut self, state: StepState) {
        let Some(intent) = &self.intent else { return };
        let generation = intent.generation;
        match &mut self.report {
            Some(report) if report.generation == generation => report.state = state,
            Some(_) | None => self.report = Some(StepReport { generation, state, checks: Vec::new() }),
        }
    }
    /// Nothing that it does goes on before this instant.
    pub(crate) fn hold_activity(&mut self, until: Timestamp) {
        match &mut self.activity {
            Activity::Idle | Activity::Checkpoint => {}
            Activity::Acknowledge { until: at }
            | Activity::Prefetch { until: at }
            | Activity::Reboot { until: at, .. } => *at = (*at).max(until),
            Activity::Check { until: at, .. } | Activity::Apply { until: at, .. } => {
                *at = at.map(|at| at.max(until));
            }
            Activity::Drain { leaving } => {
                leaving.iter_mut().for_each(|pod| pod.at = pod.at.map(|at| at.max(until)));
            }
        }
    }
    /// GPUs it advertises just now.
    pub(crate) fn advertised(&self, ground: &Ground) -> u32 {
        let part_down = |item: &ApplyItem| match item {
            ApplyItem::Component(name) => carries_gpus(ground, name),
            ApplyItem::Layout => true,
        };
        let changing = self.changing().map(Change::item);
        if changing.iter().chain(&self.dead).any(part_down) {
            return 0;
        }
        let missing = self.faults.iter().filter(|fault| loses_gpu(&fault.kind)).count();
        ground.gpus(&self.pool).saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }
    /// Copies what can be observed over an older observation; labels, pool and domains are left.
    pub(crate) fn show(&self, ground: &Ground, seen: &mut ObservedNode, now: Timestamp) {
        seen.gpus = self.advertised(ground);
        seen.boot_id = self.boot_id;
        let uid = format!("machine-{}", self.machine);
        if *seen.uid != *uid {
            seen.uid = Arc::from(uid);
        }
        seen.ready = self.ready;
        seen.ready_since = self.ready_since;
        if !Arc::ptr_eq(&seen.kernel, &self.kernel) {
            seen.kernel = Arc::clone(&self.kernel);
        }
        if !Arc::ptr_eq(&seen.running, &self.running) {
            seen.running = Arc::clone(&self.running);
        }
        let late = lies::cordon_lag(ground).zip(self.cordon_changed);
        if late.is_none_or(|(lag, at)| lag.after(at) <= now) {
            seen.cordon.clone_from(&self.cordon);
        }
        seen.layout.clone_from(&self.layout);
        let gang_pod = u32::from(self.gang.is_some());
        seen.work = Work {
            gpu_pods: self.pods.saturating_add(gang_pod),
            gangs: self.gang.iter().cloned().collect(),
            jobs_passed: self.jobs_passed,
        };
        seen.faults.clone_from(&self.faults);
        let old = self.old_report.as_ref().filter(|_| self.looks_back.is_some_and(|until| until > now));
        match old {
            Some(old) => seen.report = Some(old.clone()),
            None => seen.report.clone_from(&self.report),
        }
    }
    /// A first observation.
    pub(crate) fn first_look(
        &self,
        ground: &Ground,
        labels: BTreeMap<String, String>,
        now: Timestamp,
    ) -> ObservedNode {
        let mut seen = ObservedNode {
            uid: Arc::from(""),
            pool: None,
            contested: Vec::new(),
            labels,
            domains: [None, None, None, None],
            gpus: 0,
            kernel: Arc::clone(&self.kernel),
            boot_id: 0,
            ready: false,
            ready_since: self.ready_since,
            cordon: self.cordon.clone(),
            running: Arc::clone(&self.running),
            layout: None,
            work: Work::default(),
            faults: Vec::new(),
            report: None,
        };
        self.show(ground, &mut seen, now);
        seen
    }
}

/// While such a part is away, the node advertises no GPUs.
fn carries_gpus(ground: &Ground, component: &ComponentName) -> bool {
    use drydock_spec::ComponentClass as Class;
    match ground.class(component) {
        Class::GpuDriver | Class::FabricManager | Class::ContainerToolkit | Class::DevicePlugin => true,
        Class::NodeImage => true,
        Class::NetworkDriver
        | Class::PartitionManager
        | Class::Scheduler
        | Class::Agent
        | Class::Firmware => false,
    }
}

/// A GPU fell off the bus (Xid 79) or was never there.
fn loses_gpu(kind: &str) -> bool {
    kind == "xid-79" || kind == "gpu-missing"
}
