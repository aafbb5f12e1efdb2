//! `Rollout`: drydock's record of one run of a policy, in the cluster in which drydock's ledger lives.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Condition, Target};

/// The frozen plan of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Rollout",
    plural = "rollouts",
    singular = "rollout",
    shortname = "ro",
    category = "drydock",
    namespaced,
    status = "RolloutStatus",
    derive = "PartialEq",
    doc = "One run of a rollout policy: the plan as it was frozen, and how far it is.",
    printcolumn = r#"{"name":"POLICY","type":"string","jsonPath":".spec.policy","description":"The policy it runs"}"#,
    printcolumn = r#"{"name":"STATE","type":"string","jsonPath":".status.state","description":"State"}"#,
    printcolumn = r#"{"name":"WAVE","type":"string","jsonPath":".status.wave","description":"The wave whose turn it is"}"#,
    printcolumn = r#"{"name":"DONE","type":"string","jsonPath":".status.done","description":"Nodes that are done, of how many"}"#,
    printcolumn = r#"{"name":"EXPOSED","type":"integer","jsonPath":".status.exposed","description":"Nodes that were ever given its release"}"#,
    printcolumn = r#"{"name":"REASON","type":"string","jsonPath":".status.reason","description":"Why it doesn't go on now"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct RolloutSpec {
    /// The policy it runs.
    #[schemars(length(max = 253))]
    pub policy: String,
    /// `Forward`, `Rollback` or `Revert`.
    #[schemars(length(max = 64))]
    pub kind: String,
    /// The rollout whose nodes this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub of: Option<String>,
    /// The commit that asked for it.
    pub commit: CommitNote,
    /// What each pool should run.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 1000))]
    pub targets: BTreeMap<String, Target>,
    /// Names of its waves, in order.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub waves: Vec<String>,
    /// What is frozen of the record; what changes is in `status.record`.
    #[serde(default)]
    #[schemars(schema_with = "super::opaque")]
    pub record: Map<String, Value>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitNote {
    /// Full id.
    #[schemars(length(max = 128))]
    pub id: String,
    /// First line of its message.
    #[schemars(length(max = 1024))]
    pub summary: String,
    /// Who wrote it.
    #[schemars(length(max = 1024))]
    pub author: String,
}

/// How far a rollout is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The `metadata.generation` this was written for.
    #[serde(default)]
    pub observed_generation: i64,
    /// Revision of the ledger from which this was written.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ledger_revision: i64,
    /// `Running`, `Paused`, `Halted`, `RollingBack`, `Succeeded`, `RolledBack`, `RollbackBlocked`, `Superseded`,
    /// `Aborted` or `Rejected`.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub state: String,
    /// The wave whose turn it is.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub wave: String,
    /// Nodes that are done, of how many: `12/20`.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub done: String,
    /// Nodes that were ever given its release.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub exposed: i64,
    /// Why it doesn't go on now: the first of `reasons`.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Everything it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 1024)))]
    pub reasons: Vec<String>,
    /// Its waves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub waves: Vec<WaveStatus>,
    /// The newest failures whose blame is settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub failures: Vec<FailureNote>,
    /// How many failures there were in all.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures_total: i64,
    /// Releases that aren't tried again because they failed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub quarantined: Vec<QuarantinedRelease>,
    /// When it reached a state that doesn't change any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Contents of the releases that its nodes run, ran and should run, by their digest: the way back doesn't depend
    /// on Git.
    #[serde(default)]
    #[schemars(schema_with = "super::opaque")]
    pub releases: Map<String, Value>,
    /// What changes of the record.
    #[serde(default)]
    #[schemars(schema_with = "super::opaque")]
    pub record: Map<String, Value>,
    /// `Ready`, `Reconciling`, `Stalled`.
    #[serde(default)]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// One wave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// `Pending`, `GatedBefore`, `Running`, `Soaking`, `GatedAfter`, `Complete`, `Skipped` or `Failed`.
    #[schemars(length(max = 64))]
    pub state: String,
    /// Its nodes by how far they are.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Nodes by how far they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// All of them.
    #[schemars(range(min = 0))]
    pub total: i64,
    /// Not begun.
    #[schemars(range(min = 0))]
    pub waiting: i64,
    /// Reserved.
    #[schemars(range(min = 0))]
    pub in_flight: i64,
    /// Back and watched.
    #[schemars(range(min = 0))]
    pub soaking: i64,
    /// Done.
    #[schemars(range(min = 0))]
    pub done: i64,
    /// Left out.
    #[schemars(range(min = 0))]
    pub skipped: i64,
    /// Taken back.
    #[schemars(range(min = 0))]
    pub reverted: i64,
    /// Quarantined.
    #[schemars(range(min = 0))]
    pub quarantined: i64,
    /// Gone.
    #[schemars(range(min = 0))]
    pub gone: i64,
}

/// A failure whose blame is settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureNote {
    /// The node, as `cluster/node`.
    #[schemars(length(max = 512))]
    pub node: String,
    /// What failed.
    #[schemars(length(max = 64))]
    pub class: String,
    /// What is to blame: `Version`, `Node` or `Unknown`.
    #[schemars(length(max = 64))]
    pub blame: String,
    /// The release that failed.
    #[schemars(length(max = 128))]
    pub release: String,
    /// When blame was settled.
    pub at: Timestamp,
    /// What was seen.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(max = 1024)))]
    pub evidence: Vec<String>,
}

/// A release that isn't tried again on a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedRelease {
    /// The pool.
    #[schemars(length(max = 253))]
    pub pool: String,
    /// The release.
    #[schemars(length(max = 128))]
    pub release: String,
    /// Since when.
    pub since: Timestamp,
    /// One sentence.
    #[schemars(length(max = 1024))]
    pub why: String,
}
