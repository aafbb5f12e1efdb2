//! A fleet from a folder or from a revision of the repository it is in.

use std::path::Path;

use drydock_source::{
    CommitInfo, ErrorKind, ReadOptions, Snapshot, SourceError, WORKTREE, read_at, read_worktree,
};
use drydock_spec::{Diagnostic, Fleet, Loaded, Severity, SourceFile, load};

use crate::clock;
use crate::exit::{Exit, Failure, Result};

/// Where a fleet is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Files as they lie in the folder, committed or not.
    Worktree,
    /// A revision of the repository.
    Revision(String),
}

/// A fleet and where it was read from.
#[derive(Debug)]
pub(crate) struct Read {
    /// What came of loading.
    pub(crate) loaded: Loaded,
    /// The files, for places inside documents.
    pub(crate) files: Vec<SourceFile>,
    /// The commit, or the folder as a commit of its own.
    pub(crate) commit: CommitInfo,
    /// What was passed over: links, submodules, pointers of Git LFS.
    pub(crate) passed_over: Vec<String>,
}

/// Reads and loads what is in `folder` at `place`.
pub(crate) fn read(folder: &Path, place: &Place) -> Result<Read> {
    let options = ReadOptions::default();
    if !folder.is_dir() {
        let what = if folder.exists() { "is a file, not a folder" } else { "doesn't exist" };
        let hint = "name the folder that holds the fleet's documents";
        return Err(Failure::missing(format!("{} {what}", folder.display())).hint(hint));
    }
    let snapshot = match place {
        Place::Worktree => {
            read_worktree(folder, "", &options, clock::now()).map(|snapshot| as_typed(snapshot, folder))
        }
        Place::Revision(revision) => read_at(folder, revision, "", &options),
    };
    let Snapshot { commit, files, findings, .. } = snapshot.map_err(unreadable)?;
    let files: Vec<SourceFile> =
        files.into_iter().map(|file| SourceFile { path: file.path, bytes: file.bytes }).collect();
    let loaded = load(&files);
    Ok(Read { loaded, files, commit, passed_over: findings.iter().map(ToString::to_string).collect() })
}

impl Read {
    /// The fleet, or a failure that counts its errors.
    pub(crate) fn fleet(&self) -> std::result::Result<&Fleet, Vec<&Diagnostic>> {
        match &self.loaded.fleet {
            Some(fleet) => Ok(fleet),
            None => Err(self.loaded.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect()),
        }
    }
    /// What it is called on screens: `3f1c2a9` or `working tree`.
    pub(crate) fn label(&self) -> String {
        if self.commit.id == WORKTREE {
            "working tree".to_owned()
        } else {
            self.commit.id.chars().take(7).collect()
        }
    }
}

/// Paths that can be pasted: they begin where the person stands, as the folder was typed.
fn as_typed(mut snapshot: Snapshot, folder: &Path) -> Snapshot {
    if folder != Path::new(".") && !folder.as_os_str().is_empty() {
        for file in &mut snapshot.files {
            file.path = folder.join(&file.path).display().to_string();
        }
    }
    snapshot
}

fn unreadable(error: SourceError) -> Failure {
    let hint = match error.kind() {
        ErrorKind::EmptyTree => {
            Some("documents are .yaml or .yml files; `drydock demo` makes a fleet to copy")
        }
        ErrorKind::RefNotFound => Some("`git log --oneline` lists revisions"),
        ErrorKind::PathNotFound => Some("the folder isn't in that revision"),
        _ => None,
    };
    let failure = Failure::new(Exit::NoInput, error.to_string());
    hint.map_or_else(|| Failure::new(Exit::NoInput, error.to_string()), |hint| failure.hint(hint))
}
