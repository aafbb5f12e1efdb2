//! The extended resources a node advertises for its GPUs.
//!
//! Source: `NVIDIA/k8s-device-plugin`, README and `api/config/v1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::layout::MigLayout;
use super::profile::ProfileName;

/// The resource of a whole GPU, and of every slice under the single strategy.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// How the device plugin shows MIG devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigStrategy {
    /// MIG devices are not looked at.
    None,
    /// Every slice of the node is the same and is called `nvidia.com/gpu`.
    Single,
    /// Each profile has its own resource; whole GPUs stay `nvidia.com/gpu`.
    Mixed,
}

/// One GPU of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuShape<'a> {
    /// MIG is off.
    Whole,
    /// MIG is on, with these instances.
    Partitioned(&'a MigLayout),
}

/// Why a node's GPUs can't be advertised with a strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// MIG is on while the strategy ignores it: pods would be given a GPU that refuses to run them.
    #[error("the MIG strategy none advertises partitioned GPUs as whole ones")]
    StrategyNone,
    /// Under single, a node has whole and partitioned GPUs.
    #[error("the MIG strategy single needs MIG on every GPU of the node or on none")]
    WholeBesidePartitioned,
    /// Under single, a GPU has MIG on and no instance.
    #[error("the MIG strategy single needs at least one instance on every GPU of the node")]
    EmptyGpu,
    /// Under single, two profiles meet on a node.
    #[error("the MIG strategy single needs one profile on the whole node, not {first} and {second}")]
    TwoProfiles {
        /// One of them.
        first: ProfileName,
        /// Another.
        second: ProfileName,
    },
    /// The profile splits a GPU instance and can't be advertised.
    #[error("{profile} splits a GPU instance, which is never advertised to Kubernetes")]
    SplitCompute {
        /// Which profile.
        profile: ProfileName,
    },
    /// The count doesn't fit a quantity of devices.
    #[error("more devices than a node can have")]
    TooManyDevices,
}

/// The resource of a profile under the mixed strategy: `+` becomes a dot, a minus stays.
///
/// Device plugins before 0.20.0 don't keep suffix profiles apart (`NVIDIA/k8s-device-plugin`, CHANGELOG, 1807): that
/// upgrade renames resources on nodes with such profiles.
///
/// # Errors
/// [`ResourceError::SplitCompute`] for a name such as `1c.2g.10gb`.
pub fn resource_name(profile: ProfileName) -> Result<String, ResourceError> {
    match profile.compute() {
        None => Ok(format!("nvidia.com/mig-{}", profile.to_string().replace('+', "."))),
        Some(_) => Err(ResourceError::SplitCompute { profile }),
    }
}

