//! What runs in the containers of real nodes: one small program that needs no other file, so that an image is this
//! file alone. It is built with the standard library only, linked statically; see `drydock_bed::real::stand_in`.
//!
//! ```text
//! stand-in pause                      does nothing, for ever: the sandbox of a pod
//! stand-in driver [OPTIONS]           writes a file when it is ready, and stays
//!     --file PATH      the file (/run/driver-ready)
//!     --after MS       ready so much later
//!     --crash          ends with exit code 1 instead
//!     --never-ready    stays and never writes the file
//!     --note PATH      a file on the node, for its checks
//!     --defect CHECK=HOW   what the file says: CHECK is to `fail`, to `hang`, or to be killed for its `memory`
//! stand-in probe PATH                 exit code 0 when the file is there: a readiness probe
//! stand-in check [OPTIONS]            a check: writes its message, ends with its code
//!     --exit N         exit code (0)
//!     --message TEXT   termination message
//!     --sleep MS       takes so long
//!     --hang           never ends
//!     --notes PATH     a folder of such files: it does what they say of the check that DRYDOCK_CHECK names
//!     --value N        what a good run has measured
//! stand-in job [OPTIONS]              a member of a gang: works and ends well
//!     --for MS         works so long (for ever without it)
//! stand-in checkpoint PATH            writes a checkpoint: a preStop hook
//! ```
//!
//! It handles no signals. As the first process of a container it ends when its grace period is over, and at once in a
//! pod with `hostPID: true`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Where the kubelet reads the termination message.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// What can be asked for.
#[derive(Default)]
struct Options {
    file: Option<PathBuf>,
    after: Duration,
    length: Option<Duration>,
    exit: u8,
    message: String,
    crash: bool,
    never: bool,
    note: Option<PathBuf>,
    notes: Option<PathBuf>,
    defects: Vec<String>,
    value: Option<String>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match run(&command, words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stand-in {command}: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &str, words: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let options = parse(words)?;
    let write = |path: &std::path::Path, text: &str| {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let file = |usual: &str| options.file.clone().unwrap_or_else(|| PathBuf::from(usual));
    match command {
        "pause" => for_ever(),
        "driver" => {
            sleep(options.after);
            if options.crash {
                return Err("the driver could not be loaded".to_owned());
            }
            if let Some(note) = &options.note {
                write(note, &options.defects.join("\n"))?;
            }
            if !options.never {
                write(&file("/run/driver-ready"), "ready\n")?;
            }
            for_ever()
        }
        "probe" => Ok(if file("/run/driver-ready").exists() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        "check" => {
            if options.never {
                for_ever();
            }
            sleep(options.after);
            let told = options.notes.as_deref().map(noted).transpose()?;
            let (exit, message) = match (told.flatten().as_deref(), &options.value) {
                (Some("hang"), _) => for_ever(),
                (Some("memory"), _) => eat(),
                (Some(_), _) => (1, r#"{"verdict":"fail","detail":"the driver is broken"}"#.to_owned()),
                (None, Some(value)) => (0, format!(r#"{{"verdict":"pass","value":{value}}}"#)),
                (None, None) => (options.exit, options.message.clone()),
            };
            write(std::path::Path::new(TERMINATION_LOG), &message)?;
            Ok(ExitCode::from(exit))
        }
        "job" => match options.length {
            Some(length) => {
                sleep(length);
                Ok(ExitCode::SUCCESS)
            }
            None => for_ever(),
        },
        "checkpoint" => {
            write(&file("/checkpoint"), "checkpoint\n")?;
            Ok(ExitCode::SUCCESS)
        }
        other => Err(format!("no such command: {other:?}")),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: its value is missing"));
        let time = |text: String| text.parse().map(Duration::from_millis).map_err(|e| format!("{text}: {e}"));
        match word.as_str() {
            "--file" => options.file = Some(value()?.into()),
            "--after" | "--sleep" => options.after = time(value()?)?,
            "--for" => options.length = Some(time(value()?)?),
            "--exit" => options.exit = value()?.parse().map_err(|e| format!("--exit: {e}"))?,
            "--message" => options.message = value()?,
            "--crash" => options.crash = true,
            "--notes" => options.notes = Some(value()?.into()),
            "--note" => options.note = Some(value()?.into()),
            "--defect" => options.defects.push(value()?),
            "--value" => options.value = Some(value()?),
            "--never-ready" | "--hang" => options.never = true,
            path if path.starts_with('/') => options.file = Some(path.into()),
            other => return Err(format!("no such option: {other}")),
        }
    }
    Ok(options)
}

/// What the notes of this node say of the check that this is.
fn noted(folder: &std::path::Path) -> Result<Option<String>, String> {
    #[expect(clippy::disallowed_methods, reason = "that is how a check is told what it is")]
    let check = std::env::var("DRYDOCK_CHECK").unwrap_or_default();
    let told = |e: std::io::Error| format!("{}: {e}", folder.display());
    for file in std::fs::read_dir(folder).map_err(told)? {
        let text = std::fs::read_to_string(file.map_err(told)?.path()).map_err(told)?;
        let mut defects = text.lines().filter_map(|line| line.split_once('='));
        if let Some((_, how)) = defects.find(|(of, _)| *of == check) {
            return Ok(Some(how.to_owned()));
        }
    }
    Ok(None)
}

/// Takes memory until the kernel ends it. The container has a limit of its own, so nobody else is hurt.
fn eat() -> ! {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        // Written to: memory that nobody has touched isn't there yet.
        eaten.push(vec![1; 1 << 20]);
    }
}

fn sleep(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "it is what a container that takes a while does")]
    std::thread::sleep(time);
}

fn for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
