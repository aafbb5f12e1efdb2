//! What it costs to compare everything that drydock keeps in a cluster with what the documents say, from the watch cache.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use drydock_cluster::delivery;
use drydock_cluster::ensure::keep::{Kept as Found, Rounds, keep};
use drydock_cluster::ensure::{Request, Settings};
use drydock_cluster::objects::{DaemonSetObject, NodeObject};
use drydock_cluster::watch::{Kept, State};
use drydock_spec::{ComponentVersion, Fleet, SourceFile, load};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Every node of a large cluster has a version of its own: nobody has that, so it is the worst that can be.
const NODES: usize = 1_000;

/// A driver's template with what such templates have: two containers, environment, mounts, probes, tolerations.
const FLEET: &str = r#"
apiVersion: drydock.dev/v1alpha1
kind: Fleet
metadata: {name: bench}
spec: {}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: driver}
spec:
  class: gpuDriver
  delivery:
    daemonSet:
      namespace: gpu
      name: driver
      image: reg/driver
      template:
        spec:
          hostPID: true
          tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
          volumes:
            - {name: run, hostPath: {path: /run/nvidia, type: DirectoryOrCreate}}
            - {name: log, hostPath: {path: /var/log}}
            - {name: dev, hostPath: {path: /dev}}
          containers:
            - name: driver
              securityContext: {privileged: true}
              env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: C, value: "3"}, {name: D, value: "4"}]
              volumeMounts: [{name: run, mountPath: /run/nvidia}, {name: log, mountPath: /var/log}, {name: dev, mountPath: /dev}]
              startupProbe: {exec: {command: [sh, -c, nvidia-smi]}, periodSeconds: 10, failureThreshold: 120}
            - name: peermem
              image: reg/peermem:1
              env: [{name: A, value: "1"}]
              volumeMounts: [{name: run, mountPath: /run/nvidia}]
"#;

fn version(number: usize) -> ComponentVersion {
    serde_json::from_value(json!(format!("580.{number}.1"))).unwrap()
}

fn found(state: &State, fleet: &Fleet) -> Found {
    let (settings, mut rounds) = (Settings::default(), Rounds::default());
    let now = Timestamp::constant(1_800_000_000, 0);
    keep(&state.objects, fleet, &settings, [], &mut rounds, now)
}

/// A cluster with a node and a DaemonSet for each version, as the API server shows them.
fn cluster(fleet: &Fleet) -> State {
    let mut state = State::default();
    let key = delivery::label_key(&"driver".parse().unwrap());
    for number in 0..NODES {
        let node = json!({"metadata": {"name": format!("n{number:04}"),
            "labels": {"kubernetes.io/os": "linux", key.as_str(): delivery::slug(&version(number))}}});
        serde_json::from_value::<NodeObject>(node).unwrap().put(&mut state);
        let name = delivery::object_name("driver", &version(number));
        let bare = json!({
            "metadata": {"name": name, "namespace": "gpu",
                "labels": {"app.kubernetes.io/managed-by": "drydock", "drydock.dev/component": "driver"},
                "annotations": {"drydock.dev/version": delivery::exact(&version(number))}},
            "spec": {"template": {}},
        });
        serde_json::from_value::<DaemonSetObject>(bare).unwrap().put(&mut state);
    }
    // What it would make of them is what stands there from now on.
    for call in found(&state, fleet).calls {
        let Request::Patch { mut body, .. } = call.request else { panic!("{call:?}") };
        let spec = body.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut).unwrap();
        for (field, value) in [
            ("dnsPolicy", "ClusterFirst"),
            ("restartPolicy", "Always"),
            ("schedulerName", "default-scheduler"),
        ] {
            spec.insert(field.to_owned(), json!(value));
        }
        serde_json::from_value::<DaemonSetObject>(body).unwrap().put(&mut state);
    }
    state
}

fn drift(c: &mut Criterion) {
    let files = [SourceFile { path: "fleet.yaml".to_owned(), bytes: FLEET.as_bytes().to_vec() }];
    let fleet = load(&files).fleet.unwrap();
    let state = cluster(&fleet);
    assert_eq!(found(&state, &fleet), Found::default(), "nothing has drifted");
    let mut group = c.benchmark_group("drift");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Elements(NODES as u64));
    group.bench_function("1000-objects", |b| b.iter(|| found(black_box(&state), &fleet)));
    group.finish();
}

criterion_group!(benches, drift);
criterion_main!(benches);
