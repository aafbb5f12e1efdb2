//! Every "not now", as a type with its numbers. Dashboard, `plan`, `why`, events, metrics and tests print this one.

use std::fmt;

use drydock_spec::{
    BudgetName, BudgetUnit, CalendarName, ClusterName, ComponentName, DomainKey, GatePoint, Period, PoolName,
    ReleaseId, TeamName, WaveName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Blocker, GangId, NodeId, PauseReason, RolloutId, SkipReason, UnitId};

/// Why something isn't moving now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Reason {
    // Rules of admission.
    /// No window is open.
    Window { calendar: CalendarName, window: String, opens: Option<Timestamp> },
    /// The window closes before a unit would be back.
    WindowTooShort {
        calendar: CalendarName,
        window: String,
        closes: Timestamp,
        needs: Period,
        opens: Option<Timestamp>,
    },
    /// A freeze applies.
    Freeze { calendar: CalendarName, freeze: String, until: Timestamp },
    /// The pool's capacity ends before a unit would be back.
    LeaseEnds { at: Timestamp },
    /// A budget's limit on what is away by drydock's doing.
    BudgetInFlight {
        budget: BudgetName,
        each: Option<String>,
        unit: BudgetUnitWord,
        limit: u32,
        used: u32,
        adds: u32,
        held_by: Vec<NodeId>,
    },
    /// A budget's floor. Of the `broken`, `missing` are documented and not there at all, and `spared` aren't charged.
    BudgetFloor {
        budget: BudgetName,
        each: Option<String>,
        unit: BudgetUnitWord,
        floor: u32,
        available: u32,
        broken: u32,
        missing: u32,
        spared: u32,
        adds: u32,
    },
    /// Enough nodes of one domain are away.
    Spread { key: DomainKey, domain: String, limit: u32, used: u32 },
    /// A job spans nodes that can't all go.
    Gang { gang: GangId, nodes: u32, inside: u32, ends: Option<Timestamp> },
    /// A pod on it belongs to a job of which nothing else is seen: which nodes that spans isn't known.
    UnknownGang { gang: GangId },
    /// The selectors of several pools match it. It stays in the one it is in, where that is one of them.
    TwoPools { pools: Vec<PoolName>, stays: Option<PoolName> },
    /// It carries drydock's own cordon, and the ledger doesn't say that it was returned: it may be half changed, so it is
    /// checked before it serves.
    UnexplainedCordon {},
    /// Somebody else cordoned it.
    ForeignCordon { by: String },
    /// It isn't ready.
    NotReady { since: Timestamp },
    /// Its cluster can't be reached.
    ClusterUnreachable { cluster: ClusterName, since: Timestamp, error: String },
    /// Another rollout holds it.
    HeldBy { rollout: RolloutId },
    /// Another node of its cluster is changing something that the cluster has once.
    ClusterComponent { component: ComponentName, held_by: NodeId },
    /// A failure whose blame isn't settled; nothing else of the rollout starts.
    SuspectUnsettled { node: NodeId },
    /// The batch is full; the next one opens when its members are settled.
    BatchFull { batch: u32, size: u32, unsettled: u32 },
    /// The batch soaks before the next one opens.
    BatchSoak { batch: u32, until: Timestamp },
    /// The wave before it isn't complete.
    WavePending { wave: WaveName, after: WaveName },
    /// The wave stays good for a while.
    WaveSoak { wave: WaveName, until: Timestamp },
    /// The wave hasn't gathered enough node-hours.
    WaveNodeHours { wave: WaveName, have: u32, need: u32 },
    /// The wave hasn't seen enough jobs.
    WaveJobs { wave: WaveName, have: u32, need: u32 },
    /// Somebody has to agree.
    Approval { wave: WaveName, gate: GatePoint, team: TeamName, given: u32, needed: u32 },
    /// Enough clusters are in flight.
    ClusterLimit { limit: u32, in_flight: Vec<ClusterName> },
    /// A larger unit was passed over for too long and goes first.
    HeadOfLine { unit: UnitId, since: Timestamp },
    /// It was given back and rests.
    Cooldown { until: Timestamp },
    /// It has only just become ready, and may go again as soon.
    Settling { until: Timestamp },
    /// It was left out of a rollout and isn't tried again before this.
    LeftOut { why: SkipReason, until: Timestamp },
    /// The release was rolled back and isn't tried again here.
    ReleaseQuarantined { release: ReleaseId, rollout: RolloutId },
    /// The layout was rolled back and isn't tried again here; the release beside it is good.
    LayoutQuarantined { layout: String, rollout: RolloutId },
    /// The node is quarantined.
    NodeQuarantined { since: Timestamp, rollout: RolloutId },
    /// A person said to leave it out.
    SkippedByControl {},
    /// It failed its checks before the change and isn't tried again before this.
    PreexistingFailure { until: Timestamp },
    /// Somebody changed it, and the policy says to leave that alone.
    DriftHeld { running: ReleaseId, wanted: ReleaseId },
    /// The rollout is paused.
    Paused { why: PauseReason },
    /// The rollout halted and waits for what is in flight, or for a person.
    Halted { since: Timestamp, in_flight: u32 },
    /// The rollout can never work as written.
    Rejected { why: String },
    /// Its hardware, as it is seen, and the release don't go together.
    Incompatible { why: String },
    /// A person ended a rollout to the same target; it starts again when the target changes or someone says `retry`.
    AbortedBefore {
        rollout: RolloutId,
        /// Who ended it, and why.
        #[serde(default)]
        by: Option<String>,
        /// What `retry` is said about.
        #[serde(default)]
        release: Option<ReleaseId>,
    },
    /// No policy selects its pool, so nothing moves it.
    NoPolicy { pool: PoolName },
    /// It differs from Git in something that drydock doesn't move here: it only looks at it, or the release doesn't name
    /// it.
    LeftToOthers { component: ComponentName, running: Option<String>, wanted: Option<String> },
    /// A control in Git names something that doesn't exist.
    ControlNamesNothing { control: String, what: String },

    // Waits of a node in flight.
    /// The facts are older than the intent.
    InventoryOlderThanPlan {},
    /// Artefacts are fetched and checks run on what is there.
    Preflight { blocked_by: Option<Blocker>, until: Timestamp },
    /// The cordon isn't seen yet.
    Cordoning { blocked_by: Option<Blocker>, until: Timestamp },
    /// Jobs write a checkpoint.
    Checkpoint { gangs: Vec<GangId>, blocked_by: Option<Blocker>, until: Timestamp },
    /// Pods leave.
    Draining { remaining: u32, blocked_by: Option<Blocker>, until: Timestamp },
    /// Something is applied.
    Applying { what: String, attempt: u32, blocked_by: Option<Blocker>, until: Timestamp },
    /// Checks run.
    Checking { attempt: u32, blocked_by: Option<Blocker>, until: Timestamp },
    /// The next try begins later.
    Backoff { attempt: u32, until: Timestamp },
    /// Other nodes of the unit aren't as far.
    UnitBarrier { unit: UnitId, waits_for: NodeId },
    /// The node isn't seen.
    Lost { since: Timestamp, until: Timestamp },
    /// The own cordon isn't gone yet.
    Returning { blocked_by: Option<Blocker> },
    /// It serves and is watched.
    Soaking { until: Timestamp },
}

