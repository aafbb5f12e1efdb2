//! What a node in flight waits for.

use drydock_plan::{Blocker, GangId, NodeId, UnitId};
use jiff::Timestamp;

use super::{count, some};
use crate::render::time::When;

fn tries(attempt: u32) -> String {
    if attempt > 1 { format!(" (try {attempt})") } else { String::new() }
}

pub(super) fn inventory_older_than_plan() -> String {
    "the facts are older than the intent; the next look decides".to_owned()
}

/// What holds it, where that is known.
fn held(by: Option<&Blocker>) -> String {
    by.map_or(String::new(), |by| format!(", held by: {by}"))
}

pub(super) fn preflight(by: Option<&Blocker>, until: Timestamp, when: &When) -> String {
    let held = held(by);
    format!("artefacts are fetched and checks run on what is there{held}; patience ends {}", when.full(until))
}

pub(super) fn cordoning(by: Option<&Blocker>, until: Timestamp, when: &When) -> String {
    format!("the cordon isn't seen yet{}; patience ends {}", held(by), when.full(until))
}

pub(super) fn checkpoint(gangs: &[GangId], by: Option<&Blocker>, until: Timestamp, when: &When) -> String {
    format!("{} to save a checkpoint{}; patience ends {}", some(gangs, 3), held(by), when.full(until))
}

pub(super) fn draining(
    remaining: u32,
    blocked_by: Option<&Blocker>,
    until: Timestamp,
    when: &When,
) -> String {
    let blocked = blocked_by.map_or(String::new(), |by| format!(", held by {by}"));
    format!("{} still to leave{blocked}; patience ends {}", count(remaining, "pod"), when.full(until))
}

pub(super) fn applying(
    what: &str,
    attempt: u32,
    by: Option<&Blocker>,
    until: Timestamp,
    when: &When,
) -> String {
    format!("{what} is applied{}{}; patience ends {}", tries(attempt), held(by), when.full(until))
}

pub(super) fn checking(attempt: u32, by: Option<&Blocker>, until: Timestamp, when: &When) -> String {
    format!("checks run{}{}; patience ends {}", tries(attempt), held(by), when.full(until))
}

pub(super) fn backoff(attempt: u32, until: Timestamp, when: &When) -> String {
    format!("try {attempt} begins {}", when.full(until))
}

pub(super) fn unit_barrier(unit: &UnitId, waits_for: &NodeId) -> String {
    format!("{waits_for} of the same unit {unit} isn't as far")
}

pub(super) fn lost(since: Timestamp, until: Timestamp, when: &When) -> String {
    format!("not seen for {}; given up {}", when.since(since), when.full(until))
}

pub(super) fn returning(by: Option<&Blocker>) -> String {
    format!("drydock's own cordon isn't gone yet{}", held(by))
}

pub(super) fn soaking(until: Timestamp, when: &When) -> String {
    format!("it serves and is watched until {}", when.full(until))
}
