//! The control plane of the bed itself: it starts, keeps what it was told, goes back, and tells who asked.

use std::{collections::BTreeMap, time::Duration};

use drydock_bed::{Authorization, Plane, PlaneOptions, Tools, User, eventually, plane::write_kubeconfig};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::harness::tests;

tests![
    an_api_server_that_was_stopped_or_hung_keeps_what_it_was_told,
    etcd_goes_back_to_a_snapshot,
    two_planes_run_side_by_side_and_tell_who_asked,
];

const LONG: Duration = Duration::from_secs(60);

fn note(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("said".to_owned(), name.to_owned())])),
        ..ConfigMap::default()
    }
}

async fn names(api: &Api<ConfigMap>) -> anyhow::Result<Vec<String>> {
    let list = api.list(&ListParams::default()).await?;
    Ok(list.items.into_iter().filter_map(|c| c.metadata.name).filter(|n| n != "kube-root-ca.crt").collect())
}

async fn an_api_server_that_was_stopped_or_hung_keeps_what_it_was_told() {
    let tools = Tools::find().unwrap();
    let plane = Plane::start(PlaneOptions::new(tools)).await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client(User::Admin).unwrap());
    api.create(&PostParams::default(), &note("before")).await.unwrap();

    plane.stop_apiserver();
    assert!(names(&api).await.is_err());
    plane.start_apiserver().await.unwrap();
    eventually("the note is there", LONG, || async { Ok(Ok(names(&api).await?)) }).await.unwrap();
    assert_eq!(names(&api).await.unwrap(), ["before"]);

    plane.hang_apiserver().unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(500), names(&api)).await;
    assert!(asked.is_err(), "a server that hangs answered: {asked:?}");
    plane.resume_apiserver().unwrap();
    assert_eq!(names(&api).await.unwrap(), ["before"]);
    plane.check().unwrap();
}

async fn etcd_goes_back_to_a_snapshot() {
    let tools = Tools::find().unwrap();
    let plane = Plane::start(PlaneOptions::new(tools)).await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client(User::Admin).unwrap());
    api.create(&PostParams::default(), &note("before")).await.unwrap();
    let snapshot = plane.snapshot_etcd().unwrap();
    api.create(&PostParams::default(), &note("after")).await.unwrap();
    assert_eq!(names(&api).await.unwrap(), ["after", "before"]);
    plane.restore_etcd(&snapshot).await.unwrap();
    assert_eq!(
        eventually("a list", LONG, || async { Ok(Ok(names(&api).await?)) }).await.unwrap(),
        ["before"]
    );
}

async fn two_planes_run_side_by_side_and_tell_who_asked() {
    let tools = Tools::find().unwrap();
    let options = |name: &str| PlaneOptions::new(tools.clone()).named(name);
    let started = tokio::try_join!(
        Plane::start(options("east").authorization(Authorization::Rbac)),
        Plane::start(options("west"))
    );
    let (east, west) = started.unwrap();

    // One kubeconfig leads to both.
    let path = west.folder().join("both.kubeconfig");
    write_kubeconfig(&[(&east, "east"), (&west, "west")], User::DrydockA, &path).unwrap();
    let mut seen = Vec::new();
    for context in ["east", "west"] {
        let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
        let file = Kubeconfig::read_from(&path).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
        seen.push(api.create(&PostParams::default(), &note(context)).await);
    }
    let [refused, made] = seen.as_slice() else { panic!("two answers") };
    let refused = refused.as_ref().unwrap_err().to_string();
    assert!(refused.contains("forbidden") && refused.contains("drydock-a"), "{refused}");
    assert!(made.is_ok());

    // The log of each knows its own requests alone.
    let count = |plane: &Plane, user: User| {
        let entries = plane.audit().unwrap();
        entries
            .iter()
            .filter(|e| e.by(user) && e.resource == "configmaps")
            .map(|e| e.code)
            .collect::<Vec<_>>()
    };
    eventually("the requests are noted", LONG, || async {
        let found = (count(&east, User::DrydockA), count(&west, User::DrydockA));
        Ok(if found == (vec![403], vec![201]) { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await
    .unwrap();
    assert!(count(&west, User::DrydockB).is_empty());
}
