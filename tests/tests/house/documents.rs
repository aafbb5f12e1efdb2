//! What people read: links that lead somewhere, commands that are run.

use crate::{assert_clean, tree};

/// Targets of the links of a text, `[…](target)`, outside of code.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let (mut found, mut fenced) = (Vec::new(), false);
    for (i, line) in markdown.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        // Every second part lies between backticks.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push((i + 1, rest[..end].to_owned()));
            }
        }
    }
    found
}

/// The heading's name in an address: small letters, dashes for spaces, other signs left out.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let root = tree::root();
    let mut findings = Vec::new();
    for file in tree::files(|path| path.ends_with(".md")) {
        let folder = root.join(&file.path).parent().unwrap().to_owned();
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let there = if path.is_empty() { root.join(&file.path) } else { folder.join(path) };
            if !there.exists() {
                findings.push(format!("{}:{line}: {target} doesn't exist", file.path));
            } else if !fragment.is_empty() && there.extension().is_some_and(|e| e == "md") {
                let text = std::fs::read_to_string(&there).unwrap();
                let headings = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#'));
                if !headings.map(anchor).any(|a| a == fragment) {
                    findings.push(format!("{}:{line}: {target} has no such heading", file.path));
                }
            }
        }
    }
    assert_clean("Every link to a file leads to it.", &findings);
}

#[test]
fn links_are_read_as_people_see_them() {
    let text = "see [a](A.md#b) and `[no](x)`\n```\n[no](y)\n```\n[c](../c/)";
    assert_eq!(links(text), [(1, "A.md#b".to_owned()), (5, "../c/".to_owned())]);
    assert_eq!(anchor(" What isn't done: yet "), "what-isnt-done-yet");
}

/// Paths of this tree that a text names in backticks: `fleet/plan/src/reason.rs`, `schemas/`.
fn paths(markdown: &str) -> Vec<(usize, String)> {
    const ROOMS: [&str; 7] =
        ["fleet/", "reconciler/", "tests/", "schemas/", "examples-repo/", ".ci/", ".github/"];
    let mut found = Vec::new();
    for (i, line) in markdown.lines().enumerate() {
        let code = line.split('`').skip(1).step_by(2);
        let named = code.filter(|c| ROOMS.iter().any(|room| c.starts_with(room)));
        // A command or a pattern isn't a path.
        found.extend(named.filter(|c| !c.contains([' ', '*', '…', '<'])).map(|c| (i + 1, c.to_owned())));
    }
    found
}

#[test]
fn paths_in_prose_exist() {
    let root = tree::root();
    let mut findings = Vec::new();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "tests/benches/README.md"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap_or_default();
        let missing = paths(&text).into_iter().filter(|(_, path)| !root.join(path).exists());
        findings.extend(missing.map(|(line, path)| format!("{name}:{line}: {path} doesn't exist")));
    }
    assert_clean("What ARCHITECTURE.md and its neighbours point at is there.", &findings);
}

#[test]
fn paths_are_read_from_backticks() {
    let text = "`fleet/plan` and `plan()`, `tests/*.rs`, fleet/x\n| `schemas/` | `.ci/run STEP` |";
    assert_eq!(paths(text), [(1, "fleet/plan".to_owned()), (2, "schemas/".to_owned())]);
}

/// Commands of the blocks marked `sh`. Blocks marked `console` show a session and aren't promises of this kind.
fn commands(markdown: &str) -> Vec<(usize, String)> {
    let (mut found, mut block) = (Vec::new(), None);
    for (i, line) in markdown.lines().enumerate() {
        match (block, line.trim().strip_prefix("```")) {
            (None, Some(language)) => block = Some(language == "sh"),
            (Some(_), Some(_)) => block = None,
            (Some(true), None) => {
                let command = line.split(" #").next().unwrap_or_default().trim();
                if !command.is_empty() && !command.starts_with('#') {
                    found.push((i + 1, command.to_owned()));
                }
            }
            (Some(false) | None, None) => {}
        }
    }
    found
}

/// A command in README.md that nobody runs is wrong within a month.
#[test]
fn commands_of_the_readme_are_run_in_ci() {
    let root = tree::root();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let recipe = std::fs::read_to_string(root.join(".ci/run")).unwrap();
    let run: Vec<&str> = recipe.lines().map(str::trim).collect();
    let commands = commands(&readme);
    assert!(commands.iter().any(|(_, c)| c == "cargo test --workspace"), "README.md names the test command");
    let findings: Vec<String> = commands
        .iter()
        .filter(|(_, command)| !run.iter().any(|line| line.contains(command.as_str())))
        .map(|(line, command)| format!("README.md:{line}: `{command}` isn't run by .ci/run"))
        .collect();
    assert_clean("CI runs what README.md tells people to run.", &findings);
}

#[test]
fn commands_are_read_from_marked_blocks_only() {
    let text = "```sh\ncargo test # all\n\n# a note\n```\n```console\n$ no\n```\n```sh\ncargo run\n```";
    assert_eq!(commands(text), [(2, "cargo test".to_owned()), (10, "cargo run".to_owned())]);
}

/// What is built from a registry is cargo's business; a text that names a host of one ages badly and is copied.
#[test]
fn no_registry_is_named() {
    let hosts: Vec<String> =
        [["crates", "io"], ["npmjs", "org"], ["npmjs", "com"], ["pypi", "org"], ["rubygems", "org"]]
            .iter()
            .map(|parts| parts.join("."))
            .collect();
    let mut findings = Vec::new();
    // Lock files are written by the tools.
    let files = tree::files(|path| !path.ends_with(".lock") && !path.ends_with("package-lock.json"));
    for file in files {
        for (i, line) in file.text.lines().enumerate() {
            let named = hosts.iter().filter(|host| line.contains(host.as_str()));
            findings.extend(named.map(|host| format!("{}:{}: {host}", file.path, i + 1)));
        }
    }
    assert_clean("No package registry is named.", &findings);
}
