//! Checks, and where they don't apply.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lint, Pool};
use crate::{
    document::Kind,
    kinds::{CheckClass, PolicySpec, SuiteSpec},
    rule::RuleId,
    text::{Amount, SuiteName},
};

/// Runs of one check; the median of more says nothing new.
const REPEATS_MAX: u32 = 9;

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, suite) in &fleet.suites {
        let document = (Kind::CheckSuite, name.as_str());
        if suite.checks.is_empty() && !lint.was_reported(document, path!["checks"]) {
            let message = "a suite without checks passes everything".to_owned();
            let hint = Some("write at least {name: vector-add, class: driver}".to_owned());
            lint.at(document, path!["checks"], RuleId::SuiteWithoutChecks, message, hint);
        }
        let mut seen = BTreeSet::new();
        for (i, check) in suite.checks.iter().enumerate() {
            if !seen.insert(&check.name) {
                let message = format!("two checks are named `{}`", check.name);
                lint.at(document, path!["checks", i, "name"], RuleId::DuplicateInList, message, None);
            }
            if check.timeout.is_zero() {
                let message = "a timeout of zero fails every run".to_owned();
                lint.at(document, path!["checks", i, "timeout"], RuleId::ZeroDeadline, message, None);
            }
            if check.repeats == 0 || check.repeats > REPEATS_MAX {
                let message = format!("{} runs; between 1 and {REPEATS_MAX} are possible", check.repeats);
                lint.at(document, path!["checks", i, "repeats"], RuleId::OutOfRange, message, None);
            }
            let regress = match check.regress {
                None | Some(Amount::Percent(1..10_000)) => None,
                Some(Amount::Percent(0)) => Some("a limit of 0% makes every measurement a regression"),
                Some(Amount::Percent(_)) => Some("a limit of 100% lets everything pass"),
                Some(Amount::Count(_)) => Some("a regression limit is a percentage"),
            };
            if let Some(message) = regress {
                let hint = Some("write for example \"5%\"".to_owned());
                let place = path!["checks", i, "regress"];
                lint.at(document, place, RuleId::RegressEverything, message.to_owned(), hint);
            }
        }
    }
    measured(lint);
    let mut small = BTreeSet::new();
    for (name, policy) in &fleet.policies {
        let Some(suite) = fleet.suites.get(&policy.checks) else { continue };
        gpus(lint, policy, suite, &mut small);
        let rdma: Vec<&str> =
            suite.checks.iter().filter(|c| c.class == CheckClass::Rdma).map(|c| c.name.as_str()).collect();
        if rdma.is_empty() {
            continue;
        }
        for (pool, spec) in lint.selected(&policy.select) {
            if spec.rdma_rails == 0 {
                let message = format!(
                    "without RDMA rails, {} of policy `{name}` doesn't apply here",
                    super::list(rdma.clone())
                );
                let document = (Kind::GpuNodePool, pool.as_str());
                lint.at(document, path!["rdmaRails"], RuleId::CheckNotApplicable, message, None);
            }
        }
    }
}

/// A check with a unit measures something. Without `regress` and without a floor of the pool, any value passes.
fn measured(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut users: BTreeMap<&SuiteName, Vec<Pool<'_>>> = BTreeMap::new();
    for policy in fleet.policies.values() {
        users.entry(&policy.checks).or_default().extend(lint.selected(&policy.select));
    }
    for (name, suite) in &fleet.suites {
        let pools = users.get(name).map_or(&[][..], Vec::as_slice);
        for (i, check) in suite.checks.iter().enumerate() {
            let document = (Kind::CheckSuite, name.as_str());
            let place = path!["checks", i, "unit"];
            if check.unit.is_none()
                || check.regress.is_some()
                || lint.was_reported(document, path!["checks", i, "regress"])
            {
                continue;
            }
            let applies = |pool: &Pool<'_>| check.class != CheckClass::Rdma || pool.1.rdma_rails > 0;
            let without: Vec<&str> = pools
                .iter()
                .filter(|pool| applies(pool) && !pool.1.floors.contains_key(&check.name))
                .map(|(pool, _)| pool.as_str())
                .collect();
            // A suite that nobody uses yet has no pools whose floors could be asked.
            if without.is_empty() && !pools.is_empty() {
                continue;
            }
            let message = match without.is_empty() {
                true => format!("`{}` measures, and nothing limits what it may find", check.name),
                false => format!(
                    "`{}` measures, and nothing limits what it may find in {}",
                    check.name,
                    super::list(without)
                ),
            };
            let hint = Some("add regress: \"5%\" to the check, or floors to the pools".to_owned());
            lint.at(document, place, RuleId::MeasuresWithoutLimit, message, hint);
        }
    }
}

/// A pod that asks for more than a node has is never scheduled.
fn gpus<'r>(
    lint: &mut Lint<'r, '_>,
    policy: &'r PolicySpec,
    suite: &SuiteSpec,
    said: &mut BTreeSet<(&'r SuiteName, usize)>,
) {
    for (i, check) in suite.checks.iter().enumerate() {
        let Some(wanted) = check.gpus.filter(|&n| n > 0) else { continue };
        let pools = lint.selected(&policy.select);
        let small = pools.into_iter().find(|(_, pool)| pool.gpu.count < wanted);
        if let Some((pool, spec)) = small.filter(|_| said.insert((&policy.checks, i))) {
            let message = format!("{wanted} GPUs, but nodes of pool `{pool}` have {}", spec.gpu.count);
            let hint = Some("leave it out to take all GPUs of each node".to_owned());
            let document = (Kind::CheckSuite, policy.checks.as_str());
            lint.at(document, path!["checks", i, "gpus"], RuleId::CheckGpus, message, hint);
        }
    }
}
