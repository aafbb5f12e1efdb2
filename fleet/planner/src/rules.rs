//! The rules of admission, each a refusal with its numbers. Admission stops at the first; `why` lists all.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Reason, RolloutKind, RolloutRecord};
use drydock_spec::{ClusterName, ForeignCordon, Gangs, InFreeze, Period, Scope};

use crate::{
    budgets::Asking,
    calendar::{self, Movement},
    desired,
    domain::Domain,
    pass::Pass,
    units::Unit,
};

/// Usual time of everything in a visit besides components and checks: prefetch, cordon, drain, return. The middle and
/// the upper end of a drain of 30 to 300 s plus two minutes of prefetch.
const OVERHEAD_P50: Period = Period::from_mins(5);
const OVERHEAD_P90: Period = Period::from_mins(10);

/// Half of all jobs write a checkpoint within this once they are asked.
const CHECKPOINT_P50: Period = Period::from_mins(5);

/// A node that has only just become ready may go again as soon: kubelets that restart come and go within seconds, and
/// a minute is nothing against a visit.
pub(crate) const SETTLES_WITHIN: Period = Period::from_mins(1);

/// Usual run of one check; a check's own time-out is far above it.
const CHECK_P50: Period = Period::from_mins(2);
const CHECK_P90: Period = Period::from_mins(4);

