//! When to look next: pure arithmetic over failures so far and a seeded sequence.

use std::time::Duration;

/// The pace of looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between looks that found the source well.
    pub poll: Duration,
    /// Added to every delay, at random, up to this many percent: sources created together must not look together.
    pub jitter_percent: u32,
    /// After the first failure; doubles with each further one.
    pub backoff_first: Duration,
    /// The doubling's end.
    pub backoff_cap: Duration,
    /// The least time between a look and the next one that a wake-up causes. A storm of webhooks becomes one look per
    /// gap; while the source fails, `backoff_first` is the gap.
    pub least_gap: Duration,
}

impl Pace {
    /// `poll` with the usual rest: 25 % jitter, back-off from 5 s to 5 min, gap 500 ms (the first action is promised
    /// within 2 s of a webhook).
    #[must_use]
    pub fn every(poll: Duration) -> Self {
        Self {
            poll,
            jitter_percent: 25,
            backoff_first: Duration::from_secs(5),
            backoff_cap: Duration::from_secs(300),
            least_gap: Duration::from_millis(500),
        }
    }

    /// The delay until the next look without a wake-up, after `failures` failures in a row.
    pub(crate) fn delay(&self, failures: u32, dice: &mut Dice) -> Duration {
        let plain = match failures.checked_sub(1) {
            None => self.poll,
            Some(doublings) => {
                let factor = 1_u32.checked_shl(doublings.min(31)).unwrap_or(u32::MAX);
                self.backoff_first.saturating_mul(factor).min(self.backoff_cap)
            }
        };
        plain.saturating_add(dice.part_of(plain, self.jitter_percent))
    }

    /// The least delay until the next look after a wake-up.
    pub(crate) fn gap(&self, failures: u32) -> Duration {
        if failures == 0 { self.least_gap } else { self.backoff_first }
    }
}

/// A sequence of numbers from a seed (SplitMix64): the caller's seed makes tests and replays exact.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between nothing and `percent` of `whole`.
    fn part_of(&mut self, whole: Duration, percent: u32) -> Duration {
        let most = whole.as_millis().saturating_mul(u128::from(percent)) / 100;
        let part = u128::from(self.next()) % (most + 1);
        Duration::from_millis(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_the_delay_up_to_the_cap_and_success_resets_it() {
        let pace = Pace { jitter_percent: 0, ..Pace::every(Duration::from_secs(60)) };
        let mut dice = Dice::new(1);
        let mut seconds = |failures| pace.delay(failures, &mut dice).as_secs();
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(&mut seconds), [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!([u32::MAX, 40, 0].map(&mut seconds), [300, 300, 60]);
    }

    #[test]
    fn jitter_stays_in_its_range_spreads_and_repeats_with_the_seed() {
        let pace = Pace::every(Duration::from_secs(100));
        let run = |seed| {
            let mut dice = Dice::new(seed);
            (0..1000).map(|_| pace.delay(0, &mut dice).as_millis()).collect::<Vec<_>>()
        };
        let delays = run(42);
        assert!(delays.iter().all(|delay| (100_000..=125_000).contains(delay)));
        assert!(delays.iter().any(|delay| *delay < 102_000) && delays.iter().any(|delay| *delay > 123_000));
        assert_eq!(delays, run(42));
        assert_ne!(delays, run(43));
    }

    #[test]
    fn a_wake_up_waits_longer_while_the_source_fails() {
        let pace = Pace::every(Duration::from_secs(60));
        assert_eq!(pace.gap(0), Duration::from_millis(500));
        assert_eq!(pace.gap(3), Duration::from_secs(5));
    }
}
