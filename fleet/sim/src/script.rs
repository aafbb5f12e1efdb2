//! What happens at instants that were known before: somebody acts on a node, a node dies, a fault ends.

use drydock_plan::{Action, GangId, HealthFault, NodeId};
use drydock_spec::{ClusterName, ComponentName, ComponentVersion, Period, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    DomainPlace, FaultSpec, World,
    agenda::Turn,
    gang::{Gang, GangState},
    health,
    node::{Activity, Down, NodeState},
};

/// Something that happens at an instant. Ties are broken by number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) what: Happening,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Happening {
    /// Readers see something new.
    Wake,
    Lose {
        node: NodeId,
        back: Option<Timestamp>,
    },
    Cordon {
        node: NodeId,
        by: String,
    },
    LiftCordon {
        node: NodeId,
    },
    Uncordon {
        node: NodeId,
    },
    Relabel {
        node: NodeId,
        label: String,
        value: Option<String>,
    },
    HandEdit {
        node: NodeId,
        component: ComponentName,
        version: Option<Version>,
    },
    Fault {
        node: NodeId,
        kind: String,
    },
    Repair {
        node: NodeId,
        kind: String,
    },
    VersionFault {
        node: NodeId,
        kind: String,
    },
    Delete {
        node: NodeId,
    },
    Recreate {
        node: NodeId,
    },
    Gang {
        nodes: Vec<NodeId>,
        length: Period,
        checkpoint: Option<Period>,
    },
    /// A write arrives a second time.
    Again(Box<Action>),
    /// Readers look at a node again.
    Look {
        node: NodeId,
    },
    /// A node isn't ready for a while, and doesn't boot.
    Blink {
        node: NodeId,
        down: Period,
    },
    /// The same, because of what runs on it.
    VersionFlap {
        node: NodeId,
        every: Period,
        left: u32,
    },
    PowerCycle {
        node: NodeId,
    },
    Domain {
        cluster: ClusterName,
        domain: DomainPlace,
        kind: Option<String>,
        back: Option<Timestamp>,
    },
    Join {
        node: NodeId,
        like: NodeId,
    },
    ForgetCluster {
        cluster: ClusterName,
    },
    ListPartly {
        cluster: ClusterName,
    },
    HideGangs {
        cluster: ClusterName,
    },
}

/// Refreshes of lagging reads that are put on the agenda for one fault; a longer one lags a little more at its end.
const REFRESHES_MAX: u32 = 1_000;

