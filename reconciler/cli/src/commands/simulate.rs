//! `drydock simulate`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use drydock_plan::CommitRef;
use drydock_sim::model::{ModelSize, model_options, scale};
use drydock_sim::{Commit, FaultSpec, Run, RunOptions, Runner, Script, Summary, World};
use drydock_spec::{Fleet, Period, SourceFile, load};
use jiff::Timestamp;

use crate::demo::versions::{self, GOOD, START};
use crate::examples::Example;
use crate::exit::{Exit, Failure, Result};
use crate::render::simulation;
use crate::repo::{self, Place};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock simulate --size S                        a driver on the demo fleet
  drydock simulate --size L --seed 7               the same on 3,000 nodes
  drydock simulate --from main --to HEAD           a change of the fleet in this folder
  drydock simulate --from old/ --to new/ --fault faults.yaml --until 3d
Faults are a YAML list:
  - badVersion: {component: gpu-driver, version: \"580.105.08\", how: {readyButBroken: {check: driver}}}
  - nodeLost: {node: c1/a-001, at: \"2026-03-02T18:00:00Z\", backAfter: 10m}";

/// Sizes of the example fleets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// 2 clusters, 184 nodes.
    #[value(name = "S", alias = "s")]
    S,
    /// 12 clusters, 3,000 nodes.
    #[value(name = "L", alias = "l")]
    L,
    /// 120 clusters, 30,000 nodes.
    #[value(name = "XL", alias = "xl")]
    Xl,
}

impl Size {
    /// The example fleet it is made from.
    pub(crate) const fn example(self) -> Example {
        match self {
            Self::S => Example::Demo,
            Self::L | Self::Xl => Example::Model,
        }
    }
    const fn model(self) -> ModelSize {
        match self {
            Self::S => ModelSize::S,
            Self::L => ModelSize::L,
            Self::Xl => ModelSize::Xl,
        }
    }
}

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What runs at first: a folder, or a revision of the repository in this folder.
    #[arg(long, value_name = "REV|DIR", requires = "to", conflicts_with = "size")]
    from: Option<String>,
    /// What is wanted.
    #[arg(long, value_name = "REV|DIR", requires = "from")]
    to: Option<String>,
    /// An example fleet with a new driver, instead.
    #[arg(long, value_enum, required_unless_present = "from")]
    size: Option<Size>,
    /// Seed of all draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What goes wrong: a YAML list of faults.
    #[arg(long, value_name = "FILE")]
    fault: Option<PathBuf>,
    /// End after so much virtual time; when nothing moves any more where absent.
    #[arg(long, value_name = "DURATION")]
    until: Option<Period>,
    /// Lines about single nodes as well.
    #[arg(long)]
    nodes: bool,
}

/// Runs and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let faults = args.fault.as_deref().map(faults).transpose()?.unwrap_or_default();
    let (from, to, mut options) = match (&args.from, &args.to, args.size) {
        (Some(from), Some(to), _) => {
            let (from, to) = (side(from)?, side(to)?);
            let options = model_options(ModelSize::S, &to.0);
            (from, to, drydock_sim::WorldOptions { damage: false, faults: Vec::new(), ..options })
        }
        (_, _, size) => {
            let size = size.unwrap_or(Size::S);
            let (from, to) = example(size)?;
            let mut options = model_options(size.model(), &to.0);
            // In pools of four nodes two that were broken before are half of it: budgets then wait for a person.
            options.damage = size != Size::S;
            (from, to, options)
        }
    };
    options.seed = args.seed;
    options.faults.extend(faults);
    let start = options.start;
    let world = World::from_fleet(&to.0, &options.running_as(&from.0));
    let commits = vec![Commit { at: start, fleet: Arc::new(to.0), commit: to.1 }];
    let run_options = RunOptions {
        quantum: quantum(world.inventory().nodes.len()),
        until: args.until.map(|period| period.after(start)),
        node_lines: args.nodes,
        // Approvals are people's; an hour is what a team that waits for the question takes.
        approve_after: Some(Period::from_hours(1)),
        ..RunOptions::default()
    };
    let Run { summary, report, world, .. } =
        Runner::new(world, Script { commits, commands: Vec::new() }, run_options).run();
    ui.show(&summary, || simulation::text(&summary, &report, (start, world.now()), ui))?;
    Ok(if ended_well(&summary) { Exit::Ok } else { Exit::EndedBadly })
}

/// What happens within this time is looked at in one pass. In a large fleet something happens every second and every
/// step takes minutes, so a forecast loses nothing by looking less often.
const fn quantum(nodes: usize) -> Period {
    match nodes {
        0..1_000 => Period::from_secs(1),
        1_000..10_000 => Period::from_secs(90),
        _ => Period::from_mins(5),
    }
}

/// Every rollout succeeded, and nothing was broken on the way.
fn ended_well(summary: &Summary) -> bool {
    summary.outcome.values().all(|word| word == "Succeeded")
        && summary.budget_violations.is_empty()
        && summary.invariant_violations.is_empty()
}

/// Reads a list of faults.
pub(crate) fn faults(path: &Path) -> Result<Vec<FaultSpec>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::missing(format!("{}: {error}", path.display())))?;
    FaultSpec::list(&text).map_err(|error| Failure::missing(format!("{}: {error}", path.display())))
}

/// A folder where there is one of that name, else a revision of the repository here.
fn side(what: &str) -> Result<(Fleet, CommitRef)> {
    let folder = Path::new(what);
    let (folder, place) = if folder.is_dir() {
        (folder, Place::Worktree)
    } else {
        (Path::new("."), Place::Revision(what.to_owned()))
    };
    let read = repo::read(folder, &place)?;
    let commit = CommitRef {
        id: read.commit.id.clone(),
        summary: read.commit.summary.clone(),
        author: read.commit.author_name.clone(),
        time: read.commit.time,
    };
    match read.loaded.fleet {
        Some(fleet) => Ok((fleet, commit)),
        None => Err(Failure::new(Exit::Findings, format!("the documents at {what} have errors"))
            .hint(format!("drydock validate {}", folder.display()))),
    }
}

/// An example fleet before and after a new driver.
fn example(size: Size) -> Result<((Fleet, CommitRef), (Fleet, CommitRef))> {
    let files = size.example().files();
    let changed = versions::replaced(&files, START, GOOD);
    let mut next = files.clone();
    for (path, bytes) in changed {
        if let Some(file) = next.iter_mut().find(|(name, _)| *name == path) {
            file.1 = bytes;
        }
    }
    let fleet = |files: Vec<(String, Vec<u8>)>, summary: &str| {
        let files: Vec<SourceFile> =
            files.into_iter().map(|(path, bytes)| SourceFile { path, bytes }).collect();
        let fleet =
            load(&files).fleet.ok_or_else(|| Failure::new(Exit::Internal, "the example has errors"))?;
        let fleet = match size {
            Size::S | Size::L => fleet,
            Size::Xl => scale(&fleet, size.model().copies()),
        };
        let commit = CommitRef {
            id: format!("{:0>40}", if summary.contains(GOOD) { "2" } else { "1" }),
            summary: summary.to_owned(),
            author: "drydock simulate".to_owned(),
            time: Timestamp::UNIX_EPOCH,
        };
        Ok::<_, Failure>((fleet, commit))
    };
    Ok((fleet(files, &format!("Driver {START}"))?, fleet(next, &format!("Driver {GOOD}"))?))
}
