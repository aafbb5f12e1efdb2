//! How much one commit may take out of the repository. Removing a pool never removes drivers by itself, and removing a
//! calendar moves nothing by itself; but a generator gone wrong, a folder that was moved, or a bad merge shouldn't make
//! half of a fleet invisible, or end its limits, either.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    diff::{renamed_clusters, renamed_pools},
    fleet::{Fleet, Named},
    kinds::{CalendarSpec, ControlSpec, ControlState, PoolSpec},
    text::{Amount, ClusterName, PoolName},
};

/// Names shown in one sentence.
const SHOWN: usize = 5;

/// A node that was observed: its cluster and its labels.
pub type SeenNode<'a> = (&'a str, &'a BTreeMap<String, String>);

/// What is known beside the documents when a commit is judged.
#[derive(Debug, Clone, Default)]
pub struct Seen<'a> {
    /// The present: freezes that have ended hold nothing back any more. Absent, every freeze counts.
    pub now: Option<Timestamp>,
    /// Nodes as they were observed: their cluster and their labels. Clusters that weren't seen have none here.
    pub nodes: Vec<SeenNode<'a>>,
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
    /// Rollout policies: pools that only they select don't move any more.
    Policies,
    /// Budgets: limits that end.
    Budgets,
    /// Calendars with windows, or with freezes that haven't ended.
    Calendars,
    /// Controls that hold something back: a pause, an abort, nodes that are left out.
    Controls,
}

impl Removed {
    /// In the order in which a refusal names one.
    pub const ALL: [Self; 7] = [
        Self::Pools,
        Self::Nodes,
        Self::Clusters,
        Self::Policies,
        Self::Budgets,
        Self::Calendars,
        Self::Controls,
    ];

    /// So many may go whatever their share: taking a control out of Git is how people end a pause.
    const fn always(self) -> u32 {
        match self {
            Self::Controls => 1,
            Self::Pools | Self::Nodes | Self::Clusters | Self::Policies | Self::Budgets | Self::Calendars => {
                0
            }
        }
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pools => "pools",
            Self::Nodes => "nodes",
            Self::Clusters => "clusters",
            Self::Policies => "policies",
            Self::Budgets => "budgets",
            Self::Calendars => "calendars",
            Self::Controls => "controls",
        })
    }
}

/// How much of one thing goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// So many are gone.
    pub removed: u32,
    /// Of so many.
    pub before: u32,
    /// Which; for nodes the pools that lose them.
    pub names: Vec<String>,
}

/// What a step from one fleet to the next takes away. Renames take nothing away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Removals(BTreeMap<Removed, Share>);

impl Removals {
    /// How much of this goes.
    #[must_use]
    pub fn of(&self, what: Removed) -> Share {
        self.0.get(&what).cloned().unwrap_or_default()
    }
    /// What goes of these, in words: `calendars: nights, year-end`.
    #[must_use]
    pub fn words(&self, of: &[Removed]) -> Vec<String> {
        let gone = self.0.iter().filter(|(what, share)| of.contains(what) && share.removed > 0);
        gone.map(|(what, share)| format!("{what}: {}", share.names.join(", "))).collect()
    }
}

/// A commit takes away more than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "this commit removes {removed} of {before} {what}{}, and removalBudget {budget} allows {allowed}; the last good \
     commit stays in force until removalBudget of the Fleet document is raised in the same commit",
    which(*what, names)
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
    /// Which they are.
    #[serde(default)]
    pub names: Vec<String>,
}

fn which(what: Removed, names: &[String]) -> String {
    match (what, names) {
        (_, []) => String::new(),
        (Removed::Nodes, names) => format!(" (of {})", list(names)),
        (_, names) => format!(" ({})", list(names)),
    }
}

