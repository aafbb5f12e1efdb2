//! What schedules reached, as a table: what is never reached proves nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use drydock_plan::{Blame, RolloutKind, RolloutState};
use drydock_sim::Run;

use super::case::Case;

type Counts = BTreeMap<String, u64>;

/// Counts over schedules.
#[derive(Default)]
pub struct Table {
    faults: Counts,
    rejected: Counts,
    blames: Counts,
    seen: Counts,
    exposed: BTreeMap<u32, u64>,
    known: Counts,
}

impl Table {
    pub fn add(&mut self, case: &Case, run: &Run) {
        let mut count =
            |what: &str, is: bool| *self.seen.entry(what.to_owned()).or_default() += u64::from(is);
        let rollouts = &run.ledger.rollouts;
        count("a way back", rollouts.values().any(|r| matches!(r.kind, RolloutKind::Rollback { .. })));
        count("a revert", rollouts.values().any(|r| r.kind == RolloutKind::Revert));
        count("a quarantined release", !run.ledger.quarantines.is_empty());
        count("a quarantined node", run.ledger.nodes.values().any(|n| n.quarantine.is_some()));
        let moved = &run.summary.gang_interruptions;
        count("a job that was moved", moved.moved > 0);
        count("a job that was cut", moved.cut > 0);
        let asked = ["checkpoint", "gang"].iter().any(|word| run.summary.reasons.contains_key(*word));
        count("a job that was moved, cut, asked or waited for", moved.moved + moved.cut > 0 || asked);
        for fault in &case.faults {
            let label = fault.label();
            *self.faults.entry(label.split(' ').next().unwrap_or("").to_owned()).or_default() += 1;
        }
        for rollout in rollouts.values() {
            if let RolloutState::Rejected { why } = &rollout.state {
                let text: String = why.join("; ").chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
                *self.rejected.entry(text).or_default() += 1;
            }
            for failure in &rollout.failures {
                let blame = match failure.blame {
                    Blame::Version => "version",
                    Blame::Node => "node",
                    Blame::Unknown => "unknown",
                };
                *self.blames.entry(blame.to_owned()).or_default() += 1;
            }
        }
        *self.exposed.entry(run.summary.exposed_nodes).or_default() += 1;
    }
    /// A finding that isn't judged.
    pub fn known(&mut self, what: &str) {
        *self.known.entry(what.to_owned()).or_default() += 1;
    }
    pub fn join(&mut self, other: Self) {
        let add = |to: &mut Counts, from: Counts| {
            from.into_iter().for_each(|(word, n)| *to.entry(word).or_default() += n);
        };
        add(&mut self.faults, other.faults);
        add(&mut self.rejected, other.rejected);
        add(&mut self.blames, other.blames);
        add(&mut self.seen, other.seen);
        add(&mut self.known, other.known);
        other.exposed.into_iter().for_each(|(nodes, n)| *self.exposed.entry(nodes).or_default() += n);
    }
    pub fn text(&self, outcomes: &Counts, reasons: &Counts, schedules: u64) -> String {
        let mut text = String::new();
        let mut part = |title: &str, counts: &Counts, of: u64| {
            let _ = writeln!(text, "\n| {title} | count | share |\n|---|---|---|");
            for (word, n) in counts {
                let share = 100.0 * *n as f64 / of.max(1) as f64;
                let _ = writeln!(text, "| {word} | {n} | {share:.1} % |");
            }
        };
        part("outcome of rollouts", outcomes, outcomes.values().sum());
        part("schedules with", &self.seen, schedules);
        part("blame of failures", &self.blames, self.blames.values().sum());
        part("reason, in so many schedules", reasons, schedules);
        part("why rejected", &self.rejected, outcomes.values().sum());
        part("faults", &self.faults, schedules);
        part("known findings, not judged", &self.known, schedules);
        let exposed: Counts = self.exposed.iter().map(|(nodes, n)| (format!("{nodes:>3}"), *n)).collect();
        part("nodes exposed to a release that was halted", &exposed, schedules);
        text
    }
}
