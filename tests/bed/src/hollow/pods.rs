//! What is to be done about one pod now.

use std::time::Duration;

use drydock_api::names;
use drydock_sim::How;
use tokio::time::Instant;

use super::{
    face::{self, Face},
    fate::{View, brought, is_job},
    options::{CHECKPOINTS, Ended},
    state::{NodeState, PodState, node_of, pod_annotation},
};

/// How often a pod that doesn't leave is looked at: what holds it may end at an instant.
const STUCK: Duration = Duration::from_millis(250);

/// What is to be done about a pod.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PodPlan {
    pub(super) act: Act,
    /// When to look again, if nothing happens before.
    pub(super) again: Option<Instant>,
    /// It takes its node with it, for so long or for ever.
    pub(super) lose: Option<Option<Duration>>,
}

/// One write, or none.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    Nothing,
    Show(Face),
    /// Its deletion is over.
    Finish,
    /// The job answers this request for a checkpoint.
    Checkpoint(String),
}

const fn nothing(again: Option<Instant>) -> PodPlan {
    PodPlan { act: Act::Nothing, again, lose: None }
}

impl View<'_> {
    /// What is to be done about this pod.
    pub(super) fn pod_plan(&self, pod: &PodState) -> PodPlan {
        let node = node_of(&pod.pod).and_then(|name| self.state.nodes.get(name));
        let Some(node) = node.filter(|node| !node.lost) else { return nothing(None) };
        if pod.leaving.is_some() {
            return self.leaving(pod, node);
        }
        if pod.is_over() {
            return nothing(None);
        }
        if let Some(plan) = self.takes_node(pod, node) {
            return plan;
        }
        let (face, wait) =
            face::face(&self.fate(pod), pod.age(self.now), pod.restarts, &self.options.timings);
        let again = wait.map(|wait| self.now + wait);
        if pod.shown.as_ref() != Some(&face) {
            return PodPlan { act: Act::Show(face), again, lose: None };
        }
        match self.checkpoint(pod) {
            Some(request) => PodPlan { act: Act::Checkpoint(request), again, lose: None },
            None => nothing(again),
        }
    }

    fn leaving(&self, pod: &PodState, node: &NodeState) -> PodPlan {
        if pod.finished {
            return nothing(None);
        }
        let since = pod.leaving.unwrap_or(self.now);
        let Some(takes) = self.leaves(pod, node) else { return nothing(Some(self.now + STUCK)) };
        if self.now < since + takes {
            return nothing(Some(since + takes));
        }
        if is_job(&pod.pod) && !pod.is_over() && !matches!(pod.shown, Some(Face::Ended(_))) {
            // A kubelet writes how it ended before the pod goes; the Job counts it by that.
            let killed = Ended { code: 143, message: String::new(), reason: "Error".to_owned() };
            return PodPlan { act: Act::Show(Face::Ended(killed)), again: Some(self.now), lose: None };
        }
        PodPlan { act: Act::Finish, again: None, lose: None }
    }

    /// A version that takes its node with it does so once a pod, when its container starts.
    fn takes_node(&self, pod: &PodState, node: &NodeState) -> Option<PodPlan> {
        let brought = brought(&pod.pod, self.options)?;
        let back_after = self.bad_version(node, &brought).find_map(|how| match how {
            How::LosesNode { back_after } => Some(*back_after),
            _ => None,
        })?;
        let uid = pod.pod.metadata.uid.as_deref().unwrap_or_default();
        if node.takers.contains(uid) {
            return None;
        }
        let start = self.options.timings.start;
        if pod.age(self.now) < start {
            return Some(nothing(Some(pod.since + start)));
        }
        let back = back_after.map(|period| Duration::from_millis(period.as_millis()));
        Some(PodPlan { act: Act::Nothing, again: None, lose: Some(back) })
    }

    fn checkpoint(&self, pod: &PodState) -> Option<String> {
        let hook = pod_annotation(&pod.pod, names::CHECKPOINT_HOOK);
        if hook != Some(names::CHECKPOINT_HOOK_ANNOTATION)
            || pod_annotation(&pod.pod, CHECKPOINTS) == Some("never")
        {
            return None;
        }
        let request = pod_annotation(&pod.pod, names::CHECKPOINT_REQUEST)?;
        (pod.checkpoint.as_deref() != Some(request)).then(|| request.to_owned())
    }
}
