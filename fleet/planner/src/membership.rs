//! Which wave a node belongs to: when a rollout begins, and when it joins late.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Reason, RolloutId, RolloutRecord, Target};
use drydock_spec::{Cover, DomainKey, ForeignCordon, Pick, PolicySpec, PoolName};

use crate::{order::hash, pass::Pass};

/// What speaks against taking a node into a sample; the less the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Drawback {
    /// It can't go now: it isn't ready or not seen, somebody else holds it, it is ill, or it is to be left out.
    pub cannot_go: bool,
    /// Nothing was changed on it. One in the middle of an older release can't serve before it is checked anyway.
    unchanged: bool,
    /// It would have to be emptied first.
    not_empty: bool,
    /// A job that spans nodes runs there and has to be waited for.
    in_gang: bool,
}

impl Pass<'_> {
    /// What speaks against a node as one of a sample.
    pub(crate) fn drawback(&self, i: usize, foreign: ForeignCordon) -> Drawback {
        let (obs, record) = (self.frame.nodes[i].obs, self.rec(i));
        let held = foreign == ForeignCordon::Wait && obs.cordon.foreign.is_some();
        let cannot_go = !obs.ready
            || held
            || !obs.faults.is_empty()
            || record.quarantine.is_some()
            || record.not_before.is_some_and(|at| at > self.now())
            || self.frame.stale(i).is_some()
            || self.skip_is_asked(i).is_some();
        let visit = record.visit.as_ref();
        Drawback {
            cannot_go,
            unchanged: !visit.is_some_and(|v| v.changed),
            not_empty: !visit.is_some_and(|v| v.drained),
            in_gang: !obs.work.gangs.is_empty(),
        }
    }

    /// The wave of each node; `None` where no wave selects it.
    pub(crate) fn wave_of(
        &self,
        nodes: &[usize],
        strategy: &PolicySpec,
        targets: &BTreeMap<PoolName, Target>,
    ) -> Vec<Option<u16>> {
        let mut waves = vec![None; nodes.len()];
        for (w, wave) in strategy.waves.iter().enumerate() {
            let number = u16::try_from(w).ok();
            let mut open: Vec<usize> = (0..nodes.len())
                .filter(|&n| waves[n].is_none())
                .filter(|&n| {
                    let pool = self.frame.nodes[nodes[n]].pool.and_then(|p| self.frame.pools.get(p));
                    pool.is_some_and(|p| wave.select.selects(self.input.fleet, p.name, p.spec))
                })
                .collect();
            if let Some(pick) = &wave.pick {
                let salt = targets.values().next().map_or(String::new(), ToString::to_string);
                open = self.pick(&open, nodes, pick, &salt, strategy);
            }
            for n in open {
                waves[n] = number;
            }
        }
        waves
    }

    /// A sample that covers each combination before it takes a second of any; rotated by the release. Nodes that can go
    /// are preferred: a sample of nodes that can't proves nothing. What must move together is taken together, so it may
    /// be larger than asked by a part of a domain.
    fn pick(
        &self,
        open: &[usize],
        nodes: &[usize],
        pick: &Pick,
        salt: &str,
        strategy: &PolicySpec,
    ) -> Vec<usize> {
        let atomic = &strategy.atomic;
        let drawback = |n: usize| self.drawback(nodes[n], strategy.foreign_cordon);
        let mut order = open.to_vec();
        order.sort_by_cached_key(|&n| (drawback(n), hash(salt, self.frame.nodes[nodes[n]].id.as_str())));
        let mut seen: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        let mut ranked: Vec<(bool, u32, usize, usize)> = order
            .into_iter()
            .enumerate()
            .map(|(rank, n)| {
                let count = seen.entry(self.combination(nodes[n], &pick.cover)).or_default();
                *count += 1;
                (drawback(n).cannot_go, *count, rank, n)
            })
            .collect();
        ranked.sort_unstable();
        let mut taken = BTreeSet::new();
        for (_, _, _, n) in ranked {
            if taken.len() >= pick.count as usize {
                break;
            }
            let mut reached = vec![n];
            while let Some(n) = reached.pop() {
                if taken.insert(n) {
                    let mate = |&&m: &&usize| self.move_together(nodes[n], nodes[m], atomic);
                    reached.extend(open.iter().filter(|_| !atomic.is_empty()).filter(mate));
                }
            }
        }
        taken.into_iter().collect()
    }

    /// Both are in one domain that has to move as a whole.
    pub(crate) fn move_together(&self, i: usize, j: usize, atomic: &[DomainKey]) -> bool {
        atomic.iter().any(|&k| {
            let domain = self.frame.domain(i, k);
            domain.is_some() && domain == self.frame.domain(j, k)
        })
    }

    pub(crate) fn combination(&self, i: usize, cover: &[Cover]) -> Vec<String> {
        let node = &self.frame.nodes[i];
        let pool = node.pool.and_then(|p| self.frame.pools.get(p));
        cover
            .iter()
            .map(|c| match c {
                Cover::GpuModel => pool.map(|p| p.spec.gpu.model.clone()).unwrap_or_default(),
                Cover::Kernel => node.obs.kernel.to_string(),
                Cover::Cluster => node.id.cluster().to_owned(),
                Cover::Pool => pool.map(|p| p.name.to_string()).unwrap_or_default(),
                Cover::Layout => {
                    pool.and_then(|p| p.spec.layout.as_ref()).map(ToString::to_string).unwrap_or_default()
                }
            })
            .collect()
    }

    /// Nodes that came late join the wave they match, if it isn't over, else the last. Only such as head for what the
    /// rollout is about: failures of anything else would be nobody's. The others wait for a rollout of their own.
    pub(crate) fn join_rollout(&mut self, id: &RolloutId, nodes: &[usize]) {
        let Some(rollout) = self.rollout(id).cloned() else { return };
        let (nodes, others): (Vec<usize>, Vec<usize>) =
            nodes.iter().copied().partition(|&i| self.is_about(&rollout, i));
        if let Some(&first) = others.first() {
            let count = u32::try_from(others.len()).unwrap_or(u32::MAX);
            let example = Some(self.frame.nodes[first].id.clone());
            self.wait_many((None, 0), Reason::HeldBy { rollout: id.clone() }, count, example);
        }
        let pools: Vec<(PoolName, Target)> = nodes
            .iter()
            .filter_map(|&i| self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)))
            .filter(|pool| !rollout.targets.contains_key(pool.name))
            .map(|pool| (pool.name.clone(), pool.target.clone()))
            .collect();
        if let Some(record) = self.edit_rollout(id).filter(|_| !pools.is_empty()) {
            record.targets.extend(pools);
        }
        let last = u16::try_from(rollout.waves.len().saturating_sub(1)).unwrap_or(0);
        let mut strategy = (*rollout.strategy).clone();
        // A sample was taken when the rollout began; latecomers aren't part of it.
        for wave in &mut strategy.waves {
            if wave.pick.is_some() {
                wave.pick = Some(Pick { count: 0, cover: Vec::new() });
            }
        }
        let waves = self.wave_of(&nodes, &strategy, &rollout.targets);
        for (&i, wave) in nodes.iter().zip(waves) {
            let over = |w: u16| rollout.waves.get(usize::from(w)).is_none_or(|w| w.ended.is_some());
            let wave = self.wave_of_domain(i, id, &strategy.atomic).or(wave).filter(|w| !over(*w));
            self.assign(i, id, wave.unwrap_or(last));
        }
    }

    /// What Git wants of the node is what the rollout brings: to its pool, or to another one the very same.
    fn is_about(&self, rollout: &RolloutRecord, i: usize) -> bool {
        let Some(pool) = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p)) else { return false };
        match rollout.targets.get(pool.name) {
            Some(target) => *target == pool.target,
            None => rollout.targets.values().any(|target| *target == pool.target),
        }
    }

    /// The wave in which the rest of a node's atomic domain has its turn: given back, they go on together.
    fn wave_of_domain(&self, i: usize, id: &RolloutId, atomic: &[DomainKey]) -> Option<u16> {
        if atomic.is_empty() {
            return None;
        }
        (0..self.frame.nodes.len()).filter(|&j| j != i && self.move_together(i, j, atomic)).find_map(|j| {
            let record = self.rec(j);
            let mate = record.assignment.as_ref().filter(|a| a.rollout == *id && a.outcome.is_none());
            mate.map(|a| a.wave)
        })
    }
}
