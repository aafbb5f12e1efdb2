//! What people and their jobs do to a ground.

use std::time::Duration;

use drydock_bed::User;
use drydock_cluster::client::{Caller, Gate, Patch};
use drydock_plan::Step;
use serde_json::{Value, json};

use super::{Ground, Site};

/// For a workload to run, for a node to be drained.
const LONG: Duration = Duration::from_secs(240);

/// Work that has to be evicted: a Deployment of pods with some GPUs, spread over the nodes. It runs when this returns.
pub(crate) async fn workload(ground: &Ground, site: &Site, replicas: usize, gpus: u32) -> anyhow::Result<()> {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "work", "namespace": "team"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "work"}},
            "template": {"metadata": {"labels": {"app": "work"}}, "spec": {
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "work"}}}],
                "containers": [{"name": "c", "image": "work:1",
                    "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]}}}
    });
    ground.create(site, "/apis/apps/v1/namespaces/team/deployments", &body).await?;
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let pods = ground.list(site, "/api/v1/namespaces/team/pods").await?;
        if pods.iter().filter(|p| p["status"]["phase"] == "Running").count() >= replicas {
            return Ok(());
        }
        anyhow::ensure!(std::time::Instant::now() < deadline, "the workload doesn't run");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until a node is being drained, and says which.
pub(crate) async fn draining(ground: &Ground) -> anyhow::Result<String> {
    ground
        .until("a node that drains", LONG, |ledger| {
            let mut nodes = ledger.nodes.iter();
            nodes.find_map(|(id, n)| (n.visit.as_ref()?.step == Step::Drain).then(|| id.node().to_owned()))
        })
        .await
}

/// A person changes an object.
pub(crate) async fn patch(site: &Site, uri: &str, body: Value) -> anyhow::Result<()> {
    let caller = Caller::over(site.plane.client(User::Person)?, Gate::always());
    let _: Value = caller.patch(uri, Patch::Merge, &body).await?;
    Ok(())
}

/// Names of the nodes that are cordoned.
pub(crate) async fn cordoned(ground: &Ground, site: &Site) -> anyhow::Result<Vec<String>> {
    let nodes = ground.nodes(site).await?.into_iter();
    let cordoned = nodes.filter(|n| n["spec"]["unschedulable"] == true);
    Ok(cordoned.map(|n| n["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect())
}
