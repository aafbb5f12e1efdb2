//! What happened, read off the changes of the ledger. A pure function, so that every writer of the ledger tells the same.

use drydock_plan::{HistoryEntry, Ledger, LedgerChange, NodeId, NodeRecord, RolloutId, RolloutRecord};
use jiff::Timestamp;

use crate::store::{EventKind, NewEvent};
use crate::view::step_word;

/// Events about `changes` to `before`.
pub(crate) fn events(before: &Ledger, changes: &[LedgerChange], at: Timestamp) -> Vec<NewEvent> {
    let mut events = Vec::new();
    for change in changes {
        match change {
            LedgerChange::Rollout(record) => {
                rollout(before.rollouts.get(&record.id).map(AsRef::as_ref), record, &mut events);
            }
            LedgerChange::Node(id, record) => {
                events.extend(node(id, before.nodes.get(id), Some(record)).map(|what| NewEvent { at, what }));
            }
            LedgerChange::ForgetNode(id) => {
                events.extend(node(id, before.nodes.get(id), None).map(|what| NewEvent { at, what }));
            }
            LedgerChange::Command(number, command) if !before.commands.contains_key(number) => {
                let what = EventKind::Command {
                    command: *number,
                    by: command.by.clone(),
                    reason: command.reason.clone(),
                    what: command.what.clone(),
                };
                events.push(NewEvent { at, what });
            }
            // A rollout's history tells of quarantines; contents of releases are no news.
            LedgerChange::Command(..)
            | LedgerChange::ForgetCommand(_)
            | LedgerChange::ForgetRollout(_)
            | LedgerChange::Quarantine(..)
            | LedgerChange::Release(..)
            | LedgerChange::Remember(..) => {}
        }
    }
    events
}

fn rollout(before: Option<&RolloutRecord>, after: &RolloutRecord, events: &mut Vec<NewEvent>) {
    let told = before.and_then(|record| record.history.last());
    for HistoryEntry { at, what } in after.history.iter().skip(already_told(told, &after.history)) {
        let what = EventKind::Rollout {
            rollout: after.id.clone(),
            policy: after.policy.clone(),
            event: what.clone(),
        };
        events.push(NewEvent { at: *at, what });
    }
}

/// How many entries were there before. The oldest may have been dropped meanwhile, so it is the last one that is
/// looked for.
fn already_told(last: Option<&HistoryEntry>, history: &[HistoryEntry]) -> usize {
    last.and_then(|last| history.iter().rposition(|entry| entry == last)).map_or(0, |at| at + 1)
}

fn node(id: &NodeId, before: Option<&NodeRecord>, after: Option<&NodeRecord>) -> Option<EventKind> {
    let to = if after.is_some() { step_word(after) } else { "gone" };
    let from = step_word(before);
    let holder = |record: &NodeRecord| -> Option<RolloutId> {
        let visit = record.visit.as_ref().map(|visit| &visit.rollout);
        visit.or(record.assignment.as_ref().map(|assignment| &assignment.rollout)).cloned()
    };
    (from != to).then(|| EventKind::Node {
        node: id.clone(),
        rollout: after.and_then(holder).or_else(|| before.and_then(holder)),
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drydock_plan::RolloutEvent;

    #[test]
    fn entries_are_told_once_even_when_the_oldest_are_dropped() {
        let entry = |n: u32| HistoryEntry {
            at: Timestamp::constant(i64::from(n), 0),
            what: RolloutEvent::Created { nodes: n, waves: 1 },
        };
        let history: Vec<_> = (3..8).map(entry).collect();
        assert_eq!(already_told(Some(&entry(5)), &history), 3);
        assert_eq!(already_told(Some(&entry(7)), &history), 5);
        assert_eq!(already_told(None, &history), 0);
    }

    #[test]
    fn a_node_is_told_of_when_it_goes_on() {
        let id = NodeId::new("c/n");
        let idle = NodeRecord::default();
        let soaking = NodeRecord {
            quarantine: Some(drydock_plan::NodeQuarantine {
                rollout: RolloutId::new("r"),
                since: Timestamp::UNIX_EPOCH,
                blame: drydock_plan::Blame::Node,
                evidence: Vec::new(),
                retry: None,
            }),
            ..NodeRecord::default()
        };
        let before = Ledger::default();
        let changes = [
            LedgerChange::Node(id.clone(), Box::new(idle)),
            LedgerChange::Node(id.clone(), Box::new(soaking)),
            LedgerChange::ForgetNode(id.clone()),
        ];
        let words: Vec<_> = events(&before, &changes, Timestamp::UNIX_EPOCH)
            .into_iter()
            .map(|event| match event.what {
                EventKind::Node { from, to, .. } => format!("{from} {to}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(words, ["idle quarantined", "idle gone"]);
    }
}
