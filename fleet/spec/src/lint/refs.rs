//! What documents refer to exists.

use std::{borrow::Borrow, collections::BTreeMap};

use super::Lint;
use crate::{
    document::Kind,
    kinds::{PoolSelector, Scope, Window},
    rule::RuleId,
    source::tree::Step,
    text::Glob,
};

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, cluster) in &fleet.clusters {
        let document = (Kind::Cluster, name.as_str());
        environments(lint, document, path!["environment"], cluster.environment.as_slice(), false);
    }
    for (name, pool) in &fleet.pools {
        let document = (Kind::GpuNodePool, name.as_str());
        reference(lint, document, path!["cluster"], Kind::Cluster, pool.cluster.as_str(), &fleet.clusters);
        reference(lint, document, path!["release"], Kind::Release, pool.release.as_str(), &fleet.releases);
        if let Some(layout) = &pool.layout {
            reference(
                lint,
                document,
                path!["layout"],
                Kind::PartitionLayout,
                layout.as_str(),
                &fleet.layouts,
            );
        }
    }
    for (name, release) in &fleet.releases {
        let document = (Kind::Release, name.as_str());
        for (field, names) in [
            ("components", release.components.keys().collect::<Vec<_>>()),
            ("requires", release.requires.keys().collect()),
        ] {
            for component in names {
                if !known(lint, Kind::Component, component.as_str(), &fleet.components) {
                    let hint = lint.nearest(component.as_str(), fleet.components.keys().map(AsRef::as_ref));
                    let message = format!("component `{component}` isn't defined");
                    let place = (path![field] as &[Step<'_>], component.as_str());
                    lint.at_key(document, place, RuleId::UnknownReference, message, hint);
                }
            }
        }
    }
    for (name, component) in &fleet.components {
        for (i, after) in component.after.iter().enumerate() {
            let document = (Kind::Component, name.as_str());
            reference(lint, document, path!["after", i], Kind::Component, after.as_str(), &fleet.components);
        }
    }
    for (name, policy) in &fleet.policies {
        let document = (Kind::RolloutPolicy, name.as_str());
        reference(lint, document, path!["checks"], Kind::CheckSuite, policy.checks.as_str(), &fleet.suites);
        selector(lint, document, path!["select"], &policy.select);
        for (i, wave) in policy.waves.iter().enumerate() {
            selector(lint, document, path!["waves", i, "select"], &wave.select);
        }
    }
    for (name, budget) in &fleet.budgets {
        let document = (Kind::Budget, name.as_str());
        scope(lint, document, path!["scope"], &budget.scope);
        windows(lint, document, "active", &budget.active);
    }
    for (name, calendar) in &fleet.calendars {
        let document = (Kind::Calendar, name.as_str());
        windows(lint, document, "windows", &calendar.windows);
        for (i, freeze) in calendar.freezes.iter().enumerate() {
            scope(lint, document, path!["freezes", i, "scope"], &freeze.scope);
        }
    }
    for (name, cost) in &fleet.costs {
        scope(lint, (Kind::CostBudget, name.as_str()), path!["scope"], &cost.scope);
    }
    for (name, control) in &fleet.controls {
        let document = (Kind::RolloutControl, name.as_str());
        reference(
            lint,
            document,
            path!["policy"],
            Kind::RolloutPolicy,
            control.policy.as_str(),
            &fleet.policies,
        );
        for (i, retry) in control.retry.iter().enumerate() {
            if let Some(pool) = &retry.pool {
                let place = path!["retry", i, "pool"];
                reference(lint, document, place, Kind::GpuNodePool, pool.as_str(), &fleet.pools);
            }
        }
    }
    for (i, owner) in fleet.spec.owners.iter().enumerate() {
        pools(lint, (Kind::Fleet, fleet.name.as_str()), path!["owners", i, "pools"], &owner.pools);
    }
}

fn known<N: Borrow<str> + Ord, T>(lint: &Lint<'_, '_>, kind: Kind, name: &str, map: &BTreeMap<N, T>) -> bool {
    map.contains_key(name) || lint.is_broken(kind, name)
}

fn reference<N: Borrow<str> + Ord, T>(
    lint: &mut Lint<'_, '_>,
    document: Document<'_>,
    path: &[Step<'_>],
    kind: Kind,
    name: &str,
    map: &BTreeMap<N, T>,
) {
    if known(lint, kind, name, map) {
        return;
    }
    let hint = lint.nearest(name, map.keys().map(Borrow::borrow));
    lint.at(document, path, RuleId::UnknownReference, format!("there is no {kind} `{name}`"), hint);
}

fn windows(lint: &mut Lint<'_, '_>, document: Document<'_>, field: &str, windows: &[Window]) {
    for (i, window) in windows.iter().enumerate() {
        scope(lint, document, path![field, i, "scope"], &window.scope);
    }
}

fn scope(lint: &mut Lint<'_, '_>, document: Document<'_>, path: &[Step<'_>], scope: &Scope) {
    let fleet = lint.fleet();
    if let Some(cluster) = &scope.cluster {
        let path = [path, path!["cluster"]].concat();
        reference(lint, document, &path, Kind::Cluster, cluster.as_str(), &fleet.clusters);
    }
    environments(lint, document, &[path, path!["environment"]].concat(), scope.environment.as_slice(), false);
    pools(lint, document, &[path, path!["pools"]].concat(), &scope.pools);
}

fn selector(lint: &mut Lint<'_, '_>, document: Document<'_>, path: &[Step<'_>], selector: &PoolSelector) {
    let fleet = lint.fleet();
    for (i, cluster) in selector.clusters.iter().enumerate() {
        let path = [path, path!["clusters", i]].concat();
        reference(lint, document, &path, Kind::Cluster, cluster.as_str(), &fleet.clusters);
    }
    environments(lint, document, &[path, path!["environments"]].concat(), &selector.environments, true);
    pools(lint, document, &[path, path!["pools"]].concat(), &selector.pools);
}

/// Patterns without `*` are names.
fn pools(lint: &mut Lint<'_, '_>, document: Document<'_>, path: &[Step<'_>], globs: &[Glob]) {
    let fleet = lint.fleet();
    for (i, glob) in globs.iter().enumerate().filter(|(_, g)| g.is_literal()) {
        let path = [path, path![i]].concat();
        reference(lint, document, &path, Kind::GpuNodePool, glob.as_str(), &fleet.pools);
    }
}

fn environments(
    lint: &mut Lint<'_, '_>,
    document: Document<'_>,
    path: &[Step<'_>],
    names: &[String],
    many: bool,
) {
    let listed = &lint.fleet().spec.environments;
    if !lint.repository.has_fleet() {
        return;
    }
    for (i, name) in names.iter().enumerate().filter(|(_, name)| !listed.contains(name)) {
        let hint = lint.nearest(name, listed.iter().map(String::as_str));
        let hint = hint.or_else(|| Some("list it under `environments` of the Fleet document".to_owned()));
        let place = if many { [path, path![i]].concat() } else { path.to_vec() };
        lint.at(
            document,
            &place,
            RuleId::UnknownEnvironment,
            format!("environment `{name}` isn't listed"),
            hint,
        );
    }
}
