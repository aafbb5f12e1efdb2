//! What is checked in under `schemas/` is what the types say. `BLESS=1` writes it anew.

use std::{collections::BTreeSet, fs};

use crate::{assert_clean, tree};

#[expect(clippy::disallowed_methods, reason = "a test binary has no other way to be told something")]
fn bless() -> bool {
    std::env::var_os("BLESS").is_some()
}

#[test]
fn schemas_are_fresh() {
    let folder = tree::root().join("schemas");
    let files = drydock_spec::schemas();
    let mut findings = Vec::new();
    for (name, schema) in &files {
        let fresh = serde_json::to_string_pretty(schema).unwrap() + "\n";
        let path = folder.join(name);
        if bless() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &fresh).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != fresh {
            findings.push(format!("schemas/{name} isn't what the types say"));
        }
    }
    let there = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let known: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    findings.extend(
        there
            .filter(|name| name.ends_with(".schema.json") && !known.contains(name.as_str()))
            .map(|name| format!("schemas/{name} belongs to no kind")),
    );
    for definition in drydock_api::crd::definitions() {
        let name = definition.metadata.name.as_deref().unwrap();
        let fresh = drydock_spec::yaml::to_string(&definition).unwrap();
        let path = folder.join("crds").join(format!("{name}.yaml"));
        if bless() {
            fs::create_dir_all(folder.join("crds")).unwrap();
            fs::write(&path, &fresh).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != fresh {
            findings.push(format!("schemas/crds/{name}.yaml isn't what the types say"));
        }
    }
    assert_clean("schemas/ is stale: drydock schema --out schemas", &findings);
}
