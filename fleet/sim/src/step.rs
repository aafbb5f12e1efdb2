//! What a node does with an intent: it begins it, and goes on when its time has come.

use std::collections::BTreeMap;

use drydock_plan::{Blocker, CheckOrder, CheckResult, Ensure, NodeId, RawVerdict, StepState};
use drydock_spec::{ComponentName, ComponentVersion, Disruption};

use crate::{
    World, duration,
    health::{self, ApplyCourse, Consequence, Course, Leaves},
    lies,
    node::{Activity, Change, Leaving, NodeState},
    script::Happening,
};

/// What an intent asks for, taken apart so that the node can be changed while it is carried out.
enum Begin {
    Fetch { what: String },
    Check,
    Cordon,
    Return,
    Checkpoint,
    Drain,
    Change(Change),
}

fn artifacts_text(artifacts: &BTreeMap<ComponentName, Vec<ComponentVersion>>) -> String {
    let one = |(name, versions): (&ComponentName, &Vec<ComponentVersion>)| {
        let versions: Vec<&str> = versions.iter().map(|v| v.version.as_str()).collect();
        format!("{name}={}", versions.join("+"))
    };
    artifacts.iter().map(one).collect::<Vec<_>>().join(",")
}

fn orders(node: &NodeState) -> &[CheckOrder] {
    match node.intent.as_ref().map(|intent| &intent.ensure) {
        Some(Ensure::Preflight { checks, .. } | Ensure::Checked { checks }) => checks,
        _ => &[],
    }
}

