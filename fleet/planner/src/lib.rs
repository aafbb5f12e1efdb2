//! The planner: a pure function from (fleet, inventory, ledger, now) to (plan, report), and the checker of its
//! invariants beside it.

pub mod check;

use drydock_plan::{CommitRef, Inventory, Ledger, Planned};
use drydock_spec::Fleet;
use jiff::Timestamp;

/// Everything a pass looks at. The same input gives the same plan.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What Git says.
    pub fleet: &'a Fleet,
    /// The commit it was read from.
    pub commit: &'a CommitRef,
    /// What was observed. Pools must have been assigned with [`Inventory::assign_pools`] for this fleet.
    pub inventory: &'a Inventory,
    /// What was intended so far.
    pub ledger: &'a Ledger,
    /// The instant of the decision.
    pub now: Timestamp,
}

/// Decides what to do now.
pub fn plan(input: &Input<'_>) -> Planned {
    let _ = input;
    Planned::default()
}
