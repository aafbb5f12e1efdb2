//! The golden text of a run: what happened, and what it came to.

use std::fmt::Write as _;

use drydock_sim::{Run, Summary};
use serde_json::Value;

/// Fields of a summary that say how the run was made, not what came of it.
const LEFT_OUT: [&str; 4] = ["timeline", "passes", "seed", "reasons"];

/// All of it.
pub(crate) fn text(run: &Run) -> String {
    let mut out = String::new();
    for line in &run.summary.timeline {
        writeln!(out, "{} {}", line.at.strftime("%m-%d %H:%M:%S"), line.text).unwrap();
    }
    out.push_str("\nwaited for: ");
    let words: Vec<&str> = run.summary.reasons.keys().map(String::as_str).collect();
    writeln!(out, "{}", words.join(" ")).unwrap();
    for line in waits(run) {
        writeln!(out, "at the end: {line}").unwrap();
    }
    for (field, value) in fields(&run.summary) {
        writeln!(out, "{field}: {}", plain(&value)).unwrap();
    }
    out
}

/// What the last pass still waits for, with the numbers of each reason.
pub(crate) fn waits(run: &Run) -> Vec<String> {
    let reason = |reason: &drydock_plan::Reason| serde_json::to_string(reason).unwrap();
    let mut lines = Vec::new();
    for rollout in &run.report.rollouts {
        lines.extend(rollout.waits.iter().map(|why| format!("{} {}", rollout.id, reason(why))));
        for wave in &rollout.waves {
            lines.extend(
                wave.waits.iter().map(|w| {
                    format!("{} {}: {} nodes {}", rollout.id, wave.name, w.nodes, reason(&w.reason))
                }),
            );
        }
    }
    lines.extend(run.report.holds.iter().map(|w| format!("{} nodes {}", w.nodes, reason(&w.reason))));
    lines
}

fn fields(summary: &Summary) -> Vec<(String, Value)> {
    let Ok(Value::Object(map)) = serde_json::to_value(summary) else { return Vec::new() };
    map.into_iter().filter(|(field, value)| !LEFT_OUT.contains(&field.as_str()) && !empty(value)).collect()
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(empty),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            map.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
