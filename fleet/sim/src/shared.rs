//! What a cluster has once: a change of it is a change on all its nodes at the same instant.

use std::collections::BTreeMap;

use drydock_plan::NodeId;
use drydock_spec::{ComponentName, ComponentVersion};

use crate::World;

impl World {
    /// From now on a component runs in this version on the node, or on all nodes of its cluster.
    pub(crate) fn set_component(
        &mut self,
        id: &NodeId,
        component: &ComponentName,
        version: Option<&ComponentVersion>,
    ) {
        if !self.ground.is_shared(component) {
            if let Some(node) = self.nodes.get_mut(id) {
                node.running = self.stacks.with(&node.running, component, version);
            }
            return;
        }
        let all: Vec<NodeId> =
            self.nodes.keys().filter(|other| other.cluster() == id.cluster()).cloned().collect();
        for other in all {
            if let Some(node) = self.nodes.get_mut(&other) {
                node.running = self.stacks.with(&node.running, component, version);
            }
            if other != *id {
                self.forget_version_faults(&other);
                self.touch(&other);
            }
        }
    }

    /// What the cluster of a node has once, as another of its nodes knows it. A new machine finds it there.
    pub(crate) fn find_shared(&mut self, id: &NodeId) {
        let other = self.nodes.iter().find(|(other, _)| *other != id && other.cluster() == id.cluster());
        let Some(parts) = other.map(|(_, node)| node.running.vector.0.clone()) else { return };
        let Some(node) = self.nodes.get_mut(id) else { return };
        let known = node.running.vector.0.keys().chain(parts.keys()).cloned().collect::<Vec<_>>();
        for name in known.iter().filter(|name| self.ground.is_shared(name)) {
            node.running = self.stacks.with(&node.running, name, parts.get(name));
        }
    }

    /// In the beginning every cluster has one version of what it has once: that of its first pool that names one.
    pub(crate) fn found_shared(&mut self) {
        let mut first: BTreeMap<String, BTreeMap<ComponentName, ComponentVersion>> = BTreeMap::new();
        for (id, node) in &self.nodes {
            let of = first.entry(id.cluster().to_owned()).or_default();
            for (name, version) in node.running.vector.0.iter().filter(|(n, _)| self.ground.is_shared(n)) {
                of.entry(name.clone()).or_insert_with(|| version.clone());
            }
        }
        for (id, node) in &mut self.nodes {
            for (name, version) in first.get(id.cluster()).into_iter().flatten() {
                if node.running.vector.get(name) != Some(version) {
                    node.running = self.stacks.with(&node.running, name, Some(version));
                }
            }
            node.image.clone_from(&node.running);
        }
    }
}
