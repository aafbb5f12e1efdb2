//! Size and tidiness of every source file.

use crate::{
    assert_clean,
    rust_text::{code, lines_with},
    tree,
};

/// One idea a file. Past this a file holds two, and a reviewer no longer sees it whole.
const SOURCE_LINES_MAX: usize = 500;
/// Tests are tables and may be longer, but not endless.
const FILE_LINES_MAX: usize = 800;

/// What is never left behind. Written in two parts, so that this file doesn't find itself.
fn left_behind() -> [(String, &'static str); 6] {
    let word = |a: &str, b: &str| format!("{a}{b}");
    [
        (word("todo", "!"), "what isn't there is left out, not stubbed"),
        (word("unimplemented", "!"), "what isn't there is left out, not stubbed"),
        (word("dbg", "!"), "a debugging aid"),
        (word("FIX", "ME"), "mend it, or write down elsewhere what is left"),
        (word("TO", "DO"), "mend it, or write down elsewhere what is left"),
        (word("#[ign", "ore"), "a test that doesn't run protects nothing"),
    ]
}

fn judge_words(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (word, why) in left_behind() {
        findings
            .extend(lines_with(text, &word).into_iter().map(|line| format!("{path}:{line}: {word}: {why}")));
    }
    findings
}

#[test]
fn nothing_is_left_behind() {
    let files = tree::files(|path| [".rs", ".ts", ".tsx"].iter().any(|end| path.ends_with(end)));
    let findings: Vec<String> = files.iter().flat_map(|f| judge_words(&f.path, &f.text)).collect();
    assert_clean("No stub, no debugging aid, no test that doesn't run.", &findings);
}

#[test]
fn what_is_left_behind_is_found() {
    for (word, _) in left_behind() {
        assert_eq!(judge_words("x.rs", &format!("fn f() {{}}\n    {word}")).len(), 1, "{word}");
    }
}

#[test]
fn files_are_short() {
    let mut findings = Vec::new();
    for file in tree::files(|path| [".rs", ".ts", ".tsx"].iter().any(|end| path.ends_with(end))) {
        let lines = file.text.lines().count();
        let most = if tree::is_source(&file.path) { SOURCE_LINES_MAX } else { FILE_LINES_MAX };
        if lines > most {
            findings.push(format!("{}: {lines} lines, at most {most}: it holds two ideas", file.path));
        }
    }
    assert_clean("One idea a file.", &findings);
}

/// Sleeping on the wall clock makes a test slow on a good day and wrong on a bad one.
#[test]
fn tests_do_not_sleep() {
    const SLEEP: &str = "thread::sleep";
    let mut findings = Vec::new();
    // In a test file everything is test code; elsewhere clippy.toml bans it, with named exceptions.
    for file in tree::files(|path| path.ends_with(".rs") && !tree::is_source(path)) {
        let lines = lines_with(&code(&file.text), SLEEP);
        findings.extend(lines.into_iter().map(|line| format!("{}:{line}: {SLEEP}", file.path)));
    }
    assert_clean("No test sleeps; it waits for the thing itself, with a deadline.", &findings);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let manifests = tree::files(|path| path.ends_with("/Cargo.toml"));
    let findings: Vec<String> = manifests
        .iter()
        .filter(|f| !f.text.contains("[lints]\nworkspace = true"))
        .map(|f| format!("{}: no [lints] with workspace = true", f.path))
        .collect();
    assert!(manifests.len() >= 9);
    assert_clean("Every crate is held to the same lints.", &findings);
}
