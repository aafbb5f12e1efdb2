//! How much is read, and what of it.

use std::collections::BTreeSet;

use crate::error::{Result, SourceError};
use crate::marks;

/// Upper bounds of one read, for files of documents. Passing one is an error of its own; nothing is cut off silently.
/// Other people's files have the same bounds once more, and what lies beyond is passed over and named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files that are read.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Entries looked at, wanted or not. A tree that repeats itself can stand for billions of entries in a few
    /// objects; this ends the walk.
    pub entries: usize,
    /// Folders inside folders.
    pub depth: usize,
}

impl Default for Limits {
    /// 10,000 files is the largest fleet designed for; 1 MiB is what an object of the Kubernetes API may have at most;
    /// 256 MiB stays below the memory of the smallest reconciler.
    fn default() -> Self {
        Self { files: 10_000, file_bytes: 1 << 20, total_bytes: 256 << 20, entries: 1_000_000, depth: 64 }
    }
}

/// What of a tree is read, and how much at most.
///
/// Read are `*.yaml` and `*.yml` files whose name and folders do not start with a dot (workflow and tool settings live
/// there), and files whose name is in `names`, which are also looked for where code hosts keep them: the repository's
/// root, `.github`, `.gitlab` and `docs`. A file of documents holds one of `marks`; one that is called otherwise and
/// declares itself to be one isn't read, and is a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// File names read besides YAML.
    pub names: BTreeSet<String>,
    /// Texts of which every file of documents holds one.
    pub marks: BTreeSet<String>,
    /// Upper bounds.
    pub limits: Limits,
}

impl Default for ReadOptions {
    /// YAML and `CODEOWNERS`, with the default limits.
    fn default() -> Self {
        Self {
            names: BTreeSet::from(["CODEOWNERS".to_owned()]),
            marks: BTreeSet::from(["drydock.dev/".to_owned()]),
            limits: Limits::default(),
        }
    }
}

/// Where code hosts look for `CODEOWNERS` and its like.
pub(crate) const HOST_FOLDERS: [&str; 4] = ["", ".github", ".gitlab", "docs"];

impl ReadOptions {
    pub(crate) fn wants(&self, name: &str) -> bool {
        is_yaml(name) || self.names.contains(name)
    }

    pub(crate) fn enters(&self, folder: &str) -> bool {
        !folder.starts_with('.')
    }

    /// Whether a file counts as one of documents.
    pub(crate) fn is_ours(&self, name: &str, bytes: &[u8]) -> bool {
        self.names.contains(name) || marks::holds(bytes, &self.marks)
    }

    /// Whether a file that isn't wanted by its name was meant to be read, as far as its name and bytes tell.
    pub(crate) fn was_meant(&self, name: &str, bytes: &[u8]) -> bool {
        let sealed = || marks::is_wrapped(name) && std::str::from_utf8(bytes).is_err();
        marks::declares(bytes, &self.marks) || sealed()
    }
}

pub(crate) fn is_yaml(name: &str) -> bool {
    !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

/// Counts what a read has used up.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    limits: &'a Limits,
    files: usize,
    bytes: u64,
    entries: usize,
    other_files: usize,
    other_bytes: u64,
}

/// Largest file that is loaded to see whether it is one of documents that has become too large.
const LOOKED_INTO_MAX: u64 = 16 << 20;

impl<'a> Meter<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, files: 0, bytes: 0, entries: 0, other_files: 0, other_bytes: 0 }
    }

    /// Whether a file of this size is loaded at all.
    pub(crate) fn loads(&self, size: u64) -> bool {
        size < self.loads_most()
    }

    /// No more of a file than this is ever loaded.
    pub(crate) fn loads_most(&self) -> u64 {
        self.limits.file_bytes.max(LOOKED_INTO_MAX).saturating_add(1)
    }

    /// Counts a file that isn't one of documents; false when it is beyond the bounds.
    pub(crate) fn other(&mut self, size: u64) -> bool {
        let Limits { files, file_bytes, total_bytes, .. } = *self.limits;
        let bytes = self.other_bytes.saturating_add(size);
        let fits = size <= file_bytes && self.other_files < files && bytes <= total_bytes;
        if fits {
            (self.other_files, self.other_bytes) = (self.other_files + 1, bytes);
        }
        fits
    }

    pub(crate) fn folder(&self, path: &str, depth: usize) -> Result<()> {
        let limit = self.limits.depth;
        if depth > limit {
            return Err(SourceError::TooManyFiles {
                what: "levels of folders",
                limit,
                path: path.to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn entry(&mut self, folder: &str) -> Result<()> {
        self.entries += 1;
        let limit = self.limits.entries;
        if self.entries > limit {
            return Err(SourceError::TooManyFiles { what: "entries", limit, path: folder.to_owned() });
        }
        Ok(())
    }

    /// Counts a file of documents.
    pub(crate) fn file(&mut self, path: &str, size: u64) -> Result<()> {
        if size > self.limits.file_bytes {
            let limit = self.limits.file_bytes;
            return Err(SourceError::FileTooLarge { path: path.to_owned(), size, limit });
        }
        self.files += 1;
        let limit = self.limits.files;
        if self.files > limit {
            return Err(SourceError::TooManyFiles { what: "files", limit, path: path.to_owned() });
        }
        self.bytes = self.bytes.saturating_add(size);
        let limit = self.limits.total_bytes;
        if self.bytes > limit {
            return Err(SourceError::TooLarge { what: "files together", limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_and_named_files_are_wanted() {
        let options = ReadOptions::default();
        for (name, wanted) in [
            ("a.yaml", true),
            ("a.yml", true),
            ("CODEOWNERS", true),
            (".yamllint.yaml", false),
            ("a.yaml.bak", false),
            ("a.json", false),
            ("codeowners", false),
            ("yaml", false),
        ] {
            assert_eq!(options.wants(name), wanted, "{name}");
        }
        assert!(options.enters("pools") && !options.enters(".github"));
    }

    #[test]
    fn each_limit_is_met_exactly() {
        let limits = Limits { files: 2, file_bytes: 10, total_bytes: 15, entries: 3, depth: 1 };
        let mut meter = Meter::new(&limits);
        assert_eq!(meter.folder("a", 1), Ok(()));
        assert!(matches!(meter.folder("a/b", 2), Err(SourceError::TooManyFiles { limit: 1, .. })));
        assert!((0..3).all(|_| meter.entry("").is_ok()));
        assert!(matches!(meter.entry(""), Err(SourceError::TooManyFiles { what: "entries", .. })));
        assert!(matches!(meter.file("big", 11), Err(SourceError::FileTooLarge { size: 11, limit: 10, .. })));
        assert_eq!(meter.file("a", 10), Ok(()));
        assert!(matches!(
            Meter { bytes: 10, ..Meter::new(&limits) }.file("b", 6),
            Err(SourceError::TooLarge { .. })
        ));
        assert_eq!(meter.file("b", 5), Ok(()));
        assert!(matches!(meter.file("c", 0), Err(SourceError::TooManyFiles { what: "files", limit: 2, .. })));
    }
}
