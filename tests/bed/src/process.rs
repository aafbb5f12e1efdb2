//! Processes that end with the test that started them, their logs, and ports of their own.

use std::{
    fs::File,
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::tools::env;

/// Keeps the folders of tests when it is set, for looking at the logs.
const KEEP: &str = "DRYDOCK_BED_KEEP";

/// Looks at a process that was told to stop; it takes microseconds on an idle machine and milliseconds on a busy one,
/// a look is a system call of about a microsecond.
const STOP_LOOKS: u32 = 5_000_000;

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 15;

/// Reads ids of process groups from its standard input and kills those that are left when the pipe closes: the kernel
/// closes it however the test ends, a kill included. Its first argument is a folder that it then removes, too.
const REAPER: &str = r#"
live=""
while read -r op group; do
  if [ "$op" = + ]; then live="$live $group"; continue; fi
  left=""
  for one in $live; do [ "$one" = "$group" ] || left="$left $one"; done
  live=$left
done
[ -z "$live" ] && exit 0
for group in $live; do kill -s KILL -- "-$group"; done
[ -n "$1" ] && sleep 1 && rm -rf -- "$1"
"#;

/// The folder of a bed. It goes with the value, unless `DRYDOCK_BED_KEEP` is set or [`Folder::keep`] was called.
#[derive(Debug)]
pub struct Folder {
    dir: Mutex<Option<tempfile::TempDir>>,
    path: PathBuf,
}

impl Folder {
    /// A new one in the folder for temporary files, readable by its owner alone.
    ///
    /// # Errors
    /// It can't be made.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut dir = tempfile::Builder::new()
            .prefix(&format!("drydock-bed-{name}-"))
            .tempdir()
            .context("a folder for the test bed")?;
        if env(KEEP).is_some() {
            dir.disable_cleanup(true);
        }
        Ok(Self { path: dir.path().to_owned(), dir: Mutex::new(Some(dir)) })
    }
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Leaves it on the disk: something in it must be looked at.
    pub fn keep(&self) {
        if let Some(dir) = lock(&self.dir).as_mut() {
            dir.disable_cleanup(true);
        }
    }
}

/// The process that cleans up when the test can't.
#[derive(Debug)]
pub struct Reaper(Mutex<Child>);

impl Reaper {
    /// Starts it. Without `DRYDOCK_BED_KEEP` it also removes `folder`.
    ///
    /// # Errors
    /// There is no `sh`.
    pub fn start(folder: &Path) -> anyhow::Result<Arc<Self>> {
        let remove = if env(KEEP).is_some() { Path::new("") } else { folder };
        let child = Command::new("sh")
            .args(["-c", REAPER, "reaper"])
            .arg(remove)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is for the test; the reaper outlives it.
            .process_group(0)
            .spawn()
            .context("sh, which cleans up after a test that is killed")?;
        Ok(Arc::new(Self(Mutex::new(child))))
    }
    fn note(&self, op: char, group: u32) -> io::Result<()> {
        let mut child = lock(&self.0);
        child.stdin.as_mut().map_or(Ok(()), |pipe| writeln!(pipe, "{op} {group}"))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let mut child = lock(&self.0);
        child.stdin = None;
        // It has no groups left by now and ends at once.
        let _ = child.wait();
    }
}

/// One process in a process group of its own.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    reaper: Arc<Reaper>,
}

