//! Waves: what they take, how large their batches are, and what failure they bear.

use std::collections::BTreeSet;

use super::{Lint, Pool, list};
use crate::{
    document::Kind,
    kinds::{Cover, Gate, PolicySpec, Wave},
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
    let above = match (wave.batch.start, wave.batch.max) {
        (Amount::Count(start), Some(Amount::Count(max))) => start > max,
        (Amount::Percent(start), Some(Amount::Percent(max))) => start > max,
        // Which is more depends on the size of the wave.
        (Amount::Count(_), Some(Amount::Percent(_)))
        | (Amount::Percent(_), Some(Amount::Count(_)))
        | (_, None) => false,
    };
    if let Some(max) = wave.batch.max.filter(|max| above && !max.is_zero()) {
        let message = format!("the first batch of {} is more than the largest of {max}", wave.batch.start);
        let hint = Some("batches grow from `start` to `max`".to_owned());
        lint.at(document, path!["waves", i, "batch", "start"], RuleId::BatchAboveMax, message, hint);
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

/// A sample with fewer nodes than combinations leaves some of them out, without a word at run time.
fn sample(lint: &mut Lint<'_, '_>, document: Document<'_>, i: usize, wave: &Wave, taken: &[Pool<'_>]) {
    let Some(pick) = &wave.pick else { return };
    let combination = |(name, pool): &Pool<'_>| -> Vec<String> {
        let part = |cover: &Cover| match cover {
            Cover::GpuModel => pool.gpu.model.clone(),
            Cover::Cluster => pool.cluster.to_string(),
            Cover::Pool => name.to_string(),
            Cover::Layout => pool.layout.as_ref().map(ToString::to_string).unwrap_or_default(),
            // What kernels run stands in no document.
            Cover::Kernel => String::new(),
        };
        pick.cover.iter().map(part).collect()
    };
    let combinations: BTreeSet<Vec<String>> = taken.iter().map(combination).collect();
    if pick.count > 0 && (pick.count as usize) < combinations.len() {
        let message = format!(
            "a sample of {} can't cover {} combinations of what stands under `cover`",
            pick.count,
            combinations.len()
        );
        let hint = Some(format!("write count: {} or more", combinations.len()));
        lint.at(document, path!["waves", i, "pick", "count"], RuleId::SampleTooSmall, message, hint);
    }
}

/// In the first wave nothing is proven yet: what starts together fails together.
fn unproven(lint: &mut Lint<'_, '_>, document: Document<'_>, wave: &Wave, size: Option<u32>) {
    let first = match wave.batch.start {
        Amount::Count(start) => start,
        Amount::Percent(_) => match size {
            Some(size) => wave.batch.start.floor_of(size),
            None => return,
        },
    };
    // Of a sample, or of a wave that is known to be small, no more than it has.
    let first = first.min(wave.pick.as_ref().map_or(u32::MAX, |p| p.count)).min(size.unwrap_or(u32::MAX));
    let borne = wave.failure.tolerate;
    if first > borne.saturating_add(1) {
        let message = format!(
            "{first} go at once before anything is proven, where {borne} may fail: a broken release reaches all {first}"
        );
        let hint = Some(format!(
            "begin with a wave {{name: canary, pick: {{count: 1}}}}, or write start: {}",
            borne.saturating_add(1)
        ));
        let place = path!["waves", 0, "batch", "start"];
        lint.at(document, place, RuleId::BatchAboveTolerance, message, hint);
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
        sample(lint, document, i, wave, &taken);
        if i == 0 {
            unproven(lint, document, wave, size);
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
