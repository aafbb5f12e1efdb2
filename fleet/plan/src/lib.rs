//! The words shared by planner, executor, simulation and screens.
//!
//! - [`Inventory`]: what was observed.
//! - [`Ledger`]: what was intended, and what became of it.
//! - [`Plan`]: changes of the ledger, and actions that make reality match it.
//! - [`PlanReport`]: every "not now" with its numbers.
//!
//! Nothing here decides anything, and nothing here does IO.

pub mod action;
pub mod ids;
pub mod inventory;
pub mod ledger;
pub mod node;
pub mod plan;
pub mod reason;
pub mod report;
pub mod rollout;
mod wave;

pub use action::*;
pub use ids::*;
pub use inventory::*;
pub use ledger::*;
pub use node::*;
pub use plan::*;
pub use reason::*;
pub use report::*;
pub use rollout::*;
pub use wave::*;

pub use drydock_spec::{LayoutId, ReleaseId, ReleaseVector};
