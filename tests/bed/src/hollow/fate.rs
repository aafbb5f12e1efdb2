//! What becomes of a pod, given the faults in force and what runs on its node. Pure.

use std::{collections::BTreeMap, time::Duration};

use drydock_api::{check, names};
use drydock_plan::NodeId;
use drydock_sim::{BadNodeHow, Breaks, FaultSpec, How, Place};
use drydock_spec::{ClusterName, PoolName};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    face::{Face, Fate, split_tag},
    options::{EXIT_CODE, Ended, HollowOptions, MESSAGE, RUN_FOR},
    state::{Fault, NodeState, PodState, State, node_of, pod_annotation, pod_label},
};

/// What the kubelets know, at one moment.
#[derive(Clone, Copy)]
pub(super) struct View<'s> {
    pub(super) state: &'s State,
    pub(super) options: &'s HollowOptions,
    pub(super) now: Instant,
    /// The same moment on the wall clock: instants in faults are absolute.
    pub(super) clock: Timestamp,
}

/// A version that a pod brings to its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Brought {
    pub(super) component: String,
    pub(super) version: String,
    /// It was read from the tag of an image, which may go on after the version: `580.95.05-ubuntu22.04`.
    tag: bool,
}

impl Brought {
    /// What is called exactly so.
    pub(super) fn exactly(component: &str, version: &str) -> Self {
        Self { component: component.to_owned(), version: version.to_owned(), tag: false }
    }
    /// The version alone, without what a tag adds to it.
    pub(super) fn plain(&self) -> &str {
        match self.version.split_once('-') {
            Some((plain, _)) if self.tag => plain,
            _ => &self.version,
        }
    }
    fn is(&self, component: &str, version: &str) -> bool {
        let same = self.version == version
            || (self.tag && self.version.strip_prefix(version).is_some_and(|rest| rest.starts_with('-')));
        self.component == component && same
    }
}

/// The component and version of a pod: by drydock's label and annotation, else by its image.
pub(super) fn brought(pod: &Pod, options: &HollowOptions) -> Option<Brought> {
    if let Some(component) = pod_label(pod, names::COMPONENT) {
        let told: Value = serde_json::from_str(pod_annotation(pod, names::VERSION)?).ok()?;
        let version = told["version"].as_str().or_else(|| told.as_str())?;
        return Some(Brought { component: component.to_owned(), version: version.to_owned(), tag: false });
    }
    let containers = &pod.spec.as_ref()?.containers;
    containers.iter().filter_map(|c| c.image.as_deref()).find_map(|image| {
        let (repository, tag) = split_tag(image);
        let (_, component) = options.images.iter().find(|(piece, _)| repository.contains(piece.as_str()))?;
        Some(Brought { component: component.clone(), version: tag.to_owned(), tag: true })
    })
}

