//! A good driver on the example fleet while hardware fails at the usual rate: every rollout comes to its end. Jobs run
//! over nodes that are done and nodes that wait, and small pools lose a node; neither may hold the others.

use std::{fs, path::Path, sync::Arc};

use drydock_plan::CommitRef;
use drydock_sim::{
    Commit, FaultSpec, RunOptions, Runner, Script, World, WorldOptions,
    model::{ModelSize, model_options},
};
use drydock_spec::{Fleet, Period, SourceFile, load};

use crate::golden;

/// Hardware faults of a GPU on a day, as a large training run has published them.
const PER_GPU_DAY: f64 = 0.000_47;

/// Seeds in which a rollout of the example fleet once never came to its end.
const SEEDS: [u64; 8] = [4, 6, 40, 42, 52, 70, 137, 138];

fn example(driver: &str) -> Fleet {
    fn walk(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push(SourceFile { path: name, bytes: fs::read(&path).unwrap() });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples-repo/demo");
    let mut files = Vec::new();
    walk(&root, &root, &mut files);
    for file in files.iter_mut().filter(|f| f.path == "releases/driver.yaml") {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        file.bytes = text.replace("580.95.05", driver).into_bytes();
    }
    load(&files).fleet.unwrap()
}

/// Plays one seed: what didn't end, and what it waits for.
fn play(seed: u64, from: &Fleet, to: &Fleet) -> Vec<String> {
    let faults = vec![FaultSpec::Spontaneous { per_gpu_day: PER_GPU_DAY }];
    let options = WorldOptions { seed, faults, damage: false, ..model_options(ModelSize::S, to) };
    let start = options.start;
    let world = World::from_fleet(to, &options.running_as(from));
    let commit = CommitRef {
        id: "1".repeat(40),
        summary: "a new driver".to_owned(),
        author: "operator".to_owned(),
        time: start,
    };
    let commits = vec![Commit { at: start, fleet: Arc::new(to.clone()), commit }];
    let run = RunOptions {
        quantum: Period::from_secs(30),
        until: Some(Period::from_hours(14 * 24).after(start)),
        approve_after: Some(Period::from_hours(1)),
        ..RunOptions::default()
    };
    let run = Runner::new(world, Script { commits, commands: Vec::new() }, run).run();
    let summary = &run.summary;
    let broken = summary.invariant_violations.iter().chain(&summary.budget_violations).cloned();
    let unfinished = summary.outcome.iter().filter(|(_, word)| *word == "Unfinished");
    let waits = || golden::waits(&run).join("; ");
    broken.chain(unfinished.map(|(id, _)| format!("{id}: {}", waits()))).collect()
}

#[test]
fn a_good_driver_ends_at_the_usual_fault_rate() {
    let seeds: Vec<u64> = match crate::told("DRYDOCK_SEEDS") {
        Some(count) => (1..=count.parse().unwrap()).collect(),
        None => SEEDS.to_vec(),
    };
    let (from, to) = (example("580.95.05"), example("580.105.08"));
    let mut wrong = Vec::new();
    for seed in seeds {
        wrong.extend(play(seed, &from, &to).into_iter().map(|what| format!("seed {seed}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
