//! The ledger in a real API server: commits, races, a restored etcd, the lease, and the objects that are published.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::LONG;
use drydock_api::crd::definitions;
use drydock_bed::{Plane, PlaneOptions, Tools, User, eventually};
use drydock_cluster::client::{Caller, Gate, Kind, Patch};
use drydock_cluster::clock::wall;
use drydock_cluster::lease::{Elector, Leadership, LeaseOptions};
use drydock_cluster::ledger::{Home, LedgerError, gather, rebuild, stride};
use drydock_cluster::publish::{Callers, Facts, Publisher, Words};
use drydock_plan::{
    Assignment, CommitRef, Inventory, Ledger, LedgerChange, NewRollout, NodeId, NodeQuarantine, NodeRecord,
    ObservedNode, PlanReport, ReleaseVector, RolloutId, RolloutKind, RolloutRecord, RolloutState, Stack,
    Target,
};
use drydock_server::store::{KubernetesOptions, KubernetesStore, LedgerStore, StoreError};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::tests;

tests![
    commits_are_read_back_through_journal_and_pages,
    of_two_that_race_exactly_one_wins_each_revision,
    a_restored_etcd_is_noticed_and_waits_for_a_person,
    the_lease_changes_hands_at_once_when_it_is_let_go,
    records_are_published_printed_and_made_into_a_ledger_again,
    what_does_not_fit_the_definitions_is_refused,
];

const NS: &str = "drydock-system";

async fn plane() -> Plane {
    let tools = Tools::find().unwrap();
    let plane = Plane::start(PlaneOptions::new(tools)).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}});
    caller(&plane).create::<Value>(&Kind::NAMESPACE.all(None), &namespace).await.unwrap();
    plane
}

fn caller(plane: &Plane) -> Caller {
    Caller::over(plane.client(User::Admin).unwrap(), Gate::always())
}

fn change(node: &str, incidents: u32) -> LedgerChange {
    LedgerChange::Node(NodeId::new(node), Box::new(NodeRecord { incidents, ..NodeRecord::default() }))
}

/// A change whose text hardly compresses.
fn bulky(node: u32, seed: &mut u64) -> LedgerChange {
    let mut text = String::new();
    for _ in 0..2000 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", *seed));
    }
    let quarantine = NodeQuarantine {
        rollout: RolloutId::new(&text),
        since: Timestamp::UNIX_EPOCH,
        blame: drydock_plan::Blame::Node,
        evidence: Vec::new(),
        retry: None,
    };
    let record = NodeRecord { quarantine: Some(quarantine), ..NodeRecord::default() };
    LedgerChange::Node(NodeId::new(&format!("c/n{node}")), Box::new(record))
}

async fn commit(
    home: &Home,
    at: &mut (drydock_cluster::ledger::Place, Ledger),
    changes: &[LedgerChange],
) -> Result<(), LedgerError> {
    let mut after = at.1.clone();
    changes.iter().cloned().for_each(|change| after.apply(change));
    at.0 = home.commit(&at.0, changes, &after).await?;
    at.1 = after;
    Ok(())
}

async fn commits_are_read_back_through_journal_and_pages() {
    let plane = plane().await;
    let home = Home::new(caller(&plane), NS, "a");
    let mut at = (home.create(&Ledger::default(), "line").await.unwrap(), Ledger::default());
    let (mut seed, mut compactions, mut base) = (3, 0, 0);
    let begun = Instant::now();
    for n in 0..80 {
        let before = home.caller().calls();
        commit(&home, &mut at, &[bulky(n % 40, &mut seed)]).await.unwrap();
        if at.0.head.base == base {
            assert_eq!(home.caller().calls() - before, 1, "a commit is one request");
        } else {
            (compactions, base) = (compactions + 1, at.0.head.base);
        }
    }
    println!("80 commits of 32 KB, {compactions} times written as pages: {:?}", begun.elapsed());
    assert!(compactions >= 2, "{compactions}");
    assert_eq!(home.load().await.unwrap().unwrap(), at);
    // Old pages are gone; pages can't be changed by mistake.
    let all = Kind::CONFIG_MAP.all(Some(NS));
    let found: Vec<Value> = home.caller().list(&all).await.unwrap();
    let pages: Vec<&Value> = found
        .iter()
        .filter(|map| map["metadata"]["labels"]["drydock.dev/page-of"] == "drydock-ledger")
        .collect();
    assert_eq!(pages.len(), at.0.head.pages.len());
    let uri = Kind::CONFIG_MAP.one(Some(NS), &at.0.head.pages[0].name);
    let meddled =
        home.caller().patch::<Value>(&uri, Patch::Merge, &json!({"binaryData": {"page": "aGk="}})).await;
    assert_eq!(meddled.unwrap_err().status().unwrap().as_u16(), 422);
}

