//! Which driver a GPU model can run, and what has to match it.

pub mod facts;
mod incompatibility;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::driver::DriverVersion;
use crate::mig::{MigGeometry, MigLayout};
use crate::model::GpuModel;
use facts::BranchLife;

pub use incompatibility::{Incompatibility, Severity};

/// The two flavours of the kernel modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelModule {
    /// Published source.
    Open,
    /// Closed source.
    Proprietary,
}

impl fmt::Display for KernelModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KernelModule::Open => "open",
            KernelModule::Proprietary => "proprietary",
        })
    }
}

/// A calendar month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct YearMonth {
    /// Year, e.g. 2028.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
}

impl fmt::Display for YearMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// How a pool uses MIG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigUse<'a> {
    /// Not at all.
    #[default]
    Off,
    /// GPUs are partitioned.
    On {
        /// The layouts in use.
        layouts: &'a [&'a MigLayout],
        /// Whether some node has whole GPUs next to partitioned ones.
        beside_whole: bool,
    },
}

/// Where fabric manager comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FabricManager<'a> {
    /// Out of the driver's own package, so that nothing needs to be compared.
    #[default]
    WithDriver,
    /// Delivered on its own, in this version.
    Version(&'a DriverVersion),
    /// There is none.
    Absent,
}

/// What stands around a driver. The default asks only whether driver and model go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surroundings<'a> {
    /// GPUs of a node; decides whether it has NVSwitches.
    pub gpus_per_node: u32,
    /// Flavour of the kernel modules, if it is chosen.
    pub kernel_module: Option<KernelModule>,
    /// MIG on these nodes.
    pub mig: MigUse<'a>,
    /// Fabric manager on these nodes.
    pub fabric_manager: FabricManager<'a>,
    /// Major CUDA versions that workloads were built with.
    pub cuda_majors: &'a [u32],
    /// The month for which support is judged.
    pub month: Option<YearMonth>,
}

/// Everything that speaks against running `driver` on `model`, worst first; empty when nothing is known to.
pub fn check(model: &GpuModel, driver: &DriverVersion, around: &Surroundings<'_>) -> Vec<Incompatibility> {
    let mut found = Vec::new();
    check_architecture(model, driver, &mut found);
    if let (Some(wanted), Some(required)) = (around.kernel_module, facts::required_module(model))
        && wanted != required
    {
        found.push(Incompatibility::KernelModule { model: model.name.to_owned(), wanted, required });
    }
    if let MigUse::On { layouts, beside_whole } = around.mig {
        match model.mig {
            None => found.push(Incompatibility::NoMig { model: model.name.to_owned() }),
            Some(geometry) => check_mig(model, geometry, driver, layouts, beside_whole, &mut found),
        }
    }
    check_fabric(model, driver, around, &mut found);
    check_cuda(model, driver, around.cuda_majors, &mut found);
    found.extend(around.month.and_then(|month| check_support(driver, month)));
    // Stable: findings of one severity keep the order of the checks.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    found
}

/// Whether the driver's branch is out of support in `month`; `None` also for a branch nothing is known about.
pub fn check_support(driver: &DriverVersion, month: YearMonth) -> Option<Incompatibility> {
    let branch = facts::BRANCHES.iter().find(|b| b.branch == driver.branch())?;
    let since = match branch.life {
        BranchLife::Ended => None,
        BranchLife::Until(last) if month > last => Some(last),
        BranchLife::Until(_) => return None,
    };
    Some(Incompatibility::BranchOutOfSupport { branch: branch.branch, since })
}

fn check_architecture(model: &GpuModel, driver: &DriverVersion, found: &mut Vec<Incompatibility>) {
    let architecture = model.architecture;
    if let Some(last) = facts::last_branch(architecture).filter(|last| driver.branch() > *last) {
        let driver = driver.clone();
        found.push(Incompatibility::ArchitectureEnded {
            model: model.name.to_owned(),
            architecture,
            driver,
            last,
        });
    }
    if let Some(first) = facts::first_branch(architecture).filter(|first| driver.branch() < *first) {
        let driver = driver.clone();
        found.push(Incompatibility::ArchitectureTooNew {
            model: model.name.to_owned(),
            architecture,
            driver,
            first,
        });
    }
}

