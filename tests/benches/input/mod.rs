//! What the benches look at: the example fleets, copied up to size.

use std::{fs, path::Path, sync::Arc};

use drydock_plan::{CommitRef, Inventory, Ledger, Planned};
use drydock_planner::{Input, plan};
use drydock_sim::{
    Commit, RunOptions, Runner, Script, World,
    model::{ModelSize, model_options, scale, with_version},
};
use drydock_spec::{Fleet, Period, SourceFile, load};

/// The driver the rollouts of the benches bring.
const NEXT: &str = "580.105.08";

fn read(fleet: &str) -> Vec<SourceFile> {
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples-repo").join(fleet);
    let mut files = Vec::new();
    walk(&root, &root, &mut files);
    files
}

fn fleet(name: &str) -> Fleet {
    load(&read(name)).fleet.unwrap()
}

/// At least so many documents: the demo fleet with copies of its clusters and pools, in files of their own.
pub(crate) fn documents(at_least: usize) -> Vec<SourceFile> {
    let mut files = read("demo");
    // The waves of the demo name its two clusters; somebody has to take the copies.
    for file in files.iter_mut().filter(|f| f.path.starts_with("policies/")) {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        file.bytes = text.replace("\n  maxClusters:", "\n    - name: copies\n  maxClusters:").into_bytes();
    }
    let one = load(&files).documents;
    let copied: Vec<SourceFile> = files
        .iter()
        .filter(|f| f.path.starts_with("clusters/") || f.path.starts_with("pools/"))
        .cloned()
        .collect();
    let many = load(&copied).documents;
    for copy in 0..at_least.saturating_sub(one).div_ceil(many) {
        for file in &copied {
            let text = String::from_utf8(file.bytes.clone()).unwrap();
            let named = |line: &str| line.starts_with("  name: ") || line.starts_with("  cluster: ");
            let lines =
                text.lines().map(|l| if named(l) { format!("{l}-x{copy}\n") } else { format!("{l}\n") });
            files.push(SourceFile {
                path: format!("copies/{copy}/{}", file.path),
                bytes: lines.collect::<String>().into_bytes(),
            });
        }
    }
    files
}

fn size(copies: u32) -> ModelSize {
    if copies == ModelSize::Xl.copies() { ModelSize::Xl } else { ModelSize::L }
}

fn commit(at: jiff::Timestamp, fleet: &Arc<Fleet>, id: char) -> Commit {
    let commit = CommitRef {
        id: id.to_string().repeat(40),
        summary: "a bench".to_owned(),
        author: "bench".to_owned(),
        time: at,
    };
    Commit { at, fleet: Arc::clone(fleet), commit }
}

/// The model fleet as it is found, and a commit that moves every pool whose driver is drydock's.
pub(crate) fn whole(copies: u32) -> (World, Script) {
    let old = scale(&fleet("model"), copies);
    let new = with_version(&old, &"gpu-driver".parse().unwrap(), NEXT);
    let options = model_options(size(copies), &old);
    let (start, new) = (options.start, Arc::new(new));
    let script = Script { commits: vec![commit(start, &new, 'b')], commands: Vec::new() };
    (World::from_fleet(&old, &options), script)
}

/// A whole run as a forecast makes it: everybody approves at once, and what happens within a minute is seen together.
/// A rollout that passes its own deadline would wait for a person, so the run ends after that at the latest.
pub(crate) fn forecast(start: jiff::Timestamp) -> RunOptions {
    RunOptions {
        quantum: Period::from_mins(1),
        until: Some(Period::from_hours(60 * 24).after(start)),
        checked: false,
        approve_after: Some(Period::from_secs(1)),
        ..RunOptions::default()
    }
}

/// Everything a pass looks at, at one moment of a run.
pub(crate) struct Moment {
    fleet: Arc<Fleet>,
    commit: CommitRef,
    world: World,
    ledger: Ledger,
}

impl Moment {
    /// The fleet runs what Git says.
    pub(crate) fn still(copies: u32) -> Self {
        let fleet = Arc::new(scale(&fleet("model"), copies));
        let options = model_options(size(copies), &fleet);
        Self::after(
            World::from_fleet(&fleet, &options),
            commit(options.start, &fleet, 'a'),
            Period::from_mins(10),
        )
    }
    /// In a rollout to the whole fleet, at the first moment at which many nodes are out.
    pub(crate) fn under_way(copies: u32) -> Self {
        let (world, script) = whole(copies);
        let mut moment = Self::after(world, script.commits[0].clone(), Period::from_mins(5));
        for _ in 0..288 {
            if moment.in_flight() >= 10 {
                eprintln!("{} nodes in flight at {}", moment.in_flight(), moment.world.now());
                return moment;
            }
            moment = moment.later(Period::from_mins(5));
        }
        panic!("two days in, hardly anything is in flight: there is nothing to measure");
    }
    fn in_flight(&self) -> usize {
        self.ledger.nodes.values().filter(|node| node.visit.is_some()).count()
    }
    fn after(world: World, commit: Commit, time: Period) -> Self {
        let Commit { fleet, commit, .. } = commit;
        Self { fleet, commit, world, ledger: Ledger::default() }.later(time)
    }
    fn later(self, time: Period) -> Self {
        let Self { fleet, commit, world, ledger } = self;
        let at = world.now();
        let options = RunOptions {
            until: Some(time.after(at)),
            // Coarse on the way there: only the end is looked at.
            quantum: Period::from_mins(1),
            checked: false,
            approve_after: Some(Period::from_secs(1)),
            ..RunOptions::default()
        };
        let commits = vec![Commit { at, fleet: Arc::clone(&fleet), commit: commit.clone() }];
        let run = Runner::resume(world, ledger, Script { commits, commands: Vec::new() }, options).run();
        Self { fleet, commit, world: run.world, ledger: run.ledger }
    }
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            fleet: &self.fleet,
            commit: &self.commit,
            inventory: self.world.inventory(),
            ledger: &self.ledger,
            now: self.world.now(),
        }
    }
    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }
    pub(crate) fn inventory(&self) -> &Inventory {
        self.world.inventory()
    }
    /// A plan, and the ledger after it.
    pub(crate) fn planned(&self) -> (Planned, Ledger) {
        let planned = plan(&self.input());
        let mut after = self.ledger.clone();
        planned.plan.changes.iter().cloned().for_each(|change| after.apply(change));
        (planned, after)
    }
}
