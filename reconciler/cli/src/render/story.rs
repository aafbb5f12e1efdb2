//! What `demo` says at its beginning and at its end.

use std::net::SocketAddr;

use drydock_spec::Period;

use super::paint::Tone;
use super::reason::{count, grouped, some};
use super::time::short;
use crate::demo::act::Summary;
use crate::demo::folder::Folder;
use crate::demo::versions::{GOOD, START};
use crate::ui::Ui;

/// The first lines.
pub(crate) fn opening(
    folder: &Folder,
    address: Option<SocketAddr>,
    speed: f64,
    fresh: bool,
    ui: &Ui,
) -> String {
    let paint = ui.paint;
    let state = if fresh { "a new simulated fleet" } else { "goes on where it was stopped" };
    let address = address.map_or("not served".to_owned(), |address| format!("http://{address}"));
    format!(
        "{}  {state}; nothing outside {} is touched\n  repository  {}    (a Git repository: edit, commit, watch)\n  \
         API         {address}\n  clock       {speed}x                     (--speed N)\n",
        paint.strong("drydock demo"),
        folder.path().display(),
        folder.fleet().display(),
    )
}

/// What a newcomer can do next. In the large fleet most waves wait for somebody's approval.
pub(crate) fn try_next(folder: &Folder, ui: &Ui) -> String {
    let dir = folder.path().display();
    let (files, question) = if folder.fleet().join("releases/driver.yaml").is_file() {
        ("releases/driver.yaml", format!("drydock why c12-stage/h100-stage-003 --dir {dir}"))
    } else {
        let approve = format!("drydock approve training-{START} small --team training --before --dir {dir}");
        ("releases/*.yaml", format!("drydock status --dir {dir}   # who has to agree?  {approve}"))
    };
    format!(
        "{}\n  1. cd {dir}/fleet && sed -i s/{START}/{GOOD}/ {files} && git commit -am \"Driver {GOOD}\"\n  \
         2. git apply ../broken-driver.patch && git commit -am \"A driver that loads and can't compute\"   \
         # watch it go back\n  \
         3. {question}\n",
        ui.paint.strong("Try next, in another terminal:")
    )
}

/// The end of an act.
pub(crate) fn summary(summary: &Summary, ui: &Ui) -> String {
    let paint = ui.paint;
    let mut out = Vec::new();
    let word = if summary.already { "played before" } else { "played" };
    out.push(format!(
        "act {} {word}   commit {} \"Driver {}\"",
        paint.strong(&summary.act),
        summary.commit.get(..7).unwrap_or_default(),
        summary.version
    ));
    for (id, state) in &summary.outcome {
        out.push(format!("  {id}   {}", paint.word(state)));
    }
    if summary.outcome.is_empty() {
        out.push("  no rollout: nothing had to move".to_owned());
    }
    out.push(format!(
        "  nodes     {} of {} on what Git says, {} on what they ran before, {} quarantined, {} cordoned by drydock",
        summary.nodes_on_target,
        summary.nodes_total,
        summary.nodes_on_previous,
        summary.nodes_quarantined,
        summary.nodes_cordoned_by_drydock_at_end
    ));
    if !summary.already {
        out.push(format!(
            "  away      at most {} and {} GPUs at once; {:.1} GPU-hours in all; took {}",
            count(summary.max_in_flight, "node"),
            grouped(summary.max_gpus_away.into()),
            summary.gpu_hours_lost,
            short(Period::from_secs(summary.virtual_seconds))
        ));
    }
    if summary.exposed_nodes > 0 {
        out.push(format!(
            "  exposed   {} of {} nodes   {}",
            summary.exposed_nodes,
            summary.nodes_total,
            some(&summary.exposed, 4)
        ));
    }
    for detection in &summary.detections {
        out.push(format!(
            "  noticed   on {} {} after it was applied, settled after {}",
            detection.node,
            short(Period::from_secs(detection.noticed_after_seconds)),
            short(Period::from_secs(detection.seconds))
        ));
    }
    for violation in &summary.violations {
        out.push(format!("  {} {violation}", paint.tone(Tone::Bad, "broken:")));
    }
    if !summary.as_expected && !summary.already {
        out.push("  this isn't how the act should end; `drydock rollouts` has its story".to_owned());
    }
    out.join("\n")
}
