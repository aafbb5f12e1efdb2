//! What happens to machines: they blink, lose their power, fail together with their rack, join; and others who undo
//! what drydock has installed.

use drydock_plan::NodeId;
use drydock_spec::{ClusterName, ComponentName, ComponentVersion, Period};
use jiff::Timestamp;

use crate::{
    DomainPlace, FaultSpec, World, duration, health,
    node::{Activity, Down, NodeState},
    oracle::Tally,
    script::Happening,
};

impl World {
    /// The kubelet is silent for a while; what runs goes on running.
    pub(crate) fn blink(&mut self, id: &NodeId, down: Period) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id).filter(|node| node.present && node.down.is_none()) else {
            return;
        };
        if matches!(node.activity, Activity::Reboot { .. }) {
            return;
        }
        node.ready = false;
        node.ready_since = now;
        node.down = Some(Down { back: Some(down.after(now)), awake: true });
        self.say(format!("{id}: not ready"));
        self.touch(id);
    }
    /// The same because of what runs on the node, as long as it does.
    pub(crate) fn version_flap(&mut self, id: &NodeId, every: Period, left: u32) {
        let Some(node) = self.nodes.get(id) else { return };
        let Some(down) = health::flaps(&self.ground, id, node).filter(|_| left > 0) else { return };
        self.blink(id, down);
        let next = every.max(Period::from_secs(1)).after(self.now);
        self.at(next, Happening::VersionFlap { node: id.clone(), every, left: left - 1 });
    }
    /// The node boots, and its hardware begins anew. What wedges it does so again, where it still runs.
    pub(crate) fn power_cycle(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get(id).filter(|node| node.present) else { return };
        let again = health::wedges(&self.ground, id, node);
        let back = duration::reboot(&self.ground, id, node.boot_id).after(self.now);
        if let Some(node) = self.nodes.get_mut(id) {
            node.wedged = again;
        }
        self.say(format!("{id}: somebody cuts its power"));
        self.lose(id, Some(back));
    }
    /// All machines of a domain fail at once.
    pub(crate) fn fail_domain(
        &mut self,
        cluster: &ClusterName,
        domain: &DomainPlace,
        kind: Option<&str>,
        back: Option<Timestamp>,
    ) {
        let stands = |node: &NodeState| {
            let name = node.domains.get(domain.key.index()).and_then(Option::as_deref);
            name.is_some_and(|name| domain.value.matches(name))
        };
        let ids: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(id, node)| id.cluster() == cluster.as_str() && stands(node))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            match kind {
                None => self.lose(&id, back),
                Some(kind) => {
                    self.break_node(&id, kind);
                    if let Some(back) = back {
                        self.at(back, Happening::Repair { node: id, kind: kind.to_owned() });
                    }
                }
            }
        }
    }
    /// A machine of the same kind joins.
    pub(crate) fn join(&mut self, id: &NodeId, like: &NodeId) {
        let Some(twin) = self.nodes.get(like).filter(|_| !self.nodes.contains_key(id)) else { return };
        let mut node = twin.clone();
        node.stash = match self.inventory.nodes.get(like) {
            Some(seen) => seen.labels.clone(),
            None => twin.stash.clone(),
        };
        (node.gang, node.tally, node.relabel) = (None, Tally::default(), Vec::new());
        (node.next_fault, node.fault_number, node.writes) = (None, 0, 0);
        self.nodes.insert(id.clone(), node);
        self.say(format!("{id}: joins"));
        self.recreate(id);
    }
    /// Others have their own opinion of what was just installed, and it has side effects.
    pub(crate) fn meddle(
        &mut self,
        id: &NodeId,
        component: &ComponentName,
        installed: Option<&ComponentVersion>,
    ) {
        let now = self.now;
        let Some(node) = self.nodes.get(id) else { return };
        let (mut unset, mut edits) = (false, Vec::new());
        for fault in &self.ground.faults {
            match fault {
                FaultSpec::LayoutLost { component: of, place } if of == component => {
                    unset |= self.ground.holds(place, id, node);
                }
                FaultSpec::Rewrites { component: of, version, after, place, until }
                    if of == component
                        && installed.is_none_or(|i| i.version != *version)
                        && until.is_none_or(|until| now < until)
                        && self.ground.holds(place, id, node) =>
                {
                    edits.push((after.after(now), version.clone()));
                }
                _ => {}
            }
        }
        if unset && let Some(node) = self.nodes.get_mut(id) {
            node.layout = None;
        }
        for (at, version) in edits {
            let (node, component) = (id.clone(), component.clone());
            self.at(at, Happening::HandEdit { node, component, version: Some(version) });
        }
    }
}
