//! Hollow nodes of the bed itself: pods come up, Jobs end, faults show.

use std::time::Duration;

use crate::common::{Ground, LONG, daemon_set, job, started};
use drydock_bed::mode::Mode;
use drydock_bed::{
    Controllers, HollowOptions, Plane, PlaneOptions, Tools, User, eventually,
    hollow::{Agent, NodeSpec, PodSelector},
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    batch::v1::Job,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::harness::tests;

tests![
    a_daemon_set_on_20_nodes_becomes_ready_and_moves_with_a_label,
    a_job_ends_with_code_and_message,
    every_bad_version_shows_as_its_pods,
    checks_hang_never_start_and_lose_their_runner,
    nodes_are_lost_come_back_and_hold_what_does_not_terminate,
    what_happens_to_nodes_by_name_happens,
    a_bad_node_breaks_at_the_change_and_a_slow_version_is_slow,
    a_gang_runs_on_and_answers_for_its_checkpoint,
    an_agent_acts_on_its_label_and_changes_the_devices,
    with_all_controllers_a_node_without_lease_is_not_ready,
    many_nodes_are_ready_in_a_short_time,
];

async fn a_daemon_set_on_20_nodes_becomes_ready_and_moves_with_a_label() {
    let ground = started!(20);
    let sets: Api<DaemonSet> = Api::default_namespaced(ground.client.clone());
    sets.create(&PostParams::default(), &daemon_set("driver", "1.0", "nvidia/driver")).await.unwrap();
    ground.ready("driver", 20).await;
    let pods = ground.pods("app=driver").await;
    let pod = pods.first().unwrap();
    let status = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap().first().unwrap();
    assert!(status.ready && status.image_id.starts_with("nvidia/driver@sha256:"), "{status:?}");
    // A node whose label goes loses its pod.
    let nodes: Api<Node> = Api::all(ground.client.clone());
    let off = json!({"metadata": {"labels": {"version.drydock.dev/driver": "other"}}});
    nodes.patch("gpu-003", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    ground.ready("driver", 19).await;
}

async fn a_job_ends_with_code_and_message() {
    let ground = started!(2);
    let jobs: Api<Job> = Api::default_namespaced(ground.client.clone());
    for (name, code) in [("good", "0"), ("bad", "3")] {
        let told = [("bed.drydock.dev/exit-code", code), ("bed.drydock.dev/message", "told")];
        jobs.create(&PostParams::default(), &job(name, "gpu-000", &[], &told)).await.unwrap();
    }
    assert_eq!(ground.ended("job-name=good").await, (0, "told".to_owned()));
    assert_eq!(ground.ended("job-name=bad").await, (3, "told".to_owned()));
    eventually("the Jobs know", LONG, || async {
        let (good, bad) = (jobs.get("good").await?, jobs.get("bad").await?);
        let of = |job: &Job| {
            let status = job.status.clone().unwrap_or_default();
            (status.succeeded.unwrap_or_default(), status.failed.unwrap_or_default())
        };
        Ok(if (of(&good), of(&bad)) == ((1, 0), (0, 1)) { Ok(()) } else { Err(format!("{good:?} {bad:?}")) })
    })
    .await
    .unwrap();
    // What is deleted goes, with its pod.
    jobs.delete("good", &DeleteParams::background()).await.unwrap();
    ground.none("job-name=good").await;
}

async fn every_bad_version_shows_as_its_pods() {
    let ground = started!(6);
    let bad = |version: &str, how: &str| {
        format!("- badVersion: {{component: driver, version: '{version}', how: {how}}}")
    };
    let faults = [
        bad("2.1", "notReady"),
        bad("2.2", "hangs"),
        bad("2.3", "crashLoops"),
        bad("2.4", "{readyButBroken: {check: driver}}"),
        bad("2.5", "{losesNode: {}}"),
    ];
    ground.hollow.inject_yaml(&faults.join("\n")).unwrap();
    ground.hollow.break_image("nvidia/unpullable");
    let sets: Api<DaemonSet> = Api::default_namespaced(ground.client.clone());
    let nodes: Api<Node> = Api::all(ground.client.clone());
    for (n, version) in ["2.1", "2.2", "2.3", "2.4", "2.5", "2.6"].into_iter().enumerate() {
        let slug = version.replace('.', "-");
        let to = json!({"metadata": {"labels": {"version.drydock.dev/driver": slug}}});
        nodes.patch(&format!("gpu-00{n}"), &PatchParams::default(), &Patch::Merge(to)).await.unwrap();
        let image = if version == "2.6" { "nvidia/unpullable" } else { "nvidia/driver" };
        sets.create(&PostParams::default(), &daemon_set(&format!("v{slug}"), version, image)).await.unwrap();
    }
    ground.shows("app=v2-1", "running, not ready").await;
    ground.shows("app=v2-2", "waiting ContainerCreating").await;
    ground.shows("app=v2-3", "waiting CrashLoopBackOff").await;
    ground.shows("app=v2-4", "ready").await;
    ground.shows("app=v2-6", "waiting ImagePullBackOff").await;
    eventually("restarts grow", LONG, || async {
        let pods = ground.pods("app=v2-3").await;
        let status =
            pods.first().and_then(|p| p.status.as_ref()?.container_statuses.as_ref()?.first().cloned());
        let restarts = status.map_or(0, |s| s.restart_count);
        Ok(if restarts >= 2 { Ok(()) } else { Err(format!("{restarts} restarts")) })
    })
    .await
    .unwrap();
    ground.node_ready("gpu-004", "Unknown").await;

    // The version that is ready and broken fails its check, and no other.
    let jobs: Api<Job> = Api::default_namespaced(ground.client.clone());
    for (name, check) in [("c1", "driver-smoke"), ("c2", "training-step")] {
        let labels = [("drydock.dev/check", check)];
        jobs.create(&PostParams::default(), &job(name, "gpu-003", &labels, &[])).await.unwrap();
    }
    let (code, message) = ground.ended("job-name=c1").await;
    assert_eq!(code, 1);
    assert!(message.contains(r#""verdict":"fail""#) && message.contains("driver 2.4 is broken"), "{message}");
    let (code, message) = ground.ended("job-name=c2").await;
    assert_eq!((code, message.as_str()), (0, r#"{"verdict":"pass","value":120.0}"#));

    // Without faults everything comes up, and the node is back with another boot.
    ground.hollow.clear();
    for slug in ["2-1", "2-2", "2-3", "2-5", "2-6"] {
        ground.shows(&format!("app=v{slug}"), "ready").await;
    }
    ground.node_ready("gpu-004", "True").await;
}

async fn checks_hang_never_start_and_lose_their_runner() {
    let ground = started!(2);
    ground
        .hollow
        .inject_yaml(
            "[{hungCheck: {check: driver-a}}, {neverStartsCheck: {check: driver-b}},
              {brokenRunner: {check: driver-c}}, {rdmaPartnerBroken: {node: plane/gpu-001}},
              {badNode: {node: plane/gpu-001, how: checkFails, class: training, breaks: always}}]",
        )
        .unwrap();
    let jobs: Api<Job> = Api::default_namespaced(ground.client.clone());
    let checks = ["driver-a", "driver-b", "driver-c", "rdma-write", "training-step"];
    for check in checks {
        let labels = [("drydock.dev/check", check)];
        jobs.create(&PostParams::default(), &job(check, "gpu-001", &labels, &[])).await.unwrap();
    }
    assert_eq!(ground.ended("job-name=driver-c").await.0, 137);
    assert!(ground.ended("job-name=rdma-write").await.1.contains("no answer from gpu-001"));
    assert!(ground.ended("job-name=training-step").await.1.contains("the node is broken"));
    ground.shows("job-name=driver-a", "ready").await;
    ground.shows("job-name=driver-b", "waiting ContainerCreating").await;
}

async fn nodes_are_lost_come_back_and_hold_what_does_not_terminate() {
    let ground = started!(3);
    let sets: Api<DaemonSet> = Api::default_namespaced(ground.client.clone());
    sets.create(&PostParams::default(), &daemon_set("driver", "1.0", "nvidia/driver")).await.unwrap();
    ground.ready("driver", 3).await;
    let nodes: Api<Node> = Api::all(ground.client.clone());
    let boot = async |name: &str| nodes.get(name).await.unwrap().status.unwrap().node_info.unwrap().boot_id;
    let before = boot("gpu-000").await;
    ground.hollow.lose("gpu-000");
    ground.node_ready("gpu-000", "Unknown").await;
    ground.hollow.restore("gpu-000");
    ground.node_ready("gpu-000", "True").await;
    eventually("another boot", LONG, || async {
        let now = boot("gpu-000").await;
        Ok(if now == before { Err(now) } else { Ok(()) })
    })
    .await
    .unwrap();

    // Deleted, and held.
    ground.hollow.never_terminate(PodSelector::on("gpu-001"));
    let pods: Api<Pod> = Api::default_namespaced(ground.client.clone());
    let held = ground.pods("app=driver").await.into_iter();
    let held = held.filter(|p| p.spec.as_ref().unwrap().node_name.as_deref() == Some("gpu-001"));
    let held = held.map(|p| p.name_any()).next().unwrap();
    pods.delete(&held, &DeleteParams::default()).await.unwrap();
    let still = tokio::time::timeout(Duration::from_secs(1), ground.gone(&held)).await;
    assert!(still.is_err(), "it went");
    ground.hollow.let_terminate();
    ground.gone(&held).await;

    // A health fault shows as a condition, at once and for a while.
    ground.hollow.set_health("gpu-002", "xid-79", true);
    ground.condition("gpu-002", "GpuFault", "True").await;
    ground.hollow.set_health("gpu-002", "xid-79", false);
    ground.condition("gpu-002", "GpuFault", "False").await;
    ground.hollow.delete_node("gpu-002").await.unwrap();
    assert!(nodes.get_opt("gpu-002").await.unwrap().is_none());
}

async fn what_happens_to_nodes_by_name_happens() {
    let ground = started!(5);
    ground
        .hollow
        .inject_yaml(
            "- nodeLost: {node: plane/gpu-000, at: '2020-01-01T00:00:00Z'}
- nodeLost: {node: elsewhere/gpu-001, at: '2020-01-01T00:00:00Z'}
- foreignCordon: {node: plane/gpu-001, at: '2020-01-01T00:00:00Z'}
- relabel: {node: plane/gpu-001, at: '2020-01-01T00:00:00Z', label: rack, value: r9}
- healthFault: {node: plane/gpu-002, at: '2020-01-01T00:00:00Z', kind: xid-79}
- nodeDeleted: {node: plane/gpu-003, at: '2020-01-01T00:00:00Z'}
- nodeRecreated: {node: plane/gpu-004, at: '2020-01-01T00:00:00Z'}",
        )
        .unwrap();
    ground.node_ready("gpu-000", "Unknown").await;
    ground.node_ready("gpu-001", "True").await;
    ground.condition("gpu-002", "GpuFault", "True").await;
    let nodes: Api<Node> = Api::all(ground.client.clone());
    eventually("the nodes", LONG, || async {
        let (two, four) = (nodes.get("gpu-001").await?, nodes.get("gpu-004").await?);
        let cordoned = two.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
        let boot = four.status.and_then(|s| s.node_info).map(|i| i.boot_id).unwrap_or_default();
        let gone = nodes.get_opt("gpu-003").await?.is_none();
        let label = two.labels().get("rack").map(String::as_str) == Some("r9");
        let done = cordoned && gone && label && boot.starts_with("00000001");
        Ok(if done { Ok(()) } else { Err(format!("{cordoned} {gone} {label} {boot}")) })
    })
    .await
    .unwrap();
    let refused = ground
        .hollow
        .inject_yaml("- clusterUnreachable: {cluster: plane, at: '2020-01-01T00:00:00Z', for: 1m}");
    assert!(refused.unwrap_err().to_string().contains("clusterUnreachable"));
}

async fn a_bad_node_breaks_at_the_change_and_a_slow_version_is_slow() {
    let label = "nvidia.com/cuda.driver-version.full";
    let options = HollowOptions {
        features: [("driver".to_owned(), label.to_owned())].into(),
        ..HollowOptions::default()
    };
    let ground = started!(2, options);
    let sets: Api<DaemonSet> = Api::default_namespaced(ground.client.clone());
    let nodes: Api<Node> = Api::all(ground.client.clone());
    for (name, version) in [("old", "1.0"), ("new", "2.0")] {
        sets.create(&PostParams::default(), &daemon_set(name, version, "nvidia/driver")).await.unwrap();
    }
    ground.ready("old", 2).await;
    ground
        .hollow
        .inject_yaml(
            "- badNode: {node: plane/gpu-000, how: applyFails}
- badVersion: {component: driver, version: '2.0', how: {slow: {percent: 25, check: rdma}}}
- badVersion: {component: driver, version: '2.0', how: {hangsInCheck: {check: training}}}
- badVersion: {component: driver, version: '2.0', how: {faultsLater: {kind: xid-48, after: 1s}}}",
        )
        .unwrap();
    ground.shows("app=old", "ready").await;
    for node in ["gpu-000", "gpu-001"] {
        let to = json!({"metadata": {"labels": {"version.drydock.dev/driver": "2-0"}}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(to)).await.unwrap();
    }
    eventually("one crashes, one is ready", LONG, || async {
        let mut shown: Vec<String> = ground.pods("app=new").await.iter().map(crate::common::show).collect();
        shown.sort();
        Ok(if shown == ["ready", "waiting CrashLoopBackOff"] { Ok(()) } else { Err(format!("{shown:?}")) })
    })
    .await
    .unwrap();
    ground.condition("gpu-001", "GpuFault", "True").await;
    eventually("feature discovery", LONG, || async {
        let found = nodes.get("gpu-001").await?.labels().get(label).cloned();
        Ok(if found.as_deref() == Some("2.0") { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await
    .unwrap();

    let jobs: Api<Job> = Api::default_namespaced(ground.client.clone());
    for class in ["rdma", "training"] {
        let labels = [("drydock.dev/check", "mine"), ("drydock.dev/check-class", class)];
        jobs.create(&PostParams::default(), &job(class, "gpu-001", &labels, &[])).await.unwrap();
    }
    assert_eq!(ground.ended("job-name=rdma").await, (0, r#"{"verdict":"pass","value":285.0}"#.to_owned()));
    ground.shows("job-name=training", "ready").await;
}

async fn a_gang_runs_on_and_answers_for_its_checkpoint() {
    let ground = started!(1);
    let jobs: Api<Job> = Api::default_namespaced(ground.client.clone());
    let hook = [("drydock.dev/checkpoint-hook", "annotation")];
    jobs.create(&PostParams::default(), &job("train", "gpu-000", &[("drydock.dev/gang", "g")], &hook))
        .await
        .unwrap();
    ground.shows("job-name=train", "ready").await;
    let pods: Api<Pod> = Api::default_namespaced(ground.client.clone());
    let name = ground.pods("job-name=train").await.first().unwrap().name_any();
    let ask = json!({"metadata": {"annotations": {"drydock.dev/checkpoint-request": "gpu-000:7"}}});
    pods.patch(&name, &PatchParams::default(), &Patch::Merge(ask)).await.unwrap();
    eventually("the answer", LONG, || async {
        let pod = pods.get(&name).await?;
        let answered = pod.annotations().get("drydock.dev/checkpoint-for").cloned();
        let done = answered.as_deref() == Some("gpu-000:7")
            && pod.annotations().contains_key("drydock.dev/checkpoint");
        Ok(if done { Ok(()) } else { Err(format!("{answered:?}")) })
    })
    .await
    .unwrap();
    // Deleted, it ends as killed, and the Job makes another one.
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    ground.gone(&name).await;
}

async fn an_agent_acts_on_its_label_and_changes_the_devices() {
    let agent = Agent::mig_manager().devices(|_, layout| match layout {
        "all-1g" => [("nvidia.com/mig-1g.10gb".to_owned(), "56".to_owned())].into(),
        _ => [("nvidia.com/gpu".to_owned(), "8".to_owned())].into(),
    });
    let options = HollowOptions { agents: vec![agent], ..HollowOptions::default() };
    let ground = started!(1, options);
    let nodes: Api<Node> = Api::all(ground.client.clone());
    let ask = async |layout: &str| {
        let to = json!({"metadata": {"labels": {"nvidia.com/mig.config": layout}}});
        nodes.patch("gpu-000", &PatchParams::default(), &Patch::Merge(to)).await.unwrap();
    };
    let says = async |state: &str, resource: &str| {
        eventually("the agent", LONG, || async {
            let node = nodes.get("gpu-000").await?;
            let said = node.labels().get("nvidia.com/mig.config.state").cloned().unwrap_or_default();
            let devices = node.status.unwrap().allocatable.unwrap();
            let there = devices.keys().any(|k| k == resource)
                && devices.keys().filter(|k| k.contains('/')).count() == 1;
            Ok(if said == state && there { Ok(()) } else { Err(format!("{said} {devices:?}")) })
        })
        .await
        .unwrap();
    };
    ask("all-1g").await;
    says("success", "nvidia.com/mig-1g.10gb").await;
    ground.hollow.inject_yaml("- badLayout: {layout: broken, how: crashLoops}").unwrap();
    ask("broken").await;
    says("failed", "nvidia.com/mig-1g.10gb").await;
    ask("none").await;
    says("success", "nvidia.com/gpu").await;
}

async fn with_all_controllers_a_node_without_lease_is_not_ready() {
    let tools = Tools::find().unwrap();
    let plane = Plane::start(PlaneOptions::new(tools).controllers(Controllers::All)).await.unwrap();
    let options = HollowOptions { leases: Some(Duration::from_secs(1)), ..HollowOptions::default() };
    let ground = Ground::on(plane, 2, options).await;
    ground.hollow.lose("gpu-001");
    ground.node_ready("gpu-001", "Unknown").await;
    ground.node_ready("gpu-000", "True").await;
    ground.hollow.reconnect("gpu-001");
    ground.node_ready("gpu-001", "True").await;
}

/// Where there is time, as many as drydock is tested with. A thousand take about 20 s on two cores.
async fn many_nodes_are_ready_in_a_short_time() {
    let count: u16 = Mode::of_two(200, 1000);
    let ground = started!(0);
    let nodes = NodeSpec::many("big", count.into()).into_iter();
    let nodes = nodes.map(|n| n.label("version.drydock.dev/driver", "1-0"));
    let begin = tokio::time::Instant::now();
    ground.hollow.add_nodes(nodes).await.unwrap();
    let created = begin.elapsed();
    let sets: Api<DaemonSet> = Api::default_namespaced(ground.client.clone());
    sets.create(&PostParams::default(), &daemon_set("driver", "1.0", "nvidia/driver")).await.unwrap();
    ground.ready("driver", count.into()).await;
    println!("{count} nodes after {created:?}, as many pods ready after {:?}", begin.elapsed());
    let user = |user: User| ground.plane.audit().unwrap().iter().filter(|e| e.by(user)).count();
    assert!(user(User::Hollow) >= 3 * usize::from(count), "{}", user(User::Hollow));
    let nodes = Api::<Node>::all(ground.client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), usize::from(count));
}
