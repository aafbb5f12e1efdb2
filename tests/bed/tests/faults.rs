//! What people and clusters do to a rollout: each ends in a named reason or outcome.

mod ground;

use std::time::Duration;

use drydock_api::names;
use drydock_bed::hollow::{NodeSpec, PodSelector};
use drydock_bed::{Authorization, Tools, User, skip_or_fail};
use drydock_cluster::client::Patch;
use drydock_plan::{NodeOutcome, RolloutState, Step};
use serde_json::{Value, json};

use ground::documents::{base, daemon_set, policy, release};
use ground::{Drydock, Ground, Site, SiteSpec};

const LONG: Duration = Duration::from_secs(240);

fn fleet(driver: &str, nodes: u32, more: &str) -> String {
    let mut text = base(&[("c1", nodes)]);
    text += &daemon_set("driver", "gpuDriver", "drain");
    text += &release("c1", &[("driver", driver)]);
    text += &policy(&["c1"], more);
    text
}

/// One cluster that runs release 1.0.
async fn settled(nodes: u32, more: &str) -> anyhow::Result<Option<(Ground, Drydock)>> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => {
            skip_or_fail(&missing);
            return Ok(None);
        }
    };
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", nodes as usize)]).await?;
    let first = ground.commit("first", &[("fleet.yaml", fleet("580.95.05", nodes, more))])?;
    let drydock = ground.drydock("one")?;
    anyhow::ensure!(ground.ended(&first, LONG).await?.state == RolloutState::Succeeded);
    Ok(Some((ground, drydock)))
}

async fn workload(ground: &Ground, site: &Site, replicas: u32) -> anyhow::Result<()> {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "work", "namespace": "team"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "work"}},
            "template": {"metadata": {"labels": {"app": "work"}}, "spec": {
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "work"}}}],
                "containers": [{"name": "c", "image": "work:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}
    });
    ground.create(site, "/apis/apps/v1/namespaces/team/deployments", &body).await?;
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let pods = ground.list(site, "/api/v1/namespaces/team/pods").await?;
        if pods.iter().filter(|p| p["status"]["phase"] == "Running").count() >= replicas as usize {
            return Ok(());
        }
        anyhow::ensure!(std::time::Instant::now() < deadline, "the workload doesn't run");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn draining(ground: &Ground) -> anyhow::Result<String> {
    ground
        .until("a node that drains", LONG, |ledger| {
            let mut nodes = ledger.nodes.iter();
            nodes.find_map(|(id, n)| (n.visit.as_ref()?.step == Step::Drain).then(|| id.node().to_owned()))
        })
        .await
}

