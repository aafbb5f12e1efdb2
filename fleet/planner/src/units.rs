//! Units: nodes that move together. An atomic domain, else the gang that runs now, else the node alone.

use std::collections::BTreeMap;

use drydock_plan::{GangId, NodeId, RolloutId, UnitId};
use drydock_spec::{DomainKey, Gangs, PolicySpec};

use crate::{domain::Domain, pass::Pass};

/// Nodes that are to move together.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub id: UnitId,
    /// Positions of its nodes, ascending.
    pub nodes: Vec<usize>,
    /// It is an atomic domain.
    pub atomic: bool,
    /// Gangs on its nodes.
    pub gangs: Vec<GangId>,
}

/// Union-find over places in a list.
struct Sets(Vec<usize>);

impl Sets {
    fn root(&mut self, mut i: usize) -> usize {
        while self.0[i] != i {
            self.0[i] = self.0[self.0[i]];
            i = self.0[i];
        }
        i
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

impl Pass<'_> {
    /// Groups nodes of one wave that haven't begun into units. Nodes that can't go for reasons of their own (not
    /// ready, cordoned by others) are left out by the caller, so that they don't hold the rest of their domain.
    pub(crate) fn units(&self, pending: &[usize], strategy: &PolicySpec) -> Vec<Unit> {
        let mut sets = Sets((0..pending.len()).collect());
        let mut domains: BTreeMap<(DomainKey, Domain<'_>), usize> = BTreeMap::new();
        for (at, &i) in pending.iter().enumerate() {
            for key in &strategy.atomic {
                if let Some(domain) = self.frame.domain(i, *key) {
                    let first = *domains.entry((*key, domain)).or_insert(at);
                    sets.join(first, at);
                }
            }
        }
        let mut gangs: BTreeMap<&GangId, usize> = BTreeMap::new();
        if strategy.drain.gangs == Gangs::Together {
            for (at, &i) in pending.iter().enumerate() {
                for gang in &self.frame.nodes[i].obs.work.gangs {
                    let first = *gangs.entry(gang).or_insert(at);
                    sets.join(first, at);
                }
            }
        }
        let mut grouped: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, &i) in pending.iter().enumerate() {
            grouped.entry(sets.root(at)).or_default().push(i);
        }
        grouped.into_values().map(|nodes| self.unit(nodes, strategy)).collect()
    }

    fn unit(&self, nodes: Vec<usize>, strategy: &PolicySpec) -> Unit {
        let first = &self.frame.nodes[nodes[0]];
        let domain =
            strategy.atomic.iter().find_map(|key| Some((*key, self.frame.domain(nodes[0], *key)?.name)));
        let mut gangs: Vec<GangId> =
            nodes.iter().flat_map(|&i| self.frame.nodes[i].obs.work.gangs.iter().cloned()).collect();
        gangs.sort_unstable();
        gangs.dedup();
        let id = match (domain, nodes.len(), gangs.first()) {
            (Some((key, domain)), _, _) => format!("{}/{}/{domain}", first.id.cluster(), key.as_str()),
            (None, 1, _) | (None, _, None) => first.id.to_string(),
            (None, _, Some(gang)) => format!("gang/{gang}"),
        };
        Unit { id: UnitId::new(&id), atomic: domain.is_some(), nodes, gangs }
    }

    /// Nodes of the same unit that are still on their way in the same rollout, `i` included.
    pub(crate) fn unit_members(&self, visiting: &[usize], rollout: &RolloutId, unit: &UnitId) -> Vec<usize> {
        let same =
            |i: &usize| self.rec(*i).visit.as_ref().is_some_and(|v| v.rollout == *rollout && v.unit == *unit);
        visiting.iter().copied().filter(same).collect()
    }

    /// Nodes of a gang that aren't among these.
    pub(crate) fn gang_outside(&self, gang: &GangId, nodes: &[usize]) -> Vec<NodeId> {
        let inside = |id: &NodeId| nodes.iter().any(|&i| self.frame.nodes[i].id == id);
        let Some(observed) = self.input.inventory.gangs.get(gang) else { return Vec::new() };
        observed.nodes.iter().filter(|id| !inside(id)).cloned().collect()
    }
}
