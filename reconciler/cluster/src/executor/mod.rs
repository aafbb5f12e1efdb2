//! The executor: makes true what actions ask for, one cluster at a time, each by itself.
//!
//! It decides nothing: [`crate::ensure`] says what comes next, this makes the calls. Whatever is asked for stays on the
//! [`Desk`] until the next pass asks for something else, and is looked at again whenever something of its node changes.

mod calls;
mod desk;
mod run;

pub use self::calls::carry_out;
pub use self::desk::{Desk, Job};
pub use self::run::Runner;
