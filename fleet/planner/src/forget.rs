//! The ledger forgets: rollouts that ended long ago and that nothing refers to any more, and what people said about
//! them. Without that it would grow for ever, and with it what a cluster has to keep.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{
    Blame, Command, CommandKind, LedgerChange, NodeRecord, RolloutId, RolloutKind, RolloutRecord,
    RolloutState,
};

use crate::pass::Pass;

/// Ended rollouts kept for each policy, the newest ones: about a year of weekly releases, with their ways back.
const ROLLOUTS_KEPT: usize = 50;
/// Commands kept that have been taken into account, the newest ones; four for each rollout that is kept.
const COMMANDS_KEPT: usize = 200;

impl Pass<'_> {
    pub(crate) fn forget(&mut self) {
        let gone = self.rollouts_to_forget();
        let commands = self.commands_to_forget(&gone);
        self.changes.extend(gone.into_iter().map(LedgerChange::ForgetRollout));
        self.changes.extend(commands.into_iter().map(LedgerChange::ForgetCommand));
    }

    fn rollouts_to_forget(&self) -> BTreeSet<RolloutId> {
        let mut ended: BTreeMap<_, Vec<&RolloutRecord>> = BTreeMap::new();
        for rollout in self.input.ledger.rollouts.values().filter(|r| r.state.is_final()) {
            ended.entry(&rollout.policy).or_default().push(rollout);
        }
        let mut old: BTreeMap<&RolloutId, &RolloutRecord> = BTreeMap::new();
        for mut of_policy in ended.into_values().filter(|all| all.len() > ROLLOUTS_KEPT) {
            of_policy.sort_by_key(|r| std::cmp::Reverse((r.ended.unwrap_or(r.created), &r.id)));
            old.extend(of_policy.into_iter().skip(ROLLOUTS_KEPT).map(|r| (&r.id, r)));
        }
        if old.is_empty() {
            return BTreeSet::new();
        }
        let named = self.named_rollouts();
        let still = |rollout: &&RolloutRecord| named.contains(&rollout.id) || self.is_remembered_for(rollout);
        old.into_values().filter(|r| !still(r)).map(|r| r.id.clone()).collect()
    }

    /// Rollouts that records name: of nodes, of quarantines, of open rollouts.
    fn named_rollouts(&self) -> BTreeSet<RolloutId> {
        let mut named = BTreeSet::new();
        let records = (0..self.frame.nodes.len()).map(|i| self.rec(i));
        for record in records.chain(self.frame.gone.iter().map(|(_, record)| *record)) {
            let NodeRecord { assignment, visit, soak, quarantine, .. } = record;
            named.extend(assignment.iter().map(|a| &a.rollout).cloned());
            named.extend(visit.iter().map(|v| &v.rollout).cloned());
            named.extend(soak.iter().map(|s| &s.rollout).cloned());
            named.extend(quarantine.iter().map(|q| &q.rollout).cloned());
        }
        named.extend(self.input.ledger.quarantines.values().map(|q| q.rollout.clone()));
        named.extend(self.changes.iter().filter_map(|change| match change {
            LedgerChange::Quarantine(_, _, why) => Some(why.rollout.clone()),
            LedgerChange::Node(..)
            | LedgerChange::ForgetNode(_)
            | LedgerChange::Rollout(_)
            | LedgerChange::ForgetRollout(_)
            | LedgerChange::Release(..)
            | LedgerChange::Remember(..)
            | LedgerChange::Command(..)
            | LedgerChange::ForgetCommand(_) => None,
        }));
        for rollout in self.rollouts.values() {
            named.insert(rollout.id.clone());
            named.extend(rollout.child.iter().chain(&rollout.superseded_by).cloned());
            if let RolloutKind::Rollback { of } = &rollout.kind {
                named.insert(of.clone());
            }
        }
        named
    }

    /// Git still asks for what failed in it, or for what a person ended: without it, that would be tried again.
    fn is_remembered_for(&self, rollout: &RolloutRecord) -> bool {
        let asked = |release: &_| self.frame.pools.iter().any(|p| p.target.release == *release);
        let failed = rollout.failures.iter().any(|f| f.blame == Blame::Version && asked(&f.release));
        let ended = rollout.state == RolloutState::Aborted;
        failed || ended && rollout.targets.values().any(|t| asked(&t.release))
    }

    fn commands_to_forget(&self, gone: &BTreeSet<RolloutId>) -> Vec<u64> {
        let done: Vec<(&u64, &Command)> = self.input.ledger.commands.iter().filter(|(_, c)| c.done).collect();
        let old = done.len().saturating_sub(COMMANDS_KEPT);
        let forgotten = |place: usize, command: &Command| match &command.what {
            // Its name may be given to another rollout one day, which nobody has spoken about.
            CommandKind::Pause { rollout }
            | CommandKind::Resume { rollout }
            | CommandKind::Abort { rollout }
            | CommandKind::Approve { rollout, .. } => {
                gone.contains(rollout) || place < old && !self.rollouts.contains_key(rollout)
            }
            CommandKind::Skip { .. } => place < old,
            CommandKind::RetryRelease { .. } | CommandKind::RetryNode { .. } => {
                place < old && !self.still_counts(command, gone)
            }
        };
        let old = done.iter().enumerate().filter(|(place, (_, command))| forgotten(*place, command));
        old.map(|(_, (number, _))| **number).collect()
    }

    /// A retry lifts what happened before it, as long as that is remembered; and one that stands in Git counts once.
    fn still_counts(&self, command: &Command, gone: &BTreeSet<RolloutId>) -> bool {
        let in_git = self.input.fleet.controls.iter().any(|(name, control)| {
            command.by == format!("git {name}") && control.retry.iter().any(|r| r.reason == command.reason)
        });
        let kept = self.input.ledger.rollouts.values().filter(|r| !gone.contains(&r.id));
        in_git
            || kept.into_iter().any(|r| match &command.what {
                CommandKind::RetryNode { node } => {
                    r.failures.iter().any(|f| f.node == *node && f.at <= command.at)
                }
                CommandKind::RetryRelease { release, .. } => {
                    r.failures.iter().any(|f| f.release == *release && f.at <= command.at)
                        || r.state == RolloutState::Aborted
                            && r.targets.values().any(|t| t.release == *release)
                }
                CommandKind::Pause { .. }
                | CommandKind::Resume { .. }
                | CommandKind::Abort { .. }
                | CommandKind::Approve { .. }
                | CommandKind::Skip { .. } => false,
            })
    }
}