/// Budget unit in reasons; the same words as in documents.
pub type BudgetUnitWord = BudgetUnitText;

/// What a budget counts, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum BudgetUnitText {
    Nodes,
    Gpus,
}

impl From<BudgetUnit> for BudgetUnitText {
    fn from(unit: BudgetUnit) -> Self {
        match unit {
            BudgetUnit::Nodes => Self::Nodes,
            BudgetUnit::Gpus => Self::Gpus,
        }
    }
}

impl fmt::Display for BudgetUnitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nodes => "nodes",
            Self::Gpus => "GPUs",
        })
    }
}

impl Reason {
    /// Its kind as a short fixed word: label of metrics, key of counts.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Window { .. } => "window",
            Self::WindowTooShort { .. } => "windowTooShort",
            Self::Freeze { .. } => "freeze",
            Self::LeaseEnds { .. } => "leaseEnds",
            Self::BudgetInFlight { .. } => "budgetInFlight",
            Self::BudgetFloor { .. } => "budgetFloor",
            Self::Spread { .. } => "spread",
            Self::Gang { .. } => "gang",
            Self::UnknownGang { .. } => "unknownGang",
            Self::TwoPools { .. } => "twoPools",
            Self::UnexplainedCordon {} => "unexplainedCordon",
            Self::ForeignCordon { .. } => "foreignCordon",
            Self::NotReady { .. } => "notReady",
            Self::ClusterUnreachable { .. } => "clusterUnreachable",
            Self::HeldBy { .. } => "heldBy",
            Self::ClusterComponent { .. } => "clusterComponent",
            Self::SuspectUnsettled { .. } => "suspectUnsettled",
            Self::BatchFull { .. } => "batchFull",
            Self::BatchSoak { .. } => "batchSoak",
            Self::WavePending { .. } => "wavePending",
            Self::WaveSoak { .. } => "waveSoak",
            Self::WaveNodeHours { .. } => "waveNodeHours",
            Self::WaveJobs { .. } => "waveJobs",
            Self::Approval { .. } => "approval",
            Self::ClusterLimit { .. } => "clusterLimit",
            Self::HeadOfLine { .. } => "headOfLine",
            Self::Cooldown { .. } => "cooldown",
            Self::Settling { .. } => "settling",
            Self::LeftOut { .. } => "leftOut",
            Self::ReleaseQuarantined { .. } => "releaseQuarantined",
            Self::LayoutQuarantined { .. } => "layoutQuarantined",
            Self::NodeQuarantined { .. } => "nodeQuarantined",
            Self::SkippedByControl {} => "skippedByControl",
            Self::PreexistingFailure { .. } => "preexistingFailure",
            Self::DriftHeld { .. } => "driftHeld",
            Self::Paused { .. } => "paused",
            Self::Halted { .. } => "halted",
            Self::Rejected { .. } => "rejected",
            Self::Incompatible { .. } => "incompatible",
            Self::AbortedBefore { .. } => "abortedBefore",
            Self::NoPolicy { .. } => "noPolicy",
            Self::LeftToOthers { .. } => "leftToOthers",
            Self::ControlNamesNothing { .. } => "controlNamesNothing",
            Self::InventoryOlderThanPlan {} => "inventoryOlderThanPlan",
            Self::Preflight { .. } => "preflight",
            Self::Cordoning { .. } => "cordoning",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Draining { .. } => "draining",
            Self::Applying { .. } => "applying",
            Self::Checking { .. } => "checking",
            Self::Backoff { .. } => "backoff",
            Self::UnitBarrier { .. } => "unitBarrier",
            Self::Lost { .. } => "lost",
            Self::Returning { .. } => "returning",
            Self::Soaking { .. } => "soaking",
        }
    }
    /// The instant at which it is judged again by itself; absent when only an event can clear it.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Window { opens, .. } | Self::WindowTooShort { opens, .. } => *opens,
            Self::Gang { ends, .. } => *ends,
            Self::Freeze { until, .. }
            | Self::BatchSoak { until, .. }
            | Self::WaveSoak { until, .. }
            | Self::Cooldown { until }
            | Self::Settling { until }
            | Self::LeftOut { until, .. }
            | Self::PreexistingFailure { until }
            | Self::Preflight { until, .. }
            | Self::Cordoning { until, .. }
            | Self::Checkpoint { until, .. }
            | Self::Draining { until, .. }
            | Self::Applying { until, .. }
            | Self::Checking { until, .. }
            | Self::Backoff { until, .. }
            | Self::Lost { until, .. }
            | Self::Soaking { until } => Some(*until),
            Self::LeaseEnds { .. }
            | Self::BudgetInFlight { .. }
            | Self::BudgetFloor { .. }
            | Self::Spread { .. }
            | Self::UnknownGang { .. }
            | Self::TwoPools { .. }
            | Self::UnexplainedCordon {}
            | Self::ForeignCordon { .. }
            | Self::NotReady { .. }
            | Self::ClusterUnreachable { .. }
            | Self::HeldBy { .. }
            | Self::ClusterComponent { .. }
            | Self::SuspectUnsettled { .. }
            | Self::BatchFull { .. }
            | Self::WavePending { .. }
            | Self::WaveNodeHours { .. }
            | Self::WaveJobs { .. }
            | Self::Approval { .. }
            | Self::ClusterLimit { .. }
            | Self::HeadOfLine { .. }
            | Self::ReleaseQuarantined { .. }
            | Self::LayoutQuarantined { .. }
            | Self::NodeQuarantined { .. }
            | Self::SkippedByControl {}
            | Self::DriftHeld { .. }
            | Self::Paused { .. }
            | Self::Halted { .. }
            | Self::Rejected { .. }
            | Self::Incompatible { .. }
            | Self::AbortedBefore { .. }
            | Self::NoPolicy { .. }
            | Self::LeftToOthers { .. }
            | Self::ControlNamesNothing { .. }
            | Self::InventoryOlderThanPlan {}
            | Self::UnitBarrier { .. }
            | Self::Returning { .. } => None,
        }
    }
}
