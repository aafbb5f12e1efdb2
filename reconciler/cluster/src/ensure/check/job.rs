//! The Job of a run: one pod on each node that takes part, placed by the scheduler, never repeated.

use std::collections::BTreeMap;

use drydock_api::{check, names};
use drydock_plan::{CheckOrder, NodeId};
use drydock_spec::{CheckRun, Period};
use serde_json::{Map, Value, json};

use super::ident::{Run, label};
use super::read::{START_WITHIN, main_container};
use crate::ensure::View;
use crate::objects::{NodeObject, Taint};

/// How long Kubernetes keeps a Job that is over. Long enough for a drydock that restarts to read it, short enough that
/// nothing gathers where drydock never comes back.
const KEPT_FOR_S: u64 = 600;

/// Time beyond start and run after which Kubernetes ends a Job by itself. drydock ends it earlier; this is the net below.
const NET: Period = Period::from_mins(5);

/// Grace period of check pods: what hangs isn't going to end, and the next run waits for its GPUs.
const GRACE_S: u64 = 10;

/// Extended resource of whole GPUs.
const GPU: &str = "nvidia.com/gpu";

/// The whole object.
pub(super) fn job(view: &View<'_>, order: &CheckOrder, run: &Run) -> Value {
    let size = run.size();
    let labels = labels(view, order, run);
    let limit = START_WITHIN.saturating_add(order.timeout).saturating_add(order.timeout).saturating_add(NET);
    let mut spec = json!({
        "completions": size,
        "parallelism": size,
        "backoffLimit": 0,
        "activeDeadlineSeconds": limit.as_millis().div_ceil(1_000),
        "ttlSecondsAfterFinished": KEPT_FOR_S,
        "podReplacementPolicy": "Failed",
        "template": { "metadata": metadata(order, &labels), "spec": pod(view, order, run) },
    });
    if size > 1 {
        spec["completionMode"] = json!("Indexed");
        // One node's failure must not kill the pods of the others before they have said what they saw. Kubernetes
        // before 1.29 doesn't know it, and keeps to the limit for all.
        spec["backoffLimitPerIndex"] = json!(0);
        spec["backoffLimit"] = json!(size);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": run.job, "namespace": view.settings.namespace, "labels": labels },
        "spec": spec,
    })
}

