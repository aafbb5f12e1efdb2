//! What can go wrong with a store.

use std::path::PathBuf;

/// Why a store couldn't be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else committed in between. Nothing was written; the caller re-reads and decides anew.
    #[error("the ledger has moved on: the change was made from revision {expected}, it is at {found}")]
    Conflict {
        /// The revision the change was made from.
        expected: u64,
        /// The revision that is stored.
        found: u64,
    },
    /// Written by a newer drydock in a way that this one would misread.
    #[error(
        "{path} was written by a newer drydock: it needs format {needs} or newer, this is format {ours}; \
             install the newer version again, or start with another directory"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The oldest format that can read it.
        needs: u32,
        /// The format of this program.
        ours: u32,
    },
    /// A value isn't what its table holds.
    #[error("{table}/{key} can't be read: {text}")]
    Damaged {
        /// The table.
        table: &'static str,
        /// The key in it.
        key: String,
        /// What the parser said.
        text: String,
    },
    /// The file is in use, damaged, or the disk failed.
    #[error("{path}: {doing}: {text}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        text: String,
    },
}
