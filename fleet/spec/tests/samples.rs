//! Every file in `tests/samples`: what is valid loads without a finding, and what is invalid is found, at the place
//! its first line names.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeSet, fs, path::PathBuf};

use drydock_spec::{Diagnostic, Loaded, RuleId, SourceFile, load};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples")
}

fn read(path: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), bytes: fs::read(folder().join(path)).unwrap() }
}

fn names(kind: &str) -> Vec<String> {
    let entries = fs::read_dir(folder().join(kind)).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| format!("{kind}/{}", e.unwrap().file_name().to_string_lossy())).collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn print(loaded: &Loaded) -> String {
    loaded.diagnostics.iter().map(|d| format!("{d}\n  | {}\n", d.source_line)).collect()
}

#[test]
fn valid_samples_have_no_finding() {
    let base = load(&[read("base.yaml")]);
    assert!(base.diagnostics.is_empty(), "base.yaml:\n{}", print(&base));
    assert!(base.fleet.is_some());
    for name in names("valid") {
        let loaded = load(&[read(&name)]);
        assert!(loaded.diagnostics.is_empty(), "{name}:\n{}", print(&loaded));
        assert!(loaded.fleet.is_some(), "{name}");
    }
}

/// What is handed on to Kubernetes comes through as it was written.
#[test]
fn templates_keep_numbers_and_texts() {
    let fleet = load(&[read("valid/every_kind.yaml")]).fleet.unwrap();
    let component = &fleet.components["host-tools"];
    let object = component.delivery.object().unwrap();
    let template = serde_json::to_value(object.template.as_ref().unwrap()).unwrap();
    let expected = serde_json::json!({
        "metadata": {"labels": {"app": "host-tools"}},
        "spec": {
            "hostPID": true,
            "activeDeadlineSeconds": 600,
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "containers": [{
                "name": "install",
                "args": ["--version=$(DRYDOCK_VERSION)", "--root=${ROOT}"],
                "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}},
            }],
        },
    });
    assert_eq!(template, expected);
    assert_eq!(object.probe.as_deref().unwrap(), ["host-tools", "--version"]);
}

/// What a sample's first line expects: `# expect: DD017 12:9, DD020 3:1`, with `.` for the repository as a whole,
/// and `alone` at the end where it isn't loaded beside `base.yaml`.
fn expected(file: &SourceFile) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(&file.bytes);
    let rest = text.lines().find_map(|l| l.trim().strip_prefix("# expect: "));
    let rest = rest.unwrap_or_else(|| panic!("{}: no expectation", file.path));
    let (list, alone) = rest.strip_suffix(" alone").map_or((rest, false), |list| (list, true));
    (list.split(", ").map(str::to_owned).collect(), alone)
}

fn found(diagnostic: &Diagnostic) -> String {
    let Diagnostic { rule, file, span, .. } = diagnostic;
    match file.as_str() {
        "." => format!("{rule} ."),
        _ => format!("{rule} {}:{}", span.line, span.column),
    }
}

#[test]
fn invalid_samples_are_found_where_they_say() {
    let mut failures = String::new();
    for name in names("invalid") {
        let file = read(&name);
        let (expected, alone) = expected(&file);
        let files = if alone { vec![file] } else { vec![file, read("base.yaml")] };
        let loaded = load(&files);
        let found: Vec<String> = loaded.diagnostics.iter().map(found).collect();
        if found != expected {
            failures += &format!("{name}: expected {expected:?}, found {found:?}\n{}\n", print(&loaded));
        }
        let bad = loaded.diagnostics.iter().any(Diagnostic::is_error);
        assert_eq!(loaded.fleet.is_none(), bad, "{name}");
        for d in &loaded.diagnostics {
            assert!(d.byte_range().end <= d.source_line.len(), "{name}: {d}");
            assert!(!d.message.contains('\n'), "{name}: {d}");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Rules about sizes have tests of their own: their samples would be megabytes. Links and names are seen by whoever
/// reads the files.
const WITHOUT_SAMPLE: [RuleId; 4] =
    [RuleId::FileTooLarge, RuleId::TooManyFiles, RuleId::TooManyErrors, RuleId::NotRead];

#[test]
fn every_rule_has_a_sample() {
    let mut seen = BTreeSet::new();
    for name in names("invalid") {
        let file = read(&name);
        seen.extend(expected(&file).0.iter().map(|e| e.split(' ').next().unwrap().to_owned()));
    }
    let missing: Vec<_> = RuleId::ALL
        .iter()
        .filter(|r| !WITHOUT_SAMPLE.contains(r) && !seen.contains(&r.to_string()))
        .collect();
    assert!(missing.is_empty(), "rules without a sample: {missing:?}");
}
