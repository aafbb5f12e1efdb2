//! Rollouts on the screens.

use drydock_plan::{
    CommitRef, Halt, NodeCounts, PauseReason, Reason, RolloutId, RolloutKind, RolloutRecord, RolloutReport,
    RolloutState, Wait, WaveState,
};
use drydock_spec::{PolicyName, WaveName};
use jiff::Timestamp;
use serde::Serialize;
use std::sync::Arc;

use super::Facts;

/// A rollout as a row of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutRow {
    /// Its name.
    pub id: RolloutId,
    /// The policy it runs.
    pub policy: PolicyName,
    /// Forward, or back.
    pub kind: RolloutKind,
    /// State, as a word.
    pub state: &'static str,
    /// State, with its details.
    pub state_detail: RolloutState,
    /// The commit that asked for it.
    pub commit: CommitRef,
    /// When it was made.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Its waves.
    pub waves: Vec<WaveRow>,
    /// Everything that keeps it paused, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseReason>,
    /// Why it doesn't go on as a whole.
    pub waits: Vec<Reason>,
    /// Failures whose blame is settled.
    pub failures: u32,
    /// Why it halted.
    pub halt: Option<Halt>,
    /// The rollout that takes its nodes back.
    pub child: Option<RolloutId>,
    /// The rollout that replaced it.
    pub superseded_by: Option<RolloutId>,
}

/// A wave as a part of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveRow {
    /// Its name.
    pub name: WaveName,
    /// State.
    pub state: WaveState,
    /// Number of the open or last batch.
    pub batch: u32,
    /// When it began to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Nodes by how far they are; absent when the rollout has ended.
    pub counts: Option<NodeCounts>,
    /// Reasons, each with how many nodes it holds.
    pub waits: Vec<Wait>,
}

/// Everything about a rollout.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDetail {
    /// The row.
    #[serde(flatten)]
    pub row: RolloutRow,
    /// Its record.
    pub record: Arc<RolloutRecord>,
}

impl Facts {
    /// What the last pass said about a rollout.
    #[must_use]
    pub fn rollout_report(&self, id: &RolloutId) -> Option<&RolloutReport> {
        self.report.rollouts.iter().find(|report| report.id == *id)
    }

    /// A rollout as a row.
    #[must_use]
    pub fn rollout_row(&self, record: &RolloutRecord) -> RolloutRow {
        let report = self.rollout_report(&record.id);
        let waves = record.waves.iter().map(|wave| {
            let told = report.and_then(|report| report.waves.iter().find(|told| told.name == wave.name));
            WaveRow {
                name: wave.name.clone(),
                state: wave.state,
                batch: wave.batch,
                started: wave.started,
                ended: wave.ended,
                counts: told.map(|told| told.counts.clone()),
                waits: told.map(|told| told.waits.clone()).unwrap_or_default(),
            }
        });
        RolloutRow {
            id: record.id.clone(),
            policy: record.policy.clone(),
            kind: record.kind.clone(),
            state: record.state.word(),
            state_detail: record.state.clone(),
            commit: record.commit.clone(),
            created: record.created,
            ended: record.ended,
            waves: waves.collect(),
            waits: report.map(|report| report.waits.clone()).unwrap_or_default(),
            pauses: record.pauses().cloned().collect(),
            failures: u32::try_from(record.failures.len()).unwrap_or(u32::MAX),
            halt: record.halt.clone(),
            child: record.child.clone(),
            superseded_by: record.superseded_by.clone(),
        }
    }

    /// All rollouts, newest first.
    #[must_use]
    pub fn rollout_rows(&self) -> Vec<RolloutRow> {
        let mut records: Vec<_> = self.ledger.rollouts.values().collect();
        records.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        records.into_iter().map(|record| self.rollout_row(record)).collect()
    }

    /// Everything about a rollout.
    #[must_use]
    pub fn rollout_detail(&self, id: &RolloutId) -> Option<RolloutDetail> {
        let record = self.ledger.rollouts.get(id)?;
        Some(RolloutDetail { row: self.rollout_row(record), record: Arc::clone(record) })
    }
}
