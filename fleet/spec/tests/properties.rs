//! What holds for every input.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use drydock_spec::{
    Access, Amount, AtClose, BudgetSpec, CalendarSpec, Check, CheckClass, CheckOn, CheckRun, ClusterSpec,
    ComponentVersion, Day, Document, Fleet, MustFit, Percent, Period, Preflight, ReleaseSpec, Scope,
    SecretRef, SourceFile, SuiteSpec, Version, Window, load, yaml,
};
use proptest::prelude::*;

const BASE: &str = include_str!("../../../tests/samples/base.yaml");

fn file(path: &str, bytes: impl Into<Vec<u8>>) -> SourceFile {
    SourceFile { path: path.to_owned(), bytes: bytes.into() }
}

fn sound(files: &[SourceFile]) -> Result<(), TestCaseError> {
    let loaded = load(files);
    if let Some(fleet) = &loaded.fleet {
        reads_back(fleet)?;
    }
    let errors = loaded.diagnostics.iter().any(drydock_spec::Diagnostic::is_error);
    prop_assert_eq!(loaded.fleet.is_none(), errors);
    for d in &loaded.diagnostics {
        let range = d.byte_range();
        prop_assert!(d.source_line.get(range).is_some(), "{}", d);
        prop_assert!(d.span.line >= 1 && d.span.column >= 1 && d.span.end_column >= d.span.column, "{}", d);
    }
    Ok(())
}

/// Every document of a fleet that loads is written and read back as it was.
fn reads_back(fleet: &Fleet) -> Result<(), TestCaseError> {
    let mut texts =
        vec![yaml::to_string(&Document::Fleet(fleet.name.clone(), fleet.spec.spec.clone())).unwrap()];
    macro_rules! write {
        ($($kind:ident $field:ident),*) => {
            $(for (name, document) in &fleet.$field {
                texts.push(yaml::to_string(&Document::$kind(name.clone(), document.spec.clone())).unwrap());
            })*
        };
    }
    write!(
        Cluster clusters, GpuNodePool pools, PartitionLayout layouts, Component components, Release releases,
        RolloutPolicy policies, Budget budgets, Calendar calendars, CheckSuite suites, RolloutControl controls,
        CostBudget costs
    );
    let text = texts.join("---\n");
    let again = load(&[file("again.yaml", text.clone())]);
    let Some(again) = again.fleet else {
        return Err(TestCaseError::fail(format!("{text}\n{:#?}", again.diagnostics)));
    };
    // Only where the documents stand differs.
    prop_assert!(drydock_spec::diff(fleet, &again).is_empty(), "{}", text);
    Ok(())
}

/// Texts that YAML, or some generation of it, takes for something else, beside ordinary ones.
fn text() -> impl Strategy<Value = String> {
    let awkward = [
        "no",
        "On",
        "y",
        "22:00",
        "0755",
        "1_000",
        "0x1F",
        "580.10",
        "1e3",
        ".5",
        "~",
        "null",
        "true",
        "- a",
        "a: b",
        "#c",
        "'",
        "\"",
        "\\",
        "a\nb",
        " lead",
        "trail ",
        "é",
        "😀",
        "*a",
        "&a",
        "!t",
        "%",
        "@",
        "`",
        "[",
        "{",
        "?",
        "|",
        ">",
        "<<",
        "---",
        "...",
        "a #b",
        "a:",
        ":",
        "=",
        "2026-01-01",
    ];
    let plain = "[ -#%-z|~]{1,16}";
    prop_oneof![prop::sample::select(awkward.to_vec()).prop_map(str::to_owned), plain]
}

/// What may be in a release: not blank at its ends.
fn version() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{2}", Just("580.126.20-ubuntu22.04".to_owned())]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,8}[a-z0-9]",
        prop::sample::select(vec!["no", "on", "y", "1", "0755"]).prop_map(str::to_owned)
    ]
}

