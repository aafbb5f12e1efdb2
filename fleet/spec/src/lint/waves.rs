//! Waves: what they take, how large their batches are, and what failure they bear.

use std::collections::BTreeSet;

use super::{Lint, Pool, list};
use crate::{
    document::Kind,
    kinds::{Gate, PolicySpec, Wave},
    rule::RuleId,
    text::Amount,
};

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, policy) in &fleet.policies {
        let document = (Kind::RolloutPolicy, name.as_str());
        if policy.waves.is_empty() {
            let hint = Some("one wave is enough: waves: [{name: all}]".to_owned());
            lint.at(
                document,
                path!["waves"],
                RuleId::NoWaves,
                "a policy without waves moves nothing".to_owned(),
                hint,
            );
            continue;
        }
        let mut seen = BTreeSet::new();
        for (i, wave) in policy.waves.iter().enumerate() {
            if !seen.insert(&wave.name) {
                let message = format!("two waves are named `{}`", wave.name);
                lint.at(document, path!["waves", i, "name"], RuleId::DuplicateInList, message, None);
            }
            numbers(lint, document, i, wave);
        }
        coverage(lint, document, policy);
    }
}

fn numbers(lint: &mut Lint<'_, '_>, document: Document<'_>, i: usize, wave: &Wave) {
    for (field, amount) in [("start", Some(wave.batch.start)), ("max", wave.batch.max)] {
        if amount.is_some_and(Amount::is_zero) {
            let message = "a batch of nothing never ends".to_owned();
            lint.at(document, path!["waves", i, "batch", field], RuleId::BatchZero, message, None);
        }
    }
    // Ten times per batch reaches any fleet in four; NaN is in no range.
    if !(1.0..=10.0).contains(&wave.batch.grow) {
        let message = format!("batches grow by {}; between 1 and 10 is possible", wave.batch.grow);
        lint.at(document, path!["waves", i, "batch", "grow"], RuleId::OutOfRange, message, None);
    }
    if wave.pick.as_ref().is_some_and(|p| p.count == 0) {
        let message = "a sample of none".to_owned();
        lint.at(document, path!["waves", i, "pick", "count"], RuleId::OutOfRange, message, None);
    }
    for (field, gates) in [("before", &wave.gates.before), ("after", &wave.gates.after)] {
        for (j, gate) in gates.iter().enumerate() {
            let Gate::Approval { count, .. } = gate;
            if *count == 0 {
                let place = path!["waves", i, "gates", field, j, "approval", "count"];
                let message = "an approval by nobody is no gate".to_owned();
                lint.at(document, place, RuleId::OutOfRange, message, None);
            }
        }
    }
    let hint = || Some("a rollout that can't fail isn't stopped by a broken release".to_owned());
    if wave.failure.tolerate_percent == Some(Amount::Percent(10_000)) {
        let message = "the wave goes on when everything in it fails".to_owned();
        let place = path!["waves", i, "failure", "toleratePercent"];
        lint.at(document, place, RuleId::TolerateEverything, message, hint());
    }
}

fn coverage(lint: &mut Lint<'_, '_>, document: Document<'_>, policy: &PolicySpec) {
    if !lint.is_complete() {
        return;
    }
    let fleet = lint.fleet();
    let mut left: Vec<Pool<'_>> = lint.selected(&policy.select);
    if left.is_empty() {
        return;
    }
    let mut sampled = BTreeSet::new();
    for (i, wave) in policy.waves.iter().enumerate() {
        let (taken, rest): (Vec<Pool<'_>>, Vec<Pool<'_>>) =
            left.iter().copied().partition(|(name, pool)| wave.select.selects(fleet, name, pool));
        if taken.is_empty() {
            let message = format!("wave `{}` has nothing left to select: it stays empty", wave.name);
            lint.at(document, path!["waves", i, "name"], RuleId::WaveSelectsNothing, message, None);
        }
        let known = |(_, pool): &Pool<'_>| pool.nodes.max;
        let size: Option<u32> =
            taken.iter().map(known).try_fold(0u32, |sum, max| Some(sum.saturating_add(max?)));
        let tolerate = wave.failure.tolerate;
        if size.is_some_and(|size| size > 0 && tolerate >= size) {
            let message =
                format!("{tolerate} failures are borne by a wave of at most {} nodes", size.unwrap_or(0));
            let hint = Some("a rollout that can't fail isn't stopped by a broken release".to_owned());
            let place = path!["waves", i, "failure", "tolerate"];
            lint.at(document, place, RuleId::TolerateEverything, message, hint);
        }
        if wave.pick.is_some() {
            sampled.extend(taken.iter().map(|(name, _)| *name));
        } else {
            left = rest;
        }
    }
    if !left.is_empty() {
        let names = list(left.iter().map(|(name, _)| name.as_str()));
        let message = match left.iter().all(|(name, _)| sampled.contains(name)) {
            true => format!("waves take only a sample of {names}: the rest would never move"),
            false => format!("no wave takes {names}: they would never move"),
        };
        let hint = Some("end with a wave that selects everything: {name: rest}".to_owned());
        lint.at(document, path!["waves"], RuleId::PoolInNoWave, message, hint);
    }
}
