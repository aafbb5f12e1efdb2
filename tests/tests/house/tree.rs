//! The files of the project, without what is built or made while running.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that aren't part of the project: version control, what is built, what the demo writes.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "drydock-demo", "mutants.out"];

/// A file, by its path relative to the root with `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests stand one folder below the root")
        .to_owned()
}

/// Every text file for which `wanted` says so by its path, in the order of paths.
pub(crate) fn files(wanted: impl Fn(&str) -> bool) -> Vec<File> {
    let (root, mut found, mut open) = (root(), Vec::new(), vec![root()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                open.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                // A file that vanished since it was listed belongs to another test; one that isn't text has no words.
                if wanted(&path)
                    && let Ok(text) = fs::read_to_string(entry.path())
                {
                    found.push(File { path, text });
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "the walk found nothing: the rule would hold for an empty tree");
    found
}

/// Rust files of the crates themselves: not integration tests, benches or examples.
pub(crate) fn is_source(path: &str) -> bool {
    path.ends_with(".rs") && path.contains("/src/")
}
