//! The catalogue of GPU models.

mod catalogue;
mod lookup;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mig::MigGeometry;

pub use catalogue::ALL;
pub use lookup::{by_pci_device, lookup, nearest};

/// GPU generation: decides which driver branches, kernel modules and CUDA versions there are for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Architecture {
    /// P100, P40, P4.
    Pascal,
    /// V100.
    Volta,
    /// T4.
    Turing,
    /// A100, A30, A10, A40.
    Ampere,
    /// L4, L40, L40S.
    Ada,
    /// H100, H200, GH200.
    Hopper,
    /// B200, GB200, B300, GB300, RTX PRO Blackwell.
    Blackwell,
}

impl Architecture {
    /// Whether the MIG mode of a GPU outlives the driver. Ampere stores it on the board; from Hopper on it is lost
    /// with every driver reload and reboot. Instances are lost on every generation, so the layout has to be applied
    /// again after each driver change either way (NVIDIA MIG user guide, "MIG mode").
    pub const fn keeps_mig_mode(self) -> bool {
        match self {
            Architecture::Ampere => true,
            Architecture::Pascal
            | Architecture::Volta
            | Architecture::Turing
            | Architecture::Ada
            | Architecture::Hopper
            | Architecture::Blackwell => false,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::Pascal => "Pascal",
            Architecture::Volta => "Volta",
            Architecture::Turing => "Turing",
            Architecture::Ampere => "Ampere",
            Architecture::Ada => "Ada",
            Architecture::Hopper => "Hopper",
            Architecture::Blackwell => "Blackwell",
        })
    }
}

/// How the GPUs of one node reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fabric {
    /// PCIe, or bridges between pairs: nothing to manage.
    Pcie,
    /// NVLink without switches up to some size, NVSwitches on the board from `switched_from` GPUs on.
    Board {
        /// Smallest number of GPUs in a node whose board carries NVSwitches.
        switched_from: u32,
    },
    /// NVLink switches of the rack, managed outside the node; nodes form an NVLink domain.
    Rack,
}

/// The processor a GPU is soldered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Host {
    /// A card or board in a machine of its own: the processor can be anything.
    Any,
    /// A Grace superchip: an arm64 node whose CPU and GPU share coherent memory.
    Grace,
}

/// One GPU model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuModel {
    /// The name drydock uses, e.g. `H100-80GB`.
    pub name: &'static str,
    /// Other names: the product names that drivers and GPU feature discovery print, without the vendor.
    pub aliases: &'static [&'static str],
    /// PCI device ids below NVIDIA's vendor id.
    pub pci_devices: &'static [u16],
    /// Generation.
    pub architecture: Architecture,
    /// Memory in the gigabytes of the product name.
    pub memory_gb: u32,
    /// MIG geometry; `None` when the GPU can't be partitioned.
    pub mig: Option<&'static MigGeometry>,
    /// How the GPUs of a node reach each other.
    pub fabric: Fabric,
    /// What processor sits beside it.
    pub host: Host,
    /// Public source of the row.
    pub source: &'static str,
}

impl GpuModel {
    /// Whether a node with that many of these GPUs has NVSwitches, and with them needs fabric manager.
    pub const fn needs_fabric_manager(&self, gpus_per_node: u32) -> bool {
        match self.fabric {
            Fabric::Board { switched_from } => gpus_per_node >= switched_from,
            Fabric::Pcie | Fabric::Rack => false,
        }
    }

    /// Whether nodes with this GPU run arm64 images.
    pub const fn is_arm64(&self) -> bool {
        matches!(self.host, Host::Grace)
    }
}
