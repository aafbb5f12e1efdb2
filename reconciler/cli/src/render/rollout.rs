//! Rollouts on a terminal.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{
    Blame, FailureClass, HaltLimit, NodeCounts, Reason, ReleaseId, RolloutEvent, RolloutKind, RolloutRecord,
    RolloutState, WaveState,
};
use drydock_spec::{Period, PoolName};
use jiff::Timestamp;

use super::paint::Paint;
use super::reason::{count, gathered, sentence, some};
use super::table::{Columns, Item};
use super::time::{When, short};
use super::wrap;
use crate::client::answers::{Rollout, RolloutDetail, Wave};

/// Width of a bar, in characters.
const BAR: usize = 12;

/// `████░░`: how many of how many.
fn bar(part: u32, whole: u32) -> String {
    let filled =
        usize::try_from(u64::from(part) * BAR as u64 / u64::from(whole.max(1))).unwrap_or(0).min(BAR);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

/// The word of a wave's state.
pub(crate) const fn wave_word(state: WaveState) -> &'static str {
    match state {
        WaveState::Pending => "Pending",
        WaveState::GatedBefore => "GatedBefore",
        WaveState::Running => "Running",
        WaveState::Soaking => "Soaking",
        WaveState::GatedAfter => "GatedAfter",
        WaveState::Complete => "Complete",
        WaveState::Skipped => "Skipped",
        WaveState::Failed => "Failed",
    }
}

/// Nodes whose part is over for good or bad.
fn settled(counts: &NodeCounts) -> u32 {
    let NodeCounts {
        total: _,
        waiting: _,
        in_flight: _,
        soaking,
        done,
        skipped,
        reverted,
        quarantined,
        gone,
    } = counts;
    soaking + done + skipped + reverted + quarantined + gone
}

