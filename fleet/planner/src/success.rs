//! Success is something that somebody passed. A wave is over when at least one of its nodes was good on the release for
//! as long as it should; a sample whose node drops out is drawn again; and where nobody passes the rollout waits for a
//! person instead of going on without a proof.
//!
//! What must hold: a wave that protects others is never over by being empty, and every drop-out, of whatever reason, is
//! either replaced or told.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{
    Course, NodeOutcome, PauseReason, Reason, RolloutEvent, RolloutId, RolloutRecord, RolloutState,
    SkipReason, WaveState,
};
use drydock_spec::Pick;

use crate::pass::Pass;

/// Nodes drawn in place of others before a person is asked: each was tried or waited for, and five that drop out one
/// after the other say that something else is wrong.
pub(crate) const DRAWS_MAX: u32 = 5;
/// Nodes that drop out before the first success of a rollout, at which a person is asked, whatever is still left to try.
const DROPPED_MAX: u32 = 5;

/// How the nodes of a wave have ended so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Not begun, in flight, or not seen.
    pub open: u32,
    /// Back and watched.
    pub soaking: u32,
    /// Good for as long as it should be.
    pub done: u32,
    /// It had run the target already: no proof, and nothing to prove.
    pub there: u32,
    /// It doesn't exist any more, or belongs to no pool.
    pub gone: u32,
    /// The release failed on it.
    pub reverted: u32,
    /// Left out or quarantined, by how.
    pub dropped: BTreeMap<&'static str, u32>,
}

impl Tally {
    /// Verified on the release.
    pub(crate) const fn passed(&self) -> u32 {
        self.soaking + self.done
    }
    fn dropped(&self) -> u32 {
        self.dropped.values().sum::<u32>() + self.reverted
    }
    /// Nobody can see from this that the release is good, and somebody tried.
    fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.reverted > 0 {
            parts.push(format!("{} taken back, since the release failed there", self.reverted));
        }
        parts.extend(self.dropped.iter().map(|(how, n)| format!("{n} {how}")));
        if self.there > 0 {
            parts.push(format!("{} running it already", self.there));
        }
        if self.gone > 0 {
            parts.push(format!("{} gone", self.gone));
        }
        if parts.is_empty() { "no node is left to try it on".to_owned() } else { parts.join(", ") }
    }
}

