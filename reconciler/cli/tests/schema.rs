//! The schemas that are checked in are those that the documents have.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{drydock, root};

fn files(folder: &Path) -> BTreeMap<String, String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let schemas = names.filter(|path| path.to_str().unwrap().ends_with(".schema.json"));
    schemas
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[test]
fn checked_in_schemas_are_fresh() {
    let dir = tempfile::tempdir().unwrap();
    let ran = drydock(dir.path(), &["schema", "--out", "made"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (made, kept) = (files(&dir.path().join("made")), files(&root().join("schemas")));
    assert_eq!(made.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    for (name, text) in &made {
        assert!(kept[name] == *text, "schemas/{name} is stale: run `cargo run -- schema --out schemas`");
    }
}

#[test]
fn without_a_folder_the_schema_for_any_document_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let schema = drydock(dir.path(), &["schema"]).json();
    assert_eq!(schema["title"], "drydock document");
    let shell = drydock(dir.path(), &["completions", "bash"]);
    assert!(shell.code == 0 && shell.out.contains("_drydock"));
}
