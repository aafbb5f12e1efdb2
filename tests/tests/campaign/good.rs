//! Good releases amid trouble.

use std::collections::BTreeSet;

use drydock_plan::{PauseReason, Reason, RolloutEvent, RolloutKind, RolloutState};
use drydock_sim::{Draw, FaultSpec, Run, model::FAULTS_PER_GPU_DAY};
use drydock_spec::Period;

use super::stage;

/// As long as a rollout may take by default.
const DAYS: u64 = 14;

/// How a good release went.
pub struct Course {
    pub seed: u64,
    pub outcome: String,
    /// It was halted, taken back or quarantined though it is good.
    pub stopped: bool,
    pub unfinished: bool,
    /// Reasons at the end.
    pub reasons: BTreeSet<String>,
    /// One of them names a person, a lease or a window.
    pub named: bool,
    pub hours: u64,
    pub on_target: u32,
    pub nodes: u32,
    pub violations: Vec<String>,
    /// Why it was halted.
    pub halted: String,
}

impl Course {
    /// It waits, and nobody is told whom for.
    pub fn silent(&self) -> Option<String> {
        let wrong = self.unfinished && !self.named || !self.violations.is_empty();
        let Self { seed, outcome, reasons, on_target, nodes, violations, .. } = self;
        wrong.then(|| format!("seed {seed}: {outcome}, {on_target} of {nodes}: {reasons:?} {violations:?}"))
    }
}

/// At the published rate, and some trouble of every other innocent kind.
pub fn amid_faults(seed: u64) -> Course {
    let draw = Draw::new(seed).text("good release");
    let mut faults = vec![FaultSpec::Spontaneous { per_gpu_day: FAULTS_PER_GPU_DAY }];
    for n in 0..6 {
        let draw = draw.number(n);
        let (pool, size) = [
            ("h100-stage", 4),
            ("v100-stage", 4),
            ("l40s-stage", 4),
            ("h100-research", 24),
            ("a100-40-research", 72),
            ("v100-research", 64),
        ][draw.text("pool").between(0, 5) as usize];
        let cluster = if pool.ends_with("stage") { "c12-stage" } else { "c08-research" };
        let index = draw.text("index").between(0, size - 1);
        let node = drydock_plan::NodeId::new(&format!("{cluster}/{pool}-{index:03}"));
        let at = Period::from_mins(draw.text("at").between(0, 4_000)).after(stage::start());
        let length = Period::from_mins(draw.text("for").between(5, 600));
        faults.push(match draw.text("kind").between(0, 6) {
            0 => FaultSpec::NodeLost { node, at, back_after: Some(length) },
            1 => FaultSpec::ForeignCordon { node, at, length: Some(length) },
            2 => FaultSpec::PdbBlocks { node, until: Some(length.after(at)) },
            3 => FaultSpec::Flaps {
                node,
                at,
                every: Period::from_mins(20),
                down: Period::from_mins(4),
                times: 5,
            },
            4 => FaultSpec::ClusterUnreachable {
                cluster: cluster.parse().unwrap(),
                at,
                length: Period::from_mins(20),
            },
            5 => FaultSpec::RegistryAway { cluster: None, at, length: Period::from_mins(30) },
            _ => FaultSpec::SlowDrain { node, by: length },
        });
    }
    course(seed, stage::play(seed, faults, DAYS))
}

/// At the published rate.
pub fn at_the_usual_rate(seed: u64) -> Course {
    course(seed, stage::play(seed, vec![FaultSpec::Spontaneous { per_gpu_day: FAULTS_PER_GPU_DAY }], DAYS))
}

/// A reason that tells who or what ends it from outside: a person, a lease, a window. That time is up tells nothing.
fn names_somebody(reason: &Reason) -> bool {
    let pause = |why: &PauseReason| !matches!(why, PauseReason::Deadline);
    matches!(reason, Reason::Paused { why } if pause(why))
        || matches!(
            reason,
            Reason::Approval { .. }
                | Reason::Halted { .. }
                | Reason::LeaseEnds { .. }
                | Reason::ForeignCordon { .. }
                | Reason::NodeQuarantined { .. }
                | Reason::Window { .. }
                | Reason::WindowTooShort { .. }
                | Reason::Freeze { .. }
        )
}

fn course(seed: u64, run: Run) -> Course {
    let rollouts = run.ledger.rollouts.values();
    let outcome: BTreeSet<&str> = rollouts.clone().map(|r| r.state.word()).collect();
    let stopped = rollouts.clone().any(|r| {
        matches!(r.kind, RolloutKind::Rollback { .. })
            || matches!(
                r.state,
                RolloutState::Halted | RolloutState::RollingBack | RolloutState::RollbackBlocked
            )
    });
    let unfinished = rollouts.clone().any(|r| !r.state.is_final() && r.state != RolloutState::Halted);
    let reasons: Vec<&Reason> = run
        .report
        .rollouts
        .iter()
        .flat_map(|r| r.waits.iter().chain(r.waves.iter().flat_map(|w| w.waits.iter().map(|w| &w.reason))))
        .collect();
    let halts = rollouts.clone().flat_map(|r| &r.history).filter_map(|entry| match &entry.what {
        RolloutEvent::State { to, why, .. } if to.as_str() == "Halted" => Some(why.as_str()),
        _ => None,
    });
    let halted = halts.collect::<Vec<&str>>().join("; ");
    let ended = rollouts.clone().filter_map(|r| r.ended).max().unwrap_or(run.world.now());
    let mut violations = run.summary.invariant_violations.clone();
    violations.extend(run.summary.budget_violations.clone());
    violations.truncate(2);
    Course {
        seed,
        outcome: outcome.into_iter().collect::<Vec<_>>().join(", "),
        stopped: stopped || !run.ledger.quarantines.is_empty(),
        unfinished,
        named: reasons.iter().any(|r| names_somebody(r)),
        reasons: reasons.iter().map(|r| r.word().to_owned()).collect(),
        hours: Period::between(stage::start(), ended).as_millis() / 3_600_000,
        on_target: run.summary.nodes_on_target,
        nodes: run.summary.nodes_total,
        violations,
        halted,
    }
}
