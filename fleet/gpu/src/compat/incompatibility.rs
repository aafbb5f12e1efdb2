//! What a check can find.

use serde::{Deserialize, Serialize};

use super::{KernelModule, YearMonth};
use crate::driver::DriverVersion;
use crate::mig::ProfileName;
use crate::model::Architecture;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It works, and someone should know.
    Warning,
    /// The nodes wouldn't work: not to be rolled out.
    Blocking,
}

/// One reason why a driver and a model, or what runs beside them, don't go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Incompatibility {
    /// The generation was dropped before this branch.
    #[error("{model} ({architecture}) has no driver after R{last}; {driver} is R{}", driver.branch())]
    ArchitectureEnded {
        /// Catalogue name.
        model: String,
        /// Its generation.
        architecture: Architecture,
        /// The driver asked for.
        driver: DriverVersion,
        /// Last branch of the generation.
        last: u32,
    },
    /// The generation came after this branch.
    #[error("{model} ({architecture}) needs R{first} or newer; {driver} is R{}", driver.branch())]
    ArchitectureTooNew {
        /// Catalogue name.
        model: String,
        /// Its generation.
        architecture: Architecture,
        /// The driver asked for.
        driver: DriverVersion,
        /// First branch of the generation.
        first: u32,
    },
    /// The flavour of kernel module doesn't drive this GPU.
    #[error("{model} works with the {required} kernel modules only, not with the {wanted} ones")]
    KernelModule {
        /// Catalogue name.
        model: String,
        /// What was asked for.
        wanted: KernelModule,
        /// What works.
        required: KernelModule,
    },
    /// MIG is asked for on a model without it.
    #[error("{model} has no MIG")]
    NoMig {
        /// Catalogue name.
        model: String,
    },
    /// The driver is older than MIG on this model.
    #[error("MIG on {model} needs driver {floor} or newer, not {driver}")]
    MigDriverTooOld {
        /// Catalogue name.
        model: String,
        /// The driver asked for.
        driver: DriverVersion,
        /// Lowest driver that works.
        floor: DriverVersion,
    },
    /// The driver is older than the floor of MIG on another product with this GPU; none is published for this one.
    #[error(
        "MIG on {model} may need driver {floor} or newer, not {driver}: that floor is published for another product \
         with this GPU"
    )]
    MigFloorOfAnother {
        /// Catalogue name.
        model: String,
        /// The driver asked for.
        driver: DriverVersion,
        /// Lowest driver that is known to work, elsewhere.
        floor: DriverVersion,
    },
    /// The driver has MIG, but not yet this profile.
    #[error("profile {profile} on {model} needs driver {floor} or newer, not {driver}")]
    ProfileDriverTooOld {
        /// Catalogue name.
        model: String,
        /// Which profile.
        profile: ProfileName,
        /// The driver asked for.
        driver: DriverVersion,
        /// Lowest driver that works.
        floor: DriverVersion,
    },
    /// MIG is broken on exactly this driver.
    #[error("MIG on {model} doesn't work with driver {driver}, though it does before and after")]
    MigBroken {
        /// Catalogue name.
        model: String,
        /// The driver asked for.
        driver: DriverVersion,
    },
    /// Pods don't start on nodes where partitioned and whole GPUs meet.
    #[error("driver {driver} can't start pods on nodes with partitioned beside whole GPUs; fixed in {fixed}")]
    MixedMigBroken {
        /// The driver asked for.
        driver: DriverVersion,
        /// First driver without the fault.
        fixed: DriverVersion,
    },
    /// The driver lists no profiles before MIG is on.
    #[error(
        "driver {driver} lists no MIG profiles while MIG is off; generated MIG configurations fall back to defaults"
    )]
    MigProfilesHidden {
        /// The driver asked for.
        driver: DriverVersion,
    },
    /// A board with NVSwitches gets no fabric manager.
    #[error(
        "{gpus} x {model} in a node are joined by NVSwitches: without fabric manager CUDA fails with error 802"
    )]
    FabricManagerMissing {
        /// Catalogue name.
        model: String,
        /// GPUs of a node.
        gpus: u32,
    },
    /// Fabric manager is of another version than the driver.
    #[error(
        "fabric manager {fabric_manager} refuses driver {driver}: on NVSwitch nodes both must be the same version"
    )]
    FabricManagerDiffers {
        /// The driver asked for.
        driver: DriverVersion,
        /// The fabric manager asked for.
        fabric_manager: DriverVersion,
    },
    /// The driver is too old for the switches of the board.
    #[error("nodes with {gpus} x {model} need driver {floor} or newer for their NVSwitches, not {driver}")]
    SwitchBoardDriverTooOld {
        /// Catalogue name.
        model: String,
        /// GPUs of a node.
        gpus: u32,
        /// The driver asked for.
        driver: DriverVersion,
        /// Lowest driver that works.
        floor: DriverVersion,
    },
    /// Applications of a CUDA version need a newer driver, unless they bring their own compatibility package.
    #[error("applications built with CUDA {cuda_major} need driver {floor} or newer, not {driver}")]
    CudaDriverTooOld {
        /// Major version of CUDA.
        cuda_major: u32,
        /// The driver asked for.
        driver: DriverVersion,
        /// Lowest driver that works.
        floor: DriverVersion,
    },
    /// Applications of a CUDA version hold no code for the generation.
    #[error("CUDA {cuda_major} dropped {architecture}; the last for {model} is CUDA {last}")]
    CudaDroppedArchitecture {
        /// Catalogue name.
        model: String,
        /// Its generation.
        architecture: Architecture,
        /// Major version of CUDA.
        cuda_major: u32,
        /// Last major version for the generation.
        last: u32,
    },
    /// Nobody repairs this branch any more.
    #[error("driver branch R{branch} is out of support{}", ended(.since))]
    BranchOutOfSupport {
        /// The branch.
        branch: u32,
        /// Last month of support, where it is on record.
        since: Option<YearMonth>,
    },
}

