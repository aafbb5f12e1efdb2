//! Nodes that hold a wave and can't go by themselves: who must act is named, and the others go on without them.

use drydock_plan::{NodeOutcome, RolloutRecord, SkipReason};

use crate::{budgets::Room, pass::Pass, units::Unit};

impl Pass<'_> {
    /// Why each of these nodes can't go by itself, if that is so for all of them: somebody else holds it, it is broken,
    /// nodes that are broken use up a floor it needs, or a job larger than any budget runs on it. A cluster that can't be
    /// reached is never left behind: nothing is known of it.
    pub(crate) fn who_must_act(
        &mut self,
        rollout: &RolloutRecord,
        pending: &[usize],
    ) -> Option<Vec<(usize, SkipReason)>> {
        let (mut held, mut eligible) = (Vec::new(), Vec::new());
        for &i in pending {
            match self.held_by_others(i, rollout) {
                Some(reason) => held.push((i, reason)),
                None if self.ineligible(i, rollout).is_empty() => eligible.push(i),
                None => return None,
            }
        }
        for unit in self.units(&eligible, &rollout.strategy) {
            let reason = self.stuck(&unit, rollout)?;
            held.extend(unit.nodes.iter().map(|&i| (i, reason.clone())));
        }
        Some(held)
    }

    /// Why a unit can't go, whatever the rollout does.
    fn stuck(&mut self, unit: &Unit, rollout: &RolloutRecord) -> Option<SkipReason> {
        if let Some((gang, _)) = self.oversized(unit, rollout) {
            return (!self.ends_in_time(&gang, rollout)).then_some(SkipReason::Gang(gang));
        }
        let asking = self.asking(unit, rollout);
        let rooms = self.rooms(&unit.nodes, asking);
        let used_up = |room: &&Room<'_>| room.is_floor() && room.most < i64::from(room.adds);
        rooms.iter().find(used_up).map(|room| SkipReason::Floor(room.budget.clone()))
    }

    /// An atomic domain of which a node was left out and serves on what it ran before: the others would make two halves
    /// of it. They are left out as well, with its name. True when that was done.
    pub(crate) fn unit_is_torn(&mut self, unit: &Unit, rollout: &RolloutRecord, left_out: &[usize]) -> bool {
        let Some(&first) = unit.nodes.first().filter(|_| unit.atomic) else { return false };
        let atomic = &rollout.strategy.atomic;
        let Some(&mate) = left_out.iter().find(|&&j| self.move_together(first, j, atomic)) else {
            return false;
        };
        let id = self.frame.nodes[mate].id.clone();
        for &i in &unit.nodes {
            self.skip(i, SkipReason::Unit(id.clone()));
        }
        true
    }

    /// Nodes whose part in the rollout has ended and that serve on something else, where domains move as a whole. What
    /// isn't ready, cordoned by others or quarantined serves nobody, and takes its turn when it does again.
    pub(crate) fn left_out(&self, rollout: &RolloutRecord) -> Vec<usize> {
        if rollout.strategy.atomic.is_empty() {
            return Vec::new();
        }
        let ended = |&j: &usize| {
            let ended = self.rec(j).assignment.as_ref().is_some_and(|a| match &a.outcome {
                Some(NodeOutcome::Skipped(SkipReason::AlreadyThere)) => false,
                Some(NodeOutcome::Skipped(_) | NodeOutcome::Reverted) => !self.needs(j, &a.target).is_empty(),
                Some(NodeOutcome::Done | NodeOutcome::Quarantined | NodeOutcome::Gone) | None => false,
            });
            ended && !self.broken(j) && self.frame.stale(j).is_none()
        };
        let all = (0..rollout.waves.len()).flat_map(|w| self.wave_nodes(&rollout.id, w).to_vec());
        all.filter(ended).collect()
    }
}