async fn patch(ground: &Ground, site: &Site, uri: &str, body: Value) -> anyhow::Result<()> {
    let client = site.plane.client(User::Person)?;
    let caller = drydock_cluster::client::Caller::over(client, drydock_cluster::client::Gate::always());
    let _: Value = caller.patch(uri, Patch::Merge, &body).await?;
    let _ = ground;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_blocks_for_ever_is_named_and_the_node_given_back() -> anyhow::Result<()> {
    let more = "drain: {timeout: 10s, pdb: {wait: 6s, onBlocked: defer}}\npatience: 5s\n";
    let Some((ground, drydock)) = settled(3, more).await? else { return Ok(()) };
    let site = ground.site("c1");
    workload(&ground, site, 3).await?;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "team"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "work"}}}});
    ground.create(site, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", &budget).await?;
    ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 3, more))])?;
    let node = draining(&ground).await?;
    drydock.why(&format!("c1/{node}"), &["disruptionBudget", "team/keep"], LONG).await?;
    ground
        .until("the node is given back", LONG, |ledger| {
            ledger
                .nodes
                .values()
                .any(|n| n.assignment.as_ref().is_some_and(|a| a.deferrals > 0) && n.visit.is_none())
                .then_some(())
        })
        .await?;
    let running = ground.list(site, "/api/v1/namespaces/team/pods").await?;
    assert_eq!(running.iter().filter(|p| p["status"]["phase"] == "Running").count(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_ends_is_named() -> anyhow::Result<()> {
    let more = "drain: {timeout: 2m}\n";
    let Some((ground, drydock)) = settled(2, more).await? else { return Ok(()) };
    let site = ground.site("c1");
    workload(&ground, site, 2).await?;
    site.hollow.never_terminate(PodSelector::labelled("app", "work"));
    let second = ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 2, more))])?;
    let node = draining(&ground).await?;
    drydock.why(&format!("c1/{node}"), &["terminating", "team/work-"], LONG).await?;
    site.hollow.let_terminate();
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    ground.tidy(Duration::from_secs(90)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_in_mid_drain_and_one_made_anew_under_its_name() -> anyhow::Result<()> {
    let Some((ground, _drydock)) = settled(4, "").await? else { return Ok(()) };
    let site = ground.site("c1");
    workload(&ground, site, 4).await?;
    site.hollow.never_terminate(PodSelector::labelled("app", "work"));
    let second = ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 4, ""))])?;
    let node = draining(&ground).await?;
    site.hollow.delete_node(&node).await?;
    site.hollow.let_terminate();
    ground
        .until("the node is known to be gone", LONG, |ledger| {
            let gone = ledger.nodes.iter().find(|(id, _)| id.node() == node);
            gone.is_none_or(|(_, n)| {
                n.assignment.as_ref().is_some_and(|a| a.outcome == Some(NodeOutcome::Gone))
            })
            .then_some(())
        })
        .await?;
    let fresh = NodeSpec::new(&node).label("pool", "c1").device("nvidia.com/gpu", 8);
    site.hollow.add_nodes([fresh]).await?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    // The new machine of the old name gets the release as well.
    let deadline = std::time::Instant::now() + LONG;
    while ground.versions(site, "driver").await? != [("580.105.08".to_owned(), 4)].into() {
        anyhow::ensure!(std::time::Instant::now() < deadline, "{:?}", ground.versions(site, "driver").await?);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_of_somebody_else_is_kept() -> anyhow::Result<()> {
    let more = "foreignCordon: wait\npatience: 8s\n";
    let Some((ground, drydock)) = settled(3, more).await? else { return Ok(()) };
    let site = ground.site("c1");
    let node = "c1-n-000";
    let name = ground.nodes(site).await?[0]["metadata"]["name"].as_str().unwrap_or(node).to_owned();
    patch(&ground, site, &format!("/api/v1/nodes/{name}"), json!({"spec": {"unschedulable": true}})).await?;
    let second = ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 3, more))])?;
    drydock.why(&format!("c1/{name}"), &["foreignCordon"], LONG).await?;
    let end = ground.ended(&second, LONG).await?;
    assert!(end.state.is_final(), "{:?}", end.state);
    let nodes = ground.nodes(site).await?;
    let cordoned: Vec<&Value> = nodes.iter().filter(|n| n["spec"]["unschedulable"] == true).collect();
    assert_eq!(cordoned.len(), 1);
    assert_eq!(cordoned[0]["metadata"]["name"], name.as_str());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_taken_away_and_a_daemon_set_edited_by_hand_are_healed() -> anyhow::Result<()> {
    let Some((ground, drydock)) = settled(3, "drift: heal\n").await? else { return Ok(()) };
    let site = ground.site("c1");
    let name = ground.nodes(site).await?[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = format!("{}driver", names::VERSION_PREFIX);
    patch(
        &ground,
        site,
        &format!("/api/v1/nodes/{name}"),
        json!({"metadata": {"labels": {key.as_str(): null}}}),
    )
    .await?;
    let sets = ground.list(site, "/apis/apps/v1/namespaces/gpu/daemonsets").await?;
    let set = sets[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let edit = json!({"spec": {"template": {"spec": {"hostNetwork": true, "containers": [{"name": "driver", "image": "evil:1"}]}}}});
    patch(&ground, site, &format!("/apis/apps/v1/namespaces/gpu/daemonsets/{set}"), edit).await?;
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let set: Value =
            ground.admin(site)?.get(&format!("/apis/apps/v1/namespaces/gpu/daemonsets/{set}")).await?;
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let labelled = ground.nodes(site).await?.iter().all(|n| n["metadata"]["labels"][&key].is_string());
        if image == "reg/driver:580.95.05"
            && labelled
            && ground.versions(site, "driver").await? == [("580.95.05".to_owned(), 3)].into()
        {
            break;
        }
        anyhow::ensure!(
            std::time::Instant::now() < deadline,
            "image {image}, labelled {labelled}\n{}",
            drydock.tail()
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(std::fs::read_to_string(&drydock.log)?.contains("somebody has edited it"));
    ground.tidy(Duration::from_secs(90)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_definitions_the_ledger_goes_on() -> anyhow::Result<()> {
    let Some((ground, _drydock)) = settled(3, "").await? else { return Ok(()) };
    let site = ground.site("c1");
    for name in ["gpunodes.drydock.dev", "rollouts.drydock.dev"] {
        let uri = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        ground.admin(site)?.delete(&uri, &json!({})).await?;
    }
    let second = ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 3, ""))])?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_verb_is_named() -> anyhow::Result<()> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => {
            skip_or_fail(&missing);
            return Ok(());
        }
    };
    let mut spec = SiteSpec::new(&tools, "c1", 2);
    spec.plane.authorization = Authorization::Rbac;
    let ground = Ground::start(vec![spec]).await?;
    let site = ground.site("c1");
    // What the manifest for a cluster grants is all that is needed; here with one verb less at first.
    let manifest = include_str!("../../../examples-repo/kubernetes/drydock.yaml");
    let documents =
        manifest.split("\n---\n").map(serde_yaml::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
    let user =
        json!([{"kind": "User", "name": User::DrydockA.name(), "apiGroup": "rbac.authorization.k8s.io"}]);
    let mut whole = Value::Null;
    for mut object in documents {
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let plural = match kind.as_str() {
            "ClusterRole" => {
                whole = object.clone();
                let rules = object["rules"].as_array_mut().unwrap();
                rules.retain(|rule| rule["resources"] != json!(["pods/eviction"]));
                "clusterroles"
            }
            "Role" => "roles",
            kind @ ("ClusterRoleBinding" | "RoleBinding") => {
                object["subjects"] = user.clone();
                if kind == "RoleBinding" { "rolebindings" } else { "clusterrolebindings" }
            }
            _ => continue,
        };
        let space = namespace.map_or(String::new(), |n| format!("/namespaces/{n}"));
        ground.create(site, &format!("/apis/rbac.authorization.k8s.io/v1{space}/{plural}"), &object).await?;
    }
    workload(&ground, site, 2).await?;
    let first = ground.commit("first", &[("fleet.yaml", fleet("580.95.05", 2, "drain: {timeout: 2m}\n"))])?;
    let drydock = ground.drydock("one")?;
    let node = draining(&ground).await?;
    drydock.why(&format!("c1/{node}"), &["pods/eviction"], LONG).await?;
    let _: Value = ground
        .admin(site)?
        .replace("/apis/rbac.authorization.k8s.io/v1/clusterroles/drydock", &whole)
        .await?;
    assert_eq!(ground.ended(&first, LONG).await?.state, RolloutState::Succeeded);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_noticed_and_nothing_is_done_on_old_facts() -> anyhow::Result<()> {
    let Some((ground, drydock)) = settled(3, "").await? else { return Ok(()) };
    let site = ground.site("c1");
    let backup = site.plane.snapshot_etcd()?;
    let second = ground.commit("second", &[("fleet.yaml", fleet("580.105.08", 3, ""))])?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    ground.tidy(Duration::from_secs(90)).await?;
    site.plane.restore_etcd(&backup).await?;
    let restored = site.plane.audit()?.len();
    let deadline = std::time::Instant::now() + LONG;
    while !std::fs::read_to_string(&drydock.log)?.contains("went back") {
        anyhow::ensure!(std::time::Instant::now() < deadline, "never noticed: {}", drydock.tail());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // Long enough for a drydock that believed the old facts to begin an upgrade of nodes that run 2.0.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let touched: Vec<String> = site
        .plane
        .audit()?
        .split_off(restored)
        .into_iter()
        .filter(|e| {
            e.by(User::DrydockA)
                && e.writes()
                && matches!(e.resource.as_str(), "nodes" | "pods" | "jobs" | "daemonsets")
        })
        .map(|e| format!("{} {}", e.verb, e.uri))
        .collect();
    assert_eq!(touched, Vec::<String>::new());
    Ok(())
}
