//! Campaigns on the example fleet: how far bad releases get, how often good ones are stopped, what doesn't end.
//!
//! In an ordinary run each is small. `DRYDOCK_BAD=500`, `DRYDOCK_GOOD=500` and `DRYDOCK_LONG=1000` set how many runs each
//! makes, `DRYDOCK_FIRST` the first seed. The table is printed as Markdown (`--nocapture`).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod bad;
mod good;
mod stage;
mod table;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Threads; the machines this is built for have two cores.
const THREADS: u64 = 2;

#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn setting(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.trim().parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// Runs so many seeds, and returns what each came to, in their order.
fn each<T: Send>(count: u64, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let first = setting("DRYDOCK_FIRST", 1);
    let next = AtomicU64::new(first);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let came = one(seed);
                    all.lock().unwrap().push((seed, came));
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, came)| came).collect()
}

#[test]
fn a_bad_release_stays_within_its_bound() {
    let runs = each(setting("DRYDOCK_BAD", 6), bad::run);
    println!("{}", table::bad(&runs));
    let over: Vec<String> = runs.iter().filter_map(bad::Exposure::over).collect();
    assert!(over.is_empty(), "{} of {} got too far:\n{}", over.len(), runs.len(), over.join("\n"));
}

#[test]
fn a_good_release_amid_faults_is_not_stopped() {
    let runs = each(setting("DRYDOCK_GOOD", 4), good::amid_faults);
    println!(
        "{}",
        table::good(
            "good releases amid trouble of every innocent kind, at the published rate of faults",
            &runs
        )
    );
    let stopped: Vec<u64> = runs.iter().filter(|run| run.stopped).map(|run| run.seed).collect();
    // A coincidence of hardware failures right after a change can't be told from a bad version in every case, and a share
    // of a few runs says nothing.
    assert!(
        runs.len() < 100 || stopped.len() * 20 <= runs.len(),
        "{} of {} stopped: {stopped:?}",
        stopped.len(),
        runs.len()
    );
}

#[test]
fn a_good_release_ends_or_names_who_has_to_act() {
    let runs = each(setting("DRYDOCK_LONG", 4), good::at_the_usual_rate);
    println!("{}", table::good("good releases at the published rate of faults, fourteen days", &runs));
    let silent: Vec<String> = runs.iter().filter_map(good::Course::silent).collect();
    assert!(silent.is_empty(), "{} of {} wait for nobody:\n{}", silent.len(), runs.len(), silent.join("\n"));
}
