//! Nodes that are through, while their rollout still goes on. A release whose faults show an hour after the soak is the
//! release's failure all the same, and the nodes to come are still to be saved.

use drydock_plan::{NodeOutcome, RolloutState, Soak};
use drydock_spec::Period;

use crate::pass::Pass;

/// A fault up to so long after the soak still speaks about the release: the hour that Cluster API's control plane takes for
/// the same question. A later one is news about the node, and counts in floors alone.
const SOAK_ECHO: Period = Period::from_hours(1);

impl Pass<'_> {
    /// Takes nodes out again on which a fault has appeared since they were done. What is to blame is found out like in a
    /// soak; until then the rollout begins nothing else.
    pub(crate) fn step_done(&mut self) {
        let open: Vec<_> = self
            .rollouts
            .values()
            .filter(|r| !r.kind.is_automatic())
            .filter(|r| matches!(r.state, RolloutState::Running | RolloutState::Paused(_)))
            .cloned()
            .collect();
        for rollout in open {
            for w in 0..rollout.waves.len() {
                for &i in self.wave_nodes(&rollout.id, w).iter() {
                    if let Some((soak, text)) = self.ill_since_done(i) {
                        self.readmit_done(i, &soak, &rollout, text);
                    }
                }
            }
        }
    }

    /// A node that was done and has caught a fault on what it was given.
    fn ill_since_done(&self, i: usize) -> Option<(Soak, String)> {
        let (obs, record) = (self.frame.nodes[i].obs, self.rec(i));
        let a = record.assignment.as_ref().filter(|a| a.outcome == Some(NodeOutcome::Done))?;
        let since = a.ended.max(a.exposed)?;
        let fault = self.fault_since(i, since).filter(|f| f.since <= SOAK_ECHO.after(since))?;
        let from = record.previous_good.clone()?;
        if record.visit.is_some() || self.frame.stale(i).is_some() || self.frame.nodes[i].pool.is_none() {
            return None;
        }
        // Somebody has put something else there since: its fault says nothing about the release.
        if !self.needs(i, &a.target).is_empty() {
            return None;
        }
        let text = format!("{} after it was done", fault.kind);
        let jobs_at_start = obs.work.jobs_passed;
        Some((
            Soak {
                rollout: a.rollout.clone(),
                target: a.target.clone(),
                from,
                since,
                jobs_at_start,
                given: a.exposed,
                spells: 0,
            },
            text,
        ))
    }

    fn readmit_done(&mut self, i: usize, soak: &Soak, rollout: &drydock_plan::RolloutRecord, text: String) {
        self.readmit(i, soak, rollout, text);
        if self.rec(i).visit.is_some() {
            let record = self.edit(i);
            // It isn't known to be good there any more; the way back is what it was good on before.
            record.last_known_good = Some(soak.from.clone());
            record.previous_good = None;
            if let Some(a) = &mut record.assignment {
                (a.outcome, a.ended) = (None, None);
            }
        }
    }
}
