//! A plan for a reviewer: what, where, how hard, how long, what can't be undone, what wasn't looked at.

use std::collections::{BTreeMap, BTreeSet};

use drydock_spec::{ComponentVersion, Period, PoolName, diff::VersionMove};

use super::paint::Tone;
use super::reason::{count, grouped, some};
use super::table::{Columns, Item};
use super::time::{When, short};
use super::wrap;
use crate::planning::{Draft, Forecast, Limit, RolloutDraft};
use crate::ui::Ui;

/// The whole of it.
pub(crate) fn text(draft: &Draft, zone: Option<&str>, ui: &Ui) -> String {
    let when = When::new(draft.at, zone);
    let mut out = vec![verdict(draft, ui)];
    out.extend(changes(draft, ui));
    for rollout in &draft.rollouts {
        out.push(String::new());
        out.push(waves(rollout, ui));
    }
    if draft.nodes > 0 {
        out.push(String::new());
    }
    out.extend(draft.forecast.iter().flat_map(|forecast| forecast_lines(forecast, &when)));
    out.extend(limits(&draft.limits, ui));
    for unmoved in &draft.unmoved {
        let tag = ui.paint.tone(Tone::Warn, "! stays");
        out.push(format!("{tag}    {}: {}", count(unmoved.nodes, "node"), unmoved.why));
    }
    for d in &draft.warnings {
        let tag = ui.paint.tone(Tone::Warn, "! warning");
        out.push(format!("{tag}  {}:{}:{}  {}  {}", d.file, d.span.line, d.span.column, d.rule, d.message));
        out.extend(d.hint.iter().map(|hint| format!("           {hint}")));
    }
    if !draft.is_empty() {
        out.extend(
            draft
                .not_evaluated
                .iter()
                .map(|what| ui.paint.dim(&wrap(&format!("not seen  {what}"), 10, ui.width))),
        );
    }
    out.join("\n")
}

fn verdict(draft: &Draft, ui: &Ui) -> String {
    let sides = format!("{} -> {}", draft.from.label, draft.to.label);
    if draft.is_empty() {
        return format!("{} {sides}: both say the same", ui.paint.strong("no change"));
    }
    let documents: u32 = draft.documents.values().sum();
    let mut parts = vec![format!("{} changed", count(documents, "document"))];
    if draft.nodes == 0 {
        parts.push("no node moves".to_owned());
        return format!("{} ({sides})", parts.join(", "));
    }
    parts.push(format!(
        "{}, {}, {} GPUs",
        count(draft.clusters, "cluster"),
        count(draft.nodes, "node"),
        grouped(draft.gpus.into())
    ));
    parts.push(format!("class: {}", ui.paint.strong(draft.class.word())));
    format!("{} ({sides})", parts.join("; "))
}

fn version(version: Option<&ComponentVersion>) -> &str {
    version.map_or("nothing", |v| v.version.as_str())
}

/// What changes, in words. Removals are never folded.
fn changes(draft: &Draft, ui: &Ui) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(held) = &draft.held {
        out.push(format!("{}  {held}", ui.paint.tone(Tone::Bad, "HELD")));
    }
    for (what, pools) in moves(&draft.versions) {
        let pools: Vec<_> = pools.into_iter().collect();
        out.push(format!("  {what} on {}: {}", count(size(pools.len()), "pool"), some(&pools, 3)));
    }
    let mut list = |word: &str, names: Vec<String>, tone: Tone| {
        if !names.is_empty() {
            out.push(format!("  {} {}", ui.paint.tone(tone, word), names.join(", ")));
        }
    };
    let names = |pools: &[PoolName]| pools.iter().map(ToString::to_string).collect::<Vec<_>>();
    list("repartitioned:", names(&draft.repartitioned), Tone::Plain);
    list("new pools:", names(&draft.added), Tone::Plain);
    let renamed =
        draft.renamed.iter().map(|(old, new)| format!("{old} -> {new} (no node moves for it)")).collect();
    list("renamed:", renamed, Tone::Plain);
    list("REMOVED pools (their nodes stay as they are and are nobody's):", names(&draft.removed), Tone::Bad);
    list("REMOVED, and what they limited is open:", draft.ended.clone(), Tone::Bad);
    list("can't be taken back:", draft.irreversible.clone(), Tone::Warn);
    if out.is_empty() && !draft.is_empty() {
        let kinds: Vec<String> = draft.documents.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        out.push(format!("  {}", kinds.join(", ")));
    }
    out
}

