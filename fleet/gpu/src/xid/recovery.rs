//! The recovery action a driver asks for, and what is done about a fault.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What has to happen before a device is trusted again, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Nothing; note it.
    Record,
    /// Judge by the other Xid reported with it.
    FollowOther,
    /// Restart the workload; the device stays in service.
    RestartWorkload,
    /// Ask the driver for its recovery action and do that.
    ReadRecoveryAction,
    /// Decode the sub-code of the report; until then the device is out of service.
    DecodeSubcode,
    /// Take the traffic of its peers off the device.
    DrainPeers,
    /// Drain the node and reset the GPU.
    ResetGpu,
    /// Drain the node and reset the bus behind the GPU.
    ResetBus,
    /// Recover the NVLink domain through its IMEX daemons.
    RecoverImexDomain,
    /// Drain the node and check the NVLink fabric.
    CheckFabric,
    /// Restart the virtual machine.
    RestartVm,
    /// Drain and reboot the node.
    RebootNode,
    /// Bring driver or firmware to versions that go together.
    UpdateSoftware,
    /// Have a person look at power, cooling and seating.
    InspectHardware,
    /// Ask the vendor.
    ContactVendor,
    /// Keep the device out of service; nothing is done on its own.
    HoldOut,
}

impl Action {
    /// Whether the device may go on serving other workloads while this is done.
    pub const fn keeps_serving(self) -> bool {
        match self {
            Action::Record | Action::FollowOther | Action::RestartWorkload => true,
            Action::ReadRecoveryAction
            | Action::DecodeSubcode
            | Action::DrainPeers
            | Action::ResetGpu
            | Action::ResetBus
            | Action::RecoverImexDomain
            | Action::CheckFabric
            | Action::RestartVm
            | Action::RebootNode
            | Action::UpdateSoftware
            | Action::InspectHardware
            | Action::ContactVendor
            | Action::HoldOut => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Record => "note it",
            Action::FollowOther => "judge by the Xid reported with it",
            Action::RestartWorkload => "restart the workload",
            Action::ReadRecoveryAction => "ask the driver for its recovery action",
            Action::DecodeSubcode => "decode the sub-code",
            Action::DrainPeers => "drain the traffic of its peers",
            Action::ResetGpu => "drain the node and reset the GPU",
            Action::ResetBus => "drain the node and reset the bus",
            Action::RecoverImexDomain => "recover the IMEX domain",
            Action::CheckFabric => "drain the node and check the NVLink fabric",
            Action::RestartVm => "restart the virtual machine",
            Action::RebootNode => "drain and reboot the node",
            Action::UpdateSoftware => "update driver or firmware",
            Action::InspectHardware => "inspect power, cooling and seating",
            Action::ContactVendor => "contact the vendor",
            Action::HoldOut => "keep it out of service",
        })
    }
}

/// The driver's own verdict on a device: NVML field 230.
///
/// Sources: `NVIDIA/go-nvml`, `gen/nvml/nvml.h` (0 to 5); NVIDIA cuda-python, `DeviceGpuRecoveryAction` (6 and 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecoveryAction {
    /// The device is fine.
    None,
    /// Reset the GPU.
    GpuReset,
    /// Reboot the node.
    NodeReboot,
    /// Drain peer-to-peer traffic.
    DrainPeers,
    /// Drain, then reset the GPU.
    DrainAndReset,
    /// Recover the IMEX domain.
    RecoverImexDomain,
    /// Reset the bus.
    BusReset,
    /// Reboot the system.
    SystemReboot,
    /// A value this table doesn't have.
    Unknown(u32),
}

impl RecoveryAction {
    /// The NVML field that holds it.
    pub const NVML_FIELD: u32 = 230;

    /// Reads the value of the NVML field.
    pub const fn from_nvml(value: u32) -> Self {
        match value {
            0 => RecoveryAction::None,
            1 => RecoveryAction::GpuReset,
            2 => RecoveryAction::NodeReboot,
            3 => RecoveryAction::DrainPeers,
            4 => RecoveryAction::DrainAndReset,
            5 => RecoveryAction::RecoverImexDomain,
            6 => RecoveryAction::BusReset,
            7 => RecoveryAction::SystemReboot,
            other => RecoveryAction::Unknown(other),
        }
    }

    /// What is done about it.
    pub const fn action(self) -> Action {
        match self {
            RecoveryAction::None => Action::Record,
            RecoveryAction::GpuReset | RecoveryAction::DrainAndReset => Action::ResetGpu,
            RecoveryAction::NodeReboot | RecoveryAction::SystemReboot => Action::RebootNode,
            RecoveryAction::DrainPeers => Action::DrainPeers,
            RecoveryAction::RecoverImexDomain => Action::RecoverImexDomain,
            RecoveryAction::BusReset => Action::ResetBus,
            RecoveryAction::Unknown(_) => Action::HoldOut,
        }
    }
}
