use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{CheckName, Period};

use super::Template;

/// `kind: CheckSuite`: what must hold on a node before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuiteSpec {
    /// Whether and how checks run on the old release first. A node that fails before the change is never counted
    /// against the version.
    #[serde(default)]
    pub preflight: Preflight,
    /// The checks, in the order in which they run.
    pub checks: Vec<Check>,
}

/// Checks on the old release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preflight {
    /// Which checks.
    #[serde(default)]
    pub run: PreflightRun,
    /// A passing result younger than this is used again. Default 24h.
    #[serde(default = "default_freshness")]
    pub freshness: Period,
}

impl Default for Preflight {
    fn default() -> Self {
        Self { run: PreflightRun::default(), freshness: default_freshness() }
    }
}

fn default_freshness() -> Period {
    Period::from_hours(24)
}

/// Which checks run before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PreflightRun {
    /// The same as after it.
    #[default]
    Same,
    /// Only those of class driver.
    Driver,
    /// None; then nothing can be blamed on the version by comparison.
    None,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Check {
    /// Its name; results, floors and thresholds refer to it.
    pub name: CheckName,
    /// What it is about.
    pub class: CheckClass,
    /// How many nodes take part.
    #[serde(default)]
    pub on: CheckOn,
    /// A run that isn't over by then is a failure of kind `hang`. Default 5m.
    #[serde(default = "default_timeout")]
    pub timeout: Period,
    /// Compared with the node's own value before the change: worse by more than this is `Regress`.
    #[serde(default)]
    pub regress: Option<Percent>,
    /// Unit of the measured value, for people: `GB/s`.
    #[serde(default)]
    pub unit: Option<String>,
    /// Runs; the median counts. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    pub repeats: u32,
    /// The thing that runs.
    #[serde(default)]
    pub run: CheckRun,
    /// Pod template of one's own; it runs instead of `run`. drydock sets where its pods run.
    #[serde(default)]
    pub template: Option<Template>,
    /// GPUs that its pod asks for on each node, as `nvidia.com/gpu`; 0 means none. Default: all of the node, and none
    /// for class `custom`. Under a layout whose strategy is `mixed` there is no such resource: a check of slices is a
    /// `template` that asks for them, with `gpus: 0`.
    #[serde(default)]
    pub gpus: Option<u32>,
}

impl Check {
    /// GPUs that its pod asks for on a node with so many.
    #[must_use]
    pub fn gpus_of(&self, node: u32) -> u32 {
        self.gpus.unwrap_or(match self.class {
            CheckClass::Driver | CheckClass::Rdma | CheckClass::Training => node,
            CheckClass::Custom => 0,
        })
    }
}

fn default_timeout() -> Period {
    Period::from_mins(5)
}
fn one() -> u32 {
    1
}

/// A percentage as text, `"3%"`; hundredths of a percent inside.
pub type Percent = crate::text::Amount;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckClass {
    /// Driver, devices, a kernel that computes.
    Driver,
    /// Fabric between nodes.
    Rdma,
    /// A step of real training.
    Training,
    /// The owner's own.
    Custom,
}

impl CheckClass {
    /// The word used in documents and on screens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Rdma => "rdma",
            Self::Training => "training",
            Self::Custom => "custom",
        }
    }
}

/// How many nodes take part in a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckOn {
    /// The node alone.
    #[default]
    Node,
    /// The node and a partner that is known to be good.
    Pair,
    /// All nodes of the unit.
    Group,
}

/// The thing that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum CheckRun {
    /// A check that comes with drydock.
    Builtin(String),
    /// An image of one's own; its exit code and its termination message are read.
    Image(String),
}

impl Default for CheckRun {
    fn default() -> Self {
        Self::Builtin("vector-add".to_owned())
    }
}
