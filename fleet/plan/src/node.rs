//! The ledger's record of a node: who holds it, what for, how far.

use std::collections::BTreeMap;

use drydock_spec::{
    BudgetName, CheckClass, CheckName, ComponentName, DomainKey, LayoutId, PoolName, ReleaseId,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckResult, Epoch, GangId, Generation, NodeId, RolloutId, UnitId};

/// What a node should run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Component vector.
    pub release: ReleaseId,
    /// Partitioning; absent where drydock doesn't touch it.
    pub layout: Option<LayoutId>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.layout {
            Some(layout) => write!(f, "{}+{layout}", self.release),
            None => self.release.fmt(f),
        }
    }
}

/// What the ledger knows of a node. A node without a record was never touched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Number of the intent below; grows with every change of it.
    pub generation: Generation,
    /// Number of the newest reservation.
    pub epoch: Epoch,
    /// Its part in an open rollout.
    pub assignment: Option<Assignment>,
    /// The reservation. From it to its end the node counts as in flight.
    pub visit: Option<Visit>,
    /// It serves again on a new release and is watched.
    pub soak: Option<Soak>,
    /// The last target on which it stayed good for as long as its policy asks.
    pub last_known_good: Option<Target>,
    /// The one before it: where a rollback of a whole rollout takes nodes that had soaked well.
    pub previous_good: Option<Target>,
    /// Kept away from work by drydock's own cordon until a person says otherwise.
    pub quarantine: Option<NodeQuarantine>,
    /// Not before this instant again.
    pub not_before: Option<Timestamp>,
    /// Why it was left out of a finished rollout, so that it isn't tried again while that still holds.
    pub skipped: Option<SkipNote>,
    /// How often it failed by itself so far.
    pub incidents: u32,
    /// Newest good values before a change.
    pub baselines: BTreeMap<CheckName, Baseline>,
    /// Where it stood when its record was last written: what is counted of it while it isn't seen.
    #[serde(default)]
    pub place: Option<Place>,
    /// The newest reservation that ended as it should: its cordon was seen to be gone. A cordon of a later one that no
    /// record speaks of may stand on a node that is half changed.
    #[serde(default)]
    pub released: Epoch,
}

/// Where a node stands, as its record remembers it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The machine behind the name; empty where it wasn't known.
    pub uid: String,
    /// Since when it is this machine.
    pub since: Option<Timestamp>,
    /// Its pool.
    pub pool: Option<PoolName>,
    /// GPUs it should have.
    pub gpus: u32,
    /// Its domains, by kind.
    pub domains: BTreeMap<DomainKey, String>,
}

/// A node's part in an open rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The rollout.
    pub rollout: RolloutId,
    /// The pool it was in when it was assigned; a label that flaps later doesn't change that.
    pub pool: PoolName,
    /// Index of its wave.
    pub wave: u16,
    /// What it should run in the end. For a rollback this is the node's own last known good.
    pub target: Target,
    /// When it was first given (a part of) the rollout's release; absent while it wasn't.
    pub exposed: Option<Timestamp>,
    /// How often it was given back because it couldn't be emptied.
    pub deferrals: u32,
    /// Batch in which it was admitted, from 1.
    pub batch: Option<u32>,
    /// Components of the whole cluster that it changes for all nodes of it, sorted. Its way back takes back these, and
    /// nobody else's does.
    #[serde(default)]
    pub carries: Vec<ComponentName>,
    /// How it ended here; absent while it hasn't.
    pub outcome: Option<NodeOutcome>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// What it gathered while it soaked, once it is through: it goes on counting for its wave.
    #[serde(default)]
    pub gathered: Gathered,
    /// How often a fault took it out again after it had returned.
    #[serde(default)]
    pub taken_out: u32,
}

/// What nodes gather while they soak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// Time in which it was good on the release without a break.
    pub millis: u64,
    /// Jobs that passed on it in that time.
    pub jobs: u64,
}

impl Assignment {
    /// A part of which nothing is done yet.
    #[must_use]
    pub const fn new(rollout: RolloutId, pool: PoolName, wave: u16, target: Target) -> Self {
        Self {
            rollout,
            pool,
            wave,
            target,
            exposed: None,
            deferrals: 0,
            batch: None,
            carries: Vec::new(),
            outcome: None,
            ended: None,
            gathered: Gathered { millis: 0, jobs: 0 },
            taken_out: 0,
        }
    }
}

/// How a node's part in a rollout ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeOutcome {
    /// It runs the target and has soaked.
    Done,
    /// It was left out.
    Skipped(SkipReason),
    /// It was taken back to what it ran before, since the release failed on it.
    Reverted,
    /// It is to blame itself, or isn't seen any more.
    Quarantined,
    /// It doesn't exist any more.
    Gone,
}

