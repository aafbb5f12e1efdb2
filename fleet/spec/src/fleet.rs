//! A whole repository, loaded and checked: every reference in it resolves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{kinds::*, text::*};

/// The version of all documents.
pub const API_VERSION: &str = "drydock.dev/v1alpha1";

/// A document and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Named<T> {
    /// What it says.
    pub spec: T,
    /// File it stands in, relative to the repository.
    pub path: String,
    /// Line of its `kind`, from 1.
    pub line: u32,
}

impl<T> std::ops::Deref for Named<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.spec
    }
}

/// A whole repository. Made only by the loader, so every name in it that refers to something does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// Its name.
    pub name: FleetName,
    /// `kind: Fleet`.
    pub spec: Named<FleetSpec>,
    /// `kind: Cluster`.
    pub clusters: BTreeMap<ClusterName, Named<ClusterSpec>>,
    /// `kind: GpuNodePool`.
    pub pools: BTreeMap<PoolName, Named<PoolSpec>>,
    /// `kind: PartitionLayout`.
    pub layouts: BTreeMap<LayoutName, Named<LayoutSpec>>,
    /// `kind: Component`.
    pub components: BTreeMap<ComponentName, Named<ComponentSpec>>,
    /// `kind: Release`.
    pub releases: BTreeMap<ReleaseName, Named<ReleaseSpec>>,
    /// `kind: RolloutPolicy`.
    pub policies: BTreeMap<PolicyName, Named<PolicySpec>>,
    /// `kind: Budget`.
    pub budgets: BTreeMap<BudgetName, Named<BudgetSpec>>,
    /// `kind: Calendar`.
    pub calendars: BTreeMap<CalendarName, Named<CalendarSpec>>,
    /// `kind: CheckSuite`.
    pub suites: BTreeMap<SuiteName, Named<SuiteSpec>>,
    /// `kind: RolloutControl`.
    pub controls: BTreeMap<ControlName, Named<ControlSpec>>,
    /// `kind: CostBudget`.
    pub costs: BTreeMap<CostBudgetName, Named<CostBudgetSpec>>,
}

/// Where a node stands, as far as scopes ask.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    /// Its cluster.
    pub cluster: &'a str,
    /// Its pool, where Git has one for it.
    pub pool: Option<(&'a PoolName, &'a PoolSpec)>,
    /// Its domain of a kind.
    pub domain: &'a dyn Fn(DomainKey) -> Option<&'a str>,
}

impl Scope {
    /// Whether a node of this fleet is inside. A node without a pool is inside where nothing is said about pools.
    #[must_use]
    pub fn covers_node(&self, fleet: &Fleet, node: &Standing<'_>) -> bool {
        let in_domain = |d: &DomainRef| (node.domain)(d.key) == Some(d.value.as_str());
        if !self.domain.as_ref().is_none_or(in_domain) {
            return false;
        }
        if let Some((name, pool)) = node.pool {
            return self.covers_pool(fleet, name, pool);
        }
        let Self { region, environment, cluster: one, cluster_labels, pools, tenant, domain: _ } = self;
        let found = fleet.clusters.iter().find(|(name, _)| name.as_str() == node.cluster);
        let spec = found.map(|(_, c)| &c.spec);
        pools.is_empty()
            && tenant.is_none()
            && one.as_ref().is_none_or(|c| c.as_str() == node.cluster)
            && region.as_ref().is_none_or(|r| spec.and_then(|c| c.region.as_ref()) == Some(r))
            && environment.as_ref().is_none_or(|e| spec.and_then(|c| c.environment.as_ref()) == Some(e))
            && cluster_labels.iter().all(|(k, v)| spec.and_then(|c| c.labels.get(k)) == Some(v))
    }

    /// Whether nodes of a pool of this fleet can be inside: `domain` is a property of nodes and left aside. What is about
    /// a node is asked of [`Scope::covers_node`].
    #[must_use]
    pub fn covers_pool(&self, fleet: &Fleet, name: &PoolName, pool: &PoolSpec) -> bool {
        let Self { region, environment, cluster: one, cluster_labels, pools, tenant, domain: _ } = self;
        // What the pool itself says comes first: most pools are out by that, without a look at their cluster.
        if one.as_ref().is_some_and(|c| *c != pool.cluster)
            || tenant.as_ref().is_some_and(|t| pool.tenant.as_ref() != Some(t))
            || !(pools.is_empty() || pools.iter().any(|g| g.matches(name.as_str())))
        {
            return false;
        }
        if region.is_none() && environment.is_none() && cluster_labels.is_empty() {
            return true;
        }
        let cluster = fleet.clusters.get(&pool.cluster).map(|c| &c.spec);
        region.as_ref().is_none_or(|r| cluster.and_then(|c| c.region.as_ref()) == Some(r))
            && environment.as_ref().is_none_or(|e| cluster.and_then(|c| c.environment.as_ref()) == Some(e))
            && cluster_labels.iter().all(|(k, v)| cluster.and_then(|c| c.labels.get(k)) == Some(v))
    }
}

impl PoolSelector {
    /// Whether a pool of this fleet is selected.
    #[must_use]
    pub fn selects(&self, fleet: &Fleet, name: &PoolName, pool: &PoolSpec) -> bool {
        let Self { pools, clusters, environments, cluster_labels, labels } = self;
        if !(pools.is_empty() || pools.iter().any(|g| g.matches(name.as_str())))
            || !(clusters.is_empty() || clusters.contains(&pool.cluster))
            || !labels.iter().all(|(k, v)| pool.labels.get(k) == Some(v))
        {
            return false;
        }
        if environments.is_empty() && cluster_labels.is_empty() {
            return true;
        }
        let cluster = fleet.clusters.get(&pool.cluster).map(|c| &c.spec);
        (environments.is_empty()
            || cluster.and_then(|c| c.environment.as_ref()).is_some_and(|e| environments.contains(e)))
            && cluster_labels.iter().all(|(k, v)| cluster.and_then(|c| c.labels.get(k)) == Some(v))
    }
}
