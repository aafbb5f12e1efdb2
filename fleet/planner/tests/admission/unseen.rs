//! What isn't seen is counted, kept, and told.

use std::sync::Arc;

use drydock_plan::{
    ApplyItem, CommandKind, NodeId, ObservedCluster, PauseReason, Reason, RolloutState, Step, Target,
};
use serde_json::json;

use super::two::{Two, fleet, own};

#[test]
fn reservations_in_a_silent_cluster_count_in_every_budget() {
    let budget = json!({"maxInFlight": 2});
    let mut two = Two::new(fleet(&[("c1", 4), ("c2", 4)], json!({}), &[budget]), 4);
    two.silence("c1");
    two.pass(0);
    assert_eq!(two.visits(), ["c2/n0", "c2/n1"]);
    // c1 is there again, c2 isn't.
    let whole = Two::new(two.fleet.clone(), 4);
    two.inventory = whole.inventory;
    two.silence("c2");
    two.pass(1);
    assert_eq!(two.visits(), ["c2/n0", "c2/n1"], "two of two are away");
    assert!(two.reasons().iter().any(|r| matches!(r, Reason::BudgetInFlight { used: 2, limit: 2, .. })));
    assert!(two.reasons().iter().any(|r| matches!(r, Reason::ClusterUnreachable { .. })), "and it is said");
}

#[test]
fn clusters_that_are_silent_count_as_under_way() {
    let mut two = Two::new(fleet(&[("c1", 2), ("c2", 2)], json!({"maxClusters": 1}), &[]), 2);
    two.silence("c1");
    two.pass(0);
    assert_eq!(two.visits(), ["c2/n0", "c2/n1"]);
    two.inventory = Two::new(two.fleet.clone(), 2).inventory;
    two.silence("c2");
    two.pass(1);
    assert_eq!(two.visits(), ["c2/n0", "c2/n1"]);
    assert!(two.reasons().iter().any(|r| matches!(r, Reason::ClusterLimit { limit: 1, .. })));
}

#[test]
fn domains_of_nodes_that_are_not_seen_stay_full() {
    let spread = json!({"spread": [{"key": "rack", "max": 1}]});
    let mut two = Two::new(fleet(&[("c1", 2)], spread, &[]), 2);
    two.pass(0);
    assert_eq!(two.visits(), ["c1/n0"], "one of rack r0");
    // The node in flight leaves the list; the cluster has lost sight of it, not of the other one.
    let other = two.inventory.nodes.get(&NodeId::new("c1/n1")).cloned().unwrap();
    two.silence("c1");
    two.inventory.nodes.insert(NodeId::new("c1/n1"), other);
    two.inventory.clusters.insert("c1".parse().unwrap(), ObservedCluster::fresh(two.now));
    two.inventory.clusters.get_mut("c1").unwrap().error = Some("the list broke off".to_owned());
    two.pass(1);
    assert_eq!(two.visits(), ["c1/n0"]);
}

/// A rollout is ended while the cluster is silent, with a node in the middle of its driver.
#[test]
fn a_visit_outlives_an_abort_that_happens_out_of_its_sight() {
    let mut two = Two::new(fleet(&[("c1", 2), ("c2", 2)], json!({}), &[json!({"maxInFlight": 4})]), 2);
    two.pass(0);
    assert_eq!(two.visits().len(), 4);
    for id in ["c2/n0", "c2/n1"] {
        let id = NodeId::new(id);
        let record = two.ledger.nodes.get_mut(&id).unwrap();
        let visit = record.visit.as_mut().unwrap();
        visit.step = Step::Apply(ApplyItem::Component("gpu-driver".parse().unwrap()));
        (visit.drained, visit.changed) = (true, true);
        record.assignment.as_mut().unwrap().exposed = Some(two.now);
    }
    let seen = two.inventory.clone();
    two.silence("c2");
    two.say(CommandKind::Abort { rollout: two.rollout() });
    for _ in 0..5 {
        two.pass(10);
    }
    assert!(matches!(two.state(), RolloutState::Paused(PauseReason::Aborting { .. })), "{:?}", two.state());
    assert!(two.visits().contains(&"c2/n0"));
    // It is back: half a driver, and our cordon.
    two.inventory = seen;
    let epoch = two.ledger.nodes[&NodeId::new("c2/n0")].epoch.0;
    for id in ["c2/n0", "c2/n1"] {
        two.edit(id, |n| n.cordon = own(epoch));
    }
    two.pass(1);
    assert_ne!(two.asked("c2/n0"), Some("return"));
    assert!(two.visits().contains(&"c2/n0"));
}

#[test]
fn a_cluster_that_leaves_git_is_gone_and_the_rollout_goes_on() {
    let mut two = Two::new(fleet(&[("c1", 2), ("c2", 2)], json!({}), &[json!({"maxInFlight": 4})]), 2);
    two.pass(0);
    assert_eq!(two.visits().len(), 4);
    two.fleet = fleet(&[("c1", 2)], json!({}), &[json!({"maxInFlight": 4})]);
    two.inventory.nodes.retain(|id, _| id.cluster() == "c1");
    two.inventory.clusters.retain(|name, _| name.as_str() == "c1");
    two.pass(1);
    assert_eq!(two.visits(), ["c1/n0", "c1/n1"]);
    assert!(two.ledger.nodes.keys().all(|id| id.cluster() == "c1"));
    let told = &two.ledger.rollouts.values().next().unwrap().history;
    assert!(format!("{told:?}").contains("gone from Git"));
}

