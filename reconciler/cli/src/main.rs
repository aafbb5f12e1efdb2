//! The `drydock` command: arguments in, one command, an exit code out.

mod args;
mod client;
mod clock;
mod commands;
mod demo;
mod examples;
mod exit;
mod planning;
mod render;
mod repo;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way as well; they are no error and go to stdout.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    let ui = Ui::new(&cli.global);
    match commands::run(cli.command, &ui) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            report(&failure, &ui);
            failure.exit.into()
        }
    }
}

/// Failures go to stderr, so that stdout holds output and nothing else.
fn report(failure: &Failure, ui: &Ui) {
    let Failure { exit: _, message, hint } = failure;
    if message.is_empty() {
        // The reader has seen enough; nobody is left to tell.
        return;
    }
    ui.note(&format!("{}: {message}", ui.paint_err.tone(render::paint::Tone::Bad, "error")));
    if let Some(hint) = hint {
        ui.note(&format!("  {} {hint}", ui.paint_err.dim("help:")));
    }
}
