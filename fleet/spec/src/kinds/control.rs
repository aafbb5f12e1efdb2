use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{PolicyName, PoolName, TeamName, WaveName};

/// `kind: RolloutControl`: what people want of a rollout that is under way. The only intent about a run that lives
/// in Git.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlSpec {
    /// The policy whose rollouts it is about.
    pub policy: PolicyName,
    /// One rollout by its id; absent means whichever is open.
    #[serde(default)]
    pub rollout: Option<String>,
    /// What it should do.
    #[serde(default)]
    pub state: ControlState,
    /// Nodes (`cluster/node`) to leave out.
    #[serde(default)]
    pub skip: Vec<String>,
    /// Quarantined releases or nodes to try again, each with a reason.
    #[serde(default)]
    pub retry: Vec<Retry>,
    /// Approvals given.
    #[serde(default)]
    pub approve: Vec<Approval>,
    /// Why, for the history.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What a rollout should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
pub enum ControlState {
    /// Go on.
    #[default]
    Run,
    /// Admit nothing; what is in flight finishes.
    Pause,
    /// End it: nodes that haven't begun to apply are returned, the others finish.
    Abort,
}

impl ControlState {
    /// The word used in documents and on screens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "Run",
            Self::Pause => "Pause",
            Self::Abort => "Abort",
        }
    }
}

/// Something to try again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// A release id (`r-…`) that was rolled back, or a node (`cluster/node`) that was quarantined.
    pub what: String,
    /// Only for this pool.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Why it should work now.
    pub reason: String,
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// The wave.
    pub wave: WaveName,
    /// Before it starts or after it has soaked.
    #[serde(default)]
    pub gate: GatePoint,
    /// The team that approves.
    pub team: TeamName,
    /// Who did.
    pub by: String,
    /// The commit that was approved; an approval of another commit doesn't count.
    #[serde(default)]
    pub commit: Option<String>,
}

/// On which side of a wave a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GatePoint {
    /// Before the wave starts.
    Before,
    /// After it has soaked.
    #[default]
    After,
}