impl World {
    /// Puts something on the agenda.
    pub(crate) fn at(&mut self, at: Timestamp, what: Happening) {
        let number = self.timed_number;
        self.timed_number = number.saturating_add(1);
        let place = self.timed.partition_point(|timed| (timed.at, timed.number) < (at, number));
        self.timed.insert(place, Timed { at, number, what });
        self.signals.set(&Turn::Script, self.timed.first().map(|timed| timed.at));
    }
    /// Puts the instants of a fault on the agenda.
    pub(crate) fn schedule_fault(&mut self, fault: &FaultSpec) {
        let wake = |world: &mut Self, at: Timestamp| world.at(at, Happening::Wake);
        match fault.clone() {
            FaultSpec::NodeLost { node, at, back_after } => {
                let back = back_after.map(|after| after.after(at));
                self.at(at, Happening::Lose { node, back });
            }
            FaultSpec::ClusterUnreachable { at, length, .. } => {
                wake(self, at);
                wake(self, length.after(at));
            }
            FaultSpec::StaleReads { at, length, lag, .. } => {
                let end = length.after(at);
                let mut next = at;
                for _ in 0..REFRESHES_MAX {
                    wake(self, next);
                    next = lag.max(Period::from_secs(1)).after(next);
                    if next >= end {
                        break;
                    }
                }
                wake(self, end);
            }
            FaultSpec::RefusedWrites { at: Some(at), length: Some(length), .. } => {
                wake(self, length.after(at))
            }
            FaultSpec::PdbBlocks { until: Some(until), .. } => wake(self, until),
            FaultSpec::ForeignCordon { node, at, length } => {
                self.at(at, Happening::Cordon { node: node.clone(), by: "somebody".to_owned() });
                if let Some(length) = length {
                    self.at(length.after(at), Happening::LiftCordon { node });
                }
            }
            FaultSpec::ForeignUncordon { node, at } => self.at(at, Happening::Uncordon { node }),
            FaultSpec::Relabel { node, at, label, value } => {
                self.at(at, Happening::Relabel { node, label, value })
            }
            FaultSpec::HandEdit { node, at, component, version } => {
                self.at(at, Happening::HandEdit { node, component, version });
            }
            FaultSpec::GangLong { nodes, at, length, checkpoint } => {
                self.at(at, Happening::Gang { nodes, length, checkpoint });
            }
            FaultSpec::HealthFault { node, at, kind, length } => {
                self.at(at, Happening::Fault { node: node.clone(), kind: kind.clone() });
                if let Some(length) = length {
                    self.at(length.after(at), Happening::Repair { node, kind });
                }
            }
            FaultSpec::NodeDeleted { node, at } => self.at(at, Happening::Delete { node }),
            FaultSpec::NodeRecreated { node, at } => self.at(at, Happening::Recreate { node }),
            FaultSpec::Spontaneous { per_gpu_day } => self.schedule_hardware(per_gpu_day),
            FaultSpec::NodeAdded { node, at, like } => self.at(at, Happening::Join { node, like }),
            FaultSpec::PowerCycle { node, at } => self.at(at, Happening::PowerCycle { node }),
            FaultSpec::Flaps { node, at, every, down, times } => {
                let mut next = at;
                for _ in 0..times.min(REFRESHES_MAX) {
                    self.at(next, Happening::Blink { node: node.clone(), down });
                    next = every.max(Period::from_secs(1)).after(next);
                }
            }
            FaultSpec::DomainFails { cluster, domain, at, kind, length } => {
                let back = length.map(|length| length.after(at));
                self.at(at, Happening::Domain { cluster, domain, kind, back });
            }
            FaultSpec::FactsAbsent { cluster, at, length } => {
                self.at(at, Happening::ForgetCluster { cluster });
                wake(self, length.after(at));
            }
            FaultSpec::PartialList { cluster, at, length, .. } => {
                self.at(at, Happening::ListPartly { cluster });
                wake(self, length.after(at));
            }
            FaultSpec::GangsHidden { cluster, at, length } => {
                self.at(at, Happening::HideGangs { cluster });
                wake(self, length.after(at));
            }
            FaultSpec::RegistryAway { at, length, .. }
            | FaultSpec::TwoLeaders { at, length }
            | FaultSpec::ClockJump { at, length, .. } => {
                wake(self, at);
                wake(self, length.after(at));
            }
            FaultSpec::LedgerRestored { at, .. } => wake(self, at),
            FaultSpec::NodeSlows { .. }
            | FaultSpec::Outliers { .. }
            | FaultSpec::LayoutLost { .. }
            | FaultSpec::Rewrites { .. }
            | FaultSpec::UncordonFight { .. }
            | FaultSpec::MissingResult { .. }
            | FaultSpec::OldReports { .. }
            | FaultSpec::LateCordons { .. }
            | FaultSpec::DoneBeforeReboot { .. }
            | FaultSpec::PartnerTaken { .. }
            | FaultSpec::BadVersion { .. }
            | FaultSpec::BadLayout { .. }
            | FaultSpec::BadNode { .. }
            | FaultSpec::HungCheck { .. }
            | FaultSpec::NeverStartsCheck { .. }
            | FaultSpec::BrokenRunner { .. }
            | FaultSpec::RdmaPartnerBroken { .. }
            | FaultSpec::RefusedWrites { .. }
            | FaultSpec::LostWrites { .. }
            | FaultSpec::DoubledWrites { .. }
            | FaultSpec::PodNeverTerminates { .. }
            | FaultSpec::PdbBlocks { .. }
            | FaultSpec::SlowDrain { .. }
            | FaultSpec::Crash { .. } => {}
        }
    }
    /// Carries out what is due from outside.
    pub(crate) fn script_turn(&mut self) {
        while self.timed.first().is_some_and(|timed| timed.at <= self.now) {
            let timed = self.timed.remove(0);
            self.happen(timed.what);
        }
        self.signals.set(&Turn::Script, self.timed.first().map(|timed| timed.at));
    }
    fn happen(&mut self, what: Happening) {
        let now = self.now;
        match what {
            Happening::Wake => {}
            Happening::Lose { node, back } => self.lose(&node, back),
            Happening::Look { node } => self.change(&node, |_| {}),
            Happening::Blink { node, down } => self.blink(&node, down),
            Happening::VersionFlap { node, every, left } => self.version_flap(&node, every, left),
            Happening::PowerCycle { node } => self.power_cycle(&node),
            Happening::Domain { cluster, domain, kind, back } => {
                self.fail_domain(&cluster, &domain, kind.as_deref(), back);
            }
            Happening::Join { node, like } => self.join(&node, &like),
            Happening::ForgetCluster { cluster } => self.forget_cluster(cluster.as_str()),
            Happening::ListPartly { cluster } => self.list_partly(cluster.as_str()),
            Happening::HideGangs { cluster } => self.hide_gangs(cluster.as_str()),
            Happening::Cordon { node, by } => self.change(&node, |node| node.cordon.foreign = Some(by)),
            Happening::LiftCordon { node } => self.change(&node, |node| node.cordon.foreign = None),
            Happening::Uncordon { node } => {
                self.say(format!("{node}: somebody uncordoned it"));
                self.change(&node, |node| {
                    node.cordon.foreign = None;
                    node.uncordoned_by_others |= node.cordon.own.take().is_some();
                    node.tally.emptied = false;
                });
                self.note_cordon(&node);
            }
            Happening::Relabel { node, label, value } => {
                self.change(&node, |node| node.relabel.push((label, value)));
            }
            Happening::HandEdit { node, component, version } => self.hand_edit(&node, &component, version),
            Happening::Fault { node, kind } => self.break_node(&node, &kind),
            Happening::Repair { node, kind } => {
                self.change(&node, |node| node.faults.retain(|fault| fault.kind != kind));
            }
            Happening::VersionFault { node: id, kind } => {
                let Some(node) = self.nodes.get_mut(&id) else { return };
                if health::causes(&self.ground, &id, node, &kind) && !node.version_faults.contains(&kind) {
                    node.version_faults.push(kind.clone());
                    self.break_node(&id, &kind);
                }
            }
            Happening::Delete { node } => self.delete(&node),
            Happening::Recreate { node } => self.recreate(&node),
            Happening::Gang { nodes, length, checkpoint } => {
                self.start_own_gang(nodes, length, checkpoint, now)
            }
            Happening::Again(action) => {
                // Whatever it is answered, nobody hears it.
                let _ = self.execute(&action);
            }
        }
    }
    fn change(&mut self, id: &NodeId, change: impl FnOnce(&mut NodeState)) {
        if let Some(node) = self.nodes.get_mut(id).filter(|node| node.present) {
            change(node);
            self.touch(id);
        }
    }
    pub(crate) fn note_cordon(&mut self, id: &NodeId) {
        if let Some(node) = self.nodes.get_mut(id) {
            let gpus = self.ground.gpus(&node.pool);
            self.oracle.cordon(node, gpus, self.now);
        }
    }
    fn hand_edit(&mut self, id: &NodeId, component: &ComponentName, version: Option<Version>) {
        let Some(node) = self.nodes.get(id).filter(|node| node.present) else { return };
        let old = node.running.vector.get(component).cloned();
        let version = version.map(|version| match old {
            Some(old) => ComponentVersion { version, ..old },
            None => ComponentVersion { version, digest: None, config: Default::default() },
        });
        self.set_component(id, component, version.as_ref());
        self.say(format!("{id}: somebody changed {component} by hand"));
        self.forget_version_faults(id);
        self.touch(id);
    }
    /// A health fault appears; a job on the node stops.
    pub(crate) fn break_node(&mut self, id: &NodeId, kind: &str) {
        let since = self.now;
        self.change(id, |node| {
            if !node.faults.iter().any(|fault| fault.kind == kind) {
                node.faults.push(HealthFault { kind: kind.to_owned(), since, recovery: None });
            }
        });
        self.strike_gang(id);
        self.say(format!("{id}: {kind}"));
    }
    /// Faults that a version caused go with it.
    pub(crate) fn forget_version_faults(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let kinds = std::mem::take(&mut node.version_faults);
        let (keep, gone): (Vec<String>, Vec<String>) =
            kinds.into_iter().partition(|kind| health::causes(&self.ground, id, node, kind));
        node.version_faults = keep;
        node.faults.retain(|fault| !gone.contains(&fault.kind));
    }
    /// A node stops answering.
    pub(crate) fn lose(&mut self, id: &NodeId, back: Option<Timestamp>) {
        let now = self.now;
        self.strike_gang(id);
        self.say(format!("{id}: not ready"));
        self.change(id, |node| {
            if node.ready {
                node.ready = false;
                node.ready_since = now;
            }
            node.down = Some(Down { back, awake: false });
            // Its pods are counted out after a while; that nobody learns when doesn't matter here.
            if !matches!(node.activity, Activity::Drain { .. }) {
                node.pods = 0;
            }
        });
    }
    /// It is back, with a new boot.
    pub(crate) fn come_back_if_due(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.down.is_none_or(|down| down.back.is_none_or(|back| back > now)) {
            return;
        }
        let awake = node.down.is_some_and(|down| down.awake);
        node.down = None;
        node.boot_id += u64::from(!awake);
        if !matches!(node.activity, Activity::Reboot { .. }) {
            node.ready = true;
            node.ready_since = now;
        }
        node.hold_activity(crate::duration::SETTLE.after(now));
        self.say(format!("{id}: back"));
    }
    fn delete(&mut self, id: &NodeId) {
        self.strike_gang(id);
        self.change(id, |node| {
            node.present = false;
            node.activity = Activity::Idle;
            node.pods = 0;
        });
        self.note_cordon(id);
        self.touch(id);
    }
    /// A fresh machine with the old name: what the node side knew is gone.
    pub(crate) fn recreate(&mut self, id: &NodeId) {
        let now = self.now;
        self.strike_gang(id);
        // A write to the old object can't reach the new one: an API server tells them apart.
        self.timed.retain(|timed| !matches!(&timed.what, Happening::Again(action) if action.node == *id));
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.present = true;
        node.boot_id += 1;
        node.machine += 1;
        node.ready = true;
        node.ready_since = now;
        node.cordon = Default::default();
        node.running = node.image.clone();
        node.layout.clone_from(&node.image_layout);
        node.pods = 0;
        node.jobs_passed = 0;
        node.faults.clear();
        node.version_faults.clear();
        node.dead.clear();
        node.down = None;
        node.struck = false;
        node.intent = None;
        node.report = None;
        node.epoch = Default::default();
        node.activity = Activity::Idle;
        node.wedged = None;
        node.changed = None;
        node.fetched.clear();
        (node.old_report, node.looked_back, node.looks_back, node.cordon_changed) = (None, None, None, None);
        self.find_shared(id);
        self.note_cordon(id);
        self.touch(id);
    }
    fn start_own_gang(
        &mut self,
        mut nodes: Vec<NodeId>,
        length: Period,
        checkpoint: Option<Period>,
        now: Timestamp,
    ) {
        nodes.sort();
        nodes.dedup();
        let Some(first) = nodes.first().and_then(|id| self.nodes.get(id)) else { return };
        let (pool, zone) = (first.pool.clone(), first.zone);
        let slot = self.gangs.keys().next_back().map_or(0, |last| last + 1);
        for id in &nodes {
            self.strike_gang(id);
        }
        let tenant = self.ground.pools.get(&pool).and_then(|hardware| hardware.tenant.clone());
        let size = crate::step::count(nodes.len());
        let state = GangState::Pending { try_at: now };
        let mut gang = Gang {
            pool,
            zone,
            size,
            tenant,
            run: 1,
            left: length,
            every: checkpoint,
            state,
            once: true,
            shown: None,
        };
        gang.start(nodes.clone(), now);
        let id: GangId = gang.id(slot);
        for node in &nodes {
            self.change(node, |node| node.gang = Some(id.clone()));
        }
        self.gangs.insert(slot, gang);
        self.touch_gang(slot);
    }
}
