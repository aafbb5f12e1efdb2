//! Drivers: whether they, the GPUs and what stands around them go together.

use std::collections::BTreeSet;

use drydock_gpu::{
    compat::{self, FabricManager, Incompatibility, KernelModule, MigUse, Severity, Surroundings},
    driver::DriverVersion,
    mig::MigLayout,
};

use super::Lint;
use crate::{
    document::Kind,
    fleet::Fleet,
    kinds::{
        ComponentClass, ComponentVersion, Delivery, DriverSource, LayoutSpec, PoolSpec, ReleaseSpec, Unnamed,
    },
    rule::RuleId,
    text::ComponentName,
};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut said = BTreeSet::new();
    for (name, pool) in &fleet.pools {
        let Some(release) = fleet.releases.get(&pool.release) else { continue };
        let Some((driver, version)) = of_class(fleet, release, ComponentClass::GpuDriver) else { continue };
        owner(lint, name.as_str(), pool, driver);
        for (rule, component, message) in findings(lint, pool, release, version, driver) {
            // Many pools carry the same release on the same hardware: one of them is enough.
            if said.insert((pool.release.clone(), rule, message.clone())) {
                let message = format!("{message} (pool `{name}`)");
                let document = (Kind::Release, pool.release.as_str());
                lint.at(document, path!["components", component.as_str(), "version"], rule, message, None);
            }
        }
    }
}

fn of_class<'r>(
    fleet: &'r Fleet,
    release: &'r ReleaseSpec,
    class: ComponentClass,
) -> Option<(&'r ComponentName, &'r ComponentVersion)> {
    release.components.iter().find(|(name, _)| fleet.components.get(*name).is_some_and(|c| c.class == class))
}

/// A driver that drydock doesn't install isn't delivered by it either.
fn owner(lint: &mut Lint<'_, '_>, name: &str, pool: &PoolSpec, driver: &ComponentName) {
    let whose = match pool.driver_source {
        DriverSource::Managed => return,
        DriverSource::Host => "a host package",
        DriverSource::NodeImage => "part of the node image",
        DriverSource::OsExtension => "an extension of the operating system",
        DriverSource::Cloud => "installed by the cloud",
    };
    let delivery = lint.fleet().components.get(driver).map(|c| &c.delivery);
    if delivery.is_some_and(|d| !matches!(d, Delivery::Observe {})) {
        let message = format!("the driver here is {whose}, but component `{driver}` is delivered by drydock");
        let hint = "use a release whose driver component has delivery: {observe: {}}".to_owned();
        lint.at((Kind::GpuNodePool, name), path!["driverSource"], RuleId::DriverSource, message, Some(hint));
    }
}

fn findings<'r>(
    lint: &Lint<'r, '_>,
    pool: &PoolSpec,
    release: &'r ReleaseSpec,
    version: &ComponentVersion,
    driver: &'r ComponentName,
) -> Vec<(RuleId, &'r ComponentName, String)> {
    let fleet = lint.fleet();
    let parsed = version.version.as_str().parse::<DriverVersion>();
    let (Some(model), Ok(wanted)) = (lint.model(&pool.gpu.model), parsed) else { return Vec::new() };
    let fabric = of_class(fleet, release, ComponentClass::FabricManager);
    let fabric_version = fabric.and_then(|(_, v)| v.version.as_str().parse::<DriverVersion>().ok());
    let layout = pool.layout.as_ref().and_then(|l| fleet.layouts.get(l));
    let layouts: Vec<MigLayout> = layout.map_or_else(Vec::new, |l| slices(l));
    let layouts: Vec<&MigLayout> = layouts.iter().collect();
    let around = Surroundings {
        gpus_per_node: pool.gpu.count,
        kernel_module: version.config.get("kernelModule").and_then(|m| match m.as_str() {
            "open" => Some(KernelModule::Open),
            "proprietary" => Some(KernelModule::Proprietary),
            _ => None,
        }),
        mig: if layouts.is_empty() || model.mig.is_none() {
            // A model without MIG is the layout's mistake, and is named there.
            MigUse::Off
        } else {
            MigUse::On {
                layouts: &layouts,
                beside_whole: layout.is_some_and(|l| beside_whole(l, pool.gpu.count)),
            }
        },
        fabric_manager: fabric_version.as_ref().map_or(FabricManager::WithDriver, FabricManager::Version),
        ..Surroundings::default()
    };
    let finding = |found: Incompatibility| match (found.severity(), &found) {
        (Severity::Warning, _) => (RuleId::DriverAdvice, driver, found.to_string()),
        (
            Severity::Blocking,
            Incompatibility::FabricManagerDiffers { .. } | Incompatibility::FabricManagerMissing { .. },
        ) => (RuleId::FabricManager, fabric.map_or(driver, |(name, _)| name), found.to_string()),
        (Severity::Blocking, _) => (RuleId::DriverArchitecture, driver, found.to_string()),
    };
    compat::check(model, &wanted, &around).into_iter().map(finding).collect()
}

fn slices(layout: &LayoutSpec) -> Vec<MigLayout> {
    let cut = layout.gpus.iter().filter(|g| g.mig.values().any(|&n| n > 0));
    cut.filter_map(|g| MigLayout::parse(g.mig.iter().map(|(name, &n)| (name.as_str(), n))).ok()).collect()
}

fn beside_whole(layout: &LayoutSpec, count: u32) -> bool {
    let whole_group = layout.gpus.iter().any(|g| g.mig.values().all(|&n| n == 0));
    let everyone = layout.gpus.iter().any(|g| g.devices.is_none());
    let named: usize = layout.gpus.iter().flat_map(|g| &g.devices).map(Vec::len).sum();
    let rest = !everyone && named < count as usize && layout.unnamed == Unnamed::Whole;
    whole_group || rest
}
