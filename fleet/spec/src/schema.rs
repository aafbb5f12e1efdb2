//! JSON Schemas of the documents, for editors and for checks outside drydock.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{document::Kind, fleet::API_VERSION, kinds::*, text::*};

/// File name of the schema that takes a document of any kind.
pub const ANY: &str = "drydock.schema.json";

/// All schemas by file name: one for each kind, and [`ANY`].
#[must_use]
pub fn schemas() -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    let mut all = generator();
    let mut cases = Vec::new();
    for &kind in Kind::ALL {
        let mut one = generator();
        let parts = parts(kind, &mut one);
        files.insert(file_name(kind), document(kind, parts, one));
        let Parts { name, spec, spec_required } = self::parts(kind, &mut all);
        let required: &[&str] = if spec_required { &["spec"] } else { &[] };
        cases.push(json!({
            "if": {"properties": {"kind": {"const": kind.as_str()}}},
            "then": {
                "properties": {"metadata": {"properties": {"name": name}}, "spec": spec},
                "required": required,
            },
        }));
    }
    let kinds: Vec<&str> = Kind::ALL.iter().map(|k| k.as_str()).collect();
    let any = json!({
        "title": "drydock document",
        "description": "A document of a fleet repository",
        "type": "object",
        "additionalProperties": false,
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"enum": kinds},
            "metadata": metadata(None),
            "spec": true,
        },
        "allOf": cases,
    });
    files.insert(ANY.to_owned(), finish(any, all));
    files
}

/// `gpu-node-pool.schema.json`.
#[must_use]
pub fn file_name(kind: Kind) -> String {
    let mut name = String::new();
    for (i, c) in kind.as_str().chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    format!("{name}.schema.json")
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

struct Parts {
    name: Value,
    spec: Value,
    /// Something in it has no default.
    spec_required: bool,
}

fn parts(kind: Kind, generator: &mut SchemaGenerator) -> Parts {
    match kind {
        Kind::Fleet => of::<FleetName, FleetSpec>(generator),
        Kind::Cluster => of::<ClusterName, ClusterSpec>(generator),
        Kind::GpuNodePool => of::<PoolName, PoolSpec>(generator),
        Kind::PartitionLayout => of::<LayoutName, LayoutSpec>(generator),
        Kind::Component => of::<ComponentName, ComponentSpec>(generator),
        Kind::Release => of::<ReleaseName, ReleaseSpec>(generator),
        Kind::RolloutPolicy => of::<PolicyName, PolicySpec>(generator),
        Kind::Budget => of::<BudgetName, BudgetSpec>(generator),
        Kind::Calendar => of::<CalendarName, CalendarSpec>(generator),
        Kind::CheckSuite => of::<SuiteName, SuiteSpec>(generator),
        Kind::RolloutControl => of::<ControlName, ControlSpec>(generator),
        Kind::CostBudget => of::<CostBudgetName, CostBudgetSpec>(generator),
    }
}

fn of<N: JsonSchema, T: JsonSchema>(generator: &mut SchemaGenerator) -> Parts {
    let name = generator.subschema_for::<N>().to_value();
    let spec = generator.subschema_for::<T>().to_value();
    let own = T::json_schema(&mut self::generator()).to_value();
    let spec_required = own.get("required").and_then(Value::as_array).is_some_and(|r| !r.is_empty());
    // An empty `spec:` takes every default, as the loader has it.
    let spec = if spec_required { spec } else { json!({"anyOf": [spec, {"type": "null"}]}) };
    Parts { name, spec, spec_required }
}

fn metadata(name: Option<Value>) -> Value {
    let name = name.unwrap_or_else(|| json!({"type": "string"}));
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {"name": name},
    })
}

fn document(kind: Kind, parts: Parts, generator: SchemaGenerator) -> Value {
    let Parts { name, spec, spec_required } = parts;
    let mut required = vec!["apiVersion", "kind", "metadata"];
    if spec_required {
        required.push("spec");
    }
    let schema = json!({
        "title": kind.as_str(),
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind.as_str()},
            "metadata": metadata(Some(name)),
            "spec": spec,
        },
    });
    finish(schema, generator)
}

fn finish(mut schema: Value, mut generator: SchemaGenerator) -> Value {
    let definitions: Map<String, Value> = generator.take_definitions(true);
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(to)) = map.get("$ref") {
                    found.push(to.clone());
                }
                map.values().for_each(|v| references(v, found));
            }
            Value::Array(items) => items.iter().for_each(|v| references(v, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let files = schemas();
        assert_eq!(files.len(), Kind::ALL.len() + 1);
        assert!(files.contains_key("gpu-node-pool.schema.json"));
        for (name, schema) in &files {
            let mut found = Vec::new();
            references(schema, &mut found);
            assert!(name.contains("control") || !found.is_empty(), "{name}");
            for to in found {
                let pointer = to.strip_prefix('#').unwrap();
                assert!(schema.pointer(pointer).is_some(), "{name}: {to}");
            }
        }
    }

    #[test]
    fn versions_may_be_short() {
        let files = schemas();
        let version = files["release.schema.json"].pointer("/$defs/ComponentVersion/anyOf").unwrap();
        assert_eq!(version.as_array().unwrap().len(), 2);
    }
}