/// Why a node was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SkipReason {
    /// It failed its checks before the change.
    Preexisting,
    /// Somebody else had cordoned it and didn't let go.
    ForeignCordon,
    /// It wasn't ready.
    NotReady,
    /// A person said so.
    Control,
    /// It was given back several times because it couldn't be emptied.
    Undrainable,
    /// It had run the target already when its turn came.
    AlreadyThere,
    /// The rollout ended first.
    RolloutEnded,
    /// It moves together with this node, which was left out and serves on what it ran before.
    Unit(NodeId),
    /// Nodes that are broken use up this budget's floor.
    Floor(BudgetName),
    /// This job runs on it and is larger than a budget lets go at once.
    Gang(GangId),
    /// Its hardware and the release don't go together.
    Incompatible,
}

impl SkipReason {
    /// As part of a sentence that begins with the node, with what a person can do about it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Preexisting => "it failed its checks before the change".to_owned(),
            Self::ForeignCordon => "somebody else keeps it cordoned".to_owned(),
            Self::NotReady => "it isn't ready".to_owned(),
            Self::Control => "a person said so".to_owned(),
            Self::Undrainable => "it was given back too often".to_owned(),
            Self::AlreadyThere => "it runs the target already".to_owned(),
            Self::RolloutEnded => "the rollout ended first".to_owned(),
            Self::Unit(mate) => format!("it moves together with {mate}, which was left out"),
            Self::Floor(budget) => {
                format!("broken nodes use up the floor of budget {budget}: repair them, or lower it")
            }
            Self::Gang(gang) => {
                format!("job {gang} is larger than a budget lets go at once: end it, or allow more")
            }
            Self::Incompatible => "its hardware and the release don't go together".to_owned(),
        }
    }
}

/// A note that a node was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipNote {
    /// Of what.
    pub target: Target,
    /// Why.
    pub reason: SkipReason,
    /// Since when.
    pub at: Timestamp,
    /// How often in a row it was left out for this reason.
    #[serde(default)]
    pub times: u32,
    /// Who said so, where a person did: `git CONTROL: why` lasts as long as it stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A reservation and the way through it. Written before the first side effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Who holds the node.
    pub rollout: RolloutId,
    /// Since when.
    pub since: Timestamp,
    /// Nodes that move together carry the same unit.
    pub unit: UnitId,
    /// The unit is an atomic domain: its nodes return together or go back together.
    pub atomic: bool,
    /// What it ran when it was reserved, or its last known good: the way back.
    pub from: Target,
    /// The rollout's target for it.
    pub to: Target,
    /// Where it is heading.
    pub course: Course,
    /// What is being done.
    pub step: Step,
    /// Since when.
    pub step_since: Timestamp,
    /// When patience with the step ends.
    pub deadline: Timestamp,
    /// Tries of the step, from 1.
    pub attempt: u32,
    /// The step isn't begun (again) before this instant.
    pub not_before: Option<Timestamp>,
    /// Boot before the step, where the step reboots.
    pub boot_id: u64,
    /// The step is done; the other nodes of the unit are awaited.
    pub arrived: bool,
    /// Good rounds of the present step. One is enough, two after a bad one.
    pub passes: u32,
    /// It has been drained in this visit.
    pub drained: bool,
    /// Somebody else had cordoned the node when it was reserved; that cordon is left when the node returns.
    pub foreign_cordon: bool,
    /// Since when it hasn't been seen, while it isn't.
    pub lost_since: Option<Timestamp>,
    /// Failing results of the present course, newest last, at most [`EVIDENCE_MAX`].
    pub evidence: Vec<Evidence>,
    /// Other node of pair checks; changes when the partner is suspected.
    pub partner: Option<NodeId>,
    /// Inconclusive rounds of the present step.
    pub inconclusive: u32,
    /// Something was changed on the node in this visit, for whichever rollout: only a check lets it serve again.
    #[serde(default)]
    pub changed: bool,
    /// Since when it is empty and waits for the turn of its wave, after a newer rollout has taken it over.
    #[serde(default)]
    pub held_since: Option<Timestamp>,
    /// Times that somebody else undid what the visit had done: its cordon, a version, the node being there at all.
    #[serde(default)]
    pub fights: u32,
    /// When patience with the visit as a whole ends, where that isn't counted from its begin: time in which its cluster
    /// wasn't seen doesn't count.
    #[serde(default)]
    pub ends: Option<Timestamp>,
    /// Failing rounds of the present course. Evidence is kept up to a limit, tries are counted without one.
    #[serde(default)]
    pub failed_rounds: u32,
    /// It goes back though no check has failed: none could be run on it, or what it shows again and again is none that they
    /// see. Being good on what it ran before then proves nothing against the version.
    #[serde(default)]
    pub untold: bool,
    /// The quarantine it came out of when a person said `retry`. It goes back into it unless it passes its checks.
    #[serde(default)]
    pub quarantined: Option<Box<NodeQuarantine>>,
}

