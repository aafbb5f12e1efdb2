//! Runs the command as a person would, with an environment of its own.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use drydock_source::{Author, commit_all, init_repository};

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.out, self.err))
    }
}

/// Runs in a folder. No variable of the machine's reaches the command.
pub(crate) fn drydock(folder: &Path, args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_drydock"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("COLUMNS", "100")
        .output()
        .expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, std::fs::read(&path).unwrap()));
        }
    }
}

/// A repository with the demo fleet in its first commit.
pub(crate) fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (source, mut files) = (root().join("examples-repo/demo"), Vec::new());
    collect(&source, &source, &mut files);
    let time = "2026-03-01T12:00:00Z".parse().unwrap();
    init_repository(dir.path(), &files, &author(), "Start", time).unwrap();
    dir
}

fn author() -> Author {
    Author { name: "Ada".to_owned(), email: "ada@example.com".to_owned() }
}

/// Replaces a text in a file of the work tree.
pub(crate) fn edit(folder: &Path, path: &str, old: &str, new: &str) {
    let place = folder.join(path);
    let text = std::fs::read_to_string(&place).unwrap();
    assert!(text.contains(old), "{path} doesn't hold {old:?}");
    std::fs::write(&place, text.replace(old, new)).unwrap();
}

/// Commits a file as it lies there.
pub(crate) fn commit(folder: &Path, path: &str, message: &str) -> String {
    let bytes = std::fs::read(folder.join(path)).unwrap();
    let time = "2026-03-01T13:00:00Z".parse().unwrap();
    commit_all(folder, &[(path.to_owned(), Some(bytes))], &author(), message, time).unwrap()
}

/// Text without what differs from run to run: lengths in milliseconds and short commit ids.
pub(crate) fn stable(text: &str, ids: &[&str]) -> String {
    let mut text = text.to_owned();
    for id in ids {
        text = text.replace(&id[..7], "1234567").replace(id, "ID");
    }
    let lines = text.lines().map(|line| match (line.rfind('('), line.ends_with(" ms)")) {
        (Some(at), true) => format!("{}(N ms)", &line[..at]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
