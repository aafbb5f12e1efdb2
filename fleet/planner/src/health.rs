//! Health faults: whom they speak about, and what they take away.
//!
//! A driver reports many codes, and most of them say that a workload failed. The catalogue of [`drydock_gpu::xid`] says
//! which; the driver's own recovery action wins where it was read, since it knows the device and the catalogue doesn't.

use drydock_gpu::xid::{self, PLUGIN_IGNORES, Suspect};
use drydock_plan::{HealthFault, Visit};
use drydock_spec::{ComponentClass, Fleet};
use jiff::Timestamp;

use crate::pass::Pass;

/// The code of a fault that is one.
fn code(fault: &HealthFault) -> Option<u32> {
    fault.kind.strip_prefix("xid-")?.parse().ok()
}

/// Whether the fault says anything about the node or about what runs on it. What a workload did to itself blames nobody,
/// and neither does a note. What isn't known counts: it is looked at rather than passed over.
pub(crate) fn is_somebodys(fault: &HealthFault) -> bool {
    let Some(code) = code(fault) else { return true };
    if xid::action(code, fault.recovery).keeps_serving() {
        return false;
    }
    // Where the catalogue names the workload and the driver says that the device needs a reset all the same, it does.
    let suspect = xid::find(code).map(|row| row.suspect);
    fault.recovery.is_some() || !matches!(suspect, Some(Suspect::Workload | Suspect::Nobody))
}

/// Whether the fault takes capacity away: then the node counts as broken in floors, like one that isn't ready.
///
/// That is a device that mustn't go on serving, or one that NVIDIA's device plugin has taken out of service whatever the
/// code means; GPUs and rails that are missing; a driver or a device plugin that doesn't work. What isn't known counts.
pub(crate) fn takes_capacity(fleet: &Fleet, fault: &HealthFault) -> bool {
    if let Some(code) = code(fault) {
        return !xid::action(code, fault.recovery).keeps_serving() || !PLUGIN_IGNORES.contains(&code);
    }
    let Some(name) = fault.kind.strip_prefix("not-ready-") else { return true };
    let class = fleet.components.iter().find(|(n, _)| n.as_str() == name).map(|(_, c)| c.spec.class);
    class.is_none_or(|class| match class {
        ComponentClass::NetworkDriver
        | ComponentClass::GpuDriver
        | ComponentClass::FabricManager
        | ComponentClass::ContainerToolkit
        | ComponentClass::DevicePlugin
        | ComponentClass::PartitionManager => true,
        ComponentClass::Scheduler
        | ComponentClass::Agent
        | ComponentClass::Firmware
        | ComponentClass::NodeImage => false,
    })
}

impl Pass<'_> {
    /// When the release of its part was first given to the node; the beginning of the visit where that came first.
    pub(crate) fn given_at(&self, i: usize, visit: &Visit) -> Timestamp {
        let exposed = self.rec(i).assignment.as_ref().and_then(|a| a.exposed);
        exposed.map_or(visit.since, |at| at.min(visit.since))
    }

    /// A fault that is there, began since then, and speaks about the node or its release.
    pub(crate) fn fault_since(&self, i: usize, since: Timestamp) -> Option<&HealthFault> {
        self.frame.nodes[i].obs.faults.iter().find(|f| f.since >= since && is_somebodys(f))
    }
}

#[cfg(test)]
mod tests {
    use drydock_gpu::xid::RecoveryAction;

    use super::*;

    fn fault(kind: &str, recovery: Option<RecoveryAction>) -> HealthFault {
        HealthFault { kind: kind.to_owned(), since: Timestamp::UNIX_EPOCH, recovery }
    }

    #[test]
    fn a_workload_speaks_of_itself_and_hardware_of_the_node() {
        for kind in ["xid-13", "xid-31", "xid-43", "xid-45", "xid-63", "xid-68", "xid-94"] {
            assert!(!is_somebodys(&fault(kind, None)), "{kind}");
        }
        for kind in
            ["xid-48", "xid-74", "xid-79", "xid-95", "xid-119", "xid-9999", "gpu-missing", "not-ready-x"]
        {
            assert!(is_somebodys(&fault(kind, None)), "{kind}");
        }
        // The driver knows the device: it overrules the catalogue either way.
        assert!(is_somebodys(&fault("xid-13", Some(RecoveryAction::GpuReset))));
        assert!(!is_somebodys(&fault("xid-79", Some(RecoveryAction::None))));
        assert!(is_somebodys(&fault("xid-154", Some(RecoveryAction::NodeReboot))));
    }
}