#[test]
fn an_empty_list_is_an_error_unless_the_cluster_vouches_for_it() {
    let mut two = Two::new(fleet(&[("c1", 1)], json!({}), &[]), 1);
    two.pass(0);
    assert_eq!(two.visits(), ["c1/n0"]);
    two.inventory.nodes.clear();
    two.pass(1);
    assert_eq!(two.visits(), ["c1/n0"], "it may be an error");
    assert!(
        two.reasons().iter().any(
            |r| matches!(r, Reason::ClusterUnreachable { error, .. } if error.contains("lists no nodes"))
        )
    );
    two.inventory.clusters.get_mut("c1").unwrap().empty_is_true = true;
    two.pass(1);
    assert_eq!(two.visits(), Vec::<&str>::new(), "its only node was deleted");
    assert!(two.ledger.nodes.is_empty());
}

#[test]
fn nodes_that_are_documented_and_not_there_loosen_no_floor() {
    let budget = json!({"maxInFlight": 4, "minAvailable": "75%"});
    let mut two = Two::new(fleet(&[("c1", 20)], json!({}), std::slice::from_ref(&budget)), 10);
    two.pass(0);
    assert_eq!(two.visits(), Vec::<&str>::new(), "10 of 20 are there, 15 must stay");
    let floor = |r: &&&Reason| {
        matches!(r, Reason::BudgetFloor { floor: 15, available: 10, broken: 10, missing: 10, spared: 0, .. })
    };
    assert_eq!(two.reasons().iter().filter(floor).count(), 1, "{:?}", two.reasons());
    let mut two = Two::new(fleet(&[("c1", 10)], json!({}), &[budget]), 10);
    two.pass(0);
    assert_eq!(two.visits().len(), 2);
}

#[test]
fn a_floor_says_what_it_spares_not_what_it_might() {
    let budget = json!({"minAvailable": 3, "brokenAllowance": 3});
    let mut two = Two::new(fleet(&[("c1", 4)], json!({}), &[budget]), 4);
    two.edit("c1/n3", |n| n.ready = false);
    two.pass(0);
    let told = |r: &&&Reason| matches!(r, Reason::BudgetFloor { available: 3, broken: 1, spared: 1, .. });
    assert_eq!(two.reasons().iter().filter(told).count(), 1, "{:?}", two.reasons());
}

/// The record is lost and the node still carries drydock's cordon.
#[test]
fn only_a_check_takes_away_a_cordon_that_no_record_explains() {
    let mut two = Two::new(fleet(&[("c1", 1)], json!({}), &[]), 1);
    let new = two.fleet.releases.get("new").unwrap().vector();
    two.edit("c1/n0", |n| {
        n.cordon = own(7);
        n.running = Arc::new(drydock_plan::Stack::new(new));
    });
    two.pass(0);
    assert_ne!(two.asked("c1/n0"), Some("return"), "it may be half changed");
    assert_eq!(two.visits(), ["c1/n0"], "although nothing has to be changed on it");
    let record = &two.ledger.nodes[&NodeId::new("c1/n0")];
    let visit = record.visit.as_ref().unwrap();
    assert!(visit.changed && visit.step == Step::Cordon);
    assert!(two.reasons().contains(&&Reason::UnexplainedCordon {}));
    // A cordon of a visit that ended well came late: it is taken away.
    let mut two = Two::new(fleet(&[("c1", 1)], json!({}), &[]), 1);
    let new = two.fleet.releases.get("new").unwrap().vector();
    two.ledger.nodes.insert(
        NodeId::new("c1/n0"),
        drydock_plan::NodeRecord {
            epoch: drydock_plan::Epoch(7),
            released: drydock_plan::Epoch(7),
            ..drydock_plan::NodeRecord::default()
        },
    );
    two.edit("c1/n0", |n| {
        n.cordon = own(7);
        n.running = Arc::new(drydock_plan::Stack::new(new));
    });
    two.pass(0);
    assert_eq!(two.asked("c1/n0"), Some("return"));
}

#[test]
fn a_machine_that_was_replaced_has_no_past() {
    let mut two = Two::new(fleet(&[("c1", 1)], json!({}), &[]), 1);
    two.pass(0);
    let new = two.fleet.releases.get("new").unwrap().vector().id();
    let id = NodeId::new("c1/n0");
    let record = two.ledger.nodes.get_mut(&id).unwrap();
    record.incidents = 3;
    record.last_known_good = Some(Target { release: new, layout: None });
    let (epoch, generation) = (record.epoch, record.generation);
    two.edit("c1/n0", |n| n.uid = Arc::from("another"));
    two.pass(1);
    let record = &two.ledger.nodes[&id];
    assert_eq!((record.incidents, record.last_known_good.as_ref()), (0, None));
    assert!(record.epoch >= epoch && record.generation > generation);
    assert_eq!(record.place.as_ref().map(|p| p.uid.as_str()), Some("another"));
    assert!(record.assignment.is_some(), "it joins what goes on");
}
