//! Reading a commit's tree from the object database.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, Tree, TreeEntry};

use crate::error::{Result, SourceError};
use crate::limits::{HOST_FOLDERS, Meter, ReadOptions, is_yaml};
use crate::marks::is_near;
use crate::snapshot::{CommitInfo, FileBlob, Finding, FindingKind, Snapshot, is_lfs_pointer};

/// The file mode of a symbolic link in a tree object.
const SYMLINK: i32 = 0o120_000;

/// Reads the wanted files of `commit` under `path` (already checked by `repository_path`).
pub(crate) fn read_tree(
    repo: &Repository,
    commit: Oid,
    path: &str,
    options: &ReadOptions,
) -> Result<Snapshot> {
    let gone = |_| SourceError::CommitGone { commit: commit.to_string() };
    let commit = repo.find_commit(commit).map_err(gone)?;
    let root = commit.tree().map_err(SourceError::git("reading the commit's tree"))?;
    let folder = folder_at(repo, &root, path).ok_or_else(|| SourceError::PathNotFound {
        path: path.to_owned(),
        commit: commit.id().to_string(),
    })?;
    let tree = folder.id().to_string();

    let mut reader = Reader {
        repo,
        root: &root,
        options,
        meter: Meter::new(&options.limits),
        files: BTreeMap::new(),
        findings: vec![],
    };
    reader.walk(folder, path)?;
    reader.host_files()?;

    let Reader { files, mut findings, .. } = reader;
    findings.sort();
    findings.dedup();
    let info = CommitInfo::of(&commit);
    if !files.keys().any(|path| is_yaml(name_of(path))) {
        return Err(SourceError::EmptyTree { path: path.to_owned(), commit: info.id, findings });
    }
    let files = files.into_iter().map(|(path, bytes)| FileBlob { path, bytes }).collect();
    Ok(Snapshot { commit: info, tree: Some(tree), path: path.to_owned(), files, findings })
}

fn folder_at<'r>(repo: &'r Repository, root: &Tree<'r>, path: &str) -> Option<Tree<'r>> {
    if path.is_empty() {
        return repo.find_tree(root.id()).ok();
    }
    let entry = root.get_path(Path::new(path)).ok()?;
    repo.find_tree(entry.id()).ok()
}

struct Reader<'a> {
    repo: &'a Repository,
    root: &'a Tree<'a>,
    options: &'a ReadOptions,
    meter: Meter<'a>,
    files: BTreeMap<String, Vec<u8>>,
    findings: Vec<Finding>,
}

impl<'a> Reader<'a> {
    fn walk(&mut self, folder: Tree<'a>, path: &str) -> Result<()> {
        // A stack of our own: nesting in a hostile tree must not become nesting of calls.
        let mut stack = vec![(folder, path.to_owned(), 0)];
        while let Some((tree, path, depth)) = stack.pop() {
            self.meter.folder(&path, depth)?;
            for entry in tree.iter() {
                self.meter.entry(&path)?;
                if let Some((id, folder)) = self.entry(&entry, &path)? {
                    let tree = self.repo.find_tree(id).map_err(SourceError::git("reading a folder"))?;
                    stack.push((tree, folder, depth + 1));
                }
            }
        }
        Ok(())
    }

    /// Takes one entry in; a folder to enter comes back.
    fn entry(&mut self, entry: &TreeEntry<'_>, folder: &str) -> Result<Option<(Oid, String)>> {
        let Ok(name) = entry.name() else {
            let lossy = String::from_utf8_lossy(entry.name_bytes()).into_owned();
            if self.options.wants(&lossy) || entry.kind() == Some(ObjectType::Tree) {
                self.find(join(folder, &lossy), FindingKind::NameNotText);
            }
            return Ok(None);
        };
        let path = join(folder, name);
        match entry.kind() {
            Some(ObjectType::Tree) if self.options.wants(name) => self.find(path, FindingKind::NotAFile),
            Some(ObjectType::Tree) if self.options.enters(name) => return Ok(Some((entry.id(), path))),
            Some(ObjectType::Commit) => self.find(path, FindingKind::Submodule),
            Some(ObjectType::Blob) if entry.filemode() == SYMLINK => {
                if self.options.wants(name) || self.points_to_folder(entry.id(), folder) {
                    self.find(path, FindingKind::Symlink);
                }
            }
            Some(ObjectType::Blob) if self.options.wants(name) => self.blob(entry.id(), path)?,
            Some(ObjectType::Blob) if is_near(name) => self.other_name(entry.id(), name, path),
            Some(ObjectType::Tree | ObjectType::Blob | ObjectType::Tag | ObjectType::Any) | None => {}
        }
        Ok(None)
    }

    fn blob(&mut self, id: Oid, path: String) -> Result<()> {
        let odb = self.repo.odb().map_err(SourceError::git("opening the object database"))?;
        let (size, _) = odb.read_header(id).map_err(SourceError::git("reading a file's size"))?;
        let size = size as u64;
        if !self.meter.loads(size) {
            self.find(path, FindingKind::TooLarge);
            return Ok(());
        }
        let blob = self.repo.find_blob(id).map_err(SourceError::git("reading a file"))?;
        if is_lfs_pointer(blob.content()) {
            self.find(path, FindingKind::LfsPointer);
        } else if self.options.is_ours(name_of(&path), blob.content()) {
            self.meter.file(&path, size)?;
            self.files.insert(path, blob.content().to_vec());
        } else if self.meter.other(size) {
            self.files.insert(path, blob.content().to_vec());
        } else {
            self.find(path, FindingKind::TooLarge);
        }
        Ok(())
    }

    /// A file that isn't read, and perhaps was meant to be. One that can't be looked at isn't worth an error.
    fn other_name(&mut self, id: Oid, name: &str, path: String) {
        let limit = self.options.limits.file_bytes;
        let size =
            self.repo.odb().and_then(|odb| odb.read_header(id)).map_or(u64::MAX, |(size, _)| size as u64);
        if size <= limit
            && self.repo.find_blob(id).is_ok_and(|blob| self.options.was_meant(name, blob.content()))
        {
            self.find(path, FindingKind::OtherName);
        }
    }

    /// Named files (CODEOWNERS) lie outside the fleet's folder or in a hidden one.
    fn host_files(&mut self) -> Result<()> {
        for folder in HOST_FOLDERS {
            for name in &self.options.names {
                let path = join(folder, name);
                let Ok(entry) = self.root.get_path(Path::new(&path)) else { continue };
                if !self.files.contains_key(&path) {
                    self.meter.entry(folder)?;
                    self.entry(&entry, folder)?;
                }
            }
        }
        Ok(())
    }

    /// A link to a folder hides every document in it; a link to some other file hides none.
    fn points_to_folder(&self, id: Oid, folder: &str) -> bool {
        let Ok(blob) = self.repo.find_blob(id) else { return false };
        let Ok(target) = std::str::from_utf8(blob.content()) else { return false };
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        return false;
                    }
                }
                part => parts.push(part),
            }
        }
        !target.starts_with('/')
            && self
                .root
                .get_path(Path::new(&parts.join("/")))
                .is_ok_and(|e| e.kind() == Some(ObjectType::Tree))
    }

    fn find(&mut self, path: String, kind: FindingKind) {
        self.findings.push(Finding { path, kind });
    }
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
