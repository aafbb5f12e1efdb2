//! Writing a world down and reading it again changes nothing, wherever it happens.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{apply, fleet, order};
use drydock_plan::{Action, Ensure, Epoch, Generation, NodeId};
use drydock_sim::{Draw, FaultSpec, Snapshot, Workload, World, WorldOptions};
use drydock_spec::{CheckClass, Period};
use proptest::prelude::*;

const FAULTS: &str = "
- badVersion: {component: gpu-driver, version: \"580.2\", where: {pool: train}, how: {readyButBroken: {check: driver}}}
- badVersion: {component: plugin, version: \"0.18\", how: {faultsLater: {kind: xid-95, after: 20m}}}
- nodeLost: {node: c1/train-002, at: \"2026-03-02T09:30:00Z\", backAfter: 20m}
- clusterUnreachable: {cluster: c2, at: \"2026-03-02T10:00:00Z\", for: 30m}
- staleReads: {cluster: c1, at: \"2026-03-02T10:00:00Z\", for: 1h, lag: 3m}
- spontaneous: {perGpuDay: 0.3}
- refusedWrites: {probability: 0.1}
- lostWrites: {probability: 0.1}
- doubledWrites: {probability: 0.2}
- foreignCordon: {node: c1/train-004, at: \"2026-03-02T09:20:00Z\", for: 1h}
- nodeDeleted: {node: c2/infer-003, at: \"2026-03-02T09:40:00Z\"}
- nodeRecreated: {node: c2/infer-003, at: \"2026-03-02T10:40:00Z\"}
- relabel: {node: c2/infer-001, at: \"2026-03-02T10:10:00Z\", label: pool, value: other}
";

fn ensure(pick: u64, gangs: Vec<drydock_plan::GangId>) -> Ensure {
    let checks = vec![order("vector-add", CheckClass::Driver), order("all-reduce", CheckClass::Rdma)];
    match pick {
        0 => Ensure::Cordoned,
        1 => Ensure::Drained { rules: Default::default() },
        2 => Ensure::Returned,
        3 => apply("gpu-driver", "580.2"),
        4 => apply("plugin", "0.18"),
        5 => apply("gpu-driver", "570.1"),
        6 => Ensure::Checked { checks },
        _ => Ensure::Checkpointed { gangs },
    }
}

/// Random intents at random instants; at steps in `cuts` the world is replaced by what was written down of it.
fn run(seed: u64, steps: u64, cuts: &[u64]) -> Snapshot {
    let fleet = fleet("old");
    let options = WorldOptions {
        seed,
        faults: FaultSpec::list(FAULTS).unwrap(),
        workload: Some(Workload::default()),
        ..WorldOptions::default()
    };
    let mut world = World::from_fleet(&fleet, &options);
    let mut kept = world.snapshot();
    let _ = world.changes();
    let names: Vec<NodeId> = world.inventory().nodes.keys().cloned().collect();
    for step in 0..steps {
        let draw = Draw::new(seed).text("step").number(step);
        let id = names.get(draw.text("node").between(0, names.len() as u64 - 1) as usize).unwrap();
        let gangs = world.inventory().nodes.get(id).map(|node| node.work.gangs.clone()).unwrap_or_default();
        let ensure = ensure(draw.text("what").between(0, 7), gangs);
        let action = Action {
            node: id.clone(),
            generation: Generation(step + 1),
            epoch: Epoch(1 + step / 50),
            ensure,
        };
        let _ = world.execute(&action);
        let next = Period::from_secs(draw.text("wait").between(0, 240)).after(world.now());
        world.advance(next);
        kept.apply(world.changes());
        if cuts.contains(&step) {
            let text = serde_json::to_string(&kept).unwrap();
            world = World::restore(serde_json::from_str(&text).unwrap(), &fleet);
        }
    }
    assert_eq!(kept, world.snapshot(), "what was written down piece by piece is the whole");
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn restored_worlds_go_on_alike(seed in 0u64..1_000, cuts in prop::collection::vec(0u64..120, 1..5)) {
        prop_assert_eq!(run(seed, 120, &[]), run(seed, 120, &cuts));
    }
}

#[test]
fn equal_vectors_stay_shared_after_reading() {
    let fleet = fleet("old");
    let world = World::from_fleet(&fleet, &WorldOptions::default());
    let text = serde_json::to_string(&world.snapshot()).unwrap();
    let world = World::restore(serde_json::from_str(&text).unwrap(), &fleet);
    let first = &world.inventory().nodes.values().next().unwrap().running;
    assert!(world.inventory().nodes.values().all(|node| std::sync::Arc::ptr_eq(&node.running, first)));
    assert_eq!(world.inventory().nodes.len(), 14);
}
