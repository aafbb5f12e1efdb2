//! The draft of a change.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{CommitRef, Inventory, Ledger, NodeId, Planned, RolloutRecord, RolloutState};
use drydock_planner::{Input, plan};
use drydock_sim::{World, WorldOptions};
use drydock_spec::{
    Fleet, FleetDiff, Gate, PoolChange, PoolName, Removed, SourceFile, Window, diff, removal,
};
use jiff::Timestamp;

use super::{Class, Draft, RolloutDraft, Side, Unmoved, WaveDraft, class, limits, most};
use crate::render::reason::sentence;
use crate::render::time::When;

/// What is compared.
pub(crate) struct Sides<'a> {
    pub(crate) from: &'a Fleet,
    pub(crate) from_side: Side,
    pub(crate) to: &'a Fleet,
    pub(crate) to_side: Side,
    /// The new documents, for places in them.
    pub(crate) files: &'a [SourceFile],
    /// Who wrote the new side.
    pub(crate) author: &'a str,
}

/// What stands in a wave of a rollout.
pub(super) struct Members<'a> {
    pub(super) nodes: Vec<&'a NodeId>,
    pub(super) pools: BTreeSet<&'a PoolName>,
}

/// Works out what the change would do at `at`.
pub(crate) fn draft(sides: &Sides<'_>, at: Timestamp) -> Draft {
    let Sides { from, to, .. } = sides;
    let changes = diff(from, to);
    let world = world(from, to, at, &WorldOptions::default());
    let commit = commit(sides, at);
    let ledger = Ledger::default();
    let input = Input { fleet: to, commit: &commit, inventory: world.inventory(), ledger: &ledger, now: at };
    let Planned { plan, report } = plan(&input);
    let mut after = ledger.clone();
    plan.changes.into_iter().for_each(|change| after.apply(change));

    let classes = classes(to, &changes);
    let worst = |pools: &BTreeSet<&PoolName>| {
        pools.iter().filter_map(|pool| classes.get(*pool)).copied().max().unwrap_or(Class::None)
    };
    let mut moving: Vec<&NodeId> = Vec::new();
    let mut rollouts = Vec::new();
    for record in after.rollouts.values() {
        let members = members(record, &after, world.inventory());
        moving.extend(members.iter().flat_map(|wave| wave.nodes.iter().copied()));
        let waves = record.waves.iter().enumerate().zip(&members).filter(|(_, m)| !m.nodes.is_empty());
        rollouts.push(RolloutDraft {
            id: record.id.to_string(),
            policy: record.policy.clone(),
            rejected: match &record.state {
                RolloutState::Rejected { why } => why.clone(),
                _ => Vec::new(),
            },
            waves: waves
                .map(|((index, _), members)| {
                    wave(to, record, index, members, worst(&members.pools), world.inventory())
                })
                .collect(),
        });
    }
    let pools: BTreeSet<&PoolName> =
        moving.iter().filter_map(|id| world.inventory().nodes.get(*id)?.pool.as_ref()).collect();
    // Nodes that a selector lets go can only be counted where clusters are seen.
    let seen = removal::Seen { now: Some(at), nodes: Vec::new() };
    let changed = changes.versions.iter().map(|change| &change.component);
    Draft {
        from: sides.from_side.clone(),
        to: sides.to_side.clone(),
        at,
        documents: documents(&changes),
        irreversible: class::irreversible(to, changed),
        versions: changes.versions.iter().filter(|v| v.from.is_some() || v.to.is_some()).cloned().collect(),
        repartitioned: named(&changes, |change| {
            let (from, to) = change.sides();
            from.zip(to).is_some_and(|(from, to)| to.layout_id.is_some() && from.layout_id != to.layout_id)
        }),
        renamed: changes
            .pools
            .iter()
            .filter_map(|(name, change)| match change {
                PoolChange::Renamed { from_name, .. } => Some((from_name.clone(), name.clone())),
                PoolChange::Added { .. } | PoolChange::Removed { .. } | PoolChange::Changed { .. } => None,
            })
            .collect(),
        added: named(&changes, |change| matches!(change, PoolChange::Added { .. })),
        removed: named(&changes, |change| matches!(change, PoolChange::Removed { .. })),
        ended: removal::removals(from, to, &seen).words(&[
            Removed::Clusters,
            Removed::Policies,
            Removed::Budgets,
            Removed::Calendars,
            Removed::Controls,
        ]),
        held: removal::accept(from, to, &seen).err().map(|refused| refused.to_string()),
        class: worst(&pools),
        clusters: count(moving.iter().map(|id| id.cluster()).collect::<BTreeSet<_>>().len()),
        nodes: count(moving.len()),
        gpus: moving.iter().map(|id| gpus(world.inventory(), id)).sum(),
        limits: limits::limits(to, sides.files, after.rollouts.values().map(|r| &**r), &pools, world.inventory()),
        rollouts,
        unmoved: unmoved(&report.holds, to, &changes, world.inventory(), at),
        warnings: Vec::new(),
        forecast: None,
        not_evaluated: vec![
            "live clusters: node counts are nodes.min of the pools, and what runs is what the older documents say"
                .to_owned(),
        ],
    }
}

