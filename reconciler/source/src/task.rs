//! The task that keeps a source's last good state: it looks on a timer or a wake-up and publishes what it knows.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::error::{ErrorKind, Result, SourceError};
use crate::look::{Ask, Found, Look};
use crate::movement::Movement;
use crate::runner::{Cancel, Runner};
use crate::schedule::{Dice, Pace};
use crate::snapshot::Snapshot;

/// The present time, from whoever starts the task.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why a look failed, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub kind: ErrorKind,
    /// One line for people, without credentials.
    pub text: String,
}

impl From<&SourceError> for Failure {
    fn from(error: &SourceError) -> Self {
        Self { kind: error.kind(), text: error.to_string() }
    }
}

/// The last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it ended.
    pub at: Timestamp,
    /// The full id of the commit seen (in force, newly in force or held), or why none was.
    pub result: std::result::Result<String, Failure>,
}

/// What is known about a source.
#[derive(Debug, Clone, Default)]
pub struct SourceState {
    /// The state in force. It survives every failure; after a restart it comes from the mirror.
    pub last_good: Option<Arc<Snapshot>>,
    /// The last look.
    pub last_attempt: Option<Attempt>,
    /// A commit that waits for a yes, see [`SourceHandle::approve`].
    pub held: Option<Movement>,
    /// When the repository last answered. `None` with a `last_good` means: restored, not seen since the start.
    pub last_fetch_ok_at: Option<Timestamp>,
    /// Failures in a row.
    pub failures: u32,
    /// Grows by one whenever `last_good` changes.
    pub generation: u64,
}

/// How a task runs.
#[derive(Clone)]
pub struct TaskOptions {
    /// When to look.
    pub pace: Pace,
    /// The longest look. A hung one is left behind and reported.
    pub deadline: Duration,
    /// Seeds the jitter.
    pub seed: u64,
    /// The commit that a durable record says was in force last, by its full id.
    pub baseline: Option<String>,
    /// The present time.
    pub clock: Clock,
}

impl TaskOptions {
    /// Looks every `poll`, with a deadline of two minutes: a first fetch of a large repository fits, a dead peer does not.
    #[must_use]
    pub fn new(poll: Duration, seed: u64, clock: Clock) -> Self {
        Self { pace: Pace::every(poll), deadline: Duration::from_secs(120), seed, baseline: None, clock }
    }
}

/// Talks to a running task; clones share it.
#[derive(Debug, Clone)]
pub struct SourceHandle {
    wake: Arc<Notify>,
    approved: Arc<watch::Sender<Option<String>>>,
    state: watch::Receiver<SourceState>,
}

impl SourceHandle {
    /// "Look again". Any number of calls before the next look become one look.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// The signal behind [`SourceHandle::wake`], for watchers.
    #[must_use]
    pub fn waker(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Says yes to a held commit, by its full id, and looks again. If the reference has moved on meanwhile, the yes
    /// does not count for what stands there now.
    pub fn approve(&self, commit: &str) {
        self.approved.send_replace(Some(commit.to_owned()));
        self.wake.notify_one();
    }

    /// The published state.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<SourceState> {
        self.state.clone()
    }
}

/// Keeps one source's state up to date.
pub struct SourceTask<L> {
    look: Arc<L>,
    options: TaskOptions,
    dice: Dice,
    runner: Runner,
    wake: Arc<Notify>,
    approved: Arc<watch::Sender<Option<String>>>,
    state: watch::Sender<SourceState>,
}

impl<L: Look> SourceTask<L> {
    /// A task that does nothing until [`SourceTask::run`] is awaited.
    #[must_use]
    pub fn new(look: L, options: TaskOptions) -> (Self, SourceHandle) {
        let (state, seen) = watch::channel(SourceState::default());
        let approved = Arc::new(watch::Sender::new(None));
        let wake = Arc::new(Notify::new());
        let handle = SourceHandle { wake: Arc::clone(&wake), approved: Arc::clone(&approved), state: seen };
        let dice = Dice::new(options.seed);
        let task =
            Self { look: Arc::new(look), options, dice, runner: Runner::default(), wake, approved, state };
        (task, handle)
    }

