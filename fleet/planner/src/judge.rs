//! Results of checks, compared with floor and baseline.

use drydock_plan::{Baseline, CheckOrder, CheckResult, NodeId, RawVerdict, StepReport, Visit};
use drydock_spec::{Amount, Check, CheckClass, CheckOn, FailurePolicy, PoolSpec, PreflightRun, SuiteSpec};
use jiff::Timestamp;

use drydock_plan::NodeRecord;

/// How a check ended for the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Pass,
    /// Wrong, hung, below the floor, or worse than the node's own value before the change.
    Fail(CheckClass, String),
    /// Nothing was learnt.
    Inconclusive(String),
    NotApplicable,
}

/// All results of a round together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Round {
    Pass,
    Fail { class: CheckClass, text: String, result: CheckResult },
    Inconclusive(String),
}

/// Whether a check applies to nodes of this pool.
pub(crate) fn applies(check: &Check, pool: Option<&PoolSpec>) -> bool {
    check.class != CheckClass::Rdma || pool.is_none_or(|p| p.rdma_rails > 0)
}

/// The checks to run before a change that have no fresh good result yet.
pub(crate) fn preflight_checks<'a>(
    suite: &'a SuiteSpec,
    record: &NodeRecord,
    on: &drydock_plan::Target,
    now: Timestamp,
) -> Vec<&'a Check> {
    let wanted = |c: &&Check| match suite.preflight.run {
        PreflightRun::Same => true,
        PreflightRun::Driver => c.class == CheckClass::Driver,
        PreflightRun::None => false,
    };
    let fresh = |c: &Check| {
        record
            .baselines
            .get(&c.name)
            .is_some_and(|b| b.on == *on && suite.preflight.freshness.after(b.at) > now)
    };
    suite.checks.iter().filter(wanted).filter(|c| !fresh(c)).collect()
}

/// What to ask the node for; `nodes` take part, and the node has so many GPUs.
pub(crate) fn order(check: &Check, mut nodes: Vec<NodeId>, visit: &Visit, gpus: u32) -> CheckOrder {
    nodes.sort_unstable();
    CheckOrder {
        name: check.name.clone(),
        class: check.class,
        on: check.on,
        partner: if check.on == CheckOn::Pair { visit.partner.clone() } else { None },
        nodes,
        run: check.run.clone(),
        template: check.template.clone(),
        gpus: check.gpus_of(gpus),
        timeout: check.timeout,
        repeats: check.repeats,
        attempt: visit.attempt,
    }
}

/// Judges a round. A failure weighs more than a broken runner: one is a fact about the node, the other isn't.
pub(crate) fn round(
    checks: &[&Check],
    report: &StepReport,
    pool: Option<&PoolSpec>,
    record: &NodeRecord,
    compare: bool,
) -> Round {
    let mut inconclusive = None;
    for check in checks {
        let Some(result) = report.checks.iter().find(|r| r.check == check.name) else {
            inconclusive.get_or_insert_with(|| format!("{}: no result", check.name));
            continue;
        };
        let floor = pool.and_then(|p| p.floors.get(&check.name)).copied();
        let baseline = if compare { record.baselines.get(&check.name) } else { None };
        match verdict(check, result, floor, baseline) {
            Verdict::Pass | Verdict::NotApplicable => {}
            Verdict::Fail(class, text) => {
                return Round::Fail {
                    class,
                    text: format!("{}: {text}", check.name),
                    result: result.clone(),
                };
            }
            Verdict::Inconclusive(text) => {
                inconclusive.get_or_insert_with(|| format!("{}: {text}", check.name));
            }
        }
    }
    inconclusive.map_or(Round::Pass, Round::Inconclusive)
}

fn verdict(check: &Check, result: &CheckResult, floor: Option<f64>, baseline: Option<&Baseline>) -> Verdict {
    let unit = check.unit.as_deref().unwrap_or("");
    match result.verdict {
        RawVerdict::NotApplicable => Verdict::NotApplicable,
        RawVerdict::Inconclusive => Verdict::Inconclusive(result.detail.clone()),
        RawVerdict::Fail => Verdict::Fail(check.class, result.detail.clone()),
        RawVerdict::Hang => Verdict::Fail(check.class, format!("hung: {}", result.detail)),
        RawVerdict::Pass => {
            let Some(value) = result.value else { return Verdict::Pass };
            if let Some(floor) = floor.filter(|f| value < *f) {
                return Verdict::Fail(
                    check.class,
                    format!("{value:.1} {unit}, below the pool's floor of {floor:.1}"),
                );
            }
            let before = baseline.and_then(|b| b.value);
            match (before, check.regress) {
                (Some(before), Some(Amount::Percent(p)))
                    if value < before * (1.0 - f64::from(p) / 10_000.0) =>
                {
                    let worse = (1.0 - value / before) * 100.0;
                    Verdict::Fail(
                        check.class,
                        format!(
                            "{value:.1} {unit}, {worse:.1} % worse than {before:.1} on the same node before"
                        ),
                    )
                }
                _ => Verdict::Pass,
            }
        }
    }
}

/// Failures of a class that a wave bears.
pub(crate) fn tolerated(policy: &FailurePolicy, class: drydock_plan::FailureClass) -> Option<u32> {
    match class {
        drydock_plan::FailureClass::Check(class) => policy.per_class.get(&class).copied(),
        drydock_plan::FailureClass::Apply
        | drydock_plan::FailureClass::Lost
        | drydock_plan::FailureClass::Health => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(regress: Option<&str>) -> Check {
        Check {
            name: "busbw".parse().unwrap(),
            class: CheckClass::Training,
            on: CheckOn::Node,
            timeout: drydock_spec::Period::from_mins(5),
            regress: regress.map(|r| r.parse().unwrap()),
            unit: Some("GB/s".into()),
            repeats: 1,
            run: Default::default(),
            template: None,
            gpus: None,
        }
    }
    fn result(verdict: RawVerdict, value: Option<f64>) -> CheckResult {
        CheckResult {
            check: "busbw".parse().unwrap(),
            verdict,
            value,
            detail: "d".into(),
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::UNIX_EPOCH,
            partner: None,
        }
    }
    fn baseline(value: f64) -> Baseline {
        let release = drydock_spec::ReleaseVector::default().id();
        let on = drydock_plan::Target { release, layout: None };
        Baseline { value: Some(value), at: Timestamp::UNIX_EPOCH, on }
    }

    #[test]
    fn values_are_compared_with_floor_and_baseline() {
        let passes = |value, floor, before: Option<f64>| {
            let before = before.map(baseline);
            verdict(&check(Some("3%")), &result(RawVerdict::Pass, Some(value)), floor, before.as_ref())
                == Verdict::Pass
        };
        assert!(passes(300.0, None, None), "without a baseline nothing is relative");
        assert!(passes(291.0, None, Some(300.0)), "exactly 3 % worse is borne");
        assert!(!passes(290.9, None, Some(300.0)));
        assert!(!passes(99.9, Some(100.0), None));
        assert!(passes(100.0, Some(100.0), None));
    }
    #[test]
    fn a_broken_runner_is_no_failure_and_a_hang_is_one() {
        let judge = |v| verdict(&check(None), &result(v, None), None, None);
        assert!(matches!(judge(RawVerdict::Inconclusive), Verdict::Inconclusive(_)));
        assert!(matches!(judge(RawVerdict::Hang), Verdict::Fail(CheckClass::Training, _)));
        assert_eq!(judge(RawVerdict::NotApplicable), Verdict::NotApplicable);
    }
}
