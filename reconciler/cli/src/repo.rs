//! A fleet from a folder or from a revision of the repository it is in.

use std::path::Path;

use drydock_source::{
    CommitInfo, ErrorKind, Finding, ReadOptions, Snapshot, SourceError, WORKTREE, read_at, read_worktree,
};
use drydock_spec::{Diagnostic, Fleet, Loaded, Severity, SourceFile, load};

use drydock_server::desired::{diagnostic, lost_documents};

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
    /// What the paths of this side begin with.
    root: String,
    /// Links, submodules, pointers of Git LFS, and what has another name than documents have.
    pub(crate) findings: Vec<Finding>,
    /// Every file from which nothing was taken, and why.
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
    let Snapshot { commit, files, findings, path, .. } = snapshot.map_err(unreadable)?;
    let root = match place {
        Place::Worktree if is_here(folder) => String::new(),
        Place::Worktree => folder.display().to_string(),
        Place::Revision(_) => path,
    };
    let files: Vec<SourceFile> =
        files.into_iter().map(|file| SourceFile { path: file.path, bytes: file.bytes }).collect();
    let mut loaded = load(&files);
    loaded.diagnostics.extend(findings.iter().map(diagnostic));
    let passed_over = findings.iter().map(ToString::to_string);
    let passed_over = passed_over.chain(loaded.passed_over.iter().map(ToString::to_string)).collect();
    Ok(Read { loaded, files, commit, root, findings, passed_over })
}

impl Read {
    /// The fleet, or a failure that counts its errors.
    pub(crate) fn fleet(&self) -> std::result::Result<&Fleet, Vec<&Diagnostic>> {
        match &self.loaded.fleet {
            Some(fleet) => Ok(fleet),
            None => Err(self.loaded.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect()),
        }
    }
    /// What of `before` can't be read here any more, when a server would hold this for it.
    pub(crate) fn lost(&self, before: &Self) -> Vec<String> {
        let Some(fleet) = &before.loaded.fleet else { return Vec::new() };
        // One side may be read from the repository's root and the other from where the person stands.
        let as_before = |path: &str| {
            let path = path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/');
            if before.root.is_empty() { path.to_owned() } else { format!("{}/{path}", before.root) }
        };
        let files: Vec<SourceFile> = self
            .files
            .iter()
            .map(|file| SourceFile { path: as_before(&file.path), bytes: file.bytes.clone() })
            .collect();
        let findings: Vec<Finding> = self
            .findings
            .iter()
            .map(|finding| Finding { path: as_before(&finding.path), kind: finding.kind })
            .collect();
        lost_documents(fleet, self.loaded.fleet.as_ref(), &files, &findings)
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

fn is_here(folder: &Path) -> bool {
    folder == Path::new(".") || folder.as_os_str().is_empty()
}

/// Paths that can be pasted: they begin where the person stands, as the folder was typed.
fn as_typed(mut snapshot: Snapshot, folder: &Path) -> Snapshot {
    if !is_here(folder) {
        for path in snapshot.files.iter_mut().map(|file| &mut file.path) {
            *path = folder.join(&*path).display().to_string();
        }
        for path in snapshot.findings.iter_mut().map(|finding| &mut finding.path) {
            *path = folder.join(&*path).display().to_string();
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
