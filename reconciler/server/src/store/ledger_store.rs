//! What engine and HTTP need of a store, whatever keeps the ledger.

use std::sync::Arc;

use drydock_plan::{Ledger, LedgerChange};
use tokio::sync::broadcast;

use super::{Event, KeptSource, NewEvent, Prepared, Store, StoreError};

/// A ledger with compare-and-swap, and what is shown beside it: numbered events and the last good commit.
///
/// Calls may block on a disk or on a network, up to tens of seconds, and wait for async work: they belong on a thread
/// that may block, never on one that runs async tasks. Two are quick and may be called from anywhere:
/// [`LedgerStore::ledger`] and [`LedgerStore::subscribe`].
pub trait LedgerStore: Send + Sync {
    /// The ledger as committed last, as far as this process knows. It may be behind another process's commits; a commit
    /// that is made from it then is a conflict, and this catches up.
    fn ledger(&self) -> Arc<Ledger>;

    /// Whether decisions may be made from [`LedgerStore::ledger`] and acted upon. Asked at the begin of every pass,
    /// since a pass that changes nothing in the ledger has actions all the same.
    ///
    /// # Errors
    /// Why not: another process holds the ledger, or it has gone back in time.
    fn ready(&self) -> Result<(), StoreError>;

    /// Commits changes that were prepared from the ledger at their parent revision, and events about them; the new
    /// revision comes back. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody else has committed in between: nothing was written, and
    /// [`LedgerStore::ledger`] shows what was.
    fn commit_prepared(&self, prepared: &Prepared, events: &[NewEvent]) -> Result<u64, StoreError>;

    /// Like [`LedgerStore::commit_prepared`], for changes that were made from revision `parent`.
    ///
    /// # Errors
    /// The same.
    fn commit(&self, parent: u64, changes: &[LedgerChange], events: &[NewEvent]) -> Result<u64, StoreError> {
        let before = self.ledger();
        if before.revision != parent {
            return Err(StoreError::Conflict { expected: parent, found: before.revision });
        }
        self.commit_prepared(&Prepared::new(&before, changes.to_vec()), events)
    }

    /// Stores events that aren't about a change of the ledger.
    ///
    /// # Errors
    /// When they can't be written.
    fn record(&self, events: &[NewEvent]) -> Result<(), StoreError>;

    /// At most `limit` events after the one numbered `after`, in order.
    ///
    /// # Errors
    /// When they can't be read.
    fn events_after(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// At most `limit` events before the one numbered `before`, newest first.
    ///
    /// # Errors
    /// When they can't be read.
    fn events_before(&self, before: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Events as they are stored. A reader that is more than 1,024 behind is told so and reads
    /// [`LedgerStore::events_after`].
    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>>;

    /// Replaces the kept files of the last good commit, all or nothing.
    ///
    /// # Errors
    /// When they can't be written.
    fn keep_source(&self, kept: &KeptSource, events: &[NewEvent]) -> Result<(), StoreError>;

    /// The kept files of the last good commit; absent before the first.
    ///
    /// # Errors
    /// When they can't be read.
    fn kept_source(&self) -> Result<Option<KeptSource>, StoreError>;
}

/// The lock on the directory keeps other processes out, so it is always ready.
impl LedgerStore for Store {
    fn ledger(&self) -> Arc<Ledger> {
        Self::ledger(self)
    }
    fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn commit_prepared(&self, prepared: &Prepared, events: &[NewEvent]) -> Result<u64, StoreError> {
        Self::commit_prepared(self, prepared, events)
    }
    fn record(&self, events: &[NewEvent]) -> Result<(), StoreError> {
        Self::record(self, events)
    }
    fn events_after(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        Self::events_after(self, after, limit)
    }
    fn events_before(&self, before: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        Self::events_before(self, before, limit)
    }
    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        Self::subscribe(self)
    }
    fn keep_source(&self, kept: &KeptSource, events: &[NewEvent]) -> Result<(), StoreError> {
        Self::keep_source(self, kept, events)
    }
    fn kept_source(&self) -> Result<Option<KeptSource>, StoreError> {
        Self::kept_source(self)
    }
}
