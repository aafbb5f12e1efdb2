#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicI64, Ordering};

use http::Method;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::fake::{Fake, Fault};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/drydock";

/// Ten minutes ahead of everybody else.
fn fast() -> Timestamp {
    Timestamp::constant(1_800_000_600, 0)
        + jiff::SignedDuration::from_millis(TICKS.fetch_add(1, Ordering::Relaxed))
}
/// Ten minutes behind.
fn slow() -> Timestamp {
    Timestamp::constant(1_799_999_400, 0)
        + jiff::SignedDuration::from_millis(TICKS.fetch_add(1, Ordering::Relaxed))
}
/// A clock that stands still would make renewals look alike.
static TICKS: AtomicI64 = AtomicI64::new(0);

struct Candidate {
    gate: Gate,
    leads: watch::Receiver<Leadership>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(fake: &Fake, name: &str, wall: fn() -> Timestamp) -> Self {
        let gate = Gate::closed();
        let (elector, leads) = Elector::new(fake.client(), gate.clone(), LeaseOptions::new("ns", name), wall);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async move {
            // A dropped sender means: stop.
            let _ = stopped.await;
        }));
        Self { gate, leads, stop: Some(stop), task }
    }
    fn is_leading(&self) -> bool {
        matches!(*self.leads.borrow(), Leadership::Leading { .. })
    }
    async fn until_leading(&mut self) -> Instant {
        self.leads.wait_for(|l| matches!(l, Leadership::Leading { .. })).await.unwrap();
        Instant::now()
    }
    async fn until_following(&mut self) -> Instant {
        self.leads.wait_for(|l| matches!(l, Leadership::Following { .. })).await.unwrap();
        Instant::now()
    }
    async fn stop(mut self) {
        self.stop.take();
        self.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_whatever_their_clocks_say() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", slow);
    first.until_leading().await;
    let second = Candidate::start(&fake, "b", fast);
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(first.gate.is_open() && first.is_leading());
        assert!(!second.gate.is_open() && !second.is_leading());
    }
    assert_eq!(*second.leads.borrow(), Leadership::Following { holder: Some("a".to_owned()) });
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_replaced_after_it_has_stopped_by_itself() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    let mut second = Candidate::start(&fake, "b", slow);
    tokio::time::sleep(Duration::from_secs(21)).await;
    // Killed: nothing closes its gate but time.
    first.task.abort();
    let died = Instant::now();
    while first.gate.is_open() {
        assert!(!second.gate.is_open(), "two gates are open");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(died.elapsed() <= Duration::from_secs(10));
    let taken = second.until_leading().await;
    assert!(taken.duration_since(died) <= Duration::from_secs(18), "{:?}", taken.duration_since(died));
    assert!(!first.gate.is_open() && second.gate.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_lets_the_next_one_in_at_once() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    let mut second = Candidate::start(&fake, "b", slow);
    tokio::time::sleep(Duration::from_secs(7)).await;
    let (gate, asked) = (first.gate.clone(), Instant::now());
    first.stop().await;
    assert!(!gate.is_open());
    assert!(second.until_leading().await.duration_since(asked) <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_another_begins() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    let begun = Instant::now();
    for _ in 0..20 {
        fake.fault(Method::PUT, LEASE, Fault::Hangs);
    }
    let ended = first.until_following().await;
    assert!(ended.duration_since(begun) <= Duration::from_secs(14), "{:?}", ended.duration_since(begun));
    assert!(!first.gate.is_open());
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_strangers_annotations_do_not_cost_the_lease() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    for round in 0..10 {
        fake.fault(Method::PUT, LEASE, Fault::AnswerLost(500));
        tokio::time::sleep(Duration::from_secs(3)).await;
        fake.meddle(LEASE, |mut lease| {
            lease["metadata"]["annotations"]["touched"] = round.to_string().into();
            Some(lease)
        });
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(first.gate.is_open() && first.is_leading(), "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_that_touches_the_lease_does_not_keep_a_dead_holder_alive() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    let mut second = Candidate::start(&fake, "b", slow);
    tokio::time::sleep(Duration::from_secs(3)).await;
    first.task.abort();
    let touching = fake.clone();
    let toucher = tokio::spawn(async move {
        for round in 0.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            touching.meddle(LEASE, |mut lease| {
                lease["metadata"]["annotations"]["touched"] = u64::to_string(&round).into();
                Some(lease)
            });
        }
    });
    let begun = Instant::now();
    // A touch between look and taking is a conflict, so it may take a few looks.
    assert!(second.until_leading().await.duration_since(begun) <= Duration::from_secs(22));
    toucher.abort();
}

#[tokio::test(start_paused = true)]
async fn a_restored_lease_begins_a_new_term() {
    let fake = Fake::new();
    let mut first = Candidate::start(&fake, "a", fast);
    first.until_leading().await;
    assert_eq!(*first.leads.borrow(), Leadership::Leading { term: 1 });
    let backup = fake.backup();
    tokio::time::sleep(Duration::from_secs(30)).await;
    fake.restore(backup);
    // The own lease is there, but not as it was written last: whatever hangs on it has to be read again.
    first.leads.wait_for(|l| *l == Leadership::Leading { term: 2 }).await.unwrap();
}
