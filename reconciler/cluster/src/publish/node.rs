//! What a node's object should say. A pure function of its record and of what was observed.

use std::collections::BTreeMap;

use drydock_api::crd::{
    CheckNote, Condition, GpuNodeSpec, GpuNodeStatus, NOTES_MAX, QuarantineNote, Reservation, Running,
    TEXT_MAX, bounded,
};
use drydock_plan::{NodeId, NodeRecord, ObservedNode, Target};
use jiff::Timestamp;

use super::conditions::{Stand, conditions, number, record, target};

/// Most components named in a status.
const VERSIONS_MAX: usize = 64;

/// Whether there is something to say. A node that only stands in a list of nodes to come has nothing yet.
pub(super) fn is_worth_it(record: &NodeRecord) -> bool {
    record.visit.is_some()
        || record.soak.is_some()
        || record.quarantine.is_some()
        || record.last_known_good.is_some()
}

/// What the node should run, as its record has it.
fn aim(record: &NodeRecord) -> Option<&Target> {
    let of_visit = record.visit.as_ref().map(|visit| match visit.course {
        drydock_plan::Course::Forward => &visit.to,
        drydock_plan::Course::Back => &visit.from,
        drydock_plan::Course::Out(drydock_plan::VisitEnd::Upgraded) => &visit.to,
        drydock_plan::Course::Out(
            drydock_plan::VisitEnd::Reverted
            | drydock_plan::VisitEnd::Deferred
            | drydock_plan::VisitEnd::GivenBack
            | drydock_plan::VisitEnd::Preexisting,
        ) => &visit.from,
    });
    of_visit.or(record.soak.as_ref().map(|soak| &soak.target)).or(record.last_known_good.as_ref())
}

/// The intent, without the record: what of it changes is what may be worth a request.
pub(super) fn intent(id: &NodeId, record: &NodeRecord, observed: Option<&ObservedNode>) -> GpuNodeSpec {
    let assigned = record.assignment.as_ref().map(|part| part.pool.to_string());
    GpuNodeSpec {
        cluster: id.cluster().to_owned(),
        pool: assigned.or_else(|| observed?.pool.as_ref().map(ToString::to_string)),
        target: aim(record).map(target),
        reservation: record.visit.as_ref().map(|visit| Reservation {
            rollout: visit.rollout.to_string(),
            epoch: number(record.epoch.0),
            since: visit.since,
            step: visit.step.word().to_owned(),
            deadline: visit.deadline,
            attempt: i32::try_from(visit.attempt).unwrap_or(i32::MAX),
            foreign_cordon: visit.foreign_cordon,
        }),
        quarantine: record.quarantine.as_ref().map(|quarantine| QuarantineNote {
            rollout: quarantine.rollout.to_string(),
            since: quarantine.since,
            why: bounded(
                quarantine.evidence.last().map_or("it failed its checks", |seen| seen.text.as_str()),
                TEXT_MAX,
            ),
        }),
        generation: number(record.generation.0),
        ledger_revision: 0,
        record: serde_json::Map::new(),
    }
}

/// The whole intent.
pub(super) fn spec(
    id: &NodeId,
    of: &NodeRecord,
    observed: Option<&ObservedNode>,
    revision: u64,
) -> GpuNodeSpec {
    GpuNodeSpec { ledger_revision: number(revision), record: record(of), ..intent(id, of, observed) }
}

/// What was observed, and what is to be said of it.
pub(super) fn status(
    record: &NodeRecord,
    observed: Option<&ObservedNode>,
    before: &[Condition],
    now: Timestamp,
) -> GpuNodeStatus {
    let (stand, reason, message) = stand(record, observed);
    let conditions = conditions(stand, reason, &message, before, now);
    let Some(seen) = observed else { return GpuNodeStatus { conditions, ..GpuNodeStatus::default() } };
    let versions: BTreeMap<String, String> = seen
        .running
        .vector
        .0
        .iter()
        .take(VERSIONS_MAX)
        .map(|(component, version)| (component.to_string(), version.version.to_string()))
        .collect();
    let report = seen.report.as_ref();
    let checks = report.map(|report| report.checks.as_slice()).unwrap_or_default();
    let newest = checks.get(checks.len().saturating_sub(NOTES_MAX)..).unwrap_or_default();
    GpuNodeStatus {
        observed_generation: 0,
        running: Some(Running { release: seen.running.id.to_string(), versions }),
        layout: seen.layout.as_ref().map(ToString::to_string),
        gpus: i32::try_from(seen.gpus).unwrap_or(i32::MAX),
        generation: report.map(|report| number(report.generation.0)),
        checks: newest
            .iter()
            .map(|check| CheckNote {
                name: check.check.to_string(),
                verdict: format!("{:?}", check.verdict),
                value: check.value.filter(|value| value.is_finite()),
                detail: bounded(&check.detail, TEXT_MAX),
                finished: check.finished,
            })
            .collect(),
        conditions,
    }
}

fn stand(record: &NodeRecord, observed: Option<&ObservedNode>) -> (Stand, &'static str, String) {
    if let Some(quarantine) = &record.quarantine {
        let message = format!("kept away from work since it failed in {}", quarantine.rollout);
        return (Stand::Stalled, "Quarantined", message);
    }
    if let Some(visit) = &record.visit {
        let message = format!("{} by {}", visit.step.word(), visit.rollout);
        return (Stand::Reconciling, "InFlight", message);
    }
    let Some(seen) = observed else {
        return (Stand::Reconciling, "NotSeen", "the node isn't seen".to_owned());
    };
    match aim(record) {
        Some(aim) if seen.running.id != aim.release => {
            let message = format!("it runs {} and should run {}", seen.running.id, aim.release);
            (Stand::Reconciling, "Differs", message)
        }
        Some(aim) if aim.layout.is_some() && seen.layout != aim.layout => {
            (Stand::Reconciling, "Differs", "its GPUs are cut otherwise than they should be".to_owned())
        }
        Some(_) if !seen.ready => (Stand::Reconciling, "NotReady", "the node isn't ready".to_owned()),
        Some(_) => (Stand::Ready, "OnTarget", "it runs what it should".to_owned()),
        None => (Stand::Reconciling, "NoTarget", "nothing is asked of it".to_owned()),
    }
}
