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

/// A node of the gang that the rollout doesn't hold.
fn not_held<'a>(view: &View<'a>, gang: &GangId, rollout: &RolloutId) -> Option<&'a NodeId> {
    let visit = |id| view.after.nodes.get(id).and_then(|r| r.visit.as_ref());
    let held = |id| visit(id).is_some_and(|v| v.rollout == *rollout);
    view.input.inventory.gangs.get(gang)?.nodes.iter().find(|id| !held(*id))
}
