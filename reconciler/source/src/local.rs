//! Reading any local repository at any revision, and writing small ones. The user's Git configuration is never asked for
//! an identity: who commits, and when, is an argument.

use std::fs;
use std::path::Path;

use git2::{
    ErrorCode, IndexEntry, IndexTime, ObjectType, Oid, Repository, RepositoryInitOptions, Signature, Time,
};
use jiff::Timestamp;

use crate::error::{Result, SourceError};
use crate::limits::ReadOptions;
use crate::snapshot::Snapshot;
use crate::spec::repository_path;
use crate::tree::{self, join};

/// The mode of a plain file in Git's index.
const PLAIN_FILE: u32 = 0o100_644;

/// Who writes a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name.
    pub name: String,
    /// E-mail address.
    pub email: String,
}

/// Reads the repository that `repo_path` is in, at `rev_spec` (`HEAD`, `main`, `v1`, an id or its beginning, `HEAD~1`),
/// under `path`. When `repo_path` is a folder inside the work tree, `path` is relative to that folder; the paths in the
/// snapshot are always relative to the repository's root.
///
/// # Errors
/// [`SourceError::Unreachable`] when there is no repository, [`SourceError::EmptyRepository`],
/// [`SourceError::RefNotFound`], and those of reading a tree.
pub fn read_at(repo_path: &Path, rev_spec: &str, path: &str, options: &ReadOptions) -> Result<Snapshot> {
    let repo = discover(repo_path)?;
    let commit = resolve(&repo, repo_path, rev_spec)?;
    let inside = match (repo.workdir().map(Path::canonicalize), repo_path.canonicalize()) {
        (Some(Ok(workdir)), Ok(here)) => {
            here.strip_prefix(&workdir).ok().and_then(Path::to_str).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    };
    tree::read_tree(&repo, commit, &repository_path(&join(&inside, path))?, options)
}

/// The nearest common ancestor of two revisions, by its full id: what a pull request's change is measured from.
///
/// # Errors
/// As for [`read_at`]; [`SourceError::RefNotFound`] when the histories share nothing.
pub fn merge_base(repo_path: &Path, one: &str, other: &str) -> Result<String> {
    let repo = discover(repo_path)?;
    let (one_id, other_id) = (resolve(&repo, repo_path, one)?, resolve(&repo, repo_path, other)?);
    match repo.merge_base(one_id, other_id) {
        Ok(base) => Ok(base.to_string()),
        Err(error) if error.code() == ErrorCode::NotFound => {
            Err(not_found(repo_path, format!("common ancestor of {one} and {other}")))
        }
        Err(error) => Err(SourceError::git("finding the common ancestor")(error)),
    }
}

fn discover(path: &Path) -> Result<Repository> {
    Repository::discover(path).map_err(|error| match error.code() {
        ErrorCode::NotFound => SourceError::Unreachable {
            url: path.display().to_string(),
            text: "there is no Git repository here or above".to_owned(),
        },
        _ => SourceError::git("opening the repository")(error),
    })
}

fn not_found(path: &Path, reference: String) -> SourceError {
    SourceError::RefNotFound { repository: path.display().to_string(), reference }
}

fn resolve(repo: &Repository, path: &Path, rev_spec: &str) -> Result<Oid> {
    let named = |what: &str| not_found(path, format!("revision {rev_spec:?}{what}"));
    let object = repo.revparse_single(rev_spec).map_err(|error| match error.code() {
        ErrorCode::UnbornBranch => SourceError::EmptyRepository { repository: path.display().to_string() },
        ErrorCode::NotFound if repo.is_empty().unwrap_or(false) => {
            SourceError::EmptyRepository { repository: path.display().to_string() }
        }
        ErrorCode::NotFound => named(""),
        ErrorCode::Ambiguous => named(" that is only one object"),
        _ => named(" that Git understands"),
    })?;
    object.peel(ObjectType::Commit).map(|commit| commit.id()).map_err(|_| named(" that is a commit"))
}

/// Makes a repository in `dir` (created when missing) with `files` in its first commit on branch `main`; the id comes back.
///
/// # Errors
/// [`SourceError::InvalidSource`] when `dir` is a repository already or a path leads out of it, else
/// [`SourceError::Git`] and [`SourceError::Io`].
pub fn init_repository(
    dir: &Path,
    files: &[(String, Vec<u8>)],
    author: &Author,
    message: &str,
    time: Timestamp,
) -> Result<String> {
    let mut options = RepositoryInitOptions::new();
    // No template: a user's hooks and excludes have no say in what is written here.
    options.no_reinit(true).mkpath(true).external_template(false).initial_head("main");
    Repository::init_opts(dir, &options).map_err(|error| match error.code() {
        ErrorCode::Exists => SourceError::InvalidSource(format!("{} is a repository already", dir.display())),
        _ => SourceError::git("creating the repository")(error),
    })?;
    let changes: Vec<_> = files.iter().map(|(path, bytes)| (path.clone(), Some(bytes.clone()))).collect();
    commit_all(dir, &changes, author, message, time)
}

/// Writes (`Some`) and removes (`None`) files in the work tree of the repository in `dir`, stages exactly these and
/// commits them on the current branch; the new commit's full id comes back. Bytes are committed as given, without filters.
///
/// # Errors
/// [`SourceError::InvalidSource`] when a path leads out of the work tree, else [`SourceError::Git`] and
/// [`SourceError::Io`].
pub fn commit_all(
    dir: &Path,
    changes: &[(String, Option<Vec<u8>>)],
    author: &Author,
    message: &str,
    time: Timestamp,
) -> Result<String> {
    let repo = Repository::open(dir).map_err(SourceError::git("opening the repository"))?;
    let workdir = repo
        .workdir()
        .ok_or_else(|| SourceError::InvalidSource(format!("{} has no work tree", dir.display())))?
        .to_path_buf();
    let mut index = repo.index().map_err(SourceError::git("opening the index"))?;
    for (path, content) in changes {
        let path = repository_path(path)?;
        no_link_on_the_way(&workdir, &path)?;
        let place = workdir.join(&path);
        match content {
            Some(bytes) => {
                if let Some(folder) = place.parent() {
                    fs::create_dir_all(folder).map_err(SourceError::io("creating", folder))?;
                }
                fs::write(&place, bytes).map_err(SourceError::io("writing", &place))?;
                index
                    .add_frombuffer(&plain_file(&path), bytes)
                    .map_err(SourceError::git("staging a file"))?;
            }
            None => {
                if let Err(error) = fs::remove_file(&place)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(SourceError::io("removing", &place)(error));
                }
                index.remove_path(Path::new(&path)).map_err(SourceError::git("staging a removal"))?;
            }
        }
    }
    index.write().map_err(SourceError::git("writing the index"))?;
    let tree = index.write_tree().map_err(SourceError::git("writing the tree"))?;
    let tree = repo.find_tree(tree).map_err(SourceError::git("reading the tree"))?;
    let who = Signature::new(&author.name, &author.email, &Time::new(time.as_second(), 0))
        .map_err(|error| SourceError::InvalidSource(format!("not an author: {}", error.message())))?;
    let parent = match repo.head() {
        Ok(head) => Some(head.peel_to_commit().map_err(SourceError::git("reading HEAD"))?),
        Err(error) if error.code() == ErrorCode::UnbornBranch => None,
        Err(error) => return Err(SourceError::git("reading HEAD")(error)),
    };
    let parents: Vec<_> = parent.iter().collect();
    let id = repo
        .commit(Some("HEAD"), &who, &who, message, &tree, &parents)
        .map_err(SourceError::git("committing"))?;
    Ok(id.to_string())
}

/// A link on the way would take the write out of the repository.
fn no_link_on_the_way(workdir: &Path, path: &str) -> Result<()> {
    let mut place = workdir.to_path_buf();
    for part in path.split('/') {
        place.push(part);
        if place.is_symlink() {
            return Err(SourceError::InvalidSource(format!("{} is a symbolic link", place.display())));
        }
    }
    Ok(())
}

fn plain_file(path: &str) -> IndexEntry {
    // Zero times make Git compare the content, which is right whatever the clock says.
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        mode: PLAIN_FILE,
        uid: 0,
        gid: 0,
        file_size: 0,
        id: Oid::ZERO_SHA1,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    }
}