async fn of_two_that_race_exactly_one_wins_each_revision() {
    let plane = plane().await;
    let (a, b) = (Arc::new(Home::new(caller(&plane), NS, "a")), Arc::new(Home::new(caller(&plane), NS, "b")));
    let empty = Ledger::default();
    let (made, same) = tokio::join!(a.create(&empty, "x"), b.create(&empty, "y"));
    assert_ne!(made.is_ok(), same.is_ok(), "one ledger was made");
    for round in 0..40 {
        let (mut of_a, mut of_b) = (a.load().await.unwrap().unwrap(), b.load().await.unwrap().unwrap());
        assert_eq!(of_a.1, of_b.1);
        let (change_a, change_b) = ([change("c/a", round)], [change("c/b", round)]);
        let (won_a, won_b) = tokio::join!(commit(&a, &mut of_a, &change_a), commit(&b, &mut of_b, &change_b));
        assert_ne!(won_a.is_ok(), won_b.is_ok(), "{won_a:?} {won_b:?}");
        let lost = won_a.and(won_b).unwrap_err();
        assert_eq!(lost, LedgerError::Conflict);
    }
    assert_eq!(a.load().await.unwrap().unwrap().1.revision, 40);
}

async fn a_restored_etcd_is_noticed_and_waits_for_a_person() {
    let plane = plane().await;
    let dir = tempfile::tempdir().unwrap();
    let open = async |accept: bool, holder: &str| {
        let mut options = KubernetesOptions::new(dir.path().join("ledger.redb"), NS);
        (options.holder, options.accept_restored) = (holder.to_owned(), accept);
        Arc::new(KubernetesStore::open(caller(&plane), options).await.unwrap())
    };
    let write = async |store: &Arc<KubernetesStore>, n: u32| {
        let store = Arc::clone(store);
        let write = move || store.commit(store.ledger().revision, &[change("c/n", n)], &[]);
        tokio::task::spawn_blocking(write).await.unwrap()
    };
    let store = open(false, "a").await;
    write(&store, 1).await.unwrap();
    let snapshot = plane.snapshot_etcd().unwrap();
    write(&store, 2).await.unwrap();
    plane.restore_etcd(&snapshot).await.unwrap();
    let noticed =
        |error: &StoreError| matches!(error, StoreError::WentBack { known: 2, found: 1, another: false });
    let found = eventually("it is noticed", LONG, || async {
        let error = write(&store, 3).await.unwrap_err();
        Ok(if noticed(&error) { Ok(()) } else { Err(error.to_string()) })
    });
    found.await.unwrap();
    drop(store);
    let store = open(false, "b").await;
    assert!(noticed(&write(&store, 3).await.unwrap_err()), "also after a restart");
    drop(store);
    let store = open(true, "c").await;
    assert_eq!(write(&store, 3).await.unwrap(), 4);
}

