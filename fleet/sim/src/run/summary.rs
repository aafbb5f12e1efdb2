//! What a run comes to.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Blame, Ledger, LedgerChange, NodeId, PlanReport, ReleaseId, RolloutState, Target};
use drydock_spec::{Fleet, Period};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{FaultSpec, LogLine, World};

use super::{Counts, events, words};

/// Lines of the timeline that are kept. Lines about single nodes leave a tenth of it free for the others.
const TIMELINE_MAX: usize = 10_000;
const NODE_LINES_MAX: usize = 9_000;
/// Texts of violations that are kept; the rest is counted.
const VIOLATIONS_MAX: usize = 200;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Last state of each rollout, by id; `Unfinished` where it would go on.
    pub outcome: BTreeMap<String, String>,
    /// From the first instant to the last.
    pub virtual_seconds: u64,
    /// Nodes that exist.
    pub nodes_total: u32,
    /// Nodes that run what the last commit says.
    pub nodes_on_target: u32,
    /// Nodes that run what they ran at first, where that is something else.
    pub nodes_on_previous: u32,
    /// Nodes in quarantine.
    pub nodes_quarantined: u32,
    /// Nodes with drydock's own cordon at the end.
    pub nodes_cordoned_by_drydock_at_end: u32,
    /// Most nodes reserved at once.
    pub max_in_flight: u32,
    /// Most GPUs cordoned by drydock at once.
    pub max_gpus_away: u32,
    /// GPU-hours spent cordoned by drydock.
    pub gpu_hours_lost: f64,
    /// Nodes that were ever given a part of a release that was halted later.
    pub exposed_nodes: u32,
    /// How long bad versions went unnoticed.
    pub detections: Vec<Detection>,
    /// Budgets that were broken, counted from the documents.
    pub budget_violations: Vec<String>,
    /// Invariants that were broken, and what the observer of the fleet found.
    pub invariant_violations: Vec<String>,
    /// Most times one node was emptied.
    pub drains: u32,
    /// Jobs that drydock interrupted.
    pub gang_interruptions: GangInterruptions,
    /// For each kind of reason, the number of passes in which it held something back.
    pub reasons: Counts,
    /// Planning passes.
    pub passes: u32,
    /// Seed.
    pub seed: u64,
    /// What happened, bounded.
    pub timeline: Vec<TimelineEvent>,
}

/// How long a bad version went unnoticed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// The fault.
    pub fault: String,
    /// The node on which blame was settled first.
    pub node: NodeId,
    /// From the first application anywhere to the verdict.
    pub seconds: u64,
}

/// Jobs that drydock interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GangInterruptions {
    /// With a checkpoint of the last five minutes.
    pub moved: u32,
    /// With more work lost.
    pub cut: u32,
}

/// A line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub text: String,
}

/// Gathers a summary while a run goes on.
#[derive(Debug)]
pub(super) struct Recorder {
    start: Timestamp,
    first: BTreeMap<NodeId, Target>,
    node_lines: bool,
    node_lines_kept: usize,
    pub(super) passes: u32,
    summary: Summary,
}

impl Recorder {
    pub(super) fn new(world: &World, node_lines: bool) -> Self {
        let target = |node: &drydock_plan::ObservedNode| Target {
            release: node.running.id.clone(),
            layout: node.layout.clone(),
        };
        Self {
            start: world.now(),
            first: world.inventory().nodes.iter().map(|(id, node)| (id.clone(), target(node))).collect(),
            node_lines,
            node_lines_kept: 0,
            passes: 0,
            summary: Summary { seed: world.ground().seed, ..Summary::default() },
        }
    }
    pub(super) fn say(&mut self, at: Timestamp, text: String) {
        if self.summary.timeline.len() < TIMELINE_MAX {
            self.summary.timeline.push(TimelineEvent { at, text });
        }
    }
    pub(super) fn log(&mut self, lines: Vec<LogLine>) {
        lines.into_iter().for_each(|line| self.say(line.at, line.text));
    }
    pub(super) fn violation(&mut self, at: Timestamp, name: &str, text: &str) {
        push(&mut self.summary.invariant_violations, format!("{at} {name}: {text}"));
    }
    pub(super) fn budget_violation(&mut self, at: Timestamp, text: &str) {
        push(&mut self.summary.budget_violations, format!("{at} {text}"));
    }
    /// Tells what a plan changes; `before` is the ledger without it.
    pub(super) fn changes(&mut self, world: &World, before: &Ledger, changes: &[LedgerChange]) {
        let now = world.now();
        for change in changes {
            match change {
                LedgerChange::Rollout(record) => {
                    let old = before.rollouts.get(&record.id).map(|old| old.history.as_slice());
                    // History is bounded: what the older one has last is found from the end.
                    let known = old.and_then(|old| old.last()).map_or(0, |last| {
                        record.history.iter().rposition(|entry| entry == last).map_or(0, |at| at + 1)
                    });
                    for entry in record.history.iter().skip(known) {
                        self.say(entry.at, events::history(&record.id, entry));
                    }
                }
                LedgerChange::Node(id, record)
                    if self.node_lines && self.node_lines_kept < NODE_LINES_MAX =>
                {
                    if let Some(text) = events::node(id, before.nodes.get(id), record) {
                        self.node_lines_kept += 1;
                        self.say(now, text);
                    }
                }
                LedgerChange::Node(..)
                | LedgerChange::ForgetNode(_)
                | LedgerChange::ForgetRollout(_)
                | LedgerChange::ForgetCommand(_)
                | LedgerChange::Quarantine(..)
                | LedgerChange::Release(..)
                | LedgerChange::Remember(..)
                | LedgerChange::Command(..) => {}
            }
        }
    }
    pub(super) fn pass(&mut self, _world: &World, ledger: &Ledger, report: &PlanReport) {
        self.passes += 1;
        let in_flight = ledger.nodes.values().filter(|node| node.visit.is_some()).count();
        self.summary.max_in_flight = self.summary.max_in_flight.max(crate::step::count(in_flight));
        for word in words(report) {
            *self.summary.reasons.entry(word.to_owned()).or_default() += 1;
        }
    }
    pub(super) fn close(mut self, world: &World, fleet: &Fleet, ledger: &Ledger) -> Summary {
        let now = world.now();
        let oracle = world.oracle();
        for finding in &oracle.findings {
            let node = finding.node.as_ref().map_or("", NodeId::as_str);
            push(
                &mut self.summary.invariant_violations,
                format!("{} fleet: {node} {}", finding.at, finding.what),
            );
        }
        let mut summary = self.summary;
        summary.passes = self.passes;
        summary.virtual_seconds = Period::between(self.start, now).as_millis() / 1000;
        summary.outcome = ledger.rollouts.values().map(|r| (r.id.to_string(), word(&r.state))).collect();
        for (id, node) in &world.nodes {
            if !node.present {
                continue;
            }
            summary.nodes_total += 1;
            let on_target = world.runs_target(fleet, id);
            let first = self.first.get(id);
            let previous = first.is_some_and(|t| t.release == node.running.id && t.layout == node.layout);
            summary.nodes_on_target += u32::from(on_target);
            summary.nodes_on_previous += u32::from(!on_target && previous);
            summary.nodes_cordoned_by_drydock_at_end += u32::from(node.cordon.own.is_some());
            summary.drains = summary.drains.max(node.tally.drains);
        }
        let quarantined = ledger.nodes.values().filter(|node| node.quarantine.is_some()).count();
        summary.nodes_quarantined = crate::step::count(quarantined);
        summary.max_gpus_away = oracle.most.gpus;
        summary.gpu_hours_lost = gpu_hours(world);
        summary.exposed_nodes = exposed(world, ledger);
        summary.detections = detections(world, ledger);
        summary.gang_interruptions = GangInterruptions { moved: oracle.gangs_moved, cut: oracle.gangs_cut };
        summary
    }
}

