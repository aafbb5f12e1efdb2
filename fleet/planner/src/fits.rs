//! Whether a release and what is really in a node go together. The documents were judged when they were loaded, by what
//! they say of the hardware; here the hardware speaks.

use drydock_gpu::{
    compat::{self, KernelModule, Severity, Surroundings},
    driver::DriverVersion,
    model,
};
use drydock_plan::Target;
use drydock_spec::ComponentClass;

use crate::{combination::PRODUCT, desired, pass::Pass};

impl Pass<'_> {
    /// Why the driver of a target can't run on the GPUs that this node shows. What it doesn't show, or shows in words that
    /// the catalogue doesn't have, speaks against nothing.
    pub(crate) fn incompatible(&self, i: usize, target: &Target) -> Option<String> {
        let node = &self.frame.nodes[i];
        let product: &str = node.obs.labels.get(PRODUCT)?;
        let mut known = self.misfits.borrow_mut();
        let of_product = known.entry((product, node.pool, node.gpus)).or_default();
        if let Some((_, found)) = of_product.iter().find(|(release, _)| *release == target.release) {
            return found.clone();
        }
        let found = self.misfit(product, node.pool, node.gpus, target);
        of_product.push((target.release.clone(), found.clone()));
        found
    }

    fn misfit(&self, product: &str, pool: Option<usize>, gpus: u32, target: &Target) -> Option<String> {
        let model = model::lookup(product)?;
        let pool = pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.spec);
        let (_, version) =
            self.vector(&target.release)?.0.iter().find(|(name, _)| {
                self.input.fleet.components.get(*name).is_some_and(|c| {
                    c.spec.class == ComponentClass::GpuDriver && desired::applies(pool, &c.spec)
                })
            })?;
        let driver: DriverVersion = version.version.as_str().parse().ok()?;
        let around = Surroundings {
            gpus_per_node: gpus,
            kernel_module: version.config.get("kernelModule").and_then(|m| match m.as_str() {
                "open" => Some(KernelModule::Open),
                "proprietary" => Some(KernelModule::Proprietary),
                _ => None,
            }),
            ..Surroundings::default()
        };
        let found = compat::check(model, &driver, &around);
        found.into_iter().find(|f| f.severity() == Severity::Blocking).map(|f| f.to_string())
    }
}
