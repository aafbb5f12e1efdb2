//! Sizes: what is too large is refused, and what is large is quick.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use drydock_spec::{
    Loaded, RuleId, SourceFile, load,
    load::{FILE_SIZE_MAX, FILES_MAX},
};

const API: &str = "apiVersion: drydock.dev/v1alpha1";

fn file(path: &str, text: String) -> SourceFile {
    SourceFile { path: path.to_owned(), bytes: text.into_bytes() }
}

fn rules(loaded: &Loaded) -> Vec<RuleId> {
    let mut rules: Vec<RuleId> = loaded.diagnostics.iter().map(|d| d.rule).collect();
    rules.dedup();
    rules
}

fn fleet() -> SourceFile {
    file("fleet.yaml", format!("{API}\nkind: Fleet\nmetadata: {{name: f}}\n"))
}

#[test]
fn nothing_at_all_says_so() {
    let loaded = load(&[]);
    assert_eq!(rules(&loaded), [RuleId::NoFleet]);
    assert!(loaded.diagnostics[0].message.contains("no documents"));
    assert_eq!(loaded.documents, 0);
}

#[test]
fn a_file_of_more_than_a_mebibyte() {
    let text = format!("{API}\nkind: Cluster\n#{}", " ".repeat(FILE_SIZE_MAX));
    let loaded = load(&[fleet(), file("big.yaml", text)]);
    assert_eq!(rules(&loaded), [RuleId::FileTooLarge]);
    // Other people's large files are none of our business.
    let foreign = format!("kind: CustomResourceDefinition\n#{}", " ".repeat(FILE_SIZE_MAX));
    assert_eq!(rules(&load(&[fleet(), file("crd.yaml", foreign)])), []);
}

#[test]
fn more_files_than_the_most() {
    let cluster = |i: usize| {
        let text = format!(
            "{API}\nkind: Cluster\nmetadata: {{name: c{i}}}\nspec: {{access: {{simulated: {{}}}}}}\n"
        );
        file(&format!("clusters/{i:05}.yaml"), text)
    };
    let mut files: Vec<SourceFile> = (0..FILES_MAX - 1).map(cluster).collect();
    files.push(fleet());
    assert!(load(&files).fleet.is_some());
    files.push(cluster(FILES_MAX));
    let loaded = load(&files);
    assert!(rules(&loaded).contains(&RuleId::TooManyFiles), "{:?}", rules(&loaded));
}

#[test]
fn a_file_with_nothing_but_errors() {
    let mut text =
        format!("{API}\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  access: {{simulated: {{}}}}\n");
    for i in 0..1000 {
        writeln!(text, "  field{i}: 1").unwrap();
    }
    let loaded = load(&[fleet(), file("c.yaml", text)]);
    assert_eq!(loaded.diagnostics.len(), 101);
    assert!(loaded.diagnostics.iter().any(|d| d.rule == RuleId::TooManyErrors));
}

#[test]
fn other_peoples_files_are_passed_over() {
    let foreign = [
        ("chart/templates/x.yaml", "kind: Deployment\nmetadata: {{- include \"x\" . }}\n"),
        (".github/workflows/ci.yml", "on: push\njobs: {}\n# drydock.dev/ in a comment\n"),
        ("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"),
        ("two.yaml", "a: 1\na: 2\n"),
        ("README.md", "apiVersion: drydock.dev/v9"),
        ("values.json", "{\"apiVersion\": \"drydock.dev/v9\"}"),
        ("in-text.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  x: |\n    apiVersion: drydock.dev/v9\n"),
    ];
    let mut files: Vec<SourceFile> = foreign.iter().map(|(p, t)| file(p, (*t).to_owned())).collect();
    files.push(fleet());
    let loaded = load(&files);
    assert!(loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
    assert_eq!(loaded.documents, 1);
    // And they are told, by path.
    let told: Vec<String> = loaded.passed_over.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[1], "chart/templates/x.yaml: no document of drydock's");
}

#[test]
fn a_document_in_wide_characters_is_an_error() {
    let text = format!("{API}\nkind: Calendar\nmetadata: {{name: nights}}\nspec: {{}}\n");
    for mark in [Some(0xfeff), None] {
        let bytes = mark.into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let loaded = load(&[fleet(), SourceFile { path: "calendar.yaml".to_owned(), bytes }]);
        assert_eq!(rules(&loaded), [RuleId::NotText]);
        assert!(loaded.diagnostics[0].message.contains("UTF-16"), "{}", loaded.diagnostics[0]);
        assert!(loaded.fleet.is_none());
    }
}

#[test]
fn thousands_of_other_peoples_files_are_no_matter() {
    let other = |i: usize| file(&format!("chart/{i:05}.yaml"), format!("kind: ConfigMap\nn: {i}\n"));
    let mut files: Vec<SourceFile> = (0..FILES_MAX + 5).map(other).collect();
    files.push(fleet());
    let loaded = load(&files);
    assert!(loaded.fleet.is_some() && loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
    assert_eq!(loaded.passed_over.len(), FILES_MAX + 5);
}

#[test]
fn a_mark_of_byte_order_and_lines_of_another_system() {
    let text =
        format!("\u{feff}{API}\r\nkind: Fleet\r\nmetadata: {{name: f}}\r\nspec:\r\n  environmnts: []\r\n");
    let loaded = load(&[file("fleet.yaml", text)]);
    assert_eq!(loaded.diagnostics.len(), 1);
    let d = &loaded.diagnostics[0];
    assert_eq!((d.rule, d.span.line, d.span.column), (RuleId::UnknownField, 5, 3));
    assert_eq!(d.source_line, "  environmnts: []");
    assert_eq!(&d.source_line[d.byte_range()], "environmnts");
}

#[test]
fn the_order_of_files_means_nothing() {
    let mut files = vec![
        fleet(),
        file("a.yaml", format!("{API}\nkind: Cluster\nmetadata: {{name: c}}\nspec: {{}}\n")),
        file("b.yaml", format!("{API}\nkind: Cluster\nmetadata: {{name: c}}\nspec: {{}}\n")),
    ];
    let one = load(&files);
    files.reverse();
    assert_eq!(one, load(&files));
}

/// No step over all documents for each document: twice as many take about twice as long, and a quadratic step over
/// these sizes would take minutes.
#[test]
fn ten_thousand_documents_and_as_many_wrong_names() {
    let mut text = String::new();
    for i in 0..5_000 {
        write!(
            text,
            "---\n{API}\nkind: GpuNodePool\nmetadata: {{name: pool-{i}}}\nspec: {{cluster: c, nodeSelector: {{pool: all, nr: n{i}}}, \
             gpu: {{model: H100-80GB, count: 8}}, release: missing-{i}}}\n\
             ---\n{API}\nkind: Budget\nmetadata: {{name: b-{i}}}\nspec: {{scope: {{pools: [pool-{i}]}}, maxInFlight: 1}}\n"
        )
        .unwrap();
    }
    // Files of a mebibyte at most.
    let docs: Vec<&str> = text.split("---\n").collect();
    let mut files: Vec<SourceFile> =
        docs.chunks(1000).enumerate().map(|(i, d)| file(&format!("{i}.yaml"), d.join("---\n"))).collect();
    files.push(fleet());
    let loaded = load(&files);
    assert_eq!(loaded.documents, 10_001);
    let missing = loaded.diagnostics.iter().filter(|d| d.rule == RuleId::UnknownReference).count();
    assert_eq!(missing, 10_000);
}
