//! What must hold at the end of every schedule.

use std::collections::BTreeMap;

use drydock_plan::{PauseReason, Reason, RolloutRecord, RolloutReport, RolloutState};
use drydock_planner::Input;
use drydock_sim::{FaultSpec, Run};

use super::case::{Case, PASSES_MAX};

/// Of an endless run, seconds from pass to pass on average: some ten passes for a daily try, and some more for other
/// things that come and go.
const SLOW_SECS: u64 = 100;

/// Everything that is wrong with a run.
pub fn judge(case: &Case, run: &Run) -> Vec<String> {
    let summary = &run.summary;
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(summary.invariant_violations.iter().take(3).cloned());
    wrong.extend(summary.budget_violations.iter().take(3).map(|text| format!("budget: {text}")));
    wrong.extend(outcomes(case, run));
    wrong.extend(cordons(run));
    wrong.extend(super::truth::judge(case, run));
    wrong.extend(at_rest(case, run));
    wrong.extend(blame(case, run));
    wrong
}

/// Trouble that says nothing about a release.
pub fn is_innocent(fault: &FaultSpec) -> bool {
    match fault {
        FaultSpec::Crash { .. }
        | FaultSpec::LostWrites { .. }
        | FaultSpec::DoubledWrites { .. }
        | FaultSpec::StaleReads { .. }
        | FaultSpec::ClusterUnreachable { .. }
        | FaultSpec::SlowDrain { .. }
        | FaultSpec::PodNeverTerminates { .. }
        | FaultSpec::PdbBlocks { .. }
        | FaultSpec::ForeignCordon { .. }
        | FaultSpec::ForeignUncordon { .. }
        | FaultSpec::Relabel { .. }
        | FaultSpec::GangLong { .. }
        | FaultSpec::UncordonFight { .. }
        | FaultSpec::OldReports { .. }
        | FaultSpec::LateCordons { .. }
        | FaultSpec::GangsHidden { .. }
        | FaultSpec::FactsAbsent { .. }
        | FaultSpec::PartialList { .. }
        | FaultSpec::TwoLeaders { .. }
        | FaultSpec::NodeAdded { .. } => true,
        FaultSpec::RefusedWrites { length, .. } => length.is_none(),
        FaultSpec::BadVersion { .. }
        | FaultSpec::BadLayout { .. }
        | FaultSpec::BadNode { .. }
        | FaultSpec::HungCheck { .. }
        | FaultSpec::NeverStartsCheck { .. }
        | FaultSpec::BrokenRunner { .. }
        | FaultSpec::RdmaPartnerBroken { .. }
        | FaultSpec::NodeLost { .. }
        | FaultSpec::Spontaneous { .. }
        | FaultSpec::HandEdit { .. }
        | FaultSpec::HealthFault { .. }
        | FaultSpec::NodeDeleted { .. }
        | FaultSpec::NodeRecreated { .. }
        | FaultSpec::PowerCycle { .. }
        | FaultSpec::Flaps { .. }
        | FaultSpec::DomainFails { .. }
        | FaultSpec::NodeSlows { .. }
        | FaultSpec::Outliers { .. }
        | FaultSpec::RegistryAway { .. }
        | FaultSpec::LayoutLost { .. }
        | FaultSpec::Rewrites { .. }
        | FaultSpec::MissingResult { .. }
        | FaultSpec::DoneBeforeReboot { .. }
        | FaultSpec::PartnerTaken { .. }
        | FaultSpec::LedgerRestored { .. }
        | FaultSpec::ClockJump { .. } => false,
    }
}

/// Where nothing is wrong with versions and nodes, none is blamed.
fn blame(case: &Case, run: &Run) -> Option<String> {
    if !case.faults.iter().all(is_innocent) {
        return None;
    }
    let failure = run.ledger.rollouts.values().flat_map(|r| &r.failures).next()?;
    let text = failure.evidence.first().map_or("", |e| e.text.as_str());
    Some(format!("{:?} is blamed on {}, and nothing is wrong: {text}", failure.blame, failure.node))
}

