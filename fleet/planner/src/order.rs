//! Among units that may go, which goes first.

use drydock_plan::Target;
use drydock_spec::{OrderKey, PolicySpec};

use crate::{pass::Pass, units::Unit};

/// Seconds of a restart that every interrupted gang pays on top of the work since its checkpoint: ten minutes, the
/// figure of the worked example behind the objective.
const RESTART_SECS: i64 = 600;

impl Pass<'_> {
    /// Sorts units, first to go first. What is broken already always comes first: it costs nothing and a fix reaches
    /// it soonest.
    pub(crate) fn sort_units(&self, units: &mut [Unit], strategy: &PolicySpec, salt: &str) {
        units.sort_by_cached_key(|unit| {
            let healthy = !unit.nodes.iter().any(|&i| self.badly_off(i));
            let keys: Vec<i64> =
                strategy.order.iter().map(|key| self.order_value(unit, *key, salt)).collect();
            (healthy, keys, unit.id.clone())
        });
    }

    /// Broken, faulty, or running a release that failed on its pool.
    fn badly_off(&self, i: usize) -> bool {
        let node = &self.frame.nodes[i];
        let failed = || {
            let runs = Target { release: node.obs.running.id.clone(), layout: node.obs.layout.clone() };
            node.obs.pool.as_ref().is_some_and(|pool| self.failed_on(pool, &runs).is_some())
        };
        self.broken(i) || !node.obs.faults.is_empty() || failed()
    }

    fn order_value(&self, unit: &Unit, key: OrderKey, salt: &str) -> i64 {
        match key {
            OrderKey::PreferIdle => {
                i64::from(unit.nodes.iter().any(|&i| self.frame.nodes[i].obs.work.gpu_pods > 0))
            }
            OrderKey::LeastLostGpuHours => unit.gangs.iter().map(|g| self.lost_gpu_seconds(g, unit)).sum(),
            OrderKey::FewestIncidents => unit.nodes.iter().map(|&i| i64::from(self.rec(i).incidents)).sum(),
            OrderKey::StableHash => {
                // Half the range keeps it non-negative, so that it compares like the other keys.
                unit.nodes
                    .first()
                    .map_or(0, |&i| (hash(salt, self.frame.nodes[i].id.as_str()) >> 1).cast_signed())
            }
            // The caller breaks ties by name.
            OrderKey::Name => 0,
        }
    }

    fn lost_gpu_seconds(&self, gang: &drydock_plan::GangId, unit: &Unit) -> i64 {
        let Some(observed) = self.input.inventory.gangs.get(gang) else { return 0 };
        let gpus = unit.nodes.first().map_or(0, |&i| i64::from(self.frame.nodes[i].gpus));
        let nodes = i64::try_from(observed.nodes.len()).unwrap_or(i64::MAX);
        let since = self.now().duration_since(observed.last_checkpoint).as_secs().max(0);
        gpus.saturating_mul(nodes).saturating_mul(since.saturating_add(RESTART_SECS))
    }
}

/// FNV-1a (public domain constants, Fowler, Noll, Vo) with a final mix: stable between versions and machines, which
/// the standard hasher doesn't promise.
pub(crate) fn hash(salt: &str, text: &str) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    for byte in salt.bytes().chain([0]).chain(text.bytes()) {
        h = (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::hash;

    /// Canaries rotate between releases: the first of ten nodes isn't the same for all of twenty releases.
    #[test]
    fn canaries_rotate() {
        let first = |salt: &str| (0..10).min_by_key(|n| hash(salt, &format!("c/n-{n}")));
        let distinct: std::collections::BTreeSet<_> = (0..20).map(|r| first(&format!("r-{r}"))).collect();
        assert!(distinct.len() > 3, "{distinct:?}");
    }
    #[test]
    fn hashes_never_change() {
        assert_eq!(hash("r-1", "c/n-1"), hash("r-1", "c/n-1"));
        assert_ne!(hash("r-1", "c/n-1"), hash("r-1c", "/n-1"));
    }
}
