//! Where the desired state comes from: a Git repository at one immutable commit.
//!
//! - [`Mirror`] keeps a bare copy of a remote repository and reads trees straight from its object database: no work
//!   tree, no filters, no submodules, no LFS.
//! - [`Movement`] says how a reference moved between two looks; a rewritten or older head is held, not applied.
//! - [`SourceTask`] looks again on a timer or a wake-up and publishes a [`SourceState`]. A source that is unreadable,
//!   empty or gone keeps the last good [`Snapshot`] in force.
//! - [`read_at`] reads any local repository at any revision; [`init_repository`] and [`commit_all`] write one.
//!
//! Polling is the truth. A wake-up (webhook, file event) only means "look again" and carries no data.

mod access;
mod error;
mod host_key;
mod limits;
mod local;
mod look;
mod marks;
mod mirror;
mod movement;
mod runner;
mod schedule;
mod scrub;
mod snapshot;
mod spec;
mod task;
mod transport;
mod tree;
mod url;
mod watcher;
mod worktree;

pub use access::{Access, Credentials, Secret};
pub use error::{ErrorKind, Result, SourceError};
pub use host_key::KnownHosts;
pub use limits::{Limits, ReadOptions};
pub use local::{Author, commit_all, init_repository, merge_base, read_at};
pub use look::{Ask, Found, GitLook, Look};
pub use mirror::{Fetched, Mirror};
pub use movement::{Admission, Movement, RewritePolicy, admit};
pub use runner::Cancel;
pub use schedule::Pace;
pub use snapshot::{CommitInfo, FileBlob, Finding, FindingKind, Snapshot, WORKTREE};
pub use spec::{Reference, SourceSpec};
pub use task::{Attempt, Clock, Failure, SourceHandle, SourceState, SourceTask, TaskOptions};
pub use url::RemoteUrl;
pub use watcher::{Watching, watch_repository, watch_worktree};
pub use worktree::{WorktreeLook, read_worktree};
