//! What a cluster has once travels with one node.

use drydock_plan::Reason;
use serde_json::json;

use crate::scene::{Pool, Scene};

fn scene(policy: serde_json::Value) -> Scene {
    Scene { pools: vec![Pool::new("p", 4, 8)], policy, scheduler: true, ..Scene::default() }
}

#[test]
fn one_node_carries_it_and_the_others_wait_for_that_one() {
    let outcome = scene(json!({})).pass();
    let admitted = outcome.admitted();
    assert_eq!(admitted.len(), 1, "{admitted:?}");
    let carries = &outcome.after.nodes[admitted[0]].assignment.as_ref().unwrap().carries;
    assert_eq!(carries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["scheduler"]);
    let held = |r: &&Reason| matches!(r, Reason::ClusterComponent { component, held_by } if component.as_str() == "scheduler" && held_by == admitted[0]);
    assert!(outcome.reasons().iter().any(held), "{:?}", outcome.reasons());
    // Without anything shared all of them go.
    let alone = Scene { scheduler: false, ..scene(json!({})) }.pass();
    assert_eq!(alone.admitted().len(), 4);
}

#[test]
fn a_unit_has_one_carrier() {
    let outcome = Scene {
        pools: vec![Pool { domain: 2, ..Pool::new("p", 4, 8) }],
        ..scene(json!({"atomic": ["nvlinkDomain"]}))
    }
    .pass();
    assert_eq!(outcome.admitted().len(), 2);
    let carriers =
        outcome.after.nodes.values().filter(|r| r.assignment.as_ref().is_some_and(|a| !a.carries.is_empty()));
    assert_eq!(carriers.count(), 1);
}
