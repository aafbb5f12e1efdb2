use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Amount, Period, TeamName, WaveName};

use super::{CheckClass, PoolSelector};

/// One wave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wave {
    /// Its name.
    pub name: WaveName,
    /// Which of the policy's nodes; a node belongs to the first wave that selects it.
    #[serde(default)]
    pub select: PoolSelector,
    /// Takes only so many of them, covering each combination of these; the rest fall through to later waves.
    #[serde(default)]
    pub pick: Option<Pick>,
    /// How many units move together.
    #[serde(default)]
    pub batch: Batch,
    /// How long it must stay good before the next wave.
    #[serde(default)]
    pub soak: Soak,
    /// Who must agree, before and after.
    #[serde(default)]
    pub gates: Gates,
    /// How much failure it bears.
    #[serde(default)]
    pub failure: FailurePolicy,
}

/// Takes a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pick {
    /// At most so many nodes, one for each combination first.
    pub count: u32,
    /// What must be covered.
    #[serde(default)]
    pub cover: Vec<Cover>,
}

/// What a sample should cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cover {
    /// Each GPU model.
    GpuModel,
    /// Each kernel version.
    Kernel,
    /// Each cluster.
    Cluster,
    /// Each pool.
    Pool,
    /// Each layout.
    Layout,
}

/// Sizes of batches, in units. `start`, `start*grow`, …, never above `max`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Batch {
    /// First batch. Default 1.
    #[serde(default = "one_amount")]
    pub start: Amount,
    /// Factor from one batch to the next. Default 1: batches stay as they start.
    #[serde(default = "one_factor")]
    #[schemars(range(min = 1.0, max = 10.0))]
    pub grow: f64,
    /// Largest batch; a percentage is of the wave's units, rounded down. Default: as `start`.
    #[serde(default)]
    pub max: Option<Amount>,
}

fn one_amount() -> Amount {
    Amount::Count(1)
}
fn one_factor() -> f64 {
    1.0
}

impl Default for Batch {
    fn default() -> Self {
        Self { start: one_amount(), grow: one_factor(), max: None }
    }
}

/// How long a wave must stay good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Soak {
    /// From the return of the last node. Default 30m.
    #[serde(default = "default_soak")]
    pub time: Period,
    /// And so many node-hours on the release in total.
    #[serde(default)]
    pub min_node_hours: u32,
    /// And so many jobs that ran well on it.
    #[serde(default)]
    pub min_jobs_passed: u32,
    /// Every batch soaks, not only the last.
    #[serde(default)]
    pub per_batch: bool,
}

fn default_soak() -> Period {
    Period::from_mins(30)
}

impl Default for Soak {
    fn default() -> Self {
        Self { time: default_soak(), min_node_hours: 0, min_jobs_passed: 0, per_batch: false }
    }
}

/// Who must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gates {
    /// Before the wave starts.
    #[serde(default)]
    pub before: Vec<Gate>,
    /// After it has soaked.
    #[serde(default)]
    pub after: Vec<Gate>,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Gate {
    /// So many people of a team.
    Approval {
        /// The team.
        team: TeamName,
        /// How many different people. Default 1.
        #[serde(default = "one")]
        count: u32,
    },
}

fn one() -> u32 {
    1
}

/// How much failure a wave bears; the first limit that is passed halts the rollout. Weights: a failure that is the
/// version's counts 1, a node that was lost counts ½ until it is known why. A node that fails on what it ran before as
/// well counts 0 there and has a limit of its own: some do, but not one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailurePolicy {
    /// So many failures are borne. Default 0: the first one halts.
    #[serde(default)]
    pub tolerate: u32,
    /// So many percent of the units attempted, once `minSample` were.
    #[serde(default)]
    pub tolerate_percent: Option<Amount>,
    /// Units attempted before `toleratePercent` is looked at. Default 20.
    #[serde(default = "default_min_sample")]
    pub min_sample: u32,
    /// So many failures in a row, on independent nodes, halt.
    #[serde(default)]
    pub consecutive: Option<u32>,
    /// So many nodes are borne that fail on the old release as well as on the new one. Default: a tenth of the nodes that
    /// have passed the wave, and at least one. Beyond it the environment or the version is to blame, not the nodes.
    #[serde(default)]
    pub node_failures: Option<u32>,
    /// So many lost nodes are borne. Default 1.
    #[serde(default = "one")]
    pub lost: u32,
    /// Other tolerances for single classes of check.
    #[serde(default)]
    pub per_class: BTreeMap<CheckClass, u32>,
}

fn default_min_sample() -> u32 {
    20
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            tolerate: 0,
            tolerate_percent: None,
            min_sample: default_min_sample(),
            consecutive: None,
            node_failures: None,
            lost: 1,
            per_class: BTreeMap::new(),
        }
    }
}
