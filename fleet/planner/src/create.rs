//! From what Git says to a rollout: which nodes, in which waves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{
    Assignment, NewRollout, PauseReason, Reason, RolloutEvent, RolloutId, RolloutKind, RolloutRecord,
    RolloutState, Target,
};
use drydock_spec::{ComponentClass, FailureAction, PolicyName, PolicySpec, PoolName};

use crate::{domain::Domain, order::hash, pass::Pass, rollback::collapsed};

impl Pass<'_> {
    /// Nodes of a policy that differ from Git and belong to no rollout, and why some of them are left alone.
    pub(crate) fn candidates(&mut self, policy: &PolicyName, spec: &PolicySpec) -> Vec<usize> {
        let mut found = Vec::new();
        for i in 0..self.frame.nodes.len() {
            let node = &self.frame.nodes[i];
            let Some(pool) = node.pool.filter(|_| node.seen && !node.contested) else { continue };
            let view = &self.frame.pools[pool];
            if view.policy.is_none_or(|(name, _)| name != policy) || self.rec(i).assignment.is_some() {
                continue;
            }
            let target = view.target.clone();
            let obs = self.frame.nodes[i].obs;
            let same_layout = target.layout.is_none() || obs.layout == target.layout;
            let there = obs.running.id == target.release && same_layout || self.needs(i, &target).is_empty();
            if there && !self.is_unexplained(i) {
                continue;
            }
            match self.left_alone(i, &target, spec) {
                Some(reason) => self.wait(i, reason),
                None => found.push(i),
            }
        }
        self.leave_aborted(found)
    }

    /// Makes a rollout of a policy for these nodes. Nodes that are in the middle of a visit are among them after a
    /// supersession. `None` when there is nothing to do or a person has to act first; the reason is written down.
    pub(crate) fn create_rollout(
        &mut self,
        policy: &PolicyName,
        spec: &PolicySpec,
        nodes: &[usize],
    ) -> Option<RolloutId> {
        let targets = self.policy_targets(policy, nodes);
        if let Some(reason) = self.suppressed(policy, &targets, nodes) {
            self.wait_all(nodes, reason);
            return None;
        }
        let goes_back = |i: &usize| self.node_target(*i).is_some_and(|target| self.was_good_on(*i, &target));
        let revert = !nodes.is_empty() && nodes.iter().all(goes_back);
        let mut strategy = spec.clone();
        if revert {
            strategy.waves = collapsed(&strategy.waves);
        }
        let id = self.new_id(policy, &targets, nodes);
        let waves = self.wave_of(nodes, &strategy, &targets);
        let mut why = self.impossible(nodes, &strategy, &waves);
        let suite = self.input.fleet.suites.get(&spec.checks).map(|s| s.spec.clone()).unwrap_or_else(|| {
            // The loader guarantees the reference. Without checks nothing would be verified, so nothing may run.
            why.push(format!("there is no check suite {}", spec.checks));
            drydock_spec::SuiteSpec { preflight: Default::default(), checks: Vec::new() }
        });
        let rejected = !why.is_empty();
        let mut record = RolloutRecord::new(NewRollout {
            id: id.clone(),
            policy: policy.clone(),
            suite: Arc::new(suite),
            commit: self.input.commit.clone(),
            kind: if revert { RolloutKind::Revert } else { RolloutKind::Forward },
            security: self.frame.pools.iter().any(|p| targets.contains_key(p.name) && p.security),
            created: self.now(),
            strategy,
            targets,
        });
        if rejected {
            record.state = RolloutState::Rejected { why: why.clone() };
            record.ended = Some(self.now());
        }
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let wave_count = u32::try_from(record.waves.len()).unwrap_or(u32::MAX);
        self.rollouts.insert(id.clone(), Arc::new(record));
        self.log(&id, RolloutEvent::Created { nodes: count, waves: wave_count });
        if rejected {
            let key = (Some(id.clone()), 0);
            self.wait_many(key, Reason::Rejected { why: why.join("; ") }, count, None);
            return Some(id);
        }
        for (&i, wave) in
            nodes.iter().zip(waves).filter(|(i, _)| !self.has_no_target(**i)).collect::<Vec<_>>()
        {
            self.assign(i, &id, wave.unwrap_or(0));
        }
        Some(id)
    }

    /// What the pools of a policy should run, leaving out releases that aren't tried again there, and pools of which a
    /// person has ended that and nobody is among these nodes.
    pub(crate) fn policy_targets(&self, policy: &PolicyName, nodes: &[usize]) -> BTreeMap<PoolName, Target> {
        let moves = |pool: &PoolName| {
            nodes.iter().any(|&i| self.frame.nodes[i].obs.pool.as_ref().is_some_and(|name| name == pool))
        };
        self.frame
            .pools
            .iter()
            .filter(|p| p.policy.is_some_and(|(name, _)| name == policy))
            .filter(|p| self.quarantined(p.name, &p.target).is_none())
            .filter(|p| moves(p.name) || self.aborted_before(p.name, &p.target).is_none())
            .map(|p| (p.name.clone(), p.target.clone()))
            .collect()
    }

    fn node_target(&self, i: usize) -> Option<Target> {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p))?;
        Some(pool.target.clone())
    }

    /// `policy-version` where one version of the driver is what moves, else `policy-release`; a number is added when
    /// the name was used before.
    fn new_id(
        &self,
        policy: &PolicyName,
        targets: &BTreeMap<PoolName, Target>,
        nodes: &[usize],
    ) -> RolloutId {
        let moving: BTreeSet<&PoolName> = nodes
            .iter()
            .filter_map(|&i| self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.name))
            .collect();
        let mut drivers = BTreeSet::new();
        let mut releases = BTreeSet::new();
        for pool in self.frame.pools.iter().filter(|p| moving.contains(p.name)) {
            releases.insert(pool.target.release.as_str());
            for (name, version) in &pool.vector.0 {
                let class = self.input.fleet.components.get(name).map(|c| c.spec.class);
                if class == Some(ComponentClass::GpuDriver) {
                    drivers.insert(version.version.as_str());
                }
            }
        }
        let word = match (drivers.first(), drivers.len()) {
            (Some(driver), 1) => (*driver).to_owned(),
            _ => match (releases.first(), releases.len()) {
                (Some(release), 1) => (*release).to_owned(),
                _ => format!("{:08x}", hash(&format!("{targets:?}"), policy.as_str()) >> 32),
            },
        };
        let clean =
            |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        let stem = format!("{policy}-{}", word.chars().map(clean).collect::<String>());
        self.free_name(&stem)
    }

    /// A name that no rollout has.
    pub(crate) fn free_name(&self, stem: &str) -> RolloutId {
        let taken =
            |id: &RolloutId| self.input.ledger.rollouts.contains_key(id) || self.rollouts.contains_key(id);
        let mut id = RolloutId::new(stem);
        let mut number = 2;
        while taken(&id) {
            id = RolloutId::new(&format!("{stem}-{number}"));
            number += 1;
        }
        id
    }

    /// Why a rollout can never work as written: better said now than found out as a silent stop.
    fn impossible(&mut self, nodes: &[usize], strategy: &PolicySpec, waves: &[Option<u16>]) -> Vec<String> {
        let mut why = BTreeSet::new();
        for (&i, wave) in nodes.iter().zip(waves) {
            if wave.is_none()
                && let Some(pool) = &self.frame.nodes[i].obs.pool
            {
                why.insert(format!("no wave selects pool {pool}"));
            }
        }
        let mut domains: BTreeMap<(Option<Domain<'_>>, usize), Vec<usize>> = BTreeMap::new();
        for &i in nodes {
            let domain = strategy.atomic.iter().find_map(|key| self.frame.domain(i, *key));
            let alone = if domain.is_some() { 0 } else { i };
            domains.entry((domain, alone)).or_default().push(i);
        }
        // One unit of each size and pool tells for all of them.
        let units: Vec<Vec<usize>> = domains.into_values().collect();
        let mut seen = BTreeSet::new();
        for unit in units {
            let pools: BTreeSet<Option<usize>> = unit.iter().map(|&i| self.frame.nodes[i].pool).collect();
            if !seen.insert((pools, unit.len())) {
                continue;
            }
            // A budget that lets it go and never lets it go back is found out when it is too late.
            let back = strategy.on_failure.action == FailureAction::Rollback;
            let way_back = back.then_some(drydock_spec::Reason::Rollback);
            for reason in way_back.into_iter().chain([drydock_spec::Reason::Upgrade]) {
                why.extend(self.never_fits(&unit, reason));
            }
        }
        why.into_iter().collect()
    }

    /// Gives a node its part in a rollout.
    pub(crate) fn assign(&mut self, i: usize, id: &RolloutId, wave: u16) {
        let Some(pool) = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)) else { return };
        let (name, target) = (pool.name.clone(), pool.target.clone());
        self.remember(&target.release);
        self.forget_roster();
        let record = self.edit(i);
        record.assignment = Some(Assignment::new(id.clone(), name, wave, target));
    }

    pub(crate) fn is_joinable(rollout: &RolloutRecord) -> bool {
        match &rollout.state {
            RolloutState::Running => true,
            RolloutState::Paused(why) => !matches!(why, PauseReason::Aborting { .. }),
            RolloutState::Halted
            | RolloutState::RollingBack
            | RolloutState::Rejected { .. }
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => false,
        }
    }
}
