#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use drydock_plan::{Action, Inventory};
use drydock_spec::Fleet;
use jiff::SignedDuration;

use super::*;
use crate::embedded::EmbeddedWorld;
use crate::store::{EventKind, Store, StoreError, WorldStore};
use crate::testing::{documents, kept, read};
use crate::world::WorldError;

const START: jiff::Timestamp = jiff::Timestamp::constant(1_800_000_000, 0);

fn after(seconds: i64) -> jiff::Timestamp {
    START + SignedDuration::from_secs(seconds)
}

/// What a test sees of a world.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Nothing but a clock and instants at which something happens.
struct Bare {
    now: jiff::Timestamp,
    events: Vec<jiff::Timestamp>,
    inventory: Inventory,
    seen: Seen,
}

impl World for Bare {
    fn now(&self) -> jiff::Timestamp {
        self.now
    }
    fn next_event(&self) -> Option<jiff::Timestamp> {
        self.events.iter().copied().find(|at| *at > self.now)
    }
    fn advance(&mut self, to: jiff::Timestamp) {
        self.seen.note(format!("{}", to.duration_since(START).as_secs()));
        self.now = self.now.max(to);
    }
    fn inventory(&self) -> &Inventory {
        &self.inventory
    }
    fn execute(&mut self, _: &Action) -> Result<(), WorldError> {
        Ok(())
    }
    fn follow(&mut self, _: &Arc<Fleet>) -> Result<(), WorldError> {
        Ok(())
    }
    fn save(&mut self) -> Result<(), WorldError> {
        self.seen.note("saved".to_owned());
        Ok(())
    }
}

fn source() -> (watch::Sender<SourceState>, watch::Receiver<SourceState>) {
    watch::channel(SourceState::default())
}

fn bare(events: &[i64], speed: Speed) -> (Engine<Bare>, EngineHandle, Seen, watch::Sender<SourceState>) {
    let seen = Seen::default();
    let events = events.iter().copied().map(after).collect();
    let world = Bare { now: START, events, inventory: Inventory::default(), seen: seen.clone() };
    let (send, source) = source();
    let desired = Desired::new(Some(kept("one", documents("580.95.05", 1))), START);
    let store = Arc::new(Store::in_memory().unwrap());
    let options = EngineOptions { speed, ..EngineOptions::default() };
    let (engine, handle) = Engine::new(store, world, desired, source, options);
    (engine, handle, seen, send)
}

#[tokio::test(start_paused = true)]
async fn every_event_gets_its_pass_and_a_stop_saves() {
    let (engine, handle, seen, _source) = bare(&[10, 10, 100, 101, 250], Speed::Times(10.0));
    let task = tokio::spawn(engine.run());
    tokio::time::sleep(Duration::from_millis(26_000)).await;
    handle.stop();
    task.await.unwrap().unwrap();
    // The first at once; a second after each event, so that 100 and 101 are one pass; nothing after 260.
    assert_eq!(seen.all(), ["0", "11", "101", "251", "saved"]);
    assert_eq!(handle.stats().passes.get(), 4);
    assert_eq!(handle.clock().now(), after(251));
}

