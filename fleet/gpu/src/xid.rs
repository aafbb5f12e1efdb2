//! Xid codes: what a driver reports when something goes wrong on a GPU, and what that means for a rollout.

mod catalogue;
mod recovery;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use catalogue::ALL;
pub use recovery::{Action, RecoveryAction};

/// Codes grouped by what has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum XidClass {
    /// A workload failed; the device is fine.
    Application,
    /// Only comes with another code, which decides.
    FollowsAnother,
    /// Worth a note and nothing more.
    RecordOnly,
    /// The GPU needs a reset.
    GpuReset,
    /// The machine needs a restart.
    NodeReboot,
    /// The virtual machine needs a restart.
    VmRestart,
    /// An NVLink failed.
    Nvlink,
    /// An NVLink 5 report whose sub-code decides.
    NvlinkSubcode,
    /// Power or cooling holds the GPU back.
    HardwareCheck,
    /// Driver and firmware don't go together.
    SoftwareUpdate,
    /// Only the vendor knows.
    VendorSupport,
    /// The driver changed its recovery action, which decides.
    RecoveryActionChanged,
    /// The catalogue gives no action, or doesn't have the code.
    Unknown,
}

impl XidClass {
    /// What is done about it. Unknown codes keep the device out and change nothing.
    pub const fn action(self) -> Action {
        match self {
            XidClass::Application => Action::RestartWorkload,
            XidClass::FollowsAnother => Action::FollowOther,
            XidClass::RecordOnly => Action::Record,
            XidClass::GpuReset => Action::ResetGpu,
            XidClass::NodeReboot => Action::RebootNode,
            XidClass::VmRestart => Action::RestartVm,
            XidClass::Nvlink => Action::CheckFabric,
            XidClass::NvlinkSubcode => Action::DecodeSubcode,
            XidClass::HardwareCheck => Action::InspectHardware,
            XidClass::SoftwareUpdate => Action::UpdateSoftware,
            XidClass::VendorSupport => Action::ContactVendor,
            XidClass::RecoveryActionChanged => Action::ReadRecoveryAction,
            XidClass::Unknown => Action::HoldOut,
        }
    }

    /// Whether the device may go on serving.
    pub const fn keeps_serving(self) -> bool {
        self.action().keeps_serving()
    }
}

/// Who is suspected first when a code appears while a version is rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Suspect {
    /// The workload: never counted against node or version.
    Workload,
    /// The driver or its firmware: counted against the version.
    Driver,
    /// The device: counted against the node.
    Device,
    /// Links and switches: counted against the node and its partners, not against the version.
    Fabric,
    /// Nobody: not a fault.
    Nobody,
    /// Device or version: only going back to the old version tells.
    Undecided,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suspect::Workload => "workload",
            Suspect::Driver => "driver",
            Suspect::Device => "device",
            Suspect::Fabric => "fabric",
            Suspect::Nobody => "nobody",
            Suspect::Undecided => "undecided",
        })
    }
}

/// A code in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The number in the kernel log.
    pub code: u32,
    /// The vendor's name for it.
    pub mnemonic: &'static str,
    /// What has to be done.
    pub class: XidClass,
    /// Who is suspected first.
    pub suspect: Suspect,
}

/// The catalogue's row of a code.
pub fn find(code: u32) -> Option<&'static Xid> {
    ALL.binary_search_by_key(&code, |xid| xid.code).ok().and_then(|at| ALL.get(at))
}

/// The class of a code; [`XidClass::Unknown`] when the catalogue doesn't have it.
pub fn classify(code: u32) -> XidClass {
    find(code).map_or(XidClass::Unknown, |xid| xid.class)
}

/// What to do about a code on a device. The driver's own verdict wins where it can be read: it knows the sub-code and
/// the state of the device, of which the table knows nothing.
pub fn action(code: u32, recovery: Option<RecoveryAction>) -> Action {
    let by_code = classify(code).action();
    match recovery {
        // "Nothing to recover" says the device is fine, not that the workload survived.
        Some(RecoveryAction::None) if by_code == Action::RestartWorkload => Action::RestartWorkload,
        Some(recovery) => recovery.action(),
        None => by_code,
    }
}

/// Codes that NVIDIA's device plugin takes no notice of. Every other code takes a device out of service for good, also
/// where the vendor rates it harmless; and 109 stays in service although the vendor asks for a reset.
///
/// Source: `NVIDIA/k8s-device-plugin`, `internal/rm/health.go`.
pub const PLUGIN_IGNORES: &[u32] = &[13, 31, 43, 45, 68, 109];

/// How the device plugin's verdict on a code differs from the vendor's catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginVerdict {
    /// Both say the same.
    Agrees,
    /// The plugin takes a device out that may go on serving.
    TooStrict,
    /// The plugin leaves a device in service that shouldn't be.
    TooLax,
}

/// Compares the device plugin's verdict with the class of a code.
pub fn plugin_verdict(code: u32) -> PluginVerdict {
    let class = classify(code);
    match (PLUGIN_IGNORES.contains(&code), class.keeps_serving()) {
        (true, true) | (false, false) => PluginVerdict::Agrees,
        (false, true) => PluginVerdict::TooStrict,
        (true, false) => PluginVerdict::TooLax,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_in_order() {
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert_eq!(ALL.len(), 109);
        for xid in ALL {
            assert_eq!(find(xid.code), Some(xid));
        }
    }

    #[test]
    fn classes_of_the_codes_that_matter() {
        for (class, codes) in [
            (XidClass::Application, &[13, 31, 68, 69, 94][..]),
            (XidClass::FollowsAnother, &[45]),
            (XidClass::GpuReset, &[46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158]),
            (XidClass::NodeReboot, &[79]),
            (XidClass::Nvlink, &[74]),
            (XidClass::NvlinkSubcode, &[144, 145, 146, 147, 148, 149, 150]),
            (XidClass::RecordOnly, &[43, 63, 92, 121]),
            (XidClass::RecoveryActionChanged, &[154]),
            (XidClass::HardwareCheck, &[54]),
            (XidClass::SoftwareUpdate, &[78]),
            (XidClass::VendorSupport, &[142]),
            (XidClass::VmRestart, &[151]),
            (XidClass::Unknown, &[0, 56, 162, 172, 173, u32::MAX]),
        ] {
            for code in codes {
                assert_eq!(classify(*code), class, "{code}");
            }
        }
        assert!(ALL.iter().all(|x| x.class != XidClass::Application || x.suspect != Suspect::Driver));
    }

    #[test]
    fn the_driver_knows_better_than_the_table() {
        assert_eq!(action(79, None), Action::RebootNode);
        assert_eq!(action(79, Some(RecoveryAction::from_nvml(4))), Action::ResetGpu);
        assert_eq!(action(13, Some(RecoveryAction::None)), Action::RestartWorkload);
        assert_eq!(action(154, Some(RecoveryAction::from_nvml(2))), Action::RebootNode);
        assert_eq!(action(154, None), Action::ReadRecoveryAction);
        assert_eq!(action(999, None), Action::HoldOut);
        assert_eq!(RecoveryAction::from_nvml(42).action(), Action::HoldOut);
    }

    #[test]
    fn where_the_device_plugin_differs() {
        let count = |verdict| ALL.iter().filter(|x| plugin_verdict(x.code) == verdict).count();
        assert_eq!(plugin_verdict(109), PluginVerdict::TooLax);
        assert_eq!(count(PluginVerdict::TooLax), 1);
        // 46 codes rated "restart the application" and 18 rated "ignore".
        assert_eq!(count(PluginVerdict::TooStrict), 64);
    }
}
