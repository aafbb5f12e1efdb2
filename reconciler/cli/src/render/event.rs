//! Events in words: `history` and the running story of `demo` say them alike.

use drydock_plan::{Blame, CommandKind, RolloutEvent};
use drydock_server::store::{Event, EventKind, LedgerNotice};
use drydock_spec::GatePoint;

use super::reason::{count, some};
use super::rollout::wave_word;

/// An event as a line without its time.
pub(crate) fn line(event: &Event) -> String {
    match &event.what {
        EventKind::Rollout { rollout, policy: _, event } => format!("{rollout}  {}", rollout_event(event)),
        EventKind::Node { node, rollout: _, from, to } => format!("{node}  {from} -> {to}"),
        EventKind::Command { command: _, by, reason, what } => {
            format!("{by} says {} ({reason})", command(what))
        }
        EventKind::Adopted { commit, summary } => {
            format!("commit {} is in force: {summary}", commit.get(..7).unwrap_or(commit))
        }
        EventKind::SourceProblem { problem } => format!("the repository: {problem}"),
        EventKind::SourceWell {} => "the repository is well again".to_owned(),
        EventKind::Ledger { notice } => ledger(notice),
        EventKind::Violation { what } => format!("a plan broke a rule and was cut down: {}", what.join("; ")),
    }
}

fn ledger(notice: &LedgerNotice) -> String {
    match notice {
        LedgerNotice::Rebuilt { nodes, rollouts, notes } => {
            let lost = if notes.is_empty() { String::new() } else { format!("; {}", notes.join("; ")) };
            format!(
                "the ledger was gone and was made again from the records of {nodes} nodes and {rollouts} rollouts; \
                 pauses and approvals have to be given again{lost}"
            )
        }
        LedgerNotice::Accepted { known, found } => {
            format!("the ledger went back from revision {known} to {found}, which a person has accepted")
        }
        LedgerNotice::WentBack { known, found } => {
            format!(
                "the ledger went back from revision {known} to {found}; nothing is done until a person accepts it"
            )
        }
    }
}

/// What a person said.
pub(crate) fn command(what: &CommandKind) -> String {
    match what {
        CommandKind::Pause { rollout } => format!("pause {rollout}"),
        CommandKind::Resume { rollout } => format!("resume {rollout}"),
        CommandKind::Abort { rollout } => format!("abort {rollout}"),
        CommandKind::Approve { rollout, wave, gate, team } => {
            format!("approve {rollout} {} wave {wave} for {team}", side(*gate))
        }
        CommandKind::Skip { node } => format!("skip {node}"),
        CommandKind::RetryRelease { release, pool: None } => format!("retry {release}"),
        CommandKind::RetryRelease { release, pool: Some(pool) } => format!("retry {release} on pool {pool}"),
        CommandKind::RetryNode { node } => format!("retry {node}"),
    }
}

const fn side(gate: GatePoint) -> &'static str {
    match gate {
        GatePoint::Before => "before",
        GatePoint::After => "after",
    }
}

const fn blame(blame: Blame) -> &'static str {
    match blame {
        Blame::Version => "the version",
        Blame::Node => "the node",
        Blame::Unknown => "nobody knows",
    }
}

fn rollout_event(event: &RolloutEvent) -> String {
    match event {
        RolloutEvent::Created { nodes, waves } => {
            format!("created: {} in {}", count(*nodes, "node"), count(*waves, "wave"))
        }
        RolloutEvent::State { from, to, why } if why.is_empty() => format!("{from} -> {to}"),
        RolloutEvent::State { from, to, why } => format!("{from} -> {to}: {why}"),
        RolloutEvent::Wave { wave, state } => format!("wave {wave}: {}", wave_word(*state)),
        RolloutEvent::Batch { wave, batch, units } => {
            format!("wave {wave}: batch {batch} opens for {}", count(*units, "unit"))
        }
        RolloutEvent::Suspect { node, text } => format!("{node} is suspect: {text}"),
        RolloutEvent::FailureSettled { node, blame: who, text } => {
            format!("{node} settled, to blame: {}: {text}", blame(*who))
        }
        RolloutEvent::Approved { wave, gate, team, by } => {
            format!("wave {wave}: {by} agrees for {team} ({})", side(*gate))
        }
        RolloutEvent::LayoutQuarantined { layout, pools } => {
            format!("layout {layout} is quarantined on {}", some(pools, 4))
        }
        RolloutEvent::ReleaseQuarantined { release, pools } => {
            format!("release {release} is quarantined on {}", some(pools, 4))
        }
        RolloutEvent::NodeQuarantined { node, blame: who } => {
            format!("{node} is quarantined, to blame: {}", blame(*who))
        }
        RolloutEvent::Deferred { node, why } => format!("{node} is given back: {why}"),
        RolloutEvent::Skipped { node, why } => format!("{node} is left out: {why}"),
        RolloutEvent::Drawn { wave, node } => {
            format!("{node} takes the place of one that dropped out of wave {wave}")
        }
    }
}
