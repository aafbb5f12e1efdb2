//! The ledger's record of a rollout.

use std::{collections::BTreeMap, sync::Arc};

use drydock_spec::{
    ClusterName, GatePoint, LayoutId, PolicyName, PolicySpec, PoolName, ReleaseId, SuiteSpec, TeamName,
    WaveName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Blame, Evidence, FailureClass, GangId, NodeId, RolloutId, Target, UnitId, WaveRecord, WaveState,
};

/// The commit a rollout is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRef {
    /// Full id.
    pub id: String,
    /// First line of its message.
    pub summary: String,
    /// Who wrote it.
    pub author: String,
    /// When.
    pub time: Timestamp,
}

impl CommitRef {
    /// The first seven digits, as Git shows them; a name that is no commit's id is shown whole.
    #[must_use]
    pub fn short(&self) -> &str {
        let digits = |head: &&str| head.bytes().all(|b| b.is_ascii_hexdigit());
        self.id.get(..7).filter(digits).unwrap_or(&self.id)
    }
}

/// One run of a policy. The plan in it is frozen when it starts: waves, strategy and targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutRecord {
    /// Its name.
    pub id: RolloutId,
    /// The policy it runs.
    pub policy: PolicyName,
    /// The policy as it was when the rollout started.
    pub strategy: Arc<PolicySpec>,
    /// The checks as they were when it started.
    pub suite: Arc<SuiteSpec>,
    /// The commit that asked for it.
    pub commit: CommitRef,
    /// Forward, or back.
    pub kind: RolloutKind,
    /// What each pool should run.
    pub targets: BTreeMap<PoolName, Target>,
    /// One of its releases is marked as security.
    pub security: bool,
    /// State.
    pub state: RolloutState,
    /// While it is paused: what keeps it paused besides the reason in its state, oldest first. Each ends by itself, and
    /// it runs again when none is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_paused: Vec<PauseReason>,
    /// When somebody last said that it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Timestamp>,
    /// When it was made.
    pub created: Timestamp,
    /// When it reached a state that doesn't change any more.
    pub ended: Option<Timestamp>,
    /// Its waves.
    pub waves: Vec<WaveRecord>,
    /// Failures whose blame is settled.
    pub failures: Vec<Failure>,
    /// Failures in a row without a success between.
    pub consecutive: u32,
    /// Nodes that were ever given its release (also those of finished waves).
    pub exposed: u32,
    /// The first few of them, for the screens.
    pub exposed_nodes: Vec<NodeId>,
    /// Why it halted.
    pub halt: Option<Halt>,
    /// The rollout that takes its nodes back.
    pub child: Option<RolloutId>,
    /// The rollout that replaced it.
    pub superseded_by: Option<RolloutId>,
    /// The unit that has been passed over longest because it needs more room, and since when.
    pub head_of_line: Option<HeadOfLine>,
    /// Other units that are passed over because they need more room, the longest first.
    #[serde(default)]
    pub passed_over: Vec<HeadOfLine>,
    /// Jobs that keep nodes of it from going, and since when.
    #[serde(default)]
    pub jobs_waited_for: BTreeMap<GangId, Timestamp>,
    /// Its turn among rollouts that share a budget.
    #[serde(default)]
    pub turn: Turn,
    /// What happened, newest last, at most [`HISTORY_MAX`].
    pub history: Vec<HistoryEntry>,
    /// Counts at the end, when assignments are gone.
    pub summary: Option<RolloutSummary>,
    /// Rounds of checks that came to an end.
    #[serde(default)]
    pub rounds: Rounds,
}

/// Rounds of checks that came to an end, before and after a change. Of several in a row that told nothing on one node only
/// the first counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// All of them.
    pub all: u32,
    /// Those that told nothing, since what runs the checks broke.
    pub inconclusive: u32,
}

/// What a new rollout is about.
#[derive(Debug, Clone)]
pub struct NewRollout {
    /// Its name.
    pub id: RolloutId,
    /// The policy it runs.
    pub policy: PolicyName,
    /// The policy as it is now; it has one wave for each of the rollout.
    pub strategy: PolicySpec,
    /// The checks as they are now.
    pub suite: Arc<SuiteSpec>,
    /// The commit that asks for it.
    pub commit: CommitRef,
    /// Forward, or back.
    pub kind: RolloutKind,
    /// What each pool should run.
    pub targets: BTreeMap<PoolName, Target>,
    /// One of its releases is marked as security.
    pub security: bool,
    /// Now.
    pub created: Timestamp,
}

