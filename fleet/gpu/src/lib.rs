//! Facts about GPU hardware, and the few computations that follow from them alone.
//!
//! - [`model`]: the catalogue of GPU models, looked up by the names people and clusters use.
//! - [`mig`]: MIG profiles, their geometry, a placement solver and the resource names a node advertises.
//! - [`xid`]: what a driver error code means for the device and for a rollout.
//! - [`driver`] and [`compat`]: driver versions, and which of them a model can run.
//! - [`sharing`]: time-slicing and MPS, and what a shared GPU advertises.
//!
//! Everything here is a constant or a pure function. Each table names the public source of its facts.

pub mod compat;
pub mod driver;
pub mod mig;
pub mod model;
pub mod sharing;
pub mod xid;

mod names;
