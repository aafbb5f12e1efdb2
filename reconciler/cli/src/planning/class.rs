//! What moving does to a node.

use std::fmt;

use drydock_spec::{
    ComponentClass, ComponentName, Delivery, Disruption, DriverSource, Fleet, PoolSpec, PoolTarget,
};
use serde::Serialize;

/// What moving does to a node, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Class {
    /// Nothing that runs notices.
    None,
    /// Something restarts in place.
    Restart,
    /// Pods have to leave first.
    Drain,
    /// Pods have to leave and the node reboots.
    Reboot,
    /// GPUs are cut anew, which ends everything on them.
    Repartition,
}

impl Class {
    /// The word on screens.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Restart => "restart",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::Repartition => "repartition",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl From<Disruption> for Class {
    fn from(disruption: Disruption) -> Self {
        match disruption {
            Disruption::None => Self::None,
            Disruption::Restart => Self::Restart,
            Disruption::Drain => Self::Drain,
            Disruption::Reboot => Self::Reboot,
        }
    }
}

/// What moving a pool from one target to another does to its nodes.
pub(super) fn of(fleet: &Fleet, pool: &PoolSpec, from: &PoolTarget, to: &PoolTarget) -> Class {
    let layout = if to.layout_id.is_some() && from.layout_id != to.layout_id {
        Class::Repartition
    } else {
        Class::None
    };
    let touched = from.vector.changes(&to.vector).into_iter().filter(|change| change.to.is_some());
    touched.map(|change| of_component(fleet, pool, change.component)).fold(layout, Ord::max)
}

fn of_component(fleet: &Fleet, pool: &PoolSpec, name: &ComponentName) -> Class {
    let Some(component) = fleet.components.get(name) else { return Class::Drain };
    let theirs = component.class == ComponentClass::GpuDriver && pool.driver_source != DriverSource::Managed;
    match component.delivery {
        // Somebody else moves it.
        Delivery::Observe {} => Class::None,
        _ if theirs => Class::None,
        Delivery::DaemonSet(_)
        | Delivery::NvidiaDriver(_)
        | Delivery::ClusterPolicy(_)
        | Delivery::Deployment(_)
        | Delivery::Job(_)
        | Delivery::Label(_) => component.disruption.into(),
    }
}

/// Components of the change that can't be taken back.
pub(super) fn irreversible<'a>(
    fleet: &Fleet,
    changed: impl Iterator<Item = &'a ComponentName>,
) -> Vec<String> {
    let mut names: Vec<String> = changed
        .filter(|name| fleet.components.get(*name).is_some_and(|c| !c.reversible))
        .map(ToString::to_string)
        .collect();
    names.sort();
    names.dedup();
    names
}
