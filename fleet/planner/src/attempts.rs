//! Failures as a share: of the units that were given the release, how many failed. Both are counted in units.

use std::collections::BTreeSet;

use drydock_plan::{Blame, Failure, NodeId, RolloutRecord};
use drydock_spec::DomainKey;
use jiff::Timestamp;

use crate::pass::Pass;

/// Failures in one domain within so long count once in a row: a switch or a power feed that fails takes its nodes within
/// minutes of each other, and that is one failure of something else.
const COMMON_CAUSE: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// Kinds of domain that share what can fail for all in it.
const SHARED_FATE: [DomainKey; 3] = [DomainKey::NvlinkDomain, DomainKey::Rack, DomainKey::Rail];

impl Pass<'_> {
    /// Units of a wave that were given its release, and those of them that failed; what is the node's own isn't counted.
    pub(crate) fn share_failed(
        &self,
        rollout: &RolloutRecord,
        wave: usize,
        failures: &[&Failure],
    ) -> (u32, u32) {
        let unit = |node: &NodeId| self.unit_name(rollout, node);
        let failed: BTreeSet<String> =
            failures.iter().filter(|f| f.blame != Blame::Node).map(|f| unit(&f.node)).collect();
        let given = self.wave_nodes(&rollout.id, wave);
        let given =
            given.iter().filter(|&&i| self.rec(i).assignment.as_ref().is_some_and(|a| a.exposed.is_some()));
        let mut attempted: BTreeSet<String> = given.map(|&i| unit(self.frame.nodes[i].id)).collect();
        // Nodes that are gone by now were given it as well.
        attempted.extend(failures.iter().map(|f| unit(&f.node)));
        let count = |set: &BTreeSet<String>| u32::try_from(set.len()).unwrap_or(u32::MAX);
        (count(&failed), count(&attempted))
    }

    fn unit_name(&self, rollout: &RolloutRecord, node: &NodeId) -> String {
        let domain = || {
            let key = rollout.strategy.atomic.first()?;
            self.frame.nodes[self.frame.find(node)?].obs.domain(*key)
        };
        domain().map_or_else(|| node.to_string(), |domain| format!("{}/{domain}", node.cluster()))
    }

    /// Whether a failure of this node now is independent of those that count in a row already.
    pub(crate) fn is_independent(&self, rollout: &RolloutRecord, i: usize, at: Timestamp) -> bool {
        let mine = &self.frame.nodes[i];
        let in_a_row = rollout.consecutive as usize;
        let counted = rollout.failures.iter().rev().filter(|f| f.blame != Blame::Node).take(in_a_row.max(1));
        let shares = |other: &NodeId| {
            let Some(j) = self.frame.find(other) else { return false };
            let theirs = &self.frame.nodes[j];
            j == i
                || mine.id.cluster() == theirs.id.cluster()
                    && SHARED_FATE.iter().any(|key| {
                        mine.obs.domain(*key).is_some() && mine.obs.domain(*key) == theirs.obs.domain(*key)
                    })
        };
        rollout.consecutive == 0
            || !counted.into_iter().any(|f| at.duration_since(f.at) <= COMMON_CAUSE && shares(&f.node))
    }
}
