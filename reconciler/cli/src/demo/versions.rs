//! Driver versions of the story, and how one takes another's place in the documents.

use std::collections::BTreeMap;

use drydock_sim::{FaultSpec, How, Place, Workload, WorldOptions};
use drydock_spec::{ComponentClass, Delivery, Fleet, ReleaseVector, Version};
use jiff::Timestamp;

/// What the simulated fleet runs at first: one release before what its repository says, so that the first rollout
/// starts by itself.
pub(crate) const BEFORE: &str = "570.172.08";
/// What the repository says at first.
pub(crate) const START: &str = "580.95.05";
/// The next good one.
pub(crate) const GOOD: &str = "580.105.08";
/// Loads, reports ready, and computes wrongly.
pub(crate) const BROKEN: &str = "580.126.09";
/// Its fix.
pub(crate) const FIXED: &str = "580.126.20";

/// Monday 2026-03-02 17:00 UTC: an afternoon on which staging may move at once, four hours before research's night.
const BEGIN: Timestamp = Timestamp::constant(1_772_470_800, 0);

/// Jobs on at most four nodes: the budget of research's H100 pool lets six of its nodes go at once, so a larger job could
/// only be waited for, which takes days.
const WORKLOAD: Workload = Workload { gang_percent: 50, gang_nodes: 4, single_pods: true };

/// The driver version that most releases carry.
pub(crate) fn driver(fleet: &Fleet) -> Option<Version> {
    let mut counts: BTreeMap<&Version, u32> = BTreeMap::new();
    for (name, version) in fleet.releases.values().flat_map(|release| &release.components) {
        if fleet.components.get(name).is_some_and(|c| c.class == ComponentClass::GpuDriver) {
            *counts.entry(&version.version).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(version, _)| version.clone())
}

/// Files under `releases/` in which one version takes another's place; only those that change.
pub(crate) fn replaced(files: &[(String, Vec<u8>)], old: &str, new: &str) -> Vec<(String, Vec<u8>)> {
    let changed = files.iter().filter(|(path, _)| path.starts_with("releases/") && path.ends_with(".yaml"));
    changed
        .filter_map(|(path, bytes)| {
            let text = std::str::from_utf8(bytes).ok()?;
            text.contains(old).then(|| (path.clone(), text.replace(old, new).into_bytes()))
        })
        .collect()
}

/// The simulated fleet: it runs [`BEFORE`], and [`BROKEN`] is broken.
pub(crate) fn world(fleet: &Fleet, seed: u64, more: Vec<FaultSpec>) -> WorldOptions {
    let drivers = fleet.components.iter().filter(|(_, c)| c.class == ComponentClass::GpuDriver);
    let mut faults: Vec<FaultSpec> = drivers
        .map(|(name, _)| FaultSpec::BadVersion {
            component: name.clone(),
            version: Version::new(BROKEN),
            place: Place::default(),
            how: How::ReadyButBroken { check: "driver".to_owned() },
        })
        .collect();
    faults.extend(more);
    let running = fleet.pools.iter().filter_map(|(name, pool)| {
        let release = fleet.releases.get(&pool.release)?;
        Some((name.clone(), before(fleet, release.vector())))
    });
    WorldOptions {
        seed,
        start: BEGIN,
        faults,
        running: running.collect(),
        workload: Some(WORKLOAD),
        ..WorldOptions::default()
    }
}

/// The release before: another driver with its fabric manager. What somebody else moves is left as it is.
fn before(fleet: &Fleet, mut vector: ReleaseVector) -> ReleaseVector {
    for (name, version) in &mut vector.0 {
        let Some(component) = fleet.components.get(name) else { continue };
        let ours = !matches!(component.delivery, Delivery::Observe {});
        let driver = matches!(component.class, ComponentClass::GpuDriver | ComponentClass::FabricManager);
        if ours && driver && version.version.as_str() == START {
            version.version = Version::new(BEFORE);
            version.digest = None;
        }
    }
    vector
}
