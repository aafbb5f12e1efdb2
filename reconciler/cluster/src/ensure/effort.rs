//! What was tried for one intent so far. It lives in memory only: after a restart everything is looked at and, where
//! it isn't so yet, asked for again, which changes nothing that is so already.

use std::collections::BTreeMap;

use drydock_plan::{CheckResult, Generation};
use jiff::{SignedDuration, Timestamp};

use crate::client::CallError;

/// Calls remembered for an intent: enough for every pod of a node and its checks.
const KEYS_MAX: usize = 2_048;

/// How long a call that was answered well is given to show up in the watch before it is made again. A watch lags by
/// milliseconds; half a minute outlasts a reconnect.
pub const SHOWS_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// First pause after a call that failed; it doubles up to [`PAUSE_MAX`].
const PAUSE_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// Longest pause after a call that failed.
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(30);

/// What was tried for one intent.
#[derive(Debug, Clone, Default)]
pub struct Effort {
    /// The intent.
    pub generation: Generation,
    /// Since when it is known here.
    pub since: Option<Timestamp>,
    asked: BTreeMap<String, Asked>,
    /// Instants and texts that a step wants to remember, by a name of its own.
    pub notes: BTreeMap<String, (Timestamp, String)>,
    /// Results of runs of checks, by a name of the run. They outlive the Jobs they were read from.
    pub runs: BTreeMap<String, CheckResult>,
}

/// One call, as often as it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// How often.
    pub times: u32,
    /// Failures in a row.
    pub failures: u32,
    /// When it was made last.
    pub at: Timestamp,
    /// How it ended; `None` while it is under way.
    pub ended: Option<Ended>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// Carried out.
    Well,
    /// Not carried out, or nobody knows.
    Badly(CallError),
}

impl Effort {
    /// For a new intent.
    #[must_use]
    pub fn new(generation: Generation, now: Timestamp) -> Self {
        Self { generation, since: Some(now), ..Self::default() }
    }
    /// What became of a call.
    #[must_use]
    pub fn asked(&self, key: &str) -> Option<&Asked> {
        self.asked.get(key)
    }
    /// The error a call ended with last.
    #[must_use]
    pub fn error(&self, key: &str) -> Option<&CallError> {
        match self.asked.get(key)?.ended.as_ref()? {
            Ended::Badly(error) => Some(error),
            Ended::Well => None,
        }
    }
    /// The instant at which a call may be made (again); in the past when now.
    #[must_use]
    pub fn next(&self, key: &str) -> Timestamp {
        let Some(asked) = self.asked.get(key) else { return Timestamp::MIN };
        let pause = match &asked.ended {
            None => return Timestamp::MAX,
            Some(Ended::Well) => SHOWS_WITHIN,
            Some(Ended::Badly(error)) => {
                let doubled = PAUSE_FIRST.checked_mul(1 << asked.failures.saturating_sub(1).min(10));
                let own = doubled.unwrap_or(PAUSE_MAX).min(PAUSE_MAX);
                let told = error.refusal().and_then(|r| r.retry_after);
                // A conflict only means that somebody was quicker: what is seen by now decides anew.
                if error.is_conflict() {
                    SignedDuration::from_millis(100)
                } else {
                    told.and_then(|d| SignedDuration::try_from(d).ok()).unwrap_or(own)
                }
            }
        };
        asked.at.checked_add(pause).unwrap_or(Timestamp::MAX)
    }
    /// Whether a call may be made now.
    #[must_use]
    pub fn may(&self, key: &str, now: Timestamp) -> bool {
        self.next(key) <= now
    }
    /// Notes that a call is made.
    pub fn begin(&mut self, key: &str, now: Timestamp) {
        if self.asked.len() >= KEYS_MAX && !self.asked.contains_key(key) {
            self.asked.pop_first();
        }
        let asked =
            self.asked.entry(key.to_owned()).or_insert(Asked { times: 0, failures: 0, at: now, ended: None });
        asked.times = asked.times.saturating_add(1);
        asked.at = now;
        asked.ended = None;
    }
    /// Notes how it ended.
    pub fn end(&mut self, key: &str, result: Result<(), CallError>, now: Timestamp) {
        if let Some(asked) = self.asked.get_mut(key) {
            asked.at = now;
            match result {
                Ok(()) => (asked.failures, asked.ended) = (0, Some(Ended::Well)),
                Err(error) => {
                    asked.failures = asked.failures.saturating_add(1);
                    asked.ended = Some(Ended::Badly(error));
                }
            }
        }
    }
    /// The instant noted under a name; noted now when it wasn't.
    pub fn since(&mut self, name: &str, now: Timestamp) -> Timestamp {
        self.notes.entry(name.to_owned()).or_insert_with(|| (now, String::new())).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn calls_are_spaced_by_how_they_ended() {
        let at = |s: i64| Timestamp::constant(1_000 + s, 0);
        let mut effort = Effort::new(Generation(1), at(0));
        assert!(effort.may("a", at(0)));
        effort.begin("a", at(0));
        assert!(!effort.may("a", at(1_000)), "under way");
        effort.end("a", Ok(()), at(1));
        assert!(!effort.may("a", at(30)) && effort.may("a", at(31)));
        effort.begin("a", at(31));
        effort.end("a", Err(CallError::Timeout(Duration::from_secs(15))), at(46));
        assert!(!effort.may("a", at(46)) && effort.may("a", at(47)));
        effort.begin("a", at(47));
        effort.end("a", Err(CallError::Timeout(Duration::from_secs(15))), at(62));
        assert!(!effort.may("a", at(63)) && effort.may("a", at(64)));
        assert_eq!(effort.asked("a").map(|a| (a.times, a.failures)), Some((3, 2)));
    }
}
