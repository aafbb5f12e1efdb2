//! The planner: a pure function from (fleet, inventory, ledger, now) to (plan, report), and the checker of its
//! invariants beside it.
//!
//! A pass is a flat list of steps (see [`plan`]); each lives in a file of its own. Every refusal is a
//! [`drydock_plan::Reason`] with its numbers, and nothing returns early without one.

mod actions;
mod admit;
mod aftercare;
mod attempts;
mod barrier;
mod behind;
mod budgets;
mod calendar;
pub mod check;
mod combination;
mod controls;
mod create;
mod cut;
mod desired;
mod domain;
mod explain;
mod exposure;
mod fight;
mod finish;
mod fits;
mod forget;
mod frame;
mod gone;
mod head;
mod health;
mod held;
mod identity;
mod intents;
mod jobs;
mod judge;
mod left_alone;
mod membership;
mod memory;
mod order;
mod pass;
mod pauses;
mod report;
mod retried;
mod retry;
mod rollback;
mod rules;
mod shared;
mod silent;
mod soak;
mod step;
mod stragglers;
mod success;
mod supersede;
mod suspect;
mod transition;
mod turn;
mod units;
mod verdict;
mod verify;
mod waves;

use drydock_plan::{CommitRef, Inventory, Ledger, Planned};
use drydock_spec::Fleet;
use jiff::Timestamp;

pub use calendar::{Opening, opening};
pub use cut::{Cut, cut_down};
pub use desired::{PoolTarget, pool_targets};
pub use explain::{Explanation, why};
pub use exposure::exposure_bound;

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
    let mut pass = pass::Pass::new(*input);
    go_on(&mut pass);
    pass.admit();
    pass.forget();
    pass.finish()
}

/// Everything of a pass before something new begins; `why` takes the same steps, and then asks what admission would say.
fn go_on(pass: &mut pass::Pass<'_>) {
    pass.close_gone_nodes();
    pass.identify();
    pass.take_intents();
    pass.follow_git();
    pass.step_nodes();
    pass.judge_rollouts();
    pass.step_soaking();
    pass.step_retried();
    pass.step_waves();
    pass.finish_rollouts();
}
