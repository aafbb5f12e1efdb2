//! The way back. It is the next rollout, not a special path: same budgets, same checks, worst first.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{
    Assignment, NewRollout, NodeOutcome, RolloutEvent, RolloutId, RolloutKind, RolloutRecord, RolloutState,
    RolloutSummary, Target, WaveState,
};
use drydock_spec::{Amount, Batch, OrderKey, Period, RollbackScope, Soak, Wave};

use crate::{health, pass::Pass};

impl Pass<'_> {
    /// Takes the nodes in the policy's scope back to what each was last healthy on.
    pub(crate) fn go_back(&mut self, parent: &RolloutRecord) {
        let nodes = self.to_take_back(parent);
        if nodes.is_empty() {
            self.close(&parent.id, RolloutState::RolledBack, "every node that failed is back and verified");
            return;
        }
        let failed = |i: usize, target: &Target| {
            let pool = self.rec(i).assignment.as_ref().map(|a| &a.pool);
            pool.is_some_and(|pool| self.quarantined(pool, target).is_some())
        };
        // Something was brought that can't be taken back by itself: it stays halted, and a person decides.
        if nodes.iter().any(|(i, target)| !self.can_go_back(*i, target)) {
            return;
        }
        // Where what was there before has failed as well, a person decides about that node; it holds no other back.
        let nodes: Vec<(usize, Target)> =
            nodes.into_iter().filter(|(i, target)| !failed(*i, target)).collect();
        if nodes.is_empty() {
            return;
        }
        let id = RolloutId::new(&format!("{}-rollback", parent.id));
        let summary = self.count_outcomes(&parent.id);
        let child = self.rollback_record(parent, &id, &nodes);
        self.rollouts.insert(id.clone(), Arc::new(child));
        self.forget_roster();
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        self.log(&id, RolloutEvent::Created { nodes: count, waves: 1 });
        for (i, target) in nodes {
            self.remember(&target.release);
            let Some(part) = self.rec(i).assignment.clone() else { continue };
            let record = self.edit(i);
            record.soak = None;
            record.not_before = None;
            let carries = part.carries;
            record.assignment =
                Some(Assignment { carries, ..Assignment::new(id.clone(), part.pool, 0, target) });
        }
        if let Some(rollout) = self.edit_rollout(&parent.id) {
            rollout.child = Some(id);
            rollout.summary = Some(summary);
        }
        self.set_state(&parent.id, RolloutState::RollingBack, "taking nodes back");
    }

    /// Nodes to take back, each with its target. A node that runs what it was last healthy on isn't among them.
    fn to_take_back(&self, parent: &RolloutRecord) -> Vec<(usize, Target)> {
        let failed_wave = parent.waves.iter().position(|w| w.state == WaveState::Failed);
        let scope = parent.strategy.on_failure.scope;
        let mut nodes = Vec::new();
        for (i, node) in self.frame.nodes.iter().enumerate() {
            let record = self.rec(i);
            let Some(a) = record.assignment.as_ref().filter(|a| a.rollout == parent.id) else { continue };
            if a.exposed.is_none() || record.visit.is_some() || record.quarantine.is_some() {
                continue;
            }
            let inside = match scope {
                RollbackScope::FailedAndSuspect => {
                    a.outcome.is_none()
                        && (node.obs.faults.iter().any(health::is_somebodys) || record.soak.is_none())
                }
                RollbackScope::Wave => failed_wave == Some(usize::from(a.wave)),
                RollbackScope::Rollout => true,
            };
            let back = match (&a.outcome, &record.soak) {
                (_, Some(soak)) => Some(soak.from.clone()),
                (Some(NodeOutcome::Done), None) => record.previous_good.clone(),
                (_, None) => record.last_known_good.clone(),
            };
            if let Some(target) =
                back.filter(|t| inside && *t != a.target && !self.own_needs(i, t).is_empty())
            {
                nodes.push((i, target));
            }
        }
        nodes
    }

    /// Counts how the nodes of a rollout ended.
    pub(crate) fn count_outcomes(&self, id: &RolloutId) -> RolloutSummary {
        let mut summary = RolloutSummary::default();
        for i in 0..self.frame.nodes.len() {
            let Some(a) = self.rec(i).assignment.as_ref().filter(|a| a.rollout == *id) else { continue };
            summary.nodes += 1;
            match &a.outcome {
                Some(NodeOutcome::Done) => summary.done += 1,
                Some(NodeOutcome::Reverted) => summary.reverted += 1,
                Some(NodeOutcome::Quarantined) => summary.quarantined += 1,
                Some(NodeOutcome::Gone) => summary.gone += 1,
                Some(NodeOutcome::Skipped(_)) | None => summary.skipped += 1,
            }
            if let Ok(cluster) = self.frame.nodes[i].id.cluster().parse()
                && !summary.clusters.contains(&cluster)
            {
                summary.clusters.push(cluster);
            }
        }
        summary
    }

    pub(crate) fn rollback_record(
        &self,
        parent: &RolloutRecord,
        id: &RolloutId,
        nodes: &[(usize, Target)],
    ) -> RolloutRecord {
        let mut strategy = (*parent.strategy).clone();
        strategy.waves = collapsed(&strategy.waves);
        strategy.order = vec![OrderKey::FewestIncidents, OrderKey::Name];
        let mut targets = BTreeMap::new();
        for (i, target) in nodes {
            if let Some(a) = &self.rec(*i).assignment {
                targets.entry(a.pool.clone()).or_insert_with(|| target.clone());
            }
        }
        RolloutRecord::new(NewRollout {
            id: id.clone(),
            policy: parent.policy.clone(),
            strategy,
            suite: parent.suite.clone(),
            commit: parent.commit.clone(),
            kind: RolloutKind::Rollback { of: parent.id.clone() },
            targets,
            security: parent.security,
            created: self.now(),
        })
    }
}

/// One wave in place of all: no soak and no gates, since what it brings was proven on these nodes before. It keeps the
/// largest batch that the policy would have reached in the end.
pub(crate) fn collapsed(waves: &[Wave]) -> Vec<Wave> {
    let widest = waves.last().map(|w| w.batch).unwrap_or_default();
    let max = widest.max.unwrap_or(widest.start);
    let batch = Batch { start: max, grow: 1.0, max: Some(max) };
    let soak = Soak { time: Period::ZERO, min_node_hours: 0, min_jobs_passed: 0, per_batch: false };
    waves
        .last()
        .map(|w| Wave {
            name: w.name.clone(),
            select: Default::default(),
            pick: None,
            batch: if batch.start.is_zero() { Batch { start: Amount::Count(1), ..batch } } else { batch },
            soak,
            gates: Default::default(),
            failure: w.failure.clone(),
        })
        .into_iter()
        .collect()
}
