//! What publishing may cost: on average at most [`PER_VISIT`] requests for each visit of a node, everything together.

use std::time::Duration;

use tokio::time::Instant;

/// Requests for each visit: two for its end (intent, and what was observed), one for its begin, and one for what lies
/// between, be it a step of the node or the numbers of its rollout.
const PER_VISIT: i64 = 4;

/// Of these, what is kept for the end of a visit.
const FOR_THE_END: i64 = 2;

/// One more for every so often, so that a node on which something takes hours is seen to move.
const DRIP: Duration = Duration::from_secs(30 * 60);

/// Most of them that gather.
const DRIPS_MAX: i64 = 6;

/// Requests that may still be made.
#[derive(Debug)]
pub(super) struct Purse {
    credits: i64,
    open: i64,
    dripped: Instant,
}

impl Purse {
    pub(super) fn new(now: Instant) -> Self {
        Self { credits: 0, open: 0, dripped: now }
    }

    /// A visit begins.
    pub(super) fn begin(&mut self) {
        self.open += 1;
        self.credits += PER_VISIT;
    }
    /// A visit is over.
    pub(super) fn end(&mut self) {
        self.open = (self.open - 1).max(0);
    }
    /// Requests that are made in any case; they count all the same.
    pub(super) fn spend(&mut self, requests: i64) {
        self.credits -= requests;
    }
    /// What isn't kept for the ends of open visits.
    pub(super) fn spare(&mut self, now: Instant) -> i64 {
        let drips = now.duration_since(self.dripped).as_secs() / DRIP.as_secs();
        if drips > 0 {
            let drips = u32::try_from(drips).unwrap_or(u32::MAX);
            self.dripped += DRIP.saturating_mul(drips);
            // What visits have left over isn't cut by it.
            let room = (DRIPS_MAX - self.credits).max(0);
            self.credits += i64::from(drips).min(room);
        }
        self.credits - FOR_THE_END * self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ends_of_visits_are_always_covered() {
        let mut purse = Purse::new(Instant::now());
        assert_eq!(purse.spare(Instant::now()), 0);
        purse.begin();
        purse.spend(1);
        assert_eq!(purse.spare(Instant::now()), 1);
        purse.spend(1);
        purse.spend(2);
        purse.end();
        assert_eq!(purse.spare(Instant::now()), 0);
        tokio::time::advance(Duration::from_secs(3600 * 24)).await;
        assert_eq!(purse.spare(Instant::now()), DRIPS_MAX);
        assert_eq!(purse.spare(Instant::now()), DRIPS_MAX);
    }
}
