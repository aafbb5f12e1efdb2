//! The stand-in for the GPU Operator: DaemonSets that change nothing until a pod is deleted.
use std::collections::BTreeSet;

use crate::common::{LONG, show, started};
use drydock_bed::{
    eventually,
    operator::{NAMESPACE, Operator, drivers, policies},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::tests;

tests![
    a_cluster_policy_changes_nodes_one_deleted_pod_at_a_time,
    each_driver_object_has_its_own_nodes_and_takes_its_pods_with_it,
];

/// Driver pods: name, node, image, and what they show.
async fn pods(client: &Client) -> anyhow::Result<Vec<(String, String, String, String)>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let all = api.list(&ListParams::default().labels("app.kubernetes.io/component=nvidia-driver")).await?;
    let of = |pod: Pod| {
        let spec = pod.spec.clone().unwrap_or_default();
        let image = spec.containers.first().and_then(|c| c.image.clone()).unwrap_or_default();
        (pod.name_any(), spec.node_name.unwrap_or_default(), image, show(&pod))
    };
    Ok(all.items.into_iter().map(of).collect())
}

/// Waits until the driver pods are on these nodes with these images, and show this.
async fn wait(client: &Client, wanted: &[(&str, &str, &str)]) {
    let wanted: BTreeSet<(String, String, String)> =
        wanted.iter().map(|(n, i, s)| ((*n).to_owned(), (*i).to_owned(), (*s).to_owned())).collect();
    eventually("driver pods", LONG, || async {
        let pods = pods(client).await?;
        let found: BTreeSet<_> =
            pods.into_iter().map(|(_, node, image, shows)| (node, image, shows)).collect();
        Ok(if found == wanted { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await
    .unwrap();
}

async fn delete_on(client: &Client, node: &str) {
    let found = pods(client).await.unwrap().into_iter().find(|p| p.1 == node).unwrap();
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    api.delete(&found.0, &DeleteParams::default()).await.unwrap();
}

fn driver(kind: &str, version: &str, name: &str, spec: Value) -> Patch<Value> {
    Patch::Apply(json!({
        "apiVersion": format!("nvidia.com/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec,
    }))
}

async fn a_cluster_policy_changes_nodes_one_deleted_pod_at_a_time() {
    let ground = started!(2);
    let _operator = Operator::start(&ground.plane).await.unwrap();
    let client = &ground.client;
    let nodes: Api<Node> = Api::all(client.clone());
    for node in ["gpu-000", "gpu-001"] {
        let label = json!({"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "true"}}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    }
    let set = async |version: &str| {
        let spec = json!({"driver": {"repository": "r/nvidia", "image": "driver", "version": version}});
        let patch = driver("ClusterPolicy", "v1", "cluster-policy", spec);
        policies(client.clone())
            .patch("cluster-policy", &PatchParams::apply("t").force(), &patch)
            .await
            .unwrap();
    };
    set("570.1").await;
    let (old, new) = ("r/nvidia/driver:570.1-ubuntu24.04", "r/nvidia/driver:580.2-ubuntu24.04");
    wait(client, &[("gpu-000", old, "ready"), ("gpu-001", old, "ready")]).await;

    // The version of an operator's pod is read from its image.
    ground
        .hollow
        .inject_yaml("- badVersion: {component: gpu-driver, version: '580.2', how: crashLoops}")
        .unwrap();
    set("580.2").await;
    delete_on(client, "gpu-000").await;
    wait(client, &[("gpu-000", new, "waiting CrashLoopBackOff"), ("gpu-001", old, "ready")]).await;
    ground.hollow.clear();
    wait(client, &[("gpu-000", new, "ready"), ("gpu-001", old, "ready")]).await;
}

async fn each_driver_object_has_its_own_nodes_and_takes_its_pods_with_it() {
    let ground = started!(2);
    let _operator = Operator::start(&ground.plane).await.unwrap();
    let client = &ground.client;
    let nodes: Api<Node> = Api::all(client.clone());
    let to = async |node: &str, version: &str| {
        let label = json!({"metadata": {"labels": {"v": version}}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    };
    let api = drivers(client.clone());
    for version in ["a", "b"] {
        let spec =
            json!({"repository": "r", "image": "driver", "version": version, "nodeSelector": {"v": version}});
        let patch = driver("NVIDIADriver", "v1alpha1", version, spec);
        api.patch(version, &PatchParams::apply("t").force(), &patch).await.unwrap();
    }
    to("gpu-000", "a").await;
    to("gpu-001", "a").await;
    let (a, b) = ("r/driver:a-ubuntu24.04", "r/driver:b-ubuntu24.04");
    wait(client, &[("gpu-000", a, "ready"), ("gpu-001", a, "ready")]).await;
    // A node that asks for another one gets it without a deletion.
    to("gpu-001", "b").await;
    wait(client, &[("gpu-000", a, "ready"), ("gpu-001", b, "ready")]).await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    wait(client, &[("gpu-000", a, "ready")]).await;
}
