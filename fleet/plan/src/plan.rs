//! What a planning pass decided.

use serde::{Deserialize, Serialize};

use crate::{Action, LedgerChange, PlanReport};

/// A decision: first the ledger changes, then the actions. It is so specific that whoever carries it out chooses
/// nothing.
#[must_use]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Revision of the ledger it was made from; it may be committed on no other.
    pub parent: u64,
    /// Committed together, before any action.
    pub changes: Vec<LedgerChange>,
    /// What every node in flight should be asked for now. The same action comes again on every pass until it is
    /// observed as done.
    pub actions: Vec<Action>,
}

/// A plan and why everything else is "not now". The report is not part of what two plans are compared by.
#[must_use]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The decision.
    pub plan: Plan,
    /// The reasons.
    pub report: PlanReport,
}