fn ended(since: &Option<YearMonth>) -> String {
    since.map_or_else(String::new, |month| format!(" since the end of {month}"))
}

impl Incompatibility {
    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        match self {
            Incompatibility::ArchitectureEnded { .. }
            | Incompatibility::ArchitectureTooNew { .. }
            | Incompatibility::KernelModule { .. }
            | Incompatibility::NoMig { .. }
            | Incompatibility::MigDriverTooOld { .. }
            | Incompatibility::ProfileDriverTooOld { .. }
            | Incompatibility::MigBroken { .. }
            | Incompatibility::MixedMigBroken { .. }
            | Incompatibility::FabricManagerMissing { .. }
            | Incompatibility::FabricManagerDiffers { .. }
            | Incompatibility::SwitchBoardDriverTooOld { .. } => Severity::Blocking,
            // What is known of one product doesn't hold back another.
            Incompatibility::MigFloorOfAnother { .. }
            // An image may bring its compatibility package or code of its own for an old generation.
            | Incompatibility::CudaDriverTooOld { .. }
            | Incompatibility::CudaDroppedArchitecture { .. }
            | Incompatibility::MigProfilesHidden { .. }
            | Incompatibility::BranchOutOfSupport { .. } => Severity::Warning,
        }
    }

    /// The public document the finding rests on.
    pub const fn source(&self) -> &'static str {
        match self {
            Incompatibility::ArchitectureEnded { .. }
            | Incompatibility::CudaDroppedArchitecture { .. }
            | Incompatibility::BranchOutOfSupport { .. } => {
                "https://docs.nvidia.com/datacenter/tesla/drivers/620/supported-drivers-and-cuda-toolkit-versions.html"
            }
            Incompatibility::ArchitectureTooNew { .. } => {
                "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
            }
            Incompatibility::KernelModule { .. } => "https://github.com/NVIDIA/open-gpu-kernel-modules",
            Incompatibility::NoMig { .. }
            | Incompatibility::MigDriverTooOld { .. }
            | Incompatibility::MigFloorOfAnother { .. }
            | Incompatibility::ProfileDriverTooOld { .. } => {
                "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html"
            }
            Incompatibility::MigBroken { .. } | Incompatibility::SwitchBoardDriverTooOld { .. } => {
                "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html"
            }
            Incompatibility::MixedMigBroken { .. } => "https://github.com/NVIDIA/gpu-operator/issues/1361",
            Incompatibility::MigProfilesHidden { .. } => {
                "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html"
            }
            Incompatibility::FabricManagerMissing { .. } => {
                "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"
            }
            Incompatibility::FabricManagerDiffers { .. } => {
                "https://github.com/NVIDIA/gpu-operator/issues/544"
            }
            Incompatibility::CudaDriverTooOld { .. } => {
                "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
            }
        }
    }
}