impl Process {
    /// Starts a command whose output goes to the end of `log`.
    ///
    /// # Errors
    /// The file isn't there or can't be run.
    pub fn start(name: &str, mut command: Command, log: &Path, reaper: &Arc<Reaper>) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("log of {name}: {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("a second handle of a log")?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name}: {}", command.get_program().display()))?;
        let process = Self { name: name.to_owned(), child, log: log.to_owned(), reaper: Arc::clone(reaper) };
        process.reaper.note('+', process.id()).context("the reaper")?;
        Ok(process)
    }
    /// Its process id, which is the id of its group, too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Stops it where it stands; connections stay open and nothing is answered.
    ///
    /// # Errors
    /// It is gone.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let id = self.group().with_context(|| format!("{} has no process id", self.name))?;
        // The signal is only on its way: each thread stops when the kernel next looks at it, and until then the server
        // answers. The parent is told when the last of them stands. Each look lets others run.
        for _ in 0..STOP_LOOKS {
            let stopped = waitid(WaitId::Pid(id), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
                .with_context(|| format!("whether {} stands", self.name))?;
            if stopped.is_some() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        anyhow::bail!("{} doesn't stop", self.name)
    }
    /// Lets it go on.
    ///
    /// # Errors
    /// It is gone.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }
    /// Asks it to end, as an init system would, and doesn't wait.
    ///
    /// # Errors
    /// It is gone.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let group = self.group().with_context(|| format!("{} has no process id", self.name))?;
        kill_process_group(group, signal).with_context(|| format!("{signal:?} for {}", self.name))
    }
    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
    /// An error with the end of its log, if it has ended.
    ///
    /// # Errors
    /// That one.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.ended() else { return Ok(()) };
        anyhow::bail!(
            "{} ended with {status}. The end of {}:\n{}",
            self.name,
            self.log.display(),
            tail(&self.log)
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its group may hold more than itself. A group that is gone is what is wanted.
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        let _ = self.reaper.note('-', self.child.id());
    }
}

/// The last lines of a log.
#[must_use]
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

/// Ports that are given out: below those the kernel gives to outgoing connections (32768 and up), so that nobody takes
/// one by chance between two starts of a server.
const PORTS: std::ops::Range<u16> = 21_000..31_000;

/// A port on the loopback address that no other bed on this machine uses while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Locked; the lock is the lease.
    _lease: File,
}

impl Port {
    /// A free one.
    ///
    /// # Errors
    /// None is free, or the folder with the leases can't be written.
    pub fn lease() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join("drydock-bed-ports");
        std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        // Processes that start together begin at different places.
        let count = u32::from(PORTS.end - PORTS.start);
        let start = std::process::id().wrapping_mul(37) % count;
        for step in 0..count {
            let offset = u16::try_from((start + step) % count).unwrap_or_default();
            let number = PORTS.start + offset;
            let path = folder.join(number.to_string());
            let Ok(lease) = File::options().create(true).append(true).open(&path) else { continue };
            if lease.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lease: lease });
            }
        }
        anyhow::bail!("no free port in {PORTS:?}")
    }
    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// A lock whose holder panicked holds nothing half done here: the values are lists and handles.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ports_are_given_out_once() {
        let ports: Vec<Port> = (0..8).map(|_| Port::lease().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
    }

    /// Members of a group that live. What is dead and not yet buried by its new parent counts as gone.
    fn living(group: u32) -> usize {
        let stat = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
        let lines = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(stat);
        // After the name in parentheses: state, parent, group.
        let words = |line: String| {
            let (_, rest) = line.rsplit_once(") ")?;
            let mut words = rest.split(' ');
            let (state, _, of) = (words.next()?.to_owned(), words.next()?, words.next()?);
            Some((state, of.parse::<u32>().ok()?))
        };
        lines.filter_map(words).filter(|(state, of)| state != "Z" && *of == group).count()
    }

    #[tokio::test]
    async fn a_process_ends_with_its_value_and_its_group() {
        let folder = Folder::new("process").unwrap();
        let reaper = Reaper::start(folder.path()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600 & wait"]);
        let process = Process::start("sleeper", command, &folder.path().join("log"), &reaper).unwrap();
        let group = process.id();
        let count = async |wanted: usize| {
            crate::eventually(&format!("{wanted} of the group live"), Duration::from_secs(10), || async {
                let found = living(group);
                Ok(if found == wanted { Ok(()) } else { Err(format!("{found}")) })
            })
            .await
            .unwrap();
        };
        count(3).await;
        drop(process);
        count(0).await;
    }

    #[tokio::test]
    async fn the_reaper_kills_what_a_killed_test_leaves() {
        let folder = Folder::new("reaper").unwrap();
        let reaper = Reaper::start(folder.path()).unwrap();
        let mut command = Command::new("sleep");
        command.arg("600");
        let mut process = Process::start("sleeper", command, &folder.path().join("log"), &reaper).unwrap();
        // What the kernel does when the test dies.
        lock(&reaper.0).stdin = None;
        crate::eventually("the sleeper is killed", Duration::from_secs(10), || {
            let ended = process.ended();
            async move { Ok(ended.map(drop).ok_or_else(|| "it sleeps".to_owned())) }
        })
        .await
        .unwrap();
    }
}
