//! `why NODE`: every rule that refuses, not only the first.

use std::collections::BTreeSet;

use drydock_plan::{ApplyItem, Assignment, NodeId, Reason, RolloutId, Target, WaveState};
use drydock_spec::{ComponentName, PoolName};
use jiff::Timestamp;

use crate::{Input, pass::Pass};

/// Why a node is where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The node.
    pub node: NodeId,
    /// Its pool.
    pub pool: Option<PoolName>,
    /// What it runs.
    pub running: Target,
    /// What Git wants it to run.
    pub wanted: Option<Target>,
    /// Nothing has to be changed on it.
    pub synced: bool,
    /// The rollout it is part of.
    pub rollout: Option<RolloutId>,
    /// The step it is in, while it is in flight.
    pub step: Option<String>,
    /// Everything it waits for.
    pub waits_for: Vec<Reason>,
    /// When this was judged.
    pub judged_at: Timestamp,
    /// Instant of the facts it was judged on.
    pub facts_at: Option<Timestamp>,
}

/// Explains one node, on the same input as a plan. `None` when there is no such node.
#[must_use]
pub fn why(input: &Input<'_>, node: &NodeId) -> Option<Explanation> {
    let mut pass = Pass::new(*input);
    let i = pass.frame.find(node)?;
    pass.asked = Some(i);
    crate::go_on(&mut pass);
    let waits_for = pass.explain(i);
    let view = pass.frame.nodes[i];
    let wanted = view.pool.and_then(|p| pass.frame.pools.get(p)).map(|p| p.target.clone());
    let record = pass.rec(i);
    let cluster = input.inventory.clusters.iter().find(|(name, _)| name.as_str() == node.cluster());
    Some(Explanation {
        node: node.clone(),
        pool: view.obs.pool.clone(),
        running: Target { release: view.obs.running.id.clone(), layout: view.obs.layout.clone() },
        synced: wanted.as_ref().is_none_or(|t| pass.differences(i, t).is_empty()),
        wanted,
        rollout: record.assignment.as_ref().map(|a| a.rollout.clone()),
        step: record.visit.as_ref().map(|v| v.step.word().to_owned()),
        waits_for,
        judged_at: input.now,
        facts_at: cluster.map(|(_, c)| c.seen_at),
    })
}

impl Pass<'_> {
    fn explain(&mut self, i: usize) -> Vec<Reason> {
        // What the steps of the pass have said about this very node.
        let mut reasons = std::mem::take(&mut self.told);
        if let Some((since, error)) = self.frame.stale(i)
            && let Ok(cluster) = self.frame.nodes[i].id.cluster().parse()
        {
            reasons.push(Reason::ClusterUnreachable { cluster, since: *since, error: error.clone() });
        }
        let record = self.rec(i);
        match record.assignment.clone() {
            None => reasons.extend(self.explain_outside(i)),
            Some(a) if a.outcome.is_some() => reasons.extend(self.explain_ended(i, &a)),
            Some(_) if record.visit.is_some() || record.soak.is_some() => {}
            Some(a) => reasons.extend(self.explain_waiting(i, &a)),
        }
        reasons.extend(self.left_to_others(i));
        let mut seen: Vec<Reason> = Vec::new();
        for reason in reasons {
            if !seen.contains(&reason) {
                seen.push(reason);
            }
        }
        seen
    }

    /// It is part of a rollout, and its turn is still to come.
    fn explain_waiting(&mut self, i: usize, a: &Assignment) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let Some(rollout) = self.rollout(&a.rollout).cloned() else { return reasons };
        let visiting = self.visiting();
        let open =
            rollout.waves.iter().position(|w| !matches!(w.state, WaveState::Complete | WaveState::Skipped));
        match open {
            Some(w) if w == usize::from(a.wave) => {
                reasons.extend(self.rollout_holds(&rollout, w, &visiting));
                if rollout.waves[w].in_batch >= rollout.waves[w].batch_size {
                    reasons.extend(self.batch_unsettled(&rollout, w));
                }
            }
            Some(w) => {
                let name = |w: usize| rollout.waves.get(w).map(|w| w.name.clone());
                if let (Some(wave), Some(after)) = (name(usize::from(a.wave)), name(w)) {
                    reasons.push(Reason::WavePending { wave, after });
                }
            }
            None => {}
        }
        // Whatever wave is open: a pause holds all of them, and every cause of it is told.
        reasons.extend(rollout.pauses().map(|why| Reason::Paused { why: why.clone() }));
        reasons.extend(self.ineligible(i, &rollout));
        let pending = self.pending(&a.rollout, a.wave);
        let eligible: Vec<usize> =
            pending.into_iter().filter(|&j| j == i || self.ineligible(j, &rollout).is_empty()).collect();
        let unit = self.units(&eligible, &rollout.strategy).into_iter().find(|u| u.nodes.contains(&i));
        if let Some(unit) = unit {
            let clusters = self.clusters_in_flight(&rollout, &visiting);
            reasons.extend(self.awaits_a_success(&rollout, &visiting));
            reasons.extend(self.unit_reasons(&unit, &rollout, &clusters, true));
            reasons.extend(self.head_reason(&unit, &rollout));
        }
        if reasons.is_empty() {
            // No rule refuses it alone. What admission says in this pass, with the others beside it, is what is left.
            self.admit();
            reasons.append(&mut self.told);
        }
        reasons
    }

    /// Its part in an open rollout is over. Where it still differs from Git, that is why.
    fn explain_ended(&mut self, i: usize, a: &Assignment) -> Vec<Reason> {
        let differs = !self.needs(i, &a.target).is_empty() || self.rec(i).quarantine.is_some();
        if !differs {
            return Vec::new();
        }
        let Some(rollout) = self.rollout(&a.rollout).cloned() else { return Vec::new() };
        let left = self.left_alone(i, &a.target, &rollout.strategy);
        vec![left.unwrap_or(Reason::HeldBy { rollout: a.rollout.clone() })]
    }

    fn explain_outside(&mut self, i: usize) -> Vec<Reason> {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        let Some((policy, target)) = pool.and_then(|p| Some((p.policy?.1, p.target.clone()))) else {
            return Vec::new();
        };
        if self.needs(i, &target).is_empty() && self.rec(i).quarantine.is_none() {
            return Vec::new();
        }
        self.left_alone(i, &target, policy).into_iter().collect()
    }

    /// In what it differs from Git that drydock doesn't move: it only looks at it, or the release doesn't name it.
    fn left_to_others(&self, i: usize) -> Vec<Reason> {
        let node = &self.frame.nodes[i];
        let Some(pool) = node.pool.and_then(|p| self.frame.pools.get(p)) else { return Vec::new() };
        let moved: BTreeSet<ComponentName> = self
            .differences(i, &pool.target)
            .iter()
            .filter_map(|item| match item {
                ApplyItem::Component(name) => Some(name.clone()),
                ApplyItem::Layout => None,
            })
            .collect();
        let changes = node.obs.running.vector.changes(&pool.vector);
        let others = changes.into_iter().filter(|change| !moved.contains(change.component));
        others
            .map(|change| Reason::LeftToOthers {
                component: change.component.clone(),
                running: change.from.map(|v| v.version.to_string()),
                wanted: change.to.map(|v| v.version.to_string()),
            })
            .collect()
    }
}
