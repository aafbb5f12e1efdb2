//! Work on the fleet: jobs that span nodes find their nodes and lose them, single pods come and go, hardware fails.

use std::collections::BTreeMap;

use drydock_plan::{Ensure, GangId, NodeId, StepState};
use drydock_spec::{Period, PoolName};
use jiff::Timestamp;

use crate::{
    Draw, FaultSpec, World,
    gang::{Gang, GangEvent, GangState},
    health::SPONTANEOUS,
    node::{Activity, NodeState},
    script::Happening,
    step::count,
};

/// Somebody repairs failed hardware within 4 to 24 hours.
const REPAIR_HOURS: (u64, u64) = (4, 24);
/// A job that finds no nodes tries again.
const RETRY: Period = Period::from_mins(5);
/// Time between checkpoints, in minutes: half an hour to an hour is usual.
const CHECKPOINT_MINUTES: (u64, u64) = (30, 60);
/// A zone with fewer nodes is a test bench: a job that spans it would hold all of it, and nobody queues for that.
const GANG_ZONE_MIN: u32 = 8;
/// Time between two changes of the single pods on a node, in minutes. Notebooks and inference servers live for hours.
const SHIFT_MINUTES: (u64, u64) = (120, 480);
/// Sizes of jobs, in nodes; small ones are more frequent.
const SIZES: [u32; 8] = [2, 2, 2, 4, 4, 8, 16, 32];

