//! The example fleet, and a driver for it.

use std::{
    fs,
    path::Path,
    sync::{Arc, LazyLock},
};

use drydock_plan::CommitRef;
use drydock_sim::{
    Commit, FaultSpec, Run, RunOptions, Runner, Script, World,
    model::{ModelSize, model_options, with_version},
};
use drydock_spec::{ComponentName, Fleet, Period, SourceFile, Version, load};
use jiff::Timestamp;

/// The driver that is committed.
pub const NEXT: &str = "580.105.08";

static BEFORE: LazyLock<Fleet> = LazyLock::new(|| read("demo"));
static AFTER: LazyLock<Arc<Fleet>> = LazyLock::new(|| Arc::new(with_version(&BEFORE, &driver(), NEXT)));

pub fn driver() -> ComponentName {
    "gpu-driver".parse().unwrap()
}

pub fn next() -> Version {
    Version::new(NEXT)
}

fn read(name: &str) -> Fleet {
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples-repo").join(name);
    let mut files = Vec::new();
    walk(&root, &root, &mut files);
    load(&files).fleet.unwrap()
}

/// The first instant of every run.
pub fn start() -> Timestamp {
    model_options(ModelSize::S, &BEFORE).start
}

/// The driver is committed at the beginning; so many days later at most it is over. Nothing was broken before, and what
/// fails is `faults` alone.
pub fn play(seed: u64, faults: Vec<FaultSpec>, days: u64) -> Run {
    let options = model_options(ModelSize::S, &BEFORE);
    let at = options.start;
    let kernels = ["6.8.0-79-generic", "6.8.0-85-generic"].map(str::to_owned).to_vec();
    let kernels = BEFORE.pools.keys().map(|pool| (pool.clone(), kernels.clone())).collect();
    let options =
        drydock_sim::WorldOptions { kernels, seed, faults, damage: false, ..options }.running_as(&BEFORE);
    let world = World::from_fleet(&AFTER, &options);
    let commit = CommitRef {
        id: "5".repeat(40),
        summary: "driver".to_owned(),
        author: "operator".to_owned(),
        time: at,
    };
    let script =
        Script { commits: vec![Commit { at, fleet: Arc::clone(&AFTER), commit }], commands: Vec::new() };
    let run = RunOptions {
        until: Some(Period::from_hours(24 * days).after(at)),
        // Steps take minutes; looking every ten seconds loses nothing, and a campaign is long.
        quantum: Period::from_secs(10),
        passes_max: 40_000,
        approve_after: Some(Period::from_hours(1)),
        ..RunOptions::default()
    };
    Runner::new(world, script, run).run()
}
