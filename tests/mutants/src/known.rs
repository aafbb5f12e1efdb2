//! Survivors that are explained, and results of earlier runs.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::play::Verdict;

/// Lines of the form ``- `NAME`: why it may live``.
pub(crate) fn explained(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("- `"));
    lines
        .filter_map(|line| line.split_once("`: "))
        .map(|(name, why)| (name.to_owned(), why.to_owned()))
        .collect()
}

/// What was found out before of the same tree, a line each, so that a run goes on where another was stopped.
pub(crate) struct Results {
    path: PathBuf,
    pub(crate) verdicts: BTreeMap<String, Verdict>,
    pub(crate) dropped: Vec<String>,
}

impl Results {
    /// # Errors
    /// The file can't be made.
    pub(crate) fn of(path: PathBuf, digest: u64) -> Outcome<Self> {
        let head = format!("tree\t{digest:016x}");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut results = Self { path, verdicts: BTreeMap::new(), dropped: Vec::new() };
        let mut lines = text.lines();
        if lines.next() != Some(head.as_str()) {
            std::fs::write(&results.path, format!("{head}\n"))?;
            return Ok(results);
        }
        for line in lines {
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                ["dropped", name] => results.dropped.push((*name).to_owned()),
                [word, by, name] => {
                    if let Some(verdict) = read(word, by) {
                        results.verdicts.insert((*name).to_owned(), verdict);
                    }
                }
                _ => {}
            }
        }
        Ok(results)
    }

    fn line(&self, line: &str) -> Outcome<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Notes one that doesn't compile.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn drop(&mut self, name: &str) -> Outcome<()> {
        self.line(&format!("dropped\t{name}"))?;
        self.dropped.push(name.to_owned());
        Ok(())
    }

    /// Notes how one ended.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn ended(&mut self, name: &str, verdict: Verdict) -> Outcome<()> {
        let (word, by) = match &verdict {
            Verdict::Killed { by } => ("killed", by.as_str()),
            Verdict::Hung { by } => ("hung", by.as_str()),
            Verdict::Survived => ("survived", ""),
        };
        self.line(&format!("{word}\t{by}\t{name}"))?;
        self.verdicts.insert(name.to_owned(), verdict);
        Ok(())
    }
}

fn read(word: &str, by: &str) -> Option<Verdict> {
    Some(match word {
        "killed" => Verdict::Killed { by: by.to_owned() },
        "hung" => Verdict::Hung { by: by.to_owned() },
        "survived" => Verdict::Survived,
        _ => return None,
    })
}

/// Where results lie: beside the copy, never in the tree.
pub(crate) fn place(target: &Path) -> PathBuf {
    target.join("mutants").join("results.tsv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_read() {
        let text = "# Title\n- `waves.rs f: a < b => (a) <= (b)`: both are the same: there is no half unit\nnot one\n";
        let found = explained(text);
        assert_eq!(found["waves.rs f: a < b => (a) <= (b)"], "both are the same: there is no half unit");
        assert_eq!(found.len(), 1);
    }
}
