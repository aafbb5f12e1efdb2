//! `why NODE`: every rule that refuses, not only the first.

use drydock_plan::{NodeId, Reason, RolloutId, Target, WaveState};
use drydock_spec::PoolName;
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
    pass.close_gone_nodes();
    pass.identify();
    pass.take_intents();
    pass.follow_git();
    pass.step_nodes();
    pass.judge_rollouts();
    pass.step_soaking();
    pass.step_waves();
    pass.finish_rollouts();
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
        let me = self.frame.nodes[i].id.clone();
        let mut reasons: Vec<Reason> = self
            .waits
            .values()
            .flatten()
            .filter(|w| w.nodes == 1 && w.example.as_ref() == Some(&me))
            .map(|w| w.reason.clone())
            .collect();
        let record = self.rec(i);
        let Some(a) = record.assignment.clone() else { return self.explain_outside(i, reasons) };
        if record.visit.is_some() || record.soak.is_some() || a.outcome.is_some() {
            return reasons;
        }
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
        let mut seen: Vec<Reason> = Vec::new();
        for reason in reasons {
            if !seen.contains(&reason) {
                seen.push(reason);
            }
        }
        seen
    }

    fn explain_outside(&mut self, i: usize, mut reasons: Vec<Reason>) -> Vec<Reason> {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        let Some((policy, target)) = pool.and_then(|p| Some((p.policy?.1, p.target.clone()))) else {
            return reasons;
        };
        if self.needs(i, &target).is_empty() {
            return reasons;
        }
        if let Some(reason) = self.left_alone(i, &target, policy)
            && !reasons.contains(&reason)
        {
            reasons.push(reason);
        }
        reasons
    }
}
