//! The copy of the project in which the planner is changed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source::{File, Lines, Mutant};
use crate::write::{SWITCH, Written, written};
use crate::{Outcome, find};

/// What is changed: not its checker, which is an oracle.
const PLANNER: &str = "fleet/planner/src";
const CHECKER: &str = "check";
/// Drops of what doesn't compile; the first takes nearly all.
const ROUNDS_MAX: usize = 40;

/// Every file of the planner with its mutants, numbered from 1.
pub(crate) fn files(root: &Path) -> Outcome<Vec<File>> {
    let mut paths = Vec::new();
    collect(&root.join(PLANNER), "", &mut paths)?;
    paths.sort();
    let (mut files, mut number) = (Vec::new(), 0);
    for path in paths {
        let text = std::fs::read_to_string(root.join(PLANNER).join(&path))?;
        let lines = Lines::of(&text);
        let changes = find::changes(&text).map_err(|e| format!("{path}: {e}"))?;
        let mut names: Vec<String> = Vec::new();
        let mut mutants = Vec::new();
        for change in changes {
            let plain = format!("{path} {}: {}", change.function, change.told);
            let earlier = names.iter().filter(|n| **n == plain).count();
            let name = if earlier == 0 { plain.clone() } else { format!("{plain} #{}", earlier + 1) };
            names.push(plain);
            number += 1;
            let line = lines.line(change.range.start);
            mutants.push(Mutant { number, name, line, change });
        }
        files.push(File { path, text, mutants });
    }
    Ok(files)
}

/// Sources below a folder, without the checker, relative to the first one.
fn collect(folder: &Path, below: &str, found: &mut Vec<String>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !(below.is_empty() && name == CHECKER) {
                collect(&entry.path(), &format!("{below}{name}/"), found)?;
            }
        } else if name.ends_with(".rs") {
            found.push(format!("{below}{name}"));
        }
    }
    Ok(())
}

/// A copy of the project. What is the same stays untouched, so that only what changed is built anew.
pub(crate) struct Copy {
    pub(crate) root: PathBuf,
    /// A number made of every text that a test could depend on.
    pub(crate) digest: u64,
}

impl Copy {
    /// # Errors
    /// Something can't be read or written.
    pub(crate) fn of(root: &Path, to: &Path) -> Outcome<Self> {
        let mut copy = Self { root: to.to_owned(), digest: 0xcbf2_9ce4_8422_2325 };
        let mut there = BTreeSet::new();
        copy.folder(root, root, &mut there)?;
        remove_others(to, to, &there)?;
        Ok(copy)
    }

    fn folder(&mut self, root: &Path, folder: &Path, there: &mut BTreeSet<PathBuf>) -> Outcome<()> {
        const SKIPPED: [&str; 4] = [".git", "target", "node_modules", "drydock-demo"];
        let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            if SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref())
                || path.ends_with("tests/mutants")
            {
                continue;
            }
            if kind.is_dir() {
                self.folder(root, &path, there)?;
            } else if kind.is_file() {
                let relative = path.strip_prefix(root)?.to_owned();
                let bytes = std::fs::read(&path)?;
                if relative.starts_with("fleet")
                    || relative.starts_with("tests")
                    || relative.ends_with("Cargo.lock")
                {
                    for byte in relative.as_os_str().as_encoded_bytes().iter().chain(&bytes) {
                        self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                    }
                }
                // The planner is written anew below.
                if !relative.starts_with(PLANNER) || relative.starts_with(Path::new(PLANNER).join(CHECKER)) {
                    put(&self.root.join(&relative), &bytes)?;
                }
                there.insert(relative);
            }
        }
        Ok(())
    }

    /// Writes the mutants, leaving out those that don't compile; their numbers.
    ///
    /// # Errors
    /// It doesn't compile for a reason that is in no mutant.
    pub(crate) fn compiled(&self, files: &[File], mut dropped: BTreeSet<usize>) -> Outcome<BTreeSet<usize>> {
        for _ in 0..ROUNDS_MAX {
            let mut placed = Vec::new();
            for file in files {
                let (mut text, found) = written(file, |number| !dropped.contains(&number));
                if file.path == "lib.rs" {
                    text.push_str(SWITCH);
                }
                put(&self.root.join(PLANNER).join(&file.path), text.as_bytes())?;
                placed.push((file, text, found));
            }
            let output = Command::new("cargo")
                .args(["check", "--offline", "--quiet", "-p", "drydock-planner", "--message-format", "short"])
                .current_dir(&self.root)
                .output()?;
            if output.status.success() {
                return Ok(dropped);
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let before = dropped.len();
            for line in said.lines().filter(|line| line.contains(": error")) {
                for (file, text, found) in &placed {
                    let prefix = format!("{PLANNER}/{}:", file.path);
                    if let Some(at) = line.split_once(&prefix).and_then(|(_, rest)| place(text, rest)) {
                        dropped.extend(guilty(text, found, at));
                    }
                }
            }
            if dropped.len() == before {
                return Err(format!("the copy doesn't compile, and no mutant is to blame:\n{said}").into());
            }
        }
        Err("mutants that don't compile keep coming".into())
    }
}

/// A place of the form `LINE:COLUMN: …`.
fn place(text: &str, rest: &str) -> Option<usize> {
    let mut numbers = rest.split(':').map(|n| n.parse::<usize>().ok());
    Some(Lines::of(text).byte(text, numbers.next()??, numbers.next()??))
}

/// The mutants that an error at this byte is about: the one whose own text it is in; else those of the smallest place
/// around it; else those of its line.
fn guilty(text: &str, found: &[Written], at: usize) -> Vec<usize> {
    if let Some(own) = found.iter().find(|w| w.own.contains(&at)) {
        return vec![own.number];
    }
    let size = |range: &Range<usize>| range.len();
    if let Some(whole) =
        found.iter().filter(|w| w.whole.contains(&at)).map(|w| &w.whole).min_by_key(|w| size(w))
    {
        return found.iter().filter(|w| w.whole == *whole).map(|w| w.number).collect();
    }
    let begin = text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |n| n + 1);
    let end = text.get(at..).and_then(|t| t.find('\n')).map_or(text.len(), |n| at + n);
    found.iter().filter(|w| w.whole.start < end && begin < w.whole.end).map(|w| w.number).collect()
}

fn put(path: &Path, bytes: &[u8]) -> Outcome<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, bytes)?)
}

fn remove_others(root: &Path, folder: &Path, there: &BTreeSet<PathBuf>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(root, &entry.path(), there)?;
        } else if !there.contains(entry.path().strip_prefix(root)?) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
