//! The folder of a demo: the fleet's repository, drydock's own files, and patches to try.

use std::path::{Path, PathBuf};

use anyhow::Context;
use similar::TextDiff;

use super::repository;
use super::versions::{BROKEN, FIXED, GOOD, START, driver, replaced};
use crate::examples::Example;
use crate::exit::{Failure, Result};

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder at `path`, with a repository in it; made when there is none. True when it was made now.
    pub(crate) fn prepare(path: &Path, example: Example) -> Result<(Self, bool)> {
        let folder = Self(path.to_owned());
        if folder.fleet().join(".git").exists() {
            return Ok((folder, false));
        }
        let foreign = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if foreign {
            let message = format!("{} isn't empty and holds no demo", path.display());
            return Err(Failure::usage(message).hint("choose another folder with --dir"));
        }
        std::fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        let mut files = example.files();
        files.extend(Example::beside());
        let message = match example {
            Example::Demo => format!("Driver {START} for staging and research"),
            Example::Model => format!("Driver {START} everywhere"),
        };
        repository::init(&folder.fleet(), &files, &message)?;
        Ok((folder, true))
    }
    /// drydock's own directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
    /// The repository.
    pub(crate) fn fleet(&self) -> PathBuf {
        self.0.join("fleet")
    }
    /// Where messages about drydock itself go, so that they don't tear the screen.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("drydock.log")
    }

    /// Writes patches that lead from the newest commit to each version of the story.
    pub(crate) fn write_patches(&self) -> Result<()> {
        let head = repository::head(&self.fleet())?;
        let Some(now) = driver(&head.fleet) else { return Ok(()) };
        for (name, version) in [("good-driver", GOOD), ("broken-driver", BROKEN), ("fixed-driver", FIXED)] {
            let path = self.0.join(format!("{name}.patch"));
            let text = patch(&head.files, now.as_str(), version);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

/// A patch that `git apply` takes.
fn patch(files: &[(String, Vec<u8>)], old: &str, new: &str) -> String {
    let mut out = String::new();
    for (path, changed) in replaced(files, old, new) {
        let Some((_, before)) = files.iter().find(|(name, _)| *name == path) else { continue };
        let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(&changed));
        let diff = TextDiff::from_lines(before.as_ref(), after.as_ref());
        out.push_str(&format!("diff --git a/{path} b/{path}\n"));
        out.push_str(&diff.unified_diff().header(&format!("a/{path}"), &format!("b/{path}")).to_string());
    }
    out
}
