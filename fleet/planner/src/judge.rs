//! Results of checks, compared with floor and baseline.

use drydock_plan::{
    Baseline, CheckOrder, CheckResult, LayoutId, NodeId, RawVerdict, StepReport, Target, Visit,
};
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

/// What a value after a change is compared with: values of this node before this very change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before<'a> {
    /// What it ran.
    pub on: &'a Target,
    /// When the visit began: what was measured since then was measured for it.
    pub since: Timestamp,
    /// How its GPUs are cut by now. Slices of another size have other values.
    pub layout: Option<&'a LayoutId>,
}

impl Before<'_> {
    fn is_of(&self, baseline: &Baseline) -> bool {
        let same_cut = self.layout.is_none() || baseline.on.layout.as_ref() == self.layout;
        same_cut && (baseline.on == *self.on || baseline.at >= self.since)
    }
}

/// Judges a round. A failure weighs more than a broken runner: one is a fact about the node, the other isn't.
pub(crate) fn round(
    checks: &[&Check],
    report: &StepReport,
    pool: Option<&PoolSpec>,
    record: &NodeRecord,
    compare: Option<&Before<'_>>,
) -> Round {
    let mut inconclusive = None;
    for check in checks {
        let Some(result) = report.checks.iter().find(|r| r.check == check.name) else {
            inconclusive.get_or_insert_with(|| format!("{}: no result", check.name));
            continue;
        };
        let floor = pool.and_then(|p| p.floors.get(&check.name)).copied();
        let baseline = record.baselines.get(&check.name).filter(|b| compare.is_some_and(|c| c.is_of(b)));
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
            // Whoever asks for a number isn't served by a run that says it was fine.
            let asked = floor.is_some() || check.regress.is_some();
            let Some(value) = result.value.filter(|v| v.is_finite()) else {
                return match asked {
                    true => Verdict::Inconclusive("it passed and told no value".to_owned()),
                    false => Verdict::Pass,
                };
            };
            if let Some(floor) = floor.filter(|f| value < *f) {
                return Verdict::Fail(
                    check.class,
                    format!("{value:.1} {unit}, below the pool's floor of {floor:.1}"),
                );
            }
            let before = baseline.and_then(|b| b.value).filter(|v| v.is_finite());
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
    fn a_number_that_is_asked_for_and_not_told_is_no_pass() {
        let judge = |regress, value, floor| {
            let verdict = verdict(&check(regress), &result(RawVerdict::Pass, value), floor, None);
            matches!(verdict, Verdict::Inconclusive(_))
        };
        assert!(judge(Some("3%"), None, None));
        assert!(judge(None, None, Some(100.0)));
        assert!(judge(None, Some(f64::NAN), Some(100.0)));
        assert!(!judge(None, None, None), "nobody asks for a number");
        assert!(!judge(Some("3%"), Some(1.0), None));
    }
    #[test]
    fn a_round_that_lacks_a_result_is_no_pass() {
        let mut second = check(None);
        second.name = "second".parse().unwrap();
        let first = check(None);
        let report = StepReport {
            generation: drydock_plan::Generation(1),
            state: drydock_plan::StepState::Done,
            checks: vec![result(RawVerdict::Pass, None)],
        };
        let judged = round(&[&first, &second], &report, None, &NodeRecord::default(), None);
        assert!(matches!(judged, Round::Inconclusive(_)));
        assert_eq!(round(&[&first], &report, None, &NodeRecord::default(), None), Round::Pass);
    }
    #[test]
    fn only_a_value_before_this_change_is_compared_with() {
        let release = drydock_spec::ReleaseVector::default().id();
        let layout: Option<LayoutId> = Some("l-00000001".parse().unwrap());
        let on = Target { release: release.clone(), layout: None };
        let cut = Target { release, layout: layout.clone() };
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let of = |on: &Target, secs| Baseline { value: Some(1.0), at: at(secs), on: on.clone() };
        let before = Before { on: &on, since: at(10), layout: None };
        assert!(before.is_of(&of(&on, 5)));
        assert!(!before.is_of(&of(&cut, 5)), "it ran cut otherwise, and that was measured before this visit");
        assert!(before.is_of(&of(&cut, 10)), "measured for this visit");
        let before = Before { layout: layout.as_ref(), ..before };
        assert!(!before.is_of(&of(&on, 10)), "it is cut otherwise now");
    }
    #[test]
    fn a_broken_runner_is_no_failure_and_a_hang_is_one() {
        let judge = |v| verdict(&check(None), &result(v, None), None, None);
        assert!(matches!(judge(RawVerdict::Inconclusive), Verdict::Inconclusive(_)));
        assert!(matches!(judge(RawVerdict::Hang), Verdict::Fail(CheckClass::Training, _)));
        assert_eq!(judge(RawVerdict::NotApplicable), Verdict::NotApplicable);
    }
}
