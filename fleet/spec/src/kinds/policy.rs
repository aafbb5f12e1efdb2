use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Amount, ClusterName, Glob, Period, SuiteName};

use super::{DomainKey, Wave};

/// `kind: RolloutPolicy`: how the pools it selects are moved from one release to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySpec {
    /// Which pools. A pool belongs to at most one policy.
    pub select: PoolSelector,
    /// Waves, in order.
    pub waves: Vec<Wave>,
    /// Checks before and after the change.
    pub checks: SuiteName,
    /// Among nodes that may go, which goes first.
    #[serde(default = "default_order")]
    pub order: Vec<OrderKey>,
    /// In at most so many clusters at once. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_clusters: u32,
    /// Domains that must move together.
    #[serde(default)]
    pub atomic: Vec<DomainKey>,
    /// Domains of which only so many nodes may be touched at once.
    #[serde(default)]
    pub spread: Vec<Spread>,
    /// Nodes that somebody else cordoned.
    #[serde(default)]
    pub foreign_cordon: ForeignCordon,
    /// How nodes are emptied.
    #[serde(default)]
    pub drain: Drain,
    /// What happens when the release is to blame.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Rules for the way back.
    #[serde(default)]
    pub rollback: Rollback,
    /// How often things are tried again.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// What happens when Git changes its mind under way.
    #[serde(default)]
    pub supersede: Supersede,
    /// Images and modules of the new and of the last good release are on the node before it is cordoned.
    #[serde(default = "yes")]
    pub prefetch: bool,
    /// Ends of patience.
    #[serde(default)]
    pub deadline: Deadlines,
    /// A unit that was passed over for this long goes first; smaller ones may only fill in if they are back in time.
    /// Default 2h.
    #[serde(default = "default_patience")]
    pub patience: Period,
    /// A node not seen for this long while it is away is given up as lost. Default 30m: twice a slow reboot.
    #[serde(default = "default_lost_after")]
    pub lost_after: Period,
    /// What happens to nodes whose live state was changed by somebody else.
    #[serde(default)]
    pub drift: DriftPolicy,
}

fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn default_order() -> Vec<OrderKey> {
    vec![OrderKey::PreferIdle, OrderKey::LeastLostGpuHours, OrderKey::FewestIncidents, OrderKey::StableHash]
}
fn default_patience() -> Period {
    Period::from_hours(2)
}
fn default_lost_after() -> Period {
    Period::from_mins(30)
}

/// Selects pools. All fields that are given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSelector {
    /// By pool name pattern; all when empty.
    #[serde(default)]
    pub pools: Vec<Glob>,
    /// By cluster.
    #[serde(default)]
    pub clusters: Vec<ClusterName>,
    /// By environment of the cluster.
    #[serde(default)]
    pub environments: Vec<String>,
    /// By labels of the pool's cluster.
    #[serde(default)]
    pub cluster_labels: BTreeMap<String, String>,
    /// By labels of the pool.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Keys of the order among units that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OrderKey {
    /// Nodes without GPU pods first.
    PreferIdle,
    /// Those whose going costs the fewest GPU-hours (time since checkpoint, size of the gang) first.
    LeastLostGpuHours,
    /// Those with the fewest earlier failures first.
    FewestIncidents,
    /// By a hash of release and node, so that canaries rotate between releases.
    StableHash,
    /// By name.
    Name,
}

/// At most so many nodes of one domain at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// Kind of domain.
    pub key: DomainKey,
    /// Limit in each; a percentage is of the domain's nodes, rounded down.
    pub max: Amount,
    /// A positive percentage that rounds down to nothing counts as one.
    #[serde(default)]
    pub at_least_one: bool,
}

/// What to do with nodes that somebody else cordoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ForeignCordon {
    /// Wait until the cordon is gone.
    #[default]
    Wait,
    /// Upgrade them while they are out anyway, and leave the cordon.
    Opportunistic,
}

/// How nodes are emptied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Drain {
    /// Jobs that span nodes.
    pub gangs: Gangs,
    /// Asking jobs for a checkpoint first.
    pub checkpoint: Checkpoint,
    /// Pod disruption budgets that say no.
    pub pdb: Pdb,
    /// Pods without a controller. Default wait: nobody would create them again.
    pub unmanaged: Unmanaged,
    /// Pods with an `emptyDir` on the node's disk. Default evict: nearly every training pod has one for scratch, and an
    /// `emptyDir` promises nothing beyond its pod. One with `medium: Memory` never counts.
    pub local_storage: LocalStorage,
    /// Time that pods get to end, instead of their own `terminationGracePeriodSeconds`.
    pub pod_grace_period: Option<Period>,
    /// Longest drain after that. Default 15m.
    pub timeout: Period,
    /// What happens at the end of patience.
    pub on_timeout: OnTimeout,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            gangs: Gangs::Together,
            checkpoint: Checkpoint::default(),
            pdb: Pdb::default(),
            unmanaged: Unmanaged::Wait,
            local_storage: LocalStorage::Evict,
            pod_grace_period: None,
            timeout: Period::from_mins(15),
            on_timeout: OnTimeout::Defer,
        }
    }
}

