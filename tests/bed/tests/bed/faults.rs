//! What people and clusters do to a rollout: each ends in a named reason or outcome.

use std::time::Duration;

use drydock_api::names;
use drydock_bed::hollow::{NodeSpec, PodSelector};
use drydock_bed::{Authorization, Tools, User};
use drydock_plan::{NodeOutcome, RolloutState, Step};
use serde_json::{Value, json};

use crate::ground::documents::driver_fleet;
use crate::ground::people::{cordoned, draining, patch, workload};
use crate::ground::{Drydock, Ground, SiteSpec};

use crate::harness::tests;

tests![
    a_budget_that_blocks_for_ever_is_named_and_the_node_given_back,
    a_pod_that_never_ends_is_named,
    a_node_deleted_in_mid_drain_and_one_made_anew_under_its_name,
    a_cordon_of_somebody_else_is_kept,
    a_cordon_that_is_taken_over_or_taken_off_in_mid_visit,
    a_cordon_after_the_visit_is_kept,
    a_namespace_that_is_being_deleted_is_named,
    a_label_taken_away_and_a_daemon_set_edited_by_hand_are_healed,
    without_its_definitions_the_ledger_goes_on,
    a_missing_verb_is_named,
    a_restored_backup_is_noticed_and_nothing_is_done_on_old_facts,
];

const LONG: Duration = Duration::from_secs(240);

/// One cluster that runs release 1.0.
async fn settled(nodes: u32, more: &str) -> anyhow::Result<(Ground, Drydock)> {
    let tools = Tools::find()?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", nodes as usize)]).await?;
    let first = ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", nodes, more))])?;
    let drydock = ground.drydock("one")?;
    anyhow::ensure!(ground.ended(&first, LONG).await?.state == RolloutState::Succeeded);
    Ok((ground, drydock))
}

async fn a_budget_that_blocks_for_ever_is_named_and_the_node_given_back() -> anyhow::Result<()> {
    let more = "drain: {timeout: 10s, pdb: {wait: 6s, onBlocked: defer}}\npatience: 5s\n";
    let (ground, drydock) = settled(3, more).await?;
    let site = ground.site("c1");
    workload(&ground, site, 3, 1).await?;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "team"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "work"}}}});
    ground.create(site, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", &budget).await?;
    ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, more))])?;
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

async fn a_pod_that_never_ends_is_named() -> anyhow::Result<()> {
    let more = "drain: {timeout: 2m}\n";
    let (ground, drydock) = settled(2, more).await?;
    let site = ground.site("c1");
    workload(&ground, site, 2, 1).await?;
    site.hollow.never_terminate(PodSelector::labelled("app", "work"));
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 2, more))])?;
    let node = draining(&ground).await?;
    drydock.why(&format!("c1/{node}"), &["terminating", "team/work-"], LONG).await?;
    site.hollow.let_terminate();
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    ground.tidy(Duration::from_secs(90)).await
}

async fn a_node_deleted_in_mid_drain_and_one_made_anew_under_its_name() -> anyhow::Result<()> {
    let (ground, _drydock) = settled(4, "").await?;
    let site = ground.site("c1");
    workload(&ground, site, 4, 1).await?;
    site.hollow.never_terminate(PodSelector::labelled("app", "work"));
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 4, ""))])?;
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

async fn a_cordon_of_somebody_else_is_kept() -> anyhow::Result<()> {
    let more = "foreignCordon: wait\npatience: 8s\n";
    let (ground, drydock) = settled(3, more).await?;
    let site = ground.site("c1");
    let node = "c1-n-000";
    let name = ground.nodes(site).await?[0]["metadata"]["name"].as_str().unwrap_or(node).to_owned();
    patch(site, &format!("/api/v1/nodes/{name}"), json!({"spec": {"unschedulable": true}})).await?;
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, more))])?;
    drydock.why(&format!("c1/{name}"), &["foreignCordon"], LONG).await?;
    let end = ground.ended(&second, LONG).await?;
    assert!(end.state.is_final(), "{:?}", end.state);
    assert_eq!(cordoned(&ground, site).await?, [name]);
    Ok(())
}

/// `kubectl cordon` of a node that is cordoned sends nothing, so nobody can tell. Whoever wants to keep a node that
/// drydock has cordoned takes its note off; whoever uncordons one has it cordoned again while it is worked on.
async fn a_cordon_that_is_taken_over_or_taken_off_in_mid_visit() -> anyhow::Result<()> {
    let more = "drain: {timeout: 2m}\n";
    let (ground, drydock) = settled(3, more).await?;
    let site = ground.site("c1");
    workload(&ground, site, 3, 1).await?;
    site.hollow.never_terminate(PodSelector::labelled("app", "work"));
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, more))])?;
    let node = draining(&ground).await?;
    drydock.why(&format!("c1/{node}"), &["terminating"], LONG).await?;
    let uri = format!("/api/v1/nodes/{node}");
    patch(site, &uri, json!({"spec": {"unschedulable": null}})).await?;
    let deadline = std::time::Instant::now() + LONG;
    while cordoned(&ground, site).await? != [node.clone()] {
        anyhow::ensure!(std::time::Instant::now() < deadline, "it stays open\n{}", drydock.tail());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    patch(site, &uri, json!({"metadata": {"annotations": {names::CORDON: null}}})).await?;
    site.hollow.let_terminate();
    let end = ground.ended(&second, LONG).await?;
    assert_eq!(end.state, RolloutState::Succeeded);
    assert_eq!(cordoned(&ground, site).await?, [node]);
    assert_eq!(ground.versions(site, "driver").await?, [("580.105.08".to_owned(), 3)].into());
    Ok(())
}

