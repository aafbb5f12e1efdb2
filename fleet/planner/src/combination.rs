//! Where a release fails only together with something else: a kernel, a GPU, a pool. A person who reads why a rollout has
//! halted is told, since the release may be good everywhere else.

use std::collections::BTreeSet;

use drydock_plan::{Blame, NodeOutcome, RolloutRecord};
use drydock_spec::ReleaseId;

use crate::pass::Pass;

/// The label in which GPU feature discovery tells the product.
pub(crate) const PRODUCT: &str = "nvidia.com/gpu.product";

impl Pass<'_> {
    /// What the nodes on which a release failed have in common and those on which it is good don't have.
    pub(crate) fn fails_only_with(&self, rollout: &RolloutRecord, release: &ReleaseId) -> Option<String> {
        let mut failed = Vec::new();
        for failure in rollout.failures.iter().filter(|f| f.release == *release && f.blame == Blame::Version)
        {
            failed.extend(self.frame.find(&failure.node));
        }
        let good: Vec<usize> = (0..self.frame.nodes.len())
            .filter(|&i| {
                let record = self.rec(i);
                let mine = record.assignment.as_ref().filter(|a| a.rollout == rollout.id);
                mine.is_some_and(|a| {
                    a.target.release == *release
                        && (record.soak.is_some() || a.outcome == Some(NodeOutcome::Done))
                })
            })
            .collect();
        if failed.is_empty() || good.is_empty() {
            return None;
        }
        let kernel = |i: usize| Some(self.frame.nodes[i].obs.kernel.to_string());
        let product = |i: usize| self.frame.nodes[i].obs.labels.get(PRODUCT).cloned();
        let pool = |i: usize| self.rec(i).assignment.as_ref().map(|a| a.pool.to_string());
        let apart = |word: &str, of: &dyn Fn(usize) -> Option<String>| {
            let bad: BTreeSet<Option<String>> = failed.iter().map(|&i| of(i)).collect();
            let fine: BTreeSet<Option<String>> = good.iter().map(|&i| of(i)).collect();
            let (Some(Some(only)), 1) = (bad.first(), bad.len()) else { return None };
            (!fine.contains(&Some(only.clone()))).then(|| format!("only with {word} {only}"))
        };
        let found =
            apart("kernel", &kernel).or_else(|| apart("GPU", &product)).or_else(|| apart("pool", &pool))?;
        Some(format!("{found}; it is good on {} others", good.len()))
    }
}
