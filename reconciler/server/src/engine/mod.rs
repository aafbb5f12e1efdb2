//! The engine: wakes the core on a timer, a commit, an event of the world or a command, and publishes what came of it.
//! A wake-up carries no data; whoever wakes it can be lost without loss.

mod core;
mod events;
mod stats;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use drydock_source::SourceState;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use self::core::Rhythm;
pub use self::stats::Stats;

pub(crate) use self::events::events;

use self::core::{Core, Until};
use crate::clock::{FleetClock, Pace, Speed, wall};
use crate::desired::Desired;
use crate::store::LedgerStore;
use crate::view::{ClockView, Snapshot};
use crate::world::World;

/// The least time between two publications: four a second are more than an eye follows.
pub const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// Passes between two looks at stop signals and news. At the designed 5 to 500 ms a pass, stopping takes seconds at worst.
const PASSES_AT_ONCE: usize = 8;

/// After a pass that failed, doubling up to [`RETRY_LAST`].
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// Why the engine ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The last state of the world couldn't be saved.
    #[error(transparent)]
    World(#[from] crate::world::WorldError),
    /// Its thread broke off.
    #[error("the engine broke off: {0}")]
    Broke(String),
}

/// How the engine runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineOptions {
    /// Speed of the fleet's clock.
    pub speed: Speed,
    /// How passes are spaced.
    pub rhythm: Rhythm,
}

impl Default for EngineOptions {
    /// Real time.
    fn default() -> Self {
        Self { speed: Speed::Times(1.0), rhythm: Rhythm::default() }
    }
}

/// Whoever holds this can wake and stop the engine, and sees what it publishes.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    wake: Arc<Notify>,
    stop: Arc<watch::Sender<bool>>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    clock: FleetClock,
    stats: Stats,
}

