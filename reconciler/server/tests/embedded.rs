//! The whole of it in one process: a commit rolls out, a restart goes on, a bad commit changes nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use drydock_server::embedded::{Embedded, EmbeddedError};
use drydock_server::lock::LockError;
use drydock_server::view::{Health, Sync};
use support::{NEW, OLD, Place, states, until, until_problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_rolls_out_and_the_last_good_one_outlives_the_repository() {
    let place = Place::new();
    let drydock = Embedded::start(place.options()).await.unwrap();
    until(&drydock, |facts| facts.overview().fleet.sync == Sync::Synced).await;
    let commit = place.move_to(NEW);
    drydock.source().wake();
    until(&drydock, |facts| states(facts) == ["Succeeded"]).await;
    until(&drydock, |facts| {
        let fleet = &facts.overview().fleet;
        fleet.commit.id == commit && fleet.sync == Sync::Synced && fleet.health == Health::Healthy
    })
    .await;
    let summary = drydock.stop().await.unwrap();
    assert_eq!((summary.oracle.findings.as_slice(), summary.violations), ([].as_slice(), 0));
    assert!(summary.oracle.most.nodes <= 2, "the budget is two nodes, {:?} were away", summary.oracle.most);
    assert!(!place.has(&place.directory.join("address")));

    std::fs::remove_dir_all(&place.repository).unwrap();
    let drydock = Embedded::start(place.options()).await.unwrap();
    until_problem(&drydock, "unreadable").await;
    until(&drydock, |facts| {
        // The same world, not a new one: it runs what was rolled out.
        facts.commit.id == commit
            && facts.overview().fleet.sync == Sync::Synced
            && states(facts) == ["Succeeded"]
    })
    .await;
    assert!(drydock.summary().at >= summary.at);
    drydock.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_can_not_be_meant_change_nothing() {
    let place = Place::new();
    let drydock = Embedded::start(place.options()).await.unwrap();
    until(&drydock, |facts| facts.overview().fleet.counts.nodes == 6).await;
    let before = drydock.snapshot().borrow().facts.as_ref().unwrap().commit.id.clone();
    place.commit("release.yaml", Some(b"apiVersion: drydock.dev/v1alpha1\nkind: [".to_vec()), "Oops");
    drydock.source().wake();
    // What was in force and can't be read any more isn't removed: the commit is held, whatever else is wrong with it.
    until_problem(&drydock, "incomplete").await;
    place.commit("release.yaml", None, "Gone");
    place.commit("fleet.yaml", None, "All gone");
    drydock.source().wake();
    until_problem(&drydock, "unreadable").await;
    until(&drydock, |facts| facts.commit.id == before && facts.ledger.rollouts.is_empty()).await;
    drydock.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_acts_on_a_directory() {
    let place = Place::new();
    let first = Embedded::start(place.options()).await.unwrap();
    let error = Embedded::start(place.options()).await.err().unwrap();
    let EmbeddedError::Lock(LockError::Held { holder, address, .. }) = &error else { panic!("{error}") };
    assert_eq!(*holder, std::process::id().to_string());
    assert_eq!(address.as_ref().unwrap(), &first.address().unwrap().to_string());
    first.stop().await.unwrap();
    Embedded::start(place.options()).await.unwrap().stop().await.unwrap();
}

/// Ends everything at a random point as a killed process would: nothing is saved, nothing is closed in order.
fn killed_while(place: &Place, step: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let drydock = runtime.block_on(async {
        let drydock = Embedded::start(place.options()).await.unwrap();
        until(&drydock, |facts| facts.overview().fleet.counts.nodes == 6).await;
        place.move_to(NEW);
        drydock.source().wake();
        until(&drydock, |facts| !facts.ledger.rollouts.is_empty()).await;
        // The published state comes late at full speed, so the step is looked for in the stored events.
        let store = std::sync::Arc::clone(drydock.store());
        let mut live = store.subscribe();
        let reached = |event: &drydock_server::store::EventKind| {
            matches!(event, drydock_server::store::EventKind::Node { to, .. } if to == step)
        };
        if !store.events_after(0, 10_000).unwrap().iter().any(|event| reached(&event.what)) {
            while !reached(&live.recv().await.unwrap().what) {}
        }
        drydock
    });
    // A pass that runs ends; nothing else does. Only then the rest of it goes, and asks nobody to stop any more.
    runtime.shutdown_timeout(std::time::Duration::from_secs(10));
    drop(drydock);
}

#[test]
fn a_killed_process_goes_on_where_the_ledger_is() {
    for step in ["cordon", "apply", "verify"] {
        let place = Place::new();
        killed_while(&place, step);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let drydock = Embedded::start(place.options()).await.unwrap();
            until(&drydock, |facts| states(facts) == ["Succeeded"]).await;
            let summary = drydock.stop().await.unwrap();
            assert_eq!(
                (summary.oracle.findings.as_slice(), summary.violations),
                ([].as_slice(), 0),
                "{step}"
            );
            assert!(summary.oracle.most.nodes <= 2, "{step}: {:?}", summary.oracle.most);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_fails_is_taken_back() {
    let place = Place::new();
    let mut options = place.options();
    options.in_memory = true;
    options.world.faults =
        vec![serde_json::from_value(serde_json::json!({
            "badVersion": {"component": "gpu-driver", "version": NEW, "how": {"readyButBroken": {"check": "driver"}}}
        }))
        .unwrap()];
    let drydock = Embedded::start(options).await.unwrap();
    until(&drydock, |facts| facts.overview().fleet.counts.nodes == 6).await;
    place.move_to(NEW);
    drydock.source().wake();
    until(&drydock, |facts| states(facts).contains(&"RolledBack")).await;
    until(&drydock, |facts| {
        let old = |node: &drydock_plan::ObservedNode| node.running.vector.to_string().contains(OLD);
        !facts.ledger.quarantines.is_empty() && facts.inventory.nodes.values().all(old)
    })
    .await;
    let rollouts = drydock.summary().rollouts;
    let halted = rollouts.iter().find(|rollout| rollout.halt.is_some()).unwrap();
    assert!(drydock.wait_for(&halted.id).await.is_some_and(|state| state.is_final()));
    drydock.stop().await.unwrap();
}
