//! One node on a terminal: where it is, and everything it waits for.

use super::paint::Paint;
use super::reason::sentence;
use super::time::When;
use super::wrap;
use crate::client::answers::{Node, Why};

/// The whole answer of `why`.
pub(crate) fn why(node: &Node, when: &When, paint: Paint, width: usize) -> String {
    let mut out = vec![wrap(&title(node, paint), 2, width)];
    let Some(why) = &node.why else {
        out.push("  the cluster doesn't have this node any more; only the ledger knows it".to_owned());
        return out.join("\n");
    };
    out.extend(changes(node).map(|line| wrap(&line, 11, width)));
    if node.freshness != "Fresh" {
        out.push(format!("  facts are {}: nothing below is certain", node.freshness.to_lowercase()));
    }
    for fault in &node.health_faults {
        out.push(format!("fault      {} for {}", fault.kind, when.since(fault.since)));
    }
    if let Some(visit) = &node.visit {
        let held = format!(
            "reserved   by {} {}, step {}",
            visit.rollout,
            when.relative(visit.since),
            visit.step.word()
        );
        out.push(format!("{held}, patience ends {}", when.full(visit.deadline)));
    }
    for what in &why.violations {
        out.push(wrap(&format!("the last plan broke a rule and was cut down: {what}"), 11, width));
    }
    if why.waits_for.is_empty() && why.violations.is_empty() {
        out.push(nothing(node, why).to_owned());
    }
    for (i, reason) in why.waits_for.iter().enumerate() {
        let head = if i == 0 { "waits for" } else { "         " };
        out.push(wrap(&format!("{head}  {}. {}", i + 1, sentence(reason, when)), 14, width));
    }
    out.extend(not_waiting(node, why).map(|line| wrap(&line, 11, width)));
    out.push(wrap(&judged(why, when), 11, width));
    out.join("\n")
}

/// Its state in words; every name can be pasted back.
fn title(node: &Node, paint: Paint) -> String {
    let pool = node.pool.as_ref().map_or("no pool".to_owned(), |pool| format!("pool {pool}"));
    let release = match (&node.running, &node.wanted) {
        (Some(running), Some(wanted)) if *running == wanted.release => format!("release {running} as wanted"),
        (Some(running), Some(wanted)) => format!("release {running} (wanted {})", wanted.release),
        (Some(running), None) => format!("release {running} (nothing wanted)"),
        (None, _) => "runs nothing that is known".to_owned(),
    };
    let serving = if node.schedulable { "serving" } else { "not serving" };
    let held = match (&node.visit, &node.rollout) {
        (Some(_), Some(rollout)) => format!("reserved by {rollout}"),
        (None, Some(rollout)) => format!("part of {rollout}"),
        (_, None) => "not reserved".to_owned(),
    };
    let (sync, health) = (paint.word(&node.sync), paint.word(&node.health));
    format!("{}   {sync}, {health}, {serving}, {held}   {pool}   {release}", paint.strong(node.id.as_str()))
}

/// What would change on it, in versions.
fn changes(node: &Node) -> impl Iterator<Item = String> {
    let changed = node.running_vector.as_ref().zip(node.wanted_vector.as_ref()).map(|(running, wanted)| {
        let named = running.changes(wanted).into_iter().filter(|change| change.to.is_some()).map(|change| {
            let text = |v: Option<&drydock_spec::ComponentVersion>| {
                v.map_or("nothing".to_owned(), |v| v.version.to_string())
            };
            format!("{} {} -> {}", change.component, text(change.from), text(change.to))
        });
        named.collect::<Vec<_>>().join(", ")
    });
    changed.filter(|text| !text.is_empty()).map(|text| format!("to change  {text}")).into_iter()
}

/// Words of their own for a node that waits for nothing.
fn nothing(node: &Node, why: &Why) -> &'static str {
    if why.synced && node.pool.is_none() {
        "waits for nothing: no pool selects it, so drydock leaves it alone"
    } else if why.synced && node.soak.is_some() {
        "waits for nothing: it runs what Git says, serves, and is watched for a while"
    } else if why.synced {
        "waits for nothing: it runs what Git says"
    } else if node.quarantine.is_some() {
        "waits for a person: it is quarantined"
    } else if node.assignment.is_some() {
        "waits for nothing: it goes on with the next pass"
    } else {
        "waits for nothing that is known: it becomes part of a rollout with the next pass"
    }
}

/// Rules that were asked and don't refuse. Only a node that isn't out yet is asked all of them.
fn not_waiting(node: &Node, why: &Why) -> Option<String> {
    let rules: [(&str, &[&str]); 6] = [
        ("approval", &["approval"]),
        ("freeze", &["freeze"]),
        ("window", &["window", "windowTooShort"]),
        ("budgets", &["budgetInFlight", "budgetFloor"]),
        ("spread", &["spread"]),
        ("jobs", &["gang"]),
    ];
    let asked = node.assignment.as_ref().is_some_and(|a| a.outcome.is_none());
    if why.synced || !asked || node.visit.is_some() || node.soak.is_some() {
        return None;
    }
    let words: Vec<&str> = why.waits_for.iter().map(drydock_plan::Reason::word).collect();
    let free = rules.iter().filter(|(_, kinds)| !kinds.iter().any(|kind| words.contains(kind)));
    let free: Vec<&str> = free.map(|(name, _)| *name).collect();
    (!free.is_empty()).then(|| format!("not for    {}", free.join(", ")))
}

/// How old the judgement is, and when it is made again.
fn judged(why: &Why, when: &When) -> String {
    let facts = why.facts_at.map_or("no facts".to_owned(), |at| format!("facts of {}", when.relative(at)));
    let next = why.waits_for.iter().filter_map(drydock_plan::Reason::until).min();
    let next = match next {
        Some(at) => format!("again {} or when anything changes", when.at(at)),
        None => "again when anything changes".to_owned(),
    };
    format!("judged     {} on {facts}; {next}", when.relative(why.judged_at))
}
