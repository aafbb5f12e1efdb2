//! What someone meant who wrote a profile of another GPU.

use super::geometry::MigGeometry;
use super::profile::ProfileName;
use super::tables;

/// The profile of `geometry` that plays the part `name` plays on the GPU it belongs to.
///
/// `3g.40gb` is half of an 80 GB GPU, so on a 94 GB GPU it is `3g.47gb`. A name can belong to several GPUs with
/// different parts (`1g.10gb` is one unit of 80 GB and two units of 40 GB); then the memory size decides.
pub(super) fn profile(geometry: &MigGeometry, name: ProfileName) -> Option<ProfileName> {
    let mut parts: Vec<u16> = tables::ALL.iter().filter_map(|other| part_of(other, name)).collect();
    parts.sort_unstable();
    parts.dedup();
    geometry
        .profiles
        .iter()
        .min_by_key(|candidate| {
            let other_part = !part_of(geometry, candidate.name).is_some_and(|part| parts.contains(&part));
            (
                name.slices().abs_diff(candidate.name.slices()),
                other_part,
                name.variant() != candidate.name.variant(),
                name.memory_gb().abs_diff(candidate.name.memory_gb()),
            )
        })
        .map(|candidate| candidate.name)
}

/// The memory share a profile has on a GPU, in 24ths: the least common multiple of 4, 8 and 12 units.
fn part_of(geometry: &MigGeometry, name: ProfileName) -> Option<u16> {
    let size = geometry.find(name)?.slots?.size;
    let units = geometry.family.memory_units()?;
    Some(u16::from(size) * 24 / u16::from(units))
}
