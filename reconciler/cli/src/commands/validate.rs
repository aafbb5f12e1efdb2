//! `drydock validate`.

use std::path::PathBuf;
use std::time::Instant;

use drydock_spec::{Diagnostic, Severity};
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::render::diagnostic;
use crate::render::paint::Tone;
use crate::render::reason::{count, grouped};
use crate::repo::{self, Place};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock validate                    the fleet in this folder
  drydock validate fleets/demo        the fleet in another one
  drydock validate --rev main         as it is on a branch
  drydock validate --strict           warnings end with 1 as well
  drydock validate --format json | jq '.diagnostics[] | {rule, file, message}'
Ends with 0 when there are no errors and with 1 when there are.";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder with the documents.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Read the folder at a revision of its repository instead of as it lies on disk.
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// Warnings count as errors.
    #[arg(long)]
    strict: bool,
    /// Leave notes out of the text.
    #[arg(long)]
    quiet: bool,
}

/// What comes of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    valid: bool,
    documents: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    milliseconds: u128,
    passed_over: &'a [String],
    diagnostics: &'a [Diagnostic],
}

/// Loads and reports.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let begun = Instant::now();
    let place = args.rev.map_or(Place::Worktree, Place::Revision);
    let read = repo::read(&args.path, &place)?;
    let milliseconds = begun.elapsed().as_millis();
    let loaded = &read.loaded;
    let [errors, warnings, notes] =
        [Severity::Error, Severity::Warning, Severity::Note].map(|severity| loaded.count(severity));
    let valid = errors == 0 && !(args.strict && warnings > 0);
    let report = Report {
        valid,
        documents: loaded.documents,
        errors,
        warnings,
        notes,
        milliseconds,
        passed_over: &read.passed_over,
        diagnostics: &loaded.diagnostics,
    };
    ui.show(&report, || {
        let shown = loaded.diagnostics.iter().filter(|d| !(args.quiet && d.severity == Severity::Note));
        let mut text: Vec<String> = shown.map(|d| diagnostic::render(d, ui)).collect();
        text.push(summary(&report, args.quiet, ui));
        text.join("\n")
    })?;
    Ok(if valid { Exit::Ok } else { Exit::Findings })
}

fn summary(report: &Report<'_>, quiet: bool, ui: &Ui) -> String {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let tone = |n: usize, tone: Tone| if n > 0 { tone } else { Tone::Plain };
    let errors = ui.paint.tone(tone(report.errors, Tone::Bad), &count(number(report.errors), "error"));
    let warnings =
        ui.paint.tone(tone(report.warnings, Tone::Warn), &count(number(report.warnings), "warning"));
    let notes = match report.notes {
        n if n > 0 && !quiet => format!(", {}", count(number(n), "note")),
        _ => String::new(),
    };
    let documents = format!(
        "{} document{}",
        grouped(report.documents as u64),
        if report.documents == 1 { "" } else { "s" }
    );
    let passed_over = match report.passed_over.len() {
        0 => String::new(),
        n => format!("; {} passed over", count(number(n), "file")),
    };
    format!("{errors}, {warnings}{notes} in {documents}{passed_over} ({} ms)", report.milliseconds)
}
