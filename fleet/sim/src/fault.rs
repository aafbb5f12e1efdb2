//! Faults as data: what goes wrong in a simulated fleet, when and where. Scripts write them in YAML.

use drydock_plan::NodeId;
use drydock_spec::{CheckClass, CheckName, ClusterName, ComponentName, LayoutName, Period, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BadNodeHow, Breaks, DomainPlace, How, Place};

/// One thing that goes wrong. A fault of a version goes away when another version runs; a fault of a node stays.
/// All instants are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum FaultSpec {
    /// A version of a component is bad, perhaps only in some places.
    BadVersion {
        component: ComponentName,
        version: Version,
        #[serde(default, rename = "where")]
        place: Place,
        how: How,
    },
    /// A layout is bad, perhaps only in some places.
    BadLayout {
        layout: LayoutName,
        #[serde(default, rename = "where")]
        place: Place,
        how: How,
    },
    /// A node is bad on every release.
    BadNode {
        node: NodeId,
        how: BadNodeHow,
        #[serde(default)]
        class: Option<CheckClass>,
        #[serde(default)]
        breaks: Breaks,
    },
    /// The thing that a check tests hangs, on one node or on all.
    HungCheck {
        check: CheckName,
        #[serde(default)]
        node: Option<NodeId>,
    },
    /// Runs of a check are accepted and never begin.
    NeverStartsCheck {
        check: CheckName,
        #[serde(default)]
        node: Option<NodeId>,
    },
    /// The thing that runs a check is broken, in `from..to`.
    BrokenRunner {
        check: CheckName,
        #[serde(default)]
        node: Option<NodeId>,
        #[serde(default)]
        from: Option<Timestamp>,
        #[serde(default)]
        to: Option<Timestamp>,
    },
    /// The node's RDMA is broken, which its partners in pair checks suffer from.
    RdmaPartnerBroken { node: NodeId },
    /// The node stops answering, for ever or for a while; it comes back with a new boot.
    NodeLost {
        node: NodeId,
        at: Timestamp,
        #[serde(default)]
        back_after: Option<Period>,
    },
    /// A cluster's API server can't be reached: nothing is read, nothing is written. Its nodes go on.
    ClusterUnreachable {
        cluster: ClusterName,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
    },
    /// Facts of a cluster (or of all) come in lumps, up to `lag` late.
    StaleReads {
        #[serde(default)]
        cluster: Option<ClusterName>,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
        lag: Period,
    },
    /// Writes are refused: each with a probability, or all in a stretch of time.
    RefusedWrites {
        #[serde(default)]
        probability: Option<f64>,
        #[serde(default)]
        cluster: Option<ClusterName>,
        #[serde(default)]
        at: Option<Timestamp>,
        #[serde(default, rename = "for")]
        length: Option<Period>,
    },
    /// Writes are answered well and have no effect.
    LostWrites { probability: f64 },
    /// Writes happen twice.
    DoubledWrites { probability: f64 },
    /// Hardware fails by itself.
    Spontaneous { per_gpu_day: f64 },
    /// Somebody cordons a node.
    ForeignCordon {
        node: NodeId,
        at: Timestamp,
        #[serde(default, rename = "for")]
        length: Option<Period>,
    },
    /// Somebody uncordons a node, whoever had cordoned it.
    ForeignUncordon { node: NodeId, at: Timestamp },
    /// Somebody sets or (without a value) removes a label.
    Relabel {
        node: NodeId,
        at: Timestamp,
        label: String,
        #[serde(default)]
        value: Option<String>,
    },
    /// Somebody changes a component by hand; without a version it goes.
    HandEdit {
        node: NodeId,
        at: Timestamp,
        component: ComponentName,
        #[serde(default)]
        version: Option<Version>,
    },
    /// A pod on the node never terminates, for ever or until an instant.
    PodNeverTerminates {
        node: NodeId,
        #[serde(default)]
        until: Option<Timestamp>,
    },
    /// A PodDisruptionBudget says no on the node, for ever or until an instant.
    PdbBlocks {
        node: NodeId,
        #[serde(default)]
        until: Option<Timestamp>,
    },
    /// Pods of the node take so much longer to leave.
    SlowDrain { node: NodeId, by: Period },
    /// A job on exactly these nodes that runs for long; without `checkpoint` it never writes one.
    GangLong {
        nodes: Vec<NodeId>,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
        #[serde(default)]
        checkpoint: Option<Period>,
    },
    /// A health fault appears.
    HealthFault {
        node: NodeId,
        at: Timestamp,
        kind: String,
        #[serde(default, rename = "for")]
        length: Option<Period>,
    },
    /// The node object goes.
    NodeDeleted { node: NodeId, at: Timestamp },
    /// The node is replaced by a fresh machine of the same name.
    NodeRecreated { node: NodeId, at: Timestamp },
    /// A node joins: a fresh machine of the same pool, in the same domains.
    NodeAdded { node: NodeId, at: Timestamp, like: NodeId },
    /// Somebody cuts a node's power for a moment: it boots, and what a version had wedged is well again.
    PowerCycle { node: NodeId, at: Timestamp },
    /// The node isn't ready for `down`, every `every`, so many times; it doesn't boot.
    Flaps { node: NodeId, at: Timestamp, every: Period, down: Period, times: u32 },
    /// All nodes of a domain fail at once: with `kind` by a health fault, without it they stop answering.
    DomainFails {
        cluster: ClusterName,
        domain: DomainPlace,
        at: Timestamp,
        #[serde(default)]
        kind: Option<String>,
        #[serde(default, rename = "for")]
        length: Option<Period>,
    },
    /// A node gets slower with time, whatever it runs.
    NodeSlows { node: NodeId, at: Timestamp, percent: u32, over: Period, check: String },
    /// Now and then a single run measures less, on any node.
    Outliers { check: CheckName, probability: f64, percent: u32 },
    /// Nothing can be pulled in a stretch of time.
    RegistryAway {
        #[serde(default)]
        cluster: Option<ClusterName>,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
    },
    /// Where a component is installed, the layout of the GPUs is lost.
    LayoutLost {
        component: ComponentName,
        #[serde(default, rename = "where")]
        place: Place,
    },
    /// An operator that has an opinion of its own: whenever drydock has installed another version, it puts its own back,
    /// `after` later.
    Rewrites {
        component: ComponentName,
        version: Version,
        after: Period,
        #[serde(default, rename = "where")]
        place: Place,
        #[serde(default)]
        until: Option<Timestamp>,
    },
    /// Somebody takes every cordon of drydock away again, `after` it came.
    UncordonFight {
        node: NodeId,
        after: Period,
        #[serde(default)]
        until: Option<Timestamp>,
    },
    /// The result of a check is missing in reports that say that all is done.
    MissingResult {
        check: CheckName,
        #[serde(default)]
        node: Option<NodeId>,
        #[serde(default)]
        until: Option<Timestamp>,
    },
    /// Before a new answer is seen, the last one to an older intent is seen again, for half a minute.
    OldReports { probability: f64 },
    /// Cordons are seen to come and go so much later than answers.
    LateCordons { lag: Period },
    /// A part that needs a reboot is reported as done a minute before the node boots.
    DoneBeforeReboot {
        #[serde(default)]
        node: Option<NodeId>,
    },
    /// The partner of a pair check stops answering in the middle of it, for ten minutes, so many times for each node.
    PartnerTaken { check: CheckName, times: u32 },
    /// Jobs are seen on their nodes, and nowhere is it said what they are.
    GangsHidden {
        cluster: ClusterName,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
    },
    /// The reconciler has restarted and knows nothing of a cluster yet: no nodes, no jobs.
    FactsAbsent {
        cluster: ClusterName,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
    },
    /// A list of a cluster's nodes is answered without an error and holds only so many percent of them.
    PartialList {
        cluster: ClusterName,
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
        #[serde(default)]
        percent: u32,
    },
    /// The ledger is restored from a copy that is so old. Carried out by the runner.
    LedgerRestored { at: Timestamp, age: Period },
    /// Somebody who led before goes on asking nodes for what he had planned then. Carried out by the runner.
    TwoLeaders {
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
    },
    /// The reconciler's clock is ahead, or behind with `back`. Carried out by the runner.
    ClockJump {
        at: Timestamp,
        #[serde(rename = "for")]
        length: Period,
        by: Period,
        #[serde(default)]
        back: bool,
    },
    /// The reconciler dies between two writes: before the n-th of the run, or before each with a probability.
    /// Carried out by the runner, not by the fleet.
    Crash {
        #[serde(default)]
        at_write: Option<u64>,
        #[serde(default)]
        probability: Option<f64>,
    },
}

