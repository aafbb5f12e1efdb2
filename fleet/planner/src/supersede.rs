//! Git moved: rollouts are started, joined by new nodes, or replaced. A change of mind never loses a drain.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{
    Assignment, Course, Reason, RolloutId, RolloutRecord, RolloutState, Step, VisitEnd, WaveState,
};
use drydock_spec::{PolicyName, PolicySpec};

use crate::pass::Pass;

impl Pass<'_> {
    /// Makes the open rollouts follow what Git says.
    pub(crate) fn follow_git(&mut self) {
        let policies: Vec<(PolicyName, PolicySpec)> =
            self.input.fleet.policies.iter().map(|(n, p)| (n.clone(), p.spec.clone())).collect();
        for (policy, spec) in &policies {
            let open = self.open_of(policy);
            if let Some(old) = open.iter().find(|r| !r.kind.is_automatic()).cloned()
                && self.git_moved(&old)
            {
                self.supersede(&old, policy, spec);
                continue;
            }
            let nodes = self.candidates(policy, spec);
            if nodes.is_empty() {
                if open.is_empty() {
                    self.take_back_stragglers(policy);
                }
                continue;
            }
            match open.first() {
                None => {
                    self.create_rollout(policy, spec, &nodes);
                }
                // Git asks for something that hasn't failed, and takes over from a way back of a few stragglers.
                Some(rollout) if open.len() == 1 && rollout.kind.is_automatic() => {
                    self.supersede(&Arc::clone(rollout), policy, spec);
                }
                Some(rollout) if open.len() == 1 && Self::is_joinable(rollout) => {
                    let id = rollout.id.clone();
                    self.join_rollout(&id, &nodes);
                }
                Some(rollout) => {
                    let reason = Reason::HeldBy { rollout: rollout.id.clone() };
                    self.wait_all(&nodes, reason);
                }
            }
        }
        self.end_without_policy(&policies);
        self.name_pools_without_policy();
    }

    /// Nodes that differ from Git and that no policy moves: nothing will, and that is said.
    fn name_pools_without_policy(&mut self) {
        if self.frame.pools.iter().all(|p| p.policy.is_some()) {
            return;
        }
        for i in 0..self.frame.nodes.len() {
            let Some(pool) = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)) else { continue };
            if pool.policy.is_some() || self.rec(i).assignment.is_some() {
                continue;
            }
            let (name, target) = (pool.name.clone(), pool.target.clone());
            if !self.needs(i, &target).is_empty() {
                self.wait(i, Reason::NoPolicy { pool: name });
            }
        }
    }

    fn open_of(&self, policy: &PolicyName) -> Vec<Arc<RolloutRecord>> {
        self.rollouts.values().filter(|r| r.policy == *policy && !r.state.is_final()).cloned().collect()
    }

    /// Whether a pool of the rollout should run something else now. A pool that left the policy or the repository is
    /// no change of mind about the others.
    fn git_moved(&self, rollout: &RolloutRecord) -> bool {
        self.frame.pools.iter().any(|p| {
            let mine = p.policy.is_some_and(|(name, _)| *name == rollout.policy);
            mine && rollout.targets.get(p.name).is_some_and(|t| *t != p.target)
        })
    }

    /// Replaces a rollout. Nodes that haven't begun to apply keep their drain and head for the new target; nodes that
    /// are being changed finish what they are at; the rest takes its turn.
    fn supersede(&mut self, old: &RolloutRecord, policy: &PolicyName, spec: &PolicySpec) {
        let family: Vec<RolloutId> = std::iter::once(old.id.clone()).chain(old.child.clone()).collect();
        let (mut busy, mut parts) = (Vec::new(), BTreeMap::new());
        for i in 0..self.frame.nodes.len() {
            let mine = self.rec(i).assignment.as_ref().is_some_and(|a| family.contains(&a.rollout));
            if !mine {
                continue;
            }
            if self.rec(i).visit.is_some() {
                busy.push(i);
                parts.extend(self.rec(i).assignment.clone().map(|a| (i, a)));
            }
            // Soak for the old release stops counting; where the target is the same it starts anew.
            let record = self.edit(i);
            record.assignment = None;
            record.soak = None;
        }
        self.forget_roster();
        let mut nodes: Vec<usize> =
            self.candidates(policy, spec).into_iter().chain(busy.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        // Whatever is in flight needs a holder, so with nodes in flight a rollout is made in any case.
        let new = if nodes.is_empty() { None } else { self.create_rollout(policy, spec, &nodes) };
        let holder = new.filter(|id| self.rollout(id).is_some_and(|r| !r.state.is_final()));
        match &holder {
            Some(id) => {
                parts.iter().for_each(|(i, part)| self.keep_part(*i, part, id));
                self.take_over(&busy, id);
                if !spec.supersede.restart_waves {
                    self.keep_waves(old, id);
                }
            }
            None => self.return_busy(&busy, &parts, old),
        }
        for id in &family {
            if busy.is_empty() || holder.is_some() {
                if let Some(r) = self.edit_rollout(id) {
                    r.superseded_by = holder.clone();
                }
                let why = format!("Git moved to {}", self.input.commit.short());
                self.close(id, RolloutState::Superseded, &why);
            }
        }
    }

    /// A node in flight whose pool is gone, or should run what failed there, has no new target: what isn't begun is given
    /// back, the rest is finished.
    fn keep_part(&mut self, i: usize, part: &Assignment, id: &RolloutId) {
        let Some(to) = self.rec(i).visit.as_ref().map(|v| v.to.clone()) else { return };
        if let Some(new) = &mut self.edit(i).assignment {
            // What it has brought to its cluster is still its own to take back.
            new.carries.clone_from(&part.carries);
            self.forget_carriers();
        }
        if self.rec(i).assignment.is_none() {
            let part = Assignment { rollout: id.clone(), wave: 0, target: to, batch: None, ..part.clone() };
            self.edit(i).assignment = Some(part);
            self.forget_roster();
        }
    }

    fn take_over(&mut self, busy: &[usize], id: &RolloutId) {
        for &i in busy {
            let Some(target) = self.rec(i).assignment.as_ref().map(|a| a.target.clone()) else { continue };
            let Some(visit) = self.rec(i).visit.clone() else { continue };
            let record = self.intend(i);
            record.epoch = record.epoch.next();
            if let Some(v) = &mut record.visit {
                v.rollout = id.clone();
            }
            if visit.course != Course::Forward || visit.step.stage() > 4 {
                // It is being verified, or on its way back or out: it finishes that first. Its new holder asks anew, so
                // patience begins anew as well.
                self.renew_deadline(i);
                continue;
            }
            let there = self.differences(i, &target).is_empty() || self.has_no_target(i);
            let changed = visit.changed || visit.step.stage() == 4;
            // In the middle of something for which there is no target any more it finishes that.
            if self.has_no_target(i) && changed {
                self.renew_deadline(i);
                continue;
            }
            // Nothing was done to it, and it isn't empty: it comes again when it is its turn.
            let first = self.rec(i).assignment.as_ref().is_none_or(|a| a.wave == 0);
            if !changed && (there || !first && visit.step.stage() < 3) {
                self.leave(i, VisitEnd::GivenBack);
                continue;
            }
            self.take_up(i, &target);
            if let Some(v) = &mut self.edit(i).visit {
                v.to = target;
                v.evidence.clear();
                v.changed = changed;
                v.held_since = None;
                v.failed_rounds = 0;
            }
            if visit.step.stage() == 4 {
                // What is under way on the node goes on there, and what comes next is read from what is there. The newer
                // release begins when it is the node's turn.
                self.go(i, Step::Cordon);
            } else {
                self.renew_deadline(i);
            }
        }
    }

    /// Its pool is gone, or should run what failed there.
    pub(crate) fn has_no_target(&self, i: usize) -> bool {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        pool.is_none_or(|p| self.quarantined(p.name, &p.target).is_some())
    }

    /// It came along from an older rollout and heads for nothing that Git asks for.
    pub(crate) fn is_kept_only(&self, i: usize) -> bool {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        let asked = |a: &Assignment| pool.is_some_and(|p| p.target == a.target);
        self.has_no_target(i) && !self.rec(i).assignment.as_ref().is_some_and(asked)
    }

    /// No rollout can hold them: untouched nodes are returned under the old one, which ends when they are.
    fn return_busy(&mut self, busy: &[usize], parts: &BTreeMap<usize, Assignment>, old: &RolloutRecord) {
        for &i in busy {
            let id = self.rec(i).visit.as_ref().map_or_else(|| old.id.clone(), |v| v.rollout.clone());
            self.assign(i, &id, 0);
            if let Some(part) = parts.get(&i) {
                self.keep_part(i, part, &id);
            }
            let to = self.rec(i).visit.as_ref().map(|v| v.to.clone());
            if let (Some(a), Some(to)) = (&mut self.edit(i).assignment, to) {
                a.target = to;
            }
        }
        self.abort(&old.id, "Git moved to something that can't be rolled out");
    }

    fn keep_waves(&mut self, old: &RolloutRecord, id: &RolloutId) {
        let Some(new) = self.edit_rollout(id) else { return };
        for wave in &mut new.waves {
            let before = old.waves.iter().find(|w| w.name == wave.name);
            if before.is_some_and(|w| w.state == WaveState::Complete) {
                wave.state = WaveState::Complete;
            }
        }
    }

    /// Rollouts whose policy is gone end as if a person had ended them.
    fn end_without_policy(&mut self, policies: &[(PolicyName, PolicySpec)]) {
        for id in self.open_ids() {
            let gone = self.rollout(&id).is_some_and(|r| !policies.iter().any(|(name, _)| *name == r.policy));
            if gone {
                self.abort(&id, "its policy is gone from Git");
            }
        }
    }
}
