//! Many nodes that wait alike become one line.

use drydock_plan::{Reason, Wait};
use jiff::Timestamp;

use super::{count, sentence};
use crate::render::time::When;

/// Waits that differ only in whom and until when.
struct Group<'a> {
    key: String,
    nodes: u32,
    first: &'a Reason,
    last: Option<Timestamp>,
}

/// Lines about nodes that wait, each with how many they are, in the order in which the reasons came.
pub(crate) fn gathered<'a>(waits: impl Iterator<Item = &'a Wait>, when: &When) -> Vec<String> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for Wait { reason, nodes, example: _ } in waits {
        let key = key(reason, when);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => {
                group.nodes = group.nodes.saturating_add(*nodes);
                group.last = group.last.max(reason.until());
                if reason.until() < group.first.until() {
                    group.first = reason;
                }
            }
            None => groups.push(Group { key, nodes: *nodes, first: reason, last: reason.until() }),
        }
    }
    groups.into_iter().map(|group| line(&group, when)).collect()
}

fn line(group: &Group<'_>, when: &When) -> String {
    let text = sentence(group.first, when);
    let last = match (group.last, group.first.until()) {
        (Some(last), Some(first)) if last > first => format!("; the last {}", when.at(last)),
        _ => String::new(),
    };
    match group.nodes {
        // It is about the wave as a whole.
        0 => format!("{text}{last}"),
        nodes => format!("{}: {text}{last}", count(nodes, "node")),
    }
}

/// What a node in flight waits for is its own; rules are told apart by what they say.
fn key(reason: &Reason, when: &When) -> String {
    match reason {
        Reason::Preflight { blocked_by: None, .. }
        | Reason::Cordoning { blocked_by: None, .. }
        | Reason::Draining { blocked_by: None, .. }
        | Reason::Checking { blocked_by: None, .. }
        | Reason::Backoff { .. }
        | Reason::Soaking { .. }
        | Reason::Cooldown { .. }
        | Reason::PreexistingFailure { .. }
        | Reason::NotReady { .. }
        | Reason::NodeQuarantined { .. } => reason.word().to_owned(),
        Reason::Applying { what, blocked_by: None, .. } => format!("{} {what}", reason.word()),
        other => sentence(other, when),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nodes_that_wait_alike_are_one_line() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let when = When::new(at("2026-03-02T17:00:00Z"), None);
        let wait = |reason, nodes| Wait { reason, nodes, example: None };
        let waits = [
            wait(Reason::Soaking { until: at("2026-03-02T18:00:00Z") }, 1),
            wait(Reason::Soaking { until: at("2026-03-02T17:30:00Z") }, 2),
            wait(Reason::SkippedByControl {}, 1),
            wait(Reason::BatchFull { batch: 1, size: 2, unsettled: 2 }, 0),
        ];
        assert_eq!(
            gathered(waits.iter(), &when),
            [
                "3 nodes: it serves and is watched until Mon 17:30 UTC (in 30m); the last Mon 18:00 UTC",
                "1 node: a person said to leave it out",
                "batch 1 is full: 2 of 2 units still in progress",
            ]
        );
    }
}
