//! Why a node that differs from Git is left alone: quarantine, failures, drift, people, and a rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{
    Blame, CommandKind, LedgerChange, Reason, RolloutEvent, RolloutId, RolloutKind, RolloutRecord,
    RolloutState, SkipNote, SkipReason, Target,
};
use drydock_spec::{DriftPolicy, Period, PolicyName, PolicySpec, PoolName};
use jiff::Timestamp;

use crate::{health, pass::Pass};

/// A node that was left out because it failed its checks is tried again after this: as long as a check's result
/// counts as fresh. It doubles every time, since each try is a rollout of its own for people to read.
const LEFT_OUT_REST: Period = Period::from_hours(24);
/// Doublings of it: sixteen days, by when a repair has been done or never will be. A node whose fault is still to be
/// seen rests that long at once.
const LEFT_OUT_DOUBLINGS: u32 = 4;

impl Pass<'_> {
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
            SkipReason::Preexisting => {
                let until = rest_ends(note, node.obs.faults.iter().any(health::is_somebodys));
                (self.now() < until).then_some(Reason::PreexistingFailure { until })
            }
            SkipReason::Undrainable | SkipReason::Unit(_) | SkipReason::Floor(_) | SkipReason::Gang(_) => {
                let until = rest_ends(note, false);
                (self.now() < until).then(|| Reason::LeftOut { why: note.reason.clone(), until })
            }
            SkipReason::Control => Some(Reason::SkippedByControl {}),
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
        let pool = self.frame.nodes[i].obs.pool.clone();
        let lets = |what: &CommandKind| match what {
            CommandKind::RetryNode { node: n } => n == node,
            CommandKind::RetryRelease { .. } => pool.as_ref().is_some_and(|pool| what.retries(pool, release)),
            CommandKind::Pause { .. }
            | CommandKind::Resume { .. }
            | CommandKind::Abort { .. }
            | CommandKind::Approve { .. }
            | CommandKind::Skip { .. } => false,
        };
        let retried = self.is_said_since(failure.at, lets);
        (!retried).then(|| rollout.id.clone())
    }

    /// Somebody has said this since then. What Git says for the first time in this pass counts in this pass.
    fn is_said_since(&self, since: Timestamp, what: impl Fn(&CommandKind) -> bool) -> bool {
        let just_now = self.changes.iter().filter_map(|change| match change {
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
        let mut said = self.input.ledger.commands.values().chain(just_now);
        said.any(|c| c.at >= since && what(&c.what))
    }

    /// The node has been good on this target: it is going back there, not on.
    pub(crate) fn was_good_on(&self, i: usize, target: &Target) -> bool {
        let record = self.rec(i);
        [&record.last_known_good, &record.previous_good].into_iter().flatten().any(|good| good == target)
    }

    /// The last thing that was done about a pool was that a person ended a rollout to what Git still says, and nobody has
    /// said to try again since.
    pub(crate) fn aborted_before(&self, pool: &PoolName, target: &Target) -> Option<Arc<RolloutRecord>> {
        let over = |r: &&Arc<RolloutRecord>| !r.kind.is_automatic() && r.targets.contains_key(pool);
        let last = self.input.ledger.rollouts.values().filter(over).max_by_key(|r| r.created)?;
        if last.state != RolloutState::Aborted || last.targets.get(pool) != Some(target) {
            return None;
        }
        let since = last.ended.unwrap_or(last.created);
        let retried = self.is_said_since(since, |what| what.retries(pool, &target.release));
        (!retried).then(|| Arc::clone(last))
    }

    /// Of nodes that differ from Git those whose pools were left by a person's abort, taken out with that as the reason.
    /// Where everybody who would move was good on it before, it is a way back, which an old abort doesn't forbid.
    pub(crate) fn leave_aborted(&mut self, found: Vec<usize>) -> Vec<usize> {
        let mut by_pool: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &i in &found {
            if let Some(pool) = self.frame.nodes[i].pool {
                by_pool.entry(pool).or_default().push(i);
            }
        }
        let mut left = BTreeSet::new();
        for (pool, nodes) in by_pool {
            let (name, target) = (self.frame.pools[pool].name, self.frame.pools[pool].target.clone());
            let Some(aborted) = self.aborted_before(name, &target) else { continue };
            let new = aborted.kind == RolloutKind::Forward;
            if new && nodes.iter().all(|&i| self.was_good_on(i, &target)) {
                continue;
            }
            let reason = aborted_reason(&aborted, &target);
            for i in nodes {
                self.wait(i, reason.clone());
                left.insert(i);
            }
        }
        found.into_iter().filter(|i| !left.contains(i)).collect()
    }

    /// Why a rollout to these targets isn't started (again).
    pub(crate) fn suppressed(
        &self,
        policy: &PolicyName,
        targets: &BTreeMap<PoolName, Target>,
        nodes: &[usize],
    ) -> Option<Reason> {
        let same = |r: &&Arc<RolloutRecord>| r.policy == *policy && r.targets == *targets;
        let last = self.input.ledger.rollouts.values().filter(same).max_by_key(|r| r.created)?;
        match &last.state {
            RolloutState::Rejected { why } if last.commit.id == self.input.commit.id => {
                Some(Reason::Rejected { why: why.join("; ") })
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
}

/// When a node that was left out has rested. One whose fault is still to be seen rests as long as any.
fn rest_ends(note: &SkipNote, ill: bool) -> Timestamp {
    let doublings =
        if ill { LEFT_OUT_DOUBLINGS } else { note.times.saturating_sub(1).min(LEFT_OUT_DOUBLINGS) };
    Period::from_millis(LEFT_OUT_REST.as_millis() << doublings).after(note.at)
}

/// Who ended it, and what to say to have it tried again.
fn aborted_reason(aborted: &RolloutRecord, target: &Target) -> Reason {
    let by = aborted.history.iter().rev().find_map(|entry| match &entry.what {
        RolloutEvent::State { to, why, .. } if to == RolloutState::Aborted.word() => Some(why.clone()),
        RolloutEvent::Created { .. }
        | RolloutEvent::State { .. }
        | RolloutEvent::Wave { .. }
        | RolloutEvent::Batch { .. }
        | RolloutEvent::Suspect { .. }
        | RolloutEvent::FailureSettled { .. }
        | RolloutEvent::Approved { .. }
        | RolloutEvent::ReleaseQuarantined { .. }
        | RolloutEvent::LayoutQuarantined { .. }
        | RolloutEvent::NodeQuarantined { .. }
        | RolloutEvent::Deferred { .. }
        | RolloutEvent::Skipped { .. }
        | RolloutEvent::Drawn { .. } => None,
    });
    Reason::AbortedBefore { rollout: aborted.id.clone(), by, release: Some(target.release.clone()) }
}
