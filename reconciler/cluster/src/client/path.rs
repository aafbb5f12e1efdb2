//! Addresses of objects.

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Group and version, `apps/v1`; the core group is just `v1`.
    pub version: &'static str,
    /// The word in the address.
    pub plural: &'static str,
    /// The word in the object.
    pub kind: &'static str,
    /// It lives in namespaces.
    pub namespaced: bool,
}

impl Kind {
    const fn new(version: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Self {
        Self { version, plural, kind, namespaced }
    }
    /// Nodes.
    pub const NODE: Self = Self::new("v1", "nodes", "Node", false);
    /// Pods.
    pub const POD: Self = Self::new("v1", "pods", "Pod", true);
    /// ConfigMaps.
    pub const CONFIG_MAP: Self = Self::new("v1", "configmaps", "ConfigMap", true);
    /// Secrets.
    pub const SECRET: Self = Self::new("v1", "secrets", "Secret", true);
    /// Namespaces.
    pub const NAMESPACE: Self = Self::new("v1", "namespaces", "Namespace", false);
    /// Events.
    pub const EVENT: Self = Self::new("v1", "events", "Event", true);
    /// DaemonSets.
    pub const DAEMON_SET: Self = Self::new("apps/v1", "daemonsets", "DaemonSet", true);
    /// Deployments.
    pub const DEPLOYMENT: Self = Self::new("apps/v1", "deployments", "Deployment", true);
    /// Jobs.
    pub const JOB: Self = Self::new("batch/v1", "jobs", "Job", true);
    /// PodDisruptionBudgets.
    pub const BUDGET: Self = Self::new("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
    /// Leases.
    pub const LEASE: Self = Self::new("coordination.k8s.io/v1", "leases", "Lease", true);
    /// Driver of the GPU Operator, one object a pool.
    pub const NVIDIA_DRIVER: Self = Self::new("nvidia.com/v1alpha1", "nvidiadrivers", "NVIDIADriver", false);
    /// The GPU Operator's one policy.
    pub const CLUSTER_POLICY: Self = Self::new("nvidia.com/v1", "clusterpolicies", "ClusterPolicy", false);
    /// drydock's record of a node.
    pub const GPU_NODE: Self = Self::new("drydock.dev/v1alpha1", "gpunodes", "GpuNode", false);
    /// drydock's record of a rollout.
    pub const ROLLOUT: Self = Self::new("drydock.dev/v1alpha1", "rollouts", "Rollout", true);
    /// Definitions of custom resources.
    pub const DEFINITION: Self =
        Self::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", false);

    /// Address of all objects, of one namespace where it is given.
    #[must_use]
    pub fn all(&self, namespace: Option<&str>) -> String {
        let root = if self.version.contains('/') { "/apis" } else { "/api" };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.version, self.plural),
            None => format!("{root}/{}/{}", self.version, self.plural),
        }
    }
    /// Address of one object.
    #[must_use]
    pub fn one(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{name}", self.all(namespace))
    }
}

/// Adds to the query of an address.
#[must_use]
pub fn query(uri: &str, more: &str) -> String {
    let between = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{between}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Kind::NODE.one(None, "n1"), "/api/v1/nodes/n1");
        assert_eq!(Kind::JOB.one(Some("a"), "b"), "/apis/batch/v1/namespaces/a/jobs/b");
        assert_eq!(Kind::POD.all(None), "/api/v1/pods");
        assert_eq!(query(&query("/x", "a=1"), "b=2"), "/x?a=1&b=2");
    }
}
