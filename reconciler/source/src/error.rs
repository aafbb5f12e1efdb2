//! What can go wrong with a source, one kind per thing an operator does differently.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::snapshot::Finding;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, SourceError>;

/// The kind of a [`SourceError`], without its numbers: for metrics, conditions and screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// The source as configured can't mean anything: bad URL, reference or path.
    InvalidSource,
    /// No answer from where the repository should be.
    Unreachable,
    /// The look took longer than its deadline.
    TimedOut,
    /// The server answered and refused the credentials.
    Auth,
    /// The SSH server's key is not in the known hosts.
    HostKeyUnknown,
    /// The SSH server's key differs from the known one.
    HostKeyChanged,
    /// The HTTPS server's certificate is not trusted.
    Certificate,
    /// The branch, tag or revision does not exist.
    RefNotFound,
    /// The pinned commit is not in the repository (any more).
    CommitGone,
    /// The commit has no such folder.
    PathNotFound,
    /// The repository has no commit at all.
    EmptyRepository,
    /// The folder has no YAML file.
    EmptyTree,
    /// More files, folders or nesting than allowed.
    TooManyFiles,
    /// One file is larger than allowed.
    FileTooLarge,
    /// All files together, or the download, are larger than allowed.
    TooLarge,
    /// Anything else from Git.
    Git,
    /// The local file system.
    Io,
}

impl ErrorKind {
    /// Whether the repository was reached and answered, so that looking again soon costs little and helps nothing:
    /// the next commit mends it, and it is noticed at the usual pace.
    #[must_use]
    pub fn answered(self) -> bool {
        match self {
            Self::RefNotFound
            | Self::CommitGone
            | Self::PathNotFound
            | Self::EmptyRepository
            | Self::EmptyTree
            | Self::TooManyFiles
            | Self::FileTooLarge => true,
            Self::InvalidSource
            | Self::Unreachable
            | Self::TimedOut
            | Self::Auth
            | Self::HostKeyUnknown
            | Self::HostKeyChanged
            | Self::Certificate
            // The download limit is in here: repeating a huge download at the usual pace would hurt both sides.
            | Self::TooLarge
            | Self::Git
            | Self::Io => false,
        }
    }
}

