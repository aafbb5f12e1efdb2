//! What differs between two fleets, in the words of the documents rather than of the text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    fleet::{Fleet, Named},
    kinds::{ComponentVersion, PoolSpec},
    release::{LayoutId, ReleaseId, ReleaseVector, layout_id},
    text::*,
};

/// Everything that differs between two fleets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetDiff {
    /// Pools, by their new name (by the old one where they are gone).
    pub pools: BTreeMap<PoolName, PoolChange>,
    /// What moves from which version to which, and on which pools.
    pub versions: Vec<VersionMove>,
    /// The document of kind `Fleet` differs.
    pub fleet: bool,
    /// Clusters.
    pub clusters: Changes<ClusterName>,
    /// Layouts.
    pub layouts: Changes<LayoutName>,
    /// Components.
    pub components: Changes<ComponentName>,
    /// Releases.
    pub releases: Changes<ReleaseName>,
    /// Policies.
    pub policies: Changes<PolicyName>,
    /// Budgets.
    pub budgets: Changes<BudgetName>,
    /// Calendars.
    pub calendars: Changes<CalendarName>,
    /// Check suites.
    pub suites: Changes<SuiteName>,
    /// Controls.
    pub controls: Changes<ControlName>,
    /// Cost budgets.
    pub costs: Changes<CostBudgetName>,
}

/// Names of documents that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes<N: Ord> {
    /// Only in the new fleet.
    pub added: BTreeSet<N>,
    /// Only in the old one.
    pub removed: BTreeSet<N>,
    /// In both, and not alike.
    pub changed: BTreeSet<N>,
}

impl<N: Ord> Default for Changes<N> {
    fn default() -> Self {
        Self { added: BTreeSet::new(), removed: BTreeSet::new(), changed: BTreeSet::new() }
    }
}

impl<N: Ord + Clone> Changes<N> {
    fn between<T: PartialEq>(prev: &BTreeMap<N, Named<T>>, next: &BTreeMap<N, Named<T>>) -> Self {
        let mut changes = Self::default();
        for (name, new) in next {
            match prev.get(name) {
                None => drop(changes.added.insert(name.clone())),
                // Where a document stands isn't what it says.
                Some(old) if old.spec != new.spec => drop(changes.changed.insert(name.clone())),
                Some(_) => {}
            }
        }
        changes.removed = prev.keys().filter(|name| !next.contains_key(name)).cloned().collect();
        changes
    }
    /// True when nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many documents differ.
    #[must_use]
    pub fn len(&self) -> usize {
        self.added.len() + self.removed.len() + self.changed.len()
    }
}

/// How a pool differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PoolChange {
    /// It is new.
    Added {
        /// What it wants.
        to: PoolTarget,
    },
    /// It is gone.
    Removed {
        /// What it wanted.
        from: PoolTarget,
    },
    /// The same nodes under another name: the same cluster and selector. Nothing is deleted or made anew.
    Renamed {
        /// Its old name.
        from_name: PoolName,
        /// What it wanted.
        from: PoolTarget,
        /// What it wants.
        to: PoolTarget,
    },
    /// It is still there and wants something else, or has other settings.
    Changed {
        /// What it wanted.
        from: PoolTarget,
        /// What it wants.
        to: PoolTarget,
    },
}

impl PoolChange {
    /// What was wanted before and after; `None` where there was no pool.
    #[must_use]
    pub fn sides(&self) -> (Option<&PoolTarget>, Option<&PoolTarget>) {
        match self {
            Self::Added { to } => (None, Some(to)),
            Self::Removed { from } => (Some(from), None),
            Self::Renamed { from, to, .. } | Self::Changed { from, to } => (Some(from), Some(to)),
        }
    }
    /// True when nodes have to move: another release vector or another layout on nodes that were there before.
    #[must_use]
    pub fn moves_nodes(&self) -> bool {
        match self.sides() {
            (Some(from), Some(to)) => from.release_id != to.release_id || from.layout_id != to.layout_id,
            (None, _) | (_, None) => false,
        }
    }
}

/// What a pool wants of its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolTarget {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Name of its release.
    pub release: ReleaseName,
    /// The versions that the release carries.
    pub vector: ReleaseVector,
    /// Identity of these.
    pub release_id: ReleaseId,
    /// Name of its layout.
    pub layout: Option<LayoutName>,
    /// Identity of it.
    pub layout_id: Option<LayoutId>,
}

/// A component that goes from one version to another on some pools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionMove {
    /// The component.
    pub component: ComponentName,
    /// Before; `None` when it wasn't there.
    pub from: Option<ComponentVersion>,
    /// After; `None` when it isn't there any more.
    pub to: Option<ComponentVersion>,
    /// On these pools, by their new names.
    pub pools: BTreeSet<PoolName>,
}

/// What a pool of this fleet wants.
#[must_use]
pub fn target(fleet: &Fleet, pool: &PoolSpec) -> PoolTarget {
    let vector = fleet.releases.get(&pool.release).map(|r| r.vector()).unwrap_or_default();
    let layout = pool.layout.as_ref().and_then(|name| fleet.layouts.get(name));
    PoolTarget {
        cluster: pool.cluster.clone(),
        release: pool.release.clone(),
        release_id: vector.id(),
        vector,
        layout: pool.layout.clone(),
        layout_id: layout.map(|l| layout_id(l)),
    }
}

