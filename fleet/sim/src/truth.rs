//! What is true at an instant, for whoever judges from outside: the fleet knows which version is bad for which node.

use drydock_plan::{NodeId, Target};
use drydock_spec::{ComponentName, Fleet, PoolName, ReleaseVector, Version, layout_id};
use jiff::Timestamp;

use crate::{FaultSpec, How, Place, Tally, World, health, node::NodeState};

/// A node runs something that is bad for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Harm<'w> {
    /// The node.
    pub node: &'w NodeId,
    /// What is bad, and where.
    pub fault: &'w FaultSpec,
    /// In which way.
    pub how: &'w How,
    /// It was put there since the beginning, and not by hand.
    pub brought: bool,
    /// Pods may come to the node.
    pub serves: bool,
}

impl World {
    /// Every node that runs something bad now, and how.
    #[must_use]
    pub fn harms(&self) -> Vec<Harm<'_>> {
        let mut harms = Vec::new();
        for (id, node) in self.nodes.iter().filter(|(_, node)| node.present) {
            for fault in &self.ground.faults {
                let (how, brought) = match fault {
                    FaultSpec::BadVersion { component, version, place, how }
                        if node.running.vector.get(component).is_some_and(|v| v.version == *version)
                            && self.ground.holds(place, id, node) =>
                    {
                        (how, given(&node.tally, component, version))
                    }
                    FaultSpec::BadLayout { layout, place, how }
                        if node.layout.as_ref().and_then(|l| self.ground.layouts.get(l)) == Some(layout)
                            && self.ground.holds(place, id, node) =>
                    {
                        (how, node.layout != node.image_layout)
                    }
                    _ => continue,
                };
                harms.push(Harm { node: id, fault, how, brought, serves: node.schedulable() });
            }
        }
        harms
    }
    /// Nothing is wrong with the machine itself: it is there, ready, nobody has cordoned it, it has no fault and what
    /// runs on it is good.
    #[must_use]
    pub fn is_well(&self, id: &NodeId) -> bool {
        self.nodes.get(id).is_some_and(|node| {
            node.present
                && node.ready
                && node.cordon.foreign.is_none()
                && node.faults.is_empty()
                && node.wedged.is_none()
                && health::bad_versions(&self.ground, id, node).next().is_none()
        })
    }
    /// Nodes that exist, with the pool they were made for.
    pub fn machines(&self) -> impl Iterator<Item = (&NodeId, &PoolName)> {
        self.nodes.iter().filter(|(_, node)| node.present).map(|(id, node)| (id, &node.pool))
    }
    /// Nodes that keep a cordon of drydock's own.
    pub fn cordoned(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().filter(|(_, n)| n.present && n.cordon.own.is_some()).map(|(id, _)| id)
    }
    /// What was done to a node.
    #[must_use]
    pub fn tally(&self, id: &NodeId) -> Option<&Tally> {
        self.nodes.get(id).map(|node| &node.tally)
    }
    /// Nodes to which a version was given since an instant.
    #[must_use]
    pub fn given(&self, component: &ComponentName, version: &Version, since: Timestamp) -> Vec<&NodeId> {
        let applied = |node: &NodeState| {
            let mut all = node.tally.applied.iter();
            all.any(|a| a.at >= since && a.component == *component && a.version == *version)
        };
        self.nodes.iter().filter(|(_, node)| applied(node)).map(|(id, _)| id).collect()
    }
    /// A node stands where a fault holds.
    #[must_use]
    pub fn is_at(&self, id: &NodeId, place: &Place) -> bool {
        self.nodes.get(id).is_some_and(|node| self.ground.holds(place, id, node))
    }
    /// A node runs all of a release, in this layout where one is named.
    #[must_use]
    pub fn runs(&self, id: &NodeId, wanted: &ReleaseVector, target: &Target) -> bool {
        self.nodes.get(id).is_some_and(|node| {
            self.ground.has_all(&node.running.vector, wanted)
                && target.layout.as_ref().is_none_or(|layout| node.layout.as_ref() == Some(layout))
        })
    }
    /// A node runs what the documents want of the pool it was made for.
    #[must_use]
    pub fn runs_target(&self, fleet: &Fleet, id: &NodeId) -> bool {
        let Some(node) = self.nodes.get(id) else { return false };
        let Some(pool) = fleet.pools.get(&node.pool) else { return false };
        let Some(release) = fleet.releases.get(&pool.release) else { return false };
        let layout = pool.layout.as_ref().and_then(|l| fleet.layouts.get(l)).map(|l| layout_id(l));
        self.ground.has_all(&node.running.vector, &release.vector())
            && layout.is_none_or(|layout| node.layout.as_ref() == Some(&layout))
    }
}

fn given(tally: &Tally, component: &ComponentName, version: &Version) -> bool {
    tally.applied.iter().any(|a| a.component == *component && a.version == *version)
}
