//! Changes the planner in small ways, one at a time, and says which changes no test notices.
//!
//! All mutants are built at once, each behind a switch, in a copy of the project under `target/mutants`: the project
//! itself has no switch. See `README.md` beside this.

mod find;
mod known;
mod play;
mod source;
mod tree;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use known::Results;
use play::{Program, Verdict};
use source::{File, Mutant};
use tree::Copy;

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// More unexplained survivors than this share, and a judged run fails.
const UNEXPLAINED_PERCENT_MAX: usize = 5;

#[derive(Default)]
struct Wanted {
    sample: Option<usize>,
    seed: u64,
    file: Option<String>,
    only: Option<String>,
    list: bool,
    judge: bool,
    jobs: usize,
}

fn wanted() -> Outcome<Wanted> {
    let mut wanted = Wanted { seed: 1, jobs: 2, ..Wanted::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--sample" => wanted.sample = Some(value()?.parse()?),
            "--seed" => wanted.seed = value()?.parse()?,
            "--file" => wanted.file = Some(value()?),
            "--only" => wanted.only = Some(value()?),
            "--jobs" => wanted.jobs = value()?.parse()?,
            "--list" => wanted.list = true,
            "--judge" => wanted.judge = true,
            _ => return Err(format!("{word} means nothing; see the first lines of tests/mutants/run").into()),
        }
    }
    Ok(wanted)
}

/// So many of them, drawn by a seed: xorshift over 64 bits.
fn drawn<T>(mut all: Vec<T>, count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut drawn = Vec::new();
    while drawn.len() < count && !all.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = usize::try_from(state % u64::try_from(all.len()).unwrap_or(1)).unwrap_or(0);
        drawn.push(all.swap_remove(at));
    }
    drawn
}

/// Plays mutants, some at a time, and notes how each ended.
fn play(programs: &[Program], queue: Vec<&Mutant>, results: &mut Results, jobs: usize) -> Outcome<()> {
    let total = queue.len();
    let queue = Mutex::new(queue.into_iter().rev().collect::<Vec<_>>());
    let results = Mutex::new(results);
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop().map(|m| (m, total - queue.len())));
    let work = || -> Outcome<()> {
        while let Some((mutant, count)) = next() {
            let verdict = play::judged(programs, mutant.number)?;
            let told = match &verdict {
                Verdict::Killed { by } => format!("killed by {by}"),
                Verdict::Hung { by } => format!("hung in {by}"),
                Verdict::Survived => "SURVIVED".to_owned(),
            };
            println!("{count}/{total} {}:{} {told}  {}", file_of(mutant), mutant.line, mutant.name);
            results.lock().map_err(|_| "a thread has failed")?.ended(&mutant.name, verdict)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread has failed")?)
    })
}

fn file_of(mutant: &Mutant) -> &str {
    mutant.name.split(' ').next().unwrap_or_default()
}

/// The table, the survivors, and whether a judge would let it pass.
fn report(mutants: &[&Mutant], results: &Results, explained: &BTreeMap<String, String>) -> bool {
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for mutant in mutants {
        match results.verdicts.get(&mutant.name) {
            Some(Verdict::Killed { by: name } | Verdict::Hung { by: name }) => {
                *by.entry(name).or_default() += 1
            }
            Some(Verdict::Survived) => survivors.push(*mutant),
            None => {}
        }
    }
    let killed: usize = by.values().sum();
    let told = killed + survivors.len();
    let (known, unknown): (Vec<&Mutant>, Vec<&Mutant>) =
        survivors.iter().copied().partition(|m| explained.contains_key(&m.name));
    println!(
        "\n{told} mutants: {killed} killed, {} survive, {} of them explained",
        survivors.len(),
        known.len()
    );
    for (name, count) in by {
        println!("  {count:5} by {name}");
    }
    println!();
    for mutant in &unknown {
        println!("fleet/planner/src/{}:{}\n- `{}`: ", file_of(mutant), mutant.line, mutant.name);
    }
    unknown.len() * 100 <= told * UNEXPLAINED_PERCENT_MAX
}

fn run() -> Outcome<bool> {
    let wanted = wanted()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..").canonicalize()?;
    // Where cargo builds: dependencies are the same, so they aren't built twice.
    let program = std::env::current_exe()?;
    let target: PathBuf = program.ancestors().nth(2).unwrap_or(&root).to_owned();
    let files: Vec<File> = tree::files(&root)?;
    let all: Vec<&Mutant> = files.iter().flat_map(|f| &f.mutants).collect();
    let chosen = |m: &&Mutant| {
        wanted.file.as_deref().is_none_or(|file| file_of(m) == file)
            && wanted.only.as_deref().is_none_or(|only| m.name.contains(only))
    };
    let explained = known::explained(&std::fs::read_to_string(here.join("survivors.md")).unwrap_or_default());
    let names: BTreeSet<&str> = all.iter().map(|m| m.name.as_str()).collect();
    for name in explained.keys().filter(|name| !names.contains(name.as_str())) {
        println!("tests/mutants/survivors.md explains what isn't there any more: `{name}`");
    }
    if wanted.list {
        all.iter().filter(|m| chosen(m)).for_each(|m| println!("{}", m.name));
        return Ok(true);
    }
    let copy = Copy::of(&root, &target.join("mutants").join("tree"))?;
    let mut results = Results::of(known::place(&target), copy.digest)?;
    let known: BTreeSet<usize> =
        all.iter().filter(|m| results.dropped.contains(&m.name)).map(|m| m.number).collect();
    eprintln!("{} mutants in {} files; building", all.len(), files.len());
    let dropped = copy.compiled(&files, known.clone())?;
    for mutant in all.iter().filter(|m| dropped.contains(&m.number) && !known.contains(&m.number)) {
        results.drop(&mutant.name)?;
    }
    let programs = play::measured(play::build(&copy.root)?)?;
    let mut mutants: Vec<&Mutant> =
        all.into_iter().filter(|m| !dropped.contains(&m.number)).filter(|m| chosen(m)).collect();
    eprintln!("{} compile and are asked for, {} in all don't compile", mutants.len(), dropped.len());
    if let Some(count) = wanted.sample {
        mutants = drawn(mutants, count, wanted.seed);
        mutants.sort_by_key(|m| m.number);
    }
    let open: Vec<&Mutant> =
        mutants.iter().copied().filter(|m| !results.verdicts.contains_key(&m.name)).collect();
    play(&programs, open, &mut results, wanted.jobs)?;
    Ok(report(&mutants, &results, &explained) || !wanted.judge)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "more than {UNEXPLAINED_PERCENT_MAX} % survive without a word in tests/mutants/survivors.md"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
