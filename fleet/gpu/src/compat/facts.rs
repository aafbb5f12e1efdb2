//! The tables behind the checks.

use crate::model::{Architecture, GpuModel, Host};

use super::{KernelModule, YearMonth};

/// How long a driver branch is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchLife {
    /// Its end is in the past; no month is on record.
    Ended,
    /// Supported up to the end of this month.
    Until(YearMonth),
}

/// A driver branch whose support is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverBranch {
    /// First number of its versions.
    pub branch: u32,
    /// How long it is looked after.
    pub life: BranchLife,
}

const fn until(year: u16, month: u8) -> BranchLife {
    BranchLife::Until(YearMonth { year, month })
}

/// Branches with a known end of support. A branch that isn't here is not judged.
///
/// Source: NVIDIA data centre driver documentation, "Supported drivers and CUDA toolkit versions" (R620 edition).
pub const BRANCHES: &[DriverBranch] = &[
    DriverBranch { branch: 470, life: BranchLife::Ended },
    DriverBranch { branch: 535, life: until(2026, 6) },
    DriverBranch { branch: 580, life: until(2028, 6) },
    DriverBranch { branch: 595, life: until(2027, 3) },
    DriverBranch { branch: 610, life: until(2026, 8) },
    DriverBranch { branch: 620, life: until(2029, 9) },
];

/// First branch with drivers for a generation, where one that is still met could be too old.
///
/// Source: Blackwell from the table above; the others from the driver that came with the generation's first CUDA toolkit
/// (CUDA toolkit release notes: 10.0, 11.0, 11.8).
pub const fn first_branch(architecture: Architecture) -> Option<u32> {
    match architecture {
        Architecture::Pascal | Architecture::Volta => None,
        Architecture::Turing => Some(410),
        Architecture::Ampere => Some(450),
        Architecture::Ada | Architecture::Hopper => Some(520),
        Architecture::Blackwell => Some(570),
    }
}

/// Last branch with drivers for a generation. Source as [`BRANCHES`].
pub const fn last_branch(architecture: Architecture) -> Option<u32> {
    match architecture {
        Architecture::Pascal | Architecture::Volta => Some(580),
        Architecture::Turing
        | Architecture::Ampere
        | Architecture::Ada
        | Architecture::Hopper
        | Architecture::Blackwell => None,
    }
}

/// Last CUDA major version that compiles for a generation. Source as [`BRANCHES`].
pub const fn last_cuda_major(architecture: Architecture) -> Option<u32> {
    match architecture {
        Architecture::Pascal | Architecture::Volta => Some(12),
        Architecture::Turing
        | Architecture::Ampere
        | Architecture::Ada
        | Architecture::Hopper
        | Architecture::Blackwell => None,
    }
}

/// The only kernel module that works with a model; `None` when both do.
///
/// Source: `NVIDIA/open-gpu-kernel-modules` README; NVIDIA developer blog on the transition to open modules.
pub const fn required_module(model: &GpuModel) -> Option<KernelModule> {
    match (model.architecture, model.host) {
        (Architecture::Pascal | Architecture::Volta, _) => Some(KernelModule::Proprietary),
        (Architecture::Blackwell, _) | (_, Host::Grace) => Some(KernelModule::Open),
        (
            Architecture::Turing | Architecture::Ampere | Architecture::Ada | Architecture::Hopper,
            Host::Any,
        ) => None,
    }
}

/// Lowest kernel driver for applications built with any minor version of a CUDA major version.
///
/// Source: NVIDIA CUDA compatibility guide, "Minor version compatibility".
pub const CUDA_FLOORS: &[(u32, &str)] = &[(11, "450.80.02"), (12, "525.60.13"), (13, "580")];

/// Lowest driver for boards with NVSwitch, by model.
///
/// Source: `NVIDIA/cloud-native-docs`, `gpu-operator/platform-support.rst`.
pub const SWITCH_BOARD_FLOORS: &[(&str, &str)] = &[("B200", "570.133.20")];

/// Drivers that can't start pods on a node where partitioned GPUs stand beside whole ones.
///
/// Source: NVIDIA/gpu-operator issue 1361.
pub const MIXED_MIG_HOLES: &[&str] = &["570.124.06", "570.133.20", "570.148.08", "570.158.01"];
/// First driver without that fault.
pub const MIXED_MIG_FIXED: &str = "570.172.08";

/// Drivers on which MIG doesn't work for one geometry although it does before and after: (geometry, driver).
///
/// Source: NVIDIA GPU Operator documentation, platform support.
pub const MIG_HOLES: &[(&str, &str)] = &[("RTX-PRO-6000-BLACKWELL", "575.57.08")];

/// Geometries whose driver floor is published for another product with the same GPU only: it is advice, not a limit.
///
/// Source: the floor of GB300 is that of the workstation built on it, MIG user guide, supported GPUs.
pub const BORROWED_MIG_FLOORS: &[&str] = &["GB300"];

/// The branch that lists no MIG profiles while MIG is off, so that tools reading them from the driver fall back to a
/// static table. Source: `NVIDIA/cloud-native-docs`, `gpu-operator/gpu-operator-mig.rst`.
pub const HIDES_PROFILES: u32 = 535;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DriverVersion;
    use crate::mig::tables;

    #[test]
    fn every_version_in_a_table_can_be_read() {
        let geometry = tables::ALL.iter().flat_map(|g| {
            std::iter::once(g.min_driver).chain(g.profiles.iter().filter_map(|p| p.min_driver))
        });
        let versions = CUDA_FLOORS
            .iter()
            .map(|(_, v)| *v)
            .chain(SWITCH_BOARD_FLOORS.iter().map(|(_, v)| *v))
            .chain(MIXED_MIG_HOLES.iter().copied())
            .chain(MIG_HOLES.iter().map(|(_, v)| *v))
            .chain([MIXED_MIG_FIXED])
            .chain(geometry);
        let mut seen = 0;
        for version in versions {
            assert!(version.parse::<DriverVersion>().is_ok(), "{version}");
            seen += 1;
        }
        assert!(seen > 25);
    }

    #[test]
    fn models_and_geometries_named_in_tables_exist() {
        for (model, _) in SWITCH_BOARD_FLOORS {
            assert!(crate::model::lookup(model).is_some_and(|m| m.needs_fabric_manager(8)), "{model}");
        }
        for geometry in MIG_HOLES.iter().map(|(name, _)| name).chain(BORROWED_MIG_FLOORS) {
            assert!(tables::ALL.iter().any(|g| g.name == *geometry), "{geometry}");
        }
    }
}
