//! Equal component vectors share one allocation: a fleet of 30,000 nodes runs some tens of them.

use std::{collections::BTreeMap, sync::Arc};

use drydock_plan::{ReleaseId, ReleaseVector, Stack};
use drydock_spec::{ComponentName, ComponentVersion};

/// Vectors that were met so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stacks(BTreeMap<ReleaseId, Arc<Stack>>);

impl Stacks {
    /// The shared one that equals `vector`.
    pub(crate) fn get(&mut self, vector: ReleaseVector) -> Arc<Stack> {
        let stack = Stack::new(vector);
        Arc::clone(self.0.entry(stack.id.clone()).or_insert_with(|| Arc::new(stack)))
    }
    /// The shared one that equals this one.
    pub(crate) fn share(&mut self, stack: &Arc<Stack>) -> Arc<Stack> {
        Arc::clone(self.0.entry(stack.id.clone()).or_insert_with(|| Arc::clone(stack)))
    }
    /// With one component changed.
    pub(crate) fn with(
        &mut self,
        stack: &Stack,
        component: &ComponentName,
        version: Option<&ComponentVersion>,
    ) -> Arc<Stack> {
        let mut vector = stack.vector.clone();
        match version {
            Some(version) => vector.0.insert(component.clone(), version.clone()),
            None => vector.0.remove(component),
        };
        self.get(vector)
    }
}
