//! The words of the screens, each axis a type of its own.

use std::fmt;

use drydock_plan::ObservedCluster;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// Facts older than this are shown as stale; the planner doesn't act on them either.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Does what runs equal what Git says? From best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Sync {
    /// Yes.
    Synced,
    /// Git moved; the change isn't here yet.
    OutOfSync,
    /// The cluster moved.
    Drifted,
    /// Another owner holds what drydock should change.
    Conflict,
    /// It can't be told: the facts are stale, or no pool claims the node.
    Unknown,
}

/// Is it well? From best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Health {
    /// Yes.
    Healthy,
    /// It is being changed, or is watched after a change.
    Progressing,
    /// Somebody keeps it away from work.
    Suspended,
    /// It can't be told: the facts are stale.
    Unknown,
    /// It isn't there.
    Missing,
    /// Something is wrong with it.
    Degraded,
}

/// How old is what is known?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Freshness {
    /// Newer than [`STALE_AFTER`].
    Fresh,
    /// Older than that.
    Stale,
    /// The cluster doesn't answer.
    Unreachable,
}

impl Sync {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Synced, Self::OutOfSync, Self::Drifted, Self::Conflict, Self::Unknown];
    /// The word itself.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Synced => "Synced",
            Self::OutOfSync => "OutOfSync",
            Self::Drifted => "Drifted",
            Self::Conflict => "Conflict",
            Self::Unknown => "Unknown",
        }
    }
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Healthy, Self::Progressing, Self::Suspended, Self::Unknown, Self::Missing, Self::Degraded];
    /// The word itself.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Suspended => "Suspended",
            Self::Unknown => "Unknown",
            Self::Missing => "Missing",
            Self::Degraded => "Degraded",
        }
    }
}

impl Freshness {
    /// Of a cluster, at an instant.
    #[must_use]
    pub fn of(cluster: Option<&ObservedCluster>, now: Timestamp) -> Self {
        match cluster {
            Some(ObservedCluster { error: Some(_), .. }) => Self::Unreachable,
            Some(ObservedCluster { seen_at, error: None, .. })
                if now.duration_since(*seen_at) > STALE_AFTER =>
            {
                Self::Stale
            }
            Some(ObservedCluster { error: None, .. }) => Self::Fresh,
            // A cluster of the repository that was never seen.
            None => Self::Unreachable,
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
