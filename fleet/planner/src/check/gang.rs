//! I4: no running gang is cut in two by an admission.

use std::collections::BTreeMap;

use drydock_plan::{GangId, NodeId, RolloutId};
use drydock_spec::Gangs;

use super::{facts, findings::Findings, view::View};

const GANG: &str = "I4 gang purity";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    // One answer for each gang: its nodes mostly come all in the same plan.
    let mut left_behind: BTreeMap<(&GangId, &RolloutId), Option<&NodeId>> = BTreeMap::new();
    for fresh in &view.fresh {
        let Some(seen) = fresh.seen else { continue };
        // On a node that is out already the gang is broken with or without an upgrade.
        if fresh.urgent || facts::is_broken(seen, Some(fresh.record)) {
            continue;
        }
        // What makes no pod leave interrupts no job.
        let pool = fresh.pool.map(|(_, pool)| pool);
        if !facts::drains(view.input.fleet, view.after, pool, seen, &fresh.visit.to) {
            continue;
        }
        match fresh.rollout.map(|r| r.strategy.drain.gangs) {
            None | Some(Gangs::Ignore) => {}
            Some(Gangs::Avoid) => found.when(!seen.work.gangs.is_empty(), GANG, || {
                format!("{} is reserved while a gang runs on it", fresh.id)
            }),
            Some(Gangs::Together) => {
                let rollout = &fresh.visit.rollout;
                for gang in &seen.work.gangs {
                    found.when(!view.input.inventory.gangs.contains_key(gang), GANG, || {
                        format!("{} is reserved, and where gang {gang} runs isn't known", fresh.id)
                    });
                    let left =
                        *left_behind.entry((gang, rollout)).or_insert_with(|| not_held(view, gang, rollout));
                    if let Some(left) = left {
                        found.add(GANG, || {
                            format!("{} is reserved out of gang {gang}, {left} isn't", fresh.id)
                        });
                    }
                }
            }
        }
    }
}

/// A node of the gang that the rollout has still to move and doesn't hold. What it is through with, or has no part in,
/// needn't come along. And a job is waited for only so long: from when that was first written down.
fn not_held<'a>(view: &View<'a>, gang: &GangId, rollout: &RolloutId) -> Option<&'a NodeId> {
    let record = view.after.rollouts.get(rollout)?;
    let waited = record.jobs_waited_for.get(gang).map(|since| record.strategy.patience.after(*since));
    if waited.is_some_and(|until| until <= view.input.now) {
        return None;
    }
    view.input.inventory.gangs.get(gang)?.nodes.iter().find(|id| {
        let Some(seen) = view.input.inventory.nodes.get(*id) else { return true };
        let Some(node) = view.after.nodes.get(*id) else { return false };
        let Some(part) = node.assignment.as_ref().filter(|a| a.rollout == *rollout) else { return false };
        let held = node.visit.as_ref().is_some_and(|v| v.rollout == *rollout);
        let pool = view.pool_of(seen).map(|(_, pool)| pool);
        let back = facts::is_automatic_rollback(record);
        let carries = back.then_some(&part.carries[..]);
        let fleet = view.input.fleet;
        let there = || facts::runs(fleet, view.after, pool, seen, &part.target, back, carries) == Some(true);
        !held && part.outcome.is_none() && node.soak.is_none() && !there()
    })
}
