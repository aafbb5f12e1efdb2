//! What nobody asks for any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use drydock_api::names;
use drydock_plan::Generation;

use super::ident::label;
use crate::client::Kind;
use crate::ensure::{Call, Objects, Request};
use crate::objects::{Key, Meta, PodObject, Watched as _};

/// What names of drydock's single pods begin with: `drydock-prefetch-…`, `drydock-probe-…`.
const SINGLE: &str = "drydock-p";

/// Deletes what drydock has made for intents that aren't wanted any more, also before a restart: Jobs of checks, Jobs
/// that have put software on a node, and pods that fetched images or tried something out. `wanted` has the generation of every node of the cluster that is asked
/// for anything.
///
/// The Job of a group that is over is left: nodes of other intents may still read it, and Kubernetes deletes it in time.
/// Pods of Jobs go with their Job. It looks at Jobs and at a few pods of each namespace, not at all pods.
#[must_use]
pub fn leftovers(objects: &Objects, wanted: &BTreeMap<Arc<str>, Generation>) -> Vec<Call> {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(node, generation)| (label(node), generation.to_string())).collect();
    let unwanted = |meta: &Meta| {
        let generation = meta.label(names::NODE).and_then(|node| wanted.get(node)).map(String::as_str);
        meta.label(names::MANAGED_BY) == Some(names::MANAGER)
            && meta.deletion_timestamp.is_none()
            && (generation.is_none() || generation != meta.label(names::GENERATION))
    };
    let jobs = objects.jobs.values().filter(|job| {
        let over = job.complete || job.failure.is_some();
        let may_go = match (job.meta.label(names::CHECK), job.meta.label(names::CHECK_GROUP)) {
            (Some(_), shared) => !(shared.is_some() && over),
            // What puts software on a node is never broken off half-way.
            (None, _) => over && job.meta.label(names::GENERATION).is_some(),
        };
        may_go && unwanted(&job.meta)
    });
    let pods = single_pods(objects).into_iter().filter(|pod| {
        let made = [names::CHECK, names::PREFETCH, names::PROBE];
        pod.meta.controller().is_none()
            && made.iter().any(|key| pod.meta.label(key).is_some())
            && unwanted(&pod.meta)
    });
    jobs.map(|job| super::delete(job)).chain(pods.map(|pod| delete_pod(pod))).collect()
}

/// Pods with names of drydock's own, in all namespaces. Pods are sorted by namespace and name, so each namespace costs
/// two searches and no more.
fn single_pods(objects: &Objects) -> Vec<&Arc<PodObject>> {
    let mut found = Vec::new();
    let mut next = objects.pods.first_key_value().map(|(key, _)| Arc::clone(&key.namespace));
    while let Some(namespace) = next {
        let from = Key { namespace: Arc::clone(&namespace), name: Arc::from(SINGLE) };
        let here = objects.pods.range(from..);
        found.extend(
            here.take_while(|(key, _)| key.namespace == namespace && key.name.starts_with(SINGLE))
                .map(|(_, pod)| pod),
        );
        // The first text after this one.
        let after = Key { namespace: Arc::from(format!("{namespace}\0")), name: Arc::from("") };
        next = objects.pods.range(after..).next().map(|(key, _)| Arc::clone(&key.namespace));
    }
    found
}

/// Deletes a pod of drydock's own that holds nothing.
pub(crate) fn delete_pod(pod: &PodObject) -> Call {
    let uri = Kind::POD.one(pod.key().space(), &pod.meta.name);
    let uid = pod.meta.uid.clone();
    let request = Request::Delete { uri, uid: uid.clone(), propagation: "Background", grace: Some(0) };
    Call { key: format!("delete {uid}"), request }
}