impl Pass<'_> {
    /// How the nodes of a wave have ended so far.
    pub(crate) fn tally(&self, id: &RolloutId, w: usize) -> Tally {
        let mut tally = Tally::default();
        for &i in self.wave_nodes(id, w).iter() {
            let record = self.rec(i);
            let Some(a) = &record.assignment else { continue };
            match (&record.visit, &record.soak, &a.outcome) {
                (Some(_), _, _) | (None, None, None) => tally.open += 1,
                (None, Some(_), _) => tally.soaking += 1,
                (None, None, Some(NodeOutcome::Done)) => tally.done += 1,
                (None, None, Some(NodeOutcome::Skipped(SkipReason::AlreadyThere))) => tally.there += 1,
                (None, None, Some(NodeOutcome::Gone)) => tally.gone += 1,
                (None, None, Some(NodeOutcome::Reverted)) => tally.reverted += 1,
                (None, None, Some(NodeOutcome::Quarantined)) => {
                    *tally.dropped.entry("quarantined").or_default() += 1;
                }
                (None, None, Some(NodeOutcome::Skipped(why))) => {
                    *tally.dropped.entry(left_out(why)).or_default() += 1;
                }
            }
        }
        tally
    }

    /// Nodes of all waves that have passed, and of later waves that wait for this one.
    fn around(&self, rollout: &RolloutRecord, w: usize) -> (u32, u32) {
        let (mut passed, mut waiting) = (0, 0);
        for other in 0..rollout.waves.len() {
            let tally = self.tally(&rollout.id, other);
            passed += tally.passed() + tally.there;
            waiting += if other > w { tally.open } else { 0 };
        }
        (passed, waiting)
    }

    /// Why nobody has passed a wave and nobody will without a person. `None` where somebody has, or still may.
    pub(crate) fn nothing_passed(&self, rollout: &RolloutRecord, w: usize) -> Option<String> {
        let (wave, spec) = (rollout.waves.get(w)?, rollout.strategy.waves.get(w));
        // A way back proves nothing: what it brings was proven on these very nodes.
        if rollout.kind.is_automatic() {
            return None;
        }
        let tally = self.tally(&rollout.id, w);
        if tally.passed() > 0 {
            return None;
        }
        let (elsewhere, waiting) = self.around(rollout, w);
        let in_flight = |&&i: &&usize| self.rec(i).visit.is_some();
        let trying = self.wave_nodes(&rollout.id, w).iter().any(|i| in_flight(&i));
        // What every pool of it has nodes that are good on needs no proof from the few that are left: they come again.
        // This comes before any count of those that dropped out, or what somebody else holds would pause it for a person.
        if elsewhere == 0 && !trying && tally.open == 0 && self.is_proven_already(rollout) {
            return None;
        }
        let dropped = tally.dropped().saturating_sub(wave.excused);
        if elsewhere == 0 && dropped >= DROPPED_MAX && !trying {
            return Some(tally.text());
        }
        let excused = wave.excused > 0 && dropped == 0;
        let sample = spec.is_some_and(|s| s.pick.is_some());
        // Without anybody who waits for it a wave protects nobody; whether the rollout has brought anything is asked at
        // its end.
        let protects = waiting > 0 || elsewhere == 0;
        // In a wave that isn't a sample, nodes that run it already or are gone leave nothing to prove.
        let idle = !sample && tally.dropped() == 0;
        if tally.open > 0 || excused || idle || !protects || self.can_draw(rollout, w) {
            return None;
        }
        Some(tally.text())
    }

    /// Of every pool that has nodes in the rollout some node has been good on what it brings, for its whole soak: release and
    /// layout alike.
    fn is_proven_already(&self, rollout: &RolloutRecord) -> bool {
        let parts = (0..rollout.waves.len()).flat_map(|w| self.wave_nodes(&rollout.id, w).to_vec());
        let wanted: BTreeSet<_> = parts
            .filter_map(|i| self.rec(i).assignment.as_ref())
            .map(|a| (a.pool.clone(), a.target.clone()))
            .collect();
        let good = |(pool, target): &(drydock_spec::PoolName, drydock_plan::Target)| {
            (0..self.frame.nodes.len()).any(|i| {
                self.frame.nodes[i].obs.pool.as_ref() == Some(pool)
                    && self.rec(i).last_known_good.as_ref() == Some(target)
            })
        };
        !wanted.is_empty() && wanted.iter().all(good)
    }

    /// Asks a person where nobody passes. True when the rollout waits for one now.
    pub(crate) fn pause_unless_passed(&mut self, rollout: &RolloutRecord, w: usize) -> bool {
        let Some(detail) = self.nothing_passed(rollout, w) else { return false };
        let Some(wave) = rollout.waves.get(w).map(|w| w.name.clone()) else { return false };
        if self.rollout(&rollout.id).is_some_and(|r| r.state == RolloutState::Running) {
            let why = format!("nobody has passed wave {wave}: {detail}");
            let reason = PauseReason::NothingPassed { wave, detail };
            self.set_state(&rollout.id, RolloutState::Paused(reason), &why);
        }
        true
    }

    /// Of such a wave no node is left that could say what it waits for.
    pub(crate) fn say_what_nobody_passed(&mut self, id: &RolloutId) {
        let Some(rollout) = self.rollout(id) else { return };
        let RolloutState::Paused(why @ PauseReason::NothingPassed { wave, .. }) = &rollout.state else {
            return;
        };
        let w = rollout.waves.iter().position(|r| r.name == *wave).and_then(|w| u16::try_from(w).ok());
        let (key, reason) = ((Some(id.clone()), w.unwrap_or(u16::MAX)), Reason::Paused { why: why.clone() });
        self.wait_many(key, reason, 0, None);
    }

    /// Somebody has said to go on although nobody passed: what has dropped out so far is excused, and others may be drawn.
    pub(crate) fn excuse(&mut self, id: &RolloutId) {
        let Some(rollout) = self.rollout(id).cloned() else { return };
        let named = rollout.pauses().find_map(|why| match why {
            PauseReason::NothingPassed { wave, .. } => Some(wave),
            PauseReason::Control { .. }
            | PauseReason::Inconclusive { .. }
            | PauseReason::Deadline
            | PauseReason::Aborting { .. } => None,
        });
        let Some(wave) = named else { return };
        let Some(w) = rollout.waves.iter().position(|r| r.name == *wave) else { return };
        let tally = self.tally(id, w);
        if let Some(record) = self.edit_rollout(id).and_then(|r| r.waves.get_mut(w)) {
            // At least one, so that a wave of which nothing is left counts as excused as well.
            record.excused = tally.dropped().max(1);
            record.drawn = 0;
        }
    }

    fn can_draw(&self, rollout: &RolloutRecord, w: usize) -> bool {
        let pick = rollout.strategy.waves.get(w).and_then(|s| s.pick.as_ref());
        let left = rollout.waves.get(w).is_some_and(|wave| wave.drawn < DRAWS_MAX);
        left && pick.is_some_and(|pick| self.next_drawn(rollout, w, pick).is_some())
    }

    /// Draws other nodes for a sample whose own have dropped out, whatever the reason. True when somebody was drawn.
    pub(crate) fn draw_again(&mut self, id: &RolloutId, w: usize) -> bool {
        let mut any = false;
        for _ in 0..DRAWS_MAX {
            let Some(rollout) = self.rollout(id).cloned() else { break };
            let Some(pick) = rollout.strategy.waves.get(w).and_then(|s| s.pick.clone()) else { break };
            if rollout.kind.is_automatic()
                || !self.is_short(&rollout, w, &pick)
                || !self.can_draw(&rollout, w)
            {
                break;
            }
            let Some(drawn) = self.next_drawn(&rollout, w, &pick) else { break };
            self.move_to_wave(&rollout, w, drawn);
            any = true;
        }
        any
    }

    /// Fewer than asked for have passed or still may. A node on which the release failed has done its part, unless it was
    /// the only one.
    fn is_short(&self, rollout: &RolloutRecord, w: usize, pick: &Pick) -> bool {
        let tally = self.tally(&rollout.id, w);
        let may = tally.open + tally.passed();
        let lost = tally.dropped() + tally.there + tally.gone;
        lost > 0 && may < pick.count.saturating_sub(tally.reverted).max(1)
    }

    /// The best of the nodes that wait for later waves: it can go now, and covers what nobody else of the sample does.
    fn next_drawn(&self, rollout: &RolloutRecord, w: usize, pick: &Pick) -> Option<usize> {
        let select = &rollout.strategy.waves.get(w)?.select;
        let mut covered: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        for &i in self.wave_nodes(&rollout.id, w).iter() {
            let (record, may) = (self.rec(i), |a: &drydock_plan::Assignment| a.outcome.is_none());
            let done = |a: &drydock_plan::Assignment| a.outcome == Some(NodeOutcome::Done);
            if record.assignment.as_ref().is_some_and(|a| may(a) || done(a)) {
                *covered.entry(self.combination(i, &pick.cover)).or_default() += 1;
            }
        }
        let salt = rollout.targets.values().next().map_or(String::new(), ToString::to_string);
        let later =
            (w + 1..rollout.waves.len()).flat_map(|other| self.wave_nodes(&rollout.id, other).to_vec());
        later
            .filter(|&i| {
                self.waits_its_turn(i) && !self.drawback(i, rollout.strategy.foreign_cordon).cannot_go
            })
            .filter(|&i| {
                let pool = self.frame.nodes[i].pool.and_then(|p| self.frame.pools.get(p));
                pool.is_some_and(|p| select.selects(self.input.fleet, p.name, p.spec))
            })
            .filter(|&i| {
                let target = self.rec(i).assignment.as_ref().map(|a| a.target.clone());
                target.is_some_and(|t| !self.differences(i, &t).is_empty())
            })
            .min_by_key(|&i| {
                let count = covered.get(&self.combination(i, &pick.cover)).copied().unwrap_or(0);
                let drawback = self.drawback(i, rollout.strategy.foreign_cordon);
                (count, drawback, crate::order::hash(&salt, self.frame.nodes[i].id.as_str()))
            })
    }

    /// Nothing of its rollout was done to it yet: it isn't reserved, or came along empty from an older one.
    fn waits_its_turn(&self, i: usize) -> bool {
        let record = self.rec(i);
        let Some(a) = &record.assignment else { return false };
        let held = record.visit.as_ref().is_none_or(|v| v.course == Course::Forward && a.batch.is_none());
        held && a.outcome.is_none() && a.exposed.is_none() && record.soak.is_none()
    }

    /// Takes a node into an earlier wave, with all that have to move with it.
    fn move_to_wave(&mut self, rollout: &RolloutRecord, w: usize, drawn: usize) {
        let Ok(number) = u16::try_from(w) else { return };
        let atomic = rollout.strategy.atomic.clone();
        let later: Vec<usize> = (w + 1..rollout.waves.len())
            .flat_map(|other| self.wave_nodes(&rollout.id, other).to_vec())
            .filter(|&i| i == drawn || self.waits_its_turn(i) && self.move_together(drawn, i, &atomic))
            .collect();
        for i in later {
            if let Some(a) = &mut self.edit(i).assignment {
                a.wave = number;
            }
        }
        self.forget_roster();
        let node = self.frame.nodes[drawn].id.clone();
        if let Some(record) = self.edit_rollout(&rollout.id).and_then(|r| r.waves.get_mut(w)) {
            record.drawn += 1;
            let wave = record.name.clone();
            self.log(&rollout.id, RolloutEvent::Drawn { wave, node });
        }
    }

    /// The last batch of a wave has somebody who passed.
    pub(crate) fn batch_passed(&self, rollout: &RolloutRecord, w: usize) -> bool {
        let Some(wave) = rollout.waves.get(w) else { return false };
        self.wave_nodes(&rollout.id, w).iter().any(|&i| {
            let record = self.rec(i);
            record.assignment.as_ref().is_some_and(|a| {
                let passed = record.soak.is_some() || a.outcome == Some(NodeOutcome::Done);
                a.batch == Some(wave.batch) && passed
            })
        })
    }

    /// How a rollout ends when all its waves are over, and why: well, if something of it runs what it should.
    pub(crate) fn end_of_waves(&self, rollout: &RolloutRecord) -> (RolloutState, String) {
        let (mut on_target, mut all) = (0, 0);
        for w in 0..rollout.waves.len() {
            let tally = self.tally(&rollout.id, w);
            on_target += tally.done + tally.there;
            all += tally.done + tally.there + tally.dropped();
        }
        let succeeded = |why: String| (RolloutState::Succeeded, why);
        match (all, on_target) {
            // Its nodes, pools or clusters are gone: nobody is left who could say whether it is good.
            (0, _) => (RolloutState::Superseded, "none of its nodes is left".to_owned()),
            (all, on_target) if on_target == all => succeeded("all waves are complete".to_owned()),
            // What is left out rests, and gets a rollout of its own when it can go.
            (all, 0) if !rollout.kind.is_automatic() => (
                RolloutState::Superseded,
                format!("none of its {all} nodes could be moved; they are tried again later"),
            ),
            (all, on_target) => {
                succeeded(format!("all waves are complete; on target: {on_target} of {all} nodes"))
            }
        }
    }

    /// Waves over which a rollout has gone: an open one is the first that isn't.
    pub(crate) fn open_wave(rollout: &RolloutRecord) -> Option<usize> {
        rollout.waves.iter().position(|w| !matches!(w.state, WaveState::Complete | WaveState::Skipped))
    }
}

const fn left_out(why: &SkipReason) -> &'static str {
    match why {
        SkipReason::Preexisting => "failing before the change",
        SkipReason::ForeignCordon => "cordoned by somebody else",
        SkipReason::NotReady => "not ready",
        SkipReason::Control => "left out by a person",
        SkipReason::Undrainable => "not to be emptied",
        SkipReason::AlreadyThere => "running it already",
        SkipReason::Unit(_) => "whose unit was left out",
        SkipReason::Floor(_) => "held by a floor that broken nodes use up",
        SkipReason::Gang(_) => "held by a job that is too large",
        SkipReason::Incompatible => "with hardware that the release doesn't run on",
        SkipReason::RolloutEnded => "left out when another rollout ended",
    }
}