impl View<'_> {
    /// What becomes of this pod.
    pub(super) fn fate(&self, pod: &PodState) -> Fate {
        let Some(node) = node_of(&pod.pod).and_then(|name| self.state.nodes.get(name)) else {
            return Fate::NeverStarts;
        };
        if pod.cut_off {
            let how = Ended { reason: "Unknown".to_owned(), ..Ended::with(255, "") };
            return Fate::Ends { after: Some(Duration::ZERO), how };
        }
        let pod = &*pod.pod;
        let images = self.broken_images(pod);
        if !images.is_empty() {
            return Fate::PullFails { images };
        }
        if let Some(name) = pod_label(pod, names::CHECK) {
            return self.check(pod, node, name);
        }
        let is_job = is_job(pod);
        if let Some(brought) = brought(pod, self.options) {
            return self.delivery(pod, node, &brought, is_job);
        }
        if is_job { self.job(pod) } else { Fate::Serves }
    }

    fn broken_images(&self, pod: &Pod) -> Vec<String> {
        let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
        let images = containers.iter().filter_map(|c| c.image.clone());
        images
            .filter(|image| self.state.broken_images.iter().any(|piece| image.contains(piece.as_str())))
            .collect()
    }

    /// How a Job's pod that nothing is wrong with ends.
    fn job(&self, pod: &Pod) -> Fate {
        let after = match pod_annotation(pod, RUN_FOR) {
            Some("forever") => None,
            Some(text) => Some(text.parse().map_or(self.options.timings.job, Duration::from_millis)),
            // A training job isn't over in a moment.
            None if pod_label(pod, names::GANG).is_some() => None,
            None => Some(self.options.timings.job),
        };
        let how = self.options.ends.as_ref().and_then(|ends| ends(pod)).unwrap_or_else(|| {
            let code = pod_annotation(pod, EXIT_CODE).and_then(|code| code.parse().ok()).unwrap_or_default();
            Ended::with(code, pod_annotation(pod, MESSAGE).unwrap_or_default())
        });
        Fate::Ends { after, how }
    }

    fn delivery(&self, pod: &Pod, node: &NodeState, brought: &Brought, is_job: bool) -> Fate {
        for how in self.bad_version(node, brought) {
            match how {
                How::CrashLoops => return failed_apply(is_job),
                How::NotReady | How::Hangs if is_job => return for_ever(),
                How::NotReady => return Fate::NeverReady,
                How::Hangs => return Fate::NeverStarts,
                // It takes the node with it: it never gets to be ready, and once the node is back it does.
                How::LosesNode { .. }
                | How::ReadyButBroken { .. }
                | How::HangsInCheck { .. }
                | How::Slow { .. }
                | How::FaultsLater { .. }
                // Refused where faults are read.
                | How::FailsEarly
                | How::FailsHalfway
                | How::NotFound
                | How::Wedges
                | How::Bricks
                | How::Flaps { .. }
                | How::SlowsDown { .. } => {}
            }
        }
        if self.bad_node(node, BadNodeHow::ApplyFails).next().is_some() {
            return failed_apply(is_job);
        }
        if is_job { self.job(pod) } else { Fate::Serves }
    }

    fn check(&self, pod: &Pod, node: &NodeState, name: &str) -> Fate {
        let class = self.options.class(name, pod_label(pod, names::CHECK_CLASS));
        let means = |pick: &str| pick == name || pick == class.as_str();
        let here = |on: Option<&NodeId>| on.is_none_or(|id| self.is(id, node));
        let mut lost = 0;
        for Fault { spec, .. } in &self.state.faults {
            match spec {
                FaultSpec::NeverStartsCheck { check, node }
                    if check.as_str() == name && here(node.as_ref()) =>
                {
                    return Fate::NeverStarts;
                }
                FaultSpec::HungCheck { check, node } if check.as_str() == name && here(node.as_ref()) => {
                    return for_ever();
                }
                FaultSpec::BrokenRunner { check, node, from, to }
                    if check.as_str() == name
                        && here(node.as_ref())
                        && from.is_none_or(|from| self.clock >= from)
                        && to.is_none_or(|to| self.clock < to) =>
                {
                    let how = Ended { code: 137, message: String::new(), reason: "OOMKilled".to_owned() };
                    return Fate::Ends { after: Some(self.options.timings.job), how };
                }
                FaultSpec::RdmaPartnerBroken { node: broken }
                    if class.as_str() == "rdma" && (here(Some(broken)) || takes_part(pod, broken.node())) =>
                {
                    return self.fails(&format!("no answer from {}", broken.node()));
                }
                _ => {}
            }
        }
        for (what, how) in self.bad_here(node) {
            match how {
                How::ReadyButBroken { check } if means(check) => {
                    return self.fails(&format!("{what} is broken"));
                }
                How::HangsInCheck { check } if means(check) => return for_ever(),
                How::Slow { percent, check } if means(check) => lost += percent,
                _ => {}
            }
        }
        if self.bad_node(node, BadNodeHow::CheckFails).any(|of| of == class) {
            return self.fails("the node is broken");
        }
        if let Some(how) = self.options.ends.as_ref().and_then(|ends| ends(pod)) {
            return Fate::Ends { after: Some(self.options.timings.job), how };
        }
        let value = self.options.value(name, class) * f64::from(100u32.saturating_sub(lost)) / 100.0;
        self.ends(check::exit::PASS, check::Verdict::Pass, Some(value), "")
    }

    fn fails(&self, detail: &str) -> Fate {
        self.ends(check::exit::FAIL, check::Verdict::Fail, None, detail)
    }

    fn ends(&self, code: i32, verdict: check::Verdict, value: Option<f64>, detail: &str) -> Fate {
        let message = check::CheckMessage { verdict, value, detail: detail.to_owned() };
        let text = serde_json::to_string(&message).unwrap_or_default();
        Fate::Ends { after: Some(self.options.timings.job), how: Ended::with(code, &text) }
    }

    /// What is bad of what runs on a node: versions and the layout, each with what it is called.
    fn bad_here<'v>(&'v self, node: &'v NodeState) -> Vec<(String, &'v How)> {
        let runs = self.runs(node);
        let mut bad: Vec<(String, &'v How)> = self
            .bad_versions(node)
            .filter(|(component, version, _)| runs.iter().any(|r| r.is(component, version)))
            .map(|(component, version, how)| (format!("{component} {version}"), how))
            .collect();
        for agent in node.agents.values() {
            let Some(value) = agent.applied.as_deref() else { continue };
            bad.extend(self.bad_layout(node, value).map(|how| (format!("layout {value}"), how)));
        }
        bad
    }

    /// What runs on a node: pods that run, what Jobs have noted, and what agents have done.
    pub(super) fn runs(&self, node: &NodeState) -> Vec<Brought> {
        let mut runs: Vec<Brought> = self
            .state
            .pods_on(&node.spec.name)
            .filter(|(_, pod)| matches!(pod.shown, Some(Face::Running { .. })) && !is_job(&pod.pod))
            .filter_map(|(_, pod)| brought(&pod.pod, self.options))
            .collect();
        let annotations = node.node.as_ref().and_then(|n| n.metadata.annotations.as_ref());
        for (key, text) in annotations.into_iter().flatten() {
            let Some(component) = key.strip_prefix(names::APPLIED_PREFIX) else { continue };
            let told: Value = serde_json::from_str(text).unwrap_or_default();
            if let Some(version) = told["version"].as_str() {
                runs.push(Brought {
                    component: component.to_owned(),
                    version: version.to_owned(),
                    tag: false,
                });
            }
        }
        for agent in &self.options.agents {
            let applied = node.agents.get(&agent.label).and_then(|a| a.applied.clone());
            if let (Some(component), Some(version)) = (agent.component.clone(), applied) {
                runs.push(Brought { component, version, tag: false });
            }
        }
        runs
    }

    /// Versions that are bad on this node, with how.
    pub(super) fn bad_versions<'v>(
        &'v self,
        node: &'v NodeState,
    ) -> impl Iterator<Item = (&'v str, &'v str, &'v How)> {
        self.state.faults.iter().filter_map(move |fault| match &fault.spec {
            FaultSpec::BadVersion { component, version, place, how } if self.holds(place, node) => {
                Some((component.as_str(), version.as_str(), how))
            }
            _ => None,
        })
    }

    /// The ways in which a version of a component is bad on this node.
    pub(super) fn bad_version<'v>(
        &'v self,
        node: &'v NodeState,
        brought: &'v Brought,
    ) -> impl Iterator<Item = &'v How> {
        self.bad_versions(node).filter(|(c, v, _)| brought.is(c, v)).map(|(_, _, how)| how)
    }

    /// How a layout is bad on this node.
    pub(super) fn bad_layout<'v>(
        &'v self,
        node: &'v NodeState,
        value: &'v str,
    ) -> impl Iterator<Item = &'v How> {
        self.state.faults.iter().filter_map(move |fault| match &fault.spec {
            FaultSpec::BadLayout { layout, place, how }
                if layout.as_str() == value && self.holds(place, node) =>
            {
                Some(how)
            }
            _ => None,
        })
    }

    /// The classes of checks that suffer because this node is bad in this way.
    pub(super) fn bad_node<'v>(
        &'v self,
        node: &'v NodeState,
        how: BadNodeHow,
    ) -> impl Iterator<Item = drydock_spec::CheckClass> + 'v {
        self.state.faults.iter().filter_map(move |fault| match &fault.spec {
            FaultSpec::BadNode { node: id, how: is, class, breaks } if *is == how && self.is(id, node) => {
                let broken = match breaks {
                    Breaks::Always => true,
                    Breaks::AtApply => node.touched.is_some_and(|at| at >= fault.since),
                    Breaks::At(at) => self.clock >= *at,
                };
                broken.then(|| class.unwrap_or(drydock_spec::CheckClass::Driver))
            }
            _ => None,
        })
    }

    /// Whether a fault means this node.
    pub(super) fn is(&self, id: &NodeId, node: &NodeState) -> bool {
        id.cluster() == self.options.cluster && id.node() == node.spec.name
    }

    fn holds(&self, place: &Place, node: &NodeState) -> bool {
        let label = |key: &str| node.label(key).unwrap_or_default();
        let cluster: Option<ClusterName> = self.options.cluster.parse().ok();
        let pool: Option<PoolName> = label(&self.options.labels.pool).parse().ok();
        let layout = node.agents.values().find_map(|a| a.applied.as_deref());
        let id = cluster.map(|c| NodeId::of(&c, &node.spec.name));
        match (id, pool) {
            (Some(id), Some(pool)) => {
                let model = label(&self.options.labels.model);
                place.holds(&id, &pool, model, &node.spec.kernel, layout, &|_| None)
            }
            // Without a pool or a cluster of a proper name only what doesn't ask for them can hold.
            _ => {
                place.pool.is_none()
                    && place.node.as_ref().is_none_or(|n| self.is(n, node))
                    && place.model.as_ref().is_none_or(|m| m == label(&self.options.labels.model))
                    && place.kernel.as_ref().is_none_or(|k| k.matches(&node.spec.kernel))
                    && place.layout.as_ref().is_none_or(|l| Some(l.as_str()) == layout)
            }
        }
    }

    /// How much longer pods take to leave this node; `None`: for ever.
    pub(super) fn leaves(&self, pod: &PodState, node: &NodeState) -> Option<Duration> {
        if self.state.stuck.iter().any(|selector| selector.picks(&pod.pod)) {
            return None;
        }
        let mut more = Duration::ZERO;
        for fault in &self.state.faults {
            match &fault.spec {
                FaultSpec::PodNeverTerminates { node: id, until }
                    if self.is(id, node) && until.is_none_or(|until| self.clock < until) =>
                {
                    return None;
                }
                FaultSpec::SlowDrain { node: id, by } if self.is(id, node) => {
                    more += Duration::from_millis(by.as_millis());
                }
                _ => {}
            }
        }
        Some(self.options.timings.terminate + more)
    }
}

fn for_ever() -> Fate {
    Fate::Ends { after: None, how: Ended::with(0, "") }
}

fn failed_apply(is_job: bool) -> Fate {
    if is_job {
        Fate::Ends { after: Some(Duration::ZERO), how: Ended::with(1, "it could not be applied") }
    } else {
        Fate::CrashLoops
    }
}

/// Whether a pod belongs to a Job.
pub(super) fn is_job(pod: &Pod) -> bool {
    pod.metadata.owner_references.as_ref().is_some_and(|owners| owners.iter().any(|o| o.kind == "Job"))
}

/// Whether a node takes part in a check of several.
fn takes_part(pod: &Pod, node: &str) -> bool {
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    let variables = containers.iter().filter_map(|c| c.env.as_ref()).flatten();
    let values: BTreeMap<&str, &str> =
        variables.filter_map(|v| Some((v.name.as_str(), v.value.as_deref()?))).collect();
    values.get(check::ENV_NODES).is_some_and(|nodes| nodes.split(',').any(|n| n == node))
}
