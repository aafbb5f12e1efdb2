//! What must be true at the end of a schedule, from the fleet's own knowledge of which version is bad for which node. It
//! asks the ledger only for what was promised, never for who was meant by it.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{NodeId, Reason, RolloutKind, RolloutRecord, RolloutState};
use drydock_sim::{FaultSpec, How, Place, Run};
use drydock_spec::{CheckClass, CheckOn, ComponentName, DriverSource, PoolName, SuiteSpec, Version};

use super::case::Case;

/// Drains of one node for each thing that people said or committed: there, back, and some times given back again.
const DRAINS_EACH: u64 = 8;
/// Visits of one node, in a run of some weeks at most.
const VISITS_MAX: u64 = 60;

/// Everything that isn't so.
pub fn judge(case: &Case, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    wrong.extend(serving_what_is_bad(case, run));
    wrong.extend(exposure(case, run));
    wrong.extend(succeeded(case, run));
    wrong.extend(good_arrives(case, run));
    wrong.extend(loops(case, run));
    wrong.extend(halts_are_said(run));
    wrong
}

/// Pools whose driver comes with their machines, which drydock leaves, and pools that are gone: no node of theirs runs all
/// of a release.
fn keeps_driver(case: &Case, pool: &PoolName) -> bool {
    let pool = case.last().and_then(|commit| commit.fleet.pools.get(pool));
    pool.is_none_or(|pool| pool.driver_source == DriverSource::Host)
}

fn at_rest(run: &Run) -> bool {
    run.ledger.rollouts.values().all(|r| r.state.is_final() || r.state == RolloutState::Halted)
}

/// A check of the suite on the node itself sees this at once. Checks of pairs and groups may lack others to run with.
fn shows(how: &How, suite: &SuiteSpec) -> bool {
    let of = |pick: &str| {
        suite.checks.iter().any(|check| {
            check.on == CheckOn::Node
                && check.class != CheckClass::Rdma
                && (pick == check.class.as_str() || pick == check.name.as_str())
        })
    };
    match how {
        How::ReadyButBroken { check } | How::HangsInCheck { check } => of(check),
        How::Wedges | How::Bricks => of("driver"),
        How::NotReady
        | How::Hangs
        | How::CrashLoops
        | How::FailsEarly
        | How::FailsHalfway
        | How::NotFound => true,
        How::LosesNode { .. }
        | How::Flaps { .. }
        | How::Slow { .. }
        | How::SlowsDown { .. }
        | How::FaultsLater { .. } => false,
    }
}

fn carries(
    run: &Run,
    rollout: &RolloutRecord,
    component: &ComponentName,
    version: &Version,
) -> BTreeSet<PoolName> {
    let of = |release| run.ledger.releases.get(release).and_then(|vector| vector.get(component));
    let pools = rollout.targets.iter().filter(|(_, t)| of(&t.release).is_some_and(|v| v.version == *version));
    pools.map(|(pool, _)| pool.clone()).collect()
}

