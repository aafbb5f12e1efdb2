//! Nodes that a way back couldn't take along: somebody else held them, or they weren't there. The release that failed
//! still runs on them, so they are taken back as soon as they can be, by a way back of their own.

use std::sync::Arc;

use drydock_plan::{Assignment, RolloutEvent, RolloutId, RolloutRecord, RolloutState, SkipReason, Target};
use drydock_spec::{Period, PolicyName};

use crate::pass::Pass;

/// A node that couldn't be emptied is tried again after this. Long against the drains it has just had, short against the
/// time in which a failed release may do harm.
const REST: Period = Period::from_hours(6);

impl Pass<'_> {
    /// Begins a way back for nodes of a policy that an earlier one had to leave out and that can go now.
    pub(crate) fn take_back_stragglers(&mut self, policy: &PolicyName) {
        let found = (0..self.frame.nodes.len()).find_map(|i| Some((self.straggles(i, policy)?, i)));
        let Some((parent, _)) = found else { return };
        let nodes: Vec<(usize, Target)> = (0..self.frame.nodes.len())
            .filter(|&i| self.straggles(i, policy).as_ref() == Some(&parent))
            .filter_map(|i| Some((i, self.rec(i).last_known_good.clone()?)))
            .collect();
        self.way_back_of_its_own(&parent, nodes);
    }

    /// A person says to go on with a way back that was given up: whoever still runs what failed goes.
    pub(crate) fn go_back_again(&mut self, id: &RolloutId) {
        let Some(parent) = self.rollout(id).filter(|r| r.state == RolloutState::RollbackBlocked).cloned()
        else {
            return;
        };
        let parent_id = match &parent.kind {
            drydock_plan::RolloutKind::Rollback { of } => of.clone(),
            drydock_plan::RolloutKind::Forward | drydock_plan::RolloutKind::Revert => parent.id.clone(),
        };
        let nodes: Vec<(usize, Target)> = (0..self.frame.nodes.len())
            .filter(|&i| self.runs_what_failed(i).as_ref() == Some(&parent_id))
            .filter_map(|i| Some((i, self.rec(i).last_known_good.clone()?)))
            .collect();
        let policy_is_free =
            !self.rollouts.values().any(|r| r.policy == parent.policy && !r.state.is_final());
        if policy_is_free {
            self.way_back_of_its_own(&parent_id, nodes);
        }
    }

    /// The rollout that failed, where the node still runs its release, could go back, and belongs to nobody.
    fn runs_what_failed(&self, i: usize) -> Option<RolloutId> {
        let (node, record) = (&self.frame.nodes[i], self.rec(i));
        let pool = self.frame.pools.get(node.pool?)?;
        let free = record.assignment.is_none() && record.visit.is_none() && record.quarantine.is_none();
        let good = record.last_known_good.as_ref().filter(|_| free)?;
        let layout = good.layout.as_ref().and(node.obs.layout.clone());
        let runs = Target { release: node.obs.running.id.clone(), layout };
        let failed = self.quarantined(pool.name, &runs)?;
        let back = *good != runs && self.quarantined(pool.name, good).is_none();
        (back && self.can_go_back(i, good)).then_some(failed)
    }

    fn straggles(&self, i: usize, policy: &PolicyName) -> Option<RolloutId> {
        let (node, record) = (&self.frame.nodes[i], self.rec(i));
        let note = record.skipped.as_ref()?;
        let mine = self.frame.pools.get(node.pool?)?.policy.is_some_and(|(name, _)| name == policy);
        if !mine || record.last_known_good.as_ref() != Some(&note.target) || self.frame.stale(i).is_some() {
            return None;
        }
        let can = match note.reason {
            SkipReason::ForeignCordon | SkipReason::NotReady | SkipReason::RolloutEnded => {
                node.obs.ready && node.obs.cordon.foreign.is_none()
            }
            SkipReason::Undrainable
            | SkipReason::Preexisting
            | SkipReason::Unit(_)
            | SkipReason::Floor(_)
            | SkipReason::Gang(_) => node.obs.ready && self.now() >= REST.after(note.at),
            // A person has said so, and it is a person who takes that back. What doesn't go with its hardware is no way back.
            SkipReason::Control | SkipReason::AlreadyThere | SkipReason::Incompatible => false,
        };
        if can { self.runs_what_failed(i) } else { None }
    }

    fn way_back_of_its_own(&mut self, parent: &RolloutId, nodes: Vec<(usize, Target)>) {
        let Some(parent) = self.rollout(parent).cloned().filter(|_| !nodes.is_empty()) else { return };
        let id = self.free_id(&parent);
        for (i, target) in &nodes {
            let Some(pool) = self.frame.nodes[*i].pool.and_then(|p| self.frame.pools.get(p)) else {
                continue;
            };
            let part = Assignment::new(id.clone(), pool.name.clone(), 0, target.clone());
            self.remember(&target.release);
            let record = self.edit(*i);
            record.assignment = Some(part);
            record.not_before = None;
        }
        self.forget_roster();
        let child = self.rollback_record(&parent, &id, &nodes);
        self.rollouts.insert(id.clone(), Arc::new(child));
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        self.log(&id, RolloutEvent::Created { nodes: count, waves: 1 });
    }

    fn free_id(&self, parent: &RolloutRecord) -> RolloutId {
        let taken =
            |id: &RolloutId| self.rollouts.contains_key(id) || self.input.ledger.rollouts.contains_key(id);
        let name = |n: u32| RolloutId::new(&format!("{}-rollback-{n}", parent.id));
        (2..).map(name).find(|id| !taken(id)).unwrap_or_else(|| name(2))
    }
}