async fn a_cordon_after_the_visit_is_kept() -> anyhow::Result<()> {
    let (ground, _drydock) = settled(3, "").await?;
    let site = ground.site("c1");
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, ""))])?;
    let node = ground
        .until("a node that is done", LONG, |ledger| {
            let done = |a: &drydock_plan::Assignment| a.outcome == Some(NodeOutcome::Done);
            let mut nodes = ledger.nodes.iter();
            nodes
                .find(|(_, n)| n.visit.is_none() && n.assignment.as_ref().is_some_and(done))
                .map(|(id, _)| id.node().to_owned())
        })
        .await?;
    patch(site, &format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": true}})).await?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    assert_eq!(cordoned(&ground, site).await?, [node]);
    Ok(())
}

/// Whoever deletes the namespace of a component takes its DaemonSets with it. While something holds the namespace back
/// nothing new can be made in it, and the node says so.
async fn a_namespace_that_is_being_deleted_is_named() -> anyhow::Result<()> {
    let (ground, drydock) = settled(2, "").await?;
    let site = ground.site("c1");
    let held = json!({"metadata": {"name": "held", "namespace": "gpu", "finalizers": ["example.com/held"]}});
    ground.create(site, "/api/v1/namespaces/gpu/configmaps", &held).await?;
    ground.admin(site)?.delete("/api/v1/namespaces/gpu", &json!({})).await?;
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 2, ""))])?;
    let node = ground
        .until("a node that changes", LONG, |ledger| {
            let changes = |v: &drydock_plan::Visit| matches!(v.step, Step::Apply(_));
            let mut nodes = ledger.nodes.iter();
            nodes.find(|(_, n)| n.visit.as_ref().is_some_and(changes)).map(|(id, _)| id.node().to_owned())
        })
        .await?;
    drydock.why(&format!("c1/{node}"), &["gpu", "being terminated"], LONG).await?;
    patch(site, "/api/v1/namespaces/gpu/configmaps/held", json!({"metadata": {"finalizers": null}})).await?;
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let made = ground.create(site, "/api/v1/namespaces", &json!({"metadata": {"name": "gpu"}})).await;
        let spaces = ground.list(site, "/api/v1/namespaces").await?;
        let live = |n: &Value| n["metadata"]["name"] == "gpu" && n["metadata"]["deletionTimestamp"].is_null();
        if made.is_ok() && spaces.iter().any(live) {
            break;
        }
        anyhow::ensure!(std::time::Instant::now() < deadline, "the namespace doesn't end: {made:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let end = ground.ended(&second, LONG).await?;
    assert_eq!(end.state, RolloutState::Succeeded, "{end:?}");
    assert_eq!(ground.versions(site, "driver").await?, [("580.105.08".to_owned(), 2)].into());
    ground.tidy(Duration::from_secs(90)).await
}

async fn a_label_taken_away_and_a_daemon_set_edited_by_hand_are_healed() -> anyhow::Result<()> {
    let (ground, drydock) = settled(3, "drift: heal\n").await?;
    let site = ground.site("c1");
    let name = ground.nodes(site).await?[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = format!("{}driver", names::VERSION_PREFIX);
    patch(site, &format!("/api/v1/nodes/{name}"), json!({"metadata": {"labels": {key.as_str(): null}}}))
        .await?;
    let sets = ground.list(site, "/apis/apps/v1/namespaces/gpu/daemonsets").await?;
    let set = sets[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let edit = json!({"spec": {"template": {"spec": {"hostNetwork": true, "containers": [{"name": "driver", "image": "evil:1"}]}}}});
    patch(site, &format!("/apis/apps/v1/namespaces/gpu/daemonsets/{set}"), edit).await?;
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

async fn without_its_definitions_the_ledger_goes_on() -> anyhow::Result<()> {
    let (ground, _drydock) = settled(3, "").await?;
    let site = ground.site("c1");
    for name in ["gpunodes.drydock.dev", "rollouts.drydock.dev"] {
        let uri = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        ground.admin(site)?.delete(&uri, &json!({})).await?;
    }
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, ""))])?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    Ok(())
}

async fn a_missing_verb_is_named() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let mut spec = SiteSpec::new(&tools, "c1", 2);
    spec.plane.authorization = Authorization::Rbac;
    let ground = Ground::start(vec![spec]).await?;
    let site = ground.site("c1");
    // What the manifest for a cluster grants is all that is needed; here with one verb less at first.
    let manifest = include_str!("../../../../examples-repo/kubernetes/drydock.yaml");
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
    workload(&ground, site, 2, 1).await?;
    let first =
        ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", 2, "drain: {timeout: 2m}\n"))])?;
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

async fn a_restored_backup_is_noticed_and_nothing_is_done_on_old_facts() -> anyhow::Result<()> {
    let (ground, drydock) = settled(3, "").await?;
    let site = ground.site("c1");
    let backup = site.plane.snapshot_etcd()?;
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 3, ""))])?;
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
