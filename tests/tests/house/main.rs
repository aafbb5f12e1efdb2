//! The rules of the house, as tests: where a thing may stand, what it may reach, what must not be in the tree.
//!
//! A rule that is only written down is broken within a month, so every sentence of ARCHITECTURE.md that can be read
//! from the tree is read from it here. Each rule is a function from text to findings and is itself tested on a text
//! that breaks it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod documents;
mod purity;
mod rust_text;
mod schemas;
mod sources;
mod supply;
mod tree;

/// Fails with one line for each finding.
fn assert_clean(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}\n", findings.join("\n  "));
}
