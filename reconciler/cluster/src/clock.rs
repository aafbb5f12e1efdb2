//! The wall clock, read in one place.

use jiff::Timestamp;

/// Now. For stamping what was just seen; decisions get their `now` handed in.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads the wall clock")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}
