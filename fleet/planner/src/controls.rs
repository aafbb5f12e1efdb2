//! What people want of a rollout, as it stands in Git: a `RolloutControl` counts as long as it is there.

use std::sync::Arc;

use drydock_plan::{
    Command, CommandKind, LedgerChange, NodeId, NodeOutcome, PauseReason, Reason, RolloutRecord, SkipReason,
};
use drydock_spec::{ControlSpec, ControlState, ReleaseId, Retry};

use crate::pass::Pass;

impl Pass<'_> {
    pub(crate) fn take_controls(&mut self) {
        let controls: Vec<(String, ControlSpec)> =
            self.input.fleet.controls.iter().map(|(n, c)| (n.to_string(), c.spec.clone())).collect();
        for (name, control) in &controls {
            let by = says(name, control);
            for rollout in self.controlled(control) {
                match control.state {
                    ControlState::Run => {}
                    ControlState::Pause => {
                        self.pause(&rollout.id, PauseReason::Control { by: by.clone() }, &by);
                    }
                    ControlState::Abort => self.abort(&rollout.id, &by),
                }
            }
            for node in &control.skip {
                self.skip_by_control(&NodeId::new(node), &by);
            }
            for retry in &control.retry {
                self.retry_from_git(name, retry);
            }
            self.name_what_is_nothing(name, control);
        }
        self.unpause_from_git(&controls);
        self.take_back_skips();
    }

    fn controlled(&self, control: &ControlSpec) -> Vec<Arc<RolloutRecord>> {
        self.rollouts.values().filter(|r| !r.state.is_final() && is_about(control, r)).cloned().collect()
    }

    /// The control in Git that leaves a node out, with its reason.
    pub(crate) fn skipped_in_git(&self, node: &NodeId) -> Option<String> {
        let names_it = |c: &&ControlSpec| c.skip.iter().any(|n| n == node.as_str());
        let controls = self.input.fleet.controls.iter().map(|(name, c)| (name, &c.spec));
        controls.into_iter().find(|(_, c)| names_it(c)).map(|(name, c)| says(name.as_str(), c))
    }

    /// A pause that stood in Git ends when it no longer stands there.
    fn unpause_from_git(&mut self, controls: &[(String, ControlSpec)]) {
        for id in self.open_ids() {
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            let gone = |why: &PauseReason| {
                why.control().is_some_and(|control| {
                    !controls.iter().any(|(name, c)| {
                        name == control && c.state == ControlState::Pause && is_about(c, &rollout)
                    })
                })
            };
            let now = self.now();
            if rollout.pauses().any(gone)
                && let Some(r) = self.edit_rollout(&id)
            {
                r.resumed = Some(now);
            }
            self.end_pause(&id, gone, "the pause is gone from Git");
        }
    }

    /// A node that Git left out has its turn when Git no longer says so.
    fn take_back_skips(&mut self) {
        for i in 0..self.frame.nodes.len() {
            let note = self.rec(i).skipped.as_ref().filter(|n| n.reason == SkipReason::Control);
            let from_git = note.and_then(|n| n.by.as_ref()).is_some_and(|by| by.starts_with("git "));
            if !from_git || self.skipped_in_git(self.frame.nodes[i].id).is_some() {
                continue;
            }
            self.edit(i).skipped = None;
            self.give_another_turn(i, |outcome| *outcome == NodeOutcome::Skipped(SkipReason::Control));
        }
    }

    /// A retry that stands in Git counts once: what it said is remembered as a command, so that it doesn't lift the
    /// next quarantine as well.
    fn retry_from_git(&mut self, control: &str, retry: &Retry) {
        let by = format!("git {control}");
        let what = match retry.what.parse() {
            Ok(release) => CommandKind::RetryRelease { release, pool: retry.pool.clone() },
            Err(_) => CommandKind::RetryNode { node: NodeId::new(&retry.what) },
        };
        let known = self.input.ledger.commands.values();
        if known.into_iter().any(|c| c.by == by && c.what == what && c.reason == retry.reason) {
            return;
        }
        if let Some(what) = self.retries_nothing(retry) {
            self.names_nothing(control, what);
            return;
        }
        let command = Command { at: self.now(), by, reason: retry.reason.clone(), what, done: true };
        if self.obey(&command) {
            let added = self.changes.iter().filter(|c| matches!(c, LedgerChange::Command(..))).count() as u64;
            let last = self.input.ledger.commands.keys().next_back().copied().unwrap_or(0);
            self.changes.push(LedgerChange::Command(last + added + 1, command));
        }
    }

    /// A retry of something that nobody knows: a typing error rather than a word that came late.
    fn retries_nothing(&self, retry: &Retry) -> Option<String> {
        match retry.what.parse::<ReleaseId>() {
            Ok(release) => {
                let ledger = self.input.ledger;
                let known = ledger.releases.contains_key(&release)
                    || ledger.quarantines.keys().any(|(_, r)| *r == release)
                    || self.frame.pools.iter().any(|p| p.target.release == release);
                (!known).then(|| format!("release {release}"))
            }
            Err(_) => {
                let node = NodeId::new(&retry.what);
                let pool = self.frame.find(&node).and_then(|i| self.frame.nodes[i].obs.pool.clone());
                match (&retry.pool, pool) {
                    (Some(only), Some(pool)) if *only != pool => Some(format!("node {node} of pool {only}")),
                    _ => self.is_no_node(&node).then(|| format!("node {node}")),
                }
            }
        }
    }

    /// No cluster has it and the ledger doesn't know it. Of a cluster that doesn't answer nobody can tell.
    fn is_no_node(&self, node: &NodeId) -> bool {
        let silent = self.frame.clusters.iter().any(|c| c.name == node.cluster() && c.stale.is_some());
        let declared = self.input.fleet.clusters.keys().any(|c| c.as_str() == node.cluster());
        let seen = self.frame.clusters.iter().any(|c| c.name == node.cluster());
        let unknown = self.frame.find(node).is_none() && !self.input.ledger.nodes.contains_key(node);
        unknown && !silent && (seen || !declared)
    }

    fn name_what_is_nothing(&mut self, name: &str, control: &ControlSpec) {
        for node in &control.skip {
            if self.is_no_node(&NodeId::new(node)) {
                self.names_nothing(name, format!("node {node}"));
            }
        }
        let Some(id) = &control.rollout else { return };
        match self.input.ledger.rollouts.values().find(|r| r.id.as_str() == id) {
            None => self.names_nothing(name, format!("rollout {id}")),
            Some(rollout) => {
                let rollout = Arc::clone(rollout);
                let unknown =
                    |wave: &&drydock_spec::Approval| !rollout.waves.iter().any(|w| w.name == wave.wave);
                for approval in control.approve.iter().filter(unknown) {
                    self.names_nothing(name, format!("wave {} of rollout {id}", approval.wave));
                }
            }
        }
    }

    fn names_nothing(&mut self, control: &str, what: String) {
        let reason = Reason::ControlNamesNothing { control: control.to_owned(), what };
        self.wait_many((None, 0), reason, 0, None);
    }
}

/// Who says it, and why.
fn says(name: &str, control: &ControlSpec) -> String {
    format!("git {name}: {}", control.reason.as_deref().unwrap_or("no reason given"))
}

fn is_about(control: &ControlSpec, rollout: &RolloutRecord) -> bool {
    control.policy == rollout.policy && control.rollout.as_ref().is_none_or(|id| id == rollout.id.as_str())
}
