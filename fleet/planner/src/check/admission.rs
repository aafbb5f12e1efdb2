//! I13 and the plain rules of admission: who may be reserved at all.

use drydock_plan::{Course, RolloutState};
use drydock_spec::ForeignCordon;

use super::{
    facts,
    findings::Findings,
    view::{Fresh, View},
};

const BROKEN_CONTROL: &str = "I13 broken control";
const STATE: &str = "admission state";
const LEASE: &str = "admission lease";
/// A node that became ready within the last minute may go again as soon.
const SETTLES: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for fresh in &view.fresh {
        rollout_admits(fresh, found);
        node_is_free(view, fresh, found);
        heads_where_it_is_assigned(fresh, found);
        if fresh.visit.course == Course::Forward {
            release_is_allowed(view, fresh, found);
        }
    }
    for change in &view.changed {
        // Taking a visit over may turn it to a release that was already found bad, too.
        let Some((old, new)) = change.going_on() else { continue };
        let turned = new.course == Course::Forward && (old.to != new.to || old.course != new.course);
        let pool = change.after.and_then(|r| r.assignment.as_ref()).map(|a| &a.pool);
        if let (true, Some(pool)) = (turned, pool) {
            let key = (pool.clone(), new.to.release.clone());
            found.when(view.after.quarantines.contains_key(&key), BROKEN_CONTROL, || {
                format!("{} is turned to {}, which is quarantined on {pool}", change.id, key.1)
            });
        }
    }
}

fn rollout_admits(fresh: &Fresh<'_>, found: &mut Findings) {
    // A rollout that doesn't exist is reported with the ledger.
    let Some(rollout) = fresh.rollout else { return };
    let admits = match rollout.state {
        RolloutState::Running => true,
        RolloutState::Paused(_) | RolloutState::Halted | RolloutState::RollingBack => fresh.urgent,
        RolloutState::Rejected { .. }
        | RolloutState::Succeeded
        | RolloutState::RolledBack
        | RolloutState::RollbackBlocked
        | RolloutState::Superseded
        | RolloutState::Aborted => false,
    };
    found.when(!admits, STATE, || {
        format!("{} is reserved by {}, which is {}", fresh.id, rollout.id, rollout.state.word())
    });
}

fn node_is_free(view: &View<'_>, fresh: &Fresh<'_>, found: &mut Findings) {
    let id = fresh.id;
    let Some(seen) = fresh.seen else {
        return found.add(LEASE, || format!("{id} is reserved and isn't seen"));
    };
    found.when(fresh.pool.is_none(), LEASE, || format!("{id} is reserved and belongs to no pool"));
    let unreachable = view.input.inventory.clusters.get(id.cluster()).and_then(|c| c.error.as_ref());
    found.when(unreachable.is_some(), LEASE, || format!("{id} is reserved and its cluster can't be reached"));
    if let Some(by) = &seen.cordon.foreign {
        let wait = fresh.rollout.is_some_and(|r| r.strategy.foreign_cordon == ForeignCordon::Wait);
        found.when(wait, LEASE, || format!("{id} is reserved and cordoned by {by}"));
        found.when(!fresh.visit.foreign_cordon, "I6 cordon hygiene", || {
            format!("{id}: the cordon of {by} isn't recorded and would be taken away")
        });
    }
    let now = view.input.now;
    let fresh_boot = seen.ready && now.duration_since(seen.ready_since) < SETTLES;
    found.when(fresh_boot && !fresh.urgent, LEASE, || {
        format!("{id} is reserved and became ready only at {}", seen.ready_since)
    });
    let rests = fresh.record.not_before.filter(|t| *t > now);
    found.when(rests.is_some() && !fresh.urgent && !fresh.is_way_back(), LEASE, || {
        format!("{id} is reserved and should rest")
    });
}

fn heads_where_it_is_assigned(fresh: &Fresh<'_>, found: &mut Findings) {
    let Some(assignment) = &fresh.record.assignment else { return };
    found.when(assignment.target != fresh.visit.to, LEASE, || {
        format!("{} is reserved for {} and assigned to {}", fresh.id, fresh.visit.to, assignment.target)
    });
    found.when(assignment.outcome.is_some(), LEASE, || {
        format!("{} is reserved and its part has ended", fresh.id)
    });
}

/// A release that failed isn't tried again, neither forward nor as a way back.
fn release_is_allowed(view: &View<'_>, fresh: &Fresh<'_>, found: &mut Findings) {
    let Some(pool) = fresh.record.assignment.as_ref().map(|a| &a.pool) else { return };
    let (from, to) = (&fresh.visit.from, &fresh.visit.to);
    let key = (pool.clone(), to.release.clone());
    let Some(failed) = view.after.quarantines.get(&key) else { return };
    // Where only the layout changes, the layout is what failed, and another one may be tried.
    let tried = view.after.rollouts.get(&failed.rollout).and_then(|r| r.targets.get(pool));
    // And a way back goes to a release and a layout that were good together.
    let alone = from.release == to.release || fresh.rollout.is_some_and(facts::is_automatic_rollback);
    let other_layout = alone && tried.is_some_and(|t| t.layout != to.layout);
    found.when(!other_layout, BROKEN_CONTROL, || {
        format!("{} is reserved for {}, which is quarantined on {pool}", fresh.id, key.1)
    });
}
