//! Scripts: a fleet, what goes wrong, what people do, and what must come of it. Each is a YAML file in `tests/scripts/`
//! with its golden output beside it; `BLESS=1` writes the output anew, `SCRIPT=name` runs one alone.
//!
//! Whatever a script is about, some things must hold in all of them (see `always`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod always;
mod edits;
mod expect;
mod golden;
mod play;
mod script;
mod seeds;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use similar::TextDiff;

/// Lines of a golden output: what nobody reads proves nothing.
const OUTPUT_LINES_MAX: usize = 300;
/// Lines of a script.
const SCRIPT_LINES_MAX: usize = 300;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

#[expect(clippy::disallowed_methods, reason = "a test binary has no other way to be told something")]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Names of all scripts, sorted.
fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: PathBuf| {
        let yaml = path.extension().is_some_and(|ending| ending == "yaml");
        yaml.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    names
}

/// Plays one script and says what is wrong with it.
fn judge(name: &str, bless: bool) -> Vec<String> {
    let text = fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    let mut wrong = Vec::new();
    if text.lines().count() > SCRIPT_LINES_MAX {
        wrong.push(format!("the script has more than {SCRIPT_LINES_MAX} lines"));
    }
    if !text.starts_with("# ") {
        wrong.push("the script doesn't begin with a comment that says what it proves".to_owned());
    }
    let script = match script::Script::read(&text) {
        Ok(script) => script,
        Err(error) => return vec![error],
    };
    let stage = match play::Stage::set(&script, &folder()) {
        Ok(stage) => stage,
        Err(error) => return vec![error],
    };
    let played = stage.play(None);
    let output = golden::text(&played);
    wrong.extend(always::judge(&script, &stage, &played));
    wrong.extend(expect::judge(&script.expect, &stage, &played, &output));
    if golden::text(&stage.play(None)) != output {
        wrong.push("the same seed gave another output the second time".to_owned());
    }
    if script.crash_at_every_write {
        wrong.extend(always::crash_everywhere(&script, &stage, &played));
    }
    if output.lines().count() > OUTPUT_LINES_MAX {
        wrong.push(format!("the output has {} lines, at most {OUTPUT_LINES_MAX}", output.lines().count()));
    }
    wrong.extend(compare(&folder().join(format!("{name}.out")), &output, bless));
    wrong
}

/// Compares an output with the golden one, or makes it the golden one.
fn compare(path: &Path, output: &str, bless: bool) -> Option<String> {
    let golden = fs::read_to_string(path).unwrap_or_default();
    if golden == output {
        return None;
    }
    if bless {
        fs::write(path, output).unwrap();
        return None;
    }
    let diff = TextDiff::from_lines(golden.as_str(), output);
    Some(format!(
        "the output isn't the golden one (BLESS=1 makes it so):\n{}",
        diff.unified_diff().context_radius(2)
    ))
}

#[test]
fn every_script_comes_out_as_written() {
    let one = told("SCRIPT");
    let bless = told("BLESS").is_some();
    let mut names = names();
    names.retain(|name| one.as_ref().is_none_or(|one| one == name));
    assert!(!names.is_empty(), "there is no such script");
    let queue = Mutex::new(names.into_iter());
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(name) = queue.lock().unwrap().next() else { break };
                    let wrong = judge(&name, bless);
                    if !wrong.is_empty() {
                        let list: String = wrong.iter().map(|w| format!("\n  - {w}")).collect();
                        failures.lock().unwrap().push(format!("{name}:{list}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} scripts failed\n\n{}\n", failures.len(), failures.join("\n\n"));
}

/// An output without a script, or a script that the list in the README doesn't name, is something forgotten.
#[test]
fn nothing_lies_about_without_a_script() {
    let names: BTreeSet<String> = names().into_iter().collect();
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|ending| ending == "out") && !names.contains(&stem) {
            wrong.push(format!("{stem}.out has no script"));
        }
    }
    wrong.extend(
        names
            .iter()
            .filter(|n| !readme.contains(&format!("`{n}`")))
            .map(|n| format!("README.md doesn't name `{n}`")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