fn push(list: &mut Vec<String>, text: String) {
    if list.len() < VIOLATIONS_MAX {
        list.push(text);
    }
}

fn word(state: &RolloutState) -> String {
    match state {
        RolloutState::Running | RolloutState::Paused(_) | RolloutState::RollingBack => {
            "Unfinished".to_owned()
        }
        RolloutState::Rejected { .. }
        | RolloutState::Halted
        | RolloutState::Succeeded
        | RolloutState::RolledBack
        | RolloutState::RollbackBlocked
        | RolloutState::Superseded
        | RolloutState::Aborted => state.word().to_owned(),
    }
}

fn gpu_hours(world: &World) -> f64 {
    let open: u64 = world
        .nodes
        .values()
        .filter_map(|node| node.tally.away_since.map(|since| (node, since)))
        .map(|(node, since)| {
            Period::between(since, world.now).as_millis() * u64::from(world.ground.gpus(&node.pool))
        })
        .sum();
    let hours = world.oracle.away_gpu_millis.saturating_add(open) as f64 / 3_600_000.0;
    (hours * 100.0).round() / 100.0
}

/// Nodes that were given a component of a halted release, after its rollout began.
fn exposed(world: &World, ledger: &Ledger) -> u32 {
    let halted: Vec<(&ReleaseId, Timestamp)> = ledger
        .rollouts
        .values()
        .filter_map(|rollout| rollout.halt.as_ref().map(|halt| (halt, rollout.created)))
        .filter(|(halt, _)| halt.layout.is_none())
        .map(|(halt, created)| (&halt.release, created))
        .collect();
    // A layout that failed beside a good release isn't among the components that were applied.
    let cut: BTreeSet<&NodeId> = ledger
        .rollouts
        .values()
        .filter(|rollout| rollout.halt.as_ref().is_some_and(|halt| halt.layout.is_some()))
        .flat_map(|rollout| &rollout.exposed_nodes)
        .collect();
    let given = |node: &crate::NodeState| {
        halted.iter().any(|(release, since)| {
            ledger.releases.get(*release).is_some_and(|vector| {
                node.tally.applied.iter().any(|applied| {
                    applied.at >= *since
                        && vector.get(&applied.component).is_some_and(|v| v.version == applied.version)
                })
            })
        })
    };
    crate::step::count(world.nodes.iter().filter(|(id, node)| given(node) || cut.contains(id)).count())
}

/// For each bad version that was applied and blamed: from its first application to the first verdict.
fn detections(world: &World, ledger: &Ledger) -> Vec<Detection> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for fault in &world.ground.faults {
        let FaultSpec::BadVersion { component, version, .. } = fault else { continue };
        let applied = world.nodes.values().flat_map(|node| node.tally.applied.iter());
        let first =
            applied.filter(|a| a.component == *component && a.version == *version).map(|a| a.at).min();
        let Some(first) = first else { continue };
        let carries = |release: &ReleaseId| {
            ledger.releases.get(release).and_then(|v| v.get(component)).is_some_and(|v| v.version == *version)
        };
        let verdict = ledger
            .rollouts
            .values()
            .flat_map(|rollout| rollout.failures.iter())
            .filter(|failure| failure.blame == Blame::Version && carries(&failure.release))
            .min_by_key(|failure| failure.at);
        if let Some(failure) = verdict
            && seen.insert(fault.label())
        {
            found.push(Detection {
                fault: fault.label(),
                node: failure.node.clone(),
                seconds: Period::between(first, failure.at).as_millis() / 1000,
            });
        }
    }
    found
}
