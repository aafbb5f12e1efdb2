#![allow(clippy::unwrap_used)]
use std::path::Path;

use drydock_cluster::client::Gate;
use drydock_cluster::fake::{Fake, Fault};
use drydock_plan::{LedgerChange, NodeId, NodeRecord};

use super::*;
use crate::testing::kept;

const HEAD: &str = "/api/v1/namespaces/ns/configmaps/drydock-ledger";

fn change(node: &str, incidents: u32) -> LedgerChange {
    LedgerChange::Node(NodeId::new(node), Box::new(NodeRecord { incidents, ..NodeRecord::default() }))
}

fn options(dir: &Path, holder: &str) -> KubernetesOptions {
    let mut options = KubernetesOptions::new(dir.join("ledger.redb"), "ns");
    options.holder = holder.to_owned();
    options
}

async fn open(fake: &Fake, options: KubernetesOptions) -> Arc<KubernetesStore> {
    let caller = Caller::over(fake.client(), Gate::always());
    Arc::new(KubernetesStore::open(caller, options).await.unwrap())
}

/// As the engine does it: on a thread that may block.
async fn blocking<T: Send + 'static>(
    store: &Arc<KubernetesStore>,
    work: impl FnOnce(&KubernetesStore) -> T + Send + 'static,
) -> T {
    let store = Arc::clone(store);
    tokio::task::spawn_blocking(move || work(&store)).await.unwrap()
}

async fn commit(store: &Arc<KubernetesStore>, changes: Vec<LedgerChange>) -> Result<u64, StoreError> {
    blocking(store, move |store| store.commit(store.ledger().revision, &changes, &[])).await
}

fn notices(store: &KubernetesStore) -> Vec<LedgerNotice> {
    let events = store.events_after(0, 100).unwrap();
    let notices = events.into_iter().filter_map(|event| match event.what {
        EventKind::Ledger { notice } => Some(notice),
        _ => None,
    });
    notices.collect()
}

#[tokio::test]
async fn a_commit_outlives_the_process_and_the_disk() {
    let (fake, dir, other) = (Fake::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&fake, options(dir.path(), "a")).await;
    assert_eq!(commit(&store, vec![change("c/n", 1), change("c/m", 1)]).await.unwrap(), 2);
    let source = kept("abc", vec![("f".to_owned(), vec![1, 2])]);
    let kept_source = source.clone();
    blocking(&store, move |store| store.keep_source(&kept_source, &[])).await.unwrap();
    let ledger = store.ledger();
    drop(store);
    for dir in [dir.path(), other.path()] {
        let store = open(&fake, options(dir, "b")).await;
        assert_eq!(store.ledger(), ledger);
        assert_eq!(store.kept_source().unwrap().unwrap(), source);
        assert_eq!(notices(&store), []);
        assert!(blocking(&store, |store| store.ready()).await.is_ok());
    }
}

