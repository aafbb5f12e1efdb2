//! The wall clock, read in one place, and agreed on with the home cluster.
//!
//! Several processes take turns in leading one fleet, on machines whose clocks may be minutes apart. The ledger is full
//! of instants (deadlines, soaks, windows): read by a process whose clock is behind they would all last longer, by one
//! that is ahead they would be over at once, and a driver that had just begun to load would count as hung. So all of them
//! take the time from the same place, the home cluster's API server, which stamps every answer. In between the monotonic
//! clock runs on: a machine whose own clock is set by somebody notices nothing.
//!
//! It is one for the process, as the machine's is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A difference that isn't worth a correction: answers are stamped with whole seconds, and take some time to arrive.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// A difference that somebody should look into: NTP keeps machines within a second.
const SKEWED: SignedDuration = SignedDuration::from_secs(30);

/// An instant and when it was.
#[derive(Debug, Clone, Copy)]
struct Agreed {
    at: Timestamp,
    since: Instant,
}

impl Agreed {
    fn now(self) -> Timestamp {
        after(self.at, self.since.elapsed())
    }
    /// The clock to go on with after a server said `told` at `received`.
    fn with(self, told: Timestamp, received: Instant) -> Self {
        let server = Self { at: told, since: received };
        let apart = server.now().duration_since(self.now()).abs();
        if apart > SLACK { server } else { self }
    }
}

fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

static AGREED: Mutex<Option<Agreed>> = Mutex::new(None);

/// Now: the time agreed on, or the machine's where none was yet. For stamping what was just seen; decisions get their
/// `now` handed in.
#[must_use]
pub fn wall() -> Timestamp {
    let agreed = *AGREED.lock().unwrap_or_else(PoisonError::into_inner);
    agreed.map_or_else(machine, Agreed::now)
}

#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads the wall clock")]
fn machine() -> Timestamp {
    Timestamp::now()
}

/// Takes in what the home cluster's API server said the time is.
pub fn agree(told: Timestamp, received: Instant) {
    let local = machine();
    let mut agreed = AGREED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = agreed.unwrap_or(Agreed { at: local, since: Instant::now() });
    let now = before.with(told, received);
    let moved = agreed.is_none() || now.at != before.at;
    *agreed = Some(now);
    let skew = local.duration_since(now.now());
    if moved && skew.abs() > SKEWED {
        tracing::warn!(
            "this machine's clock is {} s {} the home cluster's; the cluster's counts",
            skew.abs().as_secs(),
            if skew.is_positive() { "ahead of" } else { "behind" },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_is_ahead_goes_by_the_servers_clock() {
        let server = Timestamp::constant(1_800_000_000, 0);
        let local = Agreed { at: after(server, Duration::from_secs(600)), since: Instant::now() };
        let agreed = local.with(server, Instant::now());
        assert_eq!(agreed.now(), server);
        // From here on it runs by itself; the stamps, which are cut to seconds, don't shake it.
        tokio::time::advance(Duration::from_millis(5_900)).await;
        let later = agreed.with(after(server, Duration::from_secs(5)), Instant::now());
        assert_eq!(later.now(), after(server, Duration::from_millis(5_900)));
        // One whose server was set to another time follows.
        let set = later.with(after(server, Duration::from_secs(3_600)), Instant::now());
        assert_eq!(set.now(), after(server, Duration::from_secs(3_600)));
    }
}