/// An error of a source. No text in it contains a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// See [`ErrorKind::InvalidSource`].
    #[error("the source is not valid: {0}")]
    InvalidSource(String),
    /// See [`ErrorKind::Unreachable`].
    #[error("{url} can't be reached: {text}")]
    Unreachable {
        /// The repository, without credentials.
        url: String,
        /// What the transport said.
        text: String,
    },
    /// See [`ErrorKind::TimedOut`].
    #[error("no answer within {after:?}")]
    TimedOut {
        /// The deadline.
        after: Duration,
    },
    /// Earlier looks passed their deadline and still hang; no more are started until one ends.
    #[error("{hanging} earlier looks passed their deadline and still hang")]
    StillHanging {
        /// How many.
        hanging: usize,
    },
    /// See [`ErrorKind::Auth`].
    #[error("{url} refused the credentials: {text}")]
    Auth {
        /// The repository, without credentials.
        url: String,
        /// What the transport said.
        text: String,
    },
    /// See [`ErrorKind::HostKeyUnknown`].
    #[error(
        "{host} shows the {key_type} host key {fingerprint}, and no known host key of that type is on record"
    )]
    HostKeyUnknown {
        /// The SSH host.
        host: String,
        /// The key's type as in a known_hosts file.
        key_type: String,
        /// `SHA256:…` of the key shown, or what the transport said about it.
        fingerprint: String,
    },
    /// See [`ErrorKind::HostKeyChanged`].
    #[error(
        "{host} changed its {key_type} host key: it shows {fingerprint}, which is not the one on record. \
         Nothing is fetched until the known hosts are updated"
    )]
    HostKeyChanged {
        /// The SSH host.
        host: String,
        /// The key's type as in a known_hosts file.
        key_type: String,
        /// `SHA256:…` of the key shown.
        fingerprint: String,
    },
    /// See [`ErrorKind::Certificate`].
    #[error("the certificate of {url} is not trusted: {text}")]
    Certificate {
        /// The repository, without credentials.
        url: String,
        /// What the transport said.
        text: String,
    },
    /// See [`ErrorKind::RefNotFound`].
    #[error("{repository} has no {reference}")]
    RefNotFound {
        /// The repository, without credentials.
        repository: String,
        /// `branch main`, `tag v1`, `revision HEAD~9`.
        reference: String,
    },
    /// See [`ErrorKind::CommitGone`].
    #[error("commit {commit} is not in the repository")]
    CommitGone {
        /// The full id.
        commit: String,
    },
    /// See [`ErrorKind::PathNotFound`].
    #[error("{commit} has no folder {path:?}")]
    PathNotFound {
        /// Relative to the repository's root.
        path: String,
        /// The full id, or `worktree`.
        commit: String,
    },
    /// See [`ErrorKind::EmptyRepository`].
    #[error("{repository} has no commit yet")]
    EmptyRepository {
        /// The repository, without credentials.
        repository: String,
    },
    /// See [`ErrorKind::EmptyTree`].
    #[error("{commit} has no readable YAML file under {path:?} ({} entries were passed over)", findings.len())]
    EmptyTree {
        /// Relative to the repository's root; empty is the root.
        path: String,
        /// The full id, or `worktree`.
        commit: String,
        /// What was there instead.
        findings: Vec<Finding>,
    },
    /// See [`ErrorKind::TooManyFiles`].
    #[error("more than {limit} {what} under {path:?}")]
    TooManyFiles {
        /// `files`, `entries` or `levels of folders`.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
        /// Where the limit was passed.
        path: String,
    },
    /// See [`ErrorKind::FileTooLarge`].
    #[error("{path} has {size} bytes; {limit} are allowed")]
    FileTooLarge {
        /// Relative to the repository's root.
        path: String,
        /// Bytes.
        size: u64,
        /// Bytes.
        limit: u64,
    },
    /// See [`ErrorKind::TooLarge`].
    #[error("the {what} passes {limit} bytes")]
    TooLarge {
        /// `files together` or `download`.
        what: &'static str,
        /// Bytes.
        limit: u64,
    },
    /// See [`ErrorKind::Git`].
    #[error("{doing}: {text}")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// What Git said.
        text: String,
    },
    /// See [`ErrorKind::Io`].
    #[error("{doing} {path}: {text}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The path.
        path: String,
        /// What the system said.
        text: String,
    },
}

impl SourceError {
    /// The kind alone.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidSource(_) => ErrorKind::InvalidSource,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::TimedOut { .. } | Self::StillHanging { .. } => ErrorKind::TimedOut,
            Self::Auth { .. } => ErrorKind::Auth,
            Self::HostKeyUnknown { .. } => ErrorKind::HostKeyUnknown,
            Self::HostKeyChanged { .. } => ErrorKind::HostKeyChanged,
            Self::Certificate { .. } => ErrorKind::Certificate,
            Self::RefNotFound { .. } => ErrorKind::RefNotFound,
            Self::CommitGone { .. } => ErrorKind::CommitGone,
            Self::PathNotFound { .. } => ErrorKind::PathNotFound,
            Self::EmptyRepository { .. } => ErrorKind::EmptyRepository,
            Self::EmptyTree { .. } => ErrorKind::EmptyTree,
            Self::TooManyFiles { .. } => ErrorKind::TooManyFiles,
            Self::FileTooLarge { .. } => ErrorKind::FileTooLarge,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Git { .. } => ErrorKind::Git,
            Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// For `map_err` on work in a local repository, where no credential can be in the text.
    pub(crate) fn git(doing: &'static str) -> impl Fn(git2::Error) -> Self {
        move |error| Self::Git { doing, text: error.message().to_owned() }
    }

    /// For `map_err` on file operations.
    pub(crate) fn io(doing: &'static str, path: &std::path::Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::Io { doing, path: path.clone(), text: error.to_string() }
    }
}
