//! The ledger on disk equals the ledger in memory, whatever is committed and wherever the process ends.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use drydock_plan::{
    Command, CommandKind, CommitRef, Epoch, Generation, Ledger, LedgerChange, NodeId, NodeRecord,
    ReleaseQuarantine, RolloutEvent, RolloutId, SkipNote, SkipReason, Target,
};
use drydock_server::store::{
    EVENTS_KEPT, EventKind, KeptSource, NewEvent, Store, StoreError, WorldStore, WorldWrite,
};
use drydock_spec::{PoolName, ReleaseId, ReleaseVector};
use jiff::Timestamp;
use proptest::prelude::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node() -> impl Strategy<Value = NodeId> {
    (0..3_u8, 0..4_u8).prop_map(|(c, n)| NodeId::new(&format!("c{c}/n{n}")))
}

fn release() -> impl Strategy<Value = ReleaseId> {
    (0..4_u8).prop_map(|n| format!("r-0000000{n}").parse().unwrap())
}

fn pool() -> impl Strategy<Value = PoolName> {
    (0..3_u8).prop_map(|n| format!("pool-{n}").parse().unwrap())
}

fn record() -> impl Strategy<Value = NodeRecord> {
    (any::<u64>(), any::<u64>(), release(), proptest::option::of(0..2_000_000_000_i64), any::<u32>())
        .prop_map(|(generation, epoch, release, not_before, incidents)| NodeRecord {
            generation: Generation(generation),
            epoch: Epoch(epoch),
            last_known_good: Some(Target { release: release.clone(), layout: None }),
            not_before: not_before.map(at),
            skipped: Some(SkipNote {
                by: None,
                target: Target { release, layout: Some("l-01234567".parse().unwrap()) },
                reason: SkipReason::ForeignCordon,
                at: at(i64::from(incidents)),
                times: 1,
            }),
            incidents,
            ..NodeRecord::default()
        })
}

fn change() -> impl Strategy<Value = LedgerChange> {
    prop_oneof![
        3 => (node(), record()).prop_map(|(id, record)| LedgerChange::Node(id, Box::new(record))),
        1 => node().prop_map(LedgerChange::ForgetNode),
        1 => Just(LedgerChange::ForgetRollout(RolloutId::new("r"))),
        1 => (0..4_u64).prop_map(LedgerChange::ForgetCommand),
        2 => (pool(), release(), "[ -~äß\n]{0,12}").prop_map(|(pool, release, why)| LedgerChange::Quarantine(
            pool,
            release,
            ReleaseQuarantine { rollout: RolloutId::new("r"), since: at(7), why },
        )),
        1 => (pool(), release()).prop_map(|(pool, release)| LedgerChange::Release(pool, release)),
        1 => release().prop_map(|id| LedgerChange::Remember(id, ReleaseVector(BTreeMap::new()))),
        1 => (0..4_u64, any::<bool>(), node()).prop_map(|(number, done, node)| LedgerChange::Command(number, Command {
            at: at(1),
            by: "ada".to_owned(),
            reason: "because".to_owned(),
            what: CommandKind::Skip { node },
            done,
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_is_there_after_reopening(
        commits in proptest::collection::vec((proptest::collection::vec(change(), 0..6), any::<bool>()), 1..12)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.redb");
        let mut store = Store::open(&path).unwrap();
        let mut model = Ledger::default();
        for (changes, reopen) in commits {
            let revision = store.commit(model.revision, &changes, &[]).unwrap();
            changes.into_iter().for_each(|change| model.apply(change));
            prop_assert_eq!(revision, model.revision);
            if reopen {
                drop(store);
                store = Store::open(&path).unwrap();
            }
            prop_assert_eq!(&*store.ledger(), &model);
        }
        prop_assert_eq!(store.load().unwrap(), model);
    }
}

#[test]
fn the_loser_of_a_race_writes_nothing_and_is_told_where_the_ledger_is() {
    let store = Store::in_memory().unwrap();
    let node = |name: &str| LedgerChange::Node(NodeId::new(name), Box::default());
    assert_eq!(store.commit(0, &[node("c/a"), node("c/b")], &[]).unwrap(), 2);
    let before = store.load().unwrap();
    let event = NewEvent { at: at(1), what: EventKind::SourceWell {} };
    let error = store.commit(0, &[node("c/z")], &[event]).unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: 0, found: 2 }), "{error}");
    assert_eq!(store.load().unwrap(), before);
    assert_eq!(store.events_after(0, 10).unwrap(), []);
    // It re-reads and tries again.
    assert_eq!(store.commit(store.ledger().revision, &[node("c/z")], &[]).unwrap(), 3);
}

#[test]
fn a_process_that_dies_between_two_commits_leaves_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("ledger.redb"), dir.path().join("copy.redb"));
    let store = Store::open(&path).unwrap();
    let change = LedgerChange::Node(NodeId::new("c/a"), Box::default());
    let event = NewEvent { at: at(5), what: EventKind::SourceWell {} };
    store.commit(0, &[change], &[event]).unwrap();
    let left = store.load().unwrap();
    // What another process would find if this one vanished now, without closing anything.
    std::fs::copy(&path, &copy).unwrap();
    let found = Store::open(&copy).unwrap();
    assert_eq!(found.load().unwrap(), left);
    assert_eq!(found.events_after(0, 10).unwrap().len(), 1);
}