fn labels(view: &View<'_>, order: &CheckOrder, run: &Run) -> BTreeMap<&'static str, String> {
    let mut labels = BTreeMap::from([
        (names::MANAGED_BY, names::MANAGER.to_owned()),
        (names::CHECK, order.name.to_string()),
        (names::CHECK_CLASS, order.class.as_str().to_owned()),
        (names::NODE, label(view.name())),
        (names::GENERATION, view.action.generation.to_string()),
    ]);
    if let Some(group) = &run.group {
        labels.insert(names::CHECK_GROUP, group.clone());
    }
    labels
}

fn metadata(order: &CheckOrder, own: &BTreeMap<&'static str, String>) -> Value {
    let mut metadata =
        order.template.as_ref().and_then(|t| t.mapping("metadata")).cloned().unwrap_or_default();
    let mut labels = take(&mut metadata, "labels");
    labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    put(&mut metadata, "labels", labels);
    Value::Object(metadata)
}

/// The pod: what the template says, and what drydock has to say itself. Where it runs is drydock's; of the first
/// container only what is absent is filled in.
fn pod(view: &View<'_>, order: &CheckOrder, run: &Run) -> Value {
    let mut spec = order.template.as_ref().and_then(|t| t.mapping("spec")).cloned().unwrap_or_default();
    let mut containers = take_list(&mut spec, "containers").into_iter();
    let first = match containers.next() {
        Some(Value::Object(first)) => first,
        _ => Map::new(),
    };
    let first = Value::Object(container(first, view, order, run));
    put(&mut spec, "containers", std::iter::once(first).chain(containers).collect::<Vec<_>>());
    put(&mut spec, "restartPolicy", "Never");
    put(&mut spec, "affinity", affinity(run));
    let mut tolerated = take_list(&mut spec, "tolerations");
    tolerated.extend(tolerations(view, run));
    put(&mut spec, "tolerations", tolerated);
    for key in ["nodeName", "nodeSelector", "topologySpreadConstraints"] {
        spec.remove(key);
    }
    put_absent(&mut spec, "automountServiceAccountToken", false);
    put_absent(&mut spec, "enableServiceLinks", false);
    put_absent(&mut spec, "terminationGracePeriodSeconds", GRACE_S);
    Value::Object(spec)
}

fn container(
    mut first: Map<String, Value>,
    view: &View<'_>,
    order: &CheckOrder,
    run: &Run,
) -> Map<String, Value> {
    put_absent(&mut first, "name", main_container(order));
    put_absent(&mut first, "imagePullPolicy", view.settings.pull.as_str());
    put_absent(&mut first, "terminationMessagePolicy", "FallbackToLogsOnError");
    if !first.contains_key("image") {
        match &order.run {
            CheckRun::Builtin(name) => {
                put(&mut first, "image", view.settings.smoke_image.as_str());
                if !first.contains_key("command") {
                    put_absent(&mut first, "args", vec![name.as_str()]);
                }
            }
            CheckRun::Image(image) => put(&mut first, "image", image.as_str()),
        }
    }
    let mut env = take_list(&mut first, "env");
    let there = |own: &Value| env.iter().any(|e| e.get("name") == own.get("name"));
    let missing: Vec<Value> = environment(order, run).into_iter().filter(|own| !there(own)).collect();
    env.extend(missing);
    put(&mut first, "env", env);
    let devices = devices(view.node, order.gpus);
    if !devices.is_empty() {
        let mut resources = take(&mut first, "resources");
        let mut limits = take(&mut resources, "limits");
        if !limits.keys().any(|key| is_device(key)) {
            limits.extend(devices.into_iter().map(|(name, count)| (name, json!(count))));
        }
        put(&mut resources, "limits", limits);
        put(&mut first, "resources", resources);
    }
    first
}

fn environment(order: &CheckOrder, run: &Run) -> [Value; 4] {
    let nodes: Vec<&str> = run.nodes.iter().map(NodeId::node).collect();
    [
        json!({"name": check::ENV_CHECK, "value": order.name}),
        // The pods of one Job have one template; each is told by the API server where it is.
        json!({"name": check::ENV_NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}),
        json!({"name": check::ENV_NODES, "value": nodes.join(",")}),
        json!({"name": check::ENV_RUN, "value": run.number.to_string()}),
    ]
}

fn is_device(name: &str) -> bool {
    name == GPU || name.starts_with("nvidia.com/mig-") || name.starts_with("amd.com/gpu")
}

/// Devices that a pod asks for on a node. Whole GPUs by their usual name; on a node whose GPUs are all cut, every
/// partition there is, since a whole GPU isn't to be had.
pub(super) fn devices(node: &NodeObject, gpus: u32) -> BTreeMap<String, u32> {
    if gpus == 0 {
        return BTreeMap::new();
    }
    let there = |name: &str| node.devices.get(name).is_some_and(|count| *count > 0);
    if !there(GPU) {
        let cut: BTreeMap<String, u32> = node
            .devices
            .iter()
            .filter(|(name, count)| name.starts_with("nvidia.com/mig-") && **count > 0)
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        if !cut.is_empty() {
            return cut;
        }
        if there("amd.com/gpu") {
            return BTreeMap::from([("amd.com/gpu".to_owned(), gpus)]);
        }
    }
    BTreeMap::from([(GPU.to_owned(), gpus)])
}

/// Exactly these nodes, each by its name: terms are alternatives, and one term can't name two. The scheduler still
/// decides, so a pod doesn't get GPUs that somebody else holds.
fn affinity(run: &Run) -> Value {
    let term = |node: &NodeId| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.node()]}]});
    let terms: Vec<Value> = run.nodes.iter().map(term).collect();
    let mut affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    if run.size() > 1 {
        affinity["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {"job-name": run.job}},
            "topologyKey": "kubernetes.io/hostname"}]});
    }
    affinity
}

/// The cordon, drydock's own taint, the usual taint of GPU nodes, and what else stands on the nodes to keep others away:
/// a pool's own taints. Not what says that the node is ill.
fn tolerations(view: &View<'_>, run: &Run) -> Vec<Value> {
    let mut all: Vec<Value> = ["node.kubernetes.io/unschedulable", names::TAINT, GPU]
        .map(|key| json!({"key": key, "operator": "Exists"}))
        .to_vec();
    let nodes = run.nodes.iter().filter_map(|id| view.objects.nodes.get(id.node()));
    let known = |t: &&Taint| {
        !t.key.starts_with("node.kubernetes.io/")
            && !t.key.starts_with("node.cloudprovider.kubernetes.io/")
            && t.key != names::TAINT
            && t.key != GPU
            && t.effect != "PreferNoSchedule"
    };
    for taint in nodes.flat_map(|node| &node.taints).filter(known) {
        let own =
            json!({"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect});
        if !all.contains(&own) {
            all.push(own);
        }
    }
    all
}

/// Takes a mapping out to be changed and put back; whatever else stood there is dropped, which only a malformed template
/// could have had.
fn take(from: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match from.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn take_list(from: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match from.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn put<T: Into<Value>>(into: &mut Map<String, Value>, key: &str, value: T) {
    into.insert(key.to_owned(), value.into());
}

fn put_absent<T: Into<Value>>(into: &mut Map<String, Value>, key: &str, value: T) {
    into.entry(key).or_insert_with(|| value.into());
}