/// A fleet that runs what `from` says, with the nodes that `to` has.
pub(super) fn world(from: &Fleet, to: &Fleet, at: Timestamp, options: &WorldOptions) -> World {
    let mut options = WorldOptions { start: at, ..options.clone() }.running_as(from);
    for (old, new) in diff::renamed_pools(from, to) {
        if let Some(running) = options.running.remove(&old) {
            options.running.insert(new.clone(), running);
        }
        if let Some(layout) = options.layouts.remove(&old) {
            options.layouts.insert(new, layout);
        }
    }
    World::from_fleet(to, &options)
}

pub(super) fn commit(sides: &Sides<'_>, at: Timestamp) -> CommitRef {
    CommitRef {
        id: sides.to_side.commit.clone(),
        summary: sides.to_side.summary.clone(),
        author: sides.author.to_owned(),
        time: at,
    }
}

pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn gpus(inventory: &Inventory, id: &NodeId) -> u32 {
    inventory.nodes.get(id).map_or(0, |node| node.gpus)
}

fn named(changes: &FleetDiff, wanted: impl Fn(&PoolChange) -> bool) -> Vec<PoolName> {
    changes.pools.iter().filter(|(_, change)| wanted(change)).map(|(name, _)| name.clone()).collect()
}

fn classes<'a>(to: &Fleet, changes: &'a FleetDiff) -> BTreeMap<&'a PoolName, Class> {
    let moving = changes.moving().filter_map(|(name, change)| {
        let (from, next) = change.sides();
        Some((name, class::of(to, to.pools.get(name)?, from?, next?)))
    });
    moving.collect()
}