impl Pass<'_> {
    /// Usual time of a visit of this node: half, and nine of ten, are back by then.
    pub(crate) fn estimate(&self, i: usize, rollout: &RolloutRecord) -> (Period, Period) {
        let Some(assignment) = &self.rec(i).assignment else { return (OVERHEAD_P50, OVERHEAD_P90) };
        let (mut p50, mut p90) = (OVERHEAD_P50, OVERHEAD_P90);
        for item in self.needs(i, &assignment.target).iter() {
            let expect = match item {
                drydock_plan::ApplyItem::Component(name) => {
                    self.input.fleet.components.get(name).map(|c| c.spec.expect).unwrap_or_default()
                }
                drydock_plan::ApplyItem::Layout => drydock_spec::Expect::default(),
            };
            p50 = p50.saturating_add(expect.p50);
            p90 = p90.saturating_add(expect.p90);
        }
        for check in &rollout.suite.checks {
            let runs = u64::from(check.repeats);
            p50 = p50.saturating_add(Period::from_millis(CHECK_P50.min(check.timeout).as_millis() * runs));
            p90 = p90.saturating_add(Period::from_millis(CHECK_P90.min(check.timeout).as_millis() * runs));
        }
        (p50, p90)
    }

    /// Usual time of a unit: its nodes go side by side and wait for the slowest, and before them all for the checkpoints
    /// of their jobs.
    pub(crate) fn unit_estimate(&self, unit: &Unit, rollout: &RolloutRecord) -> (Period, Period) {
        let each = unit.nodes.iter().map(|&i| self.estimate(i, rollout));
        let (p50, p90) = each.fold((Period::ZERO, Period::ZERO), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let asks = rollout.strategy.drain.gangs == Gangs::Together && !unit.gangs.is_empty();
        if !asks || !self.drains(unit) {
            return (p50, p90);
        }
        let wait = rollout.strategy.drain.checkpoint.wait;
        (p50.saturating_add(CHECKPOINT_P50.min(wait)), p90.saturating_add(wait))
    }

    pub(crate) fn movement(
        &self,
        i: usize,
        rollout: &RolloutRecord,
        (p50, p90): (Period, Period),
    ) -> Movement {
        Movement {
            rollback: self.goes_back(i, rollout),
            rollback_passes: rollout.strategy.rollback.in_freeze == InFreeze::Allow,
            security: rollout.security && self.gets_security(i),
            p50,
            p90,
        }
    }

    /// A node of this rollout goes to what was proven on it. Of a commit that goes back this is true for those nodes alone
    /// that were good on it: one that came later has never run it.
    pub(crate) fn goes_back(&self, i: usize, rollout: &RolloutRecord) -> bool {
        let record = self.rec(i);
        match &rollout.kind {
            RolloutKind::Forward => false,
            RolloutKind::Rollback { .. } => true,
            RolloutKind::Revert => record.assignment.as_ref().is_some_and(|a| self.was_good_on(i, &a.target)),
        }
    }

    /// What it is given is marked as security; its neighbours' releases say nothing about it.
    fn gets_security(&self, i: usize) -> bool {
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        let target = self.rec(i).assignment.as_ref().map(|a| &a.target.release);
        pool.is_some_and(|p| p.security && target == Some(&p.target.release))
    }

    /// Why a node may not even be asked: it can't go for reasons of its own, and doesn't hold its unit back.
    pub(crate) fn ineligible(&self, i: usize, rollout: &RolloutRecord) -> Vec<Reason> {
        let node = &self.frame.nodes[i];
        let mut reasons = Vec::new();
        if let Some((since, error)) = self.frame.stale(i)
            && let Ok(cluster) = node.id.cluster().parse::<ClusterName>()
        {
            reasons.push(Reason::ClusterUnreachable { cluster, since: *since, error: error.clone() });
        }
        if !node.obs.ready {
            reasons.push(Reason::NotReady { since: node.obs.ready_since });
        }
        if let Some(by) = &node.obs.cordon.foreign
            && rollout.strategy.foreign_cordon == ForeignCordon::Wait
        {
            reasons.push(Reason::ForeignCordon { by: by.clone() });
        }
        if let Some(q) = self.rec(i).quarantine.as_ref().filter(|q| q.retry.is_none()) {
            reasons.push(Reason::NodeQuarantined { since: q.since, rollout: q.rollout.clone() });
        }
        let back = matches!(rollout.kind, RolloutKind::Rollback { .. });
        let target = self.rec(i).assignment.as_ref().filter(|_| !back).map(|a| &a.target);
        if let Some(why) = target.and_then(|target| self.incompatible(i, target)) {
            reasons.push(Reason::Incompatible { why });
        }
        reasons
    }

    /// Whether calendars let a node start, asked once for each kind of movement and for nodes that the same windows and
    /// freezes are about: zones are costly to look up, and thousands of nodes ask the same.
    pub(crate) fn closed(&self, i: usize, pool: usize, movement: Movement) -> Option<Reason> {
        let spec = self.frame.pools.get(pool)?.spec;
        let scopes = self
            .input
            .fleet
            .calendars
            .values()
            .flat_map(|c| c.windows.iter().map(|w| &w.scope).chain(c.freezes.iter().map(|f| &f.scope)));
        // Of a pool's nodes only the domain tells them apart.
        let of_domain = scopes.filter(|s| s.domain.is_some()).map(|s| self.covers(i, s)).collect();
        let key = (pool, of_domain, movement);
        if let Some(known) = self.calendars.borrow().get(&key) {
            return known.clone();
        }
        let covering = |scope: &Scope| self.covers(i, scope);
        let reason = calendar::closed(self.input.fleet, spec, &covering, movement, self.now());
        self.calendars.borrow_mut().insert(key, reason.clone());
        reason
    }

    /// Why a node of a unit may not start now, by calendar and by its own rest.
    fn node_reasons(&self, i: usize, rollout: &RolloutRecord, usual: (Period, Period)) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if let Some(until) = self.rec(i).not_before.filter(|at| *at > self.now()) {
            reasons.push(Reason::Cooldown { until });
        }
        let obs = self.frame.nodes[i].obs;
        let settled = SETTLES_WITHIN.after(obs.ready_since);
        if obs.ready && self.now() < settled {
            reasons.push(Reason::Settling { until: settled });
        }
        if let Some(pool) = self.frame.nodes[i].pool {
            let movement = self.movement(i, rollout, usual);
            reasons.extend(self.closed(i, pool, movement));
        }
        reasons
    }

    /// Why a unit may not start now. Without `all`, the first refusal is enough.
    pub(crate) fn unit_reasons(
        &mut self,
        unit: &Unit,
        rollout: &RolloutRecord,
        clusters: &BTreeSet<String>,
        all: bool,
    ) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let usual = self.unit_estimate(unit, rollout);
        for &i in &unit.nodes {
            for reason in self.node_reasons(i, rollout, usual) {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            if !all && !reasons.is_empty() {
                return reasons;
            }
        }
        reasons.extend(self.gang_reasons(unit, rollout));
        reasons.extend(self.oversized(unit, rollout).map(|(_, why)| Reason::Rejected { why }));
        reasons.extend(self.cluster_reason(unit, rollout, clusters));
        reasons.extend(self.shared_reason(unit));
        if !all && !reasons.is_empty() {
            return reasons;
        }
        self.count();
        reasons.extend(self.spread_reasons(unit, rollout));
        if !all && !reasons.is_empty() {
            return reasons;
        }
        let asking = self.asking(unit, rollout);
        reasons.extend(self.budget_reasons(&unit.nodes, asking, all));
        reasons
    }

    pub(crate) fn asking(&self, unit: &Unit, rollout: &RolloutRecord) -> Asking {
        let back = unit.nodes.iter().all(|&i| self.goes_back(i, rollout));
        let only_layout = || {
            unit.nodes.iter().all(|&i| {
                let target = self.rec(i).assignment.as_ref().map(|a| a.target.clone());
                target.is_some_and(|t| {
                    let items = self.needs(i, &t);
                    !items.is_empty() && items.iter().all(|item| *item == drydock_plan::ApplyItem::Layout)
                })
            })
        };
        let reason = match back {
            true => drydock_spec::Reason::Rollback,
            false if only_layout() => drydock_spec::Reason::Repartition,
            false => drydock_spec::Reason::Upgrade,
        };
        // A person's way back is covered like drydock's own, and gets nothing on top of the limit.
        let boost = if rollout.kind.is_automatic() { rollout.strategy.rollback.budget_boost } else { 0 };
        Asking { reason, boost }
    }

    /// Whether the change makes pods leave at all.
    pub(crate) fn drains(&self, unit: &Unit) -> bool {
        unit.nodes.iter().any(|&i| {
            let Some(a) = &self.rec(i).assignment else { return true };
            self.needs(i, &a.target)
                .iter()
                .any(|item| desired::disruption(self.input.fleet, item) >= drydock_spec::Disruption::Drain)
        })
    }

    fn cluster_reason(
        &self,
        unit: &Unit,
        rollout: &RolloutRecord,
        clusters: &BTreeSet<String>,
    ) -> Option<Reason> {
        let mut with = clusters.clone();
        with.extend(unit.nodes.iter().map(|&i| self.frame.nodes[i].id.cluster().to_owned()));
        let limit = rollout.strategy.max_clusters;
        let grows = with.len() > clusters.len();
        (grows && with.len() > limit as usize).then(|| Reason::ClusterLimit {
            limit,
            in_flight: clusters.iter().filter_map(|c| c.parse().ok()).collect(),
        })
    }

    pub(crate) fn spread_reasons(&self, unit: &Unit, rollout: &RolloutRecord) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for spread in &rollout.strategy.spread {
            let mut adds: BTreeMap<Domain<'_>, u32> = BTreeMap::new();
            for &i in unit.nodes.iter().filter(|&&i| self.rec(i).visit.is_none()) {
                if let Some(domain) = self.frame.domain(i, spread.key) {
                    *adds.entry(domain).or_default() += 1;
                }
            }
            for (domain, add) in adds {
                let size = self.domain_size(spread.key, domain);
                let there = |j: &&usize| self.frame.domain(**j, spread.key) == Some(domain);
                let used = u32::try_from(self.flying().iter().filter(there).count()).unwrap_or(u32::MAX);
                let mut limit = spread.max.floor_of(size);
                if limit == 0 && spread.at_least_one && !spread.max.is_zero() {
                    limit = 1;
                }
                if used + add > limit {
                    let domain = self.frame.domain_text(domain);
                    reasons.push(Reason::Spread { key: spread.key, domain, limit, used });
                }
            }
        }
        reasons
    }
}
