//! The worked examples of the rules of admission.

use drydock_plan::Reason;
use serde_json::json;

use crate::scene::{Pool, Scene};

/// A floor of 95 % of 288 nodes keeps 274; broken nodes count against it, but for the allowance.
#[test]
fn a_floor_with_broken_nodes() {
    for (broken, allowance, admitted) in [(20, 0, 0), (20, 20, 14), (25, 0, 0), (25, 20, 9), (25, 25, 14)] {
        let outcome = Scene {
            pools: vec![Pool { dead: broken, ..Pool::new("p", 288, 8) }],
            budgets: vec![json!({"minAvailable": "95%", "brokenAllowance": allowance})],
            ..Scene::default()
        }
        .pass();
        assert_eq!(outcome.admitted().len(), admitted, "{broken} broken, {allowance} allowed");
        let refused =
            outcome.reasons().into_iter().any(|r| matches!(r, Reason::BudgetFloor { floor: 274, .. }));
        assert!(refused, "the floor is named: {:?}", outcome.reasons());
    }
}

/// 800 GPUs, 92 % of them stay, 16 in flight.
#[test]
fn b_gpus_as_unit() {
    for (broken, allowance, admitted, rule) in [
        (3, 0, 2, "budgetInFlight"),
        (7, 0, 1, "budgetFloor"),
        (8, 0, 0, "budgetFloor"),
        (8, 20, 2, "budgetInFlight"),
    ] {
        let outcome = Scene {
            pools: vec![Pool { dead: broken, ..Pool::new("p", 100, 8) }],
            budgets: vec![json!({
                "unit": "gpus", "minAvailable": "92%", "maxInFlight": 16, "brokenAllowance": allowance})],
            ..Scene::default()
        }
        .pass();
        assert_eq!(outcome.admitted().len(), admitted, "{broken} broken, {allowance} allowed");
        assert!(outcome.reasons().iter().any(|r| r.word() == rule), "{rule}: {:?}", outcome.reasons());
    }
}

/// What is broken already takes nothing away: this is how a fix reaches nodes the last release broke.
#[test]
fn b_broken_nodes_may_go() {
    let outcome = Scene {
        pools: vec![Pool { cordoned: 8, ..Pool::new("p", 100, 8) }],
        budgets: vec![json!({"unit": "gpus", "minAvailable": "92%", "maxInFlight": 16})],
        policy: json!({"foreignCordon": "opportunistic"}),
        ..Scene::default()
    }
    .pass();
    let admitted: Vec<&str> = outcome.admitted().into_iter().map(|id| id.node()).collect();
    assert_eq!(admitted, ["p-092", "p-093"]);
}

/// Maxima round down, minima up, and what rounds to nothing is said at once.
#[test]
fn c_rounding() {
    let scene = |nodes, budget| Scene {
        pools: vec![Pool::new("p", nodes, 8)],
        budgets: vec![budget],
        ..Scene::default()
    };
    let nothing = scene(10, json!({"maxInFlight": "5%"})).pass();
    assert!(nothing.rejected().unwrap().contains("budget b0"), "{:?}", nothing.rejected());
    assert_eq!(nothing.admitted().len(), 0);
    let one = scene(10, json!({"maxInFlight": "5%", "atLeastOne": true})).pass();
    assert_eq!((one.rejected(), one.admitted().len()), (None, 1));
    assert_eq!(scene(90, json!({"minAvailable": "92%"})).pass().admitted().len(), 7, "83 of 90 stay");
    assert_eq!(scene(39, json!({"maxInFlight": "5%"})).pass().admitted().len(), 1, "1.95 is one");
    let gpus = json!({"unit": "gpus", "maxInFlight": "5%", "atLeastOne": true});
    assert_eq!(scene(10, gpus).pass().admitted().len(), 1, "4 of 80 GPUs are no node, so it is one");
}

