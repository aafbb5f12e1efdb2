//! What every node in flight should be asked for now, read from its record alone.

use std::collections::BTreeMap;

use drydock_plan::{
    Action, ApplyItem, CheckOrder, Course, DrainRules, Ensure, LayoutId, NodeId, Step, Target, Visit,
};
use drydock_spec::{Check, CheckOn, ComponentName, ComponentVersion, Disruption, LayoutName, layout_id};

use crate::{desired, judge, pass::Pass};

impl Pass<'_> {
    pub(crate) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for i in 0..self.frame.nodes.len() {
            if self.frame.stale(i).is_some() {
                // Nobody there to ask; the same is asked again when the cluster answers.
                continue;
            }
            if let Some(ensure) = self.ensure(i) {
                let record = self.rec(i);
                actions.push(Action {
                    node: self.frame.nodes[i].id.clone(),
                    generation: record.generation,
                    epoch: record.epoch,
                    ensure,
                });
            }
        }
        actions
    }

    fn ensure(&self, i: usize) -> Option<Ensure> {
        let record = self.rec(i);
        let own = self.frame.nodes[i].obs.cordon.own;
        let Some(visit) = &record.visit else {
            return match (&record.quarantine, own) {
                (Some(_), None) => Some(Ensure::Kept),
                (Some(_), Some(_)) if self.checked_in_place(i) => self.ensure_in_place(i),
                (Some(_), Some(_)) | (None, None) => None,
                // It is checked first, on a visit of its own.
                (None, Some(_)) if self.is_unexplained(i) => None,
                // The visit it was for has ended well: it came late, and is taken away.
                (None, Some(_)) => Some(Ensure::Returned),
            };
        };
        if let Course::Out(_) = visit.course {
            return Some(Ensure::Returned);
        }
        if visit.not_before.is_some_and(|at| at > self.now()) || visit.arrived {
            return None;
        }
        let target = if visit.course == Course::Back { &visit.from } else { &visit.to };
        match &visit.step {
            Step::Preflight => Some(self.preflight(i, visit)),
            Step::Cordon => Some(Ensure::Cordoned),
            Step::Checkpoint => {
                Some(Ensure::Checkpointed { gangs: self.frame.nodes[i].obs.work.gangs.clone() })
            }
            Step::Drain => Some(Ensure::Drained { rules: self.drain_rules(i) }),
            Step::Apply(ApplyItem::Layout) => target.layout.clone().map(|layout| {
                let name = self.layout_name(&layout);
                Ensure::Partitioned { layout, name, attempt: visit.attempt }
            }),
            Step::Apply(ApplyItem::Component(name)) => Some(self.apply(name, target, visit)),
            Step::Verify => Some(Ensure::Checked { checks: self.checks(i, visit) }),
            Step::Fence => None,
            Step::Return => Some(Ensure::Returned),
        }
    }

    fn apply(&self, name: &ComponentName, target: &Target, visit: &Visit) -> Ensure {
        let version = self.vector(&target.release).and_then(|v| v.0.get(name)).cloned();
        let item = ApplyItem::Component(name.clone());
        let reboot = desired::disruption(self.input.fleet, &item) == Disruption::Reboot;
        Ensure::Applied { component: name.clone(), version, reboot, attempt: visit.attempt }
    }

    /// Artefacts of both ways, so that neither the change nor the way back waits for a download while GPUs idle.
    fn preflight(&self, i: usize, visit: &Visit) -> Ensure {
        let mut artifacts: BTreeMap<ComponentName, Vec<ComponentVersion>> = BTreeMap::new();
        let prefetch = self.rollout(&visit.rollout).is_some_and(|r| r.strategy.prefetch);
        for item in self.needs(i, &visit.to).iter().filter(|_| prefetch) {
            let ApplyItem::Component(name) = item else { continue };
            // What the cluster has once runs elsewhere: its image isn't needed here.
            if self.shared.contains(name) {
                continue;
            }
            for target in [&visit.to, &visit.from] {
                if let Some(version) = self.vector(&target.release).and_then(|v| v.0.get(name)) {
                    artifacts.entry(name.clone()).or_default().push(version.clone());
                }
            }
        }
        let checks = if self.skips_preflight(i) { Vec::new() } else { self.preflight_orders(i, visit) };
        Ensure::Preflight { artifacts, checks }
    }

    fn preflight_orders(&self, i: usize, visit: &Visit) -> Vec<CheckOrder> {
        let Some(suite) = self.suite(i) else { return Vec::new() };
        let pool = self.pool_of(i);
        let checks = judge::preflight_checks(&suite, self.rec(i), &self.observed_target(i), self.now());
        self.orders(i, visit, checks.into_iter().filter(|c| judge::applies(c, pool)))
    }

    fn checks(&self, i: usize, visit: &Visit) -> Vec<CheckOrder> {
        let Some(suite) = self.suite(i) else { return Vec::new() };
        let pool = self.pool_of(i);
        self.orders(i, visit, suite.checks.iter().filter(|c| judge::applies(c, pool)))
    }

    fn orders<'c>(
        &self,
        i: usize,
        visit: &Visit,
        checks: impl Iterator<Item = &'c Check>,
    ) -> Vec<CheckOrder> {
        let node = &self.frame.nodes[i];
        let who = |check: &Check| match (check.on, &visit.partner) {
            (CheckOn::Pair, Some(partner)) => vec![node.id.clone(), partner.clone()],
            (CheckOn::Node, _) | (CheckOn::Pair, None) => vec![node.id.clone()],
            (CheckOn::Group, _) => self.together(visit),
        };
        checks.map(|c| judge::order(c, who(c), visit, node.gpus)).collect()
    }

    /// Nodes of a unit that a check of the group runs on: those that run the same by now.
    fn together(&self, visit: &Visit) -> Vec<NodeId> {
        let same = |other: &Visit| {
            other.course == visit.course
                && match (&visit.step, &other.step) {
                    (Step::Verify, Step::Verify | Step::Fence) => true,
                    (mine, theirs) => mine == theirs,
                }
        };
        self.unit_members(&self.visiting(), &visit.rollout, &visit.unit)
            .into_iter()
            .filter(|&j| self.rec(j).visit.as_ref().is_some_and(same))
            .map(|j| self.frame.nodes[j].id.clone())
            .collect()
    }

    fn drain_rules(&self, i: usize) -> DrainRules {
        self.strategy(i).map_or_else(DrainRules::default, |strategy| DrainRules::from(&strategy.drain))
    }

    fn layout_name(&self, id: &LayoutId) -> Option<LayoutName> {
        let layouts = &self.input.fleet.layouts;
        layouts.iter().find(|(_, layout)| layout_id(&layout.spec) == *id).map(|(name, _)| name.clone())
    }
}
