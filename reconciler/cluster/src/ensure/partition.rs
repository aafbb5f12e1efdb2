//! The GPUs of a node are cut like a layout says, and advertised so.

use std::collections::BTreeMap;

use drydock_plan::Blocker;
use drydock_spec::{
    ComponentClass, Delivery, Fleet, LabelDelivery, LayoutId, LayoutName, LayoutSpec, MigStrategy,
};
use jiff::SignedDuration;

use super::apply::label;
use super::{Effort, Outcome, View};
use crate::delivery;

/// Devices are advertised some seconds after the agent is done; longer than this is a mismatch.
const ADVERTISED_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// The label of the agent that cuts GPUs: the fleet's component of class `partitionManager` that is delivered by label.
#[must_use]
pub fn agent(fleet: &Fleet) -> Option<&LabelDelivery> {
    fleet.components.values().find_map(|c| match (&c.spec.class, &c.spec.delivery) {
        (ComponentClass::PartitionManager, Delivery::Label(label)) => Some(label),
        _ => None,
    })
}

/// Devices that a node with `gpus` GPUs should advertise; `None` when the layout doesn't say it for all of them.
#[must_use]
pub fn expected(layout: &LayoutSpec, gpus: u32) -> Option<BTreeMap<String, u32>> {
    let mut devices: BTreeMap<String, u32> = BTreeMap::new();
    let mut left = gpus;
    for group in &layout.gpus {
        let count = match &group.devices {
            Some(indices) => u32::try_from(indices.len()).unwrap_or(u32::MAX),
            None => left,
        };
        left = left.checked_sub(count)?;
        if group.mig.is_empty() {
            *devices.entry("nvidia.com/gpu".to_owned()).or_default() += count;
        }
        for (profile, each) in &group.mig {
            let name = match layout.strategy {
                MigStrategy::Mixed => format!("nvidia.com/mig-{}", profile.replace('+', ".")),
                MigStrategy::Single | MigStrategy::None => "nvidia.com/gpu".to_owned(),
            };
            *devices.entry(name).or_default() += each * count;
        }
    }
    if left > 0 {
        match layout.unnamed {
            drydock_spec::Unnamed::Whole => *devices.entry("nvidia.com/gpu".to_owned()).or_default() += left,
            drydock_spec::Unnamed::Unchanged => return None,
        }
    }
    if let Some(sharing) = layout.time_slicing.or(layout.mps) {
        devices = devices
            .into_iter()
            .map(|(name, count)| {
                let name = if sharing.rename_by_default { format!("{name}.shared") } else { name };
                (name, count * sharing.replicas)
            })
            .collect();
    }
    Some(devices)
}

/// Whether the devices fit; what is advertised beyond the layout's names (none of them left over) doesn't.
#[must_use]
pub fn fits(expected: &BTreeMap<String, u32>, advertised: &BTreeMap<String, u32>) -> bool {
    let real = |map: &BTreeMap<String, u32>| -> BTreeMap<String, u32> {
        map.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (name.clone(), *count)).collect()
    };
    real(expected) == real(advertised)
}

/// The GPUs of the node are cut like this and advertised so.
pub fn partitioned(
    view: &View<'_>,
    effort: &mut Effort,
    layout: &LayoutId,
    name: Option<&LayoutName>,
    attempt: u32,
) -> Outcome {
    let Some(agent) = agent(view.fleet) else {
        return Outcome::failed(
            "no component of class partitionManager is delivered by label, so nothing cuts GPUs",
        );
    };
    let Some(name) = name else {
        return Outcome::failed(format!(
            "the documents in force don't describe the layout {layout} any more"
        ));
    };
    let outcome = label::wanted(view, effort, agent, Some(name.as_str()), attempt);
    if outcome != Outcome::done() {
        return outcome;
    }
    let gpus = pool_gpus(view);
    let spec = view.fleet.layouts.get(name).map(|l| &l.spec);
    let Some(expected) = spec.zip(gpus).and_then(|(spec, gpus)| expected(spec, gpus)) else {
        return Outcome::done();
    };
    if fits(&expected, &view.node.devices) {
        return Outcome::done();
    }
    let until = effort.since("advertised", view.now).checked_add(ADVERTISED_WITHIN).unwrap_or(view.now);
    let text = format!("advertised {}, expected {}", list(&view.node.devices), list(&expected));
    if view.now >= until {
        return Outcome::failed(text);
    }
    let mut waiting = Outcome::blocked(0, Blocker::NotReady(text));
    waiting.again = Some(until);
    waiting
}

fn pool_gpus(view: &View<'_>) -> Option<u32> {
    let pool = delivery::pool_of(view.fleet, view.cluster, &view.node.meta.labels)?;
    Some(pool.gpu.count)
}

fn list(devices: &BTreeMap<String, u32>) -> String {
    if devices.is_empty() {
        return "nothing".to_owned();
    }
    devices.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_layout_advertises() {
        let layout = |text: &str| -> LayoutSpec { serde_json::from_str(text).unwrap() };
        let told = |text: &str, gpus| expected(&layout(text), gpus).map(|d| list(&d));
        let seven = r#"{"strategy":"mixed","gpus":[{"mig":{"1g.10gb":7}}]}"#;
        assert_eq!(told(seven, 8).as_deref(), Some("56 nvidia.com/mig-1g.10gb"));
        let half = r#"{"strategy":"mixed","gpus":[{"devices":[0,1],"mig":{"3g.40gb":2}}]}"#;
        assert_eq!(told(half, 8).as_deref(), Some("6 nvidia.com/gpu, 4 nvidia.com/mig-3g.40gb"));
        let sliced = r#"{"timeSlicing":{"replicas":4,"renameByDefault":true}}"#;
        assert_eq!(told(sliced, 8).as_deref(), Some("32 nvidia.com/gpu.shared"));
        assert_eq!(told(r#"{"gpus":[{"devices":[0]}],"unnamed":"unchanged"}"#, 8), None);
    }
}
