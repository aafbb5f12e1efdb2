//! When the reconciler dies.

use serde::{Deserialize, Serialize};

use crate::{Draw, FaultSpec, Ground};

/// A place between two writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CrashPoint(pub u64);

/// Counts writes and strikes before some of them. All changes of a plan are one write, each action is one.
#[derive(Debug)]
pub(super) struct Crash {
    draw: Draw,
    writes: u64,
    at: Vec<CrashPoint>,
    probability: f64,
}

impl Crash {
    pub(super) fn new(ground: &Ground) -> Self {
        let mut crash = Self { draw: ground.run_draw("crash"), writes: 0, at: Vec::new(), probability: 0.0 };
        for fault in &ground.faults {
            if let FaultSpec::Crash { at_write, probability } = fault {
                crash.at.extend(at_write.map(CrashPoint));
                crash.probability += probability.unwrap_or(0.0);
            }
        }
        crash
    }
    /// Counts a write; true when the reconciler dies before it.
    pub(super) fn strikes(&mut self) -> bool {
        self.writes += 1;
        let n = self.writes;
        self.at.contains(&CrashPoint(n)) || self.draw.number(n).chance(self.probability)
    }
}