fn check_mig(
    model: &GpuModel,
    geometry: &MigGeometry,
    driver: &DriverVersion,
    layouts: &[&MigLayout],
    beside_whole: bool,
    found: &mut Vec<Incompatibility>,
) {
    if let Some(floor) = missed_floor(driver, geometry.min_driver) {
        // The profile floors lie above it and would only repeat the message.
        let (model, driver) = (model.name.to_owned(), driver.clone());
        found.push(if facts::BORROWED_MIG_FLOORS.contains(&geometry.name) {
            Incompatibility::MigFloorOfAnother { model, driver, floor }
        } else {
            Incompatibility::MigDriverTooOld { model, driver, floor }
        });
    } else {
        for profile in geometry.profiles {
            let used =
                layouts.iter().flat_map(|l| l.iter()).any(|(name, _)| geometry.find(name) == Some(profile));
            if let Some(floor) = profile.min_driver.filter(|_| used).and_then(|f| missed_floor(driver, f)) {
                found.push(Incompatibility::ProfileDriverTooOld {
                    model: model.name.to_owned(),
                    profile: profile.name,
                    driver: driver.clone(),
                    floor,
                });
            }
        }
    }
    if facts::MIG_HOLES.iter().any(|(name, hole)| *name == geometry.name && is(driver, hole)) {
        found.push(Incompatibility::MigBroken { model: model.name.to_owned(), driver: driver.clone() });
    }
    if beside_whole
        && facts::MIXED_MIG_HOLES.iter().any(|hole| is(driver, hole))
        && let Ok(fixed) = facts::MIXED_MIG_FIXED.parse()
    {
        found.push(Incompatibility::MixedMigBroken { driver: driver.clone(), fixed });
    }
    if driver.branch() == facts::HIDES_PROFILES {
        found.push(Incompatibility::MigProfilesHidden { driver: driver.clone() });
    }
}

fn check_fabric(
    model: &GpuModel,
    driver: &DriverVersion,
    around: &Surroundings<'_>,
    found: &mut Vec<Incompatibility>,
) {
    let gpus = around.gpus_per_node;
    if !model.needs_fabric_manager(gpus) {
        return;
    }
    match around.fabric_manager {
        FabricManager::WithDriver => {}
        FabricManager::Absent => {
            found.push(Incompatibility::FabricManagerMissing { model: model.name.to_owned(), gpus });
        }
        FabricManager::Version(version) if version.same_release(driver) => {}
        FabricManager::Version(version) => found.push(Incompatibility::FabricManagerDiffers {
            driver: driver.clone(),
            fabric_manager: version.clone(),
        }),
    }
    let floor = facts::SWITCH_BOARD_FLOORS.iter().find(|(name, _)| *name == model.name);
    if let Some(floor) = floor.and_then(|(_, floor)| missed_floor(driver, floor)) {
        let driver = driver.clone();
        found.push(Incompatibility::SwitchBoardDriverTooOld {
            model: model.name.to_owned(),
            gpus,
            driver,
            floor,
        });
    }
}

fn check_cuda(model: &GpuModel, driver: &DriverVersion, majors: &[u32], found: &mut Vec<Incompatibility>) {
    for cuda_major in majors {
        let cuda_major = *cuda_major;
        let floor = facts::CUDA_FLOORS.iter().find(|(major, _)| *major == cuda_major);
        if let Some(floor) = floor.and_then(|(_, floor)| missed_floor(driver, floor)) {
            found.push(Incompatibility::CudaDriverTooOld { cuda_major, driver: driver.clone(), floor });
        }
        let architecture = model.architecture;
        if let Some(last) = facts::last_cuda_major(architecture).filter(|last| cuda_major > *last) {
            let model = model.name.to_owned();
            found.push(Incompatibility::CudaDroppedArchitecture { model, architecture, cuda_major, last });
        }
    }
}

/// The floor as a version when `driver` misses it. A test reads every floor in the tables, so none is skipped here.
fn missed_floor(driver: &DriverVersion, floor: &str) -> Option<DriverVersion> {
    floor.parse().ok().filter(|floor| !driver.at_least(floor))
}

fn is(driver: &DriverVersion, exact: &str) -> bool {
    exact.parse().is_ok_and(|exact| driver.same_release(&exact))
}