impl World {
    /// Begins the intent of a node that does nothing.
    pub(crate) fn begin(&mut self, id: &NodeId) {
        let Some(intent) = self.nodes.get(id).and_then(|node| node.intent.as_ref()) else { return };
        let begin = match &intent.ensure {
            Ensure::Preflight { artifacts, .. } if !artifacts.is_empty() => {
                Begin::Fetch { what: artifacts_text(artifacts) }
            }
            Ensure::Preflight { .. } | Ensure::Checked { .. } => Begin::Check,
            Ensure::Cordoned | Ensure::Kept => Begin::Cordon,
            Ensure::Returned => Begin::Return,
            Ensure::Checkpointed { .. } => Begin::Checkpoint,
            Ensure::Drained { .. } => Begin::Drain,
            Ensure::Applied { component, version, reboot, attempt } => Begin::Change(Change::Component {
                component: component.clone(),
                version: version.clone(),
                attempt: *attempt,
                reboot: *reboot,
            }),
            Ensure::Partitioned { layout, attempt, .. } => {
                Begin::Change(Change::Layout { layout: layout.clone(), attempt: *attempt })
            }
        };
        match begin {
            Begin::Fetch { what } => {
                let until = duration::prefetch(&self.ground, id, &what).after(self.now);
                let Some(node) = self.nodes.get_mut(id) else { return };
                node.activity = Activity::Prefetch { until };
                let remaining = count(orders(node).len()).saturating_add(1);
                node.answer(StepState::Working { remaining, blocked_by: None });
            }
            Begin::Check => self.begin_check(id, 0),
            Begin::Cordon => self.set_cordon(id, true),
            Begin::Return => self.set_cordon(id, false),
            Begin::Checkpoint => self.begin_checkpoint(id),
            Begin::Drain => self.begin_drain(id),
            Begin::Change(change) => self.begin_change(id, change),
        }
    }
    /// What was fetched is there, or couldn't be pulled.
    fn end_fetch(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get(id) else { return };
        let Some(Ensure::Preflight { artifacts, .. }) = node.intent.as_ref().map(|intent| &intent.ensure)
        else {
            return;
        };
        let wanted: Vec<(ComponentName, ComponentVersion)> = artifacts
            .iter()
            .flat_map(|(name, versions)| versions.iter().map(|version| (name.clone(), version.clone())))
            .collect();
        let missing = wanted.iter().find_map(|(component, version)| {
            health::cannot_pull(&self.ground, id, node, component, &version.version, now)
        });
        let Some(node) = self.nodes.get_mut(id) else { return };
        if let Some(message) = missing {
            node.activity = Activity::Idle;
            node.answer(StepState::Failed { message });
            return;
        }
        node.fetched.extend(wanted.iter().map(|(name, version)| health::artifact(name, &version.version)));
        self.begin_check(id, 0);
    }
    fn acknowledge(&mut self, id: &NodeId) {
        let until = duration::ACKNOWLEDGE.after(self.now);
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.activity = Activity::Acknowledge { until };
        node.answer(StepState::Working { remaining: 1, blocked_by: None });
    }
    fn set_cordon(&mut self, id: &NodeId, on: bool) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        let gpus = self.ground.gpus(&node.pool);
        node.cordon.own = node.intent.as_ref().filter(|_| on).map(|intent| intent.epoch);
        node.uncordoned_by_others = false;
        node.cordon_changed = Some(now);
        if !on && self.ground.workload.is_some() {
            // The scheduler finds the node again within some minutes.
            let draw = self.ground.draw(id, "back to work").number(node.shift_number);
            node.next_shift = Some(drydock_spec::Period::from_secs(draw.between(60, 900)).after(now));
        }
        self.oracle.cordon(node, gpus, now);
        if let Some(at) = lies::cordon_lag(&self.ground).map(|lag| lag.after(now)) {
            self.at(at, Happening::Look { node: id.clone() });
        }
        if on && let Some(at) = lies::uncordoned(&self.ground, id, now) {
            self.at(at, Happening::Uncordon { node: id.clone() });
        }
        self.acknowledge(id);
    }
    /// Begins the n-th check of the intent, or ends it where there is none.
    fn begin_check(&mut self, id: &NodeId, index: usize) {
        let (ground, now) = (&self.ground, self.now);
        let Some(node) = self.nodes.get_mut(id) else { return };
        let remaining = count(orders(node).len().saturating_sub(index));
        let Some(order) = orders(node).get(index) else {
            node.activity = Activity::Idle;
            node.answer(StepState::Done);
            return;
        };
        let run = format!("{} {}", node.running.id, node.intent.as_ref().map_or("", |i| i.ensure.word()));
        let (until, hangs) = match health::course(ground, id, node, order) {
            Course::Ends => (Some(duration::check(ground, id, order, &run).after(now)), false),
            Course::Hangs => (Some(order.timeout.after(now)), true),
            Course::NeverStarts => (None, false),
        };
        let partner = order.partner.clone().filter(|_| lies::takes_partner(ground, node, order));
        node.activity = Activity::Check { index, started: now, until, hangs };
        node.answer(StepState::Working { remaining, blocked_by: None });
        if let Some(partner) = partner {
            node.partners_taken += 1;
            let (at, back) = (lies::PARTNER_GOES.after(now), lies::PARTNER_BACK.after(now));
            self.at(at, Happening::Lose { node: partner, back: Some(back) });
        }
    }
    fn end_check(&mut self, id: &NodeId, index: usize, started: jiff::Timestamp, hangs: bool) {
        let now = self.now;
        let Some(node) = self.nodes.get(id) else { return };
        let Some(order) = orders(node).get(index) else { return };
        let partner = order.partner.as_ref().map(|p| (p, self.nodes.get(p)));
        let finding = if hangs {
            health::Finding {
                verdict: RawVerdict::Hang,
                value: None,
                detail: format!("no answer within {}", order.timeout),
            }
        } else {
            health::finding(&self.ground, id, node, order, partner, now)
        };
        let result = CheckResult {
            check: order.name.clone(),
            verdict: finding.verdict,
            value: finding.value,
            detail: finding.detail,
            started,
            finished: now,
            partner: order.partner.clone(),
        };
        let bad = matches!(result.verdict, RawVerdict::Fail | RawVerdict::Hang);
        let line = bad.then(|| format!("{id}: {} {:?}: {}", result.check, result.verdict, result.detail));
        let told = !lies::leaves_out(&self.ground, id, &result.check, now);
        if let Some(report) = self.nodes.get_mut(id).and_then(|node| node.report.as_mut()).filter(|_| told) {
            report.checks.push(result);
        }
        if let Some(line) = line {
            self.say(line);
        }
        self.begin_check(id, index + 1);
    }
    fn begin_drain(&mut self, id: &NodeId) {
        self.take_gang_away(id);
        let (ground, now) = (&self.ground, self.now);
        let Some(node) = self.nodes.get_mut(id) else { return };
        let stuck = health::stuck_pods(ground, id, now);
        node.pods = node.pods.max(count(stuck.len()));
        // Asked again in the middle of it, it is still the same one.
        if !node.tally.emptied {
            node.tally.drains += 1;
            node.tally.emptied = true;
        }
        if node.pods == 0 {
            self.acknowledge(id);
            return;
        }
        let slow = health::slow_drain(ground, id);
        let usual = |pod| duration::leave(ground, id, node.shift_number, pod).saturating_add(slow).after(now);
        let mut leaving: Vec<Leaving> = (0..node.pods)
            .map(|pod| match usize::try_from(pod).ok().and_then(|pod| stuck.get(pod)) {
                // Released by then, and then it goes like any other.
                Some(pod_stuck) => Leaving {
                    at: pod_stuck.until.map(|until| until.max(usual(pod))),
                    refused: pod_stuck.refused,
                },
                None => Leaving { at: Some(usual(pod)), refused: false },
            })
            .collect();
        leaving.sort_by_key(|pod| (pod.at.is_none(), pod.at));
        node.activity = Activity::Drain { leaving };
        drain_report(node, id);
    }
    fn pods_left(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        let Activity::Drain { leaving } = &mut node.activity else { return };
        let before = leaving.len();
        leaving.retain(|pod| pod.at.is_none_or(|at| at > now));
        let gone = count(before - leaving.len());
        let empty = leaving.is_empty();
        node.pods = node.pods.saturating_sub(gone);
        node.tally.evictions = node.tally.evictions.saturating_add(gone);
        if empty {
            node.activity = Activity::Idle;
            node.answer(StepState::Done);
        } else {
            drain_report(node, id);
        }
    }
    fn begin_change(&mut self, id: &NodeId, change: Change) {
        let now = self.now;
        let Some(node) = self.nodes.get(id) else { return };
        let there = match &change {
            Change::Component { component, version, .. } => {
                node.running.vector.get(component) == version.as_ref()
            }
            Change::Layout { layout, .. } => node.layout.as_ref() == Some(layout),
        };
        if there && !node.dead.contains(&change.item()) {
            self.acknowledge(id);
            return;
        }
        self.judge_change(id, &change);
        let ground = &self.ground;
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.struck = true;
        if let Change::Component { component, version: Some(version), .. } = &change {
            node.tally.apply(component, &version.version, now);
        }
        let hardware = ground.pools.get(&node.pool);
        let length = match &change {
            Change::Component { component, version, attempt, .. } => {
                let compiled = hardware.is_some_and(|h| h.compiled);
                duration::apply(ground, id, compiled, component, version.as_ref(), *attempt)
            }
            Change::Layout { layout, attempt } => duration::partition(ground, id, layout.as_str(), *attempt),
        };
        // What isn't on the node yet is pulled first, as soon as it can be.
        let begins = match &change {
            Change::Component { component, version: Some(version), .. } => {
                health::pulled_at(ground, id, node, component, &version.version, now)
            }
            Change::Component { version: None, .. } | Change::Layout { .. } => now,
        };
        let until = match health::apply_course(ground, id, node, &change) {
            ApplyCourse::Never => None,
            ApplyCourse::Comes | ApplyCourse::Fails(..) => Some(length.after(begins)),
        };
        node.answer(StepState::Working { remaining: 1, blocked_by: None });
        node.activity = Activity::Apply { change: change.clone(), until };
        if until.is_none() {
            // The old one is gone and the new one never comes up, whatever is asked next.
            self.take_out(id, &change);
        }
    }
    /// What applying this now does to others, and whether it should have been possible.
    fn judge_change(&mut self, id: &NodeId, change: &Change) {
        let disruption = match change {
            Change::Component { component, .. } => self.ground.disruption(component),
            Change::Layout { .. } => Disruption::Drain,
        };
        if !matches!(disruption, Disruption::Drain | Disruption::Reboot) {
            return;
        }
        let Some(node) = self.nodes.get(id) else { return };
        if node.schedulable() && !node.uncordoned_by_others {
            self.oracle.find(self.now, Some(id), format!("{:?} without a cordon", change.item()));
        }
        if node.pods > 0 || node.gang.is_some() {
            self.take_gang_away(id);
            if let Some(node) = self.nodes.get_mut(id) {
                self.oracle.pods_killed = self.oracle.pods_killed.saturating_add(node.pods);
                node.pods = 0;
            }
        }
    }
    /// A part didn't come up: it isn't there any more.
    fn take_out(&mut self, id: &NodeId, change: &Change) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.dead.insert(change.item());
        match change {
            Change::Component { component, .. } => self.set_component(id, component, None),
            Change::Layout { .. } => node.layout = None,
        }
    }
    fn end_change(&mut self, id: &NodeId, change: &Change) {
        let Some(node) = self.nodes.get(id) else { return };
        let failed = match health::apply_course(&self.ground, id, node, change) {
            ApplyCourse::Fails(message, leaves) => Some((message, leaves)),
            ApplyCourse::Comes | ApplyCourse::Never => None,
        };
        // A newer intent came while this was under way: its answer is still to be found.
        let asked = node.intent.as_ref().is_some_and(|intent| change.is(&intent.ensure));
        match &failed {
            Some((_, Leaves::Nothing)) => self.take_out(id, change),
            Some((_, Leaves::Half)) => self.put_in_half(id, change),
            Some((_, Leaves::Old)) => {}
            None => self.put_in(id, change),
        }
        if let Some((message, _)) = &failed {
            self.say(format!("{id}: {:?} failed: {message}", change.item()));
        }
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.activity = Activity::Idle;
        match failed {
            Some((message, _)) if asked => node.answer(StepState::Failed { message }),
            None if asked => node.answer(StepState::Done),
            Some(_) | None => self.begin(id),
        }
    }
    /// A part shows as the new one and doesn't work.
    fn put_in_half(&mut self, id: &NodeId, change: &Change) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.dead.insert(change.item());
        match change {
            Change::Component { component, version, .. } => {
                self.set_component(id, component, version.as_ref());
            }
            Change::Layout { layout, .. } => node.layout = Some(layout.clone()),
        }
    }
    fn put_in(&mut self, id: &NodeId, change: &Change) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.dead.remove(&change.item());
        node.changed = Some(now);
        match change {
            Change::Component { component, version, .. } => {
                if let Some(version) = version {
                    node.fetched.insert(health::artifact(component, &version.version));
                }
                self.set_component(id, component, version.as_ref());
                self.meddle(id, component, version.as_ref());
            }
            Change::Layout { layout, .. } => node.layout = Some(layout.clone()),
        }
        self.forget_version_faults(id);
        let Some(node) = self.nodes.get(id) else { return };
        for consequence in health::after_apply(&self.ground, id, node, &change.item()) {
            match consequence {
                Consequence::Lost { back_after } => {
                    let back = back_after.map(|after| after.after(self.now));
                    self.at(self.now, Happening::Lose { node: id.clone(), back });
                }
                Consequence::Fault { kind, after } => {
                    let at = after.after(self.now);
                    self.at(at, Happening::VersionFault { node: id.clone(), kind });
                }
                Consequence::Wedged(wedge) => {
                    if let Some(node) = self.nodes.get_mut(id) {
                        node.wedged = Some(wedge);
                    }
                }
                Consequence::Flaps { every, times } => {
                    let flap = Happening::VersionFlap { node: id.clone(), every, left: times };
                    self.at(every.after(self.now), flap);
                }
            }
        }
    }
    /// Goes on with whatever is due on a node.
    pub(crate) fn node_turn(&mut self, id: &NodeId) {
        self.come_back_if_due(id);
        self.activity_turn(id);
        self.hardware_turn(id);
        self.shift_turn(id);
        self.touch(id);
    }
    fn activity_turn(&mut self, id: &NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get(id) else { return };
        let asleep = node.down.is_some() && !matches!(node.activity, Activity::Acknowledge { .. });
        if asleep || node.activity_due().is_none_or(|due| due > now) {
            return;
        }
        match node.activity.clone() {
            Activity::Idle | Activity::Checkpoint => {}
            Activity::Acknowledge { .. } => {
                if let Some(node) = self.nodes.get_mut(id) {
                    node.activity = Activity::Idle;
                    node.answer(StepState::Done);
                }
            }
            Activity::Prefetch { .. } => self.end_fetch(id),
            Activity::Check { index, started, hangs, .. } => self.end_check(id, index, started, hangs),
            Activity::Drain { .. } => self.pods_left(id),
            Activity::Apply { change, .. } => {
                let reboot = matches!(change, Change::Component { reboot: true, .. });
                let comes = health::apply_course(&self.ground, id, node, &change) == ApplyCourse::Comes;
                if reboot && comes && lies::early(&self.ground, id) {
                    // Reported as done; the node boots a minute later.
                    let draw = duration::reboot(&self.ground, id, node.boot_id);
                    let goes = lies::BOOTS_AFTER.after(now);
                    let back = Some(draw.after(goes));
                    self.end_change(id, &change);
                    self.at(goes, Happening::Lose { node: id.clone(), back });
                } else if reboot && comes {
                    self.begin_reboot(id, change);
                } else {
                    self.end_change(id, &change);
                }
            }
            Activity::Reboot { change, .. } => {
                if let Some(node) = self.nodes.get_mut(id) {
                    node.boot_id += 1;
                    node.ready = true;
                    node.ready_since = now;
                }
                self.end_change(id, &change);
            }
        }
    }
    fn begin_reboot(&mut self, id: &NodeId, change: Change) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.ready = false;
        node.ready_since = now;
        node.activity =
            Activity::Reboot { change, until: duration::reboot(&self.ground, id, node.boot_id).after(now) };
    }
}

fn drain_report(node: &mut NodeState, id: &NodeId) {
    let Activity::Drain { leaving } = &node.activity else { return };
    let refused = leaving.iter().any(|pod| pod.refused);
    let blocked_by = refused.then(|| Blocker::DisruptionBudget(id.node().to_owned()));
    let remaining = count(leaving.len());
    node.answer(StepState::Working { remaining, blocked_by });
}

/// Numbers of pods and checks are small; a saturated one is still "many".
pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Change {
    /// Whether an intent asks for this very change.
    fn is(&self, ensure: &Ensure) -> bool {
        match (self, ensure) {
            (
                Self::Component { component, version, attempt, reboot },
                Ensure::Applied { component: c, version: v, attempt: a, reboot: r },
            ) => component == c && version == v && attempt == a && reboot == r,
            (Self::Layout { layout, attempt }, Ensure::Partitioned { layout: l, attempt: a, .. }) => {
                layout == l && attempt == a
            }
            _ => false,
        }
    }
}
