//! From what Git says to a rollout: which nodes, in which waves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{
    Assignment, Blame, CommandKind, LedgerChange, NewRollout, PauseReason, Reason, RolloutEvent, RolloutId,
    RolloutKind, RolloutRecord, RolloutState, SkipReason, Target,
};
use drydock_spec::{ComponentClass, DriftPolicy, FailureAction, PolicyName, PolicySpec, PoolName};

use crate::{domain::Domain, health, order::hash, pass::Pass, rollback::collapsed};

/// A node that was left out because it failed its checks is tried again after this: as long as a check's result
/// counts as fresh. It doubles every time, since each try is a rollout of its own for people to read.
const LEFT_OUT_REST: drydock_spec::Period = drydock_spec::Period::from_hours(24);
/// Doublings of it: sixteen days, by when a repair has been done or never will be. A node whose fault is still to be
/// seen rests that long at once.
const LEFT_OUT_DOUBLINGS: u32 = 4;

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
        found
    }

    pub(crate) fn left_alone(&self, i: usize, target: &Target, spec: &PolicySpec) -> Option<Reason> {
        let record = self.rec(i);
        let node = &self.frame.nodes[i];
        let pool = self.frame.pools.get(node.pool?)?;
        if let Some(q) = record.quarantine.as_ref().filter(|q| q.retry.is_none()) {
            return Some(Reason::NodeQuarantined { since: q.since, rollout: q.rollout.clone() });
        }
        if let Some(q) = self.quarantined(pool.name, target) {
            if self.layout_failed(pool.name, target) {
                return Some(Reason::LayoutQuarantined { layout: self.layout_text(target), rollout: q });
            }
            return Some(Reason::ReleaseQuarantined { release: target.release.clone(), rollout: q });
        }
        if let Some(rollout) = self.failed_here(i, target) {
            return Some(Reason::ReleaseQuarantined { release: target.release.clone(), rollout });
        }
        if let Some(why) = self.incompatible(i, target) {
            return Some(Reason::Incompatible { why });
        }
        let proven = record.last_known_good.as_ref() == Some(target);
        if spec.drift == DriftPolicy::Hold
            && proven
            && !self.is_unexplained(i)
            && !self.put_there(i, pool.name)
        {
            let running = node.obs.running.id.clone();
            return Some(Reason::DriftHeld { running, wanted: target.release.clone() });
        }
        let note = record.skipped.as_ref().filter(|n| n.target == *target)?;
        match note.reason {
            SkipReason::ForeignCordon => {
                node.obs.cordon.foreign.as_ref().map(|by| Reason::ForeignCordon { by: by.clone() })
            }
            SkipReason::NotReady => {
                (!node.obs.ready).then_some(Reason::NotReady { since: node.obs.ready_since })
            }
            SkipReason::Preexisting | SkipReason::Undrainable => {
                let ill = node.obs.faults.iter().any(health::is_somebodys);
                let doublings = if ill {
                    LEFT_OUT_DOUBLINGS
                } else {
                    note.times.saturating_sub(1).min(LEFT_OUT_DOUBLINGS)
                };
                let rest = drydock_spec::Period::from_millis(LEFT_OUT_REST.as_millis() << doublings);
                let until = rest.after(note.at);
                (self.now() < until).then_some(Reason::PreexistingFailure { until })
            }
            SkipReason::Control => Some(Reason::SkippedByControl {}),
            SkipReason::Unit(_) | SkipReason::Floor(_) | SkipReason::Gang(_) => {
                let doublings = note.times.saturating_sub(1).min(LEFT_OUT_DOUBLINGS);
                let rest = drydock_spec::Period::from_millis(LEFT_OUT_REST.as_millis() << doublings);
                let until = rest.after(note.at);
                (self.now() < until).then(|| Reason::LeftOut { why: note.reason.clone(), until })
            }
            SkipReason::AlreadyThere | SkipReason::RolloutEnded | SkipReason::Incompatible => None,
        }
    }

    /// The rollout in which a release failed on this very node, within what its wave tolerates; unless a person has
    /// said `retry` since. Without this memory the same failure would come again and again.
    fn failed_here(&self, i: usize, target: &Target) -> Option<RolloutId> {
        let node = self.frame.nodes[i].id;
        let release = &target.release;
        // Where only the layout had changed, another layout hasn't failed.
        let other_layout = |r: &RolloutRecord, f: &drydock_plan::Failure| {
            f.before == f.release
                && r.targets.values().all(|t| t.release != *release || t.layout != target.layout)
        };
        let failures =
            self.input.ledger.rollouts.values().flat_map(|r| r.failures.iter().map(move |f| (r, f)));
        let (rollout, failure) = failures
            .filter(|(_, f)| f.node == *node && f.release == *release && f.blame == Blame::Version)
            .filter(|(_, f)| self.is_same_machine(i, f.at))
            .filter(|(r, f)| !other_layout(r, f))
            .max_by_key(|(_, f)| f.at)?;
        // What Git says for the first time in this pass counts in this pass.
        let said = self.changes.iter().filter_map(|change| match change {
            LedgerChange::Command(_, command) => Some(command),
            LedgerChange::Node(..)
            | LedgerChange::ForgetNode(_)
            | LedgerChange::Rollout(_)
            | LedgerChange::ForgetRollout(_)
            | LedgerChange::ForgetCommand(_)
            | LedgerChange::Quarantine(..)
            | LedgerChange::Release(..)
            | LedgerChange::Remember(..) => None,
        });
        let said = self.input.ledger.commands.values().chain(said);
        let retried = said.into_iter().filter(|c| c.at >= failure.at).any(|c| match &c.what {
            CommandKind::RetryNode { node: n } => n == node,
            CommandKind::RetryRelease { release: r } => r == release,
            CommandKind::Pause { .. }
            | CommandKind::Resume { .. }
            | CommandKind::Abort { .. }
            | CommandKind::Approve { .. }
            | CommandKind::Skip { .. } => false,
        });
        (!retried).then(|| rollout.id.clone())
    }

    /// Makes a rollout of a policy for these nodes. Nodes that are in the middle of a visit are among them after a
    /// supersession. `None` when there is nothing to do or a person has to act first; the reason is written down.
    pub(crate) fn create_rollout(
        &mut self,
        policy: &PolicyName,
        spec: &PolicySpec,
        nodes: &[usize],
    ) -> Option<RolloutId> {
        let targets = self.policy_targets(policy);
        if let Some(reason) = self.suppressed(policy, &targets, nodes) {
            let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            self.wait_many((None, 0), reason, count, nodes.first().map(|&i| self.frame.nodes[i].id.clone()));
            return None;
        }
        let revert = !nodes.is_empty()
            && nodes.iter().all(|&i| {
                let target = self.node_target(i);
                target.is_some() && self.rec(i).last_known_good == target
            });
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

    /// What the pools of a policy should run, leaving out releases that aren't tried again there.
    pub(crate) fn policy_targets(&self, policy: &PolicyName) -> BTreeMap<PoolName, Target> {
        self.frame
            .pools
            .iter()
            .filter(|p| p.policy.is_some_and(|(name, _)| name == policy))
            .filter(|p| self.quarantined(p.name, &p.target).is_none())
            .map(|p| (p.name.clone(), p.target.clone()))
            .collect()
    }

    fn node_target(&self, i: usize) -> Option<Target> {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p))?;
        Some(pool.target.clone())
    }

    /// Why a rollout to these targets isn't started (again).
    fn suppressed(
        &self,
        policy: &PolicyName,
        targets: &BTreeMap<PoolName, Target>,
        nodes: &[usize],
    ) -> Option<Reason> {
        let same = |r: &&Arc<RolloutRecord>| r.policy == *policy && r.targets == *targets;
        let last = self.input.ledger.rollouts.values().filter(same).max_by_key(|r| r.created)?;
        let retried = |since| {
            self.input.ledger.commands.values().any(|c| {
                c.at >= since && matches!(&c.what, drydock_plan::CommandKind::RetryRelease { release } if targets.values().any(|t| t.release == *release))
            })
        };
        match &last.state {
            RolloutState::Rejected { why } if last.commit.id == self.input.commit.id => {
                Some(Reason::Rejected { why: why.join("; ") })
            }
            RolloutState::Aborted if !retried(last.ended.unwrap_or(last.created)) => {
                Some(Reason::AbortedBefore { rollout: last.id.clone() })
            }
            // A finished run isn't repeated for nodes that can't go anyway; they start one when they can.
            RolloutState::Rejected { .. }
            | RolloutState::Running
            | RolloutState::Paused(_)
            | RolloutState::Halted
            | RolloutState::RollingBack
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => {
                let reachable = |&&i: &&usize| {
                    let obs = self.frame.nodes[i].obs;
                    self.rec(i).visit.is_some()
                        || (obs.ready && obs.cordon.foreign.is_none() && self.frame.stale(i).is_none())
                };
                let first = nodes.first()?;
                let obs = self.frame.nodes[*first].obs;
                (!nodes.iter().any(|i| reachable(&i))).then(|| match &obs.cordon.foreign {
                    Some(by) => Reason::ForeignCordon { by: by.clone() },
                    None => Reason::NotReady { since: obs.ready_since },
                })
            }
        }
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
        let taken =
            |id: &RolloutId| self.input.ledger.rollouts.contains_key(id) || self.rollouts.contains_key(id);
        let mut id = RolloutId::new(&stem);
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
