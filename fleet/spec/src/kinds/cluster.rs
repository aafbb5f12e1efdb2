use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Version;

/// `kind: Cluster`: one Kubernetes cluster and how it is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// How its API server is reached.
    pub access: Access,
    /// One of the fleet's environments.
    #[serde(default)]
    pub environment: Option<String>,
    /// Region, a budget scope.
    #[serde(default)]
    pub region: Option<String>,
    /// IANA time zone of the people who run it, for example `Europe/Berlin`; screens show times in it.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Labels that policies select by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Kubernetes version, as text. For people: drydock asks the cluster itself.
    #[serde(default)]
    pub kubernetes_version: Option<Version>,
}

/// How a cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Access {
    /// A context of the kubeconfig that drydock was started with.
    KubeconfigContext(String),
    /// A kubeconfig in a Secret of the cluster drydock runs in.
    Secret(SecretRef),
    /// The cluster drydock itself runs in.
    InCluster {},
    /// A part of the simulated fleet; nothing outside the process is touched.
    Simulated {},
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Key that holds the kubeconfig. Default `kubeconfig`.
    #[serde(default = "default_key")]
    pub key: String,
}

fn default_key() -> String {
    "kubeconfig".to_owned()
}
