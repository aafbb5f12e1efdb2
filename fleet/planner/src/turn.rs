//! Whose turn it is among rollouts that share a budget.

use std::collections::BTreeMap;

use drydock_plan::RolloutId;
use drydock_spec::Period;
use jiff::Timestamp;

use crate::{order::hash, pass::Pass};

/// Doublings of the pause after which a rollout that gets nothing through is asked like any other again. It is asked all
/// the time, only after the others; sixteen cool-downs are a working day.
const YIELD_DOUBLINGS: u32 = 4;

impl Pass<'_> {
    /// Open rollouts in the order in which they are asked: whose large unit has waited longest, then who gets things
    /// through, then the fewest in flight, then who was served longest ago. So of rollouts that share one slot each has
    /// it in turn, and one that always fails can't starve the others.
    pub(crate) fn turns(&mut self, visiting: &[usize]) -> Vec<RolloutId> {
        let mut in_flight: BTreeMap<RolloutId, usize> = BTreeMap::new();
        for &i in visiting {
            if let Some(visit) = &self.rec(i).visit {
                *in_flight.entry(visit.rollout.clone()).or_default() += 1;
            }
        }
        let now = self.now();
        let mut turns: Vec<_> = self
            .open_ids()
            .into_iter()
            .filter_map(|id| {
                let rollout = self.rollout(&id)?;
                let line = rollout.head_of_line.iter().chain(&rollout.passed_over);
                let head = line.filter_map(|h| self.is_due(rollout, &h.unit)).min();
                let yields = rollout.turn.yields_until.is_some_and(|until| until > now);
                let flying = in_flight.get(&id).copied().unwrap_or(0);
                let served = rollout.turn.served;
                Some((
                    (head.unwrap_or(Timestamp::MAX), yields, flying, served, hash("turn", id.as_str())),
                    id,
                ))
            })
            .collect();
        turns.sort();
        turns.into_iter().map(|(_, id)| id).collect()
    }

    /// A unit was reserved.
    pub(crate) fn note_served(&mut self, id: &RolloutId) {
        let now = self.now();
        if let Some(rollout) = self.edit_rollout(id) {
            rollout.turn.served = Some(now);
        }
    }

    /// A unit was given back: the others are asked first for a while, longer each time. Nodes of one unit count once.
    pub(crate) fn note_given_back(&mut self, id: &RolloutId, cooldown: Period) {
        let now = self.now();
        let Some(rollout) = self.edit_rollout(id) else { return };
        if rollout.turn.yields_until.is_some_and(|until| until > now) {
            return;
        }
        let doublings = rollout.turn.given_back.min(YIELD_DOUBLINGS);
        rollout.turn.given_back = rollout.turn.given_back.saturating_add(1);
        rollout.turn.yields_until = Some(Period::from_millis(cooldown.as_millis() << doublings).after(now));
    }

    /// A node got through.
    pub(crate) fn note_through(&mut self, id: &RolloutId) {
        if let Some(rollout) = self.edit_rollout(id) {
            rollout.turn.given_back = 0;
            rollout.turn.yields_until = None;
        }
    }
}
