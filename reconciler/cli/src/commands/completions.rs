//! `drydock completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Exit, Result};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock completions bash > /etc/bash_completion.d/drydock
  drydock completions zsh > \"${fpath[1]}/_drydock\"
  drydock completions fish > ~/.config/fish/completions/drydock.fish";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Writes the script.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "drydock", &mut script);
    ui.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
