//! An index of what happens next. The instants themselves stand in the state of nodes and jobs; this can be made anew
//! from them at any time.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::NodeId;
use jiff::Timestamp;

/// Whose turn it is. Ties are broken in this order, so that a restored world goes on in the same way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// Something from outside.
    Script,
    /// A node.
    Node(NodeId),
    /// A job.
    Gang(u32),
}

/// Instants by whose turn it is, each at most once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agenda {
    by_time: BTreeSet<(Timestamp, Turn)>,
    of: BTreeMap<Turn, Timestamp>,
}

impl Agenda {
    /// Sets the next instant of a turn; `None` takes it out.
    pub(crate) fn set(&mut self, turn: &Turn, at: Option<Timestamp>) {
        if self.of.get(turn).copied() == at {
            return;
        }
        if let Some(old) = self.of.remove(turn) {
            self.by_time.remove(&(old, turn.clone()));
        }
        if let Some(at) = at {
            self.of.insert(turn.clone(), at);
            self.by_time.insert((at, turn.clone()));
        }
    }
    /// The first one that isn't a job's. Jobs are few among what happens next, so few are passed over.
    pub(crate) fn first_but_gangs(&self) -> Option<Timestamp> {
        self.by_time.iter().find(|(_, turn)| !matches!(turn, Turn::Gang(_))).map(|(at, _)| *at)
    }
    /// The first of all.
    pub(crate) fn first(&self) -> Option<&(Timestamp, Turn)> {
        self.by_time.first()
    }
}
