//! What a Lease says, and how long it has said so.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::LeaseOptions;
use crate::client::CallError;

/// A Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; absent after it was let go.
    pub(super) holder: Option<String>,
    /// Times as text: they are compared for being the same and never read.
    renewed: String,
    acquired: String,
    /// How often it changed hands.
    transitions: i64,
    /// How long its holder asks others to wait, in seconds.
    seconds: u64,
    /// The compare-and-swap; absent before it exists.
    version: Option<String>,
}

impl Record {
    pub(super) fn read(object: &Value) -> Result<Self, CallError> {
        let version = object["metadata"]["resourceVersion"].as_str();
        let version =
            version.ok_or_else(|| CallError::Malformed("a Lease without resourceVersion".to_owned()))?;
        let spec = &object["spec"];
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            holder: Some(text("holderIdentity")).filter(|holder| !holder.is_empty()),
            renewed: text("renewTime"),
            acquired: text("acquireTime"),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
            seconds: spec["leaseDurationSeconds"].as_u64().unwrap_or(0),
            version: Some(version.to_owned()),
        })
    }

    pub(super) fn first(options: &LeaseOptions, now: Timestamp) -> Self {
        Self {
            holder: Some(options.holder.clone()),
            renewed: micro(now),
            acquired: micro(now),
            transitions: 0,
            seconds: options.duration.as_secs(),
            version: None,
        }
    }
    pub(super) fn taken(&self, options: &LeaseOptions, now: Timestamp) -> Self {
        let first = Self::first(options, now);
        Self { transitions: self.transitions.saturating_add(1), version: self.version.clone(), ..first }
    }
    pub(super) fn renewed(&self, options: &LeaseOptions, now: Timestamp) -> Self {
        Self { renewed: micro(now), seconds: options.duration.as_secs(), ..self.clone() }
    }
    pub(super) fn released(&self, options: &LeaseOptions, now: Timestamp) -> Self {
        Self { holder: None, ..self.renewed(options, now) }
    }

    pub(super) fn object(&self, options: &LeaseOptions) -> Value {
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": options.name,
                "namespace": options.namespace,
                "labels": { (drydock_api::names::MANAGED_BY): drydock_api::names::MANAGER },
            },
            "spec": {
                "holderIdentity": self.holder.as_deref().unwrap_or_default(),
                "leaseDurationSeconds": self.seconds.max(1),
                "acquireTime": self.acquired,
                "renewTime": self.renewed,
                "leaseTransitions": self.transitions,
            },
        });
        if let Some(version) = &self.version {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        object
    }

    /// The same holding, not renewed in between. Labels, annotations and versions don't count: somebody's script that
    /// touches the lease must not keep a dead holder's lease alive.
    pub(super) fn is_same_renewal(&self, other: &Self) -> bool {
        self.holder == other.holder && self.renewed == other.renewed && self.transitions == other.transitions
    }
}

/// A Lease as it was seen, and since when it looks like this on the own clock.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) record: Record,
    since: Instant,
}

impl Seen {
    /// Another look.
    pub(super) fn again(before: Option<Self>, record: Record, now: Instant) -> Self {
        let since = before.filter(|before| before.record.is_same_renewal(&record)).map_or(now, |b| b.since);
        Self { record, since }
    }
    /// Nobody else holds it, or its holder has been silent for its whole duration. What this very process still holds
    /// in name it may take again: nobody can have led in between, or the name would be another.
    pub(super) fn is_free(&self, own: &str, duration: Duration, now: Instant) -> bool {
        // What the holder itself asked for counts when it is longer: it may run with other settings.
        let patience = duration.max(Duration::from_secs(self.record.seconds));
        self.record.holder.as_deref().is_none_or(|holder| holder == own)
            || now.duration_since(self.since) >= patience
    }
}

/// Kubernetes wants exactly six digits after the second.
fn micro(at: Timestamp) -> String {
    format!("{at:.6}")
}
