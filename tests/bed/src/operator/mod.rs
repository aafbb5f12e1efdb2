//! A stand-in for NVIDIA's GPU Operator: it makes the driver DaemonSets, and nothing else of it.
//!
//! - An `NVIDIADriver` (`nvidia.com/v1alpha1`) gets one DaemonSet of its own on the nodes of its `spec.nodeSelector`.
//! - The `ClusterPolicy` (`nvidia.com/v1`) gets `nvidia-driver-daemonset` on nodes with
//!   `nvidia.com/gpu.deploy.driver=true`.
//!
//! Both are `OnDelete`: a change of the object changes the template, and a pod runs the old one until somebody deletes
//! it. With `upgradePolicy.autoUpgrade: true` the operator does that by itself, one node at a time.
//!
//! As with the real one, driver pods tolerate `nvidia.com/gpu` and what the object names, and no other taint.

mod sets;

use anyhow::Context as _;
use k8s_openapi::{
    api::{apps::v1::DaemonSet, core::v1::Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    Plane, User, eventually,
    hollow::watch::{Event, follow},
};

/// Where the operator's DaemonSets are.
pub const NAMESPACE: &str = "gpu-operator";

/// How it calls itself when it writes.
const MANAGER: &str = "gpu-operator";

const DEFINITIONS: &str = include_str!("crds.yaml");

/// Objects that may wait.
const EVENTS: usize = 64;

/// How long an API server takes to serve a new kind; ten times what it takes.
const SERVED_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

/// The operator of one plane. It stops with the value; its DaemonSets stay.
#[derive(Debug)]
pub struct Operator {
    _tasks: JoinSet<()>,
}

/// Which of the two kinds an object is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Driver,
    Policy,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (version, kind, plural) = match self {
            Self::Driver => ("v1alpha1", "NVIDIADriver", "nvidiadrivers"),
            Self::Policy => ("v1", "ClusterPolicy", "clusterpolicies"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("nvidia.com", version, kind), plural)
    }
}

/// The API of `NVIDIADriver` objects.
#[must_use]
pub fn drivers(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &Kind::Driver.resource())
}

/// The API of `ClusterPolicy` objects.
#[must_use]
pub fn policies(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &Kind::Policy.resource())
}

/// Makes both kinds known, waits until they are served, and makes the operator's namespace.
///
/// # Errors
/// The API server refuses.
pub async fn install_crds(plane: &Plane) -> anyhow::Result<()> {
    let client = plane.client(User::Operator)?;
    let force = PatchParams::apply(MANAGER).force();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for text in DEFINITIONS.split("\n---\n") {
        let definition: CustomResourceDefinition = serde_yaml::from_str(text).context("crds.yaml")?;
        api.patch(&definition.name_any(), &force, &Patch::Apply(&definition)).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    Api::<Namespace>::all(client.clone()).patch(NAMESPACE, &force, &Patch::Apply(namespace)).await?;
    for api in [drivers(client.clone()), policies(client.clone())] {
        eventually("the operator's kinds are served", SERVED_WITHIN, || async {
            api.list(&kube::api::ListParams::default()).await?;
            Ok(Ok(()))
        })
        .await?;
    }
    Ok(())
}

impl Operator {
    /// Installs both kinds and begins to make DaemonSets.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn start(plane: &Plane) -> anyhow::Result<Self> {
        install_crds(plane).await?;
        let client = plane.client(User::Operator)?;
        let mut tasks = JoinSet::new();
        for kind in [Kind::Driver, Kind::Policy] {
            let (sender, events) = mpsc::channel(EVENTS);
            tasks.spawn(follow(Api::all_with(client.clone(), &kind.resource()), sender));
            tasks.spawn(run(client.clone(), kind, events));
        }
        Ok(Self { _tasks: tasks })
    }
}

/// Makes a DaemonSet of each object that is new or has changed. Those of objects that go are collected as garbage:
/// they have an owner.
async fn run(client: Client, kind: Kind, mut events: mpsc::Receiver<Event<DynamicObject>>) {
    let api: Api<DaemonSet> = Api::namespaced(client, NAMESPACE);
    let force = PatchParams::apply(MANAGER).force();
    while let Some(event) = events.recv().await {
        let objects = match event {
            Event::All(all) => all,
            Event::Set(object) => vec![object],
            Event::Gone(_) => continue,
        };
        for object in objects {
            let set = match kind {
                Kind::Driver => sets::of_driver(&object),
                Kind::Policy => sets::of_policy(&object),
            };
            let Some((name, body)) = set else { continue };
            // Once more when it is refused: an API server may be away for a while, and nothing else would tell us.
            while let Err(error) = api.patch(&name, &force, &Patch::Apply(&body)).await {
                tracing::debug!(name, %error, "refused; once more");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    }
}
