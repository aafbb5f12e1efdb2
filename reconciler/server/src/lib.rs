//! The tasks that join source, planner and world; the ledger on disk; the HTTP API.

pub mod desired;
pub mod files;
pub mod lock;
pub mod store;
pub mod token;
pub mod view;