/// What a node with these GPUs advertises: resource to count, without resources of count zero. Each entry of `gpus`
/// is a shape and the number of GPUs that have it.
///
/// # Errors
/// The precondition of the strategy that the node breaks.
pub fn node_resources(
    strategy: MigStrategy,
    gpus: &[(GpuShape<'_>, u32)],
) -> Result<BTreeMap<String, u32>, ResourceError> {
    let mut whole: u32 = 0;
    let mut partitioned: Vec<(&MigLayout, u32)> = Vec::new();
    for (shape, count) in gpus.iter().filter(|(_, count)| *count > 0) {
        match shape {
            GpuShape::Whole => whole = whole.checked_add(*count).ok_or(ResourceError::TooManyDevices)?,
            GpuShape::Partitioned(layout) => partitioned.push((layout, *count)),
        }
    }
    match strategy {
        MigStrategy::None if !partitioned.is_empty() => return Err(ResourceError::StrategyNone),
        MigStrategy::Single if !partitioned.is_empty() => check_single(whole, &partitioned)?,
        MigStrategy::None | MigStrategy::Single | MigStrategy::Mixed => {}
    }
    let mut resources = BTreeMap::new();
    add(&mut resources, GPU_RESOURCE.to_owned(), whole)?;
    for (layout, gpus) in partitioned {
        for (profile, count) in layout.iter() {
            let own = resource_name(profile)?;
            let name = if strategy == MigStrategy::Single { GPU_RESOURCE.to_owned() } else { own };
            add(&mut resources, name, count.checked_mul(gpus).ok_or(ResourceError::TooManyDevices)?)?;
        }
    }
    resources.retain(|_, count| *count > 0);
    Ok(resources)
}

fn add(resources: &mut BTreeMap<String, u32>, name: String, count: u32) -> Result<(), ResourceError> {
    let sum = resources.entry(name).or_insert(0);
    *sum = sum.checked_add(count).ok_or(ResourceError::TooManyDevices)?;
    Ok(())
}

fn check_single(whole: u32, partitioned: &[(&MigLayout, u32)]) -> Result<(), ResourceError> {
    if whole > 0 {
        return Err(ResourceError::WholeBesidePartitioned);
    }
    if partitioned.iter().any(|(layout, _)| layout.is_empty()) {
        return Err(ResourceError::EmptyGpu);
    }
    let mut profiles = partitioned.iter().flat_map(|(layout, _)| layout.iter()).map(|(profile, _)| profile);
    match profiles.next() {
        None => Err(ResourceError::EmptyGpu),
        Some(first) => match profiles.find(|p| *p != first) {
            None => Ok(()),
            Some(second) => Err(ResourceError::TwoProfiles { first, second }),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn layout(pairs: &[(&str, u32)]) -> MigLayout {
        MigLayout::parse(pairs.iter().copied()).unwrap()
    }

    #[test]
    fn names_follow_the_plugin() {
        for (profile, want) in [
            ("1g.10gb", "nvidia.com/mig-1g.10gb"),
            ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
            ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
            ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
            ("1g.24gb+gfx", "nvidia.com/mig-1g.24gb.gfx"),
        ] {
            assert_eq!(resource_name(profile.parse().unwrap()).unwrap(), want);
        }
        assert!(resource_name("1c.2g.10gb".parse().unwrap()).is_err());
    }

    #[test]
    fn mixed_counts_each_profile_and_the_whole_gpus() {
        let a = layout(&[("1g.18gb", 2), ("3g.71gb", 1)]);
        let b = layout(&[("1g.18gb", 7)]);
        let gpus = [(GpuShape::Whole, 4), (GpuShape::Partitioned(&a), 3), (GpuShape::Partitioned(&b), 1)];
        let got = node_resources(MigStrategy::Mixed, &gpus).unwrap();
        let got: Vec<_> = got.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(
            got,
            [("nvidia.com/gpu", 4), ("nvidia.com/mig-1g.18gb", 13), ("nvidia.com/mig-3g.71gb", 3)]
        );
    }

    #[test]
    fn single_wants_one_profile_everywhere() {
        let seven = layout(&[("1g.10gb", 7)]);
        let two = layout(&[("3g.40gb", 2)]);
        let none = layout(&[]);
        let single = |gpus: &[(GpuShape<'_>, u32)]| node_resources(MigStrategy::Single, gpus);
        assert_eq!(single(&[(GpuShape::Partitioned(&seven), 8)]).unwrap().get(GPU_RESOURCE), Some(&56));
        assert_eq!(single(&[(GpuShape::Whole, 8)]).unwrap().get(GPU_RESOURCE), Some(&8));
        assert_eq!(
            single(&[(GpuShape::Whole, 1), (GpuShape::Partitioned(&seven), 7)]),
            Err(ResourceError::WholeBesidePartitioned)
        );
        assert_eq!(single(&[(GpuShape::Partitioned(&none), 1)]), Err(ResourceError::EmptyGpu));
        assert!(matches!(
            single(&[(GpuShape::Partitioned(&seven), 4), (GpuShape::Partitioned(&two), 4)]),
            Err(ResourceError::TwoProfiles { .. })
        ));
    }

    #[test]
    fn none_refuses_partitioned_gpus_and_counts_never_wrap() {
        let seven = layout(&[("1g.10gb", 7)]);
        let gpus = [(GpuShape::Partitioned(&seven), 1)];
        assert_eq!(node_resources(MigStrategy::None, &gpus), Err(ResourceError::StrategyNone));
        let gpus = [(GpuShape::Partitioned(&seven), u32::MAX)];
        assert_eq!(node_resources(MigStrategy::Mixed, &gpus), Err(ResourceError::TooManyDevices));
        assert!(node_resources(MigStrategy::Mixed, &[]).unwrap().is_empty());
    }
}
