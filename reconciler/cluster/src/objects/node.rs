//! What is kept of a node.

use std::collections::BTreeMap;

use drydock_api::names;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{Meta, Watched};
use crate::client::Kind;

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect.
    pub effect: String,
    /// Since when; the API server refuses a change that drops it from somebody's `NoExecute` taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeObject {
    /// Metadata.
    pub meta: Meta,
    /// New pods are kept away.
    pub unschedulable: bool,
    /// Who set `unschedulable`, by field ownership.
    pub unschedulable_by: Option<String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// GPU devices it advertises, by resource name (`nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`).
    pub devices: BTreeMap<String, u32>,
    /// Ready condition.
    pub ready: bool,
    /// Since when it has its value, by the node's clock.
    pub ready_since: Option<Timestamp>,
    /// Kernel release.
    pub kernel: String,
    /// Changes with every boot.
    pub boot: String,
    /// Names of images that lie on the node, as far as the kubelet tells (it lists the 50 largest).
    pub images: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: RawMeta,
    spec: RawSpec,
    status: RawStatus,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMeta {
    #[serde(flatten)]
    meta: Meta,
    #[serde(rename = "managedFields")]
    managers: Vec<Manager>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Manager {
    manager: String,
    #[serde(rename = "fieldsV1")]
    fields: Option<serde_json::Value>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSpec {
    unschedulable: bool,
    taints: Vec<Taint>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    allocatable: BTreeMap<String, String>,
    conditions: Vec<Condition>,
    node_info: Info,
    images: Vec<Image>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Info {
    kernel_version: String,
    #[serde(rename = "bootID")]
    boot_id: String,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Image {
    names: Vec<String>,
}

impl<'de> Deserialize<'de> for NodeObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Raw { metadata, spec, status } = Raw::deserialize(d)?;
        let RawMeta { mut meta, managers } = metadata;
        meta.trim(|key| key.contains("cordon"));
        let ready = status.conditions.iter().find(|c| c.kind == "Ready");
        let device = |(name, count): (String, String)| {
            let ours = name.starts_with("nvidia.com/") || name.starts_with("amd.com/");
            ours.then(|| count.parse().ok().map(|count| (name, count))).flatten()
        };
        let owns = |m: &&Manager| {
            m.manager != names::MANAGER
                && m.fields.as_ref().is_some_and(|f| f.pointer("/f:spec/f:unschedulable").is_some())
        };
        Ok(Self {
            unschedulable_by: managers.iter().find(owns).map(|m| m.manager.clone()),
            ready: ready.is_some_and(|c| c.status == "True"),
            ready_since: ready.and_then(|c| c.last_transition_time),
            unschedulable: spec.unschedulable,
            taints: spec.taints,
            devices: status.allocatable.into_iter().filter_map(device).collect(),
            kernel: status.node_info.kernel_version,
            boot: status.node_info.boot_id,
            images: status.images.into_iter().flat_map(|i| i.names).collect(),
            meta,
        })
    }
}

impl Watched for NodeObject {
    const KIND: Kind = Kind::NODE;
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl NodeObject {
    /// drydock's own cordon, with the epoch of the reservation it was made for. Somebody who uncordons takes it away,
    /// whatever the annotation says.
    #[must_use]
    pub fn own_cordon(&self) -> Option<u64> {
        let noted = self.meta.annotation(names::CORDON)?;
        let epoch = noted.split_whitespace().next()?.parse().ok()?;
        self.unschedulable.then_some(epoch)
    }
    /// Somebody else's cordon, with who as far as known.
    #[must_use]
    pub fn foreign_cordon(&self) -> Option<String> {
        if !self.unschedulable {
            return None;
        }
        match (self.own_cordon(), self.meta.annotation(names::CORDON_BEFORE)) {
            (None, _) => Some(self.unschedulable_by.clone().unwrap_or_else(|| "somebody".to_owned())),
            (Some(_), Some(by)) => Some(by.to_owned()),
            (Some(_), None) => None,
        }
    }
    /// It has GPUs, or says that it should.
    #[must_use]
    pub fn has_gpus(&self) -> bool {
        !self.devices.is_empty() || self.meta.label("nvidia.com/gpu.present") == Some("true")
    }
    /// A number that changes with every boot.
    #[must_use]
    pub fn boot_number(&self) -> u64 {
        // FNV-1a over 64 bits: only ever compared with the number before.
        self.boot.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cordon_is_known_by_whose_it_is() {
        let node = |annotations: &str, unschedulable: bool| -> NodeObject {
            serde_json::from_str(&format!(
                r#"{{"metadata":{{"name":"n","annotations":{{{annotations}}},
                "managedFields":[{{"manager":"kubectl-cordon","fieldsV1":{{"f:spec":{{"f:unschedulable":{{}}}}}}}}]}},
                "spec":{{"unschedulable":{unschedulable}}}}}"#
            ))
            .unwrap()
        };
        let own = r#""drydock.dev/cordon":"7 stage-1""#;
        let both = r#""drydock.dev/cordon":"7 stage-1","drydock.dev/cordon-before":"kubectl-cordon""#;
        let told = |n: NodeObject| (n.own_cordon(), n.foreign_cordon());
        assert_eq!(told(node("", false)), (None, None));
        assert_eq!(told(node("", true)), (None, Some("kubectl-cordon".to_owned())));
        assert_eq!(told(node(own, true)), (Some(7), None));
        assert_eq!(told(node(own, false)), (None, None));
        assert_eq!(told(node(both, true)), (Some(7), Some("kubectl-cordon".to_owned())));
    }

    #[test]
    fn only_devices_are_kept_of_what_is_allocatable() {
        let node: NodeObject = serde_json::from_str(
            r#"{"metadata":{"name":"n","annotations":{"a":"b"}},"status":{"allocatable":{"cpu":"8","nvidia.com/gpu":"8"},
            "conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],
            "nodeInfo":{"bootID":"x","kernelVersion":"6.8"}}}"#,
        )
        .unwrap();
        assert_eq!(node.devices, BTreeMap::from([("nvidia.com/gpu".to_owned(), 8)]));
        assert!(node.ready && node.has_gpus() && node.meta.annotations.is_empty());
    }
}
