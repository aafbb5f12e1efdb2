//! Why the newest state of the repository isn't in force.

use std::fmt;

use drydock_source::ErrorKind;
use drydock_spec::{Diagnostic, RemovalRefused};
use serde::{Deserialize, Serialize};

/// Findings kept of an invalid commit; the rest is counted.
pub const FINDINGS_SHOWN: usize = 20;

/// Why the newest state of the repository isn't in force. The last good commit stays in force meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SourceProblem {
    /// It hasn't been read yet.
    NotReadYet {},
    /// It can't be read, or there is nothing in it.
    Unreadable {
        /// What went wrong.
        what: ErrorKind,
        /// The same in words, without credentials.
        text: String,
    },
    /// History was rewritten: the new head doesn't descend from the commit in force.
    Rewritten {
        /// Full id of the commit in force.
        from: String,
        /// Full id of the new head.
        to: String,
    },
    /// The head is older than the commit in force; a stale copy of the repository looks like this.
    Backwards {
        /// Full id of the commit in force.
        from: String,
        /// Full id of the head.
        to: String,
    },
    /// The documents of a commit have errors.
    Invalid {
        /// Its full id.
        commit: String,
        /// How many errors.
        errors: usize,
        /// The first of them.
        first: Vec<Diagnostic>,
    },
    /// Something that was a document before can't be read in this commit.
    Incomplete {
        /// Its full id.
        commit: String,
        /// What, one sentence each.
        findings: Vec<String>,
    },
    /// The commit removes more at once than the fleet allows.
    MassRemoval {
        /// Its full id.
        commit: String,
        /// Of what, how many, and how many may.
        refused: RemovalRefused,
    },
}

impl SourceProblem {
    /// A short fixed word: label of metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotReadYet {} => "notReadYet",
            Self::Unreadable { .. } => "unreadable",
            Self::Rewritten { .. } => "rewritten",
            Self::Backwards { .. } => "backwards",
            Self::Invalid { .. } => "invalid",
            Self::Incomplete { .. } => "incomplete",
            Self::MassRemoval { .. } => "massRemoval",
        }
    }
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotReadYet {} => "wait for the first look at the repository".to_owned(),
            Self::Unreadable { .. } => {
                "the last good commit stays in force; drydock looks again by itself".to_owned()
            }
            Self::Rewritten { to, .. } | Self::Backwards { to, .. } => {
                format!(
                    "if {to} is right, approve that commit; otherwise push a commit on top of the one in force"
                )
            }
            Self::Invalid { .. } => "run `drydock validate` on the commit and push a repaired one".to_owned(),
            Self::Incomplete { .. } => "commit the files themselves".to_owned(),
            Self::MassRemoval { .. } => {
                "if it is meant, raise removalBudget in the Fleet document in the same commit".to_owned()
            }
        }
    }
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadYet {} => f.write_str("the repository hasn't been read yet"),
            Self::Unreadable { text, .. } => write!(f, "the repository can't be read: {text}"),
            Self::Rewritten { from, to } => {
                write!(f, "{to} doesn't descend from {from}: history was rewritten")
            }
            Self::Backwards { from, to } => {
                write!(f, "the head {to} is older than {from}, which is in force")
            }
            Self::Invalid { commit, errors, first } => {
                write!(f, "{commit} has {errors} errors")?;
                first.first().map_or(Ok(()), |finding| write!(f, ", the first: {finding}"))
            }
            Self::Incomplete { commit, findings } => {
                write!(f, "{commit} is incomplete: {}", findings.join("; "))
            }
            Self::MassRemoval { commit, refused } => write!(f, "{commit}: {refused}"),
        }
    }
}
