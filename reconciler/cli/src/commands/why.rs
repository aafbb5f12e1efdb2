//! `drydock why`.

use crate::client::{Reader, Target, answers::Node, parse};
use crate::exit::{Exit, Failure, Result};
use crate::render::node;
use crate::render::time::When;
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock why c12-stage/h100-stage-003
  drydock why c12-stage/h100-stage-003 --format json | jq .why.waitsFor
All reasons are given, not the first one, each with its number and its time.";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The node, as cluster/node.
    node: String,
    /// Show times in this zone, for example Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let path = node_path(&args.node)?;
    let reader = args.target.reader()?;
    let answer = reader.get(&path).map_err(|failure| match failure.exit {
        Exit::NoInput => failure.hint(near(&reader, &args.node)),
        _ => failure,
    })?;
    if let Some(caveat) = reader.caveat() {
        ui.note(&caveat);
    }
    let node: Node = parse(&answer)?;
    let when = When::new(node.at, args.zone.as_deref());
    ui.show(&answer, || node::why(&node, &when, ui.paint, ui.width))?;
    Ok(Exit::Ok)
}

/// Nodes with a similar name.
fn near(reader: &Reader, node: &str) -> String {
    let list = "`drydock status --nodes` lists them";
    let cluster = node.split('/').next().unwrap_or_default();
    let Ok(page) = reader.get(&format!("/nodes?cluster={cluster}&limit=500")) else { return list.to_owned() };
    let ids = page["items"].as_array().into_iter().flatten().filter_map(|item| item["id"].as_str());
    let likeness = |id: &str| {
        let front = id.chars().zip(node.chars()).take_while(|(a, b)| a == b).count();
        let back = id.chars().rev().zip(node.chars().rev()).take_while(|(a, b)| a == b).count();
        front + back
    };
    match ids.filter(|id| id.starts_with(cluster)).max_by_key(|id| likeness(id)) {
        Some(id) => format!("did you mean {id}? {list}"),
        None => list.to_owned(),
    }
}

/// `/nodes/cluster/node`.
fn node_path(node: &str) -> Result<String> {
    let mut parts = node.split('/').filter(|part| !part.is_empty());
    let legal =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(cluster), Some(name), None) if legal(cluster) && legal(name) => {
            Ok(format!("/nodes/{cluster}/{name}"))
        }
        _ => Err(Failure::usage(format!("{node:?} is no node")).hint("write it as cluster/node")),
    }
}
