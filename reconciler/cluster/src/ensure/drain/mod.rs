//! Emptying a node: jobs are asked for a checkpoint, then pods are evicted. Never deleted: an eviction asks the budgets
//! of the pods' owners, a deletion doesn't.

mod answer;
mod checkpoint;
mod leave;
#[cfg(test)]
mod tests;

use drydock_plan::{BLOCKERS_MAX, Blocker, DrainRules, StepState};
use jiff::SignedDuration;

use self::answer::Answer;
use self::leave::{Leaver, Part};
use super::{Call, Effort, Outcome, Request, View};

pub use self::checkpoint::checkpointed;

/// Evictions under way at a time on one node. A node has tens of pods; what matters is that the API server isn't asked
/// for hundreds at once when many nodes are emptied together.
const EVICTIONS_MAX: usize = 50;

/// How long after its own grace period a pod that is being deleted is named: the kubelet kills it at the end of the
/// period and reports within seconds, a busy runtime within half a minute.
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Grace period of a pod that doesn't say: Kubernetes' default.
const GRACE: i64 = 30;

/// Looks again at what waits for people.
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// Every pod that has to leave has left the node.
///
/// While a pod is there that the rules say to wait for, no other is evicted either: a drain that can't end would have
/// interrupted the others for nothing, and again with every new try.
pub fn drained(view: &View<'_>, effort: &mut Effort, rules: &DrainRules) -> Outcome {
    let all = leave::leavers(view, rules);
    forget_gone(&all, effort);
    if all.is_empty() {
        return Outcome::done();
    }
    let remaining = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let named = |part: Part| -> Vec<String> { names(all.iter().filter(|l| l.part == part)) };

    let forbidden = named(Part::Forbidden);
    if !forbidden.is_empty() {
        return Outcome::failed(format!(
            "pods without a controller, which nobody would make again: {}; delete them, or let the policy's \
             drain.unmanaged be evict or wait",
            forbidden.join(", ")
        ));
    }
    if let Some(by) = waits_for(&named, &all) {
        return working(remaining, Some(by), Vec::new()).again(view.now, LOOK);
    }

    let mut outcome = working(remaining, None, Vec::new());
    let mut blockers: Vec<Blocker> = Vec::new();
    let stuck = stuck(view, effort, &all, &mut outcome);
    if !stuck.is_empty() {
        blockers.push(Blocker::Terminating(stuck));
    }
    let key = |leaver: &Leaver<'_>| format!("evict:{}", leaver.pod.meta.uid);
    let evictable: Vec<&Leaver<'_>> = all.iter().filter(|l| l.part == Part::Evict).collect();
    let under_way =
        evictable.iter().filter(|l| effort.asked(&key(l)).is_some_and(|a| a.ended.is_none())).count();
    for leaver in evictable {
        let key = key(leaver);
        match answer::read(effort.asked(&key), leaver.pod) {
            Answer::Free => {}
            Answer::Blocked(by) => blockers.push(by),
            Answer::Never(message) => return Outcome::failed(message),
        }
        if !effort.may(&key, view.now) {
            outcome = outcome.again(view.now, effort.next(&key).duration_since(view.now));
        } else if under_way + outcome.calls.len() < EVICTIONS_MAX {
            outcome.calls.push(evict(leaver, key, rules));
        }
    }
    // The one named is the one that lasts longest by itself: what is forbidden, then what doesn't end, then budgets.
    let rank = |by: &Blocker| match by {
        Blocker::NotReady(_) | Blocker::Refused(_) => 0,
        Blocker::Protected(_) | Blocker::Unmanaged(_) | Blocker::LocalStorage(_) => 1,
        Blocker::Terminating(_) => 2,
        Blocker::DisruptionBudget(_) => 3,
    };
    blockers.sort_by_key(rank);
    outcome.state = StepState::Working { remaining, blocked_by: blockers.into_iter().next() };
    outcome
}

fn evict(leaver: &Leaver<'_>, key: String, rules: &DrainRules) -> Call {
    let grace = rules.grace.map(|g| i64::try_from(g.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX));
    let (pod, uid) = (crate::objects::Watched::key(&**leaver.pod), leaver.pod.meta.uid.clone());
    Call { key, request: Request::Evict { pod, uid, grace } }
}

/// Pods that keep everybody: named by what their owners can do about it.
fn waits_for(named: &dyn Fn(Part) -> Vec<String>, all: &[Leaver<'_>]) -> Option<Blocker> {
    let some = |names: Vec<String>, as_: fn(Vec<String>) -> Blocker| (!names.is_empty()).then(|| as_(names));
    some(named(Part::Protected), Blocker::Protected)
        .or_else(|| some(named(Part::Unmanaged), Blocker::Unmanaged))
        .or_else(|| some(named(Part::LocalStorage), Blocker::LocalStorage))
        .or_else(|| {
            let gang = all.iter().find(|l| l.part == Part::WithItsGang)?.gang.as_deref()?;
            Some(Blocker::Refused(format!("job {gang} spans nodes and the policy's drain.gangs is avoid")))
        })
}

/// Names of pods that were told to end and don't. The time is measured here, from when the deletion was first seen: the
/// API server's clock may be off.
fn stuck(view: &View<'_>, effort: &mut Effort, all: &[Leaver<'_>], outcome: &mut Outcome) -> Vec<String> {
    let mut stuck = Vec::new();
    for leaver in all.iter().filter(|l| l.part == Part::Leaving) {
        let since = effort.since(&note(leaver), view.now);
        let grace = leaver.pod.meta.deletion_grace_period_seconds.unwrap_or(GRACE).max(0);
        let patience = SignedDuration::from_secs(grace).saturating_add(STUCK_AFTER);
        let left = patience.saturating_sub(view.now.duration_since(since));
        if left.is_positive() {
            *outcome = std::mem::replace(outcome, Outcome::done()).again(view.now, left);
        } else {
            stuck.push(leaver);
        }
    }
    names(stuck.into_iter())
}

fn names<'a>(leavers: impl Iterator<Item = &'a Leaver<'a>>) -> Vec<String> {
    leavers.take(BLOCKERS_MAX).map(Leaver::name).collect()
}

const LEAVING: &str = "leaving:";

fn note(leaver: &Leaver<'_>) -> String {
    format!("{LEAVING}{}", leaver.pod.meta.uid)
}

/// Notes about pods that aren't there any more would gather while somebody's controller keeps making new ones.
fn forget_gone(all: &[Leaver<'_>], effort: &mut Effort) {
    let there: std::collections::BTreeSet<String> = all.iter().map(note).collect();
    effort.notes.retain(|name, _| !name.starts_with(LEAVING) || there.contains(name));
}

fn working(remaining: u32, blocked_by: Option<Blocker>, calls: Vec<Call>) -> Outcome {
    Outcome { calls, ..Outcome::of(StepState::Working { remaining, blocked_by }) }
}
