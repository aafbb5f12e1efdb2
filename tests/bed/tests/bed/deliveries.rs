//! Three clusters, every way of delivery, over three waves: a good release, one that is ready and broken, and its fix. A
//! hundred nodes where there is time for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drydock_bed::hollow::{Agent, Ended};
use drydock_bed::mode::Mode;
use drydock_bed::{Tools, operator};
use drydock_plan::RolloutState;
use serde_json::{Value, json};

use crate::ground::documents::{base, daemon_set, document, policy, release};
use crate::ground::{Ground, Site, SiteSpec};

use crate::harness::tests;

tests![every_delivery_over_three_waves];

const LONG: Duration = Duration::from_secs(400);

/// Nodes of each cluster: enough for several batches of each wave.
fn nodes() -> [u32; 3] {
    Mode::of_two([12, 8, 8], [40, 30, 30])
}

fn fleet(driver: &str) -> String {
    let [c1, c2, c3] = nodes();
    let mut text = base(&[("c1", c1), ("c2", c2), ("c3", c3)]);
    text += &daemon_set("driver", "gpuDriver", "drain");
    text += &daemon_set("plugin", "devicePlugin", "restart");
    text += &document(
        "Component",
        "driver-crd",
        "class: gpuDriver\ndeadline: 2m\nexpect: {p50: 1s, p90: 5s}\ndelivery: {nvidiaDriver: {name: gpu, image: \"reg/nvidia/driver\"}}",
    );
    text += &document(
        "Component",
        "driver-policy",
        "class: gpuDriver\ndeadline: 2m\nexpect: {p50: 1s, p90: 5s}\ndelivery: {clusterPolicy: {name: cluster-policy, image: \"reg/nvidia/driver\"}}",
    );
    // The scheduler that runs here is the cluster's own, so this is the name that its probe pod asks for.
    text += &document(
        "Component",
        "scheduler",
        "class: scheduler\ndeadline: 2m\nexpect: {p50: 1s, p90: 5s}\ndelivery: {deployment: {namespace: gpu, name: default-scheduler, image: \"reg/scheduler\"}}",
    );
    text += &document(
        "Component",
        "firmware",
        "class: firmware\ndeadline: 2m\nexpect: {p50: 1s, p90: 5s}\ndelivery: {job: {namespace: gpu, name: firmware, image: \"reg/firmware\", probe: [\"/firmware\", \"--version\"]}}",
    );
    text += &document(
        "Component",
        "node-agent",
        "class: agent\ndisruption: none\ndeadline: 2m\nexpect: {p50: 1s, p90: 5s}\ndelivery: {label: {set: example.com/agent, state: example.com/agent.state, states: {success: done, failed: failed, pending: working}}}",
    );
    text += &document("Component", "loaded", "class: agent\ndelivery: {observe: {}}");
    text += &release(
        "c1",
        &[("driver", driver), ("plugin", "0.18"), ("scheduler", driver), ("firmware", driver)],
    );
    text += &release("c2", &[("driver-crd", driver), ("node-agent", driver)]);
    text += &release("c3", &[("driver-policy", driver), ("loaded", "any")]);
    text += &policy(&["c1", "c2", "c3"], "");
    text
}

fn site(tools: &Tools, name: &'static str, nodes: u32) -> SiteSpec {
    let mut spec = SiteSpec::new(tools, name, nodes as usize);
    spec.hollow.images = BTreeMap::from([(
        "reg/nvidia/driver".to_owned(),
        if name == "c2" { "driver-crd" } else { "driver-policy" }.to_owned(),
    )]);
    let mut agent = Agent::mig_manager();
    agent.label = "example.com/agent".to_owned();
    agent.state_label = "example.com/agent.state".to_owned();
    agent.component = Some("node-agent".to_owned());
    spec.hollow.agents = vec![agent];
    // The probe of a Job's component prints the version that it finds: what the Job was given.
    spec.hollow.ends = Some(Arc::new(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let env = pod.spec.as_ref()?.containers.first()?.env.as_ref()?;
        let version = env.iter().find(|e| e.name == "DRYDOCK_VERSION")?.value.clone()?;
        name.starts_with("drydock-probe-").then(|| Ended::with(0, &version))
    }));
    spec
}

