//! What the text of the core must not name.

use crate::{
    assert_clean,
    rust_text::{code, lines_with, std_paths},
    tree,
};

/// Modules and types of the standard library that reach out of the process, or know the time.
const STD: &[(&str, &str)] = &[
    ("env", "the environment is read by the command and handed in"),
    ("fs", "files are read by the rim and handed in as bytes"),
    ("net", "the core has no network"),
    ("os", "the core runs on every system alike"),
    ("process", "the core starts and ends nothing"),
    ("thread", "the core runs where it is called"),
    ("io", "bytes come in and values go out"),
    ("time::Instant", "`now` is an argument"),
    ("time::SystemTime", "`now` is an argument"),
    ("collections::HashMap", "hash order differs from run to run; take BTreeMap"),
    ("collections::HashSet", "hash order differs from run to run; take BTreeSet"),
    ("hash::RandomState", "its seed differs from run to run"),
];

/// Words of other crates and of the prelude.
const WORDS: &[(&str, &str)] = &[
    ("Timestamp::now", "`now` is an argument"),
    ("Zoned::now", "`now` is an argument"),
    ("SystemTime", "`now` is an argument"),
    ("Instant::now", "`now` is an argument"),
    ("TimeZone::system", "zones are named in the documents"),
    ("HashMap", "hash order differs from run to run; take BTreeMap"),
    ("HashSet", "hash order differs from run to run; take BTreeSet"),
    ("println!", "the core returns what it has to say"),
    ("eprintln!", "the core returns what it has to say"),
    ("async", "the core waits for nothing"),
    ("static mut", "the core keeps nothing between calls"),
    ("thread_local!", "the core keeps nothing between calls"),
];

fn judge(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut findings = Vec::new();
    for (line, name) in std_paths(&code) {
        let under = |banned: &str| name == banned || name.starts_with(&format!("{banned}::"));
        let banned = STD.iter().filter(|(banned, _)| under(banned));
        findings.extend(banned.map(|(banned, why)| format!("{path}:{line}: std::{banned}: {why}")));
    }
    for (word, why) in WORDS {
        findings
            .extend(lines_with(&code, word).into_iter().map(|line| format!("{path}:{line}: {word}: {why}")));
    }
    findings
}

#[test]
fn the_core_names_nothing_of_the_outer_world() {
    let files = tree::files(|path| path.starts_with("fleet/") && tree::is_source(path));
    // A test module in a file of its own isn't under a `#[cfg(test)]` that this file could show.
    let shipped = files.iter().filter(|f| !f.path.ends_with("/tests.rs") && !f.path.contains("/tests/"));
    let findings: Vec<String> = shipped.flat_map(|f| judge(&f.path, &f.text)).collect();
    assert_clean("The core is pure: same input, same output.", &findings);
}

#[test]
fn what_is_banned_is_found() {
    for bad in [
        "use std::fs;",
        "use std::{collections::BTreeMap, env, fmt};",
        "use std::time::{Duration, SystemTime};",
        "let at = std::time::Instant::now();",
        "let at = Timestamp::now();",
        "fn f(map: &HashMap<u8, u8>) {}",
        "async fn f() {}",
    ] {
        assert!(!judge("x.rs", bad).is_empty(), "{bad}");
    }
    for good in [
        "use std::{collections::BTreeMap, fmt, time::Duration};",
        "// std::fs is read by the rim",
        "fn instant(now: Timestamp) {}",
        "#[cfg(test)]\nmod tests { use std::fs; }",
        "let text = \"std::env\";",
    ] {
        assert_eq!(judge("x.rs", good), Vec::<String>::new(), "{good}");
    }
}
