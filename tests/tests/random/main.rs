//! Random schedules: small fleets under random documents, commits, commands and faults. Whatever happens, no budget
//! is exceeded, no invariant is broken, and in the end everything is settled or says what it waits for.
//!
//! `DRYDOCK_SCHEDULES=100000` runs so many instead of the usual few hundred, `DRYDOCK_SEED=7` runs one and tells all
//! about it. One number makes a whole schedule, so what a run prints is all that is needed to see it again.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod calendar;
mod case;
mod documents;
mod faults;
mod judge;
mod known;
mod policy;
mod seeds;
mod table;
mod truth;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use case::Case;

/// Without a number, so many schedules are run: the same on every machine. A long run plays many more.
const USUAL_SCHEDULES: u64 = 400;
/// Threads; the machines this is built for have two cores.
const THREADS: u64 = 2;
/// One in so many is run twice and compared.
const TWICE_EVERY: u64 = 50;
/// So many failures are told in full.
const FAILURES_TOLD: usize = 3;

#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.trim().parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

#[derive(Default)]
struct Total {
    schedules: u64,
    passes: u64,
    outcomes: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
    table: table::Table,
    failures: Vec<(u64, Vec<String>)>,
    budget_violations: u64,
    invariant_violations: u64,
}

fn run(case: &Case, total: &mut Total) -> Vec<String> {
    let run = case.run(false);
    judge::tally(&mut total.outcomes, &run);
    total.table.add(case, &run);
    total.schedules += 1;
    total.passes += u64::from(run.summary.passes);
    total.budget_violations += run.summary.budget_violations.len() as u64;
    total.invariant_violations += run.summary.invariant_violations.len() as u64;
    for word in run.summary.reasons.keys() {
        *total.reasons.entry(word.clone()).or_default() += 1;
    }
    let mut wrong = judge::judge(case, &run);
    if case.seed.is_multiple_of(TWICE_EVERY) && case.run(false).summary != run.summary {
        wrong.push("I15: the same seed gives two runs".to_owned());
    }
    if setting("DRYDOCK_STRICT").is_none() {
        wrong.retain(|finding| match known::known(case, finding) {
            Some(what) => {
                total.table.known(what);
                false
            }
            None => true,
        });
    }
    wrong
}

fn checked(case: &Case, total: &mut Total) -> Vec<String> {
    let result = catch_unwind(AssertUnwindSafe(|| run(case, total)));
    result.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        vec![format!(
            "panic: {}",
            text.or(cause.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default()
        )]
    })
}

/// The kind of a finding, so that a smaller case that fails differently isn't taken for the same.
fn kind(wrong: &[String]) -> Option<String> {
    wrong.first().map(|text| text.chars().filter(|c| c.is_alphabetic() || *c == ' ').take(60).collect())
}

/// Leaves things out as long as it fails in the same way.
fn smallest(mut case: Case) -> (Case, Vec<String>) {
    let mut wrong = checked(&case, &mut Total::default());
    'smaller: loop {
        for smaller in case.smaller() {
            let again = checked(&smaller, &mut Total::default());
            if !again.is_empty() && (kind(&again) == kind(&wrong) || again.len() >= wrong.len()) {
                (case, wrong) = (smaller, again);
                continue 'smaller;
            }
        }
        return (case, wrong);
    }
}

fn tell(case: &Case, wrong: &[String]) {
    let run = case.run(true);
    eprintln!("{}", case.describe());
    for line in &run.summary.timeline {
        eprintln!("{} {}", line.at, line.text);
    }
    eprintln!("outcome {:?}, {} passes", run.summary.outcome, run.summary.passes);
    eprintln!("wrong: {wrong:#?}");
}

#[test]
fn random_schedules_break_nothing() {
    if let Some(seed) = setting("DRYDOCK_SEED") {
        let case = Case::new(seed);
        let full = checked(&case, &mut Total::default());
        eprintln!("{}\n{full:#?}", case.describe());
        if setting("DRYDOCK_DOCUMENTS").is_some() {
            let documents = documents_of(&case);
            eprintln!("{documents}");
        }
        let (case, wrong) = if full.is_empty() { (case, full) } else { smallest(case) };
        tell(&case, &wrong);
        assert!(wrong.is_empty(), "seed {seed}");
        return;
    }
    let wanted = setting("DRYDOCK_SCHEDULES").unwrap_or(USUAL_SCHEDULES);
    let first = setting("DRYDOCK_FIRST").unwrap_or(0);
    let (next, begun) = (AtomicU64::new(first), Instant::now());
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut mine = Total::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = seed >= first + wanted;
                    if over || mine.failures.len() >= 2_000 {
                        break;
                    }
                    let wrong = checked(&Case::new(seed), &mut mine);
                    if !wrong.is_empty() {
                        mine.failures.push((seed, wrong));
                    }
                }
                total.lock().unwrap().add(mine);
            });
        }
    });
    let mut total = total.into_inner().unwrap();
    total.failures.sort();
    eprintln!(
        "{} schedules, seed {first}, {} budget violations, {} invariant violations",
        total.schedules, total.budget_violations, total.invariant_violations
    );
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{:.0} schedules/s, {} passes", total.schedules as f64 / seconds, total.passes);
    eprintln!("{}", total.table.text(&total.outcomes, &total.reasons, total.schedules));
    if !total.failures.is_empty() {
        report(&total.failures);
    }
    assert!(total.failures.is_empty(), "{} schedules failed", total.failures.len());
}

#[test]
fn what_was_wrong_once_stays_mended() {
    for (seed, what) in seeds::SEEDS {
        let wrong = checked(&Case::new(*seed), &mut Total::default());
        assert!(wrong.is_empty(), "seed {seed}, {what}: {wrong:#?}");
    }
}

fn documents_of(case: &Case) -> String {
    let last = case.last().map(|commit| serde_json::to_string(&*commit.fleet).unwrap()).unwrap_or_default();
    format!("before: {}\nlast: {last}", serde_json::to_string(&case.before).unwrap())
}

fn report(failures: &[(u64, Vec<String>)]) {
    let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (seed, wrong) in failures {
        kinds.entry(kind(wrong).unwrap_or_default()).or_default().push(*seed);
    }
    for (kind, seeds) in &kinds {
        eprintln!("{:6} {kind}: {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
    for (seed, wrong) in failures.iter().take(FAILURES_TOLD) {
        eprintln!("seed {seed}: {wrong:#?}");
    }
}

impl Total {
    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.passes += other.passes;
        self.budget_violations += other.budget_violations;
        self.invariant_violations += other.invariant_violations;
        self.failures.extend(other.failures);
        self.table.join(other.table);
        for (word, n) in other.outcomes {
            *self.outcomes.entry(word).or_default() += n;
        }
        for (word, n) in other.reasons {
            *self.reasons.entry(word).or_default() += n;
        }
    }
}
