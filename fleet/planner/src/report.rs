//! The report of a pass: what is how far, and why the rest isn't moving.

use drydock_plan::{NodeCounts, NodeOutcome, PlanReport, Reason, RolloutReport, RolloutState, WaveReport};

use crate::pass::Pass;

impl Pass<'_> {
    pub(crate) fn report(&mut self) -> PlanReport {
        let mut rollouts: Vec<RolloutReport> = self
            .rollouts
            .values()
            .map(|r| RolloutReport {
                id: r.id.clone(),
                waits: Vec::new(),
                waves: r
                    .waves
                    .iter()
                    .map(|w| WaveReport {
                        name: w.name.clone(),
                        state: w.state,
                        counts: NodeCounts::default(),
                        waits: Vec::new(),
                    })
                    .collect(),
            })
            .collect();
        let mut at = 0;
        for i in 0..self.frame.nodes.len() {
            let record = self.rec(i);
            let Some(a) = &record.assignment else { continue };
            // Neighbours mostly share their rollout, so the last answer is tried first.
            if rollouts.get(at).is_none_or(|r| r.id != a.rollout) {
                let Ok(found) = rollouts.binary_search_by(|r| r.id.cmp(&a.rollout)) else { continue };
                at = found;
            }
            let Some(wave) = rollouts[at].waves.get_mut(usize::from(a.wave)) else { continue };
            let counts = &mut wave.counts;
            counts.total += 1;
            match (&record.visit, &record.soak, &a.outcome) {
                (Some(visit), _, _) => match counts.in_flight.get_mut(visit.step.word()) {
                    Some(n) => *n += 1,
                    None => {
                        counts.in_flight.insert(visit.step.word().to_owned(), 1);
                    }
                },
                (None, Some(_), _) => counts.soaking += 1,
                (None, None, None) => counts.waiting += 1,
                (None, None, Some(NodeOutcome::Done)) => counts.done += 1,
                (None, None, Some(NodeOutcome::Skipped(_))) => counts.skipped += 1,
                (None, None, Some(NodeOutcome::Reverted)) => counts.reverted += 1,
                (None, None, Some(NodeOutcome::Quarantined)) => counts.quarantined += 1,
                (None, None, Some(NodeOutcome::Gone)) => counts.gone += 1,
            }
        }
        let mut holds = Vec::new();
        for ((id, wave), waits) in std::mem::take(&mut self.waits) {
            let Some(id) = id else {
                holds.extend(waits);
                continue;
            };
            let Ok(at) = rollouts.binary_search_by(|r| r.id.cmp(&id)) else { continue };
            match rollouts[at].waves.get_mut(usize::from(wave)) {
                Some(w) => w.waits.extend(waits),
                None => rollouts[at].waits.extend(waits.into_iter().map(|w| w.reason)),
            }
        }
        self.name_who_waits(&mut rollouts);
        PlanReport { rollouts, holds, wake: self.wake, violations: Vec::new() }
    }

    /// A rollout that stays halted waits for a person, also where none of its nodes waits any more.
    fn name_who_waits(&self, reports: &mut [RolloutReport]) {
        for (rollout, report) in self.rollouts.values().zip(reports) {
            let said = |w: &WaveReport| w.waits.iter().any(|w| matches!(w.reason, Reason::Halted { .. }));
            let mut visits = (0..self.frame.nodes.len()).filter_map(|i| self.rec(i).visit.as_ref());
            if rollout.state != RolloutState::Halted
                || report.waves.iter().any(said)
                || visits.any(|visit| visit.rollout == rollout.id)
            {
                continue;
            }
            let since = rollout.halt.as_ref().map_or(rollout.created, |halt| halt.at);
            report.waits.push(Reason::Halted { since, in_flight: 0 });
        }
    }
}
