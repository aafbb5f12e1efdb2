//! What a simulated run came to.

use drydock_plan::PlanReport;
use drydock_sim::Summary;
use drydock_spec::Period;
use jiff::Timestamp;

use super::paint::Tone;
use super::reason::{count, gathered, grouped, sentence};
use super::time::{When, short};
use super::wrap;
use crate::ui::Ui;

/// Timeline and summary.
pub(crate) fn text(
    summary: &Summary,
    report: &PlanReport,
    (start, end): (Timestamp, Timestamp),
    ui: &Ui,
) -> String {
    /// The middle of a long story is left out; JSON has all of it.
    const LINES: usize = 120;
    let when = When::new(start, None);
    let lines: Vec<String> = summary
        .timeline
        .iter()
        .map(|event| format!("{}  {}", ui.paint.dim(&when.at(event.at)), event.text))
        .collect();
    let mut out: Vec<String> = Vec::new();
    if lines.len() > LINES {
        out.extend(lines.iter().take(LINES / 2).cloned());
        out.push(format!("… {} more lines (--format json has all) …", lines.len() - LINES));
        out.extend(lines.iter().skip(lines.len() - LINES / 2).cloned());
    } else {
        out.extend(lines);
    }
    out.push(String::new());
    if summary.outcome.is_empty() {
        out.push("nothing moved: no rollout was made".to_owned());
    }
    for (id, word) in &summary.outcome {
        out.push(format!("{}   {}", ui.paint.strong(id), ui.paint.word(word)));
    }
    out.extend(facts(summary));
    let when = When::new(end, None);
    let whole = report.rollouts.iter().flat_map(|r| &r.waits).map(|reason| sentence(reason, &when));
    let waits =
        report.rollouts.iter().flat_map(|r| r.waves.iter().flat_map(|w| &w.waits)).chain(&report.holds);
    let single = gathered(waits, &when);
    out.extend(whole.chain(single).map(|line| wrap(&format!("  waits     {line}"), 12, ui.width)));
    for violation in summary.budget_violations.iter().chain(&summary.invariant_violations) {
        out.push(format!("  {} {violation}", ui.paint.tone(Tone::Bad, "broken:")));
    }
    out.join("\n")
}

fn facts(summary: &Summary) -> Vec<String> {
    let mut out = vec![
        format!(
            "  nodes     {} of {} on target, {} on the previous release, {} quarantined",
            grouped(summary.nodes_on_target.into()),
            grouped(summary.nodes_total.into()),
            grouped(summary.nodes_on_previous.into()),
            summary.nodes_quarantined
        ),
        format!(
            "  away      at most {} and {} GPUs at once; {:.1} GPU-hours in all",
            count(summary.max_in_flight, "node"),
            grouped(summary.max_gpus_away.into()),
            summary.gpu_hours_lost
        ),
        format!(
            "  jobs      {} cut, {} moved at a checkpoint; no node was emptied more than {} times",
            count(summary.gang_interruptions.cut, "gang"),
            summary.gang_interruptions.moved,
            summary.drains
        ),
        format!(
            "  time      {} of virtual time, {} planning passes, seed {}",
            short(Period::from_secs(summary.virtual_seconds)),
            summary.passes,
            summary.seed
        ),
    ];
    for detection in &summary.detections {
        let after = short(Period::from_secs(detection.seconds));
        out.push(format!("  noticed   {} on {} after {after}", detection.fault, detection.node));
    }
    if summary.exposed_nodes > 0 {
        out.push(format!(
            "  exposed   {} to a release that was halted",
            count(summary.exposed_nodes, "node")
        ));
    }
    out
}