#[tokio::test(start_paused = true)]
async fn without_events_it_looks_again_all_the_same() {
    let (engine, handle, seen, _source) = bare(&[], Speed::Times(1.0));
    let task = tokio::spawn(engine.run());
    tokio::time::sleep(Duration::from_secs(650)).await;
    handle.stop();
    task.await.unwrap().unwrap();
    assert_eq!(seen.all(), ["0", "300", "600", "saved"]);
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_makes_a_pass_now() {
    let (engine, handle, seen, _source) = bare(&[], Speed::Times(2.0));
    let task = tokio::spawn(engine.run());
    tokio::time::sleep(Duration::from_secs(20)).await;
    handle.wake();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.stop();
    task.await.unwrap().unwrap();
    assert_eq!(seen.all(), ["0", "40", "saved"]);
}

#[tokio::test(start_paused = true)]
async fn it_publishes_at_most_four_times_a_second() {
    let events: Vec<i64> = (0..2000).collect();
    let (engine, handle, _seen, _source) = bare(&events, Speed::Times(100.0));
    let task = tokio::spawn(engine.run());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let number = handle.snapshot().borrow().number;
    assert!((30..=42).contains(&number), "{number} publications in 10 s");
    handle.stop();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_comes_into_force_and_a_bad_one_does_not() {
    let (engine, handle, _seen, source) = bare(&[], Speed::Times(1.0));
    let task = tokio::spawn(engine.run());
    let mut snapshot = handle.snapshot();
    source.send_replace(read("two", 1, documents("580.105.08", 1)));
    let is = |id: &'static str| {
        move |snapshot: &Arc<Snapshot>| snapshot.facts.as_ref().is_some_and(|facts| facts.commit.id == id)
    };
    snapshot.wait_for(is("two")).await.unwrap();
    source.send_replace(read("three", 2, Vec::new()));
    let bad = snapshot.wait_for(|snapshot| snapshot.source.problem.is_some()).await.unwrap().clone();
    assert!(is("two")(&bad));
    handle.stop();
    task.await.unwrap().unwrap();
}

/// Simulated clusters whose disk fails at first.
struct FullDisk {
    world: EmbeddedWorld,
    fails: u32,
}

impl World for FullDisk {
    fn now(&self) -> jiff::Timestamp {
        self.world.now()
    }
    fn next_event(&self) -> Option<jiff::Timestamp> {
        self.world.next_event()
    }
    fn advance(&mut self, to: jiff::Timestamp) {
        self.world.advance(to);
    }
    fn inventory(&self) -> &Inventory {
        self.world.inventory()
    }
    fn execute(&mut self, action: &Action) -> Result<(), WorldError> {
        assert_eq!(self.fails, 0, "an action before its intent was durable");
        self.world.execute(action)
    }
    fn follow(&mut self, fleet: &Arc<Fleet>) -> Result<(), WorldError> {
        self.world.follow(fleet)
    }
    fn save(&mut self) -> Result<(), WorldError> {
        if let Some(left) = self.fails.checked_sub(1) {
            self.fails = left;
            let path = std::path::PathBuf::from("world.redb");
            let text = "no space left on device".to_owned();
            return Err(StoreError::Database { path, doing: "committing", text }.into());
        }
        self.world.save()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_intended_or_done_that_rests_on_what_is_not_durable() {
    let (world, _) =
        EmbeddedWorld::new(WorldStore::in_memory().unwrap(), drydock_sim::WorldOptions::default());
    let world = FullDisk { world, fails: 2 };
    let store = Arc::new(Store::in_memory().unwrap());
    let desired = Desired::new(Some(kept("one", documents("580.95.05", 1))), START);
    let (send, source) = source();
    let options = EngineOptions { speed: Speed::FlatOut, ..EngineOptions::default() };
    let (engine, handle) = Engine::new(store.clone(), world, desired, source, options);
    let task = tokio::spawn(engine.run());
    send.send_replace(read("two", 1, documents("580.105.08", 1)));
    let mut snapshot = handle.snapshot();
    let troubled = snapshot.wait_for(|snapshot| snapshot.trouble.is_some()).await.unwrap().clone();
    assert!(troubled.trouble.as_ref().unwrap().contains("no space left"));
    assert_eq!(troubled.facts.as_ref().unwrap().ledger.revision, 0, "the ledger waits for the world");
    let done = |snapshot: &Arc<Snapshot>| {
        let facts = snapshot.facts.as_ref().unwrap();
        facts.ledger.rollouts.values().any(|rollout| rollout.state.word() == "Succeeded")
    };
    let done = snapshot.wait_for(done).await.unwrap().clone();
    assert!(done.trouble.is_none() && handle.stats().failures.get() >= 2);
    handle.stop();
    task.await.unwrap().unwrap();
    let events = store.events_after(0, 10_000).unwrap();
    assert!(events.iter().any(|event| matches!(&event.what, EventKind::Node { to, .. } if to == "drain")));
    assert!(events.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
}

/// A planner that reserves every node there is as soon as one is in flight.
fn greedy(input: &drydock_planner::Input<'_>) -> drydock_plan::Planned {
    let mut planned = drydock_planner::plan(input);
    let held = input.ledger.nodes.values().find_map(|record| record.visit.clone());
    let Some(visit) = held else { return planned };
    for (id, record) in &input.ledger.nodes {
        let waits = record.visit.is_none() && record.soak.is_none();
        if record.assignment.as_ref().is_some_and(|a| a.outcome.is_none()) && waits {
            let mut record = record.clone();
            record.epoch = record.epoch.next();
            record.generation = record.generation.next();
            record.visit = Some(drydock_plan::Visit {
                since: input.now,
                step: drydock_plan::Step::Preflight,
                ..visit.clone()
            });
            planned
                .plan
                .changes
                .retain(|c| !matches!(c, drydock_plan::LedgerChange::Node(other, _) if other == id));
            planned.plan.changes.push(drydock_plan::LedgerChange::Node(id.clone(), Box::new(record)));
        }
    }
    planned
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_breaks_an_invariant_is_cut_down_and_what_is_in_flight_goes_on() {
    let (world, _) =
        EmbeddedWorld::new(WorldStore::in_memory().unwrap(), drydock_sim::WorldOptions::default());
    let store = Arc::new(Store::in_memory().unwrap());
    let desired = Desired::new(Some(kept("one", documents("580.95.05", 1))), START);
    let (send, source) = source();
    let options = EngineOptions { speed: Speed::FlatOut, ..EngineOptions::default() };
    let (mut engine, handle) = Engine::new(store.clone(), world, desired, source, options);
    engine.core.plan_with(greedy);
    let task = tokio::spawn(engine.run());
    send.send_replace(read("two", 1, documents("580.105.08", 1)));
    let mut snapshot = handle.snapshot();
    let told = snapshot
        .wait_for(|s| s.facts.as_ref().is_some_and(|f| !f.report.violations.is_empty()))
        .await
        .unwrap()
        .clone();
    let facts = told.facts.as_ref().unwrap();
    assert!(facts.report.violations.iter().any(|v| v.contains("left out")), "{:?}", facts.report.violations);
    let node = facts.inventory.nodes.keys().next().unwrap();
    assert_eq!(facts.why(node).unwrap().violations, facts.report.violations, "why says so first");
    let done = |snapshot: &Arc<Snapshot>| {
        let facts = snapshot.facts.as_ref().unwrap();
        facts.ledger.rollouts.values().any(|rollout| rollout.state.word() == "Succeeded")
    };
    let done = snapshot.wait_for(done).await.unwrap().clone();
    let most = done.facts.as_ref().unwrap().ledger.rollouts.values().next().unwrap().exposed;
    assert_eq!((most, done.trouble.as_ref()), (4, None));
    assert!(handle.stats().violations.get() > 0);
    handle.stop();
    task.await.unwrap().unwrap();
}
