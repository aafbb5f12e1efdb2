//! The clock on the wall, read at the rim and handed on.

use jiff::Timestamp;

/// The present.
#[expect(clippy::disallowed_methods, reason = "the one place where the command reads the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
