//! Quarantined nodes on which a person says `retry`. The person's word is no proof: the node stays cordoned until its
//! checks have passed, on what it runs where nothing is to be changed, else in a visit.

use drydock_plan::{CheckOrder, Ensure, Evidence, FailureClass, NodeQuarantine, StepState, VisitEnd};
use drydock_spec::{Check, CheckOn, Period, SuiteSpec};
use std::sync::Arc;

use crate::{
    judge::{self, Round},
    pass::Pass,
};

/// Beyond the time-outs of the checks, for their pods to be made and placed.
const RETRY_SLACK: Period = Period::from_mins(30);

impl Pass<'_> {
    /// Looks at the checks of quarantined nodes that run on what is there.
    pub(crate) fn step_retried(&mut self) {
        for i in 0..self.frame.nodes.len() {
            if self.checked_in_place(i) && self.frame.stale(i).is_none() {
                self.judge_in_place(i);
            }
        }
    }

    /// Nothing is to be changed on it, or may be: its checks run where it stands.
    pub(crate) fn checked_in_place(&self, i: usize) -> bool {
        let record = self.rec(i);
        let asked = record.quarantine.as_ref().is_some_and(|q| q.retry.is_some());
        if !asked || record.visit.is_some() {
            return false;
        }
        let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
        let visited = pool.is_some_and(|pool| {
            pool.policy.is_some()
                && self.quarantined(pool.name, &pool.target).is_none()
                && !self.needs(i, &pool.target).is_empty()
        });
        !visited
    }

    fn suite_of_quarantine(&self, quarantine: &NodeQuarantine) -> Option<Arc<SuiteSpec>> {
        self.rollout(&quarantine.rollout).map(|r| Arc::clone(&r.suite))
    }

    fn applicable<'s>(&self, i: usize, suite: &'s SuiteSpec) -> Vec<&'s Check> {
        let pool = self.pool_of(i);
        // Checks with others need a unit or a partner, which a node outside a visit doesn't have.
        let alone = |c: &&Check| c.on == CheckOn::Node && judge::applies(c, pool);
        suite.checks.iter().filter(alone).collect()
    }

    pub(crate) fn ensure_in_place(&self, i: usize) -> Option<Ensure> {
        let quarantine = self.rec(i).quarantine.as_ref()?;
        let suite = self.suite_of_quarantine(quarantine)?;
        let node = &self.frame.nodes[i];
        let order = |check: &&Check| CheckOrder {
            name: check.name.clone(),
            class: check.class,
            on: check.on,
            partner: None,
            nodes: vec![node.id.clone()],
            run: check.run.clone(),
            template: check.template.clone(),
            gpus: check.gpus_of(node.gpus),
            timeout: check.timeout,
            repeats: check.repeats,
            attempt: 1,
        };
        Some(Ensure::Checked { checks: self.applicable(i, &suite).iter().map(order).collect() })
    }

    fn judge_in_place(&mut self, i: usize) {
        let Some(quarantine) = self.rec(i).quarantine.clone() else { return };
        let Some(since) = quarantine.retry else { return };
        let suite = self.suite_of_quarantine(&quarantine);
        let report = self.answer(i).filter(|r| r.state == StepState::Done).cloned();
        let round = match (&suite, report) {
            (Some(suite), Some(report)) if self.frame.nodes[i].obs.ready => {
                let checks = self.applicable(i, suite);
                let some = !checks.is_empty();
                match judge::round(&checks, &report, self.pool_of(i), self.rec(i), None) {
                    Round::Pass if some => Some(None),
                    Round::Pass => Some(Some("there is no check that could show it is well".to_owned())),
                    Round::Fail { text, .. } | Round::Inconclusive(text) => Some(Some(text)),
                }
            }
            _ => None,
        };
        let time = suite.iter().flat_map(|s| &s.checks).fold(RETRY_SLACK, |sum, c| {
            sum.saturating_add(Period::from_millis(c.timeout.as_millis().saturating_mul(c.repeats.into())))
        });
        let due = time.after(since);
        match round {
            Some(None) => {
                let record = self.intend(i);
                record.quarantine = None;
                // It has just passed where it stands, so nothing is left for its cordon to explain.
                record.released = record.epoch;
            }
            Some(Some(text)) => self.stays_quarantined(i, &text),
            None if self.now() >= due => self.stays_quarantined(i, "its checks gave no answer"),
            None => self.wake_at(due),
        }
    }

    fn stays_quarantined(&mut self, i: usize, text: &str) {
        let (now, on) = (self.now(), self.observed_target(i));
        let text = format!("tried again: {text}");
        if let Some(q) = &mut self.intend(i).quarantine {
            q.retry = None;
            q.evidence.truncate(drydock_plan::EVIDENCE_MAX - 1);
            q.evidence.push(Evidence { on, class: FailureClass::Health, result: None, text, at: now });
        }
    }

    /// It was tried again and nothing came of it: it is in quarantine as before. True when it was so.
    pub(crate) fn back_to_quarantine(&mut self, i: usize, end: VisitEnd) -> bool {
        let Some(mut quarantine) = self.rec(i).visit.as_ref().and_then(|v| v.quarantined.clone()) else {
            return false;
        };
        match end {
            VisitEnd::Upgraded | VisitEnd::Reverted => return false,
            VisitEnd::Preexisting => quarantine.retry = None,
            VisitEnd::Deferred | VisitEnd::GivenBack => {}
        }
        self.end_visit(i, end);
        self.intend(i).quarantine = Some(*quarantine);
        true
    }
}
