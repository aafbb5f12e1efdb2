//! The command line as it is typed. What a command makes of its part is in the command's own file.

use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    completions, control, demo, history, plan, rollouts, run, schema, simulate, status, validate, why,
};
use crate::exit;
use crate::ui::{Color, Format};

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Examples:\n  \
         drydock demo                      a simulated fleet to play with; needs no cluster\n  \
         drydock validate                  are the documents in this folder right?\n  \
         drydock plan                      what would my uncommitted changes move?\n  \
         drydock run --repo URL            work on real clusters\n  \
         drydock why c12-stage/h100-stage-003\n                                    why isn't this node moving?\n\n{}",
        exit::help()
    )
});

/// GitOps for GPU fleets: a Git repository says what every node runs, drydock shows every difference and moves the
/// fleet there batch by batch.
#[derive(Debug, Parser)]
#[command(name = "drydock", version, max_term_width = 100, after_help = AFTER_HELP.as_str())]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// What output is written as.
    #[arg(long, global = true, value_enum, default_value = "text", env = "DRYDOCK_FORMAT")]
    pub(crate) format: Format,
    /// When output is coloured.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub(crate) color: Color,
    /// Columns that output is laid out for; those of the terminal when absent.
    #[arg(long, global = true, value_name = "COLUMNS", env = "COLUMNS", hide = true)]
    pub(crate) width: Option<String>,
    /// The convention of no-color.org: set and not empty.
    #[arg(long, global = true, env = "NO_COLOR", hide = true)]
    pub(crate) no_color: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the documents of a fleet: every mistake with its place and a hint.
    Validate(validate::Args),
    /// Show what a change would move: waves, nodes and GPUs away, windows, checks, approvals.
    Plan(plan::Args),
    /// Run a change on a simulated fleet with a virtual clock, in seconds.
    Simulate(simulate::Args),
    /// Start a simulated fleet with a repository, an API and rollouts to watch.
    Demo(demo::Args),
    /// Work on real clusters: follow a repository and move the fleet to what it says.
    Run(run::Args),
    /// Show where the fleet stands.
    Status(status::Args),
    /// List rollouts, or tell the story of one.
    Rollouts(rollouts::Args),
    /// Say everything a node waits for.
    Why(why::Args),
    /// Show what happened, newest first.
    History(history::Args),
    /// Agree to a wave in the name of a team.
    Approve(control::ApproveArgs),
    /// Let a rollout take no more nodes; what is out finishes.
    Pause(control::RolloutArgs),
    /// Let a paused rollout go on.
    Resume(control::RolloutArgs),
    /// End a rollout: untouched nodes are returned, the others finish.
    Abort(control::AbortArgs),
    /// Try a quarantined release or node again.
    Retry(control::RetryArgs),
    /// Leave a node out.
    Skip(control::SkipArgs),
    /// Write the JSON Schemas of the documents.
    Schema(schema::Args),
    /// Write completions for a shell.
    Completions(completions::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:") && after.contains("drydock "), "{}", sub.get_name());
        }
    }
}
