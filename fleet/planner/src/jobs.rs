//! Jobs that span nodes, and how long they hold an upgrade up.
//!
//! The nodes of a job that have still to move go as one unit, so that it is interrupted once, right after a checkpoint.
//! Its nodes that are through, or that the rollout has nothing to do with, don't come along: the job isn't interrupted
//! for them, and they don't hold the others. Where some of its nodes have their turn later (another wave, a rest), it is
//! waited for, since one interruption is better than two; but no longer than `patience`.

use drydock_plan::{GangId, NodeId, Reason, RolloutRecord};
use drydock_spec::Gangs;

use crate::{pass::Pass, units::Unit};

impl Pass<'_> {
    pub(crate) fn gang_reasons(&self, unit: &Unit, rollout: &RolloutRecord) -> Vec<Reason> {
        let policy = rollout.strategy.drain.gangs;
        if policy == Gangs::Ignore || unit.gangs.is_empty() || !self.drains(unit) {
            return Vec::new();
        }
        unit.gangs.iter().filter_map(|gang| self.gang_reason(gang, unit, rollout, policy)).collect()
    }

    fn gang_reason(
        &self,
        gang: &GangId,
        unit: &Unit,
        rollout: &RolloutRecord,
        policy: Gangs,
    ) -> Option<Reason> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let Some(observed) = self.input.inventory.gangs.get(gang) else {
            // It is seen on the node and nowhere else: where it runs besides isn't known, so it isn't cut.
            let held = policy == Gangs::Avoid || self.still_waits_for(gang, rollout);
            let gang = gang.clone();
            return held.then_some(Reason::UnknownGang { gang });
        };
        let outside = self.gang_outside(gang, &unit.nodes);
        let may_go = match policy {
            Gangs::Ignore => true,
            Gangs::Avoid => false,
            Gangs::Together => {
                !outside.iter().any(|id| self.still_to_move(id, rollout))
                    || !self.still_waits_for(gang, rollout)
            }
        };
        if may_go {
            return None;
        }
        let nodes = count(observed.nodes.len());
        let inside = nodes.saturating_sub(count(outside.len()));
        Some(Reason::Gang { gang: gang.clone(), nodes, inside, ends: observed.expected_end })
    }

    /// The rollout has still something to do with this node.
    fn still_to_move(&self, id: &NodeId, rollout: &RolloutRecord) -> bool {
        // What isn't seen is unknown.
        let Some(i) = self.frame.find(id) else { return true };
        let record = self.rec(i);
        let part = record.assignment.as_ref().filter(|a| a.rollout == rollout.id && a.outcome.is_none());
        part.is_some_and(|a| record.soak.is_none() && !self.needs(i, &a.target).is_empty())
    }

    /// Its patience with the job isn't at an end yet.
    fn still_waits_for(&self, gang: &GangId, rollout: &RolloutRecord) -> bool {
        let since = rollout.jobs_waited_for.get(gang).copied().unwrap_or(self.now());
        self.now() < rollout.strategy.patience.after(since)
    }

    /// Remembers since when a job is waited for. A job that has ended is forgotten.
    pub(crate) fn note_jobs(&mut self, unit: &Unit, rollout: &RolloutRecord, reason: &Reason) {
        let Reason::Gang { gang, .. } = reason else { return };
        let now = self.now();
        let since = rollout.jobs_waited_for.get(gang).copied();
        self.wake_at(rollout.strategy.patience.after(since.unwrap_or(now)));
        if since.is_none() && unit.gangs.contains(gang) {
            let running: Vec<GangId> = self.input.inventory.gangs.keys().cloned().collect();
            if let Some(r) = self.edit_rollout(&rollout.id) {
                r.jobs_waited_for.retain(|gang, _| running.binary_search(gang).is_ok());
                r.jobs_waited_for.insert(gang.clone(), now);
            }
        }
    }

    /// A job that is known to end while the rollout may still run: then its nodes go by themselves, and leaving them out
    /// would only begin the same wait anew in a rollout of its own.
    pub(crate) fn ends_in_time(&self, gang: &GangId, rollout: &RolloutRecord) -> bool {
        let ends = self.input.inventory.gangs.get(gang).and_then(|observed| observed.expected_end);
        let deadline = rollout.strategy.deadline.rollout.after(rollout.created);
        ends.is_some_and(|ends| ends < deadline)
    }

    /// A job whose nodes can never go at once: some budget allows fewer. It isn't cut, and the rollout isn't refused for
    /// it: jobs come and go, and the next one may fit. Its nodes wait until it ends; where that isn't known to be before
    /// the rollout's deadline, no longer than `patience` after everybody else is through.
    pub(crate) fn oversized(&mut self, unit: &Unit, rollout: &RolloutRecord) -> Option<(GangId, String)> {
        let gang = unit.gangs.first().filter(|_| !unit.atomic && unit.nodes.len() > 1)?;
        if rollout.strategy.drain.gangs != Gangs::Together || !self.drains(unit) {
            return None;
        }
        let asking = self.asking(unit, rollout).reason;
        let why = self.never_fits(&unit.nodes, asking)?;
        Some((gang.clone(), format!("job {gang} moves as one, and {why}; it goes when the job ends")))
    }
}
