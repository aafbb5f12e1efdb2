//! Clusters: each is one.

use std::collections::BTreeMap;

use super::Lint;
use crate::{document::Kind, kinds::Access, rule::RuleId};

/// Two documents that reach one API server would make two nodes of each node, each with budgets of its own.
pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    for (name, cluster) in &fleet.clusters {
        let by = match &cluster.access {
            Access::KubeconfigContext(context) => format!("context `{context}`"),
            Access::Secret(secret) => {
                format!("Secret `{}/{}`, key `{}`", secret.namespace, secret.name, secret.key)
            }
            Access::InCluster {} => "inCluster".to_owned(),
            // Each simulated cluster is made from its document.
            Access::Simulated {} => continue,
        };
        let Some(other) = first.get(by.as_str()) else {
            first.insert(by, name.as_str());
            continue;
        };
        let message = format!("cluster `{other}` is reached in the same way, by {by}: they are one cluster");
        let hint = Some("keep one of the two; pools of it name that one".to_owned());
        lint.at((Kind::Cluster, name.as_str()), path!["access"], RuleId::ClusterTwice, message, hint);
    }
}
