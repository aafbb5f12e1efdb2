//! Units, partners, and nodes that have only just come.

use drydock_plan::{NodeId, Reason};
use serde_json::json;

use crate::scene::{Outcome, Pool, Scene};

fn names(outcome: &Outcome) -> Vec<&str> {
    outcome.admitted().into_iter().map(NodeId::node).collect()
}

/// A node that became ready less than a minute ago may go again as soon.
#[test]
fn a_node_settles_for_a_minute() {
    let scene = |ready_secs| Scene { pools: vec![Pool::new("p", 2, 8)], ready_secs, ..Scene::default() };
    let early = scene(59).pass();
    assert_eq!(names(&early), [""; 0]);
    let until = scene(59).now + jiff::SignedDuration::from_secs(1);
    assert!(early.reasons().contains(&&Reason::Settling { until }), "{:?}", early.reasons());
    assert_eq!(early.planned.report.wake, Some(until));
    assert_eq!(names(&scene(60).pass()), ["p-000", "p-001"]);
}

/// The other node of a pair check serves, is of the same pool, and isn't taken by the same pass.
#[test]
fn a_partner_stays() {
    let outcome = Scene {
        pools: vec![Pool::new("a", 5, 8), Pool::new("b", 5, 8)],
        budgets: vec![json!({"each": "pool", "maxInFlight": 4})],
        ..Scene::default()
    }
    .pass();
    let admitted = outcome.admitted();
    assert_eq!(admitted.len(), 8);
    for id in admitted {
        let visit = outcome.after.nodes.get(id).and_then(|r| r.visit.as_ref()).unwrap();
        let partner = visit.partner.as_ref().map(NodeId::node);
        let rest = if id.node().starts_with('a') { "a-004" } else { "b-004" };
        assert_eq!(partner, Some(rest), "{id}");
    }
}

/// The nodes of a job go as one unit.
#[test]
fn a_job_goes_as_one() {
    let scene = |max| Scene {
        pools: vec![Pool::new("p", 6, 8)],
        budgets: vec![json!({"maxInFlight": max})],
        gang: vec!["p-001", "p-002", "p-003"],
        ..Scene::default()
    };
    let outcome = scene(6).pass();
    assert_eq!(names(&outcome).len(), 6);
    let units: std::collections::BTreeSet<_> =
        outcome.after.nodes.values().filter_map(|r| r.visit.as_ref()).map(|v| v.unit.to_string()).collect();
    assert_eq!(units.into_iter().collect::<Vec<_>>(), ["c/p-000", "c/p-004", "c/p-005", "gang/job"]);
    // The single nodes come first and leave room for two of the three: none of them goes.
    let outcome = scene(5).pass();
    assert_eq!(names(&outcome), ["p-000", "p-004", "p-005"]);
    let line = outcome.after.rollouts.values().find_map(|r| r.head_of_line.as_ref()).unwrap();
    assert_eq!(line.unit.as_str(), "gang/job");
}

/// A job that no budget ever lets go as one says so with its name and the limit, and doesn't hold the others.
#[test]
fn a_job_too_large_is_named() {
    let outcome = Scene {
        pools: vec![Pool::new("p", 6, 8)],
        budgets: vec![json!({"maxInFlight": 2})],
        gang: vec!["p-001", "p-002", "p-003"],
        ..Scene::default()
    }
    .pass();
    assert_eq!(names(&outcome), ["p-000", "p-004"]);
    let why = outcome.reasons().into_iter().find_map(|r| match r {
        Reason::Rejected { why } => Some(why.clone()),
        _ => None,
    });
    let why = why.unwrap();
    assert!(why.contains("job job moves as one") && why.contains("allows 2 in flight"), "{why}");
    assert!(outcome.after.rollouts.values().all(|r| r.head_of_line.is_none()));
}

/// Nodes of a job that are through don't hold its other nodes.
#[test]
fn a_job_over_done_and_waiting_nodes() {
    let outcome = Scene {
        pools: vec![Pool::new("p", 4, 8)],
        gang: vec!["p-000", "p-001", "p-002"],
        moved: 1,
        ..Scene::default()
    }
    .pass();
    assert_eq!(names(&outcome), ["p-001", "p-002", "p-003"]);
}

/// A job that the policy wants to end by itself isn't touched, even where it is seen on one node only.
#[test]
fn a_job_is_avoided() {
    let outcome = Scene {
        pools: vec![Pool::new("p", 3, 8)],
        gang: vec!["p-001"],
        policy: json!({"drain": {"gangs": "avoid"}}),
        ..Scene::default()
    }
    .pass();
    assert_eq!(names(&outcome), ["p-000", "p-002"]);
}