async fn the_lease_changes_hands_at_once_when_it_is_let_go() {
    let plane = plane().await;
    let start = |name: &str| {
        let gate = Gate::closed();
        let client = plane.client(User::Admin).unwrap();
        let (elector, leads) = Elector::new(client, gate.clone(), LeaseOptions::new(NS, name), wall);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async move {
            let _ = stopped.await;
        }));
        (gate, leads, stop, task)
    };
    let leading = |l: &Leadership| matches!(l, Leadership::Leading { .. });
    let (gate_a, mut leads_a, stop_a, task_a) = start("a");
    tokio::time::timeout(LONG, leads_a.wait_for(leading)).await.unwrap().unwrap();
    let (gate_b, mut leads_b, _stop_b, _task_b) = start("b");
    let follows = |l: &Leadership| *l == Leadership::Following { holder: Some("a".to_owned()) };
    tokio::time::timeout(LONG, leads_b.wait_for(follows)).await.unwrap().unwrap();
    assert!(gate_a.is_open() && !gate_b.is_open());
    let begun = Instant::now();
    drop(stop_a);
    task_a.await.unwrap();
    assert!(!gate_a.is_open());
    tokio::time::timeout(LONG, leads_b.wait_for(leading)).await.unwrap().unwrap();
    println!("another leads after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(15), "before the lease had run out");
    assert!(gate_b.is_open());
}

fn target(version: &str) -> Target {
    Target { release: release(version).id(), layout: None }
}

fn release(version: &str) -> ReleaseVector {
    serde_json::from_value(json!({ "gpu-driver": { "version": version } })).unwrap()
}

/// Three nodes: one in flight, one that soaks, one that only stands in the list.
fn scene() -> (Ledger, Inventory) {
    let (mut ledger, mut inventory) = (Ledger::default(), Inventory::default());
    for version in ["1", "2"] {
        ledger.apply(LedgerChange::Remember(release(version).id(), release(version)));
    }
    let id = RolloutId::new("h100-abc");
    let visit = json!({
        "rollout": id, "since": "2027-01-15T08:00:00Z", "unit": "n0", "atomic": false, "from": target("1"),
        "to": target("2"), "course": "Forward", "step": "Drain", "step_since": "2027-01-15T08:00:00Z",
        "deadline": "2027-01-15T09:00:00Z", "attempt": 1, "boot_id": 1, "arrived": false, "passes": 0,
        "drained": false, "foreign_cordon": false, "evidence": [], "inconclusive": 0
    });
    let soak = json!({
        "rollout": id, "target": target("2"), "from": target("1"), "since": "2027-01-15T08:00:00Z",
        "jobs_at_start": 0
    });
    for n in 0..3 {
        let part = Assignment::new(id.clone(), "h100".parse().unwrap(), 0, target("2"));
        let mut record = NodeRecord { assignment: Some(part), ..NodeRecord::default() };
        match n {
            0 => record.visit = Some(serde_json::from_value(visit.clone()).unwrap()),
            1 => record.soak = Some(serde_json::from_value(soak.clone()).unwrap()),
            _ => {}
        }
        let node = NodeId::new(&format!("c01/n{n}"));
        ledger.apply(LedgerChange::Node(node.clone(), Box::new(record)));
        inventory.nodes.insert(node, observed(if n == 1 { "2" } else { "1" }));
    }
    let strategy = json!({"select": {"pools": ["h100"]}, "checks": "smoke", "waves": [{"name": "all"}]});
    let suite = json!({"checks": [{"name": "vector-add", "class": "driver"}]});
    let rollout = RolloutRecord::new(NewRollout {
        id,
        policy: "h100".parse().unwrap(),
        strategy: serde_json::from_value(strategy).unwrap(),
        suite: serde_json::from_value(suite).unwrap(),
        commit: CommitRef {
            id: "0123abc".to_owned(),
            summary: "driver 2".to_owned(),
            author: "ada".to_owned(),
            time: Timestamp::UNIX_EPOCH,
        },
        kind: RolloutKind::Forward,
        targets: BTreeMap::from([("h100".parse().unwrap(), target("2"))]),
        security: false,
        created: Timestamp::UNIX_EPOCH,
    });
    ledger.apply(LedgerChange::Rollout(Box::new(rollout)));
    (ledger, inventory)
}

