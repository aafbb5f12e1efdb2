//! Controls, and the rules of the Fleet document.

use std::collections::BTreeSet;

use super::Lint;
use crate::{document::Kind, release::ReleaseId, rule::RuleId, source::tree::Step};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, control) in &fleet.controls {
        let document = (Kind::RolloutControl, name.as_str());
        for (i, node) in control.skip.iter().enumerate() {
            check_node(lint, document, path!["skip", i], node);
        }
        for (i, retry) in control.retry.iter().enumerate() {
            if retry.what.parse::<ReleaseId>().is_err() {
                check_node(lint, document, path!["retry", i, "what"], &retry.what);
            }
        }
        let Some(policy) = fleet.policies.get(&control.policy) else { continue };
        for (i, approval) in control.approve.iter().enumerate() {
            if policy.waves.iter().all(|w| w.name != approval.wave) {
                let hint = lint.nearest(approval.wave.as_str(), policy.waves.iter().map(|w| w.name.as_str()));
                let message = format!("policy `{}` has no wave `{}`", control.policy, approval.wave);
                lint.at(document, path!["approve", i, "wave"], RuleId::UnknownReference, message, hint);
            }
        }
    }
    fleet_document(lint);
}

/// `cluster/node`.
fn check_node(lint: &mut Lint<'_, '_>, document: (Kind, &str), at: &[Step<'_>], text: &str) {
    let fleet = lint.fleet();
    let parts = text.split_once('/').filter(|(c, n)| !c.is_empty() && !n.is_empty() && !n.contains('/'));
    let Some((cluster, _)) = parts else {
        let message = format!("`{text}` is neither a node (cluster/node) nor a release id (r-…)");
        return lint.at(document, at, RuleId::BadValue, message, None);
    };
    if !fleet.clusters.contains_key(cluster) && !lint.is_broken(Kind::Cluster, cluster) {
        let hint = lint.nearest(cluster, fleet.clusters.keys().map(AsRef::as_ref));
        lint.at(document, at, RuleId::UnknownReference, format!("there is no Cluster `{cluster}`"), hint);
    }
}

fn fleet_document(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let document = (Kind::Fleet, fleet.name.as_str());
    let mut seen = BTreeSet::new();
    for (i, environment) in fleet.spec.environments.iter().enumerate() {
        if !seen.insert(environment) {
            let message = format!("environment `{environment}` is listed twice");
            lint.at(document, path!["environments", i], RuleId::DuplicateInList, message, None);
        }
    }
    if !lint.is_complete() {
        return;
    }
    for (i, owner) in fleet.spec.owners.iter().enumerate() {
        // Names without `*` are references, and checked as such.
        for (j, glob) in owner.pools.iter().enumerate().filter(|(_, g)| !g.is_literal()) {
            if !fleet.pools.keys().any(|p| glob.matches(p.as_str())) {
                let message = format!("no pool matches `{}`: nobody is asked because of it", glob.as_str());
                lint.at(document, path!["owners", i, "pools", j], RuleId::MatchesNothing, message, None);
            }
        }
    }
}
