//! The example documents make the fleets they are meant to make.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::{path::Path, sync::Arc};

use common::commit_of;
use drydock_sim::{
    RunOptions, Runner, Script, World, WorldOptions,
    model::{ModelSize, model_options, scale, with_version},
};
use drydock_spec::{Fleet, Period, SourceFile, load};

fn read(folder: &Path, root: &Path, into: &mut Vec<SourceFile>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, root, into);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            into.push(SourceFile {
                path: path.strip_prefix(root).unwrap().to_string_lossy().into_owned(),
                bytes,
            });
        }
    }
}

fn example(name: &str) -> Fleet {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples-repo").join(name);
    let mut files = Vec::new();
    read(&root, &root, &mut files);
    let loaded = load(&files);
    assert!(loaded.fleet.is_some(), "{:?}", loaded.diagnostics);
    loaded.fleet.unwrap()
}

#[test]
fn the_demo_is_the_small_model_fleet() {
    let fleet = example("demo");
    let world = World::from_fleet(&fleet, &model_options(ModelSize::S, &fleet));
    let inventory = world.inventory();
    assert_eq!((inventory.nodes.len(), inventory.clusters.len()), (184, 2));
    assert!(inventory.nodes.values().all(|node| node.pool.is_some()));
    let cordoned = inventory.nodes.values().filter(|node| node.cordon.foreign.is_some()).count();
    assert_eq!(cordoned, 2);
    assert_eq!(inventory.nodes.values().filter(|node| !node.ready).count(), 1);
}

#[test]
fn the_model_is_the_large_model_fleet_and_ten_of_it_are_the_largest() {
    let fleet = example("model");
    let world = World::from_fleet(&fleet, &model_options(ModelSize::L, &fleet));
    assert_eq!((world.inventory().nodes.len(), world.inventory().clusters.len()), (3000, 12));
    assert!(world.inventory().gangs.len() > 100, "{}", world.inventory().gangs.len());
    let large = scale(&fleet, ModelSize::Xl.copies());
    let world = World::from_fleet(&large, &model_options(ModelSize::Xl, &large));
    assert_eq!((world.inventory().nodes.len(), world.inventory().clusters.len()), (30_000, 120));
    assert!(world.inventory().nodes.values().all(|node| node.pool.is_some()));
    let policy = |fleet: &Fleet, pool: &str| {
        let (name, pool) = fleet.pools.get_key_value(pool).unwrap();
        fleet.policies.iter().find(|(_, p)| p.select.selects(fleet, name, pool)).map(|(name, _)| name.clone())
    };
    for name in fleet.pools.keys() {
        assert_eq!(policy(&large, name.as_str()), policy(&large, &format!("{name}-x7")), "{name}");
    }
}

#[test]
fn the_demo_moves_to_another_driver() {
    let fleet = example("demo");
    let driver = fleet
        .components
        .iter()
        .find(|(_, component)| component.class == drydock_spec::ComponentClass::GpuDriver)
        .map(|(name, _)| name.clone())
        .unwrap();
    let next = with_version(&fleet, &driver, "590.48.01");
    // Without damage: on the four-node pools of staging one cordoned node already takes what their floor allows.
    let options = WorldOptions { damage: false, ..model_options(ModelSize::S, &fleet) };
    let world = World::from_fleet(&fleet, &options);
    let script =
        Script { commits: vec![commit_of(options.start, Arc::new(next), "b")], commands: Vec::new() };
    let run = RunOptions { quantum: Period::from_secs(30), ..RunOptions::default() };
    let run = Runner::new(world, script, run).run();
    let mut short = run.summary.clone();
    short.timeline.clear();
    let text = serde_json::to_string_pretty(&short).unwrap();
    if std::env::var_os("SHOW").is_some() {
        for line in &run.summary.timeline {
            eprintln!("{} {}", line.at, line.text);
        }
        eprintln!("{text}\n{:#?}", run.report);
    }
    assert_eq!(short.invariant_violations, Vec::<String>::new());
    assert_eq!(short.budget_violations, Vec::<String>::new());
    assert!(short.outcome.values().all(|word| word == "Succeeded"), "{text}");
    assert!(short.nodes_on_target > 170, "{text}");
    assert!(short.gang_interruptions.moved + short.gang_interruptions.cut < 100, "{text}");
    assert_eq!(short.nodes_cordoned_by_drydock_at_end, short.nodes_quarantined, "{text}");
}
