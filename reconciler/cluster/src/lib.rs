//! Kubernetes: what is seen of clusters, the ledger kept there, and the executor that carries out plans.
//!
//! - [`objects`]: what is kept of objects.
//! - [`ensure`]: what actions ask for, as pure steps.
//! - [`ledger`]: the ledger, and the last good commit, as objects.
//! - [`publish`]: what the ledger says, as custom resources.
//! - [`lease`]: which of several processes acts.
//! - [`client`]: calls to one cluster, each with a deadline, behind a breaker and a gate.

pub mod client;
pub mod clock;
pub mod clusters;
pub mod connect;
pub mod delivery;
pub mod drift;
pub mod ensure;
pub mod executor;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod lease;
pub mod ledger;
pub mod objects;
pub mod observe;
pub mod publish;
pub mod watch;
