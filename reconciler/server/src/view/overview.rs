//! Fleet, clusters and pools on the screens: sums over nodes.

use std::collections::BTreeMap;

use drydock_plan::{CommitRef, ReleaseId, Target};
use drydock_spec::{ClusterName, FleetName, PolicyName, PoolName};
use jiff::Timestamp;
use serde::Serialize;

use super::{Facts, Freshness, Health, NodeRow, Sync};

/// Counts of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Nodes.
    pub nodes: u32,
    /// GPUs they should have.
    pub gpus: u32,
    /// GPUs that they advertise now.
    pub gpus_advertised: u32,
    /// GPUs that can be used now: their node is ready and takes pods.
    pub gpus_in_service: u32,
    /// Nodes by sync.
    pub sync: BTreeMap<&'static str, u32>,
    /// Nodes by health.
    pub health: BTreeMap<&'static str, u32>,
    /// Nodes by where they are, without those that are `idle`.
    pub steps: BTreeMap<&'static str, u32>,
    /// Nodes by what runs.
    pub running: BTreeMap<ReleaseId, u32>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// Its name.
    pub name: PoolName,
    /// Its cluster.
    pub cluster: ClusterName,
    /// GPU model.
    pub model: String,
    /// The policy that moves it.
    pub policy: Option<PolicyName>,
    /// What Git says should run.
    pub wanted: Option<Target>,
    /// Name of the wanted release.
    pub release: String,
    /// The worst of its nodes.
    pub sync: Sync,
    /// The worst of its nodes; `Missing` when it has none.
    pub health: Health,
    /// Of its cluster.
    pub freshness: Freshness,
    /// Counts.
    pub counts: Counts,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// Its name.
    pub name: ClusterName,
    /// Its environment.
    pub environment: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// The worst of its pools.
    pub sync: Sync,
    /// The worst of its pools.
    pub health: Health,
    /// How old is what is known?
    pub freshness: Freshness,
    /// Instant of the newest facts.
    pub seen_at: Option<Timestamp>,
    /// Why newer ones can't be had.
    pub error: Option<String>,
    /// Its pools.
    pub pools: Vec<PoolName>,
    /// Counts.
    pub counts: Counts,
}

/// The fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetView {
    /// Its name.
    pub name: FleetName,
    /// The commit in force.
    pub commit: CommitRef,
    /// The worst of its clusters.
    pub sync: Sync,
    /// The worst of its clusters.
    pub health: Health,
    /// Clusters that don't answer or whose facts are stale.
    pub clusters_not_fresh: u32,
    /// Clusters.
    pub clusters: u32,
    /// Pools.
    pub pools: u32,
    /// Rollouts that haven't ended.
    pub open_rollouts: u32,
    /// Counts.
    pub counts: Counts,
}

/// Sums over the whole fleet, made once per published state.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// The fleet.
    pub fleet: FleetView,
    /// Clusters, by name.
    pub clusters: Vec<ClusterView>,
    /// Pools, by name.
    pub pools: Vec<PoolView>,
}

impl Counts {
    fn add(&mut self, row: &NodeRow) {
        self.nodes += 1;
        self.gpus = self.gpus.saturating_add(row.gpus_expected.max(row.gpus));
        self.gpus_advertised = self.gpus_advertised.saturating_add(row.gpus);
        if row.schedulable {
            self.gpus_in_service = self.gpus_in_service.saturating_add(row.gpus);
        }
        *self.sync.entry(row.sync.word()).or_default() += 1;
        *self.health.entry(row.health.word()).or_default() += 1;
        if row.step != "idle" {
            *self.steps.entry(row.step).or_default() += 1;
        }
        if let Some(running) = &row.running {
            *self.running.entry(running.clone()).or_default() += 1;
        }
    }
}

/// Sum of one pool or cluster while rows are added.
#[derive(Default)]
struct Sum {
    counts: Counts,
    sync: Option<Sync>,
    health: Option<Health>,
}

