//! The tasks that join source, planner and world; the ledger on disk; the HTTP API.
//!
//! - [`store`]: ledger and simulated world on disk, numbered events.
//! - [`desired`]: which commit is in force, and why the newest one isn't.
//! - [`world`]: what is acted on, behind one trait.
//! - [`engine`]: passes, on the fleet's own clock ([`clock`]).
//! - [`view`]: the published state and what screens show of it.
//! - [`http`], [`metrics`]: what is served of it.
//! - [`embedded`]: all of it in one process, with a simulated fleet.
//! - [`live`]: all of it on real clusters.

pub mod clock;
pub mod desired;
pub mod embedded;
pub mod engine;
pub mod files;
pub mod http;
pub mod live;
pub mod lock;
pub mod metrics;
pub mod sourcing;
pub mod store;
#[cfg(test)]
mod testing;
pub mod token;
pub mod view;
pub mod world;
