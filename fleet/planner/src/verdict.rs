//! Is it time to halt? The first limit that is passed decides; admission comes after this in every pass.

use std::collections::BTreeMap;

use drydock_plan::{
    Blame, Failure, FailureClass, Halt, HaltLimit, LedgerChange, PauseReason, ReleaseQuarantine,
    RolloutEvent, RolloutId, RolloutRecord, RolloutState, Target, VisitEnd, WaveState,
};
use drydock_spec::{Amount, ComponentName, FailurePolicy, PoolName, ReleaseId, Version};

use crate::{judge, memory::only_layout, pass::Pass};

/// Failed nodes at which a rollback itself may be given up: two, since one may be the node's own fault.
const ROLLBACK_FAILURES_MAX: usize = 2;
/// And they are at least one in so many of those that have settled: among many nodes some are ill by themselves, and the
/// others must get back.
const ROLLBACK_FAILED_ONE_IN: usize = 3;
/// Of so many nodes that passed a wave one may fail on its old release as well. Far above what hardware does in the days
/// of a rollout (some 4e-3 of the nodes a day), far below what a release does that breaks nodes.
const PASSED_FOR_A_BROKEN_NODE: u32 = 10;

impl Pass<'_> {
    pub(crate) fn judge_rollouts(&mut self) {
        for id in self.open_ids() {
            self.end_pause_nobody_ends(&id);
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            match rollout.state {
                // A person has ended it: what is left only finishes.
                RolloutState::Paused(PauseReason::Aborting { .. }) => continue,
                RolloutState::Running | RolloutState::Paused(_) => {}
                RolloutState::Halted
                | RolloutState::RollingBack
                | RolloutState::Rejected { .. }
                | RolloutState::Succeeded
                | RolloutState::RolledBack
                | RolloutState::RollbackBlocked
                | RolloutState::Superseded
                | RolloutState::Aborted => continue,
            }
            if rollout.kind.is_automatic() {
                if self.way_back_fails(&rollout) {
                    let limit = HaltLimit::Failures {
                        half_weights: u32::try_from(rollout.failures.len() * 2).unwrap_or(u32::MAX),
                        tolerate: 1,
                    };
                    self.halt(&rollout, limit, None);
                }
                continue;
            }
            if let Some((limit, release)) = self.exceeded(&rollout) {
                self.halt(&rollout, limit, release);
            } else if let Some(limit) = self.too_many_nodes(&rollout) {
                self.halt(&rollout, limit, None);
            } else {
                self.end_patience(&rollout);
            }
        }
    }

    /// A pause because of a broken runner ends with the node that met it: when that one doesn't try its checks any more,
    /// the next one finds out whether they run.
    fn end_pause_nobody_ends(&mut self, id: &RolloutId) {
        let tries = |node: &drydock_plan::NodeId| {
            let visit = self.frame.find(node).and_then(|i| self.rec(i).visit.as_ref());
            visit.is_some_and(|v| v.rollout == *id && v.inconclusive > 0)
        };
        let over: Vec<PauseReason> = self.rollout(id).map_or_else(Vec::new, |r| {
            let ended = |why: &PauseReason| match why {
                PauseReason::Inconclusive { node, .. } => !tries(node),
                PauseReason::Control { .. }
                | PauseReason::NothingPassed { .. }
                | PauseReason::Deadline
                | PauseReason::Aborting { .. } => false,
            };
            r.pauses().filter(|why| ended(why)).cloned().collect()
        });
        self.end_pause(id, |why| over.contains(why), "the node that couldn't be checked is back");
        let passing: Vec<PauseReason> = self.rollout(id).map_or_else(Vec::new, |r| {
            let ended = |why: &PauseReason| match why {
                PauseReason::NothingPassed { wave, .. } => {
                    let w = r.waves.iter().position(|w| w.name == *wave);
                    w.is_none_or(|w| self.nothing_passed(r, w).is_none())
                }
                PauseReason::Control { .. }
                | PauseReason::Inconclusive { .. }
                | PauseReason::Deadline
                | PauseReason::Aborting { .. } => false,
            };
            r.pauses().filter(|why| ended(why)).cloned().collect()
        });
        self.end_pause(id, |why| passing.contains(why), "its wave can be passed again");
    }

    /// What a way back goes to fails as well: not on a node or two of many, but on a good part of those that tried.
    fn way_back_fails(&self, rollout: &RolloutRecord) -> bool {
        let failed = rollout.failures.len();
        let back: u32 = (0..rollout.waves.len()).map(|w| self.tally(&rollout.id, w).passed()).sum();
        let settled = failed + back as usize;
        failed >= ROLLBACK_FAILURES_MAX && failed * ROLLBACK_FAILED_ONE_IN >= settled
    }

    /// More nodes than hardware explains fail on what they ran before as well. It may be the environment, or a release
    /// that breaks nodes for good: nobody can tell without looking, so it goes no further.
    fn too_many_nodes(&self, rollout: &RolloutRecord) -> Option<HaltLimit> {
        (0..rollout.waves.len()).find_map(|w| {
            let failed = own(rollout, w).filter(|f| f.blame == Blame::Node).count();
            let failed = u32::try_from(failed).unwrap_or(u32::MAX);
            if failed == 0 {
                return None;
            }
            let passed = self.tally(&rollout.id, w).passed();
            let said = rollout.strategy.waves.get(w).and_then(|s| s.failure.node_failures);
            let tolerate = said.unwrap_or((passed / PASSED_FOR_A_BROKEN_NODE).max(1));
            (failed > tolerate).then_some(HaltLimit::Nodes { failed, passed, tolerate })
        })
    }

    fn end_patience(&mut self, rollout: &RolloutRecord) {
        let due = rollout.strategy.deadline.rollout.after(rollout.created);
        let resumed = rollout.history.iter().any(|h| {
            h.at >= due
                && matches!(&h.what, RolloutEvent::State { to, .. } if to == RolloutState::Running.word())
        });
        // History is cut in the middle, so what counts is kept beside it.
        let resumed = resumed || rollout.resumed.is_some_and(|at| at >= due);
        if rollout.state != RolloutState::Running || resumed {
            return;
        }
        if self.now() >= due {
            let why = format!("it has run for {}", rollout.strategy.deadline.rollout);
            self.set_state(&rollout.id, RolloutState::Paused(PauseReason::Deadline), &why);
        } else {
            self.wake_at(due);
        }
    }

    /// Stops the rollout: what hasn't begun to apply is returned, the rest finishes its checks or turns back.
    fn halt(&mut self, rollout: &RolloutRecord, limit: HaltLimit, release: Option<ReleaseId>) {
        let now = self.now();
        let mut text = limit_text(&limit);
        let layout = release.as_ref().and_then(|release| only_layout(rollout, release));
        if let Some(release) = &release {
            if let Some(with) = self.fails_only_with(rollout, release) {
                text = format!("{text}; {with}");
            }
            self.quarantine_release(rollout, release, &text);
        }
        let fallback = rollout.targets.values().next().map(|t| t.release.clone());
        if let Some(r) = self.edit_rollout(&rollout.id) {
            if let Some(release) = release.or(fallback) {
                r.halt = Some(Halt { at: now, limit, release, layout });
            }
            for wave in &mut r.waves {
                match wave.state {
                    WaveState::Running
                    | WaveState::Soaking
                    | WaveState::GatedAfter
                    | WaveState::GatedBefore => {
                        wave.state = WaveState::Failed;
                        wave.ended = Some(now);
                    }
                    WaveState::Pending | WaveState::Complete | WaveState::Skipped | WaveState::Failed => {}
                }
            }
        }
        self.set_state(&rollout.id, RolloutState::Halted, &text);
        self.give_back_untouched(&rollout.id);
    }

    /// Returns the nodes of a rollout that haven't begun to apply.
    pub(crate) fn give_back_untouched(&mut self, id: &RolloutId) {
        for i in self.visiting() {
            let Some(visit) = self.rec(i).visit.clone().filter(|v| v.rollout == *id) else { continue };
            if self.untouched(i, &visit) {
                self.leave(i, VisitEnd::GivenBack);
            } else if self.is_between(i) {
                self.end_of_hold(i, &visit);
            }
        }
    }

    /// Remembers that a release failed: on the pools that should run it, and on those of the same rollout whose own
    /// release brings one of the component versions that are suspected, whatever its settings. Otherwise three releases
    /// with the same bad driver would each try it on a node of theirs.
    fn quarantine_release(&mut self, rollout: &RolloutRecord, release: &ReleaseId, text: &str) {
        let suspected = self.suspected(rollout, release);
        let brings = |other: &ReleaseId| {
            other == release
                || self.vector(other).is_some_and(|v| {
                    suspected
                        .iter()
                        .any(|(name, version)| v.0.get(name).is_some_and(|c| c.version == *version))
                })
        };
        let failed: Vec<(PoolName, ReleaseId)> = rollout
            .targets
            .iter()
            .filter(|(pool, t)| t.release == *release || brings(&t.release) && !self.proven(pool, &t.release))
            .map(|(pool, t)| (pool.clone(), t.release.clone()))
            .collect();
        for (pool, release) in &failed {
            let why =
                ReleaseQuarantine { rollout: rollout.id.clone(), since: self.now(), why: text.to_owned() };
            self.changes.push(LedgerChange::Quarantine(pool.clone(), release.clone(), why));
        }
        let pools = failed.into_iter().map(|(pool, _)| pool).collect();
        let layout = only_layout(rollout, release)
            .map(|layout| self.layout_text(&Target { release: release.clone(), layout: Some(layout) }));
        let event = match layout {
            Some(layout) => RolloutEvent::LayoutQuarantined { layout, pools },
            None => RolloutEvent::ReleaseQuarantined { release: release.clone(), pools },
        };
        self.log(&rollout.id, event);
    }

    /// Some node of the pool was good on the release for as long as it should: what is suspected elsewhere isn't to
    /// blame here, and it is what other nodes go back to.
    fn proven(&self, pool: &PoolName, release: &ReleaseId) -> bool {
        let good = |i: usize| self.rec(i).last_known_good.as_ref().is_some_and(|t| t.release == *release);
        (0..self.frame.nodes.len()).any(|i| self.frame.nodes[i].obs.pool.as_ref() == Some(pool) && good(i))
    }

    /// Component versions that a failed release brought to the nodes on which it failed.
    fn suspected(&self, rollout: &RolloutRecord, release: &ReleaseId) -> BTreeMap<ComponentName, Version> {
        let mut suspected = BTreeMap::new();
        for failure in rollout.failures.iter().filter(|f| f.release == *release && f.blame == Blame::Version)
        {
            let (Some(before), Some(after)) = (self.vector(&failure.before), self.vector(release)) else {
                continue;
            };
            for change in before.changes(after) {
                if let Some(to) = change.to {
                    suspected.insert(change.component.clone(), to.version.clone());
                }
            }
        }
        suspected
    }

    /// The limit that is passed and the release that is to blame, when a version is.
    fn exceeded(&self, rollout: &RolloutRecord) -> Option<(HaltLimit, Option<ReleaseId>)> {
        rollout.waves.iter().enumerate().find_map(|(w, wave)| {
            let policy = rollout.strategy.waves.get(w).map(|s| s.failure.clone()).unwrap_or_default();
            let failures: Vec<&Failure> = own(rollout, w).collect();
            let release =
                failures.iter().rev().find(|f| f.blame == Blame::Version).map(|f| f.release.clone());
            let limit = over_class(&policy, &failures)
                .or_else(|| over_count(&policy, &failures))
                .or_else(|| {
                    // Counting units is work, and most policies don't ask for a share.
                    let asked = policy.tolerate_percent.is_some() && !failures.is_empty();
                    asked.then(|| over_percent(&policy, self.share_failed(rollout, w, &failures)))?
                })
                .or_else(|| over_row(&policy, rollout, &failures))
                .or_else(|| {
                    (wave.lost > policy.lost)
                        .then_some(HaltLimit::Lost { count: wave.lost, tolerate: policy.lost })
                });
            limit.map(|l| (l, release))
        })
    }
}

