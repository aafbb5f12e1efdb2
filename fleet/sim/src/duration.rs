//! How long things take. Ranges in seconds; each with where the number comes from.

use drydock_plan::{CheckOrder, NodeId};
use drydock_spec::{CheckOn, ComponentClass, ComponentName, ComponentVersion, Period};

use crate::{Draw, ground::Ground};

/// A write is answered and seen again.
pub(crate) const ACKNOWLEDGE: Period = Period::from_secs(2);
/// After a node is back, what it was doing goes on.
pub(crate) const SETTLE: Period = Period::from_secs(30);
/// Pods of an evicted job or node take 30 to 300 s: from a usual grace period to the drain time-out of GPU Operator.
const DRAIN: (u64, u64) = (30, 300);
/// Images and modules of a driver release are some GB.
const PREFETCH: (u64, u64) = (30, 120);
/// MIG geometry: teams poll for up to 15 × 20 s.
const PARTITION: (u64, u64) = (60, 300);
/// A DGX takes 10 to 15 minutes to come back.
const REBOOT: (u64, u64) = (600, 900);
/// One application in a hundred runs into the tail; 21 minutes is what GPU Operator's start probe allows.
const DRIVER_TAIL: (f64, u64) = (0.01, 21 * 60);

fn within(draw: Draw, (low, high): (u64, u64)) -> Period {
    Period::from_millis(draw.between(low * 1000, high * 1000))
}

fn range(class: ComponentClass, compiled: bool) -> (u64, u64) {
    match class {
        // A ready-made driver is loaded in 2 to 3 minutes; compiling it on the node costs another 3 to 4.
        ComponentClass::GpuDriver if compiled => (300, 420),
        ComponentClass::GpuDriver => (120, 180),
        // The network driver is compiled in the same way and is a little smaller.
        ComponentClass::NetworkDriver if compiled => (240, 360),
        ComponentClass::NetworkDriver => (90, 180),
        ComponentClass::FabricManager
        | ComponentClass::ContainerToolkit
        | ComponentClass::DevicePlugin
        | ComponentClass::PartitionManager
        | ComponentClass::Scheduler
        | ComponentClass::Agent => (20, 60),
        ComponentClass::Firmware => (300, 900),
        ComponentClass::NodeImage => (420, 600),
    }
}

/// One application of a component.
pub(crate) fn apply(
    ground: &Ground,
    node: &NodeId,
    compiled: bool,
    component: &ComponentName,
    version: Option<&ComponentVersion>,
    attempt: u32,
) -> Period {
    let version = version.map_or("", |v| v.version.as_str());
    let draw = ground.draw(node, "apply").text(component.as_str()).text(version).number(attempt.into());
    let class = ground.class(component);
    if class == ComponentClass::GpuDriver && draw.text("tail").chance(DRIVER_TAIL.0) {
        return Period::from_secs(DRIVER_TAIL.1);
    }
    within(draw, range(class, compiled))
}

/// One reboot.
pub(crate) fn reboot(ground: &Ground, node: &NodeId, boot: u64) -> Period {
    within(ground.draw(node, "reboot").number(boot), REBOOT)
}

/// One cut of the GPUs.
pub(crate) fn partition(ground: &Ground, node: &NodeId, layout: &str, attempt: u32) -> Period {
    within(ground.draw(node, "partition").text(layout).number(attempt.into()), PARTITION)
}

/// Fetching of artefacts; `what` names them.
pub(crate) fn prefetch(ground: &Ground, node: &NodeId, what: &str) -> Period {
    within(ground.draw(node, "prefetch").text(what), PREFETCH)
}

/// The leaving of the n-th pod.
pub(crate) fn leave(ground: &Ground, node: &NodeId, shift: u64, pod: u32) -> Period {
    within(ground.draw(node, "leave").number(shift).number(pod.into()), DRAIN)
}

/// One run of a check: 1 to 3 minutes on a node, 10 to 20 for the nodes of a scalable unit, pairs between. Never more
/// than four fifths of its time limit: an honest run ends in time, and only a fault makes a hang.
pub(crate) fn check(ground: &Ground, node: &NodeId, order: &CheckOrder, run: &str) -> Period {
    let range = match order.on {
        CheckOn::Node => (60, 180),
        CheckOn::Pair => (120, 300),
        CheckOn::Group => (600, 1200),
    };
    let draw = ground.draw(node, "check").text(order.name.as_str()).text(run).number(order.attempt.into());
    let longest = Period::from_millis(order.timeout.as_millis() / 5 * 4);
    within(draw, range).min(longest).max(Period::from_secs(1))
}