fn list(names: &[String]) -> String {
    match names.len() {
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Counts what goes from `prev` to `next`.
#[must_use]
pub fn removals(prev: &Fleet, next: &Fleet, seen: &Seen<'_>) -> Removals {
    let (pools, clusters) = (renamed_pools(prev, next), renamed_clusters(prev, next));
    let successor = |name: &PoolName, old: &PoolSpec| {
        let new = next.pools.get(pools.get(name).unwrap_or(name))?;
        (*clusters.get(&old.cluster).unwrap_or(&old.cluster) == new.cluster).then_some(new)
    };
    let gone_pools: Vec<String> = prev
        .pools
        .iter()
        .filter(|(name, pool)| successor(name, pool).is_none())
        .map(|(name, _)| name.to_string())
        .collect();
    let cluster_gone =
        |name: &&ClusterName| !next.clusters.contains_key(*name) && !clusters.contains_key(*name);
    let gone_clusters = prev.clusters.keys().filter(cluster_gone).map(ToString::to_string).collect();
    let holds = |calendar: &CalendarSpec| {
        let ahead = |to: Timestamp| seen.now.is_none_or(|now| to > now);
        !calendar.windows.is_empty() || calendar.freezes.iter().any(|freeze| ahead(freeze.to))
    };
    let kept_back = |control: &ControlSpec| control.state != ControlState::Run || !control.skip.is_empty();
    Removals(BTreeMap::from([
        (Removed::Pools, share(gone_pools, prev.pools.len())),
        (Removed::Nodes, nodes(prev, next, &clusters, seen)),
        (Removed::Clusters, share(gone_clusters, prev.clusters.len())),
        (Removed::Policies, documents(&prev.policies, &next.policies, |_| true)),
        (Removed::Budgets, documents(&prev.budgets, &next.budgets, |_| true)),
        (Removed::Calendars, documents(&prev.calendars, &next.calendars, holds)),
        (Removed::Controls, documents(&prev.controls, &next.controls, kept_back)),
    ]))
}

fn share(names: Vec<String>, before: usize) -> Share {
    Share { removed: count(names.len()), before: count(before), names }
}

/// Documents that are gone, of those that count. One that says the same under a new name isn't.
fn documents<N: Ord + fmt::Display, T: PartialEq>(
    prev: &BTreeMap<N, Named<T>>,
    next: &BTreeMap<N, Named<T>>,
    counts: impl Fn(&T) -> bool,
) -> Share {
    let mut new: Vec<&T> = next
        .iter()
        .filter(|(name, _)| !prev.contains_key(*name))
        .map(|(_, document)| &document.spec)
        .collect();
    let mut names = Vec::new();
    for (name, old) in prev.iter().filter(|(name, old)| !next.contains_key(*name) && counts(&old.spec)) {
        match new.iter().position(|spec| **spec == old.spec) {
            // Each takes over from one only.
            Some(at) => drop(new.swap_remove(at)),
            None => names.push(name.to_string()),
        }
    }
    share(names, prev.values().filter(|document| counts(&document.spec)).count())
}

/// Nodes that are in a pool now and will be in none, or in one of another cluster. Where nodes were seen, they are
/// looked at one by one, so that a selector that matches nothing any more counts for all that it let go. Of pools
/// without any seen node the documents must do: such a pool goes as a whole, or stays.
fn nodes(
    prev: &Fleet,
    next: &Fleet,
    clusters: &BTreeMap<ClusterName, ClusterName>,
    seen: &Seen<'_>,
) -> Share {
    let (before, after) = (by_cluster(prev), by_cluster(next));
    let member = |pools: &Pools<'_>, cluster: &str, labels: &BTreeMap<String, String>| {
        let selects =
            |pool: &PoolSpec| pool.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        pools.get(cluster)?.iter().find(|(_, pool)| selects(pool)).map(|(name, _)| (*name).clone())
    };
    let mut held: BTreeMap<PoolName, (u32, u32)> = BTreeMap::new();
    for (cluster, labels) in &seen.nodes {
        let Some(pool) = member(&before, cluster, labels) else { continue };
        let there = clusters.get(*cluster).map_or(*cluster, ClusterName::as_str);
        let falls_out = member(&after, there, labels).is_none();
        let (all, out) = held.entry(pool).or_default();
        (*all, *out) = (*all + 1, *out + u32::from(falls_out));
    }
    let renamed = renamed_pools(prev, next);
    let mut total = Share::default();
    for (name, pool) in &prev.pools {
        let (all, out) = held.get(name).copied().unwrap_or((0, 0));
        let documented = documented(pool).max(all);
        let stays = next.pools.get(renamed.get(name).unwrap_or(name)).is_some_and(|new| {
            *clusters.get(&pool.cluster).unwrap_or(&pool.cluster) == new.cluster
                && new.node_selector == pool.node_selector
        });
        // Nodes that weren't seen go where the seen ones go; without any, with the pool's name.
        let there = next.pools.contains_key(renamed.get(name).unwrap_or(name));
        let gone = match (stays, all) {
            (true, _) => 0,
            (false, 0) if there => 0,
            (false, 0) => documented,
            (false, all) => out + if out == all { documented - all } else { 0 },
        };
        total.before = total.before.saturating_add(documented);
        total.removed = total.removed.saturating_add(gone);
        if gone > 0 {
            total.names.push(name.to_string());
        }
    }
    total
}

/// Pools by the name of their cluster.
type Pools<'f> = BTreeMap<&'f str, Vec<(&'f PoolName, &'f PoolSpec)>>;

fn by_cluster(fleet: &Fleet) -> Pools<'_> {
    let mut pools = Pools::new();
    for (name, pool) in &fleet.pools {
        pools.entry(pool.cluster.as_str()).or_default().push((name, &pool.spec));
    }
    pools
}

