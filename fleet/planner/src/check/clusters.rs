//! maxClusters: a rollout begins in another cluster only while fewer than it allows are under way. A cluster that isn't
//! seen is under way as long as the ledger has a visit there; one that hasn't answered for as long as a lost node is waited
//! for takes no place, as a lost node doesn't.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Ledger, NodeId, RolloutId};

use super::{findings::Findings, view::View};

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    let mut begun: BTreeMap<&RolloutId, (&NodeId, u32)> = BTreeMap::new();
    for fresh in view.fresh.iter().filter(|f| !f.urgent) {
        let Some(rollout) = fresh.rollout else { continue };
        let under_way = |l: &Ledger| {
            l.nodes.get(fresh.id).and_then(|r| r.visit.as_ref()).is_some_and(|v| v.rollout == rollout.id)
        };
        if !under_way(view.input.ledger) {
            begun.insert(&rollout.id, (fresh.id, rollout.strategy.max_clusters));
        }
    }
    for (id, (node, limit)) in begun {
        let lost_after = view.after.rollouts.get(id).map(|r| r.strategy.lost_after);
        let silent = |cluster: &str| {
            let seen = view.input.inventory.clusters.get(cluster);
            let since = seen.filter(|c| c.error.is_some()).map_or(view.input.now, |c| c.seen_at);
            lost_after.is_some_and(|patience| patience.after(since) <= view.input.now)
        };
        let held = view.held.iter().filter(|h| h.visit.rollout == *id).filter(|h| !silent(h.id.cluster()));
        let now: BTreeSet<&str> = held.map(|h| h.id.cluster()).collect();
        let fresh: BTreeSet<&NodeId> = view.fresh.iter().map(|f| f.id).collect();
        let before: BTreeSet<&str> = view
            .held
            .iter()
            .filter(|h| h.visit.rollout == *id && !fresh.contains(h.id) && !silent(h.id.cluster()))
            .map(|h| h.id.cluster())
            .collect();
        found.when(now.len() > limit as usize && now.len() > before.len(), "I20 clusters", || {
            let names: Vec<&str> = now.iter().copied().collect();
            format!(
                "{node} is reserved and {id} is under way in {} of {limit} clusters: {}",
                now.len(),
                names.join(", ")
            )
        });
    }
}