impl EngineHandle {
    /// "Look again."
    pub fn wake(&self) {
        self.wake.notify_one();
    }
    /// Asks it to end between two writes.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
    /// The published state.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }
    /// The fleet's clock.
    #[must_use]
    pub fn clock(&self) -> &FleetClock {
        &self.clock
    }
    /// What it counts about itself.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Ends when the engine was asked to stop.
    pub async fn stopping(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives in this handle, so waiting can't fail.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

/// The engine; it does nothing until [`Engine::run`] is awaited.
pub struct Engine<W> {
    core: Core<W>,
    speed: Speed,
    pace: Pace,
    source: watch::Receiver<SourceState>,
    /// The source has something that the core hasn't taken in.
    news: bool,
    source_gone: bool,
    wake: Arc<Notify>,
    stop: watch::Receiver<bool>,
    publish: watch::Sender<Arc<Snapshot>>,
    published: Option<Instant>,
    number: u64,
}

impl<W: World> Engine<W> {
    /// An engine over `store`, `world` and the published states of a source.
    #[must_use]
    pub fn new(
        store: Arc<dyn LedgerStore>,
        world: W,
        desired: Desired,
        source: watch::Receiver<SourceState>,
        options: EngineOptions,
    ) -> (Self, EngineHandle) {
        let (stats, clock) = (Stats::default(), FleetClock::new(world.now()));
        let core = Core::new(store, world, desired, options.rhythm, stats.clone(), clock.clone());
        let first = snapshot(&core, 0, Some(1.0));
        let (publish, seen) = watch::channel(Arc::new(first));
        let (stop, stopped) = watch::channel(false);
        let wake = Arc::new(Notify::new());
        let handle =
            EngineHandle { wake: Arc::clone(&wake), stop: Arc::new(stop), snapshot: seen, clock, stats };
        let factor = match options.speed {
            Speed::Times(factor) => factor,
            Speed::FlatOut => 1.0,
        };
        let pace = Pace::new(factor, Instant::now(), core.now());
        let engine = Self {
            core,
            speed: options.speed,
            pace,
            source,
            news: true,
            source_gone: false,
            wake,
            stop: stopped,
            publish,
            published: None,
            number: 0,
        };
        (engine, handle)
    }

    /// Runs until it is asked to stop; then everything observed is durable and the world comes back.
    ///
    /// # Errors
    /// When the last state can't be saved.
    pub async fn run(mut self) -> Result<(), EngineError> {
        let mut failures = 0_u32;
        while !*self.stop.borrow() {
            let news = std::mem::take(&mut self.news) || self.source.has_changed().unwrap_or(false);
            let state = news.then(|| self.source.borrow_and_update().clone());
            let until = self.until();
            let more;
            (self, more) = self
                .on_a_thread(move |core| {
                    if let Some(state) = state {
                        core.take_in(&state, wall());
                    }
                    core.work(until, PASSES_AT_ONCE)
                })
                .await?;
            failures = if self.core.trouble().is_some() { failures.saturating_add(1) } else { 0 };
            let pause = self.pause(more, failures);
            let pause = self.publish_or_wait(pause);
            self.rest(pause).await;
        }
        self.publish_now();
        self.core.save()?;
        Ok(())
    }

    /// Passes take milliseconds to half a second, too long for a thread that serves others.
    async fn on_a_thread(
        mut self,
        work: impl FnOnce(&mut Core<W>) -> bool + Send + 'static,
    ) -> Result<(Self, bool), EngineError> {
        let task = tokio::task::spawn_blocking(move || {
            let more = work(&mut self.core);
            (self, more)
        });
        task.await.map_err(|error| EngineError::Broke(error.to_string()))
    }

    fn hurries(&self) -> bool {
        self.speed == Speed::FlatOut && self.core.busy()
    }

    fn until(&mut self) -> Until {
        let real = Instant::now();
        if self.hurries() {
            // When it stops hurrying, time goes on from where it is then.
            self.pace = Pace::new(1.0, real, self.core.now());
            return Until::Open;
        }
        self.pace.give_up_catching_up(real, self.core.due());
        Until::At(self.pace.target(real))
    }

    /// Real time until something is due.
    fn pause(&mut self, more: bool, failures: u32) -> Duration {
        if let Some(doublings) = failures.checked_sub(1) {
            return RETRY_FIRST.saturating_mul(1 << doublings.min(10)).min(RETRY_LAST);
        }
        if more || self.hurries() {
            return Duration::ZERO;
        }
        self.pace.until(self.core.due(), Instant::now())
    }

    fn publish_or_wait(&mut self, pause: Duration) -> Duration {
        let waited = self.published.map_or(PUBLISH_EVERY, |at| at.elapsed());
        match PUBLISH_EVERY.checked_sub(waited) {
            None | Some(Duration::ZERO) => {
                self.publish_now();
                pause
            }
            Some(rest) => pause.min(rest),
        }
    }

    fn publish_now(&mut self) {
        self.number += 1;
        let speed = match self.speed {
            Speed::Times(factor) => Some(factor),
            Speed::FlatOut => (!self.core.busy()).then_some(1.0),
        };
        self.publish.send_replace(Arc::new(snapshot(&self.core, self.number, speed)));
        self.published = Some(Instant::now());
    }

    async fn rest(&mut self, pause: Duration) {
        if pause.is_zero() {
            // Others get a turn even when there is always more to do.
            tokio::task::yield_now().await;
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.wake.notified() => self.core.force(),
            changed = self.source.changed(), if !self.source_gone => {
                // Waiting marks the news as seen, so it is noted here. Without a source the fleet in force stays.
                self.source_gone = changed.is_err();
                self.news = true;
            }
            _ = self.stop.changed() => {}
        }
    }
}

fn snapshot<W: World>(core: &Core<W>, number: u64, speed: Option<f64>) -> Snapshot {
    Snapshot {
        number,
        clock: ClockView { at: core.now(), wall: wall(), speed },
        source: core.source().clone(),
        facts: core.facts().map(Arc::new),
        trouble: core.trouble().map(ToOwned::to_owned),
    }
}
