use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Amount, ClusterName, Glob, TenantName};

use super::{DomainKey, Window};

/// `kind: Budget`: how much may be away at once. Every budget whose scope touches a node must agree before the node
/// is taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetSpec {
    /// What it counts over.
    #[serde(default)]
    pub scope: Scope,
    /// Makes one budget out of many: a separate count for each value of this, inside the scope.
    #[serde(default)]
    pub each: Option<Each>,
    /// What is counted.
    #[serde(default)]
    pub unit: BudgetUnit,
    /// Hard floor, broken nodes counted; rounds up.
    #[serde(default)]
    pub min_available: Option<Amount>,
    /// drydock's own disruptions at one time, from reservation to return; rounds down. A limit on what is away, never
    /// a rate.
    #[serde(default)]
    pub max_in_flight: Option<Amount>,
    /// A positive percentage that rounds down to nothing counts as one node.
    #[serde(default)]
    pub at_least_one: bool,
    /// One whole domain of this kind may be in flight even where `maxInFlight` is less.
    #[serde(default)]
    pub at_least_domain: Option<DomainKey>,
    /// Failures that were there before and aren't charged to the floor, in the budget's unit. Default 0.
    #[serde(default)]
    pub broken_allowance: Amount0,
    /// Kinds of movement it restricts; absent means all. Rollback is always covered, whatever stands here.
    #[serde(default)]
    pub reasons: Option<Vec<Reason>>,
    /// Restricts only inside these windows; absent means always.
    #[serde(default)]
    pub active: Vec<Window>,
}

/// An amount whose absence means zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Amount0(pub Amount);

impl Default for Amount0 {
    fn default() -> Self {
        Self(Amount::Count(0))
    }
}

/// A part of the fleet. All fields that are given must match; an empty scope is the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// Regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// One cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// Cluster labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_labels: BTreeMap<String, String>,
    /// Pools by name pattern.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Glob>,
    /// One tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// One domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<DomainRef>,
}

/// One topology domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DomainRef {
    /// Kind of domain.
    pub key: DomainKey,
    /// Its name: the value of the node label.
    pub value: String,
}

/// One count for each of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Each {
    Region,
    Cluster,
    Pool,
    Tenant,
    NvlinkDomain,
    ScalableUnit,
    Rack,
    Rail,
}

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BudgetUnit {
    /// Every node weighs one.
    #[default]
    Nodes,
    /// A node weighs its GPUs.
    Gpus,
}

/// Kinds of movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// A new version.
    Upgrade,
    /// A new layout and nothing else.
    Repartition,
    /// Back to an earlier release.
    Rollback,
}
