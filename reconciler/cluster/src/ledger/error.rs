//! Why the ledger couldn't be read or written.

use crate::client::CallError;

/// Why the ledger couldn't be read or written. None of these ever means "empty".
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// The API server, while doing this.
    #[error("{doing}: {error}")]
    Call {
        /// What was being done.
        doing: &'static str,
        /// What came of it.
        #[source]
        error: CallError,
    },
    /// Somebody else has written the head in between. Nothing of ours was written.
    #[error("the ledger was written by somebody else in between")]
    Conflict,
    /// The head isn't there any more, or not yet.
    #[error("the ConfigMap {namespace}/{name} isn't there")]
    Absent {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// A page that the head names isn't there. The ledger can't be read without it.
    #[error(
        "the ledger can't be read: its page {namespace}/{name} isn't there; put it back from a backup together with the \
         ConfigMap {head}, or delete {head} so that the ledger is made again from the GpuNode and Rollout objects"
    )]
    MissingPage {
        /// Namespace.
        namespace: String,
        /// The page.
        name: String,
        /// The head that names it.
        head: String,
    },
    /// Something isn't what it should be.
    #[error("{what} is damaged: {text}")]
    Damaged {
        /// Which object.
        what: String,
        /// What is wrong with it.
        text: String,
    },
    /// Written by a newer drydock in a way that this one would misread.
    #[error(
        "the ledger in {namespace}/{name} was written by a newer drydock: it needs format {needs} or newer, this is \
         format {ours}; install the newer version again"
    )]
    TooNew {
        /// Namespace.
        namespace: String,
        /// The head.
        name: String,
        /// Oldest format that can read it.
        needs: u32,
        /// Format of this program.
        ours: u32,
    },
    /// It is larger than what is ever kept.
    #[error("{what} has {bytes} bytes; at most {max} are kept")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The API server was asked twice and it still isn't known whether the commit was made. Nothing may be decided
    /// from either answer; the next commit finds out, since it is a compare-and-swap.
    #[error("it isn't known whether the commit was made: {0}")]
    Unsettled(CallError),
}

impl LedgerError {
    /// For `map_err`: names what was being done.
    pub(super) fn while_(doing: &'static str) -> impl Fn(CallError) -> Self {
        move |error| Self::Call { doing, error }
    }
    pub(super) fn damaged(what: impl Into<String>, text: impl ToString) -> Self {
        Self::Damaged { what: what.into(), text: text.to_string() }
    }
    /// This process doesn't lead (any more), so it doesn't write.
    #[must_use]
    pub fn is_not_leading(&self) -> bool {
        matches!(
            self,
            Self::Call { error: CallError::NotLeading, .. } | Self::Unsettled(CallError::NotLeading)
        )
    }
}
