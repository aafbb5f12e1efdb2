//! Head of line: a unit that needs more room than others is passed over while they fill every place that gets free.
//! After `patience` it goes first, and whoever would take what it needs waits, in whichever rollout, unless it is back
//! before the head could start (backfill).

use std::{collections::BTreeMap, rc::Rc};

use drydock_plan::{HeadOfLine, Reason, RolloutId, RolloutRecord, UnitId, WaveState};
use drydock_spec::DomainKey;
use jiff::Timestamp;

use crate::{budgets::RoomAt, pass::Pass, units::Unit};

/// Something there is only so much of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// A limit of a budget.
    Budget(RoomAt),
    /// Places in a domain that only so many nodes may leave at once.
    Domain(DomainKey, String, String),
}

/// A unit that goes first.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    rollout: RolloutId,
    line: HeadOfLine,
    /// How much it takes of what.
    needs: BTreeMap<Need, u32>,
    /// When it could start, if everything in flight is back in its usual time.
    starts: Timestamp,
}

impl Pass<'_> {
    /// A refusal that ends when others come back.
    pub(crate) fn for_room(reason: &Reason) -> bool {
        matches!(
            reason,
            Reason::BudgetInFlight { .. }
                | Reason::BudgetFloor { .. }
                | Reason::Spread { .. }
                | Reason::HeadOfLine { .. }
        )
    }

    /// Whether lighter units could fill the room that this one waits for. Among equals nobody is passed over for long:
    /// they take turns.
    pub(crate) fn is_large(&self, unit: &Unit) -> bool {
        let gpus = unit.nodes.first().map_or(0, |&i| self.frame.nodes[i].gpus);
        unit.nodes.len() > 1 || self.frame.pools.iter().any(|pool| pool.spec.gpu.count < gpus)
    }

    /// Brings the list of units that were passed over up to date after a batch was filled. A unit that has gone, or
    /// that isn't the same any more, leaves the line.
    pub(crate) fn keep_line(&mut self, rollout: &RolloutRecord, waiting: &[UnitId], refused: &[UnitId]) {
        let now = self.now();
        let before = rollout.head_of_line.iter().chain(&rollout.passed_over);
        let mut line: Vec<HeadOfLine> = before.filter(|h| waiting.contains(&h.unit)).cloned().collect();
        for unit in refused {
            if !line.iter().any(|h| h.unit == *unit) {
                line.push(HeadOfLine { unit: unit.clone(), since: now });
            }
        }
        line.sort_by(|a, b| (a.since, &a.unit).cmp(&(b.since, &b.unit)));
        if let Some(first) = line.first() {
            self.wake_at(rollout.strategy.patience.after(first.since));
        }
        let mut line = line.into_iter();
        let (first, rest): (_, Vec<HeadOfLine>) = (line.next(), line.collect());
        if (&first, &rest) != (&rollout.head_of_line, &rollout.passed_over)
            && let Some(r) = self.edit_rollout(&rollout.id)
        {
            (r.head_of_line, r.passed_over) = (first, rest);
        }
    }

    /// Since when a unit goes first, if its patience is at an end.
    pub(crate) fn is_due(&self, rollout: &RolloutRecord, unit: &UnitId) -> Option<Timestamp> {
        let mut line = rollout.head_of_line.iter().chain(&rollout.passed_over);
        let since = line.find(|h| h.unit == *unit)?.since;
        (self.now() >= rollout.strategy.patience.after(since)).then_some(since)
    }

    /// The units that go first and wait for nothing but room, the longest first. Found once in a pass.
    pub(crate) fn heads(&mut self) -> Rc<[Head]> {
        if let Some(known) = &self.heads {
            return Rc::clone(known);
        }
        // Refusals that are asked for below must not ask for heads again.
        self.heads = Some(Rc::from([]));
        let mut heads = Vec::new();
        for id in self.open_ids() {
            let Some(rollout) = self.rollout(&id).cloned() else { continue };
            let due = rollout.head_of_line.iter().chain(&rollout.passed_over);
            if due.clone().any(|h| self.is_due(&rollout, &h.unit).is_some()) {
                heads.extend(self.heads_of(&rollout));
            }
        }
        heads.sort_by(|a: &Head, b| (a.line.since, &a.line.unit).cmp(&(b.line.since, &b.line.unit)));
        let heads: Rc<[Head]> = Rc::from(heads);
        self.heads = Some(Rc::clone(&heads));
        heads
    }

    fn heads_of(&mut self, rollout: &RolloutRecord) -> Vec<Head> {
        let over = |state| matches!(state, WaveState::Complete | WaveState::Skipped);
        let Some(w) = rollout.waves.iter().position(|w| !over(w.state)) else { return Vec::new() };
        let visiting = self.visiting();
        if self.rollout_holds(rollout, w, &visiting).is_some() {
            return Vec::new();
        }
        let wave = &rollout.waves[w];
        if wave.batch > 0 && wave.in_batch >= wave.batch_size && self.batch_unsettled(rollout, w).is_some() {
            return Vec::new();
        }
        let pending = self.pending(&rollout.id, u16::try_from(w).unwrap_or(u16::MAX));
        let eligible: Vec<usize> =
            pending.into_iter().filter(|&i| self.ineligible(i, rollout).is_empty()).collect();
        let clusters = self.clusters_in_flight(rollout, &visiting);
        let mut heads = Vec::new();
        for unit in self.units(&eligible, &rollout.strategy) {
            let Some(since) = self.is_due(rollout, &unit.id) else { continue };
            let reason = self.unit_reasons(&unit, rollout, &clusters, false).into_iter().next();
            if reason.is_some_and(|r| Self::for_room(&r)) {
                heads.extend(self.head(&unit, rollout, since));
            }
        }
        heads
    }

    /// `None` for a unit that wouldn't fit if everything in flight were back: waiting with it helps nobody.
    fn head(&mut self, unit: &Unit, rollout: &RolloutRecord, since: Timestamp) -> Option<Head> {
        let (mut needs, mut starts) = (BTreeMap::new(), self.now());
        let asking = self.asking(unit, rollout);
        for room in self.rooms(&unit.nodes, asking) {
            needs.insert(Need::Budget(room.at), room.adds);
            if i64::from(room.adds) > room.free {
                let weight = |pass: &Self, i: usize| pass.weight_at(room.at, i);
                starts = starts.max(self.room_by(i64::from(room.adds) - room.free, weight)?);
            }
        }
        for (key, cluster, domain, free, adds) in self.domain_rooms(unit, rollout) {
            if i64::from(adds) > free {
                let weight = |pass: &Self, i: usize| {
                    let node = &pass.frame.nodes[i];
                    let inside =
                        node.id.cluster() == cluster && node.obs.domain(key).is_some_and(|d| **d == *domain);
                    u32::from(inside)
                };
                starts = starts.max(self.room_by(i64::from(adds) - free, weight)?);
            }
            needs.insert(Need::Domain(key, cluster, domain), adds);
        }
        let line = HeadOfLine { unit: unit.id.clone(), since };
        Some(Head { rollout: rollout.id.clone(), line, needs, starts })
    }

    /// When so much more room is there, if everything in flight is back in its usual time.
    fn room_by(&self, mut missing: i64, weight: impl Fn(&Self, usize) -> u32) -> Option<Timestamp> {
        let back = |&i: &usize| {
            let visit = self.rec(i).visit.as_ref()?;
            let usual = self.rollout(&visit.rollout).map(|r| self.estimate(i, r).1).unwrap_or_default();
            Some((usual.after(visit.since).max(self.now()), weight(self, i)))
        };
        let mut back: Vec<(Timestamp, u32)> = self.flying().iter().filter_map(back).collect();
        back.sort_unstable();
        for (at, weight) in back {
            missing -= i64::from(weight);
            if missing <= 0 {
                return Some(at);
            }
        }
        None
    }

    /// For each domain of which a unit takes nodes: how many more may go, and how many it takes.
    fn domain_rooms(
        &self,
        unit: &Unit,
        rollout: &RolloutRecord,
    ) -> Vec<(DomainKey, String, String, i64, u32)> {
        let mut rooms = Vec::new();
        for spread in &rollout.strategy.spread {
            let mut adds: BTreeMap<(&str, &str), u32> = BTreeMap::new();
            for &i in &unit.nodes {
                let node = &self.frame.nodes[i];
                if let Some(domain) = node.obs.domain(spread.key) {
                    *adds.entry((node.id.cluster(), domain)).or_default() += 1;
                }
            }
            for ((cluster, domain), adds) in adds {
                let inside = |i: usize| {
                    let node = &self.frame.nodes[i];
                    node.id.cluster() == cluster
                        && node.obs.domain(spread.key).is_some_and(|d| **d == *domain)
                };
                let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                let size = count((0..self.frame.nodes.len()).filter(|&i| inside(i)).count());
                let used = count(self.flying().into_iter().filter(|&i| inside(i)).count());
                let limit = spread.max.floor_of(size);
                let one = spread.at_least_one && !spread.max.is_zero();
                let limit = limit.max(u32::from(one));
                let free = i64::from(limit) - i64::from(used);
                rooms.push((spread.key, cluster.to_owned(), domain.to_owned(), free, adds));
            }
        }
        rooms
    }

    /// The head whose room this unit would take, if it does. A way back never waits for it: what is broken now is
    /// worse than a unit that waits.
    pub(crate) fn head_reason(&mut self, unit: &Unit, rollout: &RolloutRecord) -> Option<Reason> {
        if unit.nodes.iter().all(|&i| self.goes_back(i, rollout)) {
            return None;
        }
        let heads = self.heads();
        let mine = |h: &Head| h.rollout == rollout.id && h.line.unit == unit.id;
        // A younger head waits for an older one, and never the other way round.
        let older: Vec<&Head> = heads.iter().take_while(|h| !mine(h)).collect();
        if older.is_empty() {
            return None;
        }
        let asking = self.asking(unit, rollout);
        let mut takes: Vec<(Need, i64, u32)> = self
            .rooms(&unit.nodes, asking)
            .into_iter()
            .map(|r| (Need::Budget(r.at), r.free, r.adds))
            .collect();
        for (key, cluster, domain, free, adds) in self.domain_rooms(unit, rollout) {
            takes.push((Need::Domain(key, cluster, domain), free, adds));
        }
        let back = self.unit_estimate(unit, rollout).1.after(self.now());
        let in_the_way = |head: &&&Head| {
            back > head.starts
                && takes.iter().any(|(need, free, adds)| {
                    *adds > 0 && head.needs.get(need).is_some_and(|n| free - i64::from(*adds) < i64::from(*n))
                })
        };
        let line = &older.iter().find(in_the_way)?.line;
        Some(Reason::HeadOfLine { unit: line.unit.clone(), since: line.since })
    }
}
