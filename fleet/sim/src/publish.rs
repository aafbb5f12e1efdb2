//! What readers see of the fleet, and when: as it happens, in lumps, or not at all.

use std::collections::BTreeSet;

use drydock_plan::{Inventory, NodeId};
use drydock_spec::{ClusterName, Period};
use jiff::Timestamp;

use crate::{FaultSpec, World, lies};

/// How a cluster can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Fresh,
    Lags(Period),
    Unreachable,
    /// Nothing has come from it yet.
    Absent,
}

impl World {
    /// Nothing can be read from or written to the cluster.
    pub(crate) fn unreachable(&self, cluster: &str) -> bool {
        matches!(self.view(cluster), View::Unreachable | View::Absent)
    }
    fn view(&self, cluster: &str) -> View {
        let within = |at: Timestamp, length: Period| at <= self.now && self.now < length.after(at);
        let mut view = View::Fresh;
        if lies::is_absent(&self.ground, cluster, self.now) {
            return View::Absent;
        }
        for fault in &self.ground.faults {
            match fault {
                FaultSpec::ClusterUnreachable { cluster: c, at, length }
                    if c.as_str() == cluster && within(*at, *length) =>
                {
                    return View::Unreachable;
                }
                FaultSpec::StaleReads { cluster: c, at, length, lag }
                    if c.as_ref().is_none_or(|c| c.as_str() == cluster) && within(*at, *length) =>
                {
                    view = View::Lags(*lag);
                }
                _ => {}
            }
        }
        view
    }
    /// Shows readers what they may see by now.
    pub(crate) fn publish(&mut self) {
        let open = self.open_clusters();
        if !self.unseen.is_empty() {
            self.publish_nodes(open.as_ref());
        }
        if !self.unseen_gangs.is_empty() {
            self.publish_gangs(open.as_ref());
        }
    }
    /// Clusters that are read just now; absent means all of them, which is so nearly always.
    fn open_clusters(&mut self) -> Option<BTreeSet<ClusterName>> {
        let outage = |fault: &FaultSpec| {
            matches!(
                fault,
                FaultSpec::ClusterUnreachable { .. }
                    | FaultSpec::StaleReads { .. }
                    | FaultSpec::FactsAbsent { .. }
            )
        };
        if !self.ground.faults.iter().any(outage) {
            self.inventory.clusters.values_mut().for_each(|cluster| cluster.seen_at = self.now);
            return None;
        }
        let mut open: BTreeSet<ClusterName> = BTreeSet::new();
        let names: Vec<ClusterName> = self.inventory.clusters.keys().cloned().collect();
        for name in names {
            let view = self.view(name.as_str());
            let Some(cluster) = self.inventory.clusters.get_mut(&name) else { continue };
            cluster.error = match view {
                View::Unreachable => Some("dial tcp: i/o timeout".to_owned()),
                View::Absent => Some("not connected yet".to_owned()),
                View::Fresh | View::Lags(_) => None,
            };
            let reads = match view {
                View::Fresh => true,
                View::Lags(lag) => lag.after(cluster.seen_at) <= self.now,
                View::Unreachable | View::Absent => false,
            };
            if reads {
                cluster.seen_at = self.now;
                open.insert(name);
            }
        }
        Some(open)
    }
    fn publish_nodes(&mut self, open: Option<&BTreeSet<ClusterName>>) {
        let now = self.now;
        for id in std::mem::take(&mut self.unseen) {
            let unlisted = lies::unlisted(&self.ground, &id, now);
            if unlisted || open.is_some_and(|open| !open.contains(id.cluster())) {
                self.unseen.insert(id);
                continue;
            }
            // What readers see is written down as well.
            self.changed.insert(id.clone());
            self.perhaps_look_back(&id);
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            if !node.present {
                if let Some(seen) = self.inventory.nodes.remove(&id) {
                    node.stash = seen.labels;
                }
                // Readers were told of the deletion, so a cluster that has none left by that says so with reason.
                let left = self.inventory.nodes.keys().any(|other| other.cluster() == id.cluster());
                believe_empty(&mut self.inventory, &id, !left);
                continue;
            }
            let mut assign = !node.relabel.is_empty();
            if !self.inventory.nodes.contains_key(&id) {
                let labels = std::mem::take(&mut node.stash);
                let seen = node.first_look(&self.ground, labels, now);
                self.inventory.nodes.insert(id.clone(), seen);
                believe_empty(&mut self.inventory, &id, false);
                assign = true;
            }
            if let Some(seen) = self.inventory.nodes.get_mut(&id) {
                for (label, value) in node.relabel.drain(..) {
                    match value {
                        Some(value) => seen.labels.insert(label, value),
                        None => seen.labels.remove(&label),
                    };
                }
                node.show(&self.ground, seen, now);
            }
            if assign {
                self.assign_one(&id);
            }
        }
    }
    /// Membership of a single node, by the one rule that there is.
    fn assign_one(&mut self, id: &NodeId) {
        let mut alone = Inventory::default();
        if let Some(node) = self.inventory.nodes.remove(id) {
            alone.nodes.insert(id.clone(), node);
            alone.assign_pools(&self.fleet);
            self.inventory.nodes.extend(alone.nodes);
        }
    }
    fn publish_gangs(&mut self, open: Option<&BTreeSet<ClusterName>>) {
        for slot in std::mem::take(&mut self.unseen_gangs) {
            let Some(gang) = self.gangs.get_mut(&slot) else { continue };
            let cluster = self.ground.pools.get(&gang.pool).map(|hardware| &hardware.cluster);
            if cluster.is_none_or(|cluster| open.is_some_and(|open| !open.contains(cluster))) {
                self.unseen_gangs.insert(slot);
                continue;
            }
            self.changed_gangs.insert(slot);
            if cluster.is_some_and(|cluster| lies::hides_gangs(&self.ground, cluster.as_str(), self.now)) {
                if let Some((_, old)) = gang.shown.take() {
                    self.inventory.gangs.remove(&old);
                }
                self.unseen_gangs.insert(slot);
                continue;
            }
            let running = gang.running();
            // Most news of a job is that it has written a checkpoint.
            let known = gang.shown.as_ref().filter(|(run, _)| *run == gang.run);
            if let Some((running, seen)) =
                running.zip(known.and_then(|(_, id)| self.inventory.gangs.get_mut(id)))
            {
                seen.last_checkpoint = running.last_checkpoint;
                seen.expected_end = Some(running.ends);
                if seen.nodes != running.nodes {
                    seen.nodes.clone_from(&running.nodes);
                }
                continue;
            }
            let shown = gang.show().map(|seen| (gang.id(slot), seen));
            if let Some((_, old)) = gang.shown.take() {
                self.inventory.gangs.remove(&old);
            }
            if let Some((id, seen)) = shown {
                gang.shown = Some((gang.run, id.clone()));
                self.inventory.gangs.insert(id, seen);
            }
        }
    }
}

/// Whether an empty list of the cluster of this node is to be believed.
fn believe_empty(inventory: &mut Inventory, id: &NodeId, believe: bool) {
    let named = inventory.clusters.iter_mut().find(|(name, _)| name.as_str() == id.cluster());
    if let Some((_, cluster)) = named {
        cluster.empty_is_true = believe;
    }
}
