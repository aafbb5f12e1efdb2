//! What goes wrong with whoever leads: a ledger from a backup, an older leader who goes on, a clock that is off.

use drydock_plan::{Action, Ledger};
use drydock_spec::Period;
use jiff::Timestamp;

use crate::{FaultSpec, Ground};

/// Faults of leading, and what has to be kept for them.
#[derive(Debug, Default)]
pub(super) struct Term {
    /// When a copy is taken, when it is put back, and the copy.
    restores: Vec<Restore>,
    /// When an older leader goes on, and what he had planned.
    elders: Vec<Elder>,
    jumps: Vec<Jump>,
}

#[derive(Debug)]
struct Restore {
    taken: Timestamp,
    at: Timestamp,
    copy: Option<Ledger>,
}

#[derive(Debug)]
struct Elder {
    at: Timestamp,
    until: Timestamp,
    actions: Option<Vec<Action>>,
}

#[derive(Debug)]
struct Jump {
    at: Timestamp,
    until: Timestamp,
    by: Period,
    back: bool,
}

impl Term {
    pub(super) fn new(ground: &Ground) -> Self {
        let mut term = Self::default();
        for fault in &ground.faults {
            match fault {
                FaultSpec::LedgerRestored { at, age } => {
                    term.restores.push(Restore { taken: earlier(*at, *age), at: *at, copy: None });
                }
                FaultSpec::TwoLeaders { at, length } => {
                    term.elders.push(Elder { at: *at, until: length.after(*at), actions: None });
                }
                FaultSpec::ClockJump { at, length, by, back } => {
                    term.jumps.push(Jump { at: *at, until: length.after(*at), by: *by, back: *back });
                }
                _ => {}
            }
        }
        term
    }
    /// The ledger that is put back now, where one is. A copy is taken on the way.
    pub(super) fn restored(&mut self, ledger: &Ledger, now: Timestamp) -> Option<Ledger> {
        for restore in &mut self.restores {
            if restore.copy.is_none() && restore.taken <= now && now < restore.at {
                restore.copy = Some(ledger.clone());
            }
        }
        let due = self.restores.iter().position(|restore| restore.at <= now)?;
        self.restores.remove(due).copy
    }
    /// What an older leader asks for once more: what he had planned when he was followed.
    pub(super) fn late_actions(&mut self, planned: &[Action], now: Timestamp) -> Vec<Action> {
        let mut late = Vec::new();
        for elder in &mut self.elders {
            if elder.at <= now && elder.actions.is_none() {
                elder.actions = Some(planned.to_vec());
            } else if now < elder.until {
                late.extend(elder.actions.iter().flatten().cloned());
            }
        }
        late
    }
    /// The time that the reconciler reads.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        match self.jump(now) {
            Some(Jump { by, back: true, .. }) => earlier(now, *by),
            Some(Jump { by, back: false, .. }) => by.after(now),
            None => now,
        }
    }
    /// When an instant on the reconciler's clock comes.
    pub(super) fn really(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        match self.jump(now) {
            Some(Jump { by, back: true, .. }) => by.after(at),
            Some(Jump { by, back: false, .. }) => earlier(at, *by),
            None => at,
        }
    }
    fn jump(&self, now: Timestamp) -> Option<&Jump> {
        self.jumps.iter().find(|jump| jump.at <= now && now < jump.until)
    }
}

fn earlier(at: Timestamp, by: Period) -> Timestamp {
    at.checked_sub(by.to_jiff()).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_772_442_000, 0);

    fn term(jump: Jump) -> Term {
        Term { jumps: vec![jump], ..Term::default() }
    }

    #[test]
    fn a_clock_that_is_off_is_off_for_a_while() {
        let until = Period::from_hours(1).after(NOW);
        for back in [false, true] {
            let term = term(Jump { at: NOW, until, by: Period::from_mins(7), back });
            let read = term.clock(NOW);
            assert_eq!(read < NOW, back);
            assert_eq!(term.really(read, NOW), NOW);
            assert_eq!(term.clock(until), until);
        }
    }

    #[test]
    fn a_ledger_is_put_back_as_it_was() {
        let restore = Restore { taken: NOW, at: Period::from_mins(10).after(NOW), copy: None };
        let mut term = Term { restores: vec![restore], ..Term::default() };
        let old = Ledger { revision: 3, ..Ledger::default() };
        assert!(term.restored(&old, NOW).is_none());
        let new = Ledger { revision: 9, ..Ledger::default() };
        assert!(term.restored(&new, Period::from_mins(5).after(NOW)).is_none());
        assert_eq!(term.restored(&new, Period::from_mins(10).after(NOW)).map(|l| l.revision), Some(3));
        assert!(term.restored(&new, Period::from_mins(11).after(NOW)).is_none());
    }
}
