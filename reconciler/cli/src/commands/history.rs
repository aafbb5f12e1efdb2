//! `drydock history`.

use drydock_server::store::{Event, EventKind};

use crate::client::{Target, answers::List, parse};
use crate::exit::{Exit, Result};
use crate::render::event;
use crate::render::time::When;
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock history                 what happened to rollouts, newest first
  drydock history --nodes         every step of every node as well
  drydock history --limit 500 --format json | jq '.items[].type'";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Most events looked at.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Steps of single nodes as well.
    #[arg(long)]
    nodes: bool,
    /// Only events before the one with this number.
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    /// Show times in this zone, for example Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let reader = args.target.reader()?;
    let before = args.before.map_or(String::new(), |number| format!("&before={number}"));
    let answer = reader.get(&format!("/history?limit={}{before}", args.limit))?;
    if let Some(caveat) = reader.caveat() {
        ui.note(&caveat);
    }
    let events: List<Event> = parse(&answer)?;
    ui.show(&answer, || {
        let when = When::new(events.at, args.zone.as_deref());
        let shown = events.items.iter().filter(|e| args.nodes || !matches!(e.what, EventKind::Node { .. }));
        let mut lines: Vec<String> = shown
            .map(|e| {
                format!(
                    "{:<26} {}",
                    ui.paint.dim(&format!("{} ({})", when.at(e.at), when.relative(e.at))),
                    event::line(e)
                )
            })
            .collect();
        if lines.is_empty() {
            lines.push(match events.items.len() {
                0 => "nothing has happened yet".to_owned(),
                n => format!("the last {n} events are steps of nodes; --nodes shows them"),
            });
        }
        if let Some(next) = &events.next {
            lines.push(ui.paint.dim(&format!("older ones: drydock history --before {next}")));
        }
        lines.join("\n")
    })?;
    Ok(Exit::Ok)
}
