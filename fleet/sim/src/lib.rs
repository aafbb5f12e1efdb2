//! A simulated fleet: API servers and nodes in one, on a virtual clock, with seeded durations and faults as data.
//!
//! - [`World`]: what there is and what happens to it.
//! - [`FaultSpec`]: what goes wrong.
//! - [`Runner`]: commits, planner, ledger and world in one loop.
//! - [`Oracle`]: what was done to the fleet, seen from outside the planner.
//!
//! Pure: the same options and the same actions at the same virtual instants give the same world.

// The tests' small fleet names the crate from outside.
#[cfg(test)]
extern crate self as drydock_sim;

mod agenda;
mod draw;
mod duration;
mod fate;
mod fault;
mod found;
mod gang;
mod ground;
mod health;
mod how;
mod lies;
mod measure;
pub mod model;
mod node;
mod options;
mod oracle;
mod publish;
pub mod run;
mod save;
mod script;
mod shared;
mod stacks;
mod step;
mod truth;
mod work;
mod world;

pub use draw::Draw;
pub use fault::{FaultError, FaultSpec};
pub use gang::Gang;
pub use ground::{Ground, Hardware, Part};
pub use how::{BadNodeHow, Breaks, DomainPlace, How, Place};
pub use node::NodeState;
pub use options::{DomainSizes, Workload, WorldOptions};
pub use oracle::{Applied, Away, FINDINGS_MAX, Oracle, OracleFinding, Tally};
pub use run::{Commit, Run, RunOptions, Runner, Script, Summary};
pub use save::{Meta, SavedGang, SavedNode, Snapshot, WorldDelta};
pub use truth::Harm;
pub use world::{LogLine, Refused, World};
