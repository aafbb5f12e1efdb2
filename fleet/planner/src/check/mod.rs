//! Invariants, checked on every plan.
//!
//! This is a second opinion: it is written from the semantics of a rollout, shares no code with the planner and asks
//! of a finished plan only what must never happen, so that a mistake there shows here. It never panics, and its cost
//! is one walk over the ledger plus, when something was reserved, one over the inventory.

mod admission;
mod apply;
mod budget;
mod calendar;
mod clusters;
mod cordon;
mod course;
mod crossing;
mod domain;
mod exposure;
mod facts;
mod findings;
mod gang;
mod ledger;
mod reservation;
mod scope;
mod shared;
mod soak;
mod verify;
mod view;
mod window;

use drydock_plan::{Ledger, Plan};

use crate::Input;

use findings::Findings;
use view::View;

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one, for example `I1 floor`.
    pub invariant: &'static str,
    /// What was seen, with names and numbers.
    pub text: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// Checks a plan. `after` is `input.ledger` with the plan's changes applied. Empty when nothing is wrong; the list is
/// bounded, its last entry says how many more there were.
#[must_use]
pub fn check(input: &Input<'_>, plan: &Plan, after: &Ledger) -> Vec<Violation> {
    let mut found = Findings::default();
    let view = View::new(input, plan, after);

    ledger::check(&view, &mut found);
    reservation::check(&view, &mut found);
    course::check(&view, &mut found);
    verify::check(&view, &mut found);
    apply::check(&view, &mut found);
    soak::check(&view, &mut found);
    cordon::check(&view, &mut found);
    admission::check(&view, &mut found);
    calendar::check(&view, &mut found);
    gang::check(&view, &mut found);
    crossing::check(&view, &mut found);
    shared::check(&view, &mut found);
    exposure::Batches::first_given(&view, &mut found);
    clusters::check(&view, &mut found);

    // Counts over the whole inventory are needed only where something new was reserved.
    if !view.fresh.is_empty() {
        let mut budgets = budget::Tallies::new(&view);
        let mut domains = domain::Tallies::new(&view);
        let mut batches = exposure::Batches::new(&view);
        view.each_node(|node| {
            budgets.add(node);
            domains.add(node);
            batches.add(node);
        });
        budgets.add_missing();
        budgets.judge(&mut found);
        domains.judge(&view, &mut found);
        batches.judge(&view, &mut found);
    }
    found.into_violations()
}
