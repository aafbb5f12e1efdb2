//! `GpuNode`: drydock's record of one node, in that node's cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Condition, Target};

/// What drydock intends for the node of the same name. A node that drydock has never touched has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "GpuNode",
    plural = "gpunodes",
    singular = "gpunode",
    shortname = "gn",
    category = "drydock",
    status = "GpuNodeStatus",
    derive = "PartialEq",
    doc = "What drydock intends for a GPU node, and what was observed of it.",
    printcolumn = r#"{"name":"POOL","type":"string","jsonPath":".spec.pool","description":"The pool it belongs to"}"#,
    printcolumn = r#"{"name":"ROLLOUT","type":"string","jsonPath":".spec.reservation.rollout","description":"The rollout that holds it"}"#,
    printcolumn = r#"{"name":"STEP","type":"string","jsonPath":".spec.reservation.step","description":"What is being done with it"}"#,
    printcolumn = r#"{"name":"RELEASE","type":"string","jsonPath":".status.running.release","description":"What it runs"}"#,
    printcolumn = r#"{"name":"TARGET","type":"string","jsonPath":".spec.target.release","description":"What it should run"}"#,
    printcolumn = r#"{"name":"READY","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"It runs what it should"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct GpuNodeSpec {
    /// Name of its cluster in the documents.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub cluster: String,
    /// Its pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pool: Option<String>,
    /// What it should run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Who holds it; while this is there the node counts as in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Why it is kept away from work until a person says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<QuarantineNote>,
    /// Number of the intent; `status.generation` echoes the one its facts are about.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub generation: i64,
    /// Revision of the ledger from which this was written.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ledger_revision: i64,
    /// The whole record.
    #[serde(default)]
    #[schemars(schema_with = "super::opaque")]
    pub record: Map<String, Value>,
}

/// A reservation of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The rollout that holds it.
    #[schemars(length(max = 253))]
    pub rollout: String,
    /// Number of the reservation.
    #[schemars(range(min = 0))]
    pub epoch: i64,
    /// Since when.
    pub since: Timestamp,
    /// What was being done when this was written: `preflight`, `cordon`, `checkpoint`, `drain`, `apply`, `verify`,
    /// `fence`, `return`.
    #[schemars(length(max = 64))]
    pub step: String,
    /// When patience with the step ends.
    pub deadline: Timestamp,
    /// Tries of the step, from 1.
    #[schemars(range(min = 0))]
    pub attempt: i32,
    /// Somebody else had cordoned the node before; that cordon stays when it returns.
    #[serde(default)]
    pub foreign_cordon: bool,
}

/// Why a node is kept away from work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineNote {
    /// The rollout in which it failed.
    #[schemars(length(max = 253))]
    pub rollout: String,
    /// Since when.
    pub since: Timestamp,
    /// One sentence.
    #[schemars(length(max = 1024))]
    pub why: String,
}

/// What was observed of the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodeStatus {
    /// The `metadata.generation` this was written for.
    #[serde(default)]
    pub observed_generation: i64,
    /// What runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// How its GPUs are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub layout: Option<String>,
    /// GPUs it advertises, partitions counted back to whole GPUs.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub gpus: i32,
    /// The intent that the node's last report and the checks below are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub generation: Option<i64>,
    /// Results of the last checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub checks: Vec<CheckNote>,
    /// `Ready`, `Reconciling`, `Stalled`.
    #[serde(default)]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// What runs on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Digest of the component vector.
    #[schemars(length(max = 128))]
    pub release: String,
    /// Version of each component.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64))]
    pub versions: BTreeMap<String, String>,
}

/// Result of one run of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckNote {
    /// The check.
    #[schemars(length(max = 253))]
    pub name: String,
    /// `Pass`, `Fail`, `Hang`, `Inconclusive` or `NotApplicable`.
    #[schemars(length(max = 64))]
    pub verdict: String,
    /// What was measured, in the check's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What the run said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub detail: String,
    /// End of the run.
    pub finished: Timestamp,
}