fn cluster() -> impl Strategy<Value = Document> {
    let access = prop_oneof![
        text().prop_map(Access::KubeconfigContext),
        (text(), text(), text()).prop_map(|(namespace, name, key)| Access::Secret(SecretRef {
            namespace,
            name,
            key
        })),
        Just(Access::Simulated {}),
    ];
    let labels = prop::collection::btree_map("[a-z]{1,5}", text(), 0..4);
    (name(), access, prop::option::of(text()), labels, prop::option::of(version())).prop_map(
        |(name, access, region, labels, version)| {
            let spec = ClusterSpec {
                access,
                environment: None,
                region,
                time_zone: Some("Europe/Berlin".to_owned()),
                labels,
                kubernetes_version: version.as_deref().map(Version::new),
            };
            Document::Cluster(name.parse().unwrap(), spec)
        },
    )
}

fn release() -> impl Strategy<Value = Document> {
    let config = prop::collection::btree_map("[a-z]{1,5}", text(), 0..3);
    (name(), version(), version(), config, any::<bool>(), prop::option::of(text())).prop_map(
        |(name, driver, plugin, config, security, notes)| {
            let one =
                |text: &str, config| ComponentVersion { version: Version::new(text), digest: None, config };
            let components = BTreeMap::from([
                ("gpu-driver".parse().unwrap(), one(&driver, BTreeMap::new())),
                ("device-plugin".parse().unwrap(), one(&plugin, config)),
            ]);
            Document::Release(
                name.parse().unwrap(),
                ReleaseSpec { components, requires: BTreeMap::new(), security, notes },
            )
        },
    )
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(1u32..1000).prop_map(Amount::Count), (5_000u32..10_000).prop_map(Amount::Percent)]
}

fn window() -> impl Strategy<Value = Window> {
    let days = prop::sample::subsequence(vec![Day::Mon, Day::Sat, Day::Sun], 0..3);
    (prop::option::of(text()), days, 0u8..24, 0u8..60, 60u64..10_000).prop_map(
        |(name, days, h, m, length)| Window {
            name,
            days,
            from: format!("{h:02}:{m:02}"),
            length: Period::from_mins(length),
            time_zone: "America/New_York".to_owned(),
            scope: Scope::default(),
        },
    )
}

fn budget() -> impl Strategy<Value = Document> {
    (name(), amount(), prop::collection::vec(window(), 0..3)).prop_map(|(name, most, active)| {
        let spec = BudgetSpec {
            scope: Scope::default(),
            each: None,
            unit: Default::default(),
            min_available: None,
            max_in_flight: Some(most),
            at_least_one: false,
            at_least_domain: None,
            broken_allowance: Default::default(),
            reasons: None,
            active,
        };
        Document::Budget(name.parse().unwrap(), spec)
    })
}

fn calendar() -> impl Strategy<Value = Document> {
    let windows = prop::collection::vec(window(), 0..3);
    let fit = prop::sample::select(vec![MustFit::No, MustFit::P50, MustFit::P90]);
    (name(), windows, fit).prop_map(|(name, windows, must_fit)| {
        let in_flight_at_close = AtClose::ReturnIfNotApplied;
        let spec = CalendarSpec { windows, freezes: Vec::new(), in_flight_at_close, must_fit };
        Document::Calendar(name.parse().unwrap(), spec)
    })
}

fn suite() -> impl Strategy<Value = Document> {
    let regress = prop::option::of((1u32..9_999).prop_map(Percent::Percent));
    (name(), regress, text(), prop::option::of(text()), 1u32..9).prop_map(
        |(name, regress, image, unit, repeats)| {
            let check = Check {
                name: "one".parse().unwrap(),
                class: CheckClass::Training,
                on: CheckOn::Group,
                timeout: Period::from_secs(90),
                regress,
                unit,
                repeats,
                run: CheckRun::Image(image),
                template: None,
                gpus: None,
            };
            Document::CheckSuite(
                name.parse().unwrap(),
                SuiteSpec { preflight: Preflight::default(), checks: vec![check] },
            )
        },
    )
}

