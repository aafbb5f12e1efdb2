//! Watches: one stream a kind, kept up to date in memory.
//!
//! kube's own watcher hides bookmarks and reconnects every five minutes. Bookmarks are what tells a quiet cluster from
//! a dead connection, and an idle hour shouldn't cost a hundred requests, so the loop is written here; lists, streams
//! and their decoding are kube's.

mod feed;
mod state;

pub use self::feed::run;
pub use self::state::{FeedStatus, Feeds, Kept, SILENCE_MAX, Shared, State, Stirred, Trouble};