/// Failures that speak about what this rollout brings, not about what it replaced.
fn own(rollout: &RolloutRecord, wave: usize) -> impl Iterator<Item = &Failure> {
    rollout.failures.iter().filter(move |f| {
        usize::from(f.wave) == wave && rollout.targets.values().any(|t| t.release == f.release)
    })
}

/// In halves: the version's own failures count two, unsettled ones one, the node's none.
fn half_weight(failure: &Failure) -> u32 {
    match failure.blame {
        Blame::Version => 2,
        Blame::Unknown => 1,
        Blame::Node => 0,
    }
}

fn over_count(policy: &FailurePolicy, failures: &[&Failure]) -> Option<HaltLimit> {
    let half_weights: u32 = failures
        .iter()
        // A class with a tolerance of its own is judged by that alone.
        .filter(|f| judge::tolerated(policy, f.class).is_none())
        // Lost nodes have a tolerance of their own as well; alone they don't pass this one.
        .filter(|f| f.class != FailureClass::Lost)
        .map(|f| half_weight(f))
        .sum();
    let tolerate = policy.tolerate;
    (half_weights > tolerate.saturating_mul(2)).then_some(HaltLimit::Failures { half_weights, tolerate })
}

fn over_class(policy: &FailurePolicy, failures: &[&Failure]) -> Option<HaltLimit> {
    failures.iter().find_map(|f| {
        let tolerate = judge::tolerated(policy, f.class)?;
        let same = failures.iter().filter(|g| g.class == f.class && g.blame != Blame::Node).count();
        let count = u32::try_from(same).unwrap_or(u32::MAX);
        (count > tolerate).then_some(HaltLimit::Class { class: f.class, count, tolerate })
    })
}