impl World {
    fn slot_of(&self, gang: &GangId) -> Option<u32> {
        // The place stands in the id: `owner/pool-place-number`.
        let mut parts = gang.as_str().rsplit('-');
        let _number = parts.next()?;
        parts.next()?.parse().ok()
    }
    fn gang_draw(&self, slot: u32, gang: &Gang) -> Draw {
        Draw::new(self.ground.seed).text("gang").number(slot.into()).number(gang.run.into())
    }
    /// Takes the job on a node away, as a whole, since drydock wants the node. Its pods elsewhere are gone at once, the
    /// one here has still to leave.
    pub(crate) fn take_gang_away(&mut self, id: &NodeId) {
        let Some(gang) = self.nodes.get(id).and_then(|node| node.gang.clone()) else { return };
        let lost = self.suspend_gang(&gang);
        if let Some(node) = self.nodes.get_mut(id) {
            node.gang = None;
            node.pods = node.pods.saturating_add(1);
        }
        let Some(lost) = lost else { return };
        self.oracle.gang_interrupted(lost);
        self.say(format!("{gang}: interrupted, {lost} of work lost"));
    }
    /// Takes the job on a node away because the node failed.
    pub(crate) fn strike_gang(&mut self, id: &NodeId) {
        let Some(gang) = self.nodes.get(id).and_then(|node| node.gang.clone()) else { return };
        if self.suspend_gang(&gang).is_some() {
            self.oracle.gangs_struck += 1;
        }
    }
    fn suspend_gang(&mut self, id: &GangId) -> Option<Period> {
        let slot = self.slot_of(id)?;
        let now = self.now;
        let draw = self.gang_draw(slot, self.gangs.get(&slot)?);
        let retry =
            Period::from_secs(draw.text("retry").number(now.as_second().unsigned_abs()).between(60, 300));
        let (nodes, lost) = self.gangs.get_mut(&slot)?.suspend(now, retry)?;
        self.leave_nodes(&nodes, 0);
        self.touch_gang(slot);
        Some(lost)
    }
    fn leave_nodes(&mut self, nodes: &[NodeId], passed: u64) {
        for id in nodes {
            if let Some(node) = self.nodes.get_mut(id) {
                node.gang = None;
                node.jobs_passed += passed;
            }
            self.checkpoint_turn(id);
            self.touch(id);
        }
    }
    /// A job's time has come.
    pub(crate) fn gang_turn(&mut self, slot: u32) {
        let now = self.now;
        let Some(gang) = self.gangs.get(&slot) else { return };
        let draw = self.gang_draw(slot, gang);
        let Some(gang) = self.gangs.get_mut(&slot) else { return };
        match gang.turn(draw, now) {
            GangEvent::Wants => self.place_gang(slot),
            GangEvent::Ended(nodes) => self.leave_nodes(&nodes, 1),
            GangEvent::Checkpointed(nodes) => {
                for id in nodes {
                    if self.nodes.get(&id).is_some_and(|node| node.activity == Activity::Checkpoint) {
                        self.checkpoint_turn(&id);
                        self.touch(&id);
                    }
                }
            }
            GangEvent::Writes | GangEvent::Nothing => {
                // Nobody can see this.
                self.touch_gang_silently(slot);
                return;
            }
        }
        self.touch_gang(slot);
    }
    fn place_gang(&mut self, slot: u32) {
        let now = self.now;
        let Some(gang) = self.gangs.get(&slot) else { return };
        let wanted = usize::try_from(gang.size).unwrap_or(usize::MAX);
        let free = |(_, node): &(&NodeId, &NodeState)| {
            node.pool == gang.pool
                && node.zone == gang.zone
                && node.schedulable()
                && node.gang.is_none()
                && node.faults.is_empty()
                && node.pods == 0
        };
        let range = self.zone_range(&gang.pool, gang.zone);
        let nodes: Vec<NodeId> =
            self.nodes.range(range).filter(free).map(|(id, _)| id.clone()).take(wanted).collect();
        let id = gang.id(slot);
        let Some(gang) = self.gangs.get_mut(&slot) else { return };
        if nodes.len() < wanted || wanted == 0 {
            gang.state = GangState::Pending { try_at: RETRY.after(now) };
            return;
        }
        gang.start(nodes.clone(), now);
        for node_id in nodes {
            self.judge_placement(&node_id);
            if let Some(node) = self.nodes.get_mut(&node_id) {
                node.gang = Some(id.clone());
            }
            self.touch(&node_id);
        }
    }
    /// Nodes of a pool have names in a row, so only those need to be looked at.
    fn zone_range(&self, pool: &PoolName, _zone: u32) -> std::ops::RangeInclusive<NodeId> {
        let cluster = self.ground.pools.get(pool).map(|hardware| hardware.cluster.clone());
        match cluster {
            Some(cluster) => {
                NodeId::of(&cluster, &format!("{pool}-"))..=NodeId::of(&cluster, &format!("{pool}-~"))
            }
            None => NodeId::new("")..=NodeId::new(""),
        }
    }
    /// Work came to a node on which something is being changed.
    fn judge_placement(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let Some(change) = node.changing() else { return };
        let item = change.item();
        let quiet = match &item {
            drydock_plan::ApplyItem::Component(name) => !matches!(
                self.ground.disruption(name),
                drydock_spec::Disruption::Drain | drydock_spec::Disruption::Reboot
            ),
            drydock_plan::ApplyItem::Layout => false,
        };
        if !quiet && !node.uncordoned_by_others {
            self.oracle.find(self.now, Some(id), format!("work was placed while {item:?} was being changed"));
        }
    }
    /// Asks jobs for a checkpoint and waits for them.
    pub(crate) fn begin_checkpoint(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(Ensure::Checkpointed { gangs }) =
            self.nodes.get(id).and_then(|node| node.intent.as_ref()).map(|intent| intent.ensure.clone())
        else {
            return;
        };
        for gang in gangs {
            let Some(slot) = self.slot_of(&gang) else { continue };
            let Some(state) = self.gangs.get(&slot).filter(|state| state.id(slot) == gang) else { continue };
            let draw = self.gang_draw(slot, state);
            if let Some(state) = self.gangs.get_mut(&slot) {
                state.ask(draw, now);
                self.touch_gang(slot);
            }
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.activity = Activity::Checkpoint;
        }
        self.checkpoint_turn(id);
    }
    /// Looks whether the jobs a node waits for have written.
    fn checkpoint_turn(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get(id).filter(|node| node.activity == Activity::Checkpoint) else {
            return;
        };
        let Some(intent) = &node.intent else { return };
        let Ensure::Checkpointed { gangs } = &intent.ensure else { return };
        let open = |gang: &&GangId| {
            let running =
                self.slot_of(gang).and_then(|slot| self.gangs.get(&slot).map(|state| (slot, state)));
            running.is_some_and(|(slot, state)| {
                state.id(slot) == **gang && state.running().is_some_and(|run| run.completed < intent.started)
            })
        };
        let remaining = count(gangs.iter().filter(open).count());
        let Some(node) = self.nodes.get_mut(id) else { return };
        if remaining > 0 {
            node.answer(StepState::Working { remaining, blocked_by: None });
        } else {
            // Seen a moment later, like every other answer.
            let until = crate::duration::ACKNOWLEDGE.after(self.now);
            node.activity = Activity::Acknowledge { until };
            node.answer(StepState::Working { remaining: 0, blocked_by: None });
        }
    }
    /// Single pods end and come.
    pub(crate) fn shift_turn(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.next_shift.is_none_or(|at| at > now) {
            return;
        }
        node.shift_number += 1;
        let draw = self.ground.draw(id, "shift").number(node.shift_number);
        node.next_shift =
            Some(Period::from_mins(draw.text("next").between(SHIFT_MINUTES.0, SHIFT_MINUTES.1)).after(now));
        let hardware = self.ground.pools.get(&node.pool);
        let single = hardware.is_some_and(|hardware| !hardware.gangs);
        if node.down.is_some() || matches!(node.activity, Activity::Drain { .. }) || !single {
            return;
        }
        let ended = draw.text("ended").between(0, node.pods.into());
        node.jobs_passed += ended;
        node.pods = node.pods.saturating_sub(u32::try_from(ended).unwrap_or(u32::MAX));
        if node.schedulable() {
            let gpus = u64::from(hardware.map_or(0, |hardware| hardware.gpus));
            let pods = draw.text("pods").between(gpus / 2, gpus);
            node.pods = node.pods.max(u32::try_from(pods).unwrap_or(u32::MAX));
            self.judge_placement(id);
        }
    }
    /// Hardware fails by itself.
    pub(crate) fn hardware_turn(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.next_fault.is_none_or(|at| at > now) {
            return;
        }
        node.fault_number += 1;
        let draw = self.ground.draw(id, "hardware").number(node.fault_number);
        let all: u64 = SPONTANEOUS.iter().map(|(_, weight)| weight).sum();
        let mut pick = draw.text("kind").between(1, all);
        let kind = SPONTANEOUS.iter().find(|(_, weight)| {
            let here = pick <= *weight;
            pick = pick.saturating_sub(*weight);
            here
        });
        let kind = kind.map_or("xid-79", |(kind, _)| *kind).to_owned();
        let repaired =
            Period::from_hours(draw.text("repair").between(REPAIR_HOURS.0, REPAIR_HOURS.1)).after(now);
        self.break_node(id, &kind);
        self.at(repaired, Happening::Repair { node: id.clone(), kind });
        let next = self.nodes.get(id).and_then(|node| self.next_hardware(id, node, now));
        if let Some(node) = self.nodes.get_mut(id) {
            node.next_fault = next;
        }
    }
    /// Draws the first failure of every node.
    pub(crate) fn schedule_hardware(&mut self, per_gpu_day: f64) {
        let now = self.now;
        let ids: Vec<NodeId> = self.nodes.keys().cloned().collect();
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.next_fault =
                    failure(self.ground.draw(&id, "failure"), self.ground.gpus(&node.pool), per_gpu_day)
                        .map(|wait| wait.after(now));
            }
            self.touch(&id);
        }
    }
    fn next_hardware(&self, id: &NodeId, node: &NodeState, now: Timestamp) -> Option<Timestamp> {
        let rate: f64 = self
            .ground
            .faults
            .iter()
            .map(|fault| match fault {
                FaultSpec::Spontaneous { per_gpu_day } => *per_gpu_day,
                _ => 0.0,
            })
            .sum();
        let draw = self.ground.draw(id, "failure").number(node.fault_number);
        failure(draw, self.ground.gpus(&node.pool), rate).map(|wait| wait.after(now))
    }
    /// Makes the queues of jobs of a new world.
    pub(crate) fn found_gangs(&mut self) {
        let Some(workload) = self.ground.workload else { return };
        let mut zones: BTreeMap<(PoolName, u32), u32> = BTreeMap::new();
        for node in self.nodes.values() {
            *zones.entry((node.pool.clone(), node.zone)).or_default() += 1;
        }
        let mut slot = 0u32;
        for ((pool, zone), nodes) in zones {
            let Some(hardware) = self.ground.pools.get(&pool).filter(|hardware| hardware.gangs) else {
                continue;
            };
            if nodes < GANG_ZONE_MIN {
                continue;
            }
            let tenant = hardware.tenant.clone();
            let mut room = nodes * workload.gang_percent.min(100) / 100;
            while room >= 2 {
                let draw = Draw::new(self.ground.seed).text("queue").number(slot.into());
                let pick = usize::try_from(draw.text("size").between(0, 7)).unwrap_or(0);
                let size = SIZES.get(pick).copied().unwrap_or(2).min(workload.gang_nodes).min(room).max(1);
                room -= size;
                let minutes = draw.text("every").between(CHECKPOINT_MINUTES.0, CHECKPOINT_MINUTES.1);
                let whole = Gang::fresh_work(draw, size);
                // Jobs are met in the middle of their lives.
                let left =
                    Period::from_millis(draw.text("left").between(whole.as_millis() / 10, whole.as_millis()));
                let gang = Gang {
                    pool: pool.clone(),
                    zone,
                    size,
                    tenant: tenant.clone(),
                    run: 1,
                    left,
                    every: Some(Period::from_mins(minutes)),
                    state: GangState::Pending { try_at: self.now },
                    once: false,
                    shown: None,
                };
                self.gangs.insert(slot, gang);
                self.touch_gang(slot);
                slot += 1;
            }
        }
    }
}

/// Time to the next failure of a node: exponential with the rate of all its GPUs, at least a minute.
fn failure(draw: Draw, gpus: u32, per_gpu_day: f64) -> Option<Period> {
    let per_day = f64::from(gpus) * per_gpu_day;
    if per_day <= 0.0 {
        return None;
    }
    // A natural logarithm differs in its last bits between machines; whole minutes don't.
    let days = -(1.0 - draw.unit()).ln() / per_day;
    let minutes = (days * 1440.0).clamp(1.0, 5_000_000.0);
    Some(Period::from_mins(minutes as u64))
}
