//! Hand-made clusters for the tests of the steps.

use std::sync::Arc;

use drydock_plan::{Action, Ensure, Epoch, Generation, NodeId};
use drydock_spec::{ClusterName, Fleet};
use jiff::Timestamp;
use serde_json::Value;

use super::{Effort, Objects, Settings, View};
use crate::objects::NodeObject;
use crate::watch::{Kept, State};

/// One cluster `c1` with one node that matters.
pub(crate) struct Scene {
    pub cluster: ClusterName,
    pub state: State,
    pub fleet: Fleet,
    pub settings: Settings,
    pub node: Arc<NodeObject>,
    pub now: Timestamp,
}

impl Scene {
    /// With this node.
    pub(crate) fn node(node: Value) -> Self {
        let node: NodeObject = serde_json::from_value(node).unwrap();
        let mut state = State::default();
        node.clone().put(&mut state);
        Self {
            cluster: "c1".parse().unwrap(),
            state,
            fleet: fleet(FLEET),
            settings: Settings::default(),
            node: Arc::new(node),
            now: Timestamp::constant(1_800_000_000, 0),
        }
    }
    /// Takes in more objects, whatever kind `T` is.
    pub(crate) fn with<T: Kept>(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        for object in objects {
            serde_json::from_value::<T>(object).unwrap().put(&mut self.state);
        }
        self
    }
    pub(crate) fn objects(&self) -> &Objects {
        &self.state.objects
    }
    /// The action for `ensure`, generation 7, epoch 3.
    pub(crate) fn action(&self, ensure: &Ensure) -> Action {
        Action {
            node: NodeId::of(&self.cluster, &self.node.meta.name),
            generation: Generation(7),
            epoch: Epoch(3),
            ensure: ensure.clone(),
        }
    }
    /// A view for `ensure`.
    pub(crate) fn view(&self, ensure: &Ensure) -> View<'_> {
        // Leaked on purpose: a test lives for moments, and the view can then borrow from nothing else.
        let action: &'static Action = Box::leak(Box::new(self.action(ensure)));
        View {
            cluster: &self.cluster,
            node: &self.node,
            objects: &self.state.objects,
            fleet: &self.fleet,
            settings: &self.settings,
            action,
            now: self.now,
        }
    }
}

/// Nothing was tried yet.
pub(crate) fn effort() -> Effort {
    Effort::new(Generation(7), Timestamp::constant(1_800_000_000, 0))
}

/// A fleet with one component for each way of delivery.
pub(crate) const FLEET: &str = r#"
apiVersion: drydock.dev/v1alpha1
kind: Fleet
metadata: {name: f}
---
apiVersion: drydock.dev/v1alpha1
kind: Cluster
metadata: {name: c1}
spec: {access: {kubeconfigContext: c1}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: driver}
spec: {class: gpuDriver, delivery: {daemonSet: {namespace: gpu, name: driver, image: reg/driver}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: nvd}
spec: {class: gpuDriver, delivery: {nvidiaDriver: {name: pool, image: reg/nv/driver}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: policy}
spec: {class: gpuDriver, delivery: {clusterPolicy: {name: cluster-policy, image: reg/nv/driver}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: sched}
spec: {class: scheduler, delivery: {deployment: {namespace: gpu, name: gpu-scheduler, image: reg/sched}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: firmware}
spec: {class: firmware, delivery: {job: {namespace: gpu, name: firmware, image: reg/fw}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: mig}
spec: {class: partitionManager, delivery: {label: {set: nvidia.com/mig.config, state: nvidia.com/mig.config.state, states: {success: done, failed: failed, pending: working}}}}
"#;

/// Loads documents.
pub(crate) fn fleet(text: &str) -> Fleet {
    let files = [drydock_spec::SourceFile { path: "f.yaml".into(), bytes: text.as_bytes().to_vec() }];
    let loaded = drydock_spec::load(&files);
    loaded.fleet.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}
