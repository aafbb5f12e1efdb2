//! The models, by generation.
//!
//! Sources: product names as `nvidia-smi` prints them and GPU feature discovery publishes them
//! (`NVIDIA/k8s-device-plugin`, `docs/gpu-feature-discovery`); PCI ids from `NVIDIA/mig-parted`,
//! `deployments/systemd/config-default.yaml`; memory, form factor and NVLink from the vendor's data sheets; boards with
//! NVSwitch from the NVIDIA fabric manager user guide (DGX-2, HGX A100, H100, H200, B200, B300).
//!
//! One marketing name can be several rows: the SXM board of a model may have NVSwitches where its PCIe card never does.

use super::{Architecture, Fabric, GpuModel, Host};
use crate::mig::tables as mig;

const SMI: &str = "product name in nvidia-smi; vendor data sheet";
const PARTED: &str = "NVIDIA/mig-parted default configuration; vendor data sheet";
const MIG_GUIDE: &str = "NVIDIA MIG user guide, supported GPUs";

const fn card(
    name: &'static str,
    aliases: &'static [&'static str],
    architecture: Architecture,
    memory_gb: u32,
) -> GpuModel {
    GpuModel {
        name,
        aliases,
        pci_devices: &[],
        architecture,
        memory_gb,
        mig: None,
        fabric: Fabric::Pcie,
        host: Host::Any,
        source: SMI,
    }
}

/// Boards with four GPUs link them directly; those with eight switch.
const EIGHT: Fabric = Fabric::Board { switched_from: 8 };

