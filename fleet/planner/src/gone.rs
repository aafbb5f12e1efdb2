//! Nodes that don't exist any more.

use drydock_plan::{LedgerChange, NodeId};

use crate::pass::Pass;

impl Pass<'_> {
    /// Closes the reservations of nodes that are gone, so that a lock never outlives what it locks. Absence counts
    /// only where the cluster answers and still has other nodes: an empty or failed list is an error, never "gone".
    pub(crate) fn close_gone_nodes(&mut self) {
        let absent: Vec<NodeId> = self.frame.absent.iter().map(|(id, _)| (*id).clone()).collect();
        for id in absent {
            let answers = self.frame.clusters.iter().enumerate().find(|(_, c)| c.name == id.cluster());
            let Some((at, cluster)) = answers else { continue };
            let has_others = self.frame.nodes.iter().any(|n| n.cluster == at);
            if cluster.stale.is_none() && has_others {
                self.changes.push(LedgerChange::ForgetNode(id));
            }
        }
    }
}
