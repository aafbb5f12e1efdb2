//! Reading files as they lie on disk, uncommitted: for writing fleet documents with the dashboard beside the editor.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use git2::Repository;
use jiff::Timestamp;

use crate::error::{Result, SourceError};
use crate::limits::{HOST_FOLDERS, Meter, ReadOptions, is_yaml};
use crate::look::{Ask, Found, Look};
use crate::marks::is_near;
use crate::snapshot::{CommitInfo, FileBlob, Finding, FindingKind, Snapshot, WORKTREE, is_lfs_pointer};
use crate::spec::repository_path;
use crate::tree::{join, name_of};

/// Reads the wanted files under `path` of the folder `root`, by the same rules as a commit; what Git ignores is left out
/// when `root` is in a repository.
///
/// A file that changes or vanishes while reading is taken as it is found; its event brings the next look.
///
/// # Errors
/// [`SourceError::Unreachable`] when `root` is no folder, [`SourceError::PathNotFound`], [`SourceError::EmptyTree`],
/// the limits' errors, [`SourceError::Io`].
pub fn read_worktree(root: &Path, path: &str, options: &ReadOptions, now: Timestamp) -> Result<Snapshot> {
    let path = repository_path(path)?;
    if !root.is_dir() {
        let text = "there is no such folder".to_owned();
        return Err(SourceError::Unreachable { url: root.display().to_string(), text });
    }
    if !root.join(&path).is_dir() {
        return Err(SourceError::PathNotFound { path, commit: WORKTREE.to_owned() });
    }
    let repo = Repository::discover(root).ok();
    let mut reader = Reader {
        root,
        repo,
        options,
        meter: Meter::new(&options.limits),
        files: BTreeMap::new(),
        findings: Vec::new(),
    };
    reader.walk(&path)?;
    for folder in HOST_FOLDERS {
        for name in &options.names {
            if !reader.files.contains_key(&join(folder, name))
                && root.join(folder).join(name).symlink_metadata().is_ok()
            {
                reader.entry(folder, name)?;
            }
        }
    }
    let Reader { files, mut findings, .. } = reader;
    findings.sort();
    findings.dedup();
    if !files.keys().any(|path| is_yaml(name_of(path))) {
        return Err(SourceError::EmptyTree { path, commit: WORKTREE.to_owned(), findings });
    }
    let files = files.into_iter().map(|(path, bytes)| FileBlob { path, bytes }).collect();
    Ok(Snapshot { commit: CommitInfo::worktree(now), tree: None, path, files, findings })
}

struct Reader<'a> {
    root: &'a Path,
    repo: Option<Repository>,
    options: &'a ReadOptions,
    meter: Meter<'a>,
    files: BTreeMap<String, Vec<u8>>,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn walk(&mut self, path: &str) -> Result<()> {
        let mut stack = vec![(path.to_owned(), 0)];
        while let Some((folder, depth)) = stack.pop() {
            self.meter.folder(&folder, depth)?;
            let place = self.root.join(&folder);
            let listing = match fs::read_dir(&place) {
                Ok(listing) => listing,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && depth > 0 => continue,
                Err(error) => return Err(SourceError::io("listing", &place)(error)),
            };
            for entry in listing {
                self.meter.entry(&folder)?;
                let name = entry.map_err(SourceError::io("listing", &place))?.file_name();
                match name.to_str() {
                    Some(name) => {
                        if let Some(inner) = self.entry(&folder, name)? {
                            stack.push((inner, depth + 1));
                        }
                    }
                    None => {
                        let lossy = name.to_string_lossy();
                        if self.options.wants(&lossy) || place.join(&name).is_dir() {
                            self.find(join(&folder, &lossy), FindingKind::NameNotText);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes one entry in; a folder to enter comes back.
    fn entry(&mut self, folder: &str, name: &str) -> Result<Option<String>> {
        let path = join(folder, name);
        let place = self.root.join(&path);
        let Ok(meta) = place.symlink_metadata() else { return Ok(None) };
        let wanted = self.options.wants(name);
        if meta.is_dir() && !wanted && !self.options.enters(name) || self.is_ignored(&path) {
            return Ok(None);
        }
        if meta.is_dir() {
            if wanted {
                self.find(path, FindingKind::NotAFile);
            } else if place.join(".git").exists() {
                self.find(path, FindingKind::Submodule);
            } else {
                return Ok(Some(path));
            }
        } else if meta.is_symlink() {
            if wanted || place.is_dir() {
                self.find(path, FindingKind::Symlink);
            }
        } else if wanted && meta.is_file() {
            self.file(&place, path, meta.len())?;
        } else if wanted {
            self.find(path, FindingKind::NotAFile);
        } else if meta.is_file() && is_near(name) {
            self.other_name(&place, name, path, meta.len());
        }
        Ok(None)
    }

    fn file(&mut self, place: &Path, path: String, size: u64) -> Result<()> {
        if !self.meter.loads(size) {
            self.find(path, FindingKind::TooLarge);
            return Ok(());
        }
        let Some(bytes) = self.read(place)? else { return Ok(()) };
        // It may have grown since its size was asked.
        let size = bytes.len() as u64;
        if is_lfs_pointer(&bytes) {
            self.find(path, FindingKind::LfsPointer);
        } else if self.options.is_ours(name_of(&path), &bytes) {
            self.meter.file(&path, size)?;
            self.files.insert(path, bytes);
        } else if self.meter.other(size) {
            self.files.insert(path, bytes);
        } else {
            self.find(path, FindingKind::TooLarge);
        }
        Ok(())
    }

    /// As much of a file as is ever loaded; `None` when it is gone.
    fn read(&self, place: &Path) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let most = self.meter.loads_most();
        match fs::File::open(place).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SourceError::io("reading", place)(error)),
        }
    }

    /// A file that isn't read, and perhaps was meant to be. One that can't be looked at isn't worth an error.
    fn other_name(&mut self, place: &Path, name: &str, path: String, size: u64) {
        if size <= self.options.limits.file_bytes
            && let Ok(Some(bytes)) = self.read(place)
            && self.options.was_meant(name, &bytes)
        {
            self.find(path, FindingKind::OtherName);
        }
    }

    fn is_ignored(&self, path: &str) -> bool {
        let Some(repo) = &self.repo else { return false };
        let (Some(workdir), Ok(root)) = (repo.workdir(), self.root.canonicalize()) else { return false };
        let workdir = workdir.canonicalize().unwrap_or_else(|_| workdir.to_path_buf());
        let Ok(prefix) = root.strip_prefix(&workdir) else { return false };
        repo.is_path_ignored(prefix.join(path)).unwrap_or(false)
    }

    fn find(&mut self, path: String, kind: FindingKind) {
        self.findings.push(Finding { path, kind });
    }
}

/// Looks at a work tree.
pub struct WorktreeLook {
    root: PathBuf,
    path: String,
    options: ReadOptions,
}

impl WorktreeLook {
    /// A look at the folder `path` under `root`.
    #[must_use]
    pub fn new(root: PathBuf, path: String, options: ReadOptions) -> Self {
        Self { root, path, options }
    }
}

impl Look for WorktreeLook {
    /// Nothing is recorded: the files on disk are the record.
    fn restore(&self, _ask: &Ask) -> Result<Option<Snapshot>> {
        Ok(None)
    }

    fn look(&self, ask: &Ask) -> Result<Found> {
        read_worktree(&self.root, &self.path, &self.options, ask.now).map(Found::New)
    }
}
