//! A node on which the release failed: who is to blame? The same node is taken back to what it ran before, inside its
//! own reservation, and checked again (A-B-A).

use drydock_plan::{
    Blame, CheckResult, Course, EVIDENCE_MAX, Evidence, Failure, FailureClass, NodeOutcome, NodeQuarantine,
    Reason, RolloutEvent, Step, Target, VisitEnd,
};

use crate::{desired, pass::Pass};

impl Pass<'_> {
    /// Keeps what was seen.
    pub(crate) fn note_evidence(
        &mut self,
        i: usize,
        class: FailureClass,
        on: Target,
        result: Option<CheckResult>,
        text: String,
    ) {
        let at = self.now();
        let Some(visit) = &mut self.edit(i).visit else { return };
        let first = visit.evidence.is_empty();
        let rollout = visit.rollout.clone();
        if visit.evidence.len() >= EVIDENCE_MAX {
            // What was seen first says what it was about, the newest what came of it: the middle goes.
            visit.evidence.remove(EVIDENCE_MAX / 2);
        }
        visit.evidence.push(Evidence { on, class, result, text: text.clone(), at });
        if first {
            let node = self.frame.nodes[i].id.clone();
            self.log(&rollout, RolloutEvent::Suspect { node, text });
        }
    }

    /// Tries are used up. Forward: back to what it ran before, to see whether the fault goes away. Already back: the
    /// fault stayed, so the node is to blame.
    pub(crate) fn turn_back(&mut self, i: usize, class: FailureClass) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        if visit.course == Course::Back {
            // It fails on what it was good on as well, checked or applied: that is the node's. A release that does this to
            // its nodes is found by how many there are, not by one.
            self.quarantine(i, Blame::Node, first_class(&visit.evidence).unwrap_or(class));
            return;
        }
        let rollback = self.rollout(&visit.rollout).is_some_and(|r| r.kind.is_automatic());
        if rollback || visit.from == visit.to {
            // There is nothing further back: depth one, never to and fro.
            self.quarantine(i, Blame::Node, class);
        } else if !self.can_go_back(i, &visit.from) {
            self.quarantine(i, Blame::Unknown, class);
        } else {
            if let Some(v) = &mut self.edit(i).visit {
                (v.course, v.failed_rounds) = (Course::Back, 0);
            }
            self.go_apply_or_verify(i);
        }
    }

    pub(crate) fn can_go_back(&self, i: usize, from: &Target) -> bool {
        let under_way = match self.rec(i).visit.as_ref().map(|v| &v.step) {
            Some(Step::Apply(item)) => desired::reversible(self.input.fleet, item),
            _ => true,
        };
        under_way
            && self.vector(&from.release).is_some()
            && self.own_needs(i, from).iter().all(|item| desired::reversible(self.input.fleet, item))
    }

    /// Verified on what it ran before. If it had failed on the release, the version is to blame.
    pub(crate) fn settle_back(&mut self, i: usize) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        if let Some(class) = visit.evidence.iter().find(|e| e.on == visit.to).map(|e| e.class) {
            if visit.untold {
                // No check has said anything against the release: it may be to blame all the same.
                self.settle(i, Blame::Unknown, class);
            } else {
                self.settle_version(i, class);
            }
            if visit.atomic {
                self.take_unit_back(i);
            }
        }
        let record = self.edit(i);
        if record.last_known_good.is_none() {
            // It has just passed on it.
            record.last_known_good = Some(visit.from);
        }
        self.leave(i, VisitEnd::Reverted);
    }

    /// An atomic domain shares parts of the fabric: when the version is to blame on one node, all go back.
    fn take_unit_back(&mut self, i: usize) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        for j in self.unit_members(&self.visiting(), &visit.rollout, &visit.unit) {
            let forward = self
                .rec(j)
                .visit
                .as_ref()
                .is_some_and(|v| v.course == Course::Forward && v.step.stage() >= 4);
            // What can't be taken back stays, and a person decides.
            let from = self.rec(j).visit.as_ref().map(|v| v.from.clone());
            if j != i && forward && from.is_some_and(|from| self.can_go_back(j, &from)) {
                if let Some(v) = &mut self.edit(j).visit {
                    (v.course, v.failed_rounds) = (Course::Back, 0);
                }
                self.go_apply_or_verify(j);
            }
        }
    }

    /// Blames the version, and keeps the evidence in the rollout.
    pub(crate) fn settle_version(&mut self, i: usize, class: FailureClass) {
        self.settle(i, Blame::Version, class);
    }

    fn settle(&mut self, i: usize, blame: Blame, class: FailureClass) {
        let now = self.now();
        let node = self.frame.nodes[i].id.clone();
        let Some(visit) = self.rec(i).visit.clone() else { return };
        // What was measured before the failure says nothing about the node after it: the next visit measures anew.
        self.edit(i).baselines.clear();
        let assignment = self.rec(i).assignment.clone();
        let failure_on = visit.to.clone();
        let failure = Failure {
            node: node.clone(),
            wave: assignment.as_ref().map_or(0, |a| a.wave),
            class,
            blame,
            release: visit.to.release.clone(),
            before: visit.from.release.clone(),
            applied_at: assignment.and_then(|a| a.exposed),
            noticed_at: visit.evidence.first().map_or(now, |e| e.at),
            at: now,
            evidence: visit.evidence.clone(),
        };
        let text = visit.evidence.first().map_or_else(String::new, |e| e.text.clone());
        let independent = self.rollout(&visit.rollout).is_some_and(|r| self.is_independent(r, i, now));
        // What it was shown to be bad on isn't what it goes back to.
        if blame == Blame::Version && self.rec(i).last_known_good.as_ref() == Some(&failure_on) {
            let record = self.edit(i);
            record.last_known_good = record.previous_good.take();
        }
        if let Some(rollout) = self.edit_rollout(&visit.rollout) {
            match blame {
                Blame::Version | Blame::Unknown if independent => rollout.consecutive += 1,
                Blame::Version | Blame::Unknown | Blame::Node => {}
            }
            rollout.failures.push(failure);
        }
        self.log(&visit.rollout, RolloutEvent::FailureSettled { node, blame, text });
    }

    /// Not seen any more after the release was given to it: that looks exactly like a release that kills nodes.
    pub(crate) fn lose(&mut self, i: usize) {
        let Some(visit) = self.rec(i).visit.clone() else { return };
        let on = if visit.course == Course::Back { visit.from.clone() } else { visit.to.clone() };
        self.note_evidence(i, FailureClass::Lost, on, None, "the node isn't seen any more".to_owned());
        let wave = self.rec(i).assignment.as_ref().map_or(0, |a| usize::from(a.wave));
        if let Some(w) = self.edit_rollout(&visit.rollout).and_then(|r| r.waves.get_mut(wave)) {
            w.lost += 1;
        }
        self.quarantine(i, Blame::Unknown, FailureClass::Lost);
    }

    /// Keeps the node away from work. It stops being in flight and becomes broken in the same write, so that floors
    /// still see it.
    pub(crate) fn quarantine(&mut self, i: usize, blame: Blame, class: FailureClass) {
        let now = self.now();
        let node = self.frame.nodes[i].id.clone();
        let Some(visit) = self.rec(i).visit.clone() else { return };
        self.settle(i, blame, class);
        let record = self.intend(i);
        record.incidents += 1;
        record.visit = None;
        record.soak = None;
        record.quarantine = Some(NodeQuarantine {
            rollout: visit.rollout.clone(),
            since: now,
            blame,
            evidence: visit.evidence,
            retry: None,
        });
        if let Some(a) = &mut record.assignment {
            a.outcome = Some(NodeOutcome::Quarantined);
            a.ended = Some(now);
        }
        self.log(&visit.rollout, RolloutEvent::NodeQuarantined { node, blame });
        self.wait(i, Reason::NodeQuarantined { since: now, rollout: visit.rollout });
    }
}

fn first_class(evidence: &[Evidence]) -> Option<FailureClass> {
    evidence.first().map(|e| e.class)
}