/// Jobs that span nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Gangs {
    /// All nodes of a gang move together: it is interrupted once.
    #[default]
    Together,
    /// Wait until the gang ends by itself.
    Avoid,
    /// Take nodes as they come.
    Ignore,
}

/// Asking jobs for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Checkpoint {
    /// Longest wait for it. Default 45m.
    pub wait: Period,
    /// What happens at the end of the wait. Default defer: nothing is lost.
    pub on_timeout: OnTimeout,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { wait: Period::from_mins(45), on_timeout: OnTimeout::Defer }
    }
}

/// Pod disruption budgets that say no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pdb {
    /// Longest wait. Default 30m.
    pub wait: Period,
    /// What happens then.
    pub on_blocked: OnTimeout,
}

impl Default for Pdb {
    fn default() -> Self {
        Self { wait: Period::from_mins(30), on_blocked: OnTimeout::Defer }
    }
}

/// What happens to pods without a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unmanaged {
    /// They are evicted like any other.
    Evict,
    /// They are waited for, and named, until `timeout`.
    #[default]
    Wait,
    /// The node is given back at once.
    Fail,
}

/// What happens to pods with an `emptyDir` on the node's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LocalStorage {
    /// They are evicted like any other.
    #[default]
    Evict,
    /// They are waited for, and named, until `timeout`.
    Wait,
}

/// What happens at the end of patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnTimeout {
    /// Give the node back and come again later.
    #[default]
    Defer,
    /// Go on all the same.
    Proceed,
    /// Give the node back and leave it out of this rollout.
    Fail,
}

/// What happens when the release is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OnFailure {
    /// Halt, or go back.
    pub action: FailureAction,
    /// How far back.
    pub scope: RollbackScope,
}

impl Default for OnFailure {
    fn default() -> Self {
        Self { action: FailureAction::Rollback, scope: RollbackScope::FailedAndSuspect }
    }
}

/// Halt, or go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureAction {
    /// Stop and wait for a person.
    Halt,
    /// Take nodes back to the last release they were healthy on.
    Rollback,
}

/// How far back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RollbackScope {
    /// Nodes that failed or are suspect.
    FailedAndSuspect,
    /// Every node of the wave.
    Wave,
    /// Every node the rollout has moved.
    Rollout,
}

/// Rules for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rollback {
    /// Whether it may run in a freeze.
    pub in_freeze: InFreeze,
    /// So many nodes more than `maxInFlight` for a rollback.
    pub budget_boost: u32,
}

/// Whether a rollback may run in a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InFreeze {
    /// It may.
    #[default]
    Allow,
    /// It waits.
    Deny,
}

/// How often things are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Tries of one component on one node. Default 2.
    pub apply_attempts: u32,
    /// Runs of a failing check before it counts. Default 3.
    pub check_attempts: u32,
    /// Runs of a check whose runner broke, before the rollout pauses. Default 3.
    pub inconclusive_attempts: u32,
    /// First wait before a try; doubles up to `backoffMax`. Default 30s.
    pub backoff: Period,
    /// Longest wait before a try. Default 30m.
    pub backoff_max: Period,
    /// Wait before a node that was deferred is tried again. Default 30m.
    pub deferred_cooldown: Period,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            apply_attempts: 2,
            check_attempts: 3,
            inconclusive_attempts: 3,
            backoff: Period::from_secs(30),
            backoff_max: Period::from_mins(30),
            deferred_cooldown: Period::from_mins(30),
        }
    }
}

/// What happens when Git changes its mind under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Supersede {
    /// The new release starts at the first wave again. Default true.
    pub restart_waves: bool,
}

impl Default for Supersede {
    fn default() -> Self {
        Self { restart_waves: true }
    }
}

/// Ends of patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Deadlines {
    /// One rollout; then it pauses and says so. Default 14d.
    pub rollout: Period,
    /// Reboot until the node is back. Default 20m: a DGX takes 10 to 15.
    pub reboot: Period,
    /// Prefetch and preflight together. Default 30m.
    pub preflight: Period,
    /// One visit of a node, from its reservation to its return. Then it is given back, or kept for a person if it was
    /// changed already. Time in which its cluster isn't seen, or checks can't be run, doesn't count. Default 12h: beyond
    /// the sum of all other patience, so that it ends only what no other limit ends.
    pub unit: Period,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            rollout: Period::from_hours(14 * 24),
            reboot: Period::from_mins(20),
            preflight: Period::from_mins(30),
            unit: Period::from_hours(12),
        }
    }
}

/// What happens to nodes whose live state was changed by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DriftPolicy {
    /// Shown, not touched.
    #[default]
    Hold,
    /// Brought back like any other change.
    Heal,
}
