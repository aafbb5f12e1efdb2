#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use drydock_plan::{
    Blame, LedgerChange, NodeId, NodeQuarantine, NodeRecord, ObservedNode, RolloutId, Stack, Target,
};
use drydock_planner::pool_targets;
use drydock_sim::{World, WorldOptions};
use drydock_spec::{ComponentVersion, ReleaseVector, Version};
use jiff::SignedDuration;

use super::*;
use crate::desired::Desired;
use crate::testing::{documents, kept};

/// Facts of a fleet of two pools with four nodes each, after a change of what is observed and recorded.
fn facts(change: impl FnOnce(&mut Inventory, &mut Ledger)) -> Facts {
    let desired = Desired::new(Some(kept("one", documents("580.95.05", 2))), Timestamp::UNIX_EPOCH);
    let in_force = desired.in_force().unwrap();
    let world = World::from_fleet(&in_force.fleet, &WorldOptions::default());
    let (mut inventory, mut ledger) = (world.inventory().clone(), Ledger::default());
    change(&mut inventory, &mut ledger);
    let targets = Arc::new(pool_targets(&in_force.fleet));
    Facts::new(world.now(), in_force, targets, Arc::new(inventory), Arc::new(ledger), Arc::default())
}

fn first(inventory: &mut Inventory) -> (NodeId, &mut ObservedNode) {
    let (id, node) = inventory.nodes.iter_mut().next().unwrap();
    (id.clone(), node)
}

fn other_stack() -> Arc<Stack> {
    let version = ComponentVersion { version: Version::new("1.2.3"), digest: None, config: BTreeMap::new() };
    Arc::new(Stack::new(ReleaseVector(BTreeMap::from([("gpu-driver".parse().unwrap(), version)]))))
}

/// The words of the first node and of the fleet.
fn words(facts: &Facts) -> [String; 4] {
    let id = facts.node_ids().next().unwrap().clone();
    let row = facts.node_row(&id).unwrap();
    let fleet = &facts.overview().fleet;
    [row.sync, fleet.sync]
        .map(|word| word.to_string())
        .into_iter()
        .chain([row.health, fleet.health].map(|w| w.to_string()))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

#[test]
fn words_of_nodes_and_of_the_fleet() {
    let quarantine = NodeQuarantine {
        rollout: RolloutId::new("r"),
        since: Timestamp::UNIX_EPOCH,
        blame: Blame::Node,
        evidence: Vec::new(),
        retry: None,
    };
    let quiet = facts(|_, _| {});
    assert_eq!(words(&quiet), ["Synced", "Synced", "Healthy", "Healthy"]);
    let moved = facts(|inventory, _| first(inventory).1.running = other_stack());
    assert_eq!(words(&moved), ["OutOfSync", "OutOfSync", "Healthy", "Healthy"]);
    let target = quiet.targets.values().next().unwrap().target.clone();
    let drifted = facts(|inventory, ledger| {
        let (id, node) = first(inventory);
        node.running = other_stack();
        let record = NodeRecord { last_known_good: Some(target.clone()), ..NodeRecord::default() };
        ledger.apply(LedgerChange::Node(id, Box::new(record)));
    });
    assert_eq!(words(&drifted), ["Drifted", "Drifted", "Healthy", "Healthy"]);
    let broken = facts(|inventory, _| first(inventory).1.gpus = 7);
    assert_eq!(words(&broken), ["Synced", "Synced", "Degraded", "Degraded"]);
    let held = facts(|inventory, _| first(inventory).1.cordon.foreign = Some("bob".to_owned()));
    assert_eq!(words(&held), ["Synced", "Synced", "Suspended", "Suspended"]);
    let kept_away = facts(|inventory, ledger| {
        let record = NodeRecord { quarantine: Some(quarantine.clone()), ..NodeRecord::default() };
        ledger.apply(LedgerChange::Node(first(inventory).0, Box::new(record)));
    });
    assert_eq!(words(&kept_away), ["Synced", "Synced", "Degraded", "Degraded"]);
    let gone = facts(|inventory, ledger| {
        let id = first(inventory).0;
        inventory.nodes.remove(&id);
        let last_known_good = Some(Target { release: other_stack().id.clone(), layout: None });
        ledger
            .apply(LedgerChange::Node(id, Box::new(NodeRecord { last_known_good, ..NodeRecord::default() })));
    });
    assert_eq!(words(&gone), ["Unknown", "Unknown", "Missing", "Missing"]);
}

#[test]
fn nothing_from_stale_facts_is_synced_or_healthy() {
    for unreachable in [false, true] {
        let facts = facts(|inventory, _| {
            for cluster in inventory.clusters.values_mut() {
                if unreachable {
                    cluster.error = Some("no route to host".to_owned());
                } else {
                    cluster.seen_at -= STALE_AFTER + SignedDuration::from_secs(1);
                }
            }
        });
        let overview = facts.overview();
        let rows = facts.node_ids().filter_map(|id| facts.node_row(id));
        let of_rows: Vec<_> = rows.map(|row| (row.sync, row.health)).collect();
        let of_pools = overview.pools.iter().map(|pool| (pool.sync, pool.health));
        let of_clusters = overview.clusters.iter().map(|cluster| (cluster.sync, cluster.health));
        let fleet = [(overview.fleet.sync, overview.fleet.health)];
        for words in of_rows.into_iter().chain(of_pools).chain(of_clusters).chain(fleet) {
            assert_eq!(words, (Sync::Unknown, Health::Unknown));
        }
        let expected = if unreachable { Freshness::Unreachable } else { Freshness::Stale };
        assert_eq!((overview.clusters[0].freshness, overview.fleet.clusters_not_fresh), (expected, 1));
    }
}

#[test]
fn sums_count_every_node_once() {
    let facts = facts(|inventory, ledger| {
        let (id, node) = first(inventory);
        node.ready = false;
        // Its driver is away: the document still says how many it has.
        node.gpus = 0;
        // In both, and in the ledger only.
        for id in [id, NodeId::new("c01/zz-gone")] {
            ledger.apply(LedgerChange::Node(id, Box::default()));
        }
    });
    let overview = facts.overview();
    let counts = &overview.fleet.counts;
    assert_eq!((counts.nodes, counts.gpus, counts.gpus_in_service), (9, 64, 56));
    assert_eq!(counts.gpus_advertised, 56);
    assert_eq!(counts.health.values().sum::<u32>(), 9);
    let pools: Vec<_> = overview.pools.iter().map(|pool| (pool.name.as_str(), pool.counts.nodes)).collect();
    assert_eq!(pools, [("h100-0", 4), ("h100-1", 4)]);
    assert_eq!(overview.clusters[0].counts.nodes, 9);
    assert!(facts.node_ids().is_sorted() && facts.node_ids().count() == 9);
    assert!(
        facts.why(&NodeId::new("c01/zz-gone")).is_none()
            && facts.why(facts.node_ids().next().unwrap()).is_some()
    );
}
