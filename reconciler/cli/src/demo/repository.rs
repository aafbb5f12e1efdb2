//! The demo's Git repository: its newest commit, and new ones.

use std::path::Path;

use drydock_source::{Author, CommitInfo, ReadOptions, SourceError, commit_all, init_repository, read_at};
use drydock_spec::{Fleet, SourceFile, load};

use crate::clock;
use crate::exit::{Exit, Failure, Result};

/// The newest commit.
pub(crate) struct Head {
    /// The commit.
    pub(crate) commit: CommitInfo,
    /// Its files.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// The fleet in it.
    pub(crate) fleet: Fleet,
}

fn author() -> Author {
    Author { name: "drydock demo".to_owned(), email: "demo@drydock.dev".to_owned() }
}

fn git(error: SourceError) -> Failure {
    Failure::new(Exit::NoInput, error.to_string())
}

/// Makes the repository with its first commit.
pub(crate) fn init(folder: &Path, files: &[(String, Vec<u8>)], message: &str) -> Result<()> {
    init_repository(folder, files, &author(), message, clock::now()).map(drop).map_err(git)
}

/// Reads the newest commit.
pub(crate) fn head(folder: &Path) -> Result<Head> {
    let snapshot = read_at(folder, "HEAD", "", &ReadOptions::default()).map_err(git)?;
    let files: Vec<(String, Vec<u8>)> =
        snapshot.files.into_iter().map(|file| (file.path, file.bytes)).collect();
    let sources: Vec<SourceFile> =
        files.iter().map(|(path, bytes)| SourceFile { path: path.clone(), bytes: bytes.clone() }).collect();
    match load(&sources).fleet {
        Some(fleet) => Ok(Head { commit: snapshot.commit, files, fleet }),
        None => Err(Failure::new(Exit::Findings, "the newest commit of the demo's repository has errors")
            .hint(format!("drydock validate {}", folder.display()))),
    }
}

/// Commits changed files; the full id comes back. What somebody is editing just now isn't overwritten.
pub(crate) fn commit(
    folder: &Path,
    head: &Head,
    files: Vec<(String, Vec<u8>)>,
    message: &str,
) -> Result<String> {
    for (path, _) in &files {
        let committed = head.files.iter().find(|(name, _)| name == path).map(|(_, bytes)| bytes.as_slice());
        if std::fs::read(folder.join(path)).ok().as_deref() != committed {
            let message = format!("{} has changes that aren't committed", folder.join(path).display());
            return Err(Failure::usage(message).hint("commit them or take them back first"));
        }
    }
    let files: Vec<_> = files.into_iter().map(|(path, bytes)| (path, Some(bytes))).collect();
    commit_all(folder, &files, &author(), message, clock::now()).map_err(git)
}
