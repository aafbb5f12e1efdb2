//! Policies: numbers that make sense by themselves, and one policy for each pool.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lint, list};
use crate::{
    document::Kind,
    kinds::{DomainKey, PolicySpec},
    rule::RuleId,
    source::tree::Step,
    text::{PolicyName, PoolName},
};

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, policy) in &fleet.policies {
        let document = (Kind::RolloutPolicy, name.as_str());
        times(lint, document, policy);
        domains(lint, document, policy);
        attempts(lint, document, policy);
    }
    owners(lint);
}

fn times(lint: &mut Lint<'_, '_>, document: Document<'_>, policy: &PolicySpec) {
    let fields: [(&[Step<'_>], _); 6] = [
        (path!["deadline", "rollout"], policy.deadline.rollout),
        (path!["deadline", "reboot"], policy.deadline.reboot),
        (path!["deadline", "preflight"], policy.deadline.preflight),
        (path!["deadline", "unit"], policy.deadline.unit),
        (path!["drain", "timeout"], policy.drain.timeout),
        (path!["lostAfter"], policy.lost_after),
    ];
    for (path, time) in fields {
        if time.is_zero() {
            let message = "zero leaves no time at all; it doesn't mean for ever".to_owned();
            let hint = Some("write how long it may take".to_owned());
            lint.at(document, path, RuleId::ZeroDeadline, message, hint);
        }
    }
}

fn attempts(lint: &mut Lint<'_, '_>, document: Document<'_>, policy: &PolicySpec) {
    if policy.max_clusters == 0 {
        let message = "in no cluster at once means never".to_owned();
        lint.at(document, path!["maxClusters"], RuleId::OutOfRange, message, None);
    }
    let retry = policy.retry;
    let fields = [
        ("applyAttempts", retry.apply_attempts),
        ("checkAttempts", retry.check_attempts),
        ("inconclusiveAttempts", retry.inconclusive_attempts),
    ];
    // Retries without bound have taken whole fleets down; nobody needs more than this by hand.
    const ATTEMPTS_MAX: u32 = 20;
    for (field, n) in fields {
        if n == 0 || n > ATTEMPTS_MAX {
            let message = format!("{n} attempts; between 1 and {ATTEMPTS_MAX} are possible");
            lint.at(document, path!["retry", field], RuleId::OutOfRange, message, None);
        }
    }
}

fn domains(lint: &mut Lint<'_, '_>, document: Document<'_>, policy: &PolicySpec) {
    for (i, spread) in policy.spread.iter().enumerate() {
        if policy.atomic.contains(&spread.key) {
            let key = spread.key.as_str();
            let message = format!("all nodes of a {key} move together, so no limit on some of them can hold");
            let hint = Some("remove it from `atomic` or from `spread`".to_owned());
            lint.at(document, path!["spread", i, "key"], RuleId::AtomicAndSpread, message, hint);
        }
        if spread.max.is_zero() {
            let message = "none at once means never".to_owned();
            lint.at(document, path!["spread", i, "max"], RuleId::ZeroInFlight, message, None);
        }
    }
    let used = policy.atomic.iter().enumerate().map(|(i, &key)| ("atomic", i, key));
    let used: Vec<(&str, usize, DomainKey)> =
        used.chain(policy.spread.iter().enumerate().map(|(i, s)| ("spread", i, s.key))).collect();
    if used.is_empty() {
        return;
    }
    let pools = lint.selected(&policy.select);
    for (field, i, key) in used {
        let without: Vec<&str> =
            pools.iter().filter(|(_, p)| p.domains.label(key).is_none()).map(|(n, _)| n.as_str()).collect();
        if !without.is_empty() {
            let message = format!("no label names the {} of nodes in {}", key.as_str(), list(without));
            let hint = Some(format!("set domains.{} of the pool", key.as_str()));
            lint.at(document, path![field, i], RuleId::LabelWithoutDomain, message, hint);
        }
    }
}

/// Each pool in one policy.
fn owners(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut owner: BTreeMap<&PoolName, &PolicyName> = BTreeMap::new();
    for (name, policy) in &fleet.policies {
        let document = (Kind::RolloutPolicy, name.as_str());
        let pools = lint.selected(&policy.select);
        if pools.is_empty() && lint.is_complete() {
            let message = "it selects no pool".to_owned();
            lint.at(document, path!["select"], RuleId::MatchesNothing, message, None);
        }
        let mut shared: BTreeMap<&PolicyName, Vec<&str>> = BTreeMap::new();
        for (pool, _) in pools {
            if let Some(first) = owner.get(pool) {
                shared.entry(first).or_default().push(pool.as_str());
            } else {
                owner.insert(pool, name);
            }
        }
        for (first, pools) in shared {
            let (noun, verb) = if pools.len() == 1 { ("pool", "belongs") } else { ("pools", "belong") };
            let message = format!("{noun} {} {verb} to policy `{first}` already", list(pools));
            let hint = Some("narrow one of the two selectors".to_owned());
            lint.at(document, path!["select"], RuleId::PoolInTwoPolicies, message, hint);
        }
    }
    if !lint.is_complete() {
        return;
    }
    let without: BTreeSet<&PoolName> = fleet.pools.keys().filter(|p| !owner.contains_key(p)).collect();
    for pool in without {
        let message =
            format!("no policy selects pool `{pool}`: a change of its release would never move a node");
        lint.at((Kind::GpuNodePool, pool.as_str()), path![], RuleId::PoolWithoutPolicy, message, None);
    }
}
