//! The tests that a mutant has to get past, from the quickest to the slowest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// Packages and targets that know the planner, and run in CI.
const PACKAGES: [&str; 3] = ["drydock-planner", "drydock-sim", "drydock-tests"];
const TARGETS: [&str; 9] =
    ["admission", "check", "scripts", "random", "model", "run", "save", "storm", "world"];
/// Random schedules for each mutant: about what an ordinary run plays in its minute.
const SCHEDULES: &str = "1500";
const STORMS: &str = "200";
/// A mutant may make a test slow without hanging; then it is let go on for this many times what it takes. Counted in time
/// of the processor, so that a busy machine kills nobody.
const PATIENCE: u32 = 6;
const PATIENCE_MIN: Duration = Duration::from_secs(20);
/// What waits without using the processor is given up after so many times that.
const WAITING: u64 = 20;
/// Memory of one test in KiB: a mutant that collects without end is told by it.
const MEMORY: u32 = 6_000_000;

/// A test program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// `scripts`, `planner lib`.
    pub(crate) name: String,
    path: PathBuf,
    folder: PathBuf,
    limit: Duration,
}

/// How a mutant ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Killed { by: String },
    Hung { by: String },
    Survived,
}

/// Builds the tests of the copy.
///
/// # Errors
/// It doesn't build, or nothing comes of it.
pub(crate) fn build(root: &Path) -> Outcome<Vec<Program>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--offline", "--quiet", "--no-run", "--lib", "--message-format", "json"]);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    for target in TARGETS {
        command.args(["--test", target]);
    }
    // What the compiler says of the copy is of no interest where it builds.
    let output = command.current_dir(root).output()?;
    if !output.status.success() {
        return Err(format!(
            "the tests of the copy don't build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let programs: Vec<Program> = said.lines().filter_map(program).collect();
    if programs.len() < TARGETS.len() {
        return Err(format!("only {} test programs were built", programs.len()).into());
    }
    Ok(programs)
}

/// A text of a message of cargo's. Paths of Linux and names of crates have nothing in them that JSON escapes.
fn field<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("\"{key}\":\""))?;
    rest.split('"').next()
}

fn program(message: &str) -> Option<Program> {
    let path = PathBuf::from(field(message, "executable")?);
    let folder = field(message, "package_id")?.strip_prefix("path+file://")?.split('#').next()?;
    let (_, target) = message.split_once("\"target\":")?;
    let (crate_name, source) = (field(target, "name")?, field(target, "src_path")?);
    let package = Path::new(folder).file_name()?.to_string_lossy().into_owned();
    let name = if source.ends_with("/src/lib.rs") { "lib" } else { crate_name };
    Some(Program { name: format!("{package} {name}"), path, folder: folder.into(), limit: Duration::ZERO })
}

impl Program {
    fn run(&self, mutant: usize, limit: Duration) -> Outcome<Option<i32>> {
        // Limits are set by the shell, and hold for what it becomes.
        let seconds = limit.as_secs().max(1);
        let script = format!(
            "ulimit -v {MEMORY} -t {seconds}; exec timeout -k 2 {} \"$0\" --test-threads 1",
            seconds.saturating_mul(WAITING)
        );
        let status = Command::new("bash")
            .args(["-c", &script])
            .arg(&self.path)
            .current_dir(&self.folder)
            .env("MUTANT", mutant.to_string())
            .env("CI", "true")
            .env("INSTA_UPDATE", "no")
            .env("DRYDOCK_SCHEDULES", SCHEDULES)
            .env("STORM_COUNT", STORMS)
            .env_remove("BLESS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(status.code())
    }
}

/// The programs from the quickest to the slowest, each with the time that it may take. No mutant is on.
///
/// # Errors
/// One fails as things are.
pub(crate) fn measured(mut programs: Vec<Program>) -> Outcome<Vec<Program>> {
    for program in &mut programs {
        let begun = Instant::now();
        let code = program.run(0, Duration::from_secs(1_800))?;
        if code != Some(0) {
            return Err(format!("{} fails without any mutant (code {code:?})", program.name).into());
        }
        program.limit = (begun.elapsed() * PATIENCE).max(PATIENCE_MIN);
        eprintln!("  {:20} {:6.1} s", program.name, begun.elapsed().as_secs_f64());
    }
    // Those that take next to nothing are alike; of them the planner's own say most.
    programs.sort_by_key(|p| (p.limit, !p.name.starts_with("planner")));
    Ok(programs)
}

/// Plays the programs with a mutant until one fails.
///
/// # Errors
/// One can't be started.
pub(crate) fn judged(programs: &[Program], mutant: usize) -> Outcome<Verdict> {
    for program in programs {
        let by = program.name.clone();
        match program.run(mutant, program.limit)? {
            Some(0) => {}
            // Given up by `timeout`, or killed for the time it used.
            Some(124 | 137 | 152) | None => return Ok(Verdict::Hung { by }),
            _ => return Ok(Verdict::Killed { by }),
        }
    }
    Ok(Verdict::Survived)
}
