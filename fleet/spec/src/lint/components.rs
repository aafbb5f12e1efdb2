//! Components: order, time, and what can't be taken back.

use std::collections::{BTreeMap, BTreeSet};

use super::Lint;
use crate::{
    document::Kind,
    kinds::{ComponentClass, ComponentSpec, ComponentVersion, Delivery, Disruption},
    rule::RuleId,
    text::{ClusterName, ComponentName, PoolName},
};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, component) in &fleet.components {
        let document = (Kind::Component, name.as_str());
        if component.deadline.is_zero() {
            let message = "a deadline of zero lets no application finish".to_owned();
            lint.at(document, path!["deadline"], RuleId::ZeroDeadline, message, None);
        }
        let expect = component.expect;
        if expect.p50 > expect.p90 {
            let message = format!("half are done after {}, but nine of ten after {}", expect.p50, expect.p90);
            lint.at(document, path!["expect", "p90"], RuleId::ExpectOrder, message, None);
        }
        drain(lint, document, component);
        if !component.reversible {
            let message = "it is applied last in a visit, and a rollback leaves it as it is".to_owned();
            lint.at(document, path!["reversible"], RuleId::Irreversible, message, None);
        }
    }
    cycles(lint);
    once_per_cluster(lint);
    one_cluster_policy(lint);
}

/// Pods hold the devices: their modules can't be unloaded, and links that go down take jobs with them.
fn drain(lint: &mut Lint<'_, '_>, document: (Kind, &str), component: &ComponentSpec) {
    let held = match component.class {
        ComponentClass::GpuDriver | ComponentClass::NetworkDriver => "kernel modules can't be replaced",
        ComponentClass::FabricManager => "links between GPUs can't be set up anew",
        ComponentClass::NodeImage => "a node can't be replaced",
        ComponentClass::ContainerToolkit
        | ComponentClass::DevicePlugin
        | ComponentClass::PartitionManager
        | ComponentClass::Scheduler
        | ComponentClass::Agent
        | ComponentClass::Firmware => return,
    };
    let word = match component.disruption {
        Disruption::None => "none",
        Disruption::Restart => "restart",
        Disruption::Drain | Disruption::Reboot => return,
    };
    if matches!(component.delivery, Delivery::Observe {}) {
        return;
    }
    let message = format!("{held} under running pods, and disruption: {word} leaves them there");
    let hint = Some("write disruption: drain, which is the default".to_owned());
    lint.at(document, path!["disruption"], RuleId::DriverWithoutDrain, message, hint);
}

/// The GPU Operator has one ClusterPolicy in a cluster, whose template is for all nodes.
fn one_cluster_policy(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut first: BTreeMap<(&ClusterName, &str), (&ComponentVersion, &PoolName)> = BTreeMap::new();
    let mut said = BTreeSet::new();
    for (pool, spec) in &fleet.pools {
        let Some(release) = fleet.releases.get(&spec.release) else { continue };
        for (name, version) in &release.components {
            let Some(Delivery::ClusterPolicy(object)) = fleet.components.get(name).map(|c| &c.delivery)
            else {
                continue;
            };
            let (other, owner) =
                *first.entry((&spec.cluster, object.name.as_str())).or_insert((version, pool));
            if other == version || !said.insert((&spec.cluster, name, &spec.release)) {
                continue;
            }
            let message = format!(
                "ClusterPolicy `{}` of cluster `{}` has one driver: {} here, and {} in pool `{owner}`",
                object.name,
                spec.cluster,
                told(version, other),
                told(other, version),
            );
            let hint = Some(
                "give both pools the same version, or deliver by nvidiaDriver, which has one object a version"
                    .to_owned(),
            );
            let document = (Kind::GpuNodePool, pool.as_str());
            lint.at(document, path!["release"], RuleId::ClusterComponentTwice, message, hint);
        }
    }
}

fn told(version: &ComponentVersion, other: &ComponentVersion) -> String {
    match version.version == other.version {
        true => format!("{} with other settings or another digest", version.version),
        false => version.version.to_string(),
    }
}

/// What a cluster has once can't run in two versions: two pools would take it from each other for ever.
fn once_per_cluster(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut first: BTreeMap<(&ClusterName, &ComponentName), (&ComponentVersion, &PoolName)> = BTreeMap::new();
    let mut said = BTreeSet::new();
    for (pool, spec) in &fleet.pools {
        let Some(release) = fleet.releases.get(&spec.release) else { continue };
        for (name, version) in &release.components {
            if !fleet.components.get(name).is_some_and(|c| c.delivery.is_per_cluster()) {
                continue;
            }
            let (other, owner) = *first.entry((&spec.cluster, name)).or_insert((version, pool));
            // Many pools carry the same release: one of them is enough.
            if other == version || !said.insert((&spec.cluster, name, &spec.release)) {
                continue;
            }
            let (here, there) = (&version.version, &other.version);
            let differs = if here == there {
                format!("with other settings or another digest than in pool `{owner}`")
            } else {
                format!("and {there} in pool `{owner}`")
            };
            let message = format!("cluster `{}` has one `{name}`: {here} here, {differs}", spec.cluster);
            let hint = Some(format!("give the releases of both pools the same `{name}`"));
            let document = (Kind::GpuNodePool, pool.as_str());
            lint.at(document, path!["release"], RuleId::ClusterComponentTwice, message, hint);
        }
    }
}

/// Names each circle once, at the link of its first component.
fn cycles(lint: &mut Lint<'_, '_>) {
    let components = &lint.fleet().components;
    let mut done: BTreeSet<&ComponentName> = BTreeSet::new();
    for start in components.keys() {
        // A walk with its own stack: chains may be as long as there are components.
        let mut open: BTreeMap<&ComponentName, usize> = BTreeMap::new();
        let mut stack: Vec<(&ComponentName, usize)> = vec![(start, 0)];
        while let Some((name, next)) = stack.last_mut() {
            let (name, index) = (*name, *next);
            *next += 1;
            if index == 0 {
                if !done.insert(name) {
                    stack.pop();
                    continue;
                }
                open.insert(name, stack.len() - 1);
            }
            let Some(after) = components.get(name).and_then(|c| c.after.get(index)) else {
                open.remove(name);
                stack.pop();
                continue;
            };
            if let Some(&at) = open.get(after) {
                let circle: Vec<&str> = stack[at..].iter().map(|(n, _)| n.as_str()).collect();
                let message = format!("{} -> {after}: each waits for the next", circle.join(" -> "));
                let hint = Some("remove one `after`".to_owned());
                lint.at(
                    (Kind::Component, name.as_str()),
                    path!["after", index],
                    RuleId::ComponentCycle,
                    message,
                    hint,
                );
            } else if let Some((after, _)) = components.get_key_value(after) {
                stack.push((after, 0));
            }
        }
    }
}
