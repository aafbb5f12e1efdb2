//! Invariants, checked on every plan.

use drydock_plan::{Ledger, Plan};

use crate::Input;

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: &'static str,
    /// What was seen, with names and numbers.
    pub text: String,
}

/// Checks a plan. `after` is `input.ledger` with the plan's changes applied.
#[must_use]
pub fn check(input: &Input<'_>, plan: &Plan, after: &Ledger) -> Vec<Violation> {
    let _ = (input, plan, after);
    Vec::new()
}
