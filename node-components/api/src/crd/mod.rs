//! Custom resources: what `kubectl get gpunodes,rollouts` shows of drydock's records.
//!
//! They are for people and scripts to read, and to rebuild the ledger from when it is lost; drydock itself decides from
//! its ledger. `spec` is what drydock intends, `status` what was observed and what became of it. Conditions follow the
//! convention that `kubectl wait` and GitOps tools know: `Ready` is true only when what `spec` asks for was observed,
//! `Reconciling` while drydock works on it, `Stalled` when only a person can go on.

mod node;
mod rollout;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use node::{CheckNote, GpuNode, GpuNodeSpec, GpuNodeStatus, QuarantineNote, Reservation, Running};
pub use rollout::{
    CommitNote, Counts, FailureNote, QuarantinedRelease, Rollout, RolloutSpec, RolloutStatus, WaveStatus,
};

/// Version of the custom resources.
pub const VERSION: &str = "v1alpha1";

/// Most entries of a list that people read; what is cut is counted in the text beside it.
pub const NOTES_MAX: usize = 20;

/// Longest text of one entry, in bytes.
pub const TEXT_MAX: usize = 1024;

/// What a node should run, or ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Digest of the component vector (`r-…`).
    #[schemars(length(max = 128))]
    pub release: String,
    /// Digest of the partitioning layout; absent where drydock doesn't touch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub layout: Option<String>,
}

/// One condition, as in `meta/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, `Reconciling` or `Stalled`.
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// A machine word.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// One sentence.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When `status` got its value.
    pub last_transition_time: Timestamp,
    /// The `metadata.generation` this was said about.
    #[serde(default)]
    pub observed_generation: i64,
}

/// Value of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Type of the condition: what `spec` asks for was observed.
pub const READY: &str = "Ready";
/// Type of the condition: drydock works on it.
pub const RECONCILING: &str = "Reconciling";
/// Type of the condition: only a person can go on.
pub const STALLED: &str = "Stalled";

/// An object whose fields drydock alone knows: kept whole, not described.
fn opaque(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "description": "drydock's own record, whole; read it with drydock",
        "x-kubernetes-preserve-unknown-fields": true,
        // One owner, one value: without this the API server would note an owner for every field below.
        "x-kubernetes-map-type": "atomic"
    })
}

/// A list of conditions, one of each type.
fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<Condition>();
    json_schema!({
        "type": "array",
        "items": items,
        "maxItems": 8,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}

/// The definitions of all custom resources, in the order in which they are written.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    [GpuNode::crd(), Rollout::crd()].into_iter().map(unobserved).collect()
}

/// An object without a status yet says that it hasn't been looked at: `observedGeneration: -1` is never the generation,
/// so that nobody who waits for it takes it for ready.
fn unobserved(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let mut schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema.as_deref_mut() {
            without_defaults(schema);
        }
        let status = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("status"));
        if let Some(status) = status {
            status.default = Some(JSON(serde_json::json!({ "observedGeneration": -1 })));
        }
    }
    definition
}

/// What isn't said isn't there: an API server that writes `gpus: 0` into an object says what nobody has observed.
fn without_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    schema.properties.iter_mut().flat_map(|map| map.values_mut()).for_each(without_defaults);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => without_defaults(items),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(without_defaults),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        without_defaults(values);
    }
}

/// Cuts a text at a character boundary.
#[must_use]
pub fn bounded(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_structural_and_print_what_people_ask_for() {
        let columns = |definition: &CustomResourceDefinition| -> Vec<String> {
            let columns = definition.spec.versions[0].additional_printer_columns.clone().unwrap_or_default();
            columns.into_iter().map(|column| column.name).collect()
        };
        let all = definitions();
        assert_eq!(columns(&all[0]), ["POOL", "ROLLOUT", "STEP", "RELEASE", "TARGET", "READY", "AGE"]);
        assert_eq!(columns(&all[1]), ["POLICY", "STATE", "WAVE", "DONE", "EXPOSED", "REASON", "AGE"]);
        assert_eq!((all[0].spec.scope.as_str(), all[1].spec.scope.as_str()), ("Cluster", "Namespaced"));
        for definition in &all {
            let text = serde_json::to_string(definition).unwrap();
            // The API server warns about formats it doesn't know.
            assert!(!text.contains("uint"), "{text}");
            assert_eq!(text.matches("\"default\":").count(), 1, "{text}");
            assert!(definition.spec.versions[0].subresources.as_ref().is_some_and(|s| s.status.is_some()));
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded("äöü", 6), "äöü");
        assert_eq!(bounded("äöüß", 7), "äö…");
    }
}