/// At least one is one node, also where larger ones are about.
#[test]
fn c_at_least_one_is_one_node() {
    let outcome = Scene {
        pools: vec![Pool::new("large", 1, 8), Pool::new("small", 3, 1)],
        budgets: vec![
            json!({"scope": {"pools": ["small"]}, "unit": "gpus", "maxInFlight": "20%", "atLeastOne": true}),
            json!({"scope": {"pools": ["large"]}, "maxInFlight": 1}),
        ],
        ..Scene::default()
    }
    .pass();
    let admitted: Vec<&str> = outcome.admitted().into_iter().map(|id| id.node()).collect();
    assert_eq!(admitted, ["large-000", "small-000"]);
}

/// Friday 22:00 for six hours is open on Saturday at 01:00 and closed on Friday at 01:00.
#[test]
fn d_overnight_window() {
    let at = |now: &str| Scene {
        pools: vec![Pool::new("p", 4, 8)],
        calendar: Some(json!({"mustFit": "no", "windows": [
            {"days": ["fri"], "from": "22:00", "for": "6h", "timeZone": "UTC"}]})),
        now: now.parse().unwrap(),
        ..Scene::default()
    };
    // 2026-08-22 is a Saturday.
    assert_eq!(at("2026-08-22T01:00:00Z").pass().admitted().len(), 4);
    let closed = at("2026-08-21T01:00:00Z").pass();
    assert_eq!(closed.admitted().len(), 0);
    let opens = Some("2026-08-21T22:00:00Z".parse().unwrap());
    let told =
        closed.reasons().into_iter().any(|r| matches!(r, Reason::Window { opens: o, .. } if *o == opens));
    assert!(told, "{:?}", closed.reasons());
    assert_eq!(closed.planned.report.wake, opens);
}

/// An hour is left and nine of ten need an hour and a half: refused, with the next opening.
#[test]
fn e_fit() {
    let scene = |p90| Scene {
        pools: vec![Pool::new("p", 4, 8)],
        // With ten minutes for everything around it.
        p90,
        calendar: Some(json!({"mustFit": "p90", "windows": [
            {"days": [], "from": "08:00", "for": "2h", "timeZone": "UTC"}]})),
        ..Scene::default()
    };
    let refused = scene("80m").pass();
    assert_eq!(refused.admitted().len(), 0);
    let told = refused.reasons().into_iter().any(|reason| match reason {
        Reason::WindowTooShort { closes, needs, opens, .. } => {
            *closes == "2026-03-02T10:00:00Z".parse().unwrap()
                && *needs == drydock_spec::Period::from_mins(90)
                && *opens == Some("2026-03-03T08:00:00Z".parse().unwrap())
        }
        _ => false,
    });
    assert!(told, "{:?}", refused.reasons());
    assert_eq!(scene("50m").pass().admitted().len(), 4, "exactly as long as is left");
}

/// 72 GPUs that move together never fit 16 in flight.
#[test]
fn f_too_heavy() {
    let scene = |budget| Scene {
        pools: vec![Pool::new("p", 36, 4)],
        budgets: vec![budget],
        policy: json!({"atomic": ["nvlinkDomain"]}),
        ..Scene::default()
    };
    let outcome = scene(json!({"unit": "gpus", "maxInFlight": 16})).pass();
    assert_eq!(outcome.admitted().len(), 0);
    let why = outcome.rejected().unwrap();
    assert!(why.contains("72") && why.contains("b0") && why.contains("16"), "{why}");
    let whole = scene(json!({"unit": "gpus", "maxInFlight": 16, "atLeastDomain": "nvlinkDomain"})).pass();
    assert_eq!((whole.rejected(), whole.admitted().len()), (None, 18));
}

/// A budget that only rollback meets is found out before anything moves.
#[test]
fn f_too_heavy_on_the_way_back() {
    let outcome = Scene {
        pools: vec![Pool::new("p", 4, 8)],
        budgets: vec![json!({"unit": "gpus", "maxInFlight": 4, "reasons": ["repartition"]})],
        ..Scene::default()
    }
    .pass();
    assert!(outcome.rejected().unwrap().contains("b0"));
}