/// Pools of `prev` that go on under another name in `next`: old name to new name. The same cluster and selector make
/// them the same, since a node belongs to one pool only.
#[must_use]
pub fn renamed_pools(prev: &Fleet, next: &Fleet) -> BTreeMap<PoolName, PoolName> {
    let clusters = renamed_clusters(prev, next);
    let mut new: BTreeMap<(&ClusterName, &BTreeMap<String, String>), &PoolName> = BTreeMap::new();
    for (name, pool) in next.pools.iter().filter(|(name, _)| !prev.pools.contains_key(*name)) {
        new.insert((&pool.cluster, &pool.node_selector), name);
    }
    let gone = prev.pools.iter().filter(|(name, _)| !next.pools.contains_key(*name));
    let pairs = gone.filter_map(|(name, pool)| {
        let cluster = clusters.get(&pool.cluster).unwrap_or(&pool.cluster);
        // Taken out, so that two old pools can't both go on as one.
        Some((name.clone(), new.remove(&(cluster, &pool.node_selector))?.clone()))
    });
    pairs.collect()
}

/// Clusters of `prev` that go on under another name: old name to new name. Their documents are alike word for word
/// and unlike every other, so that no guess is made.
#[must_use]
pub fn renamed_clusters(prev: &Fleet, next: &Fleet) -> BTreeMap<ClusterName, ClusterName> {
    let gone: Vec<_> = prev.clusters.iter().filter(|(name, _)| !next.clusters.contains_key(*name)).collect();
    let new: Vec<_> = next.clusters.iter().filter(|(name, _)| !prev.clusters.contains_key(*name)).collect();
    let mut renamed = BTreeMap::new();
    for (name, old) in &gone {
        let alike: Vec<_> = new.iter().filter(|(_, n)| n.spec == old.spec).collect();
        let unique = gone.iter().filter(|(_, other)| other.spec == old.spec).count() == 1;
        if let ([(to, _)], true) = (alike.as_slice(), unique) {
            renamed.insert((*name).clone(), (*to).clone());
        }
    }
    renamed
}

/// Compares two fleets.
#[must_use]
pub fn diff(prev: &Fleet, next: &Fleet) -> FleetDiff {
    let renamed = renamed_pools(prev, next);
    let old_names: BTreeMap<&PoolName, &PoolName> = renamed.iter().map(|(old, new)| (new, old)).collect();
    let mut pools = BTreeMap::new();
    for (name, pool) in &next.pools {
        let to = target(next, pool);
        let old_name = old_names.get(name).copied();
        let change = match (prev.pools.get(old_name.unwrap_or(name)), old_name) {
            (None, _) => PoolChange::Added { to },
            (Some(old), Some(from_name)) => {
                PoolChange::Renamed { from_name: from_name.clone(), from: target(prev, old), to }
            }
            (Some(old), None) => {
                let from = target(prev, old);
                if from == to && old.spec == pool.spec {
                    continue;
                }
                PoolChange::Changed { from, to }
            }
        };
        pools.insert(name.clone(), change);
    }
    for (name, pool) in &prev.pools {
        if !next.pools.contains_key(name) && !renamed.contains_key(name) {
            pools.insert(name.clone(), PoolChange::Removed { from: target(prev, pool) });
        }
    }
    FleetDiff {
        versions: version_moves(&pools),
        pools,
        fleet: prev.name != next.name || prev.spec.spec != next.spec.spec,
        clusters: Changes::between(&prev.clusters, &next.clusters),
        layouts: Changes::between(&prev.layouts, &next.layouts),
        components: Changes::between(&prev.components, &next.components),
        releases: Changes::between(&prev.releases, &next.releases),
        policies: Changes::between(&prev.policies, &next.policies),
        budgets: Changes::between(&prev.budgets, &next.budgets),
        calendars: Changes::between(&prev.calendars, &next.calendars),
        suites: Changes::between(&prev.suites, &next.suites),
        controls: Changes::between(&prev.controls, &next.controls),
        costs: Changes::between(&prev.costs, &next.costs),
    }
}

/// The moves of single components on pools that exist on both sides, gathered over the pools that make them.
fn version_moves(pools: &BTreeMap<PoolName, PoolChange>) -> Vec<VersionMove> {
    type Key = (ComponentName, Option<ComponentVersion>, Option<ComponentVersion>);
    let mut moves: BTreeMap<Key, BTreeSet<PoolName>> = BTreeMap::new();
    for (name, change) in pools {
        let (Some(from), Some(to)) = change.sides() else { continue };
        for change in from.vector.changes(&to.vector) {
            let key = (change.component.clone(), change.from.cloned(), change.to.cloned());
            moves.entry(key).or_default().insert(name.clone());
        }
    }
    let gathered = moves.into_iter();
    gathered.map(|((component, from, to), pools)| VersionMove { component, from, to, pools }).collect()
}

impl FleetDiff {
    /// True when the two fleets say the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
    /// Pools whose nodes have to move.
    pub fn moving(&self) -> impl Iterator<Item = (&PoolName, &PoolChange)> {
        self.pools.iter().filter(|(_, change)| change.moves_nodes())
    }
}
