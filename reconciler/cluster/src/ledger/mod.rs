//! The ledger in Kubernetes.
//!
//! A commit touches many records and must be made whole or not at all, and an API server makes only the change of one
//! object atomic. So the ledger's truth is one *head*, the ConfigMap `drydock-ledger`: it names *pages* (immutable
//! ConfigMaps that hold the whole ledger at some revision) and carries a *journal* of the commits since. A commit
//! appends to the journal and replaces the head, compare-and-swap on its `resourceVersion`: one request. When the
//! journal has grown too long, pages are written first, then the head that names them, then the old ones are deleted.
//!
//! An answer that got lost is never guessed: the head carries a commit id that is unique to the attempt, so it is read
//! again to see whether ours is there.
//!
//! `GpuNode` and `Rollout` objects are published from the ledger, and the ledger is made again from them when it is lost
//! ([`rebuild()`]). They are never read otherwise.

mod error;
mod head;
mod home;
mod journal;
mod kept;
mod pages;
mod rebuild;
#[cfg(test)]
mod tests;

pub use error::LedgerError;
pub use head::{Head, Place};
pub use home::{Home, MAX_JOURNAL};
pub use kept::Kept;
pub use pages::PageRef;
pub use rebuild::{Rebuilt, gather, rebuild, stride};
