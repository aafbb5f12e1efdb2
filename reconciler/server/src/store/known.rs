//! What this directory remembers of a ledger that is kept elsewhere: enough to notice that it went back in time.

use super::tables::{self, while_};
use super::{Event, NewEvent, Store, StoreError, append, codec, read};

/// The newest ledger that was seen.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Known {
    /// Which ledger.
    pub lineage: String,
    /// Its highest revision so far.
    pub revision: u64,
}

const KEY: &str = "known";

impl Store {
    /// The newest ledger elsewhere that was seen; absent before the first.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn known(&self) -> Result<Option<Known>, StoreError> {
        read(&self.path, &self.database, |txn| {
            let doing = "reading what is known of the ledger";
            let table = txn.open_table(tables::ELSEWHERE).map_err(while_(doing))?;
            let value = table.get(KEY).map_err(while_(doing))?;
            Ok(value.map(|bytes| codec::decode("elsewhere", KEY, bytes.value())).transpose()?)
        })
    }

    /// Remembers the newest ledger elsewhere, and events, in one transaction.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn note(&self, known: &Known, events: &[NewEvent]) -> Result<(), StoreError> {
        let stored: Vec<Event> = self.write(|txn| {
            let doing = "remembering the ledger";
            let bytes = codec::encode("elsewhere", KEY, known)?;
            let mut table = txn.open_table(tables::ELSEWHERE).map_err(while_(doing))?;
            table.insert(KEY, bytes.as_slice()).map_err(while_(doing))?;
            drop(table);
            append(txn, events)
        })?;
        self.announce(stored);
        Ok(())
    }
}
