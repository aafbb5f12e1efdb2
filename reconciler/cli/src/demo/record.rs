//! Counts what happens in an act from the numbered events of the ledger: nothing is missed between two looks, and a
//! restart counts the same.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Inventory, Ledger, NodeId, Step};
use drydock_server::store::{Event, EventKind};
use jiff::Timestamp;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Record {
    in_flight: BTreeSet<NodeId>,
    /// Since when, and with how many GPUs.
    away: BTreeMap<NodeId, (Timestamp, u32)>,
    drains: BTreeMap<NodeId, u32>,
    away_gpu_millis: u64,
    /// Most nodes reserved at once.
    pub(crate) max_in_flight: u32,
    /// Most GPUs that took no pods at once.
    pub(crate) max_gpus_away: u32,
    /// Plans that broke an invariant and weren't carried out, as sentences.
    pub(crate) violations: Vec<String>,
    /// For each kind of reason, the number of looks at which it held something back.
    pub(crate) reasons: BTreeMap<String, u32>,
}

/// Where a node is, as far as counting goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Serving,
    Reserved,
    Away,
}

fn place(step: &str) -> Place {
    match step {
        "preflight" => Place::Reserved,
        "cordon" | "checkpoint" | "drain" | "apply" | "verify" | "fence" | "return" | "quarantined" => {
            Place::Away
        }
        _ => Place::Serving,
    }
}

impl Record {
    /// Begins with what the ledger says.
    pub(crate) fn begin(ledger: &Ledger, inventory: &Inventory, now: Timestamp) -> Self {
        let mut record = Self::default();
        for (id, node) in &ledger.nodes {
            let away = node.quarantine.is_some()
                || node.visit.as_ref().is_some_and(|visit| visit.step != Step::Preflight);
            if node.visit.is_some() {
                record.in_flight.insert(id.clone());
            }
            if away {
                record.away.insert(id.clone(), (now, gpus(inventory, id)));
            }
        }
        record.peak();
        record
    }

    /// Takes an event in.
    pub(crate) fn take(&mut self, event: &Event, inventory: &Inventory) {
        match &event.what {
            EventKind::Node { node, from: _, to, rollout: _ } => {
                let now = place(to);
                if now == Place::Serving || to == "quarantined" {
                    self.in_flight.remove(node);
                } else {
                    self.in_flight.insert(node.clone());
                }
                if now == Place::Away {
                    let gpus = gpus(inventory, node);
                    self.away.entry(node.clone()).or_insert((event.at, gpus));
                } else if let Some((since, gpus)) = self.away.remove(node) {
                    self.spend(since, event.at, gpus);
                }
                if to == "drain" {
                    *self.drains.entry(node.clone()).or_default() += 1;
                }
                self.peak();
            }
            EventKind::Violation { what } => self.violations.extend(what.iter().cloned()),
            EventKind::Rollout { .. }
            | EventKind::Command { .. }
            | EventKind::Adopted { .. }
            | EventKind::SourceProblem { .. }
            | EventKind::SourceWell {}
            | EventKind::Ledger { .. } => {}
        }
    }

    /// Notes the reasons of a look.
    pub(crate) fn note_reasons<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        for word in words.collect::<BTreeSet<_>>() {
            *self.reasons.entry(word.to_owned()).or_default() += 1;
        }
    }

    /// GPU-hours spent away until `now`, to two places.
    pub(crate) fn gpu_hours(&self, now: Timestamp) -> f64 {
        let open: u64 = self.away.values().map(|(since, gpus)| millis(*since, now) * u64::from(*gpus)).sum();
        ((self.away_gpu_millis + open) as f64 / 36_000.0).round() / 100.0
    }
    /// Most times one node was emptied.
    pub(crate) fn most_drains(&self) -> u32 {
        self.drains.values().copied().max().unwrap_or(0)
    }

    fn spend(&mut self, since: Timestamp, until: Timestamp, gpus: u32) {
        self.away_gpu_millis = self.away_gpu_millis.saturating_add(millis(since, until) * u64::from(gpus));
    }

    fn peak(&mut self) {
        let nodes = u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX);
        self.max_in_flight = self.max_in_flight.max(nodes);
        self.max_gpus_away = self.max_gpus_away.max(self.away.values().map(|(_, gpus)| gpus).sum());
    }
}

fn gpus(inventory: &Inventory, id: &NodeId) -> u32 {
    inventory.nodes.get(id).map_or(0, |node| node.gpus)
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(second: i64, node: &str, to: &str) -> Event {
        let what = EventKind::Node {
            node: NodeId::new(node),
            rollout: None,
            from: String::new(),
            to: to.to_owned(),
        };
        Event { number: 0, at: Timestamp::from_second(second).unwrap_or_default(), what }
    }

    #[test]
    fn visits_are_counted_from_events() {
        let (mut record, inventory) = (Record::default(), Inventory::default());
        for (second, node, to) in [
            (0, "c/a", "preflight"),
            (1, "c/b", "preflight"),
            (2, "c/a", "drain"),
            (3, "c/a", "apply"),
            (4, "c/a", "soaking"),
            (5, "c/a", "drain"),
            (6, "c/a", "soaking"),
            (7, "c/b", "idle"),
        ] {
            record.take(&event(second, node, to), &inventory);
        }
        assert_eq!((record.max_in_flight, record.most_drains()), (2, 2));
        assert!(record.in_flight.is_empty() && record.away.is_empty());
    }
}
