//! `drydock rollouts`.

use crate::client::{Target, answers::List, answers::Rollout, answers::RolloutDetail, parse};
use crate::exit::{Exit, Failure, Result};
use crate::render::rollout;
use crate::render::time::When;
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock rollouts                                     all of them, open ones first
  drydock rollouts stage-driver-580.105.08             what became of one, and why
  drydock rollouts stage-driver-580.126.09 --evidence  what the checks said, on both releases";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The rollout to tell about.
    id: Option<String>,
    /// Show the results that blame was settled on.
    #[arg(long, requires = "id")]
    evidence: bool,
    /// Show times in this zone, for example Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let reader = args.target.reader()?;
    let list = reader.get("/rollouts")?;
    let rows: List<Rollout> = parse(&list)?;
    if let Some(caveat) = reader.caveat() {
        ui.note(&caveat);
    }
    let when = When::new(rows.at, args.zone.as_deref());
    let Some(id) = args.id else {
        ui.show(&list, || rollout::list(&rows.items, &when, ui.paint, ui.width))?;
        return Ok(Exit::Ok);
    };
    if !rows.items.iter().any(|row| row.id.as_str() == id) {
        let near: Vec<_> =
            rows.items.iter().map(|row| row.id.as_str()).filter(|known| known.starts_with(&id)).collect();
        let hint = match near.as_slice() {
            [] => "`drydock rollouts` lists them".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        return Err(Failure::missing(format!("there is no rollout {id}")).hint(hint));
    }
    let answer = reader.get(&format!("/rollouts/{id}"))?;
    let detail: RolloutDetail = parse(&answer)?;
    ui.show(&answer, || rollout::story(&detail, &when, args.evidence, ui.paint, ui.width))?;
    Ok(Exit::Ok)
}
