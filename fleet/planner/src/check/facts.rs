//! Small facts that several checks share.

use drydock_gpu::xid::{self, PLUGIN_IGNORES};
use drydock_plan::{HealthFault, Ledger, NodeRecord, ObservedNode, RolloutKind, RolloutRecord, Target};
use drydock_spec::{
    ComponentClass, ComponentName, ComponentSpec, Delivery, Disruption, DomainKey, DriverSource, Fleet,
    PoolSpec,
};

use super::view::AnyNode;

/// Not usable, for whatever reason that isn't a reservation.
pub(super) fn is_broken(seen: &ObservedNode, record: Option<&NodeRecord>) -> bool {
    let held = |r: &NodeRecord| r.visit.as_ref().is_some_and(|v| v.quarantined.is_some());
    !seen.ready || seen.cordon.foreign.is_some() || record.is_some_and(|r| r.quarantine.is_some() || held(r))
}

/// As far as floors are concerned: a node that lacks a part of what it should offer isn't there, though jobs may run on it.
pub(super) fn is_short(fleet: &Fleet, seen: &ObservedNode) -> bool {
    seen.faults.iter().any(|fault| lacks_capacity(fleet, fault))
}

/// GPUs or rails are missing, a device is out of service by the vendor's catalogue or by the device plugin's own list, or
/// what makes devices usable doesn't work.
fn lacks_capacity(fleet: &Fleet, fault: &HealthFault) -> bool {
    if let Some(code) = fault.kind.strip_prefix("xid-").and_then(|n| n.parse::<u32>().ok()) {
        return !PLUGIN_IGNORES.contains(&code) || !xid::action(code, fault.recovery).keeps_serving();
    }
    let beside = |class: ComponentClass| {
        matches!(
            class,
            ComponentClass::Scheduler
                | ComponentClass::Agent
                | ComponentClass::Firmware
                | ComponentClass::NodeImage
        )
    };
    let part = fault.kind.strip_prefix("not-ready-").and_then(|name| name.parse::<ComponentName>().ok());
    let part = part.and_then(|name| fleet.components.get(&name));
    !part.is_some_and(|component| beside(component.class))
}

/// An open rollout has touched it, so if it is broken, that may be the rollout's doing and no allowance covers it.
pub(super) fn is_exposed(record: Option<&NodeRecord>, ledger: &Ledger) -> bool {
    let Some(record) = record else { return false };
    record.soak.is_some()
        || record.assignment.as_ref().is_some_and(|a| {
            a.exposed.is_some() && ledger.rollouts.get(&a.rollout).is_some_and(|r| !r.state.is_final())
        })
}

/// The domain of a node, told apart by cluster: two clusters may both have a rack `r1`. It is looked up once per node
/// and budget, and names of domains differ only at their ends, so a digest in front saves most comparisons of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domain<'a> {
    digest: u64,
    pub(super) cluster: &'a str,
    pub(super) value: &'a str,
}

impl<'a> Domain<'a> {
    pub(super) fn new(cluster: &'a str, value: &'a str) -> Self {
        // FNV-1a; any mixing does, since equal digests are told apart by the texts.
        let mix = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let digest = cluster.bytes().chain([0]).chain(value.bytes()).fold(0xcbf2_9ce4_8422_2325, mix);
        Self { digest, cluster, value }
    }
    pub(super) fn of(node: &AnyNode<'a>, key: DomainKey) -> Option<Self> {
        node.domain_name(key).map(|value| Self::new(node.id.cluster(), value))
    }
}

impl std::fmt::Display for Domain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.cluster {
            "" => f.write_str(self.value),
            cluster => write!(f, "{cluster}/{}", self.value),
        }
    }
}

/// Only rollbacks that drydock makes by itself; a commit that goes back is a person's decision.
pub(super) fn is_automatic_rollback(rollout: &RolloutRecord) -> bool {
    match rollout.kind {
        RolloutKind::Rollback { .. } => true,
        RolloutKind::Forward | RolloutKind::Revert => false,
    }
}

/// Somebody else moves it on nodes of this pool; drydock only looks.
pub(super) fn is_only_observed(component: &ComponentSpec, pool: Option<&PoolSpec>) -> bool {
    let foreign_driver = component.class == ComponentClass::GpuDriver
        && pool.is_some_and(|p| p.driver_source != DriverSource::Managed);
    matches!(component.delivery, Delivery::Observe {}) || foreign_driver
}

/// All nodes of a cluster share it.
pub(super) fn is_shared(fleet: &Fleet, component: &ComponentName) -> bool {
    fleet.components.get(component).is_some_and(|c| matches!(c.delivery, Delivery::Deployment(_)))
}

/// Whether the node runs the target, as far as drydock is the one who moves it there. `None` when the contents of the
/// release aren't known. What is only observed is left aside, and on the way back also what can't be taken back. Of
/// what belongs to the whole cluster a node on a visit answers only for what it `carries`; where that is absent, all of
/// it counts.
pub(super) fn runs(
    fleet: &Fleet,
    ledger: &Ledger,
    pool: Option<&PoolSpec>,
    seen: &ObservedNode,
    target: &Target,
    way_back: bool,
    carries: Option<&[ComponentName]>,
) -> Option<bool> {
    let layout_fits = target.layout.is_none() || target.layout == seen.layout;
    if seen.running.id == target.release {
        return Some(layout_fits);
    }
    let vector = ledger.releases.get(&target.release)?;
    let counts = |name: &ComponentName| {
        fleet.components.get(name).is_none_or(|c| {
            let cluster_wide = matches!(c.delivery, Delivery::Deployment(_));
            let own = !cluster_wide || carries.is_none_or(|list| list.contains(name));
            !is_only_observed(c, pool) && own && (c.reversible || !way_back)
        })
    };
    let fits = vector
        .0
        .iter()
        .filter(|(name, _)| counts(name))
        .all(|(name, version)| seen.running.vector.get(name) == Some(version));
    Some(fits && layout_fits)
}

/// Whether pods have to leave for the target. In doubt they have.
pub(super) fn drains(
    fleet: &Fleet,
    ledger: &Ledger,
    pool: Option<&PoolSpec>,
    seen: &ObservedNode,
    target: &Target,
) -> bool {
    let Some(vector) = ledger.releases.get(&target.release) else { return true };
    let makes_leave = |name: &ComponentName| {
        fleet.components.get(name).is_some_and(|c| {
            let cluster_wide = matches!(c.delivery, Delivery::Deployment(_));
            let leaves = matches!(c.disruption, Disruption::Drain | Disruption::Reboot);
            leaves && !cluster_wide && !is_only_observed(c, pool)
        })
    };
    let cut = target.layout.is_some() && target.layout != seen.layout;
    cut || vector
        .0
        .iter()
        .any(|(name, version)| seen.running.vector.get(name) != Some(version) && makes_leave(name))
}