impl Sum {
    fn add(&mut self, row: &NodeRow) {
        self.counts.add(row);
        self.sync = self.sync.max(Some(row.sync));
        self.health = self.health.max(Some(row.health));
    }
    /// Sync and health of something without nodes: nothing runs that could differ, but nodes are missing. What comes
    /// from stale facts is never good.
    fn words(&self, freshness: Freshness) -> (Sync, Health) {
        match freshness {
            Freshness::Fresh => (self.sync.unwrap_or(Sync::Unknown), self.health.unwrap_or(Health::Missing)),
            Freshness::Stale | Freshness::Unreachable => (Sync::Unknown, Health::Unknown),
        }
    }
}

impl Overview {
    /// Sums over all nodes.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let mut whole = Sum::default();
        let mut by_cluster: BTreeMap<String, Sum> = BTreeMap::new();
        let mut by_pool: BTreeMap<PoolName, Sum> = BTreeMap::new();
        for row in facts.node_ids().filter_map(|id| facts.node_row(id)) {
            whole.add(&row);
            by_cluster.entry(row.cluster.clone()).or_default().add(&row);
            if let Some(pool) = &row.pool {
                by_pool.entry(pool.clone()).or_default().add(&row);
            }
        }
        let pools: Vec<_> =
            facts.fleet.pools.keys().filter_map(|name| pool_view(facts, name, &mut by_pool)).collect();
        let clusters: Vec<_> =
            facts.fleet.clusters.keys().map(|name| cluster_view(facts, name, &mut by_cluster)).collect();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let fleet = FleetView {
            name: facts.fleet.name.clone(),
            commit: (*facts.commit).clone(),
            sync: clusters.iter().map(|c| c.sync).max().unwrap_or(Sync::Unknown),
            health: clusters.iter().map(|c| c.health).max().unwrap_or(Health::Missing),
            clusters_not_fresh: count(clusters.iter().filter(|c| c.freshness != Freshness::Fresh).count()),
            clusters: count(clusters.len()),
            pools: count(pools.len()),
            open_rollouts: count(facts.ledger.open_rollouts().count()),
            counts: whole.counts,
        };
        Self { fleet, clusters, pools }
    }
}

fn pool_view(facts: &Facts, name: &PoolName, sums: &mut BTreeMap<PoolName, Sum>) -> Option<PoolView> {
    let pool = facts.fleet.pools.get(name)?;
    let sum = sums.remove(name).unwrap_or_default();
    let freshness = facts.freshness(pool.cluster.as_str());
    let (sync, health) = sum.words(freshness);
    let target = facts.targets.get(name);
    Some(PoolView {
        name: name.clone(),
        cluster: pool.cluster.clone(),
        model: pool.gpu.model.clone(),
        policy: target.and_then(|target| target.policy.clone()),
        wanted: target.map(|target| target.target.clone()),
        release: pool.release.to_string(),
        sync,
        health,
        freshness,
        counts: sum.counts,
    })
}

fn cluster_view(facts: &Facts, name: &ClusterName, sums: &mut BTreeMap<String, Sum>) -> ClusterView {
    let spec = facts.fleet.clusters.get(name);
    let observed = facts.inventory.clusters.get(name);
    let sum = sums.remove(name.as_str()).unwrap_or_default();
    let freshness = facts.freshness(name.as_str());
    let (sync, health) = sum.words(freshness);
    ClusterView {
        name: name.clone(),
        environment: spec.and_then(|spec| spec.environment.clone()),
        region: spec.and_then(|spec| spec.region.clone()),
        sync,
        health,
        freshness,
        seen_at: observed.map(|observed| observed.seen_at),
        error: observed.and_then(|observed| observed.error.clone()),
        pools: facts.fleet.pools.iter().filter(|(_, p)| p.cluster == *name).map(|(n, _)| n.clone()).collect(),
        counts: sum.counts,
    }
}
