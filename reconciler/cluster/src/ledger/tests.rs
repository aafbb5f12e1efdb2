#![allow(clippy::unwrap_used)]
use std::time::Duration;

use drydock_plan::{CommitRef, Ledger, LedgerChange, NodeId, NodeRecord};
use http::Method;
use jiff::Timestamp;

use super::*;
use crate::client::{Caller, Gate};
use crate::fake::{Fake, Fault};

const HEAD: &str = "/api/v1/namespaces/ns/configmaps/drydock-ledger";

fn home(fake: &Fake, holder: &str) -> Home {
    Home::new(Caller::over(fake.client(), Gate::always()), "ns", holder)
}

fn change(node: &str, incidents: u32) -> LedgerChange {
    LedgerChange::Node(NodeId::new(node), Box::new(NodeRecord { incidents, ..NodeRecord::default() }))
}

/// A change whose text hardly compresses.
fn bulky(node: u32, seed: &mut u64) -> LedgerChange {
    let mut text = String::new();
    for _ in 0..400 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", *seed));
    }
    let record = drydock_plan::NodeQuarantine {
        rollout: drydock_plan::RolloutId::new(&text),
        since: Timestamp::UNIX_EPOCH,
        blame: drydock_plan::Blame::Node,
        evidence: Vec::new(),
        retry: None,
    };
    let record = NodeRecord { quarantine: Some(record), ..NodeRecord::default() };
    LedgerChange::Node(NodeId::new(&format!("c/n{node}")), Box::new(record))
}

async fn begun(home: &Home) -> (Place, Ledger) {
    let ledger = Ledger::default();
    (home.create(&ledger, "line").await.unwrap(), ledger)
}

async fn commit(home: &Home, at: &mut (Place, Ledger), changes: &[LedgerChange]) -> Result<(), LedgerError> {
    let mut after = at.1.clone();
    changes.iter().cloned().for_each(|change| after.apply(change));
    at.0 = home.commit(&at.0, changes, &after).await?;
    at.1 = after;
    Ok(())
}

#[tokio::test]
async fn a_commit_is_one_request_and_is_read_back() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    assert_eq!(home.load().await.unwrap(), None);
    let mut at = begun(&home).await;
    let before = fake.calls().len();
    for n in 0..5 {
        commit(&home, &mut at, &[change("c/n1", n), change("c/n2", n)]).await.unwrap();
    }
    assert_eq!(fake.calls().len() - before, 5);
    let (place, ledger) = home.load().await.unwrap().unwrap();
    assert_eq!((place, ledger.revision), (at.0, 10));
    assert_eq!(ledger, at.1);
}

#[tokio::test]
async fn of_two_writers_one_wins_and_the_other_is_told() {
    let fake = Fake::new();
    let (a, b) = (home(&fake, "a"), home(&fake, "b"));
    let mut of_a = begun(&a).await;
    let mut of_b = b.load().await.unwrap().unwrap();
    commit(&a, &mut of_a, &[change("c/n", 1)]).await.unwrap();
    let lost = commit(&b, &mut of_b, &[change("c/n", 2)]).await;
    assert_eq!(lost, Err(LedgerError::Conflict));
    assert_eq!(a.load().await.unwrap().unwrap().1, of_a.1);
}

