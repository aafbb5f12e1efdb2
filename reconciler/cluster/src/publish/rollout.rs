//! What a rollout's object should say. A pure function of the ledger, of the reasons, and of what it said before.

use std::collections::{BTreeMap, BTreeSet};

use drydock_api::crd::{
    CommitNote, Counts, FailureNote, NOTES_MAX, QuarantinedRelease, RolloutSpec, RolloutStatus, TEXT_MAX,
    WaveStatus, bounded,
};
use drydock_plan::{
    Failure, Ledger, NodeOutcome, NodeRecord, PauseReason, ReleaseId, RolloutKind, RolloutRecord,
    RolloutState, WaveState,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::conditions::{Stand, conditions, number, record, target};

/// Fields of the record that never change after the rollout was made. They stand in `spec`, the others in `status`.
const FROZEN: [&str; 9] =
    ["id", "policy", "strategy", "suite", "commit", "kind", "targets", "security", "created"];

/// Most pools, waves and releases named.
const POOLS_MAX: usize = 1000;
const WAVES_MAX: usize = 200;
const RELEASES_MAX: usize = 64;

/// Entries of history that are published; the ledger has more.
const HISTORY_MAX: usize = 50;

/// Pieces of evidence published for each failure: what was seen on the new release and on the old one.
const EVIDENCE_MAX: usize = 2;

/// Largest published record, in bytes of JSON. etcd takes 1.5 MiB with everything around it.
const RECORD_MAX: usize = 512 << 10;

/// The frozen plan.
pub(super) fn spec(of: &RolloutRecord) -> RolloutSpec {
    let mut whole = record(of);
    whole.retain(|key, _| FROZEN.contains(&key.as_str()));
    let (kind, back) = match &of.kind {
        RolloutKind::Forward => ("Forward", None),
        RolloutKind::Rollback { of } => ("Rollback", Some(of.to_string())),
        RolloutKind::Revert => ("Revert", None),
    };
    RolloutSpec {
        policy: of.policy.to_string(),
        kind: kind.to_owned(),
        of: back,
        commit: CommitNote {
            id: bounded(&of.commit.id, 128),
            summary: bounded(&of.commit.summary, TEXT_MAX),
            author: bounded(&of.commit.author, TEXT_MAX),
        },
        targets: of.targets.iter().take(POOLS_MAX).map(|(pool, t)| (pool.to_string(), target(t))).collect(),
        waves: of.waves.iter().take(WAVES_MAX).map(|wave| wave.name.to_string()).collect(),
        record: whole,
    }
}

/// How far it is. `reasons` are sentences, the most important first.
pub(super) fn status(
    of: &RolloutRecord,
    ledger: &Ledger,
    reasons: &[String],
    before: Option<&RolloutStatus>,
    now: Timestamp,
) -> RolloutStatus {
    let members: Vec<(&NodeRecord, usize)> = ledger
        .nodes
        .values()
        .filter_map(|node| {
            let part = node.assignment.as_ref().filter(|part| part.rollout == of.id)?;
            Some((node, usize::from(part.wave)))
        })
        .collect();
    let waves = waves(of, &members, before);
    let mut total = Counts::default();
    waves.iter().for_each(|wave| add(&mut total, &wave.counts));
    let (done, all) = match &of.summary {
        Some(summary) => (i64::from(summary.done), i64::from(summary.nodes)),
        None => (total.done, total.total),
    };
    let open = of.waves.iter().find(|w| !matches!(w.state, WaveState::Complete | WaveState::Skipped));
    let (stand, reason, message) = stand(of);
    let reasons: Vec<String> =
        reasons.iter().take(NOTES_MAX).map(|reason| bounded(reason, TEXT_MAX)).collect();
    let first = reasons.first().cloned().unwrap_or_else(|| message.clone());
    RolloutStatus {
        observed_generation: 0,
        ledger_revision: number(ledger.revision),
        state: of.state.word().to_owned(),
        wave: open.or(of.waves.last()).map(|wave| wave.name.to_string()).unwrap_or_default(),
        done: format!("{done}/{all}"),
        exposed: i64::from(of.exposed),
        reason: first,
        reasons,
        waves,
        failures: newest(&of.failures).map(failure).collect(),
        failures_total: number(u64::try_from(of.failures.len()).unwrap_or(u64::MAX)),
        quarantined: quarantined(of, ledger),
        ended: of.ended,
        releases: releases(of, ledger, &members, before),
        record: changing(of),
        conditions: conditions(
            stand,
            reason,
            &message,
            before.map(|b| b.conditions.as_slice()).unwrap_or_default(),
            now,
        ),
    }
}

fn newest(failures: &[Failure]) -> impl Iterator<Item = &Failure> {
    failures.iter().skip(failures.len().saturating_sub(NOTES_MAX))
}

fn failure(failure: &Failure) -> FailureNote {
    FailureNote {
        node: failure.node.to_string(),
        class: match failure.class {
            drydock_plan::FailureClass::Check(class) => format!("{class:?}"),
            other => format!("{other:?}"),
        },
        blame: format!("{:?}", failure.blame),
        release: failure.release.to_string(),
        at: failure.at,
        evidence: failure.evidence.iter().take(NOTES_MAX).map(|seen| bounded(&seen.text, TEXT_MAX)).collect(),
    }
}

fn quarantined(of: &RolloutRecord, ledger: &Ledger) -> Vec<QuarantinedRelease> {
    let here = ledger.quarantines.iter().filter(|(_, why)| why.rollout == of.id);
    here.take(POOLS_MAX)
        .map(|((pool, release), why)| QuarantinedRelease {
            pool: pool.to_string(),
            release: release.to_string(),
            since: why.since,
            why: bounded(&why.why, TEXT_MAX),
        })
        .collect()
}

/// When the assignments are gone, what was counted last stands.
fn waves(
    of: &RolloutRecord,
    members: &[(&NodeRecord, usize)],
    before: Option<&RolloutStatus>,
) -> Vec<WaveStatus> {
    let mut waves: Vec<WaveStatus> = of
        .waves
        .iter()
        .take(WAVES_MAX)
        .map(|wave| WaveStatus {
            name: wave.name.to_string(),
            state: format!("{:?}", wave.state),
            counts: Counts::default(),
        })
        .collect();
    for (node, wave) in members {
        let Some(wave) = waves.get_mut(*wave) else { continue };
        count(&mut wave.counts, node);
    }
    if members.is_empty() && of.state.is_final() {
        for wave in &mut waves {
            let known = before.and_then(|before| before.waves.iter().find(|known| known.name == wave.name));
            if let Some(known) = known {
                wave.counts = known.counts.clone();
            }
        }
    }
    waves
}

fn count(counts: &mut Counts, node: &NodeRecord) {
    counts.total += 1;
    let outcome = node.assignment.as_ref().and_then(|part| part.outcome.as_ref());
    let place = match outcome {
        Some(NodeOutcome::Done) => &mut counts.done,
        Some(NodeOutcome::Skipped(_)) => &mut counts.skipped,
        Some(NodeOutcome::Reverted) => &mut counts.reverted,
        Some(NodeOutcome::Quarantined) => &mut counts.quarantined,
        Some(NodeOutcome::Gone) => &mut counts.gone,
        None if node.visit.is_some() => &mut counts.in_flight,
        None if node.soak.is_some() => &mut counts.soaking,
        None => &mut counts.waiting,
    };
    *place += 1;
}

fn add(total: &mut Counts, one: &Counts) {
    total.total += one.total;
    total.waiting += one.waiting;
    total.in_flight += one.in_flight;
    total.soaking += one.soaking;
    total.done += one.done;
    total.skipped += one.skipped;
    total.reverted += one.reverted;
    total.quarantined += one.quarantined;
    total.gone += one.gone;
}

/// Contents of the releases that its nodes name. What was published stays: a node that has left may still need its way
/// back.
fn releases(
    of: &RolloutRecord,
    ledger: &Ledger,
    members: &[(&NodeRecord, usize)],
    before: Option<&RolloutStatus>,
) -> Map<String, Value> {
    let mut named: BTreeSet<&ReleaseId> = of.targets.values().map(|target| &target.release).collect();
    for (node, _) in members {
        let visit = node.visit.as_ref().into_iter().flat_map(|visit| [&visit.from, &visit.to]);
        let soak = node.soak.as_ref().into_iter().flat_map(|soak| [&soak.from, &soak.target]);
        let good = node.last_known_good.iter().chain(&node.previous_good);
        named.extend(visit.chain(soak).chain(good).map(|target| &target.release));
    }
    let mut all = before.map(|before| before.releases.clone()).unwrap_or_default();
    for id in named {
        if all.len() >= RELEASES_MAX {
            break;
        }
        let value = ledger.releases.get(id).and_then(|vector| serde_json::to_value(vector).ok());
        if let Some(value) = value {
            all.entry(id.to_string()).or_insert(value);
        }
    }
    all
}

/// What of the record changes, bounded: old failures lose their evidence first, then history goes.
fn changing(of: &RolloutRecord) -> Map<String, Value> {
    let mut part = of.clone();
    let kept = part.failures.len().saturating_sub(NOTES_MAX);
    for (n, failure) in part.failures.iter_mut().enumerate() {
        failure.evidence.truncate(if n < kept { 0 } else { EVIDENCE_MAX });
    }
    part.history.drain(..part.history.len().saturating_sub(HISTORY_MAX));
    let bounded = |part: &RolloutRecord| {
        let mut map = record(part);
        map.retain(|key, _| !FROZEN.contains(&key.as_str()));
        map
    };
    let map = bounded(&part);
    let size = serde_json::to_vec(&map).map_or(usize::MAX, |bytes| bytes.len());
    if size <= RECORD_MAX {
        return map;
    }
    part.history.clear();
    part.failures.iter_mut().for_each(|failure| failure.evidence.clear());
    bounded(&part)
}

fn stand(of: &RolloutRecord) -> (Stand, &'static str, String) {
    match &of.state {
        RolloutState::Running => {
            (Stand::Reconciling, "Running", "nodes are admitted as rules allow".to_owned())
        }
        RolloutState::Paused(PauseReason::Aborting { by }) => {
            (Stand::Reconciling, "Aborting", format!("{by} ended it; what is in flight finishes"))
        }
        RolloutState::Paused(PauseReason::Control { by }) => {
            (Stand::Stalled, "Paused", format!("paused by {by}"))
        }
        RolloutState::Paused(PauseReason::Inconclusive { node, detail }) => {
            let message = format!("what runs checks is broken, seen on {node}: {detail}");
            (Stand::Stalled, "PausedInconclusive", message)
        }
        RolloutState::Paused(PauseReason::Deadline) => {
            (Stand::Stalled, "PausedDeadline", "it has run longer than its policy allows".to_owned())
        }
        RolloutState::Paused(PauseReason::NothingPassed { wave, detail }) => {
            (Stand::Stalled, "PausedNothingPassed", format!("nobody has passed wave {wave}: {detail}"))
        }
        RolloutState::Halted => {
            (Stand::Reconciling, "Halted", "its release failed; what is in flight finishes".to_owned())
        }
        RolloutState::RollingBack => {
            (Stand::Reconciling, "RollingBack", format!("its nodes go back{}", by(of.child.as_ref())))
        }
        RolloutState::Succeeded => (Stand::Ready, "Succeeded", "all waves are complete".to_owned()),
        RolloutState::RolledBack => {
            (Stand::Over, "RolledBack", "its release failed; the nodes are back".to_owned())
        }
        RolloutState::RollbackBlocked => {
            (Stand::Stalled, "RollbackBlocked", "the way back failed as well; a person is needed".to_owned())
        }
        RolloutState::Superseded => {
            (Stand::Over, "Superseded", format!("replaced{}", by(of.superseded_by.as_ref())))
        }
        RolloutState::Aborted => (Stand::Over, "Aborted", "a person ended it".to_owned()),
        RolloutState::Rejected { why } => (Stand::Stalled, "Rejected", why.join("; ")),
    }
}

fn by(rollout: Option<&drydock_plan::RolloutId>) -> String {
    rollout.map_or(String::new(), |id| format!(" by {id}"))
}

/// What of a status is worth a request at once, as opposed to numbers and reasons that may wait.
pub(super) fn marks(status: &RolloutStatus) -> BTreeMap<String, String> {
    let waves = status.waves.iter().map(|wave| (format!("wave {}", wave.name), wave.state.clone()));
    let rest = [("state".to_owned(), status.state.clone()), ("wave".to_owned(), status.wave.clone())];
    let quarantined = [("quarantined".to_owned(), status.quarantined.len().to_string())];
    waves.chain(rest).chain(quarantined).collect()
}

/// Whether anything of it is different besides what changes with every commit of anybody.
pub(super) fn differs(one: &RolloutStatus, other: &RolloutStatus) -> bool {
    let plain = |status: &RolloutStatus| RolloutStatus {
        observed_generation: 0,
        ledger_revision: 0,
        conditions: Vec::new(),
        ..status.clone()
    };
    plain(one) != plain(other)
}