    /// Restores, looks, waits, looks again, until `shutdown` is done. A look in progress is cancelled then.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = self.cycle() => {}
            () = shutdown => {}
        }
    }

    async fn cycle(&mut self) {
        self.restore().await;
        loop {
            self.attempt().await;
            self.wait().await;
        }
    }

    /// Brings back what was in force before a restart, so that an unreachable repository finds something to keep.
    async fn restore(&mut self) {
        let ask = self.ask();
        let look = Arc::clone(&self.look);
        let outcome =
            self.runner.run(self.options.deadline, ask.cancel.clone(), move || look.restore(&ask)).await;
        match outcome {
            Ok(Some(snapshot)) => self.state.send_modify(|state| put_in_force(state, snapshot)),
            Ok(None) => {}
            // The first look reads the same things and reports what is wrong with them.
            Err(error) => tracing::warn!(%error, "the last accepted commit can't be restored"),
        }
    }

    async fn attempt(&mut self) {
        let ask = self.ask();
        let look = Arc::clone(&self.look);
        let outcome =
            self.runner.run(self.options.deadline, ask.cancel.clone(), move || look.look(&ask)).await;
        let at = (self.options.clock)();
        report(&self.state.borrow(), &outcome);
        if let Ok(Found::New(snapshot)) = &outcome {
            // A yes is used up: were it to linger, a stale answer with this commit would pass later.
            let id = snapshot.commit.id.as_str();
            self.approved.send_if_modified(|yes| yes.take_if(|yes| yes == id).is_some());
        }
        self.state.send_modify(|state| take_in(state, at, outcome));
    }

    async fn wait(&mut self) {
        let ended = Instant::now();
        let (failures, eased) = {
            let state = self.state.borrow();
            (state.failures, answered(&state))
        };
        // A repository that answered needs no back-off: the commit that mends it is to be found at the usual pace.
        let failures = if eased { 0 } else { failures };
        let timer = ended + self.options.pace.delay(failures, &mut self.dice);
        let earliest = ended + self.options.pace.gap(failures);
        tokio::select! {
            () = tokio::time::sleep_until(timer) => {}
            () = self.wake.notified() => tokio::time::sleep_until(earliest).await,
        }
    }

    fn ask(&self) -> Ask {
        Ask {
            now: (self.options.clock)(),
            have: self.state.borrow().last_good.as_ref().map(|snapshot| snapshot.commit.id.clone()),
            baseline: self.options.baseline.clone(),
            approved: self.approved.borrow().clone(),
            cancel: Cancel::default(),
        }
    }
}

fn answered(state: &SourceState) -> bool {
    match state.last_attempt.as_ref().map(|attempt| &attempt.result) {
        Some(Ok(_)) => true,
        Some(Err(failure)) => failure.kind.answered(),
        None => false,
    }
}

/// What a look changes. Nothing here ever takes `last_good` away.
fn take_in(state: &mut SourceState, at: Timestamp, outcome: Result<Found>) {
    let result = match outcome {
        Ok(found) => {
            state.failures = 0;
            state.last_fetch_ok_at = Some(at);
            state.held = None;
            Ok(match found {
                Found::Same { commit } => commit,
                Found::New(snapshot) => {
                    let commit = snapshot.commit.id.clone();
                    put_in_force(state, snapshot);
                    commit
                }
                Found::Held(movement) => {
                    let commit = movement.to().unwrap_or_default().to_owned();
                    state.held = Some(movement);
                    commit
                }
            })
        }
        Err(error) => {
            state.failures = state.failures.saturating_add(1);
            if error.kind().answered() {
                state.last_fetch_ok_at = Some(at);
            }
            Err(Failure::from(&error))
        }
    };
    state.last_attempt = Some(Attempt { at, result });
}

fn put_in_force(state: &mut SourceState, snapshot: Snapshot) {
    if state.last_good.as_ref().is_some_and(|last| last.says_the_same(&snapshot)) {
        return;
    }
    state.last_good = Some(Arc::new(snapshot));
    state.generation += 1;
}

/// Logs changes only: a source that fails all night says so once.
fn report(before: &SourceState, outcome: &Result<Found>) {
    match outcome {
        Ok(Found::New(snapshot))
            if before.last_good.as_ref().is_none_or(|last| !last.says_the_same(snapshot)) =>
        {
            tracing::info!(commit = %snapshot.commit.short, files = snapshot.files.len(), "a commit comes into force");
        }
        Ok(Found::Held(movement)) if before.held.as_ref() != Some(movement) => {
            tracing::warn!(?movement, "the reference moved off its history; the commit in force stays");
        }
        Ok(_) if before.failures > 0 => tracing::info!("the source is well again"),
        Ok(_) => {}
        Err(error) => {
            let known = before.last_attempt.as_ref().and_then(|attempt| attempt.result.as_ref().err());
            if known.map(|failure| failure.kind) != Some(error.kind()) {
                tracing::warn!(%error, "the source can't be read; the last good state stays in force");
            }
        }
    }
}
