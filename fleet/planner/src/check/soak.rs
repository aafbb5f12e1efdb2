//! I9: done means continuously good on that very target for as long as the policy asks.

use drydock_gpu::xid::{self, RecoveryAction, Suspect, XidClass};
use drydock_plan::{
    Assignment, Course, HealthFault, NodeOutcome, NodeRecord, ObservedNode, RolloutKind, RolloutRecord, Soak,
    VisitEnd,
};
use drydock_spec::Period;
use jiff::Timestamp;

use super::{
    facts,
    findings::Findings,
    view::{Change, View},
};

const SOAK: &str = "I9 soak truth";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for change in &view.changed {
        soak_begins_or_goes_on(change, view.input.now, found);
        if let Some((record, assignment)) = newly_done(change) {
            done(view, change, record, assignment, found);
        }
    }
}

fn newly_done<'a>(change: &Change<'a>) -> Option<(&'a NodeRecord, &'a Assignment)> {
    let is_done = |a: &Assignment| a.outcome == Some(NodeOutcome::Done);
    let record = change.after?;
    let assignment = record.assignment.as_ref().filter(|a| is_done(a))?;
    let before = change.before.and_then(|b| b.assignment.as_ref());
    let was = before.is_some_and(|b| is_done(b) && b.rollout == assignment.rollout);
    (!was).then_some((record, assignment))
}

fn soak_begins_or_goes_on(change: &Change<'_>, now: Timestamp, found: &mut Findings) {
    let Some(soak) = change.after.and_then(|r| r.soak.as_ref()) else { return };
    let id = change.id;
    found.when(soak.since > now, SOAK, || format!("{id} soaks since {}, which is to come", soak.since));
    let before = change.before.and_then(|r| r.soak.as_ref());
    if let Some(old) = before.filter(|old| old.target == soak.target) {
        // The clock may start again, it never gains time.
        found.when(soak.since < old.since, SOAK, || {
            format!("{id}: the soak clock goes back from {} to {}", old.since, soak.since)
        });
        return;
    }
    let upgraded = change.visit_before().filter(|v| v.course == Course::Out(VisitEnd::Upgraded));
    match upgraded {
        None => found.add(SOAK, || format!("{id} soaks without having been upgraded")),
        Some(visit) => {
            found.when(visit.to != soak.target, SOAK, || {
                format!("{id} soaks on {} after a visit for {}", soak.target, visit.to)
            });
            // What was seen before the visit says nothing about the release it brought.
            found.when(soak.since < visit.since, SOAK, || {
                format!("{id} soaks since {}, its visit began at {}", soak.since, visit.since)
            });
        }
    }
}

fn done(
    view: &View<'_>,
    change: &Change<'_>,
    record: &NodeRecord,
    assignment: &Assignment,
    found: &mut Findings,
) {
    let (id, target) = (change.id, &assignment.target);
    let rollout = view.after.rollouts.get(&assignment.rollout);
    let needed = rollout.map_or(Period::ZERO, |r| needed_soak(r, assignment.wave));
    let soak = change.before.and_then(|b| b.soak.as_ref()).filter(|s| s.target == *target);
    match (soak, change.seen) {
        (Some(soak), Some(seen)) => good_for_long_enough(change, soak, seen, needed, view.input.now, found),
        (None, _) => found.when(!needed.is_zero(), SOAK, || {
            format!("{id} is done on {target} without having soaked on it for {needed}")
        }),
        (_, None) => found.add(SOAK, || format!("{id} is done although it isn't seen")),
    }
    if let Some(seen) = change.seen {
        let pool = view.pool_of_part(Some(record), seen);
        let back = rollout.is_some_and(|r| facts::is_automatic_rollback(r));
        let carries = back.then_some(&assignment.carries[..]);
        let runs = facts::runs(view.input.fleet, view.after, pool, seen, target, back, carries);
        found.when(runs == Some(false), SOAK, || {
            format!("{id} is done on {target} and runs {}", seen.running.vector)
        });
    }
    found.when(record.last_known_good.as_ref() != Some(target), SOAK, || {
        format!("{id} is done on {target}, which isn't remembered as good")
    });
}

fn good_for_long_enough(
    change: &Change<'_>,
    soak: &Soak,
    seen: &ObservedNode,
    needed: Period,
    now: Timestamp,
    found: &mut Findings,
) {
    let id = change.id;
    // A node that was away in between has been good only since it came back, whatever the record says.
    let since = soak.since.max(seen.ready_since);
    let lasted = Period::between(since, now);
    found.when(lasted < needed, SOAK, || format!("{id} is done after {lasted} of {needed}"));
    // The clock of the soak starts with the return. What began earlier on this very release is no less a fault of it, and
    // when the release came is in the part of the node, not in its soak.
    let given =
        change.after.and_then(|r| r.assignment.as_ref()).and_then(|a| a.exposed).unwrap_or(soak.since);
    let fault = seen.faults.iter().find(|f| f.since >= given.min(soak.since) && speaks_of_the_node(f));
    found.when(!seen.ready || fault.is_some(), SOAK, || match fault {
        Some(fault) => format!("{id} is done with {} since {}", fault.kind, fault.since),
        None => format!("{id} is done and not ready"),
    });
}

/// A code with which the vendor asks for nothing but another start of the workload, or for nothing at all, says nothing
/// about the node. Where the driver's own verdict was read, that counts.
fn speaks_of_the_node(fault: &HealthFault) -> bool {
    let code = fault.kind.strip_prefix("xid-").and_then(|n| n.parse().ok());
    let row = code.and_then(xid::find);
    match (row, fault.recovery) {
        (None, _) => true,
        (Some(_), Some(RecoveryAction::None)) => false,
        (Some(_), Some(_)) => true,
        (Some(row), None) => {
            let harmless =
                matches!(row.class, XidClass::Application | XidClass::FollowsAnother | XidClass::RecordOnly);
            !harmless && !matches!(row.suspect, Suspect::Workload | Suspect::Nobody)
        }
    }
}

/// The frozen wave's soak. A way back runs in one wave of its own making; there the shortest of the policy's soaks is
/// the least that any reading of it asks for.
fn needed_soak(rollout: &RolloutRecord, wave: u16) -> Period {
    let waves = &rollout.strategy.waves;
    let name = rollout.waves.get(usize::from(wave)).map(|w| &w.name);
    let named = waves.iter().find(|w| Some(&w.name) == name);
    let placed = match rollout.kind {
        RolloutKind::Forward => waves.get(usize::from(wave)),
        RolloutKind::Rollback { .. } | RolloutKind::Revert => None,
    };
    match named.or(placed) {
        Some(wave) => wave.soak.time,
        None => waves.iter().map(|w| w.soak.time).min().unwrap_or(Period::ZERO),
    }
}