#[tokio::test]
async fn whoever_takes_over_shuts_the_other_out() {
    let fake = Fake::new();
    let (a, b) = (home(&fake, "a"), home(&fake, "b"));
    let mut of_a = begun(&a).await;
    let (place, _) = b.load().await.unwrap().unwrap();
    let taken = b.take(&place).await.unwrap();
    assert_eq!((taken.head.holder.as_str(), taken.head.revision), ("b", 0));
    assert_eq!(commit(&a, &mut of_a, &[change("c/n", 1)]).await, Err(LedgerError::Conflict));
    assert_eq!(a.head().await.unwrap().unwrap().head.holder, "b");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_settled_by_looking() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    let mut at = begun(&home).await;
    // Carried out, whatever the answer says.
    for fault in [Fault::AnswerLost(500), Fault::AnswerHangs, Fault::AnswerLost(409)] {
        fake.fault(Method::PUT, HEAD, fault);
        commit(&home, &mut at, &[change("c/n", 1)]).await.unwrap();
        assert_eq!(home.load().await.unwrap().unwrap().1, at.1, "{fault:?}");
    }
    // Not carried out: it is tried once more.
    for fault in [Fault::Refused(500), Fault::Hangs, Fault::Refused(504)] {
        fake.fault(Method::PUT, HEAD, fault);
        commit(&home, &mut at, &[change("c/n", 2)]).await.unwrap();
        assert_eq!(home.load().await.unwrap().unwrap().1, at.1, "{fault:?}");
    }
    assert_eq!(at.1.revision, 6);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_late_is_found_as_the_own_or_as_a_conflict() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    let mut at = begun(&home).await;
    // Longer than the patience with the call: the second try comes first, the late one is then refused.
    fake.fault(Method::PUT, HEAD, Fault::Late(Duration::from_secs(20)));
    commit(&home, &mut at, &[change("c/n", 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(home.load().await.unwrap().unwrap(), at);
    // Both tries get no answer; it isn't claimed to be committed or not, and the next commit finds out.
    fake.fault(Method::PUT, HEAD, Fault::Late(Duration::from_secs(60)));
    fake.fault(Method::PUT, HEAD, Fault::Hangs);
    let unsettled = commit(&home, &mut at, &[change("c/n", 2)]).await.unwrap_err();
    assert!(matches!(unsettled, LedgerError::Unsettled(_)), "{unsettled}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(commit(&home, &mut at, &[change("c/n", 2)]).await, Err(LedgerError::Conflict));
    assert_eq!(home.load().await.unwrap().unwrap().1.revision, 2);
}

#[tokio::test]
async fn a_long_journal_becomes_pages_and_old_pages_go() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    let mut at = begun(&home).await;
    let mut seed = 7;
    let pages = |fake: &Fake| fake.backup().keys().filter(|path| path.contains("drydock-ledger-")).count();
    let (mut compactions, mut before) = (0, at.0.head.base);
    for n in 0..300 {
        commit(&home, &mut at, &[bulky(n % 150, &mut seed)]).await.unwrap();
        assert!(at.0.journal_bytes() <= MAX_JOURNAL);
        if at.0.head.base != before {
            (compactions, before) = (compactions + 1, at.0.head.base);
            assert_eq!(at.0.journal_bytes(), 0);
            assert_eq!(pages(&fake), at.0.head.pages.len(), "only the pages in use are left");
        }
    }
    assert!(compactions >= 2, "{compactions}");
    assert!(!at.0.head.pages.is_empty());
    assert_eq!(home.load().await.unwrap().unwrap(), at);
    let page = fake.object(&format!("/api/v1/namespaces/ns/configmaps/{}", at.0.head.pages[0].name)).unwrap();
    assert_eq!(page["immutable"], true);
    assert_eq!(page["metadata"]["labels"]["drydock.dev/page-of"], "drydock-ledger");
}

#[tokio::test]
async fn one_commit_larger_than_the_journal_is_pages_at_once() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    let mut at = begun(&home).await;
    let mut seed = 11;
    let changes: Vec<_> = (0..400).map(|n| bulky(n, &mut seed)).collect();
    commit(&home, &mut at, &changes).await.unwrap();
    assert!(at.0.head.pages.len() > 1 && at.0.journal_bytes() == 0);
    assert_eq!(home.load().await.unwrap().unwrap(), at);
}

#[tokio::test]
async fn a_lost_race_while_pages_are_written_leaves_the_winners_pages_alone() {
    let fake = Fake::new();
    let (a, b) = (home(&fake, "a"), home(&fake, "b"));
    let mut of_a = begun(&a).await;
    let mut of_b = b.load().await.unwrap().unwrap();
    let mut seed = 13;
    let changes: Vec<_> = (0..400).map(|n| bulky(n, &mut seed)).collect();
    commit(&b, &mut of_b, &changes).await.unwrap();
    let others: Vec<_> = (0..400).map(|n| bulky(n, &mut seed)).collect();
    assert_eq!(commit(&a, &mut of_a, &others).await, Err(LedgerError::Conflict));
    assert_eq!(b.load().await.unwrap().unwrap(), of_b);
    // What the loser left behind goes with the winner's next compaction.
    let after = {
        let mut after = of_b.1.clone();
        after.apply(change("c/n", 1));
        after
    };
    let place = b.compact(&of_b.0, &after).await.unwrap();
    let left = fake.backup().keys().filter(|path| path.contains("drydock-ledger-")).count();
    assert_eq!(left, place.head.pages.len());
}

#[tokio::test]
async fn what_is_missing_or_damaged_is_an_error_and_never_empty() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    let mut at = begun(&home).await;
    commit(&home, &mut at, &[change("c/n", 1)]).await.unwrap();
    let place = home.compact(&at.0, &at.1).await.unwrap();
    let page = format!("/api/v1/namespaces/ns/configmaps/{}", place.head.pages[0].name);
    let whole = fake.backup();
    fake.meddle(&page, |mut page| {
        page["binaryData"]["page"] = "aGVsbG8=".into();
        Some(page)
    });
    assert!(matches!(home.load().await, Err(LedgerError::Damaged { .. })));
    fake.meddle(&page, |_| None);
    assert!(matches!(home.load().await, Err(LedgerError::MissingPage { .. })));
    fake.restore(whole.clone());
    fake.meddle(HEAD, |mut head| {
        let text = head["data"]["head"].as_str().unwrap().replace("\"revision\":1", "\"revision\":7");
        head["data"]["head"] = text.into();
        Some(head)
    });
    assert!(matches!(home.load().await, Err(LedgerError::Damaged { .. })));
    fake.restore(whole);
    fake.meddle(HEAD, |mut head| {
        let text = head["data"]["head"].as_str().unwrap().replace("\"oldestReader\":1", "\"oldestReader\":9");
        head["data"]["head"] = text.into();
        Some(head)
    });
    assert!(matches!(home.load().await, Err(LedgerError::TooNew { needs: 9, .. })));
    fake.fault(Method::GET, HEAD, Fault::Refused(500));
    assert!(matches!(home.load().await, Err(LedgerError::Call { .. })));
}

#[tokio::test]
async fn a_closed_gate_writes_nothing() {
    let fake = Fake::new();
    let mut at = begun(&home(&fake, "a")).await;
    let closed = Home::new(Caller::over(fake.client(), Gate::closed()), "ns", "b");
    let before = fake.writes();
    let refused = commit(&closed, &mut at, &[change("c/n", 1)]).await.unwrap_err();
    assert!(refused.is_not_leading());
    assert!(closed.take(&at.0).await.unwrap_err().is_not_leading());
    assert_eq!(fake.writes(), before);
}

#[tokio::test]
async fn the_last_good_commit_is_kept() {
    let fake = Fake::new();
    let home = home(&fake, "a");
    assert_eq!(home.kept().await.unwrap(), None);
    for n in 0..3_u8 {
        let commit = CommitRef {
            id: format!("{n}"),
            summary: "s".to_owned(),
            author: "a".to_owned(),
            time: Timestamp::UNIX_EPOCH,
        };
        let kept = Kept {
            commit,
            files: vec![("pools/a.yaml".to_owned(), vec![n, 0, 255]), ("b".to_owned(), vec![])],
        };
        home.keep(&kept).await.unwrap();
        assert_eq!(home.kept().await.unwrap().unwrap(), kept);
        assert_eq!(fake.backup().keys().filter(|path| path.contains("drydock-source-")).count(), 1);
    }
}
