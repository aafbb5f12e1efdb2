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
    /// Another drydock acts; this one only looks.
    #[error("another drydock acts{}; this one stands by", holder.as_ref().map_or(String::new(), |h| format!(": {h}")))]
    NotLeading {
        /// Which, as far as known.
        holder: Option<String>,
    },
    /// Another drydock has taken the ledger over while this one believed to hold it. Nothing was written.
    #[error("the ledger was taken over by {holder}; nothing was written")]
    Fenced {
        /// Who holds it now.
        holder: String,
    },
    /// The ledger in the cluster is older than it was, or another one: a backup was put back, or it was deleted.
    #[error(
        "the ledger went back in time: it is at revision {found} and was at {known}{}; somebody has put back a backup of \
         etcd, or has deleted ConfigMaps of drydock. Nothing is decided or changed until a person has looked: compare \
         `kubectl get gpunodes,rollouts` with what really runs, then start drydock once with \
         `drydock run --accept-restored-ledger`",
        if *another { ", and it isn't the same ledger" } else { "" }
    )]
    WentBack {
        /// The highest revision that was seen.
        known: u64,
        /// The revision that is there; 0 when there is none.
        found: u64,
        /// It isn't the same ledger at all.
        another: bool,
    },
    /// The ledger in the cluster can't be read or written.
    #[error(transparent)]
    Home(#[from] drydock_cluster::ledger::LedgerError),
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
