//! Nodes that aren't seen: gone, or out of sight. A node that is out of sight is a node like any other, of which nothing
//! is known now: it counts as away wherever something is counted, and its visit goes on when it is seen again.

use std::collections::BTreeSet;

use drydock_plan::{Inventory, LedgerChange, NodeId, NodeRecord, ObservedCluster, RolloutEvent};
use drydock_spec::Fleet;

use crate::pass::Pass;

/// What is known of a cluster as far as it takes to say that a node of it is gone.
pub(crate) struct Roll<'a> {
    fleet: &'a Fleet,
    inventory: &'a Inventory,
    /// Clusters of which at least one node is seen.
    seen: BTreeSet<&'a str>,
}

impl<'a> Roll<'a> {
    pub(crate) fn new(fleet: &'a Fleet, inventory: &'a Inventory) -> Self {
        let mut seen = BTreeSet::new();
        let mut last = "";
        // In the order of ids, so those of a cluster stand together.
        for id in inventory.nodes.keys() {
            if id.cluster() != last {
                last = id.cluster();
                seen.insert(last);
            }
        }
        Self { fleet, inventory, seen }
    }

    /// Whether its absence means that it doesn't exist any more. Absence counts only where the cluster answers and still
    /// has other nodes, or can tell that it has none: an empty or failed list is an error, never "gone". A cluster that
    /// left Git is nobody's business here any more, and neither are its nodes.
    pub(crate) fn is_gone(&self, id: &NodeId, answers: impl Fn(&ObservedCluster) -> bool) -> bool {
        if !self.fleet.clusters.keys().any(|name| name.as_str() == id.cluster()) {
            return true;
        }
        let found = self.inventory.clusters.iter().find(|(name, _)| name.as_str() == id.cluster());
        found.is_some_and(|(_, c)| answers(c) && (c.empty_is_true || self.seen.contains(id.cluster())))
    }

    /// It answers and shows nothing, and nobody can vouch for that.
    pub(crate) fn is_suspiciously_empty(&self, cluster: &str, seen: &ObservedCluster) -> bool {
        !seen.empty_is_true && !self.seen.contains(cluster)
    }
}

impl Pass<'_> {
    /// Closes the reservations of nodes that are gone, so that a lock never outlives what it locks.
    pub(crate) fn close_gone_nodes(&mut self) {
        let gone = std::mem::take(&mut self.frame.gone);
        for (id, record) in &gone {
            self.note_gone(id, record);
            self.changes.push(LedgerChange::ForgetNode((*id).clone()));
        }
        self.frame.gone = gone;
    }

    /// Its rollout says what became of it: it counts there for nothing any more.
    fn note_gone(&mut self, id: &NodeId, record: &NodeRecord) {
        let Some(part) = record.assignment.as_ref().filter(|a| a.outcome.is_none()) else { return };
        let in_git = self.input.fleet.clusters.keys().any(|name| name.as_str() == id.cluster());
        let why = if in_git { "it doesn't exist any more" } else { "its cluster is gone from Git" };
        self.log(&part.rollout, RolloutEvent::Skipped { node: id.clone(), why: why.to_owned() });
    }
}