/// Evidence kept per visit: enough for three tries of three checks on both releases.
pub const EVIDENCE_MAX: usize = 18;

/// Where a visit is heading.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Course {
    /// To the rollout's target.
    Forward,
    /// Back to `from`, to tell whether the version or the node is to blame (A-B-A).
    Back,
    /// Out of the visit, with this result.
    Out(VisitEnd),
}

/// How a visit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VisitEnd {
    /// Verified on the target.
    Upgraded,
    /// Verified on `from` again, after the target failed.
    Reverted,
    /// Given back untouched, to be tried again later.
    Deferred,
    /// Given back untouched: the rollout ended, or doesn't want it any more.
    GivenBack,
    /// Failed its checks before the change.
    Preexisting,
}

/// What is being done with a reserved node. The order of the variants is the order of a visit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Artefacts of both releases are fetched and checks run on what is there.
    Preflight,
    /// New pods are kept away.
    Cordon,
    /// Jobs are asked for a checkpoint.
    Checkpoint,
    /// Pods leave.
    Drain,
    /// Components are changed, one after the other; this is the one whose turn it is.
    Apply(ApplyItem),
    /// Checks run on what was applied.
    Verify,
    /// The other nodes of an atomic unit are awaited.
    Fence,
    /// Own cordon and taint go.
    Return,
}

/// One thing that is changed on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ApplyItem {
    /// A component gets another version (or goes, where the target has none).
    Component(ComponentName),
    /// GPUs are cut anew.
    Layout,
}

impl Step {
    /// Position in a visit; nodes of a unit wait for each other between positions.
    #[must_use]
    pub const fn stage(&self) -> u8 {
        match self {
            Self::Preflight => 0,
            Self::Cordon => 1,
            Self::Checkpoint => 2,
            Self::Drain => 3,
            Self::Apply(_) => 4,
            Self::Verify => 5,
            Self::Fence => 6,
            Self::Return => 7,
        }
    }
    /// The word used on screens and in metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::Cordon => "cordon",
            Self::Checkpoint => "checkpoint",
            Self::Drain => "drain",
            Self::Apply(_) => "apply",
            Self::Verify => "verify",
            Self::Fence => "fence",
            Self::Return => "return",
        }
    }
}

/// A failing result that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What ran on the node at the time.
    pub on: Target,
    /// Class of the failing thing.
    pub class: FailureClass,
    /// The result, when it came from a check.
    pub result: Option<CheckResult>,
    /// One sentence.
    pub text: String,
    /// When it was judged.
    pub at: Timestamp,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FailureClass {
    /// Applying a component or a layout.
    Apply,
    /// A check of this class.
    Check(CheckClass),
    /// The node wasn't seen any more.
    Lost,
    /// A health fault while it soaked.
    Health,
}

/// A node that serves on a new release and is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// The rollout that brought it.
    pub rollout: RolloutId,
    /// What it runs.
    pub target: Target,
    /// What it ran before: the way back if it fails now.
    pub from: Target,
    /// Since when it has been good without a break.
    pub since: Timestamp,
    /// Its count of jobs at that time.
    pub jobs_at_start: u64,
    /// When the release was first given to it. A fault that began since then and is still there is the soak's to judge,
    /// also one that came after the last check and before the return.
    #[serde(default)]
    pub given: Option<Timestamp>,
    /// How often it wasn't ready for a moment and came back.
    #[serde(default)]
    pub spells: u32,
}

/// Why a node is kept away from work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeQuarantine {
    /// The rollout in which it failed.
    pub rollout: RolloutId,
    /// Since when.
    pub since: Timestamp,
    /// What is to blame.
    pub blame: Blame,
    /// What was seen, on both releases.
    pub evidence: Vec<Evidence>,
    /// When a person said `retry`. It stays cordoned until its checks have passed.
    #[serde(default)]
    pub retry: Option<Timestamp>,
}

/// What is to blame for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Blame {
    /// The same node passed again on what it ran before.
    Version,
    /// It failed on what it ran before, too.
    Node,
    /// It isn't known.
    Unknown,
}

/// A good value before a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Measured value.
    pub value: Option<f64>,
    /// End of the run.
    pub at: Timestamp,
    /// What ran on the node.
    pub on: Target,
}
