//! Kubernetes: what is seen of clusters, the ledger kept there, and the executor that carries out plans.
//!
//! - [`objects`]: what is kept of objects.
//! - [`ensure`]: what actions ask for, as pure steps.
//! - [`client`]: calls to one cluster, each with a deadline, behind a breaker and a gate.

pub mod client;
pub mod ensure;
pub mod objects;
