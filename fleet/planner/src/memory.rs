//! What the ledger remembers: what failed where, and what drydock itself has put on nodes.

use drydock_plan::{LedgerChange, RolloutId, RolloutKind, RolloutState, Target};
use drydock_spec::PoolName;

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
        just_now.or_else(|| self.failed_on(pool, target).filter(|_| !self.changes.iter().any(lifted)))
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