/// Why a list of faults couldn't be read.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// It isn't YAML.
    #[error("faults: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// It isn't a list of faults.
    #[error("faults: {0}")]
    Shape(#[from] serde_json::Error),
}

impl FaultSpec {
    /// Reads a YAML list of faults: `- badVersion: {component: gpu-driver, …}`.
    ///
    /// # Errors
    /// Text that isn't a list of faults.
    pub fn list(text: &str) -> Result<Vec<Self>, FaultError> {
        // By way of JSON values: there a variant is a mapping with one key, not a YAML tag.
        let value: Option<serde_json::Value> = serde_yaml::from_str(text)?;
        Ok(value.map(serde_json::from_value).transpose()?.unwrap_or_default())
    }
    /// A short name for summaries: the kind and what it is about.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::BadVersion { component, version, .. } => format!("badVersion {component} {version}"),
            Self::BadLayout { layout, .. } => format!("badLayout {layout}"),
            Self::BadNode { node, .. } => format!("badNode {node}"),
            Self::HungCheck { check, .. } => format!("hungCheck {check}"),
            Self::NeverStartsCheck { check, .. } => format!("neverStartsCheck {check}"),
            Self::BrokenRunner { check, .. } => format!("brokenRunner {check}"),
            Self::RdmaPartnerBroken { node } => format!("rdmaPartnerBroken {node}"),
            Self::NodeLost { node, .. } => format!("nodeLost {node}"),
            Self::ClusterUnreachable { cluster, .. } => format!("clusterUnreachable {cluster}"),
            Self::StaleReads { .. } => "staleReads".to_owned(),
            Self::RefusedWrites { .. } => "refusedWrites".to_owned(),
            Self::LostWrites { .. } => "lostWrites".to_owned(),
            Self::DoubledWrites { .. } => "doubledWrites".to_owned(),
            Self::Spontaneous { .. } => "spontaneous".to_owned(),
            Self::ForeignCordon { node, .. } => format!("foreignCordon {node}"),
            Self::ForeignUncordon { node, .. } => format!("foreignUncordon {node}"),
            Self::Relabel { node, .. } => format!("relabel {node}"),
            Self::HandEdit { node, .. } => format!("handEdit {node}"),
            Self::PodNeverTerminates { node, .. } => format!("podNeverTerminates {node}"),
            Self::PdbBlocks { node, .. } => format!("pdbBlocks {node}"),
            Self::SlowDrain { node, .. } => format!("slowDrain {node}"),
            Self::GangLong { nodes, .. } => format!("gangLong on {} nodes", nodes.len()),
            Self::HealthFault { node, kind, .. } => format!("healthFault {kind} {node}"),
            Self::NodeDeleted { node, .. } => format!("nodeDeleted {node}"),
            Self::NodeRecreated { node, .. } => format!("nodeRecreated {node}"),
            Self::NodeAdded { node, .. } => format!("nodeAdded {node}"),
            Self::PowerCycle { node, .. } => format!("powerCycle {node}"),
            Self::Flaps { node, .. } => format!("flaps {node}"),
            Self::DomainFails { cluster, domain, .. } => {
                format!("domainFails {cluster} {} {}", domain.key.as_str(), domain.value.as_str())
            }
            Self::NodeSlows { node, .. } => format!("nodeSlows {node}"),
            Self::Outliers { check, .. } => format!("outliers {check}"),
            Self::RegistryAway { .. } => "registryAway".to_owned(),
            Self::LayoutLost { component, .. } => format!("layoutLost {component}"),
            Self::Rewrites { component, version, .. } => format!("rewrites {component} {version}"),
            Self::UncordonFight { node, .. } => format!("uncordonFight {node}"),
            Self::MissingResult { check, .. } => format!("missingResult {check}"),
            Self::OldReports { .. } => "oldReports".to_owned(),
            Self::LateCordons { .. } => "lateCordons".to_owned(),
            Self::DoneBeforeReboot { .. } => "doneBeforeReboot".to_owned(),
            Self::PartnerTaken { check, .. } => format!("partnerTaken {check}"),
            Self::GangsHidden { cluster, .. } => format!("gangsHidden {cluster}"),
            Self::FactsAbsent { cluster, .. } => format!("factsAbsent {cluster}"),
            Self::PartialList { cluster, .. } => format!("partialList {cluster}"),
            Self::LedgerRestored { .. } => "ledgerRestored".to_owned(),
            Self::TwoLeaders { .. } => "twoLeaders".to_owned(),
            Self::ClockJump { .. } => "clockJump".to_owned(),
            Self::Crash { .. } => "crash".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn faults_are_read_from_yaml_and_written_again() {
        let text = r#"
- badVersion:
    component: gpu-driver
    version: "580.95.05"
    where: {kernel: "6.8*"}
    how: {readyButBroken: {check: driver}}
- badVersion: {component: plugin, version: "1", how: crashLoops}
- badNode: {node: c1/a-001, how: applyFails}
- nodeLost: {node: c1/a-002, at: "2026-03-02T10:00:00Z", backAfter: 10m}
- clusterUnreachable: {cluster: c1, at: "2026-03-02T10:00:00Z", for: 20m}
- crash: {probability: 0.01}
"#;
        let faults = FaultSpec::list(text).unwrap();
        assert_eq!(faults.len(), 6);
        let again = serde_json::to_string(&faults).unwrap();
        assert_eq!(serde_json::from_str::<Vec<FaultSpec>>(&again).unwrap(), faults);
        assert_eq!(faults.first().unwrap().label(), "badVersion gpu-driver 580.95.05");
        assert!(FaultSpec::list("").unwrap().is_empty());
    }

    #[test]
    fn unknown_words_are_refused() {
        let typo = "- nodeLost: {node: a/b, at: \"2026-03-02T10:00:00Z\", backafter: 10m}";
        assert!(FaultSpec::list(typo).unwrap_err().to_string().contains("backafter"));
        assert!(FaultSpec::list("- nodeLots: {}").is_err());
    }
}
