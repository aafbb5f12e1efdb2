//! How much one commit may take out of the repository. Removing a pool never removes drivers by itself, but a
//! generator gone wrong or a bad merge shouldn't make half of a fleet invisible either.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    diff::{renamed_clusters, renamed_pools},
    fleet::Fleet,
    kinds::PoolSpec,
    text::Amount,
};

/// What a step from one fleet to the next takes away. Renames take nothing away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removals {
    /// Pools that are gone, or moved to another cluster: their nodes are no longer anyone's.
    pub pools_removed: u32,
    /// Pools before.
    pub pools_before: u32,
    /// Nodes that these pools hold, as far as the documents say (`nodes.min`).
    pub nodes_removed: u32,
    /// Nodes before, counted alike.
    pub nodes_before: u32,
    /// Clusters that are gone.
    pub clusters_removed: u32,
    /// Clusters before.
    pub clusters_before: u32,
}

/// What a removal is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Removed {
    /// Pools.
    Pools,
    /// Nodes.
    Nodes,
    /// Clusters.
    Clusters,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pools => "pools",
            Self::Nodes => "nodes",
            Self::Clusters => "clusters",
        })
    }
}

/// A commit takes away more than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "this commit removes {removed} of {before} {what}, and removalBudget {budget} allows {allowed}; \
     the last good commit stays in force until removalBudget of the Fleet document is raised in the same commit"
)]
#[serde(rename_all = "camelCase")]
pub struct RemovalRefused {
    /// What is counted.
    pub what: Removed,
    /// So many are removed.
    pub removed: u32,
    /// Of so many.
    pub before: u32,
    /// So many may be.
    pub allowed: u32,
    /// By this budget.
    pub budget: Amount,
    /// All numbers.
    pub removals: Removals,
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Counts what goes from `prev` to `next`.
#[must_use]
pub fn removals(prev: &Fleet, next: &Fleet) -> Removals {
    let (pools, clusters) = (renamed_pools(prev, next), renamed_clusters(prev, next));
    let stays = |name: &crate::text::PoolName, old: &PoolSpec| match next
        .pools
        .get(pools.get(name).unwrap_or(name))
    {
        Some(new) => *clusters.get(&old.cluster).unwrap_or(&old.cluster) == new.cluster,
        None => false,
    };
    let nodes = |pool: &PoolSpec| pool.nodes.min.unwrap_or(0);
    let gone = || prev.pools.iter().filter(|(name, pool)| !stays(name, pool));
    let cluster_gone = |name: &&crate::text::ClusterName| {
        !next.clusters.contains_key(*name) && !clusters.contains_key(*name)
    };
    Removals {
        pools_removed: count(gone().count()),
        pools_before: count(prev.pools.len()),
        nodes_removed: gone().fold(0, |sum, (_, pool)| sum.saturating_add(nodes(pool))),
        nodes_before: prev.pools.values().fold(0, |sum, pool| sum.saturating_add(nodes(pool))),
        clusters_removed: count(prev.clusters.keys().filter(cluster_gone).count()),
        clusters_before: count(prev.clusters.len()),
    }
}

/// The budget for the step from `prev` to `next`: that of `prev`, since a commit may not grant itself leave by
/// accident, or that of `next` where it is raised on purpose. Leaving the field out isn't on purpose.
#[must_use]
pub fn effective_budget(prev: &Fleet, next: &Fleet, before: u32) -> Amount {
    let (old, new) = (prev.spec.removal_budget, next.spec.removal_budget);
    let is_written = new != crate::kinds::default_removal_budget();
    if is_written && new.floor_of(before) > old.floor_of(before) { new } else { old }
}

/// Whether `next` may follow `prev`.
///
/// # Errors
/// The first of pools, nodes and clusters of which too much is removed.
pub fn accept(prev: &Fleet, next: &Fleet) -> Result<(), RemovalRefused> {
    let removals = removals(prev, next);
    let counts = [
        (Removed::Pools, removals.pools_removed, removals.pools_before),
        (Removed::Nodes, removals.nodes_removed, removals.nodes_before),
        (Removed::Clusters, removals.clusters_removed, removals.clusters_before),
    ];
    for (what, removed, before) in counts {
        let budget = effective_budget(prev, next, before);
        let allowed = budget.floor_of(before);
        if removed > allowed {
            return Err(RemovalRefused { what, removed, before, allowed, budget, removals });
        }
    }
    Ok(())
}
