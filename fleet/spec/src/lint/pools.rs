//! Pools: who is in them, what is in their nodes.

use std::collections::{BTreeMap, BTreeSet};

use drydock_gpu::model;

use super::{Lint, Pool};
use crate::{
    document::Kind,
    kinds::{ComponentClass, Delivery, PoolSpec},
    rule::RuleId,
};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let checks: BTreeSet<&str> =
        fleet.suites.values().flat_map(|s| s.checks.iter().map(|c| c.name.as_str())).collect();
    let cuts = fleet
        .components
        .values()
        .any(|c| c.class == ComponentClass::PartitionManager && matches!(c.delivery, Delivery::Label(_)));
    for (name, pool) in &fleet.pools {
        let document = (Kind::GpuNodePool, name.as_str());
        if pool.node_selector.is_empty() {
            let message = "an empty selector would take every node of the cluster".to_owned();
            lint.at(document, path!["nodeSelector"], RuleId::EmptySelector, message, None);
        }
        if lint.model(&pool.gpu.model).is_none() {
            let hint = model::nearest(&pool.gpu.model).map(|near| format!("did you mean `{near}`?"));
            let hint = hint.or_else(|| {
                let known: Vec<&str> = model::ALL.iter().map(|m| m.name).collect();
                Some(format!("known are {}", known.join(", ")))
            });
            let message = format!("GPU model `{}` isn't in the catalogue", pool.gpu.model);
            lint.at(document, path!["gpu", "model"], RuleId::UnknownGpuModel, message, hint);
        }
        if pool.gpu.count == 0 {
            lint.at(
                document,
                path!["gpu", "count"],
                RuleId::NoGpus,
                "a GPU node has at least one GPU".to_owned(),
                None,
            );
        }
        if let (Some(min), Some(max)) = (pool.nodes.min, pool.nodes.max)
            && min > max
        {
            let message = format!("at least {min} nodes and at most {max} can't both hold");
            lint.at(document, path!["nodes", "min"], RuleId::NodeBounds, message, None);
        }
        floors(lint, (name, pool), &checks);
        if pool.layout.is_some() && !cuts && lint.is_complete() {
            let message = "the fleet has no component that could lay the GPUs out".to_owned();
            let hint = "add a Component of class partitionManager with delivery: {label: {set: nvidia.com/mig.config, \
                        state: nvidia.com/mig.config.state}}"
                .to_owned();
            lint.at(document, path!["layout"], RuleId::LayoutWithoutAgent, message, Some(hint));
        }
    }
    overlaps(lint);
}

fn floors(lint: &mut Lint<'_, '_>, (name, pool): Pool<'_>, checks: &BTreeSet<&str>) {
    let document = (Kind::GpuNodePool, name.as_str());
    for (check, floor) in &pool.floors {
        if !floor.is_finite() || *floor < 0.0 {
            let message = format!("floor {floor} can't be compared with");
            lint.at(document, path!["floors", check.as_str()], RuleId::OutOfRange, message, None);
        }
        if !checks.contains(check.as_str()) && lint.is_complete() {
            let hint = lint.nearest(check.as_str(), checks.iter().copied());
            let message = format!("no suite has a check `{check}`");
            let place = (path!["floors"] as &[_], check.as_str());
            lint.at_key(document, place, RuleId::FloorOfUnknownCheck, message, hint);
        }
    }
}

/// Two pools of one cluster of which one selects all that the other does. Each pool is named once, with the first
/// that it overlaps.
fn overlaps(lint: &mut Lint<'_, '_>) {
    let clusters: Vec<Vec<Pool<'_>>> = lint.by_cluster.values().cloned().collect();
    for pools in clusters {
        let mut frequency: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (_, pool) in &pools {
            pairs(pool).for_each(|pair| *frequency.entry(pair).or_default() += 1);
        }
        // Each selector under its rarest label: whoever contains the selector contains that label, so only a few
        // need to be compared, where comparing all with all would take minutes for a large cluster.
        let mut under: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (i, (_, pool)) in pools.iter().enumerate() {
            if let Some(rarest) = pairs(pool).min_by_key(|pair| frequency.get(pair)) {
                under.entry(rarest).or_default().push(i);
            }
        }
        let mut named = BTreeSet::new();
        for (wide, (_, pool)) in pools.iter().enumerate() {
            let inside = |&&i: &&usize| {
                i != wide
                    && pools[i].1.node_selector.iter().all(|(k, v)| pool.node_selector.get(k) == Some(v))
            };
            let Some(&narrow) = pairs(pool).filter_map(|pair| under.get(&pair)).flatten().find(inside) else {
                continue;
            };
            let (first, later) = (wide.min(narrow), wide.max(narrow));
            if !named.insert(later) {
                continue;
            }
            let same = pools[narrow].1.node_selector.len() == pool.node_selector.len();
            let how = if same { "selects the same nodes as" } else { "can select nodes of" };
            let (other, _) = pools[first];
            let message =
                format!("pool `{}` {how} pool `{other}` in cluster {}", pools[later].0, pool.cluster);
            let hint = Some("give one of them a label that the other's nodes don't have".to_owned());
            let document = (Kind::GpuNodePool, pools[later].0.as_str());
            lint.at(document, path!["nodeSelector"], RuleId::PoolsOverlap, message, hint);
        }
    }
}

fn pairs(pool: &PoolSpec) -> impl Iterator<Item = (&str, &str)> {
    pool.node_selector.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}