/// Every rollout has come to an end, or says what it waits for and is right.
fn outcomes(case: &Case, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    if run.summary.passes >= PASSES_MAX {
        // A node that fails before a change is tried again once a day; that never ends, and is what was asked for.
        let slow = run.summary.virtual_seconds > u64::from(PASSES_MAX) * SLOW_SECS;
        let text = format!("endless: {} passes in {} s", run.summary.passes, run.summary.virtual_seconds);
        return if slow { Vec::new() } else { vec![text] };
    }
    for (id, word) in &run.summary.outcome {
        match word.as_str() {
            "Succeeded" | "RolledBack" | "RollbackBlocked" | "Rejected" | "Superseded" | "Aborted"
            | "Halted" => {}
            "Unfinished" => {
                let rollout = run.ledger.rollouts.values().find(|r| r.id.as_str() == id);
                let report = run.report.rollouts.iter().find(|r| r.id.as_str() == id);
                match rollout.zip(report) {
                    Some((rollout, report)) => wrong.extend(unfinished(case, run, rollout, report)),
                    None => wrong.push(format!("{id} is unfinished and not reported")),
                }
            }
            other => wrong.push(format!("{id} ended as {other:?}")),
        }
    }
    wrong
}

pub fn reasons(report: &RolloutReport) -> impl Iterator<Item = &Reason> {
    report.waits.iter().chain(report.waves.iter().flat_map(|w| w.waits.iter().map(|w| &w.reason)))
}

fn unfinished(case: &Case, run: &Run, rollout: &RolloutRecord, report: &RolloutReport) -> Option<String> {
    let legitimate = match &rollout.state {
        RolloutState::Paused(
            PauseReason::Control { .. } | PauseReason::Deadline | PauseReason::NothingPassed { .. },
        ) => true,
        RolloutState::RollingBack => rollout
            .child
            .as_ref()
            .and_then(|child| run.ledger.rollouts.get(child))
            .is_some_and(|child| !child.state.is_final()),
        _ => reasons(report).any(|reason| holds(case, run, reason)),
    };
    let told: Vec<&Reason> = reasons(report).collect();
    (!legitimate).then(|| format!("{} is {:?} for no good reason: {told:?}", rollout.id, rollout.state))
}

/// A reason that only a person or somebody else can end, and that is true.
fn holds(case: &Case, run: &Run, reason: &Reason) -> bool {
    match reason {
        Reason::Approval { given, needed, .. } => case.approve_after.is_none() && given < needed,
        Reason::LeaseEnds { .. } => true,
        Reason::ForeignCordon { .. } => {
            run.world.inventory().nodes.values().any(|node| node.cordon.foreign.is_some())
        }
        Reason::Halted { .. } => true,
        Reason::BudgetFloor { floor, available, adds, .. } => {
            let broken = run.world.inventory().nodes.iter().any(|(id, node)| {
                !node.ready
                    || node.cordon.foreign.is_some()
                    || run.ledger.nodes.get(id).is_some_and(|r| r.quarantine.is_some())
            });
            // Without anything broken or away only another document helps, and one that came later did the harm.
            (broken || case.edited()) && available.saturating_sub(*adds) < *floor
        }
        Reason::BudgetInFlight { used: 0, adds, limit, .. } => case.edited() && adds > limit,
        _ => false,
    }
}

/// No cordon of drydock's own is left behind but on quarantined nodes, once every rollout has ended.
fn cordons(run: &Run) -> Vec<String> {
    if !run.ledger.rollouts.values().all(|r| r.state.is_final() || r.state == RolloutState::Halted) {
        return Vec::new();
    }
    // The fleet's own knowledge, not what was seen of it.
    let left =
        run.world.cordoned().filter(|id| run.ledger.nodes.get(*id).is_none_or(|r| r.quarantine.is_none()));
    left.map(|id| format!("{id} keeps a cordon without a quarantine")).collect()
}

/// Where nothing moves any more, planning again changes nothing.
fn at_rest(case: &Case, run: &Run) -> Option<String> {
    let last = case.last()?;
    let input = Input {
        fleet: &last.fleet,
        commit: &last.commit,
        inventory: run.world.inventory(),
        ledger: &run.ledger,
        now: run.world.now(),
    };
    // The last look was at the same world, so nothing is left to be decided; nor is anything left to be asked.
    let plan = drydock_planner::plan(&input).plan;
    let done = run.summary.outcome.values().all(|word| word != "Unfinished");
    (done && !plan.changes.is_empty()).then(|| format!("not at rest: {:?}", plan.changes))
}

/// Counts of outcomes.
pub fn tally(counts: &mut BTreeMap<String, u64>, run: &Run) {
    for word in run.summary.outcome.values() {
        *counts.entry(word.clone()).or_default() += 1;
    }
    if run.summary.outcome.is_empty() {
        *counts.entry("(no rollout)".to_owned()).or_default() += 1;
    }
}
