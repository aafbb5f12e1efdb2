//! What happened, as lines for people.

use drydock_plan::{
    ApplyItem, Command, CommandKind, Course, HistoryEntry, NodeId, NodeRecord, RolloutEvent, RolloutId, Step,
    VisitEnd,
};

/// What a person said.
pub(super) fn command(command: &Command) -> String {
    let what = match &command.what {
        CommandKind::Pause { rollout } => format!("pause {rollout}"),
        CommandKind::Resume { rollout } => format!("resume {rollout}"),
        CommandKind::Abort { rollout } => format!("abort {rollout}"),
        CommandKind::Approve { rollout, wave, team, .. } => format!("approve {rollout} {wave} for {team}"),
        CommandKind::Skip { node } => format!("skip {node}"),
        CommandKind::RetryRelease { release, pool: None } => format!("retry {release}"),
        CommandKind::RetryRelease { release, pool: Some(pool) } => format!("retry {release} on {pool}"),
        CommandKind::RetryNode { node } => format!("retry {node}"),
    };
    format!("{} says: {what} ({})", command.by, command.reason)
}

/// An entry of a rollout's history.
pub(super) fn history(rollout: &RolloutId, entry: &HistoryEntry) -> String {
    let what = match &entry.what {
        RolloutEvent::Created { nodes, waves } => format!("created: {nodes} nodes in {waves} waves"),
        RolloutEvent::State { from, to, why } if why.is_empty() => format!("{from} -> {to}"),
        RolloutEvent::State { from, to, why } => format!("{from} -> {to}: {why}"),
        RolloutEvent::Wave { wave, state } => format!("wave {wave}: {state:?}"),
        RolloutEvent::Batch { wave, batch, units } => format!("wave {wave}: batch {batch}, up to {units}"),
        RolloutEvent::Suspect { node, text } => format!("suspect {node}: {text}"),
        RolloutEvent::FailureSettled { node, blame, text } => {
            format!("{node}: {:?} is to blame: {text}", blame)
        }
        RolloutEvent::Approved { wave, gate, team, by } => {
            format!("wave {wave}: {by} approves for {team} ({gate:?})")
        }
        RolloutEvent::ReleaseQuarantined { release, pools } => {
            let pools: Vec<&str> = pools.iter().map(drydock_spec::PoolName::as_str).collect();
            format!("{release} is quarantined on {}", pools.join(", "))
        }
        RolloutEvent::LayoutQuarantined { layout, pools } => {
            let pools: Vec<&str> = pools.iter().map(drydock_spec::PoolName::as_str).collect();
            format!("layout {layout} is quarantined on {}", pools.join(", "))
        }
        RolloutEvent::NodeQuarantined { node, blame } => format!("{node} is quarantined: {blame:?}"),
        RolloutEvent::Deferred { node, why } => format!("{node} is deferred: {why}"),
        RolloutEvent::Skipped { node, why } => format!("{node} is skipped: {why}"),
        RolloutEvent::Drawn { wave, node } => format!("{node} is drawn for wave {wave}"),
    };
    format!("{rollout} {what}")
}

fn step(record: &NodeRecord) -> String {
    let Some(visit) = &record.visit else {
        return match (&record.quarantine, &record.soak) {
            (Some(_), _) => "quarantined".to_owned(),
            (None, Some(_)) => "soaks".to_owned(),
            (None, None) => "serves".to_owned(),
        };
    };
    let course = match &visit.course {
        Course::Forward => "",
        Course::Back => "back: ",
        Course::Out(VisitEnd::Upgraded) => "upgraded: ",
        Course::Out(VisitEnd::Reverted) => "reverted: ",
        Course::Out(VisitEnd::Deferred) => "deferred: ",
        Course::Out(VisitEnd::GivenBack) => "given back: ",
        Course::Out(VisitEnd::Preexisting) => "failing before: ",
    };
    match &visit.step {
        Step::Apply(ApplyItem::Component(component)) => format!("{course}apply {component}"),
        Step::Apply(ApplyItem::Layout) => format!("{course}apply the layout"),
        other => format!("{course}{}", other.word()),
    }
}

/// The change of a node's step; `None` when it is the same.
pub(super) fn node(id: &NodeId, before: Option<&NodeRecord>, after: &NodeRecord) -> Option<String> {
    let then = before.map_or_else(|| "serves".to_owned(), step);
    let now = step(after);
    (then != now).then(|| format!("{id} {then} -> {now}"))
}
