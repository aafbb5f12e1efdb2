//! `drydock plan`.

use std::path::PathBuf;

use drydock_spec::{Diagnostic, Severity};
use jiff::Timestamp;

use crate::clock;
use crate::exit::{Exit, Failure, Result};
use crate::planning::{Draft, Side, Sides, draft, forecast};
use crate::render::{diagnostic, plan};
use crate::repo::{self, Place, Read};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock plan                             uncommitted changes of this folder against HEAD
  drydock plan --from main --to HEAD       what a branch would move
  drydock plan fleets/demo --from HEAD~1   the last commit and what isn't committed, for another folder
  drydock plan --forecast                  with times and costs from simulated runs
  drydock plan --detailed-exitcode         ends with 2 when something would change
Only Git is read: the plan is the same on every machine and needs no cluster.";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder with the documents.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Revision that counts as what runs.
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    from: String,
    /// Revision that is wanted; the folder as it lies on disk when absent.
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// Run the change on a simulated fleet: when it is done, what it costs, how far a broken driver would get.
    #[arg(long)]
    forecast: bool,
    /// Simulated runs of the forecast.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// End with 2 when something would change.
    #[arg(long)]
    detailed_exitcode: bool,
    /// The instant it is worked out for: windows and freezes depend on it. Now when absent.
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

/// Compares and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let from = repo::read(&args.path, &Place::Revision(args.from.clone()))?;
    let to = repo::read(&args.path, &args.to.clone().map_or(Place::Worktree, Place::Revision))?;
    let (Ok(before), after) = (from.fleet(), to.fleet()) else {
        let message =
            format!("the documents at {} have errors, so there is nothing to compare with", args.from);
        return Err(Failure::new(Exit::Findings, message).hint(format!(
            "drydock validate {} --rev {}",
            args.path.display(),
            args.from
        )));
    };
    let after = match after {
        Ok(after) => after,
        Err(errors) => return invalid(&errors, &to, ui),
    };
    let sides = Sides {
        from: before,
        from_side: side(&from),
        to: after,
        to_side: side(&to),
        files: &to.files,
        author: &to.commit.author_name,
    };
    let mut drawn = draft(&sides, args.at.unwrap_or_else(clock::now));
    drawn.warnings = new_warnings(&from, &to);
    let lost = to.lost(&from);
    if !lost.is_empty() {
        let what = format!("documents in force can't be read any more: {}", lost.join("; "));
        drawn.held = Some(format!("{what}; the last good commit stays in force"));
    }
    if args.forecast {
        drawn.forecast = forecast(&sides, &drawn, args.seeds);
    } else {
        drawn.not_evaluated.push("how long it takes: add --forecast".to_owned());
    }
    let zone = time_zone(after, &drawn);
    ui.show(&drawn, || plan::text(&drawn, zone.as_deref(), ui))?;
    Ok(if args.detailed_exitcode && !drawn.is_empty() { Exit::Changes } else { Exit::Ok })
}

fn side(read: &Read) -> Side {
    Side { commit: read.commit.id.clone(), label: read.label(), summary: read.commit.summary.clone() }
}

/// Warnings that the change brings. Notes aren't worth a reviewer's time, old warnings were seen before.
fn new_warnings(from: &Read, to: &Read) -> Vec<Diagnostic> {
    let known = |d: &Diagnostic| {
        from.loaded.diagnostics.iter().any(|old| old.rule == d.rule && old.message == d.message)
    };
    let warnings = to.loaded.diagnostics.iter().filter(|d| d.severity == Severity::Warning && !known(d));
    warnings.cloned().collect()
}

fn invalid(errors: &[&Diagnostic], to: &Read, ui: &Ui) -> Result {
    ui.show(&errors, || {
        let shown: Vec<String> = errors.iter().map(|d| diagnostic::render(d, ui)).collect();
        format!("{}\nno plan: {} has {} errors", shown.join("\n"), to.label(), errors.len())
    })?;
    Ok(Exit::Findings)
}

/// The zone of the people who run the last cluster that moves: they are the ones who wait longest.
fn time_zone(fleet: &drydock_spec::Fleet, draft: &Draft) -> Option<String> {
    let last = draft.rollouts.iter().flat_map(|r| &r.waves).next_back()?;
    let cluster = last.clusters.last()?;
    fleet.clusters.iter().find(|(name, _)| name.as_str() == cluster)?.1.time_zone.clone()
}
