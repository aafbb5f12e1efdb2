//! What the ledger remembers: what failed where, and what drydock itself has put on nodes.

use std::collections::BTreeMap;

use drydock_plan::{
    Blame, Command, LayoutId, LedgerChange, RolloutId, RolloutKind, RolloutRecord, RolloutState, Target,
};
use drydock_spec::{ComponentName, ComponentVersion, PoolName, ReleaseId, layout_id};

use crate::pass::Pass;

impl Pass<'_> {
    /// The rollout in which this failed on a pool, as far as this very pass knows.
    pub(crate) fn quarantined(&self, pool: &PoolName, target: &Target) -> Option<RolloutId> {
        let lifted = |change: &LedgerChange| matches!(change, LedgerChange::Release(p, r) if p == pool && *r == target.release);
        let just_now = self.changes.iter().find_map(|change| match change {
            LedgerChange::Quarantine(p, r, why) if p == pool && *r == target.release => {
                Some(why.rollout.clone())
            }
            _ => None,
        });
        just_now
            .or_else(|| self.failed_on(pool, target).filter(|_| !self.changes.iter().any(lifted)))
            .or_else(|| self.brings_what_failed(pool, target))
    }

    /// The rollout in which everything failed that this release would bring anew: with another plugin beside it, a bad
    /// driver is as bad as before. Where something else had changed as well, that may have been it, and another try is
    /// worth its canary.
    fn brings_what_failed(&self, pool: &PoolName, target: &Target) -> Option<RolloutId> {
        let quarantines = &self.input.ledger.quarantines;
        if quarantines.is_empty() {
            return None;
        }
        let vector = self.vector(&target.release)?;
        let (_, why) = quarantines
            .iter()
            .filter(|((p, release), _)| p == pool && *release != target.release)
            .filter(|((p, release), _)| {
                let lifts =
                    |c: &LedgerChange| matches!(c, LedgerChange::Release(q, r) if q == p && r == release);
                !self.changes.iter().any(lifts)
            })
            .find(|(_, why)| {
                let failed =
                    self.rollout(&why.rollout).map(|r| self.brought_where_it_failed(r)).unwrap_or_default();
                !failed.is_empty() && failed.iter().all(|(name, version)| vector.0.get(name) == Some(version))
            })?;
        let said = |c: &Command| c.at >= why.since && c.what.retries(pool, &target.release);
        let retried = self.input.ledger.commands.values().any(said);
        let good = |i: usize| self.rec(i).last_known_good.as_ref() == Some(target);
        let proven = || {
            (0..self.frame.nodes.len())
                .any(|i| self.frame.nodes[i].obs.pool.as_ref() == Some(pool) && good(i))
        };
        (!retried && !proven()).then(|| why.rollout.clone())
    }

    /// What a rollout brought to the nodes on which its version failed.
    fn brought_where_it_failed(&self, rollout: &RolloutRecord) -> BTreeMap<ComponentName, ComponentVersion> {
        let mut suspected = BTreeMap::new();
        for failure in rollout.failures.iter().filter(|f| f.blame == Blame::Version) {
            let (Some(before), Some(after)) = (self.vector(&failure.before), self.vector(&failure.release))
            else {
                continue;
            };
            for change in before.changes(after) {
                if let Some(to) = change.to {
                    suspected.insert(change.component.clone(), to.clone());
                }
            }
        }
        suspected
    }

    /// The rollout in which this failed on a pool. Where nothing but the layout had changed, the layout is what failed:
    /// the same release with another one hasn't.
    pub(crate) fn failed_on(&self, pool: &PoolName, target: &Target) -> Option<RolloutId> {
        let quarantine = self.input.ledger.quarantines.get(&(pool.clone(), target.release.clone()))?;
        let rollout = &quarantine.rollout;
        let only_layout = self.rollout(rollout).and_then(|record| {
            let mut failures = record.failures.iter().filter(|f| f.release == target.release).peekable();
            failures.peek()?;
            failures.all(|f| f.before == f.release).then(|| record.targets.get(pool).map(|t| &t.layout))?
        });
        match only_layout {
            Some(layout) if *layout != target.layout => None,
            Some(_) | None => Some(rollout.clone()),
        }
    }

    /// What failed on a pool is the layout of this target alone.
    pub(crate) fn layout_failed(&self, pool: &PoolName, target: &Target) -> bool {
        let quarantine = self.input.ledger.quarantines.get(&(pool.clone(), target.release.clone()));
        let rollout = quarantine.and_then(|q| self.rollout(&q.rollout));
        target.layout.is_some() && rollout.is_some_and(|r| only_layout(r, &target.release).is_some())
    }

    /// The layout of a target by name, where a document in force describes it.
    pub(crate) fn layout_text(&self, target: &Target) -> String {
        let Some(id) = &target.layout else { return String::new() };
        let found = self.input.fleet.layouts.iter().find(|(_, l)| layout_id(&l.spec) == *id);
        found.map_or_else(|| id.to_string(), |(name, _)| name.to_string())
    }

    /// The node runs what the last rollout over its pool brought: drydock put it there and nobody else did, whether that
    /// rollout came to its end or not.
    pub(crate) fn put_there(&self, i: usize, pool: &PoolName) -> bool {
        let last = self.input.ledger.rollouts.values().filter(|r| match (&r.kind, &r.state) {
            (RolloutKind::Rollback { .. }, _) | (_, RolloutState::Rejected { .. }) => false,
            (RolloutKind::Forward | RolloutKind::Revert, _) => r.targets.contains_key(pool),
        });
        let target = last.max_by_key(|r| r.created).and_then(|r| r.targets.get(pool));
        target.is_some_and(|t| self.vector(&t.release).is_some() && self.differences(i, t).is_empty())
    }
}

/// The layout, where it failed on nodes that ran the release before and nothing else had changed.
pub(crate) fn only_layout(rollout: &RolloutRecord, release: &ReleaseId) -> Option<LayoutId> {
    let mut failures =
        rollout.failures.iter().filter(|f| f.release == *release && f.blame == Blame::Version).peekable();
    failures.peek()?;
    if !failures.all(|f| f.before == f.release) {
        return None;
    }
    rollout.targets.values().find(|t| t.release == *release)?.layout.clone()
}
