use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Amount, Glob, TeamName};

/// `kind: Fleet`: the one document that every repository has exactly once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetSpec {
    /// Names of environments, in the order in which changes reach them.
    #[serde(default)]
    pub environments: Vec<String>,
    /// Who is asked to approve changes, first match wins.
    #[serde(default)]
    pub owners: Vec<Owner>,
    /// How much of the pools, of the nodes they hold, of clusters, policies, budgets and calendars one commit may take out
    /// of the repository, each counted by itself. Nodes that a changed selector lets go count as well. So do controls
    /// that hold something back, of which one may always go. A commit that removes more is held: the last good commit
    /// stays in force until this is raised in the same commit. Default `"10%"`.
    #[serde(default = "default_removal_budget")]
    pub removal_budget: Amount,
}

pub(crate) fn default_removal_budget() -> Amount {
    Amount::Percent(1000)
}

/// Ownership of a part of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// Pools it is about; all when empty.
    #[serde(default)]
    pub pools: Vec<Glob>,
    /// The team that is asked.
    pub team: TeamName,
}
