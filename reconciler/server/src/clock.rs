//! The fleet's clock: real elapsed time times a speed. It says how far the world may go; the engine takes every event
//! on the way, so a slow machine falls behind and never skips.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The wall clock, for what concerns people and the repository. The fleet's own time never comes from it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place where the server reads the wall clock")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// How fast the fleet's clock runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many seconds per second.
    Times(f64),
    /// From one event to the next without waiting, while there is something to do.
    FlatOut,
}

impl Speed {
    /// Speeds beyond this are [`Speed::FlatOut`]: at 100,000 a day passes in a second, faster than passes are made.
    pub const FASTEST: f64 = 100_000.0;

    /// From a number; anything that isn't a positive one means real time.
    #[must_use]
    pub fn times(factor: f64) -> Self {
        if factor > Self::FASTEST {
            Self::FlatOut
        } else if factor > 0.0 {
            Self::Times(factor)
        } else {
            Self::Times(1.0)
        }
    }
}

/// How far behind its speed the clock may be before it gives up catching up, in real time: a laptop that slept for
/// a night goes on from where it was.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Maps real time to the fleet's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    factor: f64,
    real: Instant,
    fleet: Timestamp,
}

impl Pace {
    pub(crate) fn new(factor: f64, real: Instant, fleet: Timestamp) -> Self {
        Self { factor, real, fleet }
    }

    /// How far the fleet's clock may be by now.
    pub(crate) fn target(&self, real: Instant) -> Timestamp {
        let elapsed = real.saturating_duration_since(self.real).mul_f64(self.factor);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        self.fleet.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Real time until the fleet's clock may be at `fleet`.
    pub(crate) fn until(&self, fleet: Timestamp, real: Instant) -> Duration {
        let ahead = Duration::try_from(fleet.duration_since(self.fleet)).unwrap_or(Duration::ZERO);
        // A year is as good as for ever, and stays inside what a timer can hold.
        let ahead = ahead.as_secs_f64() / self.factor;
        let at = Duration::try_from_secs_f64(ahead.min(31_536_000.0)).unwrap_or(Duration::ZERO);
        at.saturating_sub(real.saturating_duration_since(self.real))
    }

    /// Starts anew from `due`, the next instant at which there is something to do, when that is over for too long.
    pub(crate) fn give_up_catching_up(&mut self, real: Instant, due: Timestamp) {
        let behind = self.target(real).duration_since(due);
        let most = SignedDuration::try_from(CATCH_UP.mul_f64(self.factor)).unwrap_or(SignedDuration::MAX);
        if behind > most {
            *self = Self::new(self.factor, real, due);
        }
    }
}

/// The fleet's clock for everybody beside the engine: the instant of the last pass, or later.
#[derive(Debug, Clone)]
pub struct FleetClock(Arc<AtomicI64>);

impl FleetClock {
    pub(crate) fn new(at: Timestamp) -> Self {
        let clock = Self(Arc::new(AtomicI64::new(i64::MIN)));
        clock.set(at);
        clock
    }
    pub(crate) fn set(&self, at: Timestamp) {
        self.0.fetch_max(at.as_microsecond(), Ordering::AcqRel);
    }
    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::Acquire)).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fleet_time_is_real_time_times_speed() {
        let (start, fleet) = (Instant::now(), Timestamp::constant(1_000_000, 0));
        let pace = Pace::new(60.0, start, fleet);
        let later = start + Duration::from_secs(2);
        assert_eq!(pace.target(later), Timestamp::constant(1_000_120, 0));
        assert_eq!(pace.until(Timestamp::constant(1_000_180, 0), later), Duration::from_secs(1));
        assert_eq!(pace.until(Timestamp::constant(999_000, 0), later), Duration::ZERO);
        assert!(pace.until(Timestamp::MAX, later) > Duration::from_secs(86_400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_little_behind_is_caught_up_and_a_night_is_not() {
        let (start, fleet) = (Instant::now(), Timestamp::constant(1_000_000, 0));
        let mut pace = Pace::new(10.0, start, fleet);
        let soon = start + Duration::from_secs(4);
        pace.give_up_catching_up(soon, fleet);
        assert_eq!(pace.target(soon), Timestamp::constant(1_000_040, 0));
        let morning = start + Duration::from_secs(8 * 3600);
        pace.give_up_catching_up(morning, fleet);
        assert_eq!(pace.target(morning), fleet);
    }

    #[test]
    fn speeds() {
        assert_eq!(
            [1e9, 60.0, 0.0, f64::NAN, -1.0].map(Speed::times),
            [Speed::FlatOut, Speed::Times(60.0), Speed::Times(1.0), Speed::Times(1.0), Speed::Times(1.0)]
        );
    }
}