impl RolloutRecord {
    /// Everything that keeps it paused, oldest first.
    pub fn pauses(&self) -> impl Iterator<Item = &PauseReason> {
        let first = match &self.state {
            RolloutState::Paused(why) => Some(why),
            RolloutState::Rejected { .. }
            | RolloutState::Running
            | RolloutState::Halted
            | RolloutState::RollingBack
            | RolloutState::Succeeded
            | RolloutState::RolledBack
            | RolloutState::RollbackBlocked
            | RolloutState::Superseded
            | RolloutState::Aborted => None,
        };
        first.into_iter().chain(&self.also_paused)
    }
    /// A rollout that runs and of which nothing is done yet.
    #[must_use]
    pub fn new(new: NewRollout) -> Self {
        let NewRollout { id, policy, strategy, suite, commit, kind, targets, security, created } = new;
        Self {
            id,
            policy,
            waves: strategy.waves.iter().map(|wave| WaveRecord::new(wave.name.clone())).collect(),
            strategy: Arc::new(strategy),
            suite,
            commit,
            kind,
            targets,
            security,
            state: RolloutState::Running,
            also_paused: Vec::new(),
            resumed: None,
            created,
            ended: None,
            failures: Vec::new(),
            consecutive: 0,
            exposed: 0,
            exposed_nodes: Vec::new(),
            halt: None,
            child: None,
            superseded_by: None,
            head_of_line: None,
            passed_over: Vec::new(),
            jobs_waited_for: BTreeMap::new(),
            turn: Turn::default(),
            history: Vec::new(),
            summary: None,
            rounds: Rounds::default(),
        }
    }
}

/// Entries of history kept per rollout. A rollout of 3,000 nodes has some tens of wave and batch events; node
/// events are counted, not listed.
pub const HISTORY_MAX: usize = 500;

/// Forward, or back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutKind {
    /// To what Git says.
    Forward,
    /// Made by drydock after a halt: each node to the last release it was healthy on.
    Rollback {
        /// The rollout that halted.
        of: RolloutId,
    },
    /// To what Git says, which is what the nodes were last healthy on: waves collapse into one.
    Revert,
}

impl RolloutKind {
    /// It takes nodes to what was proven on them, whoever asked for it. Freezes and windows hold back what is new; budgets
    /// cover it as a way back.
    #[must_use]
    pub const fn is_way_back(&self) -> bool {
        match self {
            Self::Forward => false,
            Self::Rollback { .. } | Self::Revert => true,
        }
    }
    /// drydock made it by itself after a halt.
    #[must_use]
    pub const fn is_automatic(&self) -> bool {
        match self {
            Self::Rollback { .. } => true,
            Self::Forward | Self::Revert => false,
        }
    }
}

/// State of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutState {
    /// It can never work as written.
    Rejected {
        /// Why, one sentence each.
        why: Vec<String>,
    },
    /// It admits nodes as rules allow.
    Running,
    /// It admits nothing until the reason is gone; what is in flight finishes.
    Paused(PauseReason),
    /// Its release failed; it admits nothing and waits for what is in flight, then goes back or waits for a person.
    Halted,
    /// A child takes its nodes back.
    RollingBack,
    /// All waves are complete.
    Succeeded,
    /// The nodes are back.
    RolledBack,
    /// The way back failed as well; a person is needed.
    RollbackBlocked,
    /// A newer commit replaced it.
    Superseded,
    /// A person ended it.
    Aborted,
}

impl RolloutState {
    /// It doesn't change any more by itself.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Rejected { .. }
            | Self::Succeeded
            | Self::RolledBack
            | Self::RollbackBlocked
            | Self::Superseded
            | Self::Aborted => true,
            Self::Running | Self::Paused(_) | Self::Halted | Self::RollingBack => false,
        }
    }
    /// The word used on screens, in metrics and in JSON.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "Rejected",
            Self::Running => "Running",
            Self::Paused(_) => "Paused",
            Self::Halted => "Halted",
            Self::RollingBack => "RollingBack",
            Self::Succeeded => "Succeeded",
            Self::RolledBack => "RolledBack",
            Self::RollbackBlocked => "RollbackBlocked",
            Self::Superseded => "Superseded",
            Self::Aborted => "Aborted",
        }
    }
}

/// Why a rollout is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PauseReason {
    /// A person said so.
    Control {
        /// Who, and why.
        by: String,
    },
    /// The thing that runs checks is broken, so nothing is known about the release.
    Inconclusive {
        /// The node on which it was seen.
        node: NodeId,
        /// What was seen.
        detail: String,
    },
    /// It has run longer than its policy allows.
    Deadline,
    /// Nobody has passed a wave, and nobody is left who could: what comes after it has no proof to stand on.
    NothingPassed {
        /// The wave.
        wave: WaveName,
        /// How its nodes dropped out.
        detail: String,
    },
    /// A person ended it; what is past the point of no return finishes first.
    Aborting {
        /// Who, and why.
        by: String,
    },
}

