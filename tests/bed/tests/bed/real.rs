//! Real nodes of the bed itself: real pods come up, end, fail to be pulled and crash.
use std::time::Duration;

use crate::common::{LONG, show};
use drydock_bed::{
    Plane, PlaneOptions, RealNodes, RealOptions, RealTools, Tools, User, eventually,
    real::{STAND_IN, stand_in_image},
};
use k8s_openapi::api::{apps::v1::DaemonSet, batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::harness::tests;

tests![real_pods_come_up_end_crash_and_are_not_pulled];

/// A container with the stand-in.
fn container(image: &str, args: &[&str]) -> Value {
    json!({"name": "main", "image": image, "imagePullPolicy": "Never", "args": args})
}

fn pod(name: &str, node: &str, container: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }))
    .unwrap()
}

fn job(name: &str, args: &[&str]) -> Job {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [container("bed/stand-in:1", args)],
        }}},
    }))
    .unwrap()
}

async fn pods(client: &Client, selector: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    Ok(api.list(&ListParams::default().labels(selector)).await?.items)
}

/// Waits until the pods of a selector, at least one, show one of these.
async fn shows(client: &Client, selector: &str, wanted: &[&str]) {
    eventually(&format!("{selector} shows one of {wanted:?}"), LONG, || async {
        let shown: Vec<String> = pods(client, selector).await?.iter().map(show).collect();
        let done = !shown.is_empty() && shown.iter().all(|s| wanted.contains(&s.as_str()));
        Ok(if done { Ok(()) } else { Err(format!("{shown:?}")) })
    })
    .await
    .unwrap();
}

async fn real_pods_come_up_end_crash_and_are_not_pulled() -> anyhow::Result<()> {
    let tools = Tools::find().unwrap();
    let real = RealTools::find()?;
    let plane = Plane::start(PlaneOptions::new(tools)).await.unwrap();
    let image = stand_in_image("bed/stand-in", "1").unwrap();
    let options = RealOptions {
        labels: [("pool".to_owned(), "a".to_owned())].into(),
        images: vec![image],
        ..RealOptions::default()
    };
    let nodes = RealNodes::start(&plane, 2, real, options).await.unwrap();
    assert_eq!(nodes.names(), ["real-0", "real-1"]);
    let client = plane.client(User::Admin).unwrap();

    // A driver: ready when its file is there.
    let mut driver = container("bed/stand-in:1", &["driver", "--after", "200"]);
    driver["readinessProbe"] =
        json!({"exec": {"command": [STAND_IN, "probe", "/run/driver-ready"]}, "periodSeconds": 1});
    let sets: Api<DaemonSet> = Api::default_namespaced(client.clone());
    let set: DaemonSet = serde_json::from_value(json!({
        "metadata": {"name": "driver"},
        "spec": {
            "selector": {"matchLabels": {"app": "driver"}},
            "template": {
                "metadata": {"labels": {"app": "driver"}},
                "spec": {"nodeSelector": {"pool": "a"}, "hostPID": true, "containers": [driver]},
            },
        },
    }))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    eventually("the driver is ready on two nodes", LONG, || async {
        let status = sets.get("driver").await?.status.unwrap_or_default();
        let found = (status.desired_number_scheduled, status.number_ready);
        let shown: Vec<String> = pods(&client, "app=driver").await?.iter().map(show).collect();
        Ok(if found == (2, 2) { Ok(()) } else { Err(format!("{found:?} {shown:?}")) })
    })
    .await
    .unwrap();

    // Jobs end as they say.
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let message = r#"{"verdict":"fail","detail":"no"}"#;
    jobs.create(&PostParams::default(), &job("good", &["check", "--message", "fine"])).await.unwrap();
    let bad = job("bad", &["check", "--exit", "1", "--message", message]);
    jobs.create(&PostParams::default(), &bad).await.unwrap();
    for (name, code, text) in [("good", 0, "fine"), ("bad", 1, message)] {
        shows(&client, &format!("job-name={name}"), &[&format!("ended {code}")]).await;
        let pod = pods(&client, &format!("job-name={name}")).await.unwrap().into_iter().next().unwrap();
        let ended = pod.status.unwrap().container_statuses.unwrap().into_iter().next().unwrap();
        assert_eq!(ended.state.unwrap().terminated.unwrap().message.as_deref(), Some(text));
        let wanted = if code == 0 { "Complete" } else { "Failed" };
        eventually(&format!("Job {name} is {wanted}"), LONG, || async {
            let conditions = jobs.get(name).await?.status.unwrap_or_default().conditions.unwrap_or_default();
            let holds = conditions.iter().any(|c| c.type_ == wanted && c.status == "True");
            Ok(if holds { Ok(()) } else { Err(format!("{conditions:?}")) })
        })
        .await
        .unwrap();
    }

    // What isn't there can't be pulled, and what crashes crashes again.
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let mut absent = container("registry.invalid/absent:1", &["pause"]);
    api.create(&PostParams::default(), &pod("never", "real-0", &absent)).await.unwrap();
    absent["imagePullPolicy"] = json!("IfNotPresent");
    api.create(&PostParams::default(), &pod("pull", "real-0", &absent)).await.unwrap();
    let crash = container("bed/stand-in:1", &["driver", "--crash"]);
    api.create(&PostParams::default(), &pod("crash", "real-1", &crash)).await.unwrap();
    shows(&client, "app=never", &["waiting ErrImageNeverPull"]).await;
    shows(&client, "app=pull", &["waiting ErrImagePull", "waiting ImagePullBackOff"]).await;
    shows(&client, "app=crash", &["waiting CrashLoopBackOff"]).await;

    // A node whose kubelet is gone goes on, and so does the kubelet when it is back.
    let before = pods(&client, "app=driver").await.unwrap();
    nodes.stop_kubelet("real-0").unwrap();
    nodes.start_kubelet("real-0").unwrap();
    api.create(&PostParams::default(), &pod("late", "real-0", &container("bed/stand-in:1", &["pause"])))
        .await
        .unwrap();
    shows(&client, "app=late", &["ready"]).await;
    let uids = |pods: &[Pod]| pods.iter().map(ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&before), uids(&pods(&client, "app=driver").await.unwrap()));

    let folder = nodes.folder().to_owned();
    let first = tokio::task::spawn_blocking(move || drop(nodes));
    tokio::time::timeout(Duration::from_secs(60), first).await.unwrap().unwrap();
    assert!(!folder.exists(), "something of the nodes is left in {}", folder.display());
    Ok(())
}
