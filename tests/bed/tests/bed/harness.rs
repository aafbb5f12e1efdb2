//! Which tests there are, whether each may run here, and how long it took.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drydock_bed::mode::{Mode, VARIABLE};
use drydock_bed::{Missing, Tools};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Tests at a time where nothing else is said. Nearly all that they do is wait, for kubelets, leases and deadlines; each
/// has a control plane of half a gigabyte, or two.
const THREADS: usize = 3;
/// No test may hold the others up for ever: several times what the longest takes.
const ORDINARY: Duration = Duration::from_secs(20 * 60);
/// The same for what only a long run plays.
const WHOLE: Duration = Duration::from_secs(2 * 60 * 60);

type Run = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A test and what it is called.
pub(crate) type NamedTest = (&'static str, fn() -> Run);

/// The tests of a file.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) module: &'static str,
    pub(crate) tests: &'static [NamedTest],
}

/// Lists the tests of a file. One that is left out is dead code, which lint refuses.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: crate::harness::Group = crate::harness::Group {
            module: module_path!(),
            tests: &[$((stringify!($name), || Box::pin(async { crate::harness::Told::told($name().await) }))),+],
        };
    };
}
pub(crate) use tests;

/// What a test returns.
pub(crate) trait Told {
    fn told(self) -> anyhow::Result<()>;
}
impl Told for () {
    fn told(self) -> anyhow::Result<()> {
        Ok(())
    }
}
impl Told for anyhow::Result<()> {
    fn told(self) -> anyhow::Result<()> {
        self
    }
}

/// Why a test isn't for this run, although nothing is missing.
#[derive(Debug)]
pub(crate) struct NotNow(pub(crate) String);

impl fmt::Display for NotNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for NotNow {}

/// How a test ended: passed, ignored because of something, or failed.
fn judged(mode: Mode, ended: anyhow::Result<()>) -> Result<Completion, Failed> {
    let Err(error) = ended else { return Ok(Completion::Completed) };
    if let Some(NotNow(why)) = error.downcast_ref() {
        return Ok(Completion::ignored_with(why.clone()));
    }
    match error.downcast_ref::<Missing>() {
        Some(missing) if mode.requires() => {
            Err(format!("it can't run, and {VARIABLE} requires it: {missing}").into())
        }
        Some(missing) => Ok(Completion::ignored_with(missing.to_string())),
        None => Err(format!("{error:?}").into()),
    }
}

fn play(mode: Mode, test: fn() -> Run) -> anyhow::Result<()> {
    if mode == Mode::Off {
        return Err(NotNow(format!("it starts API servers: ask for it with {VARIABLE}=yes")).into());
    }
    // What all of them need; so a test may take it for granted.
    Tools::find()?;
    let limit = Mode::of_two(ORDINARY, WHOLE);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let ended = tokio::time::timeout(limit, test()).await;
        ended.unwrap_or_else(|_| Err(anyhow::anyhow!("it isn't over after {limit:?}")))
    })
}

/// Runs what the command line asks for, as the harness of the language would.
pub(crate) fn run(groups: &[Group]) -> ExitCode {
    let mode = match Mode::asked() {
        Ok(mode) => mode,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let took: Arc<Mutex<BTreeMap<String, Duration>>> = Arc::default();
    let mut trials = Vec::new();
    for group in groups {
        let module = group.module.rsplit("::").next().unwrap_or(group.module);
        for (name, test) in group.tests.iter().copied() {
            let (name, took) = (format!("{module}::{name}"), Arc::clone(&took));
            trials.push(Trial::ignorable_test(name.clone(), move || {
                let began = Instant::now();
                let ended = judged(mode, play(mode, test));
                if !matches!(ended, Ok(Completion::Ignored { .. })) {
                    took.lock().expect("no test holds it").insert(name, began.elapsed());
                }
                ended
            }));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let mut took: Vec<_> =
        std::mem::take(&mut *took.lock().expect("all tests are over")).into_iter().collect();
    took.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    // .ci/run shows these lines again at its end.
    for (name, time) in took {
        println!("took {:6.1} s  {name}", time.as_secs_f64());
    }
    conclusion.exit_code()
}
