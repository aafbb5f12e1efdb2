//! Faults as data: what goes wrong in a simulated fleet, when and where. Scripts write them in YAML.

use drydock_plan::NodeId;
use drydock_spec::{
    CheckClass, CheckName, ClusterName, ComponentName, Glob, LayoutName, Period, PoolName, Version,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// The reconciler dies between two writes: before the n-th of the run, or before each with a probability.
    /// Carried out by the runner, not by the fleet.
    Crash {
        #[serde(default)]
        at_write: Option<u64>,
        #[serde(default)]
        probability: Option<f64>,
    },
}

/// Where a version is bad. All that is given must match; nothing given is everywhere.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Place {
    /// GPU model, as pools write it.
    pub model: Option<String>,
    /// Kernel release.
    pub kernel: Option<Glob>,
    /// Layout that is cut at the time.
    pub layout: Option<LayoutName>,
    /// Pool by name pattern.
    pub pool: Option<Glob>,
    /// One node.
    pub node: Option<NodeId>,
}

/// How a version is bad.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum How {
    /// Its pod runs and never becomes ready: applying it never ends.
    NotReady,
    /// Installing it hangs: applying it never ends, and nothing says why.
    Hangs,
    /// It crashes again and again: applying it fails.
    CrashLoops,
    /// It takes the node with it, for ever or for a while.
    LosesNode {
        /// When the node is back.
        #[serde(default)]
        back_after: Option<Period>,
    },
    /// It reports ready, and checks of this class or name fail.
    ReadyButBroken {
        /// A class (`driver`, `rdma`, …) or the name of a check.
        check: String,
    },
    /// It reports ready, and checks of this class or name hang.
    HangsInCheck {
        /// A class or the name of a check.
        check: String,
    },
    /// Values of checks of this class or name are worse.
    Slow {
        /// By so many percent.
        percent: u32,
        /// A class or the name of a check.
        check: String,
    },
    /// It is good at first; a health fault appears later, while it serves.
    FaultsLater {
        /// Kind of fault.
        kind: String,
        /// So long after it was applied.
        after: Period,
    },
}

/// How a node is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BadNodeHow {
    /// Checks of the fault's class (driver where none is given) fail on it.
    CheckFails,
    /// Applying anything to it fails.
    ApplyFails,
}

/// Since when a node is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Breaks {
    /// Since before the first change: a preflight sees it.
    Always,
    /// It breaks when it is first touched: only going back tells it from a bad version.
    #[default]
    AtApply,
    /// It breaks at this instant.
    At(Timestamp),
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
            Self::Crash { .. } => "crash".to_owned(),
        }
    }
}

impl Place {
    /// Whether a node is inside.
    #[must_use]
    pub fn holds(
        &self,
        node: &NodeId,
        pool: &PoolName,
        model: &str,
        kernel: &str,
        layout: Option<&str>,
    ) -> bool {
        let Self { model: wanted, kernel: kernels, layout: cut, pool: pools, node: one } = self;
        wanted.as_ref().is_none_or(|m| m == model)
            && kernels.as_ref().is_none_or(|k| k.matches(kernel))
            && cut.as_ref().is_none_or(|l| Some(l.as_str()) == layout)
            && pools.as_ref().is_none_or(|p| p.matches(pool.as_str()))
            && one.as_ref().is_none_or(|n| n == node)
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
