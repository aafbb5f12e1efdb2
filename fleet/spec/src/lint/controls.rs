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
    contradictions(lint);
    fleet_document(lint);
}

/// Controls about the same rollouts that say different things. At run time the most careful one wins, which is safe and
/// not what one of two people wanted.
fn contradictions(lint: &mut Lint<'_, '_>) {
    let controls: Vec<_> = lint.fleet().controls.iter().collect();
    for (i, (name, control)) in controls.iter().enumerate() {
        let document = (Kind::RolloutControl, name.as_str());
        // A control of one rollout narrows one that is about all of them; it doesn't contradict it.
        let same = controls[..i]
            .iter()
            .filter(|(_, other)| other.policy == control.policy && other.rollout == control.rollout);
        for (earlier, other) in same {
            let place = format!("`{earlier}` at {}:{}", other.path, other.line);
            if other.state != control.state {
                let message = format!(
                    "{} here, and {} in control {place}: both are about policy `{}`",
                    control.state.as_str(),
                    other.state.as_str(),
                    control.policy
                );
                let hint = Some("keep one of the two; the most careful one wins meanwhile".to_owned());
                lint.at(document, path!["state"], RuleId::ControlsContradict, message, hint);
            }
            let retried = |node: &String| other.retry.iter().any(|retry| retry.what == *node);
            if let Some((j, node)) = control.skip.iter().enumerate().find(|(_, node)| retried(node)) {
                let message = format!("`{node}` is left out here, and tried again in control {place}");
                lint.at(document, path!["skip", j], RuleId::ControlsContradict, message, None);
            }
            let skipped = |what: &String| other.skip.contains(what);
            if let Some((j, retry)) = control.retry.iter().enumerate().find(|(_, r)| skipped(&r.what)) {
                let message =
                    format!("`{}` is tried again here, and left out in control {place}", retry.what);
                lint.at(document, path!["retry", j, "what"], RuleId::ControlsContradict, message, None);
            }
        }
    }
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