/// What others own in a cluster: object, manager, fields. Status is its controllers' own business.
async fn foreign(ground: &Ground, site: &Site) -> anyhow::Result<BTreeMap<(String, String), Value>> {
    let mut found = BTreeMap::new();
    for uri in ["/api/v1/nodes", "/apis/nvidia.com/v1/clusterpolicies", "/api/v1/namespaces"] {
        for object in ground.list(site, uri).await.unwrap_or_default() {
            let name = format!("{uri}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
                let manager = entry["manager"].as_str().unwrap_or_default();
                if !manager.starts_with("drydock") && entry["subresource"].is_null() {
                    found.insert((name.clone(), manager.to_owned()), entry["fieldsV1"].clone());
                }
            }
        }
    }
    Ok(found)
}

async fn every_delivery_over_three_waves() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let [c1, c2, c3] = nodes();
    let ground =
        Ground::start(vec![site(&tools, "c1", c1), site(&tools, "c2", c2), site(&tools, "c3", c3)]).await?;
    let whole = |version: &str| [(version.to_owned(), c1 as usize)].into();
    let mut operators = Vec::new();
    for site in &ground.sites[1..] {
        operator::install_crds(&site.plane).await?;
        operators.push(operator::Operator::start(&site.plane).await?);
    }
    let c3 = ground.site("c3");
    let made = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {"driver": {"repository": "reg/nvidia", "image": "driver", "version": "580.95.05", "upgradePolicy": {"autoUpgrade": true}}}});
    ground.create(c3, "/apis/nvidia.com/v1/clusterpolicies?fieldManager=helm", &made).await?;
    // Somebody's own label, annotation and taint on a node.
    let admin = ground.admin(ground.site("c1"))?;
    let own = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "mine"}}});
    let _: Value = admin.patch("/api/v1/nodes/c1-n-001", drydock_cluster::client::Patch::Merge, &own).await?;

    let mut before = BTreeMap::new();
    for site in &ground.sites {
        before.insert(site.name.clone(), foreign(&ground, site).await?);
    }
    let first = ground.commit("first", &[("fleet.yaml", fleet("580.95.05"))])?;
    let drydock = ground.drydock("one")?;
    let good = ground.ended(&first, LONG).await?;
    assert_eq!(good.state, RolloutState::Succeeded, "{}", drydock.tail());
    let second = ground.commit("good", &[("fleet.yaml", fleet("580.105.08"))])?;
    let good = ground.ended(&second, LONG).await?;
    assert_eq!(good.state, RolloutState::Succeeded);
    assert_eq!(good.waves.len(), 3);

    for site in &ground.sites {
        site.hollow.inject_yaml(
            "- badVersion: {component: driver, version: \"580.126.09\", how: {readyButBroken: {check: training}}}",
        )?;
    }
    let third = ground.commit("broken", &[("fleet.yaml", fleet("580.126.09"))])?;
    let broken = ground.ended(&third, LONG).await?;
    assert_eq!((broken.state.word(), broken.exposed), ("RolledBack", 1));
    assert_eq!(ground.versions(ground.site("c1"), "driver").await?, whole("580.105.08"));

    let fourth = ground.commit("fixed", &[("fleet.yaml", fleet("580.126.10"))])?;
    let fixed = ground.ended(&fourth, LONG).await?;
    assert_eq!(fixed.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(ground.site("c1"), "driver").await?, whole("580.126.10"));
    ground.tidy(Duration::from_secs(90)).await?;

    for site in &ground.sites {
        let after = foreign(&ground, site).await?;
        for (object, fields) in &before[&site.name] {
            // Taking the version of the ClusterPolicy over is what the document asks for.
            if object.0.contains("clusterpolicies") {
                continue;
            }
            assert_eq!(after.get(object), Some(fields), "{}: {object:?}", site.name);
        }
    }
    Ok(())
}