fn over_percent(policy: &FailurePolicy, (failed, attempted): (u32, u32)) -> Option<HaltLimit> {
    let tolerate = policy.tolerate_percent?;
    let over = match tolerate {
        Amount::Percent(_) => failed > tolerate.floor_of(attempted),
        Amount::Count(n) => failed > n,
    };
    (attempted >= policy.min_sample && over).then(|| HaltLimit::Percent {
        failed,
        attempted,
        tolerate: tolerate.to_string(),
    })
}

fn over_row(policy: &FailurePolicy, rollout: &RolloutRecord, failures: &[&Failure]) -> Option<HaltLimit> {
    let limit = policy.consecutive?;
    let any = failures.iter().any(|f| f.blame != Blame::Node);
    (any && rollout.consecutive >= limit).then_some(HaltLimit::Consecutive { count: rollout.consecutive })
}

pub(crate) fn limit_text(limit: &HaltLimit) -> String {
    match limit {
        HaltLimit::Failures { half_weights, tolerate } => {
            let unsettled =
                if half_weights % 2 == 1 { "; what is to blame isn't settled and counts half" } else { "" };
            format!("{} failed, {tolerate} tolerated{unsettled}", half_weights.div_ceil(2))
        }
        HaltLimit::Percent { failed, attempted, tolerate } => {
            format!("{failed} of {attempted} units failed, {tolerate} tolerated")
        }
        HaltLimit::Consecutive { count } => format!("{count} failures in a row"),
        HaltLimit::Lost { count, tolerate } => format!("{count} nodes lost, {tolerate} tolerated"),
        HaltLimit::Class { class, count, tolerate } => {
            let word = match class {
                FailureClass::Check(class) => class.as_str(),
                FailureClass::Apply => "apply",
                FailureClass::Lost => "lost",
                FailureClass::Health => "health",
            };
            format!("{count} failures of class {word}, {tolerate} tolerated")
        }
        HaltLimit::Nodes { failed, passed, tolerate } => format!(
            "{failed} nodes failed on what they ran before as well and {passed} passed, {tolerate} tolerated: the \
             environment or the version is to blame"
        ),
    }
}
