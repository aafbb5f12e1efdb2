//! The commands, one file each.

pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod demo;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod rollouts;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod validate;
pub(crate) mod why;

use crate::args::Command;
use crate::exit::Result;
use crate::ui::Ui;

/// Does what was asked.
pub(crate) fn run(command: Command, ui: &Ui) -> Result {
    match command {
        Command::Validate(args) => validate::run(args, ui),
        Command::Plan(args) => plan::run(args, ui),
        Command::Simulate(args) => simulate::run(args, ui),
        Command::Demo(args) => demo::run(args, ui),
        Command::Run(args) => run::run(args, ui),
        Command::Status(args) => status::run(args, ui),
        Command::Rollouts(args) => rollouts::run(args, ui),
        Command::Why(args) => why::run(args, ui),
        Command::History(args) => history::run(args, ui),
        Command::Approve(args) => control::approve(args, ui),
        Command::Pause(args) => control::pause(args, ui),
        Command::Resume(args) => control::resume(args, ui),
        Command::Abort(args) => control::abort(args, ui),
        Command::Retry(args) => control::retry(args, ui),
        Command::Skip(args) => control::skip(args, ui),
        Command::Schema(args) => schema::run(args, ui),
        Command::Completions(args) => completions::run(args, ui),
    }
}