impl PauseReason {
    /// Both are the same cause, however it is worded now: one thing that ends by itself.
    #[must_use]
    pub fn is_same_cause(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Control { by: a }, Self::Control { by: b }) => speaker(a) == speaker(b),
            (Self::Inconclusive { node: a, .. }, Self::Inconclusive { node: b, .. }) => a == b,
            (Self::NothingPassed { wave: a, .. }, Self::NothingPassed { wave: b, .. }) => a == b,
            (Self::Deadline, Self::Deadline) | (Self::Aborting { .. }, Self::Aborting { .. }) => true,
            (
                Self::Control { .. }
                | Self::Inconclusive { .. }
                | Self::NothingPassed { .. }
                | Self::Deadline
                | Self::Aborting { .. },
                _,
            ) => false,
        }
    }
    /// The `RolloutControl` that says it, where one does.
    #[must_use]
    pub fn control(&self) -> Option<&str> {
        match self {
            Self::Control { by } => speaker(by).strip_prefix("git "),
            Self::Inconclusive { .. }
            | Self::NothingPassed { .. }
            | Self::Deadline
            | Self::Aborting { .. } => None,
        }
    }
}

/// Who says it, of `who: why`.
fn speaker(by: &str) -> &str {
    by.split_once(": ").map_or(by, |(who, _)| who)
}

/// A failure whose blame is settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The node.
    pub node: NodeId,
    /// Its wave.
    pub wave: u16,
    /// What failed.
    pub class: FailureClass,
    /// What is to blame.
    pub blame: Blame,
    /// The release that failed.
    pub release: ReleaseId,
    /// What the node ran before it: what changed between the two is what is suspected.
    pub before: ReleaseId,
    /// Instant at which (a part of) the release was first given to the node.
    pub applied_at: Option<Timestamp>,
    /// Instant of the first failing result.
    pub noticed_at: Timestamp,
    /// Instant at which blame was settled.
    pub at: Timestamp,
    /// What was seen.
    pub evidence: Vec<Evidence>,
}

/// Why a rollout halted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Halt {
    /// When.
    pub at: Timestamp,
    /// Which limit was passed.
    pub limit: HaltLimit,
    /// The release that is to blame, and is quarantined.
    pub release: ReleaseId,
    /// The layout, where nothing else had changed: then it is the one to blame, and the release isn't.
    #[serde(default)]
    pub layout: Option<LayoutId>,
}

/// Limits whose passing halts a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum HaltLimit {
    /// More failures than are borne; weights are in halves.
    Failures { half_weights: u32, tolerate: u32 },
    /// More percent than are borne.
    Percent { failed: u32, attempted: u32, tolerate: String },
    /// So many in a row.
    Consecutive { count: u32 },
    /// More lost nodes than are borne.
    Lost { count: u32, tolerate: u32 },
    /// More failures of a class than are borne.
    Class { class: FailureClass, count: u32, tolerate: u32 },
    /// More nodes that failed on what they ran before as well than hardware explains: environment or version.
    Nodes { failed: u32, passed: u32, tolerate: u32 },
}

/// The unit that goes first once there is room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeadOfLine {
    /// The unit.
    pub unit: UnitId,
    /// Since when it has been passed over.
    pub since: Timestamp,
}

/// When a rollout was last given a place, and whether it makes something of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// When a unit of it was last reserved.
    pub served: Option<Timestamp>,
    /// Units given back one after the other, without one that got through.
    pub given_back: u32,
    /// Until then it is asked after the others.
    pub yields_until: Option<Timestamp>,
}

/// Something that happened to a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: RolloutEvent,
}

/// What happens to rollouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum RolloutEvent {
    Created { nodes: u32, waves: u32 },
    State { from: String, to: String, why: String },
    Wave { wave: WaveName, state: WaveState },
    Batch { wave: WaveName, batch: u32, units: u32 },
    Suspect { node: NodeId, text: String },
    FailureSettled { node: NodeId, blame: Blame, text: String },
    Approved { wave: WaveName, gate: GatePoint, team: TeamName, by: String },
    ReleaseQuarantined { release: ReleaseId, pools: Vec<PoolName> },
    LayoutQuarantined { layout: String, pools: Vec<PoolName> },
    NodeQuarantined { node: NodeId, blame: Blame },
    Deferred { node: NodeId, why: String },
    Skipped { node: NodeId, why: String },
    Drawn { wave: WaveName, node: NodeId },
}

/// Counts at the end of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutSummary {
    /// Nodes it was about.
    pub nodes: u32,
    /// Done.
    pub done: u32,
    /// Left out.
    pub skipped: u32,
    /// Taken back.
    pub reverted: u32,
    /// Quarantined.
    pub quarantined: u32,
    /// Gone.
    pub gone: u32,
    /// Clusters it was about.
    pub clusters: Vec<ClusterName>,
}
