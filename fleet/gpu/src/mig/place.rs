//! Where the instances of a layout go on a GPU.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::geometry::{Engine, MigGeometry, MigProfile, Slots};
use super::layout::{LayoutError, MigLayout};
use super::nearest;
use super::profile::ProfileName;
use crate::model::GpuModel;

/// One instance at its place, in memory units of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// First unit.
    pub start: u8,
    /// Units taken.
    pub size: u8,
    /// The profile, under the name of the model's table.
    pub profile: ProfileName,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.profile, self.start, self.size)
    }
}

/// Finds a place for every instance of `layout` on one GPU of `model`, ordered by start.
///
/// The same input always gives the same answer. Creating the instances at the given starts succeeds in any order,
/// which creating them by profile alone does not.
///
/// # Errors
/// Why the GPU can't hold the layout, see [`LayoutError`].
pub fn place(model: &GpuModel, layout: &MigLayout) -> Result<Vec<Placement>, LayoutError> {
    place_keeping(model, layout, &[])
}

/// As [`place`], but of all answers one that keeps the most of `current`, so that a change of layout destroys the
/// fewest instances.
///
/// # Errors
/// Why the GPU can't hold the layout; `current` never makes a layout fail.
pub fn place_keeping(
    model: &GpuModel,
    layout: &MigLayout,
    current: &[Placement],
) -> Result<Vec<Placement>, LayoutError> {
    let geometry = model.mig.ok_or(LayoutError::ModelHasNoMig { model: model.name })?;
    let wanted = resolve(model, geometry, layout)?;
    check_engines(model, geometry, &wanted)?;
    let unknown = || LayoutError::PlacementsUnknown { model: model.name, layout: layout.clone() };
    let units = geometry.family.memory_units().ok_or_else(unknown)?;
    let mut groups = Vec::with_capacity(wanted.len());
    for (profile, count) in wanted {
        groups.push(Group { profile, slots: profile.slots.ok_or_else(unknown)?, count });
    }
    // Large and rigid instances first: what is left for the small ones is then known early.
    groups.sort_by_key(|g| (std::cmp::Reverse(g.slots.size), g.slots.starts.len()));
    // A node reports the names its driver prints; those may be aliases.
    let current: Vec<Placement> = current
        .iter()
        .filter_map(|p| geometry.find(p.profile).map(|profile| Placement { profile: profile.name, ..*p }))
        .collect();
    Search::run(&groups, &current).ok_or_else(|| {
        let clash = smallest_clash(groups);
        LayoutError::DoesNotFit {
            model: model.name,
            needed: clash.iter().map(|g| g.count * u32::from(g.slots.size)).sum(),
            clash: clash.iter().map(|g| (g.profile.name, g.count)).collect(),
            units,
        }
    })
}

/// The profiles of which one more instance would still fit beside `layout`. Empty for a full GPU, and for a layout
/// that isn't valid itself.
pub fn room_for(model: &GpuModel, layout: &MigLayout) -> Vec<ProfileName> {
    let profiles = model.mig.map_or(&[][..], |g| g.profiles);
    profiles.iter().map(|p| p.name).filter(|name| place(model, &layout.with(*name)).is_ok()).collect()
}

/// Names become profiles, aliases of one profile add up, and counts stay below each profile's own limit. After this
/// the numbers are small, whatever the document said.
fn resolve(
    model: &GpuModel,
    geometry: &MigGeometry,
    layout: &MigLayout,
) -> Result<Vec<(&'static MigProfile, u32)>, LayoutError> {
    let mut wanted: Vec<(&'static MigProfile, u32)> = Vec::new();
    for (name, count) in layout.iter() {
        if name.compute().is_some() {
            return Err(LayoutError::SplitCompute { profile: name, whole: name.whole() });
        }
        let profile = geometry.find(name).ok_or_else(|| LayoutError::UnknownProfile {
            model: model.name,
            profile: name,
            nearest: nearest::profile(geometry, name),
        })?;
        match wanted.iter_mut().find(|(p, _)| p.name == profile.name) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => wanted.push((profile, count)),
        }
    }
    for (profile, count) in &wanted {
        if *count > u32::from(profile.max_instances) {
            return Err(LayoutError::TooMany {
                model: model.name,
                profile: profile.name,
                wanted: *count,
                max: profile.max_instances,
            });
        }
    }
    Ok(wanted)
}

fn check_engines(
    model: &GpuModel,
    geometry: &MigGeometry,
    wanted: &[(&'static MigProfile, u32)],
) -> Result<(), LayoutError> {
    let Some(capacity) = geometry.engine_capacity else { return Ok(()) };
    for engine in Engine::ALL {
        let each = |profile: &MigProfile| profile.engines.map_or(0, |e| u32::from(e.of(engine)));
        let sum: u32 = wanted.iter().map(|(profile, count)| each(profile) * count).sum();
        let capacity = capacity.of(engine);
        if sum > u32::from(capacity) {
            return Err(LayoutError::EnginesExhausted { model: model.name, engine, wanted: sum, capacity });
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Group {
    profile: &'static MigProfile,
    slots: Slots,
    count: u32,
}

/// Drops instances one by one as long as the rest still doesn't fit. What remains is small enough to be read.
fn smallest_clash(mut groups: Vec<Group>) -> Vec<Group> {
    for i in (0..groups.len()).rev() {
        while let Some(group) = groups.get_mut(i).filter(|g| g.count > 0) {
            group.count -= 1;
            if Search::run(&groups, &[]).is_some() {
                if let Some(group) = groups.get_mut(i) {
                    group.count += 1;
                }
                break;
            }
        }
    }
    groups.retain(|g| g.count > 0);
    groups
}

/// Depth-first search over allowed starts with a bit per unit. Instances of one profile take ascending starts, so
/// no two branches differ only in the order of equal instances; a GPU has at most a few hundred branches.
struct Search<'a> {
    groups: &'a [Group],
    current: &'a [Placement],
    trail: Vec<Placement>,
    best: Option<(usize, Vec<Placement>)>,
    /// Kept instances no answer can exceed: reaching it ends the search.
    goal: usize,
}

impl<'a> Search<'a> {
    fn run(groups: &'a [Group], current: &'a [Placement]) -> Option<Vec<Placement>> {
        let wanted: u32 = groups.iter().map(|g| g.count).sum();
        let goal = current.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let mut search = Search { groups, current, trail: Vec::new(), best: None, goal };
        search.descend(0, 0, 0, 0);
        search.best.map(|(_, mut placements)| {
            placements.sort_unstable();
            placements
        })
    }

    fn descend(&mut self, group: usize, placed: u32, next_start: usize, taken: u16) {
        if self.best.as_ref().is_some_and(|(kept, _)| *kept >= self.goal) {
            return;
        }
        let Some(g) = self.groups.get(group) else {
            let kept = self.trail.iter().filter(|p| self.current.contains(p)).count();
            if self.best.as_ref().is_none_or(|(best, _)| kept > *best) {
                self.best = Some((kept, self.trail.clone()));
            }
            return;
        };
        if placed == g.count {
            return self.descend(group + 1, 0, 0, taken);
        }
        let Slots { starts, size } = g.slots;
        for (i, start) in starts.iter().enumerate().skip(next_start) {
            let mask = ((1_u16 << size) - 1) << start;
            if taken & mask == 0 {
                self.trail.push(Placement { start: *start, size, profile: g.profile.name });
                self.descend(group, placed + 1, i + 1, taken | mask);
                self.trail.pop();
            }
        }
    }
}
