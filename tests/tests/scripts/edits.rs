//! Documents as values, and changes of them: `Kind/name/path/in/spec: value`. `null` takes something away; a whole
//! document is `Kind/name`.

use std::collections::BTreeMap;

use drydock_spec::{Fleet, Severity, SourceFile, load};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Changes, by path.
pub(crate) type Edits = BTreeMap<String, Value>;

/// The documents of a fleet.
#[derive(Debug, Clone)]
pub(crate) struct Documents(BTreeMap<(String, String), Value>);

impl Documents {
    /// Reads a file of documents.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut documents = BTreeMap::new();
        for document in serde_yaml::Deserializer::from_str(text) {
            let value = Value::deserialize(document).map_err(|e| e.to_string())?;
            let word = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let (kind, name) =
                word("/kind").zip(word("/metadata/name")).ok_or("a document without kind or name")?;
            documents.insert((kind, name), value.get("spec").cloned().unwrap_or(json!({})));
        }
        Ok(Self(documents))
    }
    /// Carries out changes.
    pub(crate) fn edit(&mut self, edits: &Edits) -> Result<(), String> {
        for (path, value) in edits {
            let mut parts = path.split('/');
            let (kind, name) = parts.next().zip(parts.next()).ok_or(format!("{path}: no kind and name"))?;
            let key = (kind.to_owned(), name.to_owned());
            let rest: Vec<&str> = parts.collect();
            match (rest.is_empty(), value.is_null()) {
                (true, true) => {
                    self.0.remove(&key).ok_or(format!("{path}: there is no such document"))?;
                }
                (true, false) => {
                    self.0.insert(key, value.clone());
                }
                (false, _) => {
                    let spec = self.0.get_mut(&key).ok_or(format!("{path}: there is no such document"))?;
                    put(spec, &rest, value).ok_or(format!("{path}: there is no such place"))?;
                }
            }
        }
        Ok(())
    }
    /// Loads them as the repository of a commit would be.
    pub(crate) fn load(&self) -> Result<Fleet, String> {
        let document = |((kind, name), spec): (&(String, String), &Value)| json!({"apiVersion": "drydock.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        // JSON is YAML; every text in it is quoted.
        let text: Vec<String> = self.0.iter().map(document).map(|value| value.to_string()).collect();
        let file = SourceFile { path: "fleet.yaml".to_owned(), bytes: text.join("\n---\n").into_bytes() };
        let loaded = load(&[file]);
        let errors: Vec<String> = loaded
            .diagnostics
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(|finding| format!("{}: {}", finding.span.line, finding.message))
            .collect();
        loaded.fleet.ok_or(format!("the documents have errors: {}", errors.join("; ")))
    }
}

fn put(value: &mut Value, path: &[&str], new: &Value) -> Option<()> {
    let (first, rest) = path.split_first()?;
    if let Value::Array(items) = value {
        let at: usize = first.parse().ok()?;
        if rest.is_empty() && new.is_null() {
            (at < items.len()).then(|| items.remove(at))?;
            return Some(());
        }
        if at == items.len() {
            items.push(Value::Null);
        }
        return inside(items.get_mut(at)?, rest, new);
    }
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let map = value.as_object_mut()?;
    if rest.is_empty() && new.is_null() {
        return map.remove(*first).map(|_| ());
    }
    inside(map.entry((*first).to_owned()).or_insert(Value::Null), rest, new)
}

fn inside(value: &mut Value, rest: &[&str], new: &Value) -> Option<()> {
    if rest.is_empty() {
        *value = new.clone();
        return Some(());
    }
    put(value, rest, new)
}

#[test]
fn edits_reach_every_place() {
    let text = "kind: A\nmetadata: {name: x}\nspec: {list: [{n: 1}, {n: 2}], gone: 1}\n---\nkind: B\nmetadata: {name: y}\n";
    let mut documents = Documents::read(text).unwrap();
    let edits =
        json!({"A/x/list/1/n": 5, "A/x/list/2/n": 7, "A/x/gone": null, "A/x/deep/er": "z", "B/y": null});
    documents.edit(&serde_json::from_value(edits).unwrap()).unwrap();
    let left = &documents.0[&("A".to_owned(), "x".to_owned())];
    assert_eq!(*left, json!({"list": [{"n": 1}, {"n": 5}, {"n": 7}], "deep": {"er": "z"}}));
    assert_eq!(documents.0.len(), 1);
    let missing = serde_json::from_value(json!({"A/z/list": 1})).unwrap();
    assert!(documents.edit(&missing).unwrap_err().contains("no such document"));
}
