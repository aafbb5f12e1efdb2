//! What is built in: crates that must not be, licences that may be, one place they come from. The same rules stand in
//! `deny.toml` for those who have cargo-deny; here they need no tool.

use crate::{arrows::resolved, assert_clean, tree};

/// Licences that what is built in may be used under. Exactly those that are needed today: a new one is a decision.
const LICENCES: &[&str] =
    &["Apache-2.0", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"];

/// Crates that must never be in the tree.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "two TLS providers in one process: rustls refuses to choose between them and panics"),
    ("aws-lc-sys", "the same, and it needs a compiler that a bare machine lacks"),
    ("native-tls", "TLS comes vendored with Git; a second stack means a second set of trusted roots"),
    ("serde_yml", "unmaintained; fleet/spec::yaml names the maintained one"),
    ("serde_yaml", "unmaintained; the name means yaml_serde in the root manifest"),
    ("chrono", "jiff is the one notion of time here"),
];

/// An SPDX expression, with the old `/` for OR. `WITH` adds permissions, so the licence before it decides.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = any(&words, &mut at);
    holds && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> bool {
    let mut holds = all(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all(words, at);
    }
    holds
}

fn all(words: &[&str], at: &mut usize) -> bool {
    let mut holds = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at);
    }
    holds
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let holds = any(words, at);
        *at += 1;
        return holds;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    LICENCES.contains(&word)
}

#[test]
fn licences_are_allowed() {
    let metadata = resolved();
    assert!(metadata.packages.len() > 100);
    let findings: Vec<String> = metadata
        .packages
        .iter()
        .filter(|p| !p.license.as_deref().is_some_and(allowed))
        .map(|p| format!("{} {}: {}", p.name, p.version, p.license.as_deref().unwrap_or("no licence")))
        .collect();
    assert_clean("Every crate in the tree may be used under a licence of the list.", &findings);
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    for good in [
        "MIT",
        "MIT OR LGPL-3.0",
        "GPL-2.0/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        "MIT AND BSD-3-Clause",
    ] {
        assert!(allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR LGPL-3.0) AND MIT", "MIT Apache-2.0"] {
        assert!(!allowed(bad), "{bad}");
    }
}

/// Names and sources of the lock file: what any platform would get.
fn locked(lock: &str) -> Vec<(String, Option<String>)> {
    let value = |line: &str, key: &str| {
        line.strip_prefix(key)
            .and_then(|rest| rest.strip_prefix(" = "))
            .map(|v| v.trim_matches('"').to_owned())
    };
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for line in lock.lines() {
        if let Some(name) = value(line, "name") {
            found.push((name, None));
        } else if let (Some(source), Some(last)) = (value(line, "source"), found.last_mut()) {
            last.1 = Some(source);
        }
    }
    found
}

#[test]
fn the_lock_file_holds_nothing_banned() {
    let lock = std::fs::read_to_string(tree::root().join("Cargo.lock")).unwrap();
    let crates = locked(&lock);
    assert!(crates.len() > 100);
    let mut findings = Vec::new();
    for (name, source) in &crates {
        let banned = BANNED.iter().filter(|(banned, _)| name == banned);
        findings.extend(banned.map(|(_, why)| format!("{name}: {why}")));
        match source {
            None if !name.starts_with("drydock") => {
                findings.push(format!("{name}: from a path outside the workspace"))
            }
            Some(source) if !source.starts_with("registry+") => {
                findings.push(format!("{name}: from {source}"))
            }
            None | Some(_) => {}
        }
    }
    // Git speaks TLS through OpenSSL, and that must be the vendored one: a bare machine has no headers.
    if crates.iter().any(|(name, _)| name == "openssl-sys")
        && !crates.iter().any(|(name, _)| name == "openssl-src")
    {
        findings.push("openssl-sys: not vendored, so it would need headers of the machine".to_owned());
    }
    assert_clean("The lock file holds nothing banned, and nothing from elsewhere.", &findings);
}

#[test]
fn a_lock_file_is_read() {
    let lock =
        "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"git+x\"\n\n[[package]]\nname = \"b\"\n";
    assert_eq!(locked(lock), [("a".to_owned(), Some("git+x".to_owned())), ("b".to_owned(), None)]);
}