/// Every known model.
pub static ALL: &[GpuModel] = &[
    card("P4", &["Tesla-P4"], Architecture::Pascal, 8),
    card("P40", &["Tesla-P40"], Architecture::Pascal, 24),
    card("P100", &["P100-16GB", "Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB"], Architecture::Pascal, 16),
    card(
        "V100",
        &["V100-16GB", "Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB", "Tesla-V100-FHHL-16GB"],
        Architecture::Volta,
        16,
    ),
    card(
        "V100-32GB",
        &["Tesla-V100-SXM2-32GB", "Tesla-V100-PCIE-32GB", "Tesla-V100S-PCIE-32GB"],
        Architecture::Volta,
        32,
    ),
    GpuModel {
        // The board of DGX-2 carries switches for each eight GPUs; machines with SXM2 modules have none.
        fabric: EIGHT,
        ..card("V100-SXM3-32GB", &["Tesla-V100-SXM3-32GB"], Architecture::Volta, 32)
    },
    card("T4", &["Tesla-T4", "T4-16GB"], Architecture::Turing, 16),
    card("A10", &["A10-24GB"], Architecture::Ampere, 24),
    card("A10G", &["A10G-24GB"], Architecture::Ampere, 24),
    card("A16", &["A16-16GB"], Architecture::Ampere, 16),
    card("A40", &["A40-48GB"], Architecture::Ampere, 48),
    GpuModel {
        pci_devices: &[0x20B7],
        mig: Some(&mig::A30_24),
        source: MIG_GUIDE,
        ..card("A30", &["A30-24GB"], Architecture::Ampere, 24)
    },
    GpuModel {
        pci_devices: &[0x20B0, 0x20F6],
        mig: Some(&mig::A100_40),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("A100-40GB", &["A100-SXM4-40GB", "A800-40GB", "A800-SXM4-40GB"], Architecture::Ampere, 40)
    },
    GpuModel {
        pci_devices: &[0x20B1, 0x20F1],
        mig: Some(&mig::A100_40),
        source: MIG_GUIDE,
        ..card("A100-PCIE-40GB", &["A100-40GB-PCIe", "A800-PCIE-40GB"], Architecture::Ampere, 40)
    },
    GpuModel {
        pci_devices: &[0x20B2, 0x20F3],
        mig: Some(&mig::A100_80),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("A100-80GB", &["A100-SXM4-80GB", "A800-80GB", "A800-SXM4-80GB"], Architecture::Ampere, 80)
    },
    GpuModel {
        pci_devices: &[0x20B5, 0x20F5],
        mig: Some(&mig::A100_80),
        source: MIG_GUIDE,
        ..card("A100-PCIE-80GB", &["A100-80GB-PCIe", "A800-80GB-PCIe"], Architecture::Ampere, 80)
    },
    GpuModel {
        pci_devices: &[0x20B6],
        mig: Some(&mig::A100_96),
        source: PARTED,
        ..card("A100-96GB", &["PG506-96GB"], Architecture::Ampere, 96)
    },
    card("L4", &["L4-24GB"], Architecture::Ada, 24),
    card("L40", &["L40-48GB"], Architecture::Ada, 48),
    card("L40S", &["L40S-48GB"], Architecture::Ada, 48),
    GpuModel {
        pci_devices: &[0x2330, 0x2324],
        mig: Some(&mig::H100_80),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card(
            "H100-80GB",
            &["H100-SXM5-80GB", "H100-80GB-HBM3", "H100-SXM", "H800-80GB", "H800"],
            Architecture::Hopper,
            80,
        )
    },
    GpuModel {
        pci_devices: &[0x2331, 0x2322],
        mig: Some(&mig::H100_80),
        source: MIG_GUIDE,
        ..card("H100-PCIE-80GB", &["H100-PCIe", "H800-PCIe"], Architecture::Hopper, 80)
    },
    GpuModel {
        pci_devices: &[0x2321, 0x233A],
        mig: Some(&mig::H100_94),
        source: MIG_GUIDE,
        ..card("H100-94GB", &["H100-NVL", "H100-NVL-94GB", "H800-NVL"], Architecture::Hopper, 94)
    },
    GpuModel {
        mig: Some(&mig::H100_94),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("H100-SXM5-94GB", &[], Architecture::Hopper, 94)
    },
    GpuModel {
        pci_devices: &[0x233D],
        mig: Some(&mig::H100_96),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("H100-96GB", &["H100-SXM5-96GB"], Architecture::Hopper, 96)
    },
    GpuModel {
        pci_devices: &[0x2329],
        mig: Some(&mig::H20_96),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("H20-96GB", &["H20"], Architecture::Hopper, 96)
    },
    GpuModel {
        pci_devices: &[0x2342],
        mig: Some(&mig::H100_96),
        host: Host::Grace,
        source: MIG_GUIDE,
        // 480GB is the memory of the Grace half, and the name drivers print.
        ..card("GH200-96GB", &["GH200-480GB", "GH200", "H100-on-GH200"], Architecture::Hopper, 96)
    },
    GpuModel {
        pci_devices: &[0x2348],
        mig: Some(&mig::GH200_144),
        host: Host::Grace,
        source: PARTED,
        ..card("GH200-144GB", &["GH200-144G-HBM3e"], Architecture::Hopper, 144)
    },
    GpuModel {
        pci_devices: &[0x2335],
        mig: Some(&mig::H200_141),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("H200", &["H200-141GB", "H200-SXM5", "H200-SXM5-141GB"], Architecture::Hopper, 141)
    },
    GpuModel {
        pci_devices: &[0x233B],
        mig: Some(&mig::H200_141),
        source: MIG_GUIDE,
        ..card("H200-NVL", &["H200-NVL-141GB"], Architecture::Hopper, 141)
    },
    GpuModel {
        pci_devices: &[0x2901],
        mig: Some(&mig::B200_180),
        fabric: EIGHT,
        source: MIG_GUIDE,
        ..card("B200", &["B200-180GB"], Architecture::Blackwell, 180)
    },
    GpuModel {
        pci_devices: &[0x3182],
        mig: Some(&mig::B300),
        fabric: EIGHT,
        source: PARTED,
        ..card("B300", &["B300-269GB", "B300-SXM6-AC"], Architecture::Blackwell, 269)
    },
    GpuModel {
        pci_devices: &[0x2941],
        mig: Some(&mig::GB200_186),
        fabric: Fabric::Rack,
        host: Host::Grace,
        source: PARTED,
        ..card("GB200", &["GB200-186GB"], Architecture::Blackwell, 186)
    },
    GpuModel {
        pci_devices: &[0x31C2],
        mig: Some(&mig::GB300),
        fabric: Fabric::Rack,
        host: Host::Grace,
        source: PARTED,
        ..card("GB300", &["GB300-278GB"], Architecture::Blackwell, 278)
    },
    GpuModel {
        pci_devices: &[0x2BB5],
        mig: Some(&mig::RTX_PRO_6000),
        source: MIG_GUIDE,
        ..card(
            "RTX-PRO-6000-BLACKWELL",
            &[
                "RTX-PRO-6000-Blackwell-Server-Edition",
                "RTX-PRO-6000-Blackwell-Workstation-Edition",
                "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
                "RTX-PRO-6000",
            ],
            Architecture::Blackwell,
            96,
        )
    },
    GpuModel {
        mig: Some(&mig::RTX_PRO_5000),
        source: MIG_GUIDE,
        ..card(
            "RTX-PRO-5000-BLACKWELL",
            &["RTX-PRO-5000-Blackwell-48GB", "RTX-PRO-5000"],
            Architecture::Blackwell,
            48,
        )
    },
    GpuModel {
        mig: Some(&mig::RTX_PRO_4500),
        source: MIG_GUIDE,
        ..card(
            "RTX-PRO-4500-BLACKWELL",
            &["RTX-PRO-4500-Blackwell-32GB", "RTX-PRO-4500"],
            Architecture::Blackwell,
            32,
        )
    },
];
