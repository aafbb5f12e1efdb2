//! What the Jobs look like.

use drydock_api::names;
use drydock_plan::NodeId;
use drydock_spec::{CheckOn, Template};
use serde_json::{Value, json};

use super::kit::{Bench, order};

fn name(body: &Value) -> String {
    body["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn one_node_one_pod_once() {
    let mut one = order("vector-add");
    one.gpus = 8;
    let mut bench = Bench::new([one]);
    bench.node(json!({"spec": {"taints": [
        {"key": "dedicated", "value": "team-a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": names::TAINT, "value": "away", "effect": "NoSchedule"}]}}));
    let body = bench.body();
    let spec = &body["spec"];
    for (pointer, want) in [
        ("/completions", json!(1)),
        ("/parallelism", json!(1)),
        ("/backoffLimit", json!(0)),
        ("/completionMode", Value::Null),
        ("/ttlSecondsAfterFinished", json!(600)),
        ("/podReplacementPolicy", json!("Failed")),
        ("/activeDeadlineSeconds", json!(120 + 300 + 300 + 300)),
    ] {
        assert_eq!(spec.pointer(pointer).cloned().unwrap_or_default(), want, "{pointer}");
    }
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["nodeName"], Value::Null, "through the scheduler");
    assert_eq!(
        pod["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}})
    );
    let keys: Vec<&str> =
        pod["tolerations"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["node.kubernetes.io/unschedulable", names::TAINT, "nvidia.com/gpu", "dedicated"]);
    let container = &pod["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"nvidia.com/gpu": 8}));
    assert_eq!(container["args"], json!(["vector-add"]));
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let env: Vec<&str> =
        container["env"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(env, ["DRYDOCK_CHECK", "DRYDOCK_NODE", "DRYDOCK_NODES", "DRYDOCK_RUN"]);
    let labels = &body["metadata"]["labels"];
    assert_eq!(labels, &spec["template"]["metadata"]["labels"]);
    assert_eq!(
        labels,
        &json!({names::MANAGED_BY: "drydock", names::CHECK: "vector-add", names::CHECK_CLASS: "driver",
            names::NODE: "n1", names::GENERATION: "7"})
    );
}

#[test]
fn names_are_short_and_differ_by_what_they_stand_for() {
    let long = "a-check-with-a-name-that-goes-on-and-on-and-never-ends-at-all";
    let mut bench = Bench::on(&format!("ip-10-0-0-1.{}", "x".repeat(120)), [order(long)]);
    let body = bench.body();
    assert!(name(&body).len() <= 54, "{}", name(&body));
    assert!(name(&body).bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
    assert!(body["metadata"]["labels"][names::NODE].as_str().unwrap().len() <= 63);
    let mut all = std::collections::BTreeSet::new();
    for (check, attempt, node) in [("a", 1, "n1"), ("b", 1, "n1"), ("a", 2, "n1"), ("a", 1, "n2")] {
        let mut one = order(check);
        (one.attempt, one.nodes) = (attempt, vec![NodeId::new(&format!("c1/{node}"))]);
        all.insert(name(&Bench::on(node, [one]).body()));
    }
    assert_eq!(all.len(), 4, "{all:?}");
}

#[test]
fn devices_are_those_that_the_node_has() {
    for (allocatable, gpus, want) in [
        (json!({"nvidia.com/gpu": "8"}), 8, json!({"nvidia.com/gpu": 8})),
        (json!({"nvidia.com/gpu": "8"}), 2, json!({"nvidia.com/gpu": 2})),
        (json!({"nvidia.com/gpu": "8"}), 0, Value::Null),
        (json!({}), 8, json!({"nvidia.com/gpu": 8})),
        (
            json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-2g.20gb": "0"}),
            8,
            json!({"nvidia.com/mig-1g.10gb": 14}),
        ),
        (json!({"amd.com/gpu": "8"}), 8, json!({"amd.com/gpu": 8})),
    ] {
        let mut one = order("vector-add");
        one.gpus = gpus;
        let mut bench = Bench::new([one]);
        bench.node(json!({"status": {"allocatable": allocatable}}));
        let body = bench.body();
        let limits = &body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(limits, &want, "{allocatable} {gpus}");
    }
}

#[test]
fn a_template_keeps_what_it_says_and_gets_what_it_doesnt() {
    let template: Template = serde_json::from_value(json!({
        "metadata": {"labels": {"team": "a", names::NODE: "mine"}, "annotations": {"x": "y"}},
        "spec": {
            "nodeSelector": {"zone": "a"}, "hostNetwork": true, "priorityClassName": "checks",
            "tolerations": [{"key": "own", "operator": "Exists"}],
            "containers": [
                {"name": "main", "image": "reg/own:2", "command": ["/x"],
                 "env": [{"name": "DRYDOCK_RUN", "value": "mine"}, {"name": "A", "value": "b"}],
                 "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "1Gi"}}},
                {"name": "side", "image": "reg/side:1"}]
        }
    }))
    .unwrap();
    let mut one = order("mine");
    (one.template, one.gpus) = (Some(template), 8);
    let body = Bench::new([one.clone()]).body();
    let template = &body["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["metadata"]["labels"][names::NODE], "n1", "drydock's own");
    let pod = &template["spec"];
    assert_eq!(pod["nodeSelector"], Value::Null);
    assert_eq!((&pod["hostNetwork"], &pod["priorityClassName"]), (&json!(true), &json!("checks")));
    assert_eq!(pod["tolerations"][0]["key"], "own");
    let main = &pod["containers"][0];
    assert_eq!((&main["image"], &main["args"]), (&json!("reg/own:2"), &Value::Null));
    assert_eq!(main["resources"]["limits"], json!({"nvidia.com/gpu": 1, "memory": "1Gi"}));
    let run: Vec<&Value> =
        main["env"].as_array().unwrap().iter().filter(|e| e["name"] == "DRYDOCK_RUN").collect();
    assert_eq!(run, [&json!({"name": "DRYDOCK_RUN", "value": "mine"})]);
    assert_eq!(pod["containers"][1], json!({"name": "side", "image": "reg/side:1"}));

    // Its first container is the one whose end counts, whatever the others do.
    let mut bench = Bench::new([one]);
    bench.make();
    bench.pod_status(json!({"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 1, "message": "bad"}}},
        {"name": "side", "state": {"running": {}}}]}));
    assert_eq!(bench.look().checks[0].detail, "exit code 1: bad");
}

#[test]
fn a_pair_is_one_job_with_a_pod_on_each_node() {
    let mut pair = order("ib-write");
    pair.on = CheckOn::Pair;
    pair.partner = Some(NodeId::new("c1/n2"));
    pair.nodes = vec![NodeId::new("c1/n1"), NodeId::new("c1/n2")];
    let body = Bench::new([pair]).body();
    let spec = &body["spec"];
    assert_eq!((&spec["completions"], &spec["parallelism"]), (&json!(2), &json!(2)));
    assert_eq!(spec["completionMode"], "Indexed");
    assert_eq!((&spec["backoffLimitPerIndex"], &spec["backoffLimit"]), (&json!(0), &json!(2)));
    let affinity = &spec["template"]["spec"]["affinity"];
    let terms = affinity
        .pointer("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
        .unwrap();
    assert_eq!(terms.as_array().unwrap().len(), 2, "terms are alternatives; one can't name two nodes");
    let apart =
        affinity.pointer("/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0").unwrap();
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(apart["labelSelector"]["matchLabels"]["job-name"], name(&body));
    let env = spec["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(env[2], json!({"name": "DRYDOCK_NODES", "value": "n1,n2"}));
    assert_eq!(body["metadata"]["labels"][names::CHECK_GROUP], Value::Null);
}
