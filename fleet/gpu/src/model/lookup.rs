//! Finding a model by what people and clusters call it.

use super::{ALL, GpuModel};
use crate::names::{distance, fold};

/// NVIDIA's PCI vendor id.
const VENDOR: u32 = 0x10DE;

/// The model of that name: catalogue name, product name, or the value of the label `nvidia.com/gpu.product`, in any
/// case and with blanks or dashes. The label's marks for sharing and MIG are understood.
pub fn lookup(name: &str) -> Option<&'static GpuModel> {
    let name = product(name);
    ALL.iter().find(|model| names(model).any(|n| fold(n) == name))
}

/// The catalogue name closest to one that [`lookup`] doesn't find; `None` when nothing is close enough to be meant.
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = product(name);
    let family = |text: &str| text.split('-').next().unwrap_or_default().to_owned();
    let wanted = family(&name);
    ALL.iter()
        .flat_map(|model| names(model).map(move |n| (model, fold(n))))
        .filter_map(|(model, known)| {
            let edits = distance(&name, &known)?;
            let kin = !wanted.is_empty() && family(&known) == wanted;
            // A third of the letters wrong is a guess, unless the family is named in full ("H100").
            (kin || edits * 3 <= name.len()).then_some((!kin, edits, model.name))
        })
        .min_by_key(|(stranger, edits, _)| (*stranger, *edits))
        .map(|(_, _, model)| model)
}

/// The model of a PCI id as partitioning tools write it: device in the upper, vendor in the lower half (`0x233010DE`).
pub fn by_pci_device(id: u32) -> Option<&'static GpuModel> {
    let device = u16::try_from(id >> 16).ok()?;
    (id & 0xFFFF == VENDOR).then(|| ALL.iter().find(|m| m.pci_devices.contains(&device)))?
}

fn names(model: &'static GpuModel) -> impl Iterator<Item = &'static str> {
    std::iter::once(model.name).chain(model.aliases.iter().copied())
}

/// The folded product behind a label value: without vendor, `-SHARED` and `-MIG-…`.
fn product(name: &str) -> String {
    let mut name = fold(name);
    if let Some(at) = name.find("-mig-") {
        name.truncate(at);
    }
    let name = name.strip_suffix("-shared").unwrap_or(&name);
    name.strip_prefix("nvidia-").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_names_clusters_print_are_known() {
        for (name, want) in [
            ("NVIDIA-H100-80GB-HBM3", Some("H100-80GB")),
            ("NVIDIA-H100-80GB-HBM3-SHARED", Some("H100-80GB")),
            ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", Some("A100-40GB")),
            ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", Some("A100-40GB")),
            ("NVIDIA-A100-SXM4-40GB-MIG-INVALID", Some("A100-40GB")),
            ("NVIDIA A100 80GB PCIe", Some("A100-PCIE-80GB")),
            ("nvidia h100 nvl", Some("H100-94GB")),
            ("Tesla-V100-SXM2-16GB", Some("V100")),
            ("V100", Some("V100")),
            ("h200", Some("H200")),
            ("H200-141GB", Some("H200")),
            ("B200-180GB", Some("B200")),
            ("GB200-186GB", Some("GB200")),
            ("L40S", Some("L40S")),
            ("A30", Some("A30")),
            ("H100", None),
            ("", None),
            ("MI300X", None),
        ] {
            assert_eq!(lookup(name).map(|m| m.name), want, "{name}");
        }
    }

    #[test]
    fn near_misses_get_a_hint_and_strangers_none() {
        for (name, want) in [
            ("H100", Some("H100-80GB")),
            ("H100-80", Some("H100-80GB")),
            ("H1OO-80GB", Some("H100-80GB")),
            ("A100-80G", Some("A100-80GB")),
            ("A100-40", Some("A100-40GB")),
            ("L40Z", Some("L40")),
            ("GB20", Some("GB200")),
            ("NVIDIA-RTX-PRO-6000-Blackwel", Some("RTX-PRO-6000-BLACKWELL")),
            ("MI300X", None),
            ("gaudi", None),
            ("", None),
        ] {
            assert_eq!(nearest(name), want, "{name}");
        }
        assert_eq!(nearest(&"q".repeat(100_000)), None);
    }

    #[test]
    fn no_name_and_no_pci_id_means_two_models() {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        let mut ids: BTreeMap<u16, &str> = BTreeMap::new();
        for model in ALL {
            for name in names(model) {
                assert_eq!(seen.insert(fold(name), model.name), None, "{name}");
                assert_eq!(lookup(name).map(|m| m.name), Some(model.name), "{name}");
            }
            for id in model.pci_devices {
                assert_eq!(ids.insert(*id, model.name), None, "{id:x}");
            }
        }
        assert_eq!(by_pci_device(0x2330_10DE).map(|m| m.name), Some("H100-80GB"));
        assert_eq!(by_pci_device(0x2330_8086), None);
        assert_eq!(by_pci_device(0), None);
    }

    #[test]
    fn switches_come_with_the_board() {
        let needs = |name, gpus| lookup(name).map(|m| m.needs_fabric_manager(gpus));
        assert_eq!(needs("H100-80GB", 8), Some(true));
        assert_eq!(needs("H100-80GB", 4), Some(false));
        assert_eq!(needs("H100-PCIe", 8), Some(false));
        assert_eq!(needs("GB200", 4), Some(false));
        assert_eq!(needs("V100", 8), Some(false));
        assert_eq!(lookup("GB200").map(GpuModel::is_arm64), Some(true));
        assert_eq!(lookup("B200").map(GpuModel::is_arm64), Some(false));
    }
}
