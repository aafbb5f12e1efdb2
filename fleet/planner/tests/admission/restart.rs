//! The first pass after a restart, when clusters haven't answered yet.

use drydock_plan::{CommitRef, Inventory, ObservedCluster, RolloutState};
use drydock_planner::{Input, plan};

use super::scene::{Pool, START, Scene};

#[test]
fn what_a_cluster_hasnt_shown_yet_isnt_settled() {
    let scene = Scene { pools: vec![Pool::new("a", 4, 8)], ..Scene::default() };
    let first = scene.pass();
    assert!(!first.admitted().is_empty());
    let silent =
        ObservedCluster { error: Some("not connected yet".to_owned()), ..ObservedCluster::fresh(START) };
    let unknown = Inventory::default();
    for clusters in [[("c".parse().unwrap(), silent)].into(), unknown.clusters.clone()] {
        let inventory = Inventory { clusters, ..Inventory::default() };
        let commit =
            CommitRef { id: "1".repeat(40), summary: "new".into(), author: "op".into(), time: START };
        let input = Input {
            fleet: &first.fleet,
            commit: &commit,
            inventory: &inventory,
            ledger: &first.after,
            now: START,
        };
        let planned = plan(&input);
        let mut after = first.after.clone();
        planned.plan.changes.into_iter().for_each(|change| after.apply(change));
        let rollout = after.rollouts.values().next().unwrap();
        assert_eq!(rollout.state, RolloutState::Running, "{:?}", rollout.history);
        assert_eq!(after.nodes, first.after.nodes);
    }
}