fn documents(changes: &FleetDiff) -> BTreeMap<&'static str, u32> {
    let pools = count(changes.pools.len());
    let FleetDiff {
        pools: _,
        versions: _,
        fleet,
        clusters,
        layouts,
        components,
        releases,
        policies,
        budgets,
        calendars,
        suites,
        controls,
        costs,
    } = changes;
    let all = [
        ("Fleet", u32::from(*fleet)),
        ("Cluster", count(clusters.len())),
        // A pool counts by its own document; one that only wants another release hasn't changed itself.
        ("GpuNodePool", pools.saturating_sub(count(unchanged_pools(changes)))),
        ("PartitionLayout", count(layouts.len())),
        ("Component", count(components.len())),
        ("Release", count(releases.len())),
        ("RolloutPolicy", count(policies.len())),
        ("Budget", count(budgets.len())),
        ("Calendar", count(calendars.len())),
        ("CheckSuite", count(suites.len())),
        ("RolloutControl", count(controls.len())),
        ("CostBudget", count(costs.len())),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Pools that differ only because the release or layout they name differs.
fn unchanged_pools(changes: &FleetDiff) -> usize {
    let inherited = |change: &&PoolChange| match change {
        PoolChange::Changed { from, to } => {
            from != to && from.release == to.release && from.layout == to.layout
        }
        PoolChange::Added { .. } | PoolChange::Removed { .. } | PoolChange::Renamed { .. } => false,
    };
    changes.pools.values().filter(inherited).count()
}

/// Nodes of every wave.
fn members<'a>(record: &RolloutRecord, after: &'a Ledger, inventory: &'a Inventory) -> Vec<Members<'a>> {
    let mut waves: Vec<Members<'a>> =
        record.waves.iter().map(|_| Members { nodes: Vec::new(), pools: BTreeSet::new() }).collect();
    for (id, node) in &after.nodes {
        let Some(assignment) = node.assignment.as_ref().filter(|a| a.rollout == record.id) else { continue };
        let Some(wave) = waves.get_mut(usize::from(assignment.wave)) else { continue };
        wave.nodes.push(id);
        wave.pools.extend(inventory.nodes.get(id).and_then(|node| node.pool.as_ref()));
    }
    waves
}

fn wave(
    to: &Fleet,
    record: &RolloutRecord,
    index: usize,
    members: &Members<'_>,
    class: Class,
    inventory: &Inventory,
) -> WaveDraft {
    let spec = record.strategy.waves.get(index);
    let (most_nodes, most_gpus) = most::away(to, record, index, members, inventory);
    let approvals = spec.map(|spec| {
        let side = |gates: &[Gate], word: &str| {
            gates
                .iter()
                .map(|Gate::Approval { team, count }| match count {
                    1 => format!("{team} {word}"),
                    n => format!("{n} of {team} {word}"),
                })
                .collect::<Vec<_>>()
        };
        [side(&spec.gates.before, "before"), side(&spec.gates.after, "after")].concat()
    });
    let rails = members.pools.iter().any(|pool| to.pools.get(*pool).is_some_and(|p| p.rdma_rails > 0));
    let mut checks: Vec<&'static str> = record
        .suite
        .checks
        .iter()
        .filter(|check| check.class != drydock_spec::CheckClass::Rdma || rails)
        .map(|check| check.class.as_str())
        .collect();
    let mut seen = BTreeSet::new();
    checks.retain(|class| seen.insert(*class));
    WaveDraft {
        name: record.waves[index].name.clone(),
        clusters: members
            .nodes
            .iter()
            .map(|id| id.cluster().to_owned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        nodes: count(members.nodes.len()),
        gpus: members.nodes.iter().map(|id| gpus(inventory, id)).sum(),
        class,
        most_nodes,
        most_gpus,
        windows: windows(to, &members.pools),
        checks,
        approvals: approvals.unwrap_or_default(),
        soak: spec.map(|spec| spec.soak.time.to_string()).unwrap_or_default(),
    }
}

/// Windows of the pools' nodes, each once.
fn windows(to: &Fleet, pools: &BTreeSet<&PoolName>) -> Vec<String> {
    let mut found = Vec::new();
    for window in to.calendars.values().flat_map(|calendar| &calendar.windows) {
        let touches = pools
            .iter()
            .filter_map(|name| to.pools.get(*name).map(|pool| (*name, pool)))
            .any(|(name, pool)| window.scope.covers_pool(to, name, pool));
        let text = window_text(window);
        if touches && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// `22:00-06:00 Berlin`, `Sat 06:00 +1d New_York`.
fn window_text(window: &Window) -> String {
    let days: Vec<String> = window.days.iter().map(|day| format!("{day:?}")).collect();
    let days = if days.is_empty() { String::new() } else { format!("{} ", days.join(",")) };
    let minutes = window.length.as_millis() / 60_000;
    let end = window.from.split_once(':').and_then(|(h, m)| {
        let start = h.parse::<u64>().ok()? * 60 + m.parse::<u64>().ok()?;
        let end = (start + minutes) % (24 * 60);
        Some(format!("-{:02}:{:02}", end / 60, end % 60))
    });
    let end = end.filter(|_| minutes < 24 * 60).unwrap_or_else(|| format!(" +{}", window.length));
    // The last part of a zone's name is the town, which is what people call it.
    let zone = window.time_zone.rsplit('/').next().unwrap_or(&window.time_zone);
    format!("{days}{}{end} {zone}", window.from)
}

fn unmoved(
    holds: &[drydock_plan::Wait],
    to: &Fleet,
    changes: &FleetDiff,
    inventory: &Inventory,
    at: Timestamp,
) -> Vec<Unmoved> {
    let when = When::new(at, None);
    let mut found: Vec<Unmoved> = holds
        .iter()
        .map(|wait| Unmoved {
            nodes: wait.nodes,
            why: sentence(&wait.reason, &when),
            reason: Some(wait.reason.clone()),
        })
        .collect();
    for (name, _) in changes.moving() {
        let Some(pool) = to.pools.get(name) else { continue };
        if !to.policies.values().any(|policy| policy.select.selects(to, name, pool)) {
            let nodes = inventory.nodes.values().filter(|node| node.pool.as_ref() == Some(name)).count();
            let why = format!("no RolloutPolicy selects pool {name}, so nothing moves it");
            found.push(Unmoved { nodes: count(nodes), why, reason: None });
        }
    }
    found
}
