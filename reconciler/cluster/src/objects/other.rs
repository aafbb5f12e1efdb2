//! What is kept of workloads and of the GPU Operator's objects.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Meta, Watched};
use crate::client::Kind;

macro_rules! object {
    ($name:ty, $kind:expr) => {
        impl Watched for $name {
            const KIND: Kind = $kind;
            fn meta(&self) -> &Meta {
                &self.meta
            }
        }
    };
}

/// A DaemonSet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DaemonSetObject {
    /// Metadata.
    pub meta: Meta,
    /// Pods it wants.
    pub desired: u32,
    /// Newest generation its controller has seen.
    pub observed_generation: i64,
    /// The pod template, as far as drydock compares it.
    pub template: Value,
    /// `OnDelete` or `RollingUpdate`.
    pub strategy: String,
}

/// A Deployment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeploymentObject {
    /// Metadata.
    pub meta: Meta,
    /// Pods it wants.
    pub replicas: u32,
    /// Pods of the newest template.
    pub updated: u32,
    /// Pods that can serve.
    pub available: u32,
    /// Pods in all.
    pub total: u32,
    /// Newest generation its controller has seen.
    pub observed_generation: i64,
    /// Annotation on its pod template with the exact version.
    pub version: Option<String>,
    /// Images of its pods.
    pub images: Vec<String>,
    /// Why it makes no progress, when it says so.
    pub stuck: Option<String>,
    /// The pod template, as far as drydock compares it.
    pub template: Value,
}

/// A Job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobObject {
    /// Metadata.
    pub meta: Meta,
    /// Pods that succeeded.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// It is over, and well.
    pub complete: bool,
    /// It is over, and not well: the reason (`DeadlineExceeded`, `BackoffLimitExceeded`) and text.
    pub failure: Option<(String, String)>,
}

/// An object of the GPU Operator: `NVIDIADriver` or `ClusterPolicy`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperatorObject<const POLICY: bool> {
    /// Metadata.
    pub meta: Meta,
    /// Its spec.
    pub spec: Value,
    /// `ready`, `notReady`.
    pub state: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: Meta,
    spec: Value,
    status: Value,
}

fn number(value: &Value, field: &str) -> u32 {
    value.get(field).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}
fn generation(value: &Value) -> i64 {
    value.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0)
}
fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl<'de> Deserialize<'de> for DaemonSetObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata: mut meta, mut spec, status } = Raw::deserialize(d)?;
        meta.trim(|_| false);
        Ok(Self {
            desired: number(&status, "desiredNumberScheduled"),
            observed_generation: generation(&status),
            strategy: text(&spec, "/updateStrategy/type"),
            template: spec.get_mut("template").map(Value::take).unwrap_or_default(),
            meta,
        })
    }
}
object!(DaemonSetObject, Kind::DAEMON_SET);

impl<'de> Deserialize<'de> for DeploymentObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata: mut meta, mut spec, status } = Raw::deserialize(d)?;
        meta.trim(|_| false);
        let conditions = status.get("conditions").and_then(Value::as_array);
        let stuck = conditions.into_iter().flatten().find(|c| {
            c.get("type").and_then(Value::as_str) == Some("Progressing")
                && c.get("status").and_then(Value::as_str) == Some("False")
        });
        let images = spec.pointer("/template/spec/containers").and_then(Value::as_array);
        let images = images.into_iter().flatten().map(|c| text(c, "/image")).collect();
        let version = spec.pointer("/template/metadata/annotations/drydock.dev~1version");
        Ok(Self {
            replicas: spec.get("replicas").map_or(1, |_| number(&spec, "replicas")),
            updated: number(&status, "updatedReplicas"),
            available: number(&status, "availableReplicas"),
            total: number(&status, "replicas"),
            observed_generation: generation(&status),
            version: version.and_then(Value::as_str).map(str::to_owned),
            images,
            stuck: stuck.map(|c| text(c, "/message")),
            template: spec.get_mut("template").map(Value::take).unwrap_or_default(),
            meta,
        })
    }
}
object!(DeploymentObject, Kind::DEPLOYMENT);

impl DeploymentObject {
    /// All its pods are of the newest template and can serve.
    #[must_use]
    pub fn rolled_out(&self) -> bool {
        self.observed_generation >= self.meta.generation
            && self.updated == self.replicas
            && self.total == self.replicas
            && self.available == self.replicas
    }
}

impl<'de> Deserialize<'de> for JobObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata: mut meta, status, .. } = Raw::deserialize(d)?;
        meta.trim(|_| false);
        let conditions = status.get("conditions").and_then(Value::as_array);
        let holds = |kind: &str| {
            conditions.into_iter().flatten().find(|c| {
                c.get("type").and_then(Value::as_str) == Some(kind)
                    && c.get("status").and_then(Value::as_str) == Some("True")
            })
        };
        Ok(Self {
            succeeded: number(&status, "succeeded"),
            failed: number(&status, "failed"),
            complete: holds("Complete").is_some(),
            failure: holds("Failed").map(|c| (text(c, "/reason"), text(c, "/message"))),
            meta,
        })
    }
}
object!(JobObject, Kind::JOB);

impl<'de, const POLICY: bool> Deserialize<'de> for OperatorObject<POLICY> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata: mut meta, spec, status } = Raw::deserialize(d)?;
        meta.trim(|_| false);
        Ok(Self { meta, spec, state: text(&status, "/state") })
    }
}
object!(OperatorObject<false>, Kind::NVIDIA_DRIVER);
object!(OperatorObject<true>, Kind::CLUSTER_POLICY);