/// Templates are refused on purpose.
fn is_template(document: &Document) -> bool {
    let text = format!("{document:?}");
    text.contains('$') || text.contains("{{")
}

fn again(fleet: &Fleet, document: &Document) -> Option<Document> {
    let name = document.name();
    macro_rules! find {
        ($($kind:ident $field:ident),*) => {
            match document {
                $(Document::$kind(..) => {
                    fleet.$field.get_key_value(name).map(|(n, d)| Document::$kind(n.clone(), d.spec.clone()))
                })*
                _ => None,
            }
        };
    }
    find!(Cluster clusters, Release releases, Budget budgets, Calendar calendars, CheckSuite suites)
}

#[test]
fn what_is_valid_reads_back() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fn collect(folder: &std::path::Path, files: &mut Vec<SourceFile>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
            } else {
                files.push(file(path.to_str().unwrap(), std::fs::read(&path).unwrap()));
            }
        }
    }
    for folder in ["examples-repo/demo", "examples-repo/model"] {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        reads_back(&load(&files).fleet.unwrap()).unwrap();
    }
    let mut samples = Vec::new();
    collect(&root.join("tests/samples/valid"), &mut samples);
    collect(&root.join("tests/scripts/fleets"), &mut samples);
    assert!(samples.len() > 5);
    for sample in samples {
        let loaded = load(std::slice::from_ref(&sample));
        reads_back(&loaded.fleet.unwrap_or_else(|| panic!("{}: {:#?}", sample.path, loaded.diagnostics)))
            .unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut ours = b"apiVersion: drydock.dev/v1alpha1\n".to_vec();
        ours.extend_from_slice(&bytes);
        sound(&[file("a.yaml", bytes), file("b.yaml", ours)])?;
    }

    #[test]
    fn random_yaml_never_panics(lines in prop::collection::vec("( {0,6})(- |\\? |)([a-zA-Z]{1,6}: |)[-&*!|>%@{}\\[\\]\"',#a-z0-9: ]{0,12}", 0..12)) {
        let text = format!("apiVersion: drydock.dev/v1alpha1\nkind: GpuNodePool\nmetadata: {{name: a}}\nspec:\n  {}\n", lines.join("\n  "));
        sound(&[file("a.yaml", text)])?;
    }

    /// Cut, doubled, swapped or overwritten anywhere, a good repository is good or refused, and every finding has its
    /// place.
    #[test]
    fn a_damaged_repository_never_panics(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..5, "[ -~\n]{0,4}"), 1..4)) {
        let mut text: Vec<char> = BASE.chars().collect();
        for (at, to, what, insert) in edits {
            let (a, b) = (at.index(text.len()), to.index(text.len()));
            let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 200));
            match what {
                0 => drop(text.drain(a..b)),
                1 => { let copy: Vec<char> = text[a..b].to_vec(); text.splice(b..b, copy); }
                2 => text.swap(a, b),
                _ => drop(text.splice(a..a, insert.chars())),
            }
            if text.is_empty() { break }
        }
        let text: String = text.into_iter().collect();
        sound(&[file("base.yaml", text)])?;
    }

    #[test]
    fn a_document_reads_back_as_it_was_written(
        document in prop_oneof![cluster(), release(), budget(), calendar(), suite()].prop_filter("template", |d| !is_template(d))
    ) {
        let text = yaml::to_string(&document).unwrap();
        let loaded = load(&[file("base.yaml", BASE), file("new.yaml", text.clone())]);
        let Some(fleet) = loaded.fleet else {
            return Err(TestCaseError::fail(format!("{text}\n{:#?}", loaded.diagnostics)));
        };
        prop_assert_eq!(again(&fleet, &document), Some(document), "{}", text);
    }
}
