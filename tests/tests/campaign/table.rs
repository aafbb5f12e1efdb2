//! Results as Markdown.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{bad::Exposure, good::Course};

fn middle(values: &mut [usize]) -> usize {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Exposure by the way in which the release is bad.
pub fn bad(runs: &[Exposure]) -> String {
    let mut text = format!(
        "\n{} bad releases\n\n| how it is bad | releases | exposed, median | exposed, most | bound, least | beyond the bound | serving at the end |\n|---|---|---|---|---|---|---|\n",
        runs.len()
    );
    let mut row = |name: &str, runs: Vec<&Exposure>| {
        let mut nodes: Vec<usize> = runs.iter().map(|run| run.nodes).collect();
        let most = nodes.iter().max().copied().unwrap_or_default();
        let least = runs.iter().map(|run| run.bound).min().unwrap_or_default();
        let over = runs.iter().filter(|run| run.nodes > run.bound).count();
        let serving: usize = runs.iter().map(|run| run.serving).sum();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {most} | {least} | {over} | {serving} |",
            runs.len(),
            middle(&mut nodes)
        );
    };
    let mut kinds: BTreeMap<&str, Vec<&Exposure>> = BTreeMap::new();
    runs.iter().for_each(|run| kinds.entry(run.kind).or_default().push(run));
    kinds.into_iter().for_each(|(kind, runs)| row(kind, runs));
    let mut first: BTreeMap<&str, Vec<&Exposure>> = BTreeMap::new();
    runs.iter().for_each(|run| first.entry(run.first_node).or_default().push(run));
    first.into_iter().for_each(|(what, runs)| row(&format!("first node {what}"), runs));
    row("all", runs.iter().collect());
    text
}

/// Outcomes of good releases.
pub fn good(title: &str, runs: &[Course]) -> String {
    let mut text = format!("\n{title}: {} runs\n\n| outcome | runs | share |\n|---|---|---|\n", runs.len());
    let share = |n: usize| 100.0 * n as f64 / runs.len().max(1) as f64;
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *outcomes.entry(run.outcome.as_str()).or_default() += 1);
    for (outcome, n) in outcomes {
        let _ = writeln!(text, "| {outcome} | {n} | {:.1} % |", share(n));
    }
    let stopped = runs.iter().filter(|run| run.stopped).count();
    let unfinished = runs.iter().filter(|run| run.unfinished).count();
    let silent = runs.iter().filter(|run| run.unfinished && !run.named).count();
    let _ = writeln!(text, "| wrongly stopped | {stopped} | {:.1} % |", share(stopped));
    let _ = writeln!(text, "| unfinished | {unfinished} | {:.1} % |", share(unfinished));
    let _ = writeln!(text, "| unfinished, and nobody is named | {silent} | {:.1} % |", share(silent));
    let mut hours: Vec<usize> = runs.iter().map(|run| usize::try_from(run.hours).unwrap_or(0)).collect();
    let longest = hours.iter().max().copied().unwrap_or_default();
    let _ = writeln!(text, "\nDone after {} hours in the median, {longest} at most.", middle(&mut hours));
    let mut why: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.halted.is_empty()) {
        let text: String = run.halted.chars().filter(|c| !c.is_ascii_digit()).take(90).collect();
        *why.entry(text).or_default() += 1;
    }
    if !why.is_empty() {
        text.push_str("\n| why halted | runs |\n|---|---|\n");
    }
    for (why, n) in why {
        let _ = writeln!(text, "| {why} | {n} |");
    }
    for run in runs.iter().filter(|run| run.unfinished || run.stopped) {
        let Course { seed, outcome, on_target, nodes, reasons, .. } = run;
        let _ = writeln!(text, "seed {seed}: {outcome}, {on_target} of {nodes} on target, {reasons:?}");
    }
    text
}