/// Nodes of a pool as far as its document says. One that says nothing has at least one: that its size isn't written
/// doesn't make it empty.
fn documented(pool: &PoolSpec) -> u32 {
    pool.nodes.min.or(pool.nodes.max).unwrap_or(1)
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
/// The first of what is counted of which too much is removed.
pub fn accept(prev: &Fleet, next: &Fleet, seen: &Seen<'_>) -> Result<(), RemovalRefused> {
    let removals = removals(prev, next, seen);
    for what in Removed::ALL {
        let Share { removed, before, names } = removals.of(what);
        let budget = effective_budget(prev, next, before);
        let allowed = budget.floor_of(before).max(what.always());
        if removed > allowed {
            return Err(RemovalRefused { what, removed, before, allowed, budget, names });
        }
    }
    Ok(())
}

/// Documents of `prev` that stand in one of `paths` (or below it) and aren't in `next` under any path: they can't be
/// read any more, which is no removal.
#[must_use]
pub fn lost(prev: &Fleet, next: Option<&Fleet>, path: &str) -> bool {
    let at =
        |file: &str| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let Some(next) = next else { return prev.paths().iter().any(|file| at(file)) };
    let (before, after) = (prev.documents(), next.documents());
    before.iter().any(|(document, file)| at(file) && !after.contains_key(document))
}

impl Fleet {
    /// Every document by kind and name, with the file it stands in.
    #[must_use]
    pub fn documents(&self) -> BTreeMap<(crate::Kind, &str), &str> {
        use crate::Kind;
        let mut all = BTreeMap::new();
        macro_rules! take {
            ($($kind:ident $map:ident),*) => {
                $(for (name, document) in &self.$map {
                    all.insert((Kind::$kind, name.as_str()), document.path.as_str());
                })*
            };
        }
        take!(
            Cluster clusters, GpuNodePool pools, PartitionLayout layouts, Component components, Release releases,
            RolloutPolicy policies, Budget budgets, Calendar calendars, CheckSuite suites, RolloutControl controls,
            CostBudget costs
        );
        all.insert((Kind::Fleet, self.name.as_str()), self.spec.path.as_str());
        all
    }
    /// The files that hold its documents.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<&str> {
        self.documents().into_values().collect()
    }
}