/// `12 returned, 2 verify, 1 quarantined`.
fn details(counts: &NodeCounts) -> String {
    let steps = counts.in_flight.iter().map(|(step, n)| (*n, step.as_str()));
    let rest = [
        (counts.soaking, "soak"),
        (counts.skipped, "left out"),
        (counts.reverted, "taken back"),
        (counts.quarantined, "quarantined"),
        (counts.gone, "gone"),
    ];
    let parts = steps.chain(rest).filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn since(wave: &Wave, when: &When) -> String {
    match (wave.started, wave.ended) {
        (Some(started), Some(ended)) => format!("took {}", short(Period::between(started, ended))),
        (Some(started), None) => when.since(started),
        (None, _) => String::new(),
    }
}

/// Waves of an open rollout with their bars, and what they wait for.
pub(crate) fn waves(rollout: &Rollout, when: &When, paint: Paint, width: usize) -> String {
    let mut table =
        Columns::new(&["wave", "batch", "nodes", "", "state", "since", ""], paint, width.saturating_sub(2));
    for wave in &rollout.waves {
        let counts = wave.counts.clone().unwrap_or_default();
        let batch = if wave.batch == 0 { "-".to_owned() } else { wave.batch.to_string() };
        let done = settled(&counts);
        table.row(vec![
            wave.name.to_string().into(),
            batch.into(),
            if wave.counts.is_some() { bar(done, counts.total) } else { String::new() }.into(),
            if wave.counts.is_some() { format!("{done} of {}", counts.total) } else { String::new() }.into(),
            Item::word(wave_word(wave.state)),
            since(wave, when).into(),
            details(&counts).into(),
        ]);
    }
    let mut out = vec![table.finish("  ")];
    let paused = rollout.pauses.iter().map(|why| Reason::Paused { why: why.clone() });
    let paused: Vec<Reason> = paused.collect();
    let whole = paused.iter().chain(&rollout.waits).map(|reason| sentence(reason, when));
    let single = gathered(rollout.waves.iter().flat_map(|wave| &wave.waits), when);
    let mut lines: Vec<String> = Vec::new();
    for line in whole.chain(single) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    /// More reasons than fit a screen help nobody; `why` has those of a node.
    const SHOWN: usize = 6;
    let more = lines.len().saturating_sub(SHOWN);
    for (i, line) in lines.iter().take(SHOWN).enumerate() {
        let head = if i == 0 { "waits for  " } else { "           " };
        out.push(wrap(&format!("  {head}{line}"), 13, width));
    }
    if more > 0 {
        out.push(format!("             and {more} more"));
    }
    out.join("\n")
}

/// `3f1c2a9 "Driver 580.95.05"`.
fn commit(rollout: &Rollout) -> String {
    format!("{} \"{}\"", rollout.commit.short(), rollout.commit.summary)
}

fn took(rollout: &Rollout, when: &When) -> String {
    match rollout.ended {
        Some(ended) => {
            format!("{}, took {}", when.relative(ended), short(Period::between(rollout.created, ended)))
        }
        None => format!("since {}", when.since(rollout.created)),
    }
}

/// The first line of a rollout: its state in one word.
pub(crate) fn title(rollout: &Rollout, when: &When, paint: Paint) -> String {
    let back = match &rollout.kind {
        RolloutKind::Forward => String::new(),
        RolloutKind::Rollback { of } => format!(", the way back of {of}"),
        RolloutKind::Revert => ", back to what nodes were healthy on".to_owned(),
    };
    let (state, id) = (paint.word(&rollout.state), paint.strong(rollout.id.as_str()));
    format!("{id}   {state}   at {}{back}, {}", commit(rollout), took(rollout, when))
}

/// All rollouts, one a line.
pub(crate) fn list(rollouts: &[Rollout], when: &When, paint: Paint, width: usize) -> String {
    if rollouts.is_empty() {
        return "no rollouts yet: one starts when a commit changes what nodes should run".to_owned();
    }
    let mut table = Columns::new(&["rollout", "state", "when", "commit"], paint, width);
    for rollout in rollouts {
        table.row(vec![
            rollout.id.to_string().into(),
            Item::word(&rollout.state),
            took(rollout, when).into(),
            Item::dim(commit(rollout)),
        ]);
    }
    table.finish("")
}

/// The story of one rollout, as the person on call reads it.
pub(crate) fn story(
    detail: &RolloutDetail,
    when: &When,
    evidence: bool,
    paint: Paint,
    width: usize,
) -> String {
    let RolloutDetail { row, record } = detail;
    let mut out = vec![title(row, when, paint)];
    let mut fact = |label: &str, text: String| {
        let label = format!("  {label:<10}  ");
        out.push(wrap(&format!("{label}{text}"), 14, width));
    };
    if let RolloutState::Rejected { why } = &row.state_detail {
        fact("why", why.join("; "));
    }
    let total = record.summary.as_ref().map(|summary| summary.nodes);
    if record.exposed > 0 && record.halt.is_some() {
        let of = total.map_or(String::new(), |total| format!(" of {total}"));
        fact("exposed", format!("{}{of} nodes   {}", record.exposed, some(&record.exposed_nodes, 4)));
    }
    for failure in record.failures.iter().take(3) {
        let first = failure.evidence.first().map_or_else(String::new, |e| e.text.clone());
        let tries = failure.evidence.len();
        let kind = failure_word(failure.class);
        let class = if kind.is_empty() { String::new() } else { format!("{kind}: ") };
        fact("why", format!("{class}{first}, {tries} of {tries} tries on {}", failure.node));
        let noticed = failure.applied_at.map_or(String::new(), |at| {
            format!("; noticed {} after it was applied", short(Period::between(at, failure.noticed_at)))
        });
        fact("blame", format!("{}{noticed}, settled {}", blame(failure.blame), when.relative(failure.at)));
    }
    if let Some(halt) = &record.halt {
        fact("halted", format!("{}: {}", when.full(halt.at), limit(&halt.limit)));
    }
    if let Some(child) = &row.child {
        fact("took back", format!("rollout {child}"));
    }
    let reverted = record.summary.as_ref().map_or(0, |summary| summary.reverted);
    if row.child.is_none() && reverted > 0 {
        let text = format!("{} to what it ran before, verified and returned", some(&record.exposed_nodes, 4));
        fact("took back", text);
    }
    for (release, pools) in quarantined(record) {
        let pools: Vec<_> = pools.into_iter().collect();
        let text = format!(
            "release {release} isn't tried again on {}; to try anyway: drydock retry {release} --reason \"…\"",
            some(&pools, 4)
        );
        fact("quarantine", text);
    }
    if let Some(next) = &row.superseded_by {
        fact("replaced", format!("by rollout {next}"));
    }
    if let Some(summary) = &record.summary {
        fact("nodes", summary_line(summary));
    }
    if row.ended.is_none() {
        out.push(waves(row, when, paint, width));
    }
    if evidence {
        out.push(self::evidence(record, when, width));
    } else if !record.failures.is_empty() {
        out.push(format!("  evidence    drydock rollouts {} --evidence", row.id));
    }
    out.join("\n")
}

/// Releases that this rollout has put into quarantine, with their pools.
fn quarantined(record: &RolloutRecord) -> BTreeMap<&ReleaseId, BTreeSet<&PoolName>> {
    let mut found: BTreeMap<&ReleaseId, BTreeSet<&PoolName>> = BTreeMap::new();
    for entry in &record.history {
        if let RolloutEvent::ReleaseQuarantined { release, pools } = &entry.what {
            found.entry(release).or_default().extend(pools);
        }
    }
    found
}

fn summary_line(summary: &drydock_plan::RolloutSummary) -> String {
    let parts = [
        (summary.done, "done"),
        (summary.reverted, "taken back"),
        (summary.skipped, "left out"),
        (summary.quarantined, "quarantined"),
        (summary.gone, "gone"),
    ];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let clusters = some(&summary.clusters, 4);
    format!("{} of {}; {clusters}", parts.join(", "), summary.nodes)
}

const fn blame(blame: Blame) -> &'static str {
    match blame {
        Blame::Version => "the version: the same node passed again on what it ran before",
        Blame::Node => "the node: it failed on what it ran before, too",
        Blame::Unknown => "not known",
    }
}