/// Once everything has ended, no node serves with something that its checks show to be bad.
fn serving_what_is_bad(case: &Case, run: &Run) -> Vec<String> {
    if !at_rest(run) || case.people_decide() {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for harm in run.world.harms().iter().filter(|harm| harm.serves && harm.brought) {
        let FaultSpec::BadVersion { component, version, .. } = harm.fault else { continue };
        let pool = run.world.machines().find(|(id, _)| *id == harm.node).map(|(_, pool)| pool.clone());
        let forward = |r: &&RolloutRecord| {
            pool.as_ref().is_some_and(|p| carries(run, r, component, version).contains(p))
        };
        let rollouts: Vec<&RolloutRecord> =
            run.ledger.rollouts.values().map(|r| &**r).filter(forward).collect();
        // A policy that halts leaves nodes as they are, and a way back that can't go on waits for a person.
        let said = rollouts.iter().any(|r| {
            matches!(r.state, RolloutState::Halted | RolloutState::RollbackBlocked)
                || r.halt.is_some() && r.child.is_none()
        });
        let seen = rollouts.iter().all(|r| shows(harm.how, &r.suite));
        if seen && !said && !rollouts.is_empty() {
            let states: Vec<&str> = rollouts.iter().map(|r| r.state.word()).collect();
            wrong.push(format!(
                "truth: {} serves with {component} {version}, which is bad there ({:?}); {states:?}",
                harm.node, harm.how
            ));
        }
    }
    wrong.truncate(3);
    wrong
}

/// A version that is bad wherever it comes and that every suite sees doesn't get beyond the first batch.
fn exposure(case: &Case, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    for fault in &case.faults {
        let FaultSpec::BadVersion { component, version, place, how } = fault else { continue };
        if *place != Place::default() || case.edited() || case.people_decide() || case.may_lose_sight() {
            continue;
        }
        for rollout in run.ledger.rollouts.values().filter(|r| r.kind == RolloutKind::Forward) {
            let pools = carries(run, rollout, component, version);
            if pools.len() != rollout.targets.len() || !shows(how, &rollout.suite) {
                continue;
            }
            let Some(most) = bound(rollout) else { continue };
            let given = run.world.given(component, version, rollout.created);
            let of_these: Vec<&&NodeId> = given
                .iter()
                .filter(|id| run.world.machines().any(|(m, pool)| m == **id && pools.contains(pool)))
                .collect();
            if of_these.len() > most {
                wrong.push(format!(
                    "truth: too many were given what is bad everywhere: {} of {most}, {component} {version} ({}): {of_these:?}",
                    of_these.len(),
                    rollout.id
                ));
            }
        }
        if let Some(rollout) = run.ledger.rollouts.values().find(|r| {
            r.state == RolloutState::Succeeded
                && r.kind == RolloutKind::Forward
                && reached(case, run, r, component, version)
                && carries(run, r, component, version).len() == r.targets.len()
                && shows(how, &r.suite)
        }) {
            wrong.push(format!(
                "truth: Succeeded with what is bad everywhere, {component} {version}: {}",
                rollout.id
            ));
        }
    }
    wrong
}

/// Somebody in the pools of a rollout was given a version by it.
fn reached(
    case: &Case,
    run: &Run,
    rollout: &RolloutRecord,
    component: &ComponentName,
    version: &Version,
) -> bool {
    let given = run.world.given(component, version, rollout.created);
    // Where the driver of a pool comes with its machines, that pool's nodes pass.
    rollout.targets.keys().all(|pool| !keeps_driver(case, pool))
        && run.world.machines().any(|(id, pool)| rollout.targets.contains_key(pool) && given.contains(&id))
}

/// Nodes that a version may reach of which none passes: the first batch of one wave, and one more for each failure that
/// the wave bears. Absent where units are larger than a node or the batch is a share.
fn bound(rollout: &RolloutRecord) -> Option<usize> {
    let policy = &rollout.strategy;
    if !policy.atomic.is_empty() {
        return None;
    }
    let most = policy.waves.iter().map(|wave| {
        let drydock_spec::Amount::Count(start) = wave.batch.start else { return None };
        let failure = &wave.failure;
        let class = failure.per_class.values().copied().max().unwrap_or(0);
        (failure.tolerate_percent.is_none()).then_some(start + failure.tolerate.max(class) + failure.lost)
    });
    let most: Option<Vec<u32>> = most.collect();
    most.and_then(|all| all.into_iter().max()).map(|n| n as usize)
}

/// What has Succeeded has reached somebody, and its numbers are those of its nodes.
fn succeeded(case: &Case, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: BTreeMap<&str, &RolloutRecord> = BTreeMap::new();
    for rollout in run.ledger.rollouts.values() {
        let known = last.entry(rollout.policy.as_str()).or_insert(rollout);
        if rollout.created >= known.created {
            *known = rollout;
        }
    }
    let whole = |r: &RolloutRecord| r.targets.keys().all(|pool| !keeps_driver(case, pool));
    let ended = |r: &&RolloutRecord| r.state == RolloutState::Succeeded && r.kind == RolloutKind::Forward;
    for rollout in last.into_values().filter(ended) {
        let mut machines = 0u32;
        let there = run.world.machines().filter(|(id, pool)| {
            let Some(target) = rollout.targets.get(*pool).filter(|_| !keeps_driver(case, pool)) else {
                return false;
            };
            let Some(vector) = run.ledger.releases.get(&target.release) else { return false };
            machines += 1;
            run.world.runs(id, vector, target)
        });
        // A person may have left out all of them.
        if there.count() == 0 && machines > 0 && whole(rollout) && !case.people_decide() {
            wrong.push(format!(
                "truth: Succeeded and none of {machines} nodes runs its release: {}",
                rollout.id
            ));
        }
        if let Some(summary) = &rollout.summary {
            let all = summary.done + summary.skipped + summary.reverted + summary.quarantined + summary.gone;
            if all != summary.nodes {
                wrong.push(format!(
                    "truth: {} was about {} nodes and tells of {all}",
                    rollout.id, summary.nodes
                ));
            }
        }
    }
    wrong
}

/// A good release under nothing but innocent trouble arrives everywhere it can, and nobody is blamed.
fn good_arrives(case: &Case, run: &Run) -> Vec<String> {
    if !case.is_innocent() || !at_rest(run) || case.people_decide() {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    if let Some((pool, release)) = run.ledger.quarantines.keys().next() {
        wrong.push(format!("truth: {release} is good and quarantined on {pool}"));
    }
    for (id, record) in run.ledger.nodes.iter().filter(|(_, r)| r.quarantine.is_some()) {
        wrong.push(format!("truth: {id} is quarantined, and nothing is wrong: {:?}", record.quarantine));
    }
    // Only where the documents stay as they are is everything that was wanted still wanted at the end.
    let Some(last) = case.last().filter(|_| !case.edited()) else { return wrong };
    let all_well = run.ledger.rollouts.values().all(|r| r.state == RolloutState::Succeeded);
    for (id, pool) in run.world.machines().filter(|_| all_well && !run.ledger.rollouts.is_empty()) {
        let known = run.ledger.rollouts.values().any(|r| r.targets.contains_key(pool));
        let covered = known && !keeps_driver(case, pool);
        let named = case.faults.iter().any(|fault| fault.label().contains(id.as_str()));
        let held = run.report.holds.iter().any(|wait| !matches!(wait.reason, Reason::Cooldown { .. }));
        if covered && !named && !held && run.world.is_well(id) && !run.world.runs_target(&last.fleet, id) {
            wrong.push(format!("truth: {id} is well and doesn't run what Git says, and all has Succeeded"));
        }
    }
    wrong.truncate(3);
    wrong
}

/// Nobody is emptied again and again.
fn loops(case: &Case, run: &Run) -> Vec<String> {
    let said = case.commits.len() + case.commands.len() + 1;
    let most = DRAINS_EACH * said as u64;
    let mut wrong = Vec::new();
    for (id, _) in run.world.machines() {
        let drains = run.world.tally(id).map_or(0, |tally| u64::from(tally.drains));
        let visits = run.ledger.nodes.get(id).map_or(0, |record| record.epoch.0);
        if drains > most {
            wrong.push(format!("truth: {id} was emptied {drains} times, at most {most} for what was said"));
        }
        if visits > VISITS_MAX {
            wrong.push(format!("truth: {id} was visited {visits} times"));
        }
    }
    wrong.truncate(3);
    wrong
}

/// Whoever waits for a person says so.
fn halts_are_said(run: &Run) -> Vec<String> {
    let halted = run.ledger.rollouts.values().filter(|r| r.state == RolloutState::Halted);
    let silent = halted.filter(|r| {
        let report = run.report.rollouts.iter().find(|report| report.id == r.id);
        !report
            .is_some_and(|report| super::judge::reasons(report).any(|w| matches!(w, Reason::Halted { .. })))
    });
    silent.map(|r| format!("truth: Halted and it isn't said: {}", r.id)).collect()
}