fn observed(version: &str) -> ObservedNode {
    let value = json!({
        "pool": "h100", "labels": {}, "domains": [null, null, null, null], "gpus": 8, "kernel": "6.8",
        "boot_id": 1, "ready": true, "ready_since": "2027-01-15T08:00:00Z", "cordon": {"own": null, "foreign": null},
        "running": Stack::new(release(version)), "layout": null,
        "work": {"gpu_pods": 0, "gangs": [], "jobs_passed": 0}, "faults": [], "report": null
    });
    serde_json::from_value(value).unwrap()
}

/// What kubectl prints, without kubectl.
async fn table(plane: &Plane, uri: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let request = http::Request::get(uri).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table: Value =
        plane.client(User::Admin).unwrap().request(request.body(Vec::new()).unwrap()).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let rows = table["rows"].as_array().unwrap().iter();
    (
        names.map(|column| column["name"].as_str().unwrap().to_owned()).collect(),
        rows.map(|row| row["cells"].as_array().unwrap().clone()).collect(),
    )
}

async fn install(caller: &Caller) {
    for definition in definitions() {
        let uri = Kind::DEFINITION.one(None, definition.metadata.name.as_deref().unwrap());
        caller.patch::<Value>(&uri, Patch::Apply { force: true }, &definition).await.unwrap();
        eventually("it is served and without complaint", LONG, || async {
            let found: Value = caller.get(&uri).await?;
            let all = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |kind: &str| all.iter().any(|c| c["type"] == kind && c["status"] == "True");
            // A schema that isn't structural is kept, and nothing of it is checked.
            if !is("Established") || is("NonStructuralSchema") {
                return Ok(Err(format!("{all:?}")));
            }
            // Established isn't served: for a moment the server answers that its storage begins.
            let spec = &definition.spec;
            let uri = format!("/apis/{}/{}/{}", spec.group, spec.versions[0].name, spec.names.plural);
            caller.get::<Value>(&uri).await?;
            Ok(Ok(()))
        })
        .await
        .unwrap();
    }
}