#[test]
fn events_are_numbered_once_and_the_oldest_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.redb");
    let event = |n: i64| NewEvent {
        at: at(n),
        what: EventKind::Rollout {
            rollout: RolloutId::new("r"),
            policy: "p".parse().unwrap(),
            event: RolloutEvent::Created { nodes: 1, waves: 2 },
        },
    };
    let events: Vec<_> = (0..i64::try_from(EVENTS_KEPT).unwrap() + 5).map(event).collect();
    let store = Store::open(&path).unwrap();
    let mut live = store.subscribe();
    store.record(&events[..3]).unwrap();
    assert_eq!((1..=3).map(|_| live.try_recv().unwrap().number).collect::<Vec<_>>(), [1, 2, 3]);
    drop(store);
    let store = Store::open(&path).unwrap();
    store.commit(0, &[], &events[3..]).unwrap();
    let oldest = store.events_after(0, 2).unwrap();
    assert_eq!(oldest.iter().map(|event| event.number).collect::<Vec<_>>(), [6, 7]);
    assert_eq!((oldest[0].at, &oldest[0].what), (at(5), &events[5].what));
    let newest = store.events_before(u64::MAX, 2).unwrap();
    assert_eq!(newest.iter().map(|event| event.number).collect::<Vec<_>>(), [10_005, 10_004]);
    assert_eq!(store.ledger().revision, 0, "events are no change of the ledger");
}

#[test]
fn every_kind_of_event_is_read_as_it_was_written() {
    let problem =
        drydock_server::desired::SourceProblem::Rewritten { from: "a".to_owned(), to: "b".to_owned() };
    let by = || ("ada".to_owned(), "because".to_owned());
    let node = NodeId::new("c/n");
    let kinds = [
        EventKind::Rollout {
            rollout: RolloutId::new("r"),
            policy: "p".parse().unwrap(),
            event: RolloutEvent::Skipped { node: node.clone(), why: "w".to_owned() },
        },
        EventKind::Node {
            node: node.clone(),
            rollout: None,
            from: "idle".to_owned(),
            to: "cordon".to_owned(),
        },
        EventKind::Command { command: 7, by: by().0, reason: by().1, what: CommandKind::Skip { node } },
        EventKind::Adopted { commit: "c".to_owned(), summary: "s".to_owned() },
        EventKind::SourceProblem { problem },
        EventKind::SourceWell {},
        EventKind::Violation { what: vec!["v".to_owned()] },
    ];
    let store = Store::in_memory().unwrap();
    let events: Vec<_> = kinds.iter().map(|what| NewEvent { at: at(1), what: what.clone() }).collect();
    store.record(&events).unwrap();
    let read: Vec<_> = store.events_after(0, 100).unwrap().into_iter().map(|event| event.what).collect();
    assert_eq!(read, kinds);
}

#[test]
fn a_file_of_a_newer_program_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.redb");
    drop(Store::open(&path).unwrap());
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    let database = redb::Database::open(&path).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(table).unwrap().insert("oldestReader", 99).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = Store::open(&path).err().unwrap();
    assert!(matches!(error, StoreError::TooNew { needs: 99, .. }), "{error}");
}

#[test]
fn the_last_good_commit_is_replaced_whole() {
    let store = Store::in_memory().unwrap();
    assert_eq!(store.kept_source().unwrap(), None);
    let kept = |id: &str, files: &[&str]| KeptSource {
        commit: CommitRef {
            id: id.to_owned(),
            summary: String::new(),
            author: "ada".to_owned(),
            time: at(1),
        },
        files: files.iter().map(|path| ((*path).to_owned(), vec![0xff, 0, b'x'])).collect(),
    };
    for kept in [kept("one", &["a.yaml", "b/c.yaml"]), kept("two", &["z.yaml"])] {
        store.keep_source(&kept, &[]).unwrap();
        assert_eq!(store.kept_source().unwrap(), Some(kept));
    }
}

#[test]
fn the_world_is_saved_all_or_nothing_and_listed_by_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.redb");
    let store = WorldStore::open(&path).unwrap();
    let mut write = WorldWrite::default();
    write.put("node/a", &1).unwrap();
    write.put("node/b", &2).unwrap();
    write.put("nodes", &3).unwrap();
    store.save(&write).unwrap();
    let mut write = WorldWrite::default();
    write.remove("node/a");
    write.put("node/c", &4).unwrap();
    store.save(&write).unwrap();
    drop(store);
    let store = WorldStore::open(&path).unwrap();
    assert_eq!(store.list::<u32>("node/").unwrap(), [("b".to_owned(), 2), ("c".to_owned(), 4)]);
    assert_eq!((store.get("nodes").unwrap(), store.get::<u32>("node/a").unwrap()), (Some(3), None));
}
