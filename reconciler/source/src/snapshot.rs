//! What was read: one commit and the files it holds.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The commit id of a snapshot read from a work tree: nothing of it is committed.
pub const WORKTREE: &str = "worktree";

/// The longest commit message kept, in bytes. It ends up in the ledger and on screens; more is nobody's reading.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// Who wrote what when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// The full id, 40 hex digits, or [`WORKTREE`].
    pub id: String,
    /// The first 12 digits.
    pub short: String,
    /// The author's name; empty for a work tree.
    pub author_name: String,
    /// The author's e-mail address; empty for a work tree.
    pub author_email: String,
    /// When it was committed, as the committer's clock said; the time of reading for a work tree.
    pub time: Timestamp,
    /// The whole message, cut after 16 KiB.
    pub message: String,
    /// The message's first line.
    pub summary: String,
}

impl CommitInfo {
    pub(crate) fn of(commit: &git2::Commit<'_>) -> Self {
        let id = commit.id().to_string();
        let author = commit.author();
        let mut message = String::from_utf8_lossy(commit.message_bytes()).trim().to_owned();
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        Self {
            short: id.chars().take(12).collect(),
            id,
            author_name: String::from_utf8_lossy(author.name_bytes()).into_owned(),
            author_email: String::from_utf8_lossy(author.email_bytes()).into_owned(),
            // Anyone can write any number into a commit; one that is no time must not stop the reading.
            time: Timestamp::from_second(commit.time().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
            summary: message.lines().next().unwrap_or_default().to_owned(),
            message,
        }
    }

    pub(crate) fn worktree(now: Timestamp) -> Self {
        Self {
            id: WORKTREE.to_owned(),
            short: WORKTREE.to_owned(),
            author_name: String::new(),
            author_email: String::new(),
            time: now,
            message: String::new(),
            summary: "uncommitted files".to_owned(),
        }
    }
}

/// One file.
#[derive(Clone, PartialEq, Eq)]
pub struct FileBlob {
    /// Relative to the repository's root, parts joined by `/`.
    pub path: String,
    /// Exactly as committed: no filter, no line ending changed.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for FileBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.path, self.bytes.len())
    }
}

/// Something that stands where a file or folder was expected and is not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Relative to the repository's root.
    pub path: String,
    /// What it is.
    pub kind: FindingKind,
}

/// What was found instead of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// A pointer to a file in Git LFS; its content is not in the repository.
    LfsPointer,
    /// A symbolic link to something that would be read if it stood here itself.
    Symlink,
    /// Another repository.
    Submodule,
    /// A name that is not UTF-8.
    NameNotText,
    /// A folder, socket or device with the name of a document.
    NotAFile,
    /// A document by what it says, under a name that isn't read.
    OtherName,
    /// No document as far as its bytes tell, and too large or too many of its kind to be handed on.
    TooLarge,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            FindingKind::LfsPointer => "is a Git LFS pointer; commit the file itself",
            FindingKind::Symlink => "is a symbolic link; links are not followed",
            FindingKind::Submodule => "is a submodule; submodules are not read",
            FindingKind::NameNotText => "has a name that is not UTF-8",
            FindingKind::NotAFile => "is not a regular file",
            FindingKind::OtherName => {
                "is meant as a document by its name or text, and isn't named .yaml or .yml"
            }
            FindingKind::TooLarge => "is not a document as far as it tells, and too large to be looked at",
        };
        write!(f, "{} {what}", self.path)
    }
}

/// The files of one commit under one folder, in the order of their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit.
    pub commit: CommitInfo,
    /// The id of the folder's tree: equal ids, equal content. `None` for a work tree.
    pub tree: Option<String>,
    /// The folder read, relative to the repository's root.
    pub path: String,
    /// The files, by path.
    pub files: Vec<FileBlob>,
    /// What was passed over, by path. With any of these the desired state may be incomplete.
    pub findings: Vec<Finding>,
}

impl Snapshot {
    /// The file at `path`, relative to the repository's root.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&FileBlob> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .and_then(|at| self.files.get(at))
    }

    /// Whether both say the same: same commit and same files. The time of reading a work tree does not count.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.commit.id == other.commit.id
            && self.path == other.path
            && self.files == other.files
            && self.findings == other.findings
    }
}

/// Whether the bytes are a Git LFS pointer file (Git LFS specification, "The Pointer").
pub(crate) fn is_lfs_pointer(bytes: &[u8]) -> bool {
    // The specification keeps pointers below 1024 bytes and the version first.
    bytes.len() < 1024 && bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}