async fn records_are_published_printed_and_made_into_a_ledger_again() {
    let plane = plane().await;
    let caller = caller(&plane);
    let of_cluster = caller.clone();
    let callers: Callers = Arc::new(move |_| Some(of_cluster.clone()));
    let words: Words = Arc::new(|reason| reason.word().to_owned());
    let publisher = Publisher::new(caller.clone(), NS, callers, words);
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(publisher.clone().run(async move {
        let _ = stopped.await;
    }));
    let (mut ledger, inventory) = scene();
    let facts = |ledger: &Ledger| Facts {
        now: wall(),
        ledger: Arc::new(ledger.clone()),
        inventory: Arc::new(inventory.clone()),
        report: Arc::new(PlanReport::default()),
    };
    publisher.submit(facts(&ledger));
    eventually("that the definitions are missing is told", LONG, || async {
        let troubles = publisher.troubles();
        Ok(if troubles.len() == 2 { Ok(()) } else { Err(format!("{troubles:?}")) })
    })
    .await
    .unwrap();
    drop(stop);
    install(&caller).await;

    let of_cluster = caller.clone();
    let callers: Callers = Arc::new(move |_| Some(of_cluster.clone()));
    let publisher = Publisher::new(caller.clone(), NS, callers, Arc::new(|reason| reason.word().to_owned()));
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(publisher.clone().run(async move {
        let _ = stopped.await;
    }));
    publisher.submit(facts(&ledger));
    let nodes = Kind::GPU_NODE.all(None);
    let rollouts = Kind::ROLLOUT.all(Some(NS));
    eventually("all is published", LONG, || async {
        let (gpu_nodes, runs) = (table(&plane, &nodes).await.1, table(&plane, &rollouts).await.1);
        let state = runs.first().map(|row| row[2].clone());
        let done = gpu_nodes.len() == 2 && gpu_nodes[1][6] == "True" && state == Some(json!("Running"));
        Ok(if done { Ok(()) } else { Err(format!("{gpu_nodes:?} {runs:?} {:?}", publisher.standing())) })
    })
    .await
    .unwrap();
    let (columns, rows) = table(&plane, &nodes).await;
    assert_eq!(columns, ["Name", "POOL", "ROLLOUT", "STEP", "RELEASE", "TARGET", "READY", "AGE"]);
    assert_eq!(rows[0][1..4], [json!("h100"), json!("h100-abc"), json!("drain")]);
    assert_eq!(rows[0][4..7], [Value::Null, json!(target("2").release), Value::Null]);
    assert_eq!(
        rows[1][3..7],
        [Value::Null, json!(target("2").release), json!(target("2").release), json!("True")]
    );
    let (columns, rows) = table(&plane, &rollouts).await;
    assert_eq!(columns, ["Name", "POLICY", "STATE", "WAVE", "DONE", "EXPOSED", "REASON", "AGE"]);
    assert_eq!(
        rows[0][..6],
        [json!("h100-abc"), json!("h100"), json!("Running"), json!("all"), json!("0/3"), json!(0)]
    );
    // Nobody takes what hasn't been looked at for ready.
    let object: Value = caller.get(&Kind::GPU_NODE.one(None, "n0")).await.unwrap();
    assert_eq!(object["status"], json!({"observedGeneration": -1}));
    let object: Value = caller.get(&Kind::GPU_NODE.one(None, "n1")).await.unwrap();
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    // A record is one field to its owner, or the object would be mostly bookkeeping.
    let owners = object["metadata"]["managedFields"].to_string();
    assert!(owners.contains("f:record") && !owners.contains("f:soak"), "{owners}");

    let mut rollout = RolloutRecord::clone(ledger.rollouts.values().next().unwrap());
    (rollout.state, rollout.ended) = (RolloutState::Succeeded, Some(wall()));
    let writes = caller.calls();
    ledger.apply(LedgerChange::Rollout(Box::new(rollout)));
    ledger.apply(LedgerChange::ForgetNode(NodeId::new("c01/n0")));
    publisher.submit(facts(&ledger));
    eventually("the end is published", LONG, || async {
        let (gpu_nodes, runs) = (table(&plane, &nodes).await.1, table(&plane, &rollouts).await.1);
        let done = gpu_nodes.len() == 1 && runs[0][2] == "Succeeded";
        Ok(if done { Ok(()) } else { Err(format!("{gpu_nodes:?} {runs:?}")) })
    })
    .await
    .unwrap();
    assert_eq!(caller.calls() - writes, 2, "one for the state, one for the node that is gone");

    let (gpu_nodes, runs) = gather(&caller, NS, &[]).await.unwrap();
    let rebuilt = rebuild(&gpu_nodes, &runs).unwrap().unwrap().ledger;
    let mut wanted = ledger.clone();
    wanted.nodes.remove(&NodeId::new("c01/n2"));
    // The rollout is over, so nobody has a part in it.
    wanted.nodes.values_mut().for_each(|node| node.assignment = None);
    stride(&mut wanted);
    assert!(rebuilt.revision > wanted.revision);
    wanted.revision = rebuilt.revision;
    assert_eq!(rebuilt, wanted);
}

async fn what_does_not_fit_the_definitions_is_refused() {
    let plane = plane().await;
    let caller = caller(&plane);
    install(&caller).await;
    let uri = Kind::GPU_NODE.all(None);
    let object = |spec: Value| json!({"apiVersion": "drydock.dev/v1alpha1", "kind": "GpuNode", "metadata": {"generateName": "n"}, "spec": spec});
    let bad = [
        json!({"generation": -1}),
        json!({"pool": "x".repeat(300)}),
        json!({"reservation": {"rollout": "r"}}),
        json!({"target": {"release": 7}}),
    ];
    for spec in bad {
        let refused = caller.create::<Value>(&uri, &object(spec.clone())).await;
        assert_eq!(refused.unwrap_err().status().unwrap().as_u16(), 422, "{spec}");
    }
    caller
        .create::<Value>(&uri, &object(json!({"record": {"anything": [1, {"goes": true}]}})))
        .await
        .unwrap();
}