#[tokio::test]
async fn the_old_leader_is_shut_out_and_told_by_whom() {
    let (fake, one, two) = (Fake::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = open(&fake, options(one.path(), "old")).await;
    commit(&old, vec![change("c/n", 1)]).await.unwrap();
    let new = open(&fake, options(two.path(), "new")).await;
    commit(&new, vec![change("c/n", 2)]).await.unwrap();
    let refused = commit(&old, vec![change("c/n", 3)]).await;
    assert!(matches!(&refused, Err(StoreError::Fenced { holder }) if holder == "new"), "{refused:?}");
    assert!(matches!(blocking(&old, |store| store.ready()).await, Err(StoreError::Fenced { .. })));
    // It has caught up, so what it shows is true.
    assert_eq!(old.ledger(), new.ledger());
    assert_eq!(commit(&new, vec![change("c/n", 4)]).await.unwrap(), 3);
}

#[tokio::test]
async fn a_closed_gate_decides_nothing() {
    let (fake, dir) = (Fake::new(), tempfile::tempdir().unwrap());
    let gate = Gate::closed();
    let caller = Caller::over(fake.client(), gate.clone());
    let refused = KubernetesStore::open(caller.clone(), options(dir.path(), "a")).await;
    assert!(matches!(refused, Err(StoreError::NotLeading { .. })));
    gate.open_until(tokio::time::Instant::now() + std::time::Duration::from_secs(60));
    let store = Arc::new(KubernetesStore::open(caller, options(dir.path(), "a")).await.unwrap());
    commit(&store, vec![change("c/n", 1)]).await.unwrap();
    gate.close();
    assert!(matches!(commit(&store, vec![change("c/n", 2)]).await, Err(StoreError::NotLeading { .. })));
    assert!(matches!(blocking(&store, |store| store.ready()).await, Err(StoreError::NotLeading { .. })));
}

#[tokio::test]
async fn a_restored_backup_is_noticed_by_a_running_leader_and_after_a_restart() {
    let (fake, dir) = (Fake::new(), tempfile::tempdir().unwrap());
    let store = open(&fake, options(dir.path(), "a")).await;
    commit(&store, vec![change("c/n", 1)]).await.unwrap();
    let backup = fake.backup();
    commit(&store, vec![change("c/n", 2), change("c/m", 1)]).await.unwrap();
    fake.restore(backup);
    let went_back =
        |error: &StoreError| matches!(error, StoreError::WentBack { known: 3, found: 1, another: false });
    let error = commit(&store, vec![change("c/n", 3)]).await.unwrap_err();
    assert!(went_back(&error), "{error}");
    assert!(error.to_string().contains("--accept-restored-ledger"), "{error}");
    assert!(went_back(&blocking(&store, |store| store.ready()).await.unwrap_err()));
    drop(store);
    let writes = fake.writes();
    let store = open(&fake, options(dir.path(), "b")).await;
    assert!(went_back(&blocking(&store, |store| store.ready()).await.unwrap_err()));
    assert!(went_back(&commit(&store, vec![change("c/n", 3)]).await.unwrap_err()));
    assert_eq!(store.ledger().revision, 1, "it is shown");
    assert_eq!(fake.writes(), writes, "and not touched");
    drop(store);
    // A person has looked.
    let accepting = KubernetesOptions { accept_restored: true, ..options(dir.path(), "c") };
    let store = open(&fake, accepting).await;
    assert_eq!(store.ledger().revision, 4);
    assert_eq!(store.ledger().nodes[&NodeId::new("c/n")].epoch.0, 1000, "above what nodes have seen");
    assert!(notices(&store).contains(&LedgerNotice::Accepted { known: 3, found: 1 }));
    commit(&store, vec![change("c/n", 3)]).await.unwrap();
    drop(store);
    let store = open(&fake, options(dir.path(), "d")).await;
    assert_eq!(store.ledger().revision, 5);
    assert!(blocking(&store, |store| store.ready()).await.is_ok());
}

#[tokio::test]
async fn a_deleted_head_is_no_fresh_start() {
    let (fake, dir) = (Fake::new(), tempfile::tempdir().unwrap());
    let store = open(&fake, options(dir.path(), "a")).await;
    commit(&store, vec![change("c/n", 1)]).await.unwrap();
    fake.meddle(HEAD, |_| None);
    let error = commit(&store, vec![change("c/n", 2)]).await.unwrap_err();
    assert!(matches!(error, StoreError::WentBack { known: 1, found: 0, .. }), "{error}");
    drop(store);
    let store = open(&fake, options(dir.path(), "b")).await;
    assert!(matches!(blocking(&store, |store| store.ready()).await, Err(StoreError::WentBack { .. })));
    assert!(fake.object(HEAD).is_none());
    drop(store);
    let accepting = KubernetesOptions { accept_restored: true, ..options(dir.path(), "c") };
    let store = open(&fake, accepting).await;
    assert_eq!(store.ledger().revision, 2, "revisions never go back");
}

#[tokio::test]
async fn another_ledger_in_its_place_is_noticed() {
    let (fake, dir) = (Fake::new(), tempfile::tempdir().unwrap());
    let store = open(&fake, options(dir.path(), "a")).await;
    commit(&store, vec![change("c/n", 1)]).await.unwrap();
    drop(store);
    fake.meddle(HEAD, |_| None);
    let stranger = tempfile::tempdir().unwrap();
    let store = open(&fake, options(stranger.path(), "s")).await;
    for n in 0..9 {
        commit(&store, vec![change("c/n", n)]).await.unwrap();
    }
    let store = open(&fake, options(dir.path(), "b")).await;
    let error = blocking(&store, |store| store.ready()).await.unwrap_err();
    assert!(matches!(error, StoreError::WentBack { known: 1, found: 9, another: true }), "{error}");
}

#[tokio::test]
async fn an_unknown_outcome_is_looked_at_before_the_next_decision() {
    let (fake, dir) = (Fake::new(), tempfile::tempdir().unwrap());
    let store = open(&fake, options(dir.path(), "a")).await;
    commit(&store, vec![change("c/n", 1)]).await.unwrap();
    // Carried out; neither the answer nor the look after it arrives.
    fake.fault(http::Method::PUT, HEAD, Fault::AnswerLost(500));
    fake.fault(http::Method::GET, HEAD, Fault::Refused(500));
    let error = commit(&store, vec![change("c/n", 2)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Home(LedgerError::Unsettled(_))), "{error}");
    assert_eq!(store.ledger().revision, 1);
    fake.fault(http::Method::GET, HEAD, Fault::Refused(500));
    assert!(blocking(&store, |store| store.ready()).await.is_err(), "still nobody knows");
    assert!(blocking(&store, |store| store.ready()).await.is_ok());
    assert_eq!(store.ledger().revision, 2);
    assert_eq!(commit(&store, vec![change("c/n", 3)]).await.unwrap(), 3);
}