fn size(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Moves of versions in words, with their pools. Settings that differ from pool to pool don't make two moves of one.
fn moves(versions: &[VersionMove]) -> BTreeMap<String, BTreeSet<&PoolName>> {
    let mut found: BTreeMap<String, BTreeSet<&PoolName>> = BTreeMap::new();
    for VersionMove { component, from, to, pools } in versions {
        let (from, to) = (from.as_ref(), to.as_ref());
        let digest = |side: Option<&ComponentVersion>| side.and_then(|v| v.digest.clone());
        let what = if version(from) == version(to) {
            // The text is the same: a digest or a setting differs, which moves nodes all the same.
            format!("{component} {}: another digest or other settings", version(to))
        } else if digest(from).is_some() && digest(from) == digest(to) {
            // The text names objects, labels and tags, and the checks read it: what runs by it has to be made anew.
            format!(
                "{component} {} -> {} (the same digest; the text is part of a release, so nodes move for it)",
                version(from),
                version(to)
            )
        } else {
            format!("{component} {} -> {}", version(from), version(to))
        };
        found.entry(what).or_default().extend(pools);
    }
    found
}

fn waves(rollout: &RolloutDraft, ui: &Ui) -> String {
    if !rollout.rejected.is_empty() {
        let word = ui.paint.tone(Tone::Bad, "never works as written");
        return format!("rollout {}  {word}: {}", rollout.id, rollout.rejected.join("; "));
    }
    let head = ["wave", "clusters", "nodes", "GPUs", "away at most", "window", "checks", "approval"];
    let mut table = Columns::new(&head, ui.paint, ui.width.saturating_sub(2));
    for wave in &rollout.waves {
        let windows = match wave.windows.as_slice() {
            [] => "any".to_owned(),
            windows => some(windows, 2),
        };
        let approvals = if wave.approvals.is_empty() { "-".to_owned() } else { wave.approvals.join(", ") };
        table.row(vec![
            wave.name.to_string().into(),
            some(&wave.clusters, 2).into(),
            Item::number(grouped(wave.nodes.into())),
            Item::number(grouped(wave.gpus.into())),
            format!("{} / {} GPUs", grouped(wave.most_nodes.into()), grouped(wave.most_gpus.into())).into(),
            windows.into(),
            wave.checks.join(" ").into(),
            approvals.into(),
        ]);
    }
    format!("rollout {} (RolloutPolicy {})\n{}", rollout.id, rollout.policy, table.finish("  "))
}

fn forecast_lines(forecast: &Forecast, when: &When) -> Vec<String> {
    let Forecast { runs, succeeded, done_p50, done_p90, .. } = forecast;
    let mut out = vec![format!(
        "forecast  done {} (p50) .. {} (p90); {:.0} GPU-hours away",
        when.at(*done_p50),
        when.at(*done_p90),
        forecast.gpu_hours_lost,
    )];
    out.push(format!(
        "          at most {} / {} GPUs at once; {} cut, {} moved at a checkpoint",
        count(forecast.max_in_flight, "node"),
        grouped(forecast.max_gpus_away.into()),
        count(forecast.gangs_cut, "gang"),
        forecast.gangs_moved,
    ));
    if succeeded < runs {
        out.push(format!("          {} of {runs} simulated runs didn't succeed", runs - succeeded));
    }
    if let Some(bad) = &forecast.if_bad {
        let after = short(Period::from_secs(bad.detected_after));
        let nodes = count(bad.exposed_nodes, "node");
        out.push(format!("if bad    a broken driver is seen by {nodes}, settled {after} after it starts"));
    }
    out
}

/// Limits that were said, one a line, then those that nobody said anything about.
fn limits(limits: &[Limit], ui: &Ui) -> Vec<String> {
    let (default, said): (Vec<&Limit>, Vec<&Limit>) =
        limits.iter().partition(|limit| limit.origin == "default");
    let mut out = Vec::new();
    if !said.is_empty() {
        let mut table = Columns::new(&["limit", "value", "said by"], ui.paint, ui.width);
        for Limit { of, what, value, origin } in said {
            // A budget is known by its name, a policy by its file.
            let what = match of.strip_prefix("Budget ") {
                Some(name) => format!("{name} {what}"),
                None => what.clone(),
            };
            table.row(vec![what.into(), value.as_str().into(), Item::dim(origin.as_str())]);
        }
        out.push(table.finish(""));
    }
    if !default.is_empty() {
        let list: Vec<String> =
            default.iter().map(|limit| format!("{} {}", limit.what, limit.value)).collect();
        out.push(wrap(&format!("defaults  {}", list.join("; ")), 10, ui.width));
    }
    out
}
