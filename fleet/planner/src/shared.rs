//! What a cluster has once, such as a scheduler: it travels with one node.
//!
//! The first node of a cluster that needs another version of it *carries* it: it applies it like anything else of its
//! release, and takes it back if it turns back. While it does, nobody of that cluster begins who would rely on it; after
//! that, the others run it already. On a visit, and on the way back, it is the business of the carrier alone, so that
//! two nodes never pull it to two sides.

use std::{collections::BTreeMap, rc::Rc};

use drydock_plan::{ApplyItem, Course, NodeOutcome, Reason, RolloutId, SkipReason, Target};
use drydock_spec::ComponentName;

use crate::{pass::Pass, units::Unit};

/// Positions of carriers, by cluster and component.
pub(crate) type Carriers = BTreeMap<(usize, ComponentName), usize>;

impl Pass<'_> {
    /// The name of an item that the cluster has once.
    pub(crate) fn shared_name<'i>(&self, item: &'i ApplyItem) -> Option<&'i ComponentName> {
        match item {
            ApplyItem::Component(name) if self.shared.contains(name) => Some(name),
            ApplyItem::Component(_) | ApplyItem::Layout => None,
        }
    }

    /// What is to be done to get a node to a target: on a visit and on the way back only what is its own to change,
    /// otherwise every difference. Empty means it is there.
    pub(crate) fn needs(&self, i: usize, target: &Target) -> Rc<[ApplyItem]> {
        if self.rec(i).visit.is_some() || self.is_taken_back(i) {
            self.own_needs(i, target)
        } else {
            self.differences(i, target)
        }
    }

    /// What the node itself has to change: of what the cluster has once only what it carries.
    pub(crate) fn own_needs(&self, i: usize, target: &Target) -> Rc<[ApplyItem]> {
        let all = self.differences(i, target);
        if !all.iter().any(|item| self.shared_name(item).is_some()) {
            return all;
        }
        let own =
            |item: &&ApplyItem| self.shared_name(item).is_none_or(|name| self.carries(i).contains(name));
        all.iter().filter(own).cloned().collect()
    }

    fn carries(&self, i: usize) -> &[ComponentName] {
        self.rec(i).assignment.as_ref().map_or(&[], |a| &a.carries)
    }

    /// A rollout that drydock made takes it back.
    fn is_taken_back(&self, i: usize) -> bool {
        let Some(a) = &self.rec(i).assignment else { return false };
        self.rollout(&a.rollout).is_some_and(|r| r.kind.is_automatic())
    }

    /// A node that is about to be reserved takes up what its cluster needs and nobody else carries. On a way back it
    /// carries what it carried there, and nothing else.
    pub(crate) fn take_up(&mut self, i: usize, to: &Target) {
        if self.shared.is_empty() || self.rec(i).assignment.is_none() {
            return;
        }
        let mut carries = self.carries(i).to_vec();
        if !self.is_taken_back(i) {
            carries.extend(self.differences(i, to).iter().filter_map(|item| self.shared_name(item)).cloned());
        }
        let cluster = self.frame.nodes[i].cluster;
        carries.retain(|name| self.carrier(cluster, name).is_none_or(|j| j == i));
        carries.sort_unstable();
        carries.dedup();
        if carries != self.carries(i) {
            if let Some(a) = &mut self.edit(i).assignment {
                a.carries = carries;
            }
            self.forget_carriers();
        }
    }

    /// Before its turn: what it carried on an earlier visit is over, unless it is to be taken back.
    pub(crate) fn lay_down(&mut self, i: usize) {
        if !self.carries(i).is_empty()
            && !self.is_taken_back(i)
            && let Some(a) = &mut self.edit(i).assignment
        {
            a.carries.clear();
        }
    }

    /// The node of a cluster on whose visit this component changes, or may go back.
    fn carrier(&self, cluster: usize, name: &ComponentName) -> Option<usize> {
        let mut known = self.carriers.borrow_mut();
        let carriers = known.get_or_insert_with(|| self.find_carriers());
        // Mostly nobody carries anything.
        if carriers.is_empty() { None } else { carriers.get(&(cluster, name.clone())).copied() }
    }

    fn find_carriers(&self) -> Carriers {
        let mut carriers = Carriers::new();
        for (i, node) in self.frame.nodes.iter().enumerate() {
            let busy = self.rec(i).visit.as_ref().is_some_and(|v| !matches!(v.course, Course::Out(_)));
            for name in self.carries(i).iter().filter(|_| busy) {
                carriers.entry((node.cluster, name.clone())).or_insert(i);
            }
        }
        carriers
    }

    /// Why nobody of a unit may begin: another node of its cluster changes what it relies on.
    pub(crate) fn shared_reason(&self, unit: &Unit) -> Option<Reason> {
        let reason = |&i: &usize| {
            let target = self.rec(i).assignment.as_ref().map(|a| &a.target)?;
            self.in_transit(i, target, &unit.nodes)
        };
        unit.nodes.iter().find_map(reason)
    }

    /// Something of a target that the cluster has once, and that a node outside `unit` carries just now.
    pub(crate) fn in_transit(&self, i: usize, target: &Target, unit: &[usize]) -> Option<Reason> {
        if self.shared.is_empty() {
            return None;
        }
        let cluster = self.frame.nodes[i].cluster;
        let held = |name: &ComponentName| {
            let by = self.carrier(cluster, name).filter(|j| *j != i && !unit.contains(j))?;
            let held_by = self.frame.nodes[by].id.clone();
            Some(Reason::ClusterComponent { component: name.clone(), held_by })
        };
        if self.is_taken_back(i) {
            return self.carries(i).iter().find_map(held);
        }
        let vector = self.vector(&target.release)?;
        self.shared.iter().filter(|name| vector.0.contains_key(**name)).find_map(|name| held(name))
    }

    /// At the good end of a rollout: nodes that had nothing of their own to change run its target since one of their
    /// cluster brought it. It has soaked there, and the rest of it they were good on before.
    pub(crate) fn good_along(&mut self, id: &RolloutId) {
        if self.shared.is_empty() {
            return;
        }
        for i in 0..self.frame.nodes.len() {
            let Some(a) = self.rec(i).assignment.as_ref().filter(|a| a.rollout == *id) else { continue };
            if a.outcome != Some(NodeOutcome::Skipped(SkipReason::AlreadyThere)) {
                continue;
            }
            let target = a.target.clone();
            if self.came_along(i, &target) {
                let record = self.edit(i);
                record.previous_good = record.last_known_good.replace(target);
            }
        }
    }

    fn came_along(&self, i: usize, target: &Target) -> bool {
        let obs = self.frame.nodes[i].obs;
        let Some(good) = &self.rec(i).last_known_good else { return false };
        let (Some(before), Some(after)) = (self.vector(&good.release), self.vector(&target.release)) else {
            return false;
        };
        good != target
            && good.layout == target.layout
            && before.changes(after).iter().all(|change| self.shared.contains(change.component))
            && self.differences(i, target).is_empty()
            && obs.ready
            && obs.faults.is_empty()
    }
}
