//! A breaker: an API server that fails isn't asked on and on, and one that is back is found quickly.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::CallError;

/// Failures in a row after which nobody asks for a while. One lost packet isn't an outage; three in a row are.
const FAILURES: u32 = 3;
/// First pause; it doubles up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Longest pause: a cluster that is back is found within it.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// State of one API server as its callers see it.
#[derive(Debug, Default)]
pub struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
    last: Option<String>,
}

impl Breaker {
    /// May the next call be made? After a pause one caller may try; the others wait for what comes of it.
    ///
    /// # Errors
    /// [`CallError::Open`] with the time until the next try.
    pub fn admit(&self) -> Result<(), CallError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = state.open_until else { return Ok(()) };
        let now = Instant::now();
        if now < until {
            return Err(CallError::Open(until - now));
        }
        // Until this try has ended, others are held back for another short pause.
        state.open_until = Some(now + PAUSE_FIRST);
        Ok(())
    }

    /// Notes how a call ended.
    pub fn note(&self, error: Option<&CallError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) if error.is_of_the_server() => {
                state.failures = state.failures.saturating_add(1);
                state.last = Some(error.to_string());
                if let Some(doublings) = state.failures.checked_sub(FAILURES) {
                    let pause = PAUSE_FIRST.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX);
                    state.open_until = Some(Instant::now() + pause);
                }
            }
            // Any answer, also a "no", shows that somebody is there.
            Some(_) | None => *state = State::default(),
        }
    }

    /// What the last calls failed with, while they fail.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last.clone().filter(|_| state.failures >= FAILURES)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn three_failures_open_it_and_one_success_closes_it() {
        let breaker = Breaker::default();
        let bad = CallError::Transport("connection refused".to_owned());
        for _ in 0..2 {
            breaker.note(Some(&bad));
            breaker.admit().unwrap();
        }
        breaker.note(Some(&bad));
        assert!(matches!(breaker.admit(), Err(CallError::Open(_))));
        assert_eq!(breaker.trouble().unwrap(), "connection refused");
        tokio::time::advance(Duration::from_millis(1100)).await;
        breaker.admit().unwrap();
        // Only one tries.
        assert!(breaker.admit().is_err());
        breaker.note(None);
        breaker.admit().unwrap();
        assert_eq!(breaker.trouble(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_limit() {
        let breaker = Breaker::default();
        let bad = CallError::Timeout(Duration::from_secs(15));
        for _ in 0..40 {
            breaker.note(Some(&bad));
        }
        let Err(CallError::Open(pause)) = breaker.admit() else { panic!("open") };
        assert_eq!(pause, PAUSE_MAX);
    }
}