fn failure_word(class: FailureClass) -> String {
    match class {
        FailureClass::Apply => "applying it failed".to_owned(),
        FailureClass::Check(class) => format!("{} check", class.as_str()),
        FailureClass::Lost => "the node was lost".to_owned(),
        FailureClass::Health => "a health fault while it soaked".to_owned(),
    }
}

/// Failures in halves: one whose cause isn't known counts half.
fn failures(halves: u32) -> String {
    match (halves / 2, halves % 2) {
        (0, 1) => "1 failure of unknown cause, which counts half".to_owned(),
        (whole, 0) => count(whole, "failure"),
        (whole, _) => format!("{} and one of unknown cause, which counts half", count(whole, "failure")),
    }
}

fn limit(limit: &HaltLimit) -> String {
    match limit {
        HaltLimit::Failures { half_weights, tolerate } => {
            format!("{}, {tolerate} tolerated", failures(*half_weights))
        }
        HaltLimit::Percent { failed, attempted, tolerate } => {
            format!("{failed} of {} failed, {tolerate} tolerated", count(*attempted, "unit"))
        }
        HaltLimit::Consecutive { count: n } => format!("{} in a row", count(*n, "failure")),
        HaltLimit::Lost { count: n, tolerate } => format!("{} lost, {tolerate} tolerated", count(*n, "node")),
        HaltLimit::Class { class, count: n, tolerate } => {
            format!("{} of {}, {tolerate} tolerated", count(*n, "failure"), failure_word(*class))
        }
        HaltLimit::Nodes { failed, passed, tolerate } => {
            format!(
                "{} failed before and after, {passed} passed, {tolerate} tolerated",
                count(*failed, "node")
            )
        }
    }
}

fn evidence(record: &RolloutRecord, when: &When, width: usize) -> String {
    if record.failures.is_empty() {
        return "  no failure was settled in this rollout, so there is no evidence".to_owned();
    }
    let mut out = Vec::new();
    for failure in &record.failures {
        out.push(format!("\n  evidence of {} ({})", failure.node, failure_word(failure.class)));
        for evidence in &failure.evidence {
            let at: Timestamp = evidence.result.as_ref().map_or(evidence.at, |result| result.finished);
            out.push(wrap(&format!("    {}  on {}  {}", when.at(at), evidence.on, evidence.text), 6, width));
            if let Some(result) = &evidence.result {
                let value = result.value.map_or(String::new(), |value| format!(", measured {value}"));
                let partner = result.partner.as_ref().map_or(String::new(), |node| format!(", with {node}"));
                let run = short(Period::between(result.started, result.finished));
                out.push(format!("      {} {:?} after {run}{value}{partner}", result.check, result.verdict));
                out.extend(result.detail.lines().map(|line| format!("      | {line}")));
            }
        }
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_say_how_many_of_how_many() {
        assert_eq!(bar(0, 160), "░░░░░░░░░░░░");
        assert_eq!(bar(14, 24), "███████░░░░░");
        assert_eq!(bar(24, 24), "████████████");
        assert_eq!(bar(0, 0), "░░░░░░░░░░░░");
    }
}
