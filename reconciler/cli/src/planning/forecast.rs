//! A forecast from simulated runs: when it is done, what it costs, how far a bad version would get.

use std::sync::Arc;

use drydock_plan::CommitRef;
use drydock_sim::{
    Commit, FaultSpec, How, Place, RunOptions, Runner, Script, Summary, Workload, WorldOptions,
};
use drydock_spec::{ComponentClass, Fleet, Period};
use jiff::Timestamp;
use serde::Serialize;

use super::{Draft, draft, draft::Sides};

/// What the runs came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forecast {
    /// Runs with different seeds.
    pub(crate) runs: u32,
    /// Runs in which every rollout succeeded.
    pub(crate) succeeded: u32,
    /// When half of them, and nine of ten, were done.
    pub(crate) done_p50: Timestamp,
    pub(crate) done_p90: Timestamp,
    /// Most nodes in flight and GPUs away at once, in any run.
    pub(crate) max_in_flight: u32,
    pub(crate) max_gpus_away: u32,
    /// Medians.
    pub(crate) gpu_hours_lost: f64,
    pub(crate) gangs_cut: u32,
    pub(crate) gangs_moved: u32,
    /// If the new driver were broken.
    pub(crate) if_bad: Option<IfBad>,
}

/// How far a broken driver gets: it loads, and computes wrongly.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IfBad {
    /// Most nodes that saw it, in any run.
    pub(crate) exposed_nodes: u32,
    /// Longest time from its first application to the verdict, in seconds.
    pub(crate) detected_after: u64,
}

/// A run is given up after this much virtual time: a calendar may hold it for weeks.
const HORIZON: Period = Period::from_hours(60 * 24);

/// Runs the change with `runs` seeds.
pub(crate) fn forecast(sides: &Sides<'_>, draft: &Draft, runs: u32) -> Option<Forecast> {
    if draft.nodes == 0 || runs == 0 {
        return None;
    }
    let fleet = Arc::new(sides.to.clone());
    let all: Vec<Summary> =
        (1..=runs).map(|seed| run(sides, draft, &fleet, seed.into(), Vec::new())).collect();
    let mut seconds: Vec<u64> = all.iter().map(|summary| summary.virtual_seconds).collect();
    seconds.sort_unstable();
    let done = |percent: usize| {
        let at = (seconds.len() * percent).div_ceil(100).saturating_sub(1);
        Period::from_secs(seconds.get(at).copied().unwrap_or_default()).after(draft.at)
    };
    let bad = bad_driver(sides.to, draft);
    let if_bad = bad.map(|fault| {
        let runs: Vec<Summary> = (1..=runs.min(3))
            .map(|seed| run(sides, draft, &fleet, seed.into(), vec![fault.clone()]))
            .collect();
        IfBad {
            exposed_nodes: runs.iter().map(|summary| summary.exposed_nodes).max().unwrap_or_default(),
            detected_after: runs
                .iter()
                .flat_map(|summary| summary.detections.iter().map(|d| d.seconds))
                .max()
                .unwrap_or_default(),
        }
    });
    let mut hours: Vec<f64> = all.iter().map(|summary| summary.gpu_hours_lost).collect();
    hours.sort_by(f64::total_cmp);
    let middle = |values: &mut Vec<u32>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Some(Forecast {
        runs,
        succeeded: draft::count(
            all.iter().filter(|s| s.outcome.values().all(|word| word == "Succeeded")).count(),
        ),
        done_p50: done(50),
        done_p90: done(90),
        max_in_flight: all.iter().map(|s| s.max_in_flight).max().unwrap_or_default(),
        max_gpus_away: all.iter().map(|s| s.max_gpus_away).max().unwrap_or_default(),
        gpu_hours_lost: hours.get(hours.len() / 2).copied().unwrap_or_default(),
        gangs_cut: middle(&mut all.iter().map(|s| s.gang_interruptions.cut).collect()),
        gangs_moved: middle(&mut all.iter().map(|s| s.gang_interruptions.moved).collect()),
        if_bad,
    })
}

fn run(sides: &Sides<'_>, drawn: &Draft, fleet: &Arc<Fleet>, seed: u64, faults: Vec<FaultSpec>) -> Summary {
    let bad = !faults.is_empty();
    let options =
        WorldOptions { seed, faults, workload: Some(Workload::default()), ..WorldOptions::default() };
    let world = draft::world(sides.from, sides.to, drawn.at, &options);
    let commit: CommitRef = draft::commit(sides, drawn.at);
    let script = Script {
        commits: vec![Commit { at: drawn.at, fleet: Arc::clone(fleet), commit }],
        commands: Vec::new(),
    };
    let quantum = Period::from_secs(if drawn.nodes > 1_000 { 60 } else { 5 });
    // A bad version is looked at until it is settled; when nothing moves any more the run ends by itself.
    let passes_max = if bad { 20_000 } else { RunOptions::default().passes_max };
    let options = RunOptions {
        quantum,
        until: None,
        passes_max,
        checked: false,
        node_lines: false,
        // How long people take isn't the fleet's doing.
        approve_after: Some(Period::from_secs(1)),
    };
    let run = Runner::new(world, script, options).run();
    let mut summary = run.summary;
    let ended = run.ledger.rollouts.values().filter_map(|rollout| rollout.ended).max();
    if let Some(ended) = ended {
        summary.virtual_seconds = Period::between(drawn.at, ended).as_millis() / 1000;
    }
    summary.virtual_seconds = summary.virtual_seconds.min(HORIZON.as_millis() / 1000);
    summary
}

/// The driver that the change brings, broken.
fn bad_driver(fleet: &Fleet, draft: &Draft) -> Option<FaultSpec> {
    let driver = draft.versions.iter().find(|change| {
        change.to.is_some()
            && fleet.components.get(&change.component).is_some_and(|c| c.class == ComponentClass::GpuDriver)
    })?;
    Some(FaultSpec::BadVersion {
        component: driver.component.clone(),
        version: driver.to.as_ref()?.version.clone(),
        place: Place::default(),
        how: How::ReadyButBroken { check: "driver".to_owned() },
    })
}
