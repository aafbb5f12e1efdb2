//! Which of several processes acts: the one that holds the Lease `drydock`.
//!
//! kube-lease-manager would do most of this, but judges a lease by comparing wall clocks (a skew of minutes makes two
//! leaders), patches without looking at the `resourceVersion`, and has no deadline of its own that closes a gate when
//! the process was stopped for a while. Here nothing is read from another machine's clock: a lease has run out when it
//! was seen unchanged for its whole duration on *this* process's monotonic clock.
//!
//! The holder counts its time from the *begin* of the last renewal that succeeded, and stops writing
//! [`LeaseOptions::deadline`] later by itself ([`Gate`]). A follower begins to count when it sees a renewal, which is
//! later, and waits [`LeaseOptions::duration`], which is longer. So the two times never overlap.

mod record;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::time::Duration;

use drydock_api::names;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use self::record::{Record, Seen};
use crate::client::{CallError, Caller, Gate, Kind};

/// How a lease is held.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// Name of the Lease.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Unique to this process and run: a name for people and something random.
    pub holder: String,
    /// Without a renewal for this long another may take it.
    pub duration: Duration,
    /// Time between two renewals.
    pub renew: Duration,
    /// The holder stops by itself this long after the begin of its last renewal. Shorter than `duration`, so that what
    /// it has just sent has arrived before the next one begins.
    pub deadline: Duration,
    /// Time between two looks of a follower.
    pub look: Duration,
}

impl LeaseOptions {
    /// 15 seconds, renewed every 5, stopping by itself after 10.
    #[must_use]
    pub fn new(namespace: impl Into<String>, holder: impl Into<String>) -> Self {
        Self::lasting(namespace, holder, Duration::from_secs(15))
    }

    /// With another duration, and everything else in the same proportion.
    #[must_use]
    pub fn lasting(namespace: impl Into<String>, holder: impl Into<String>, duration: Duration) -> Self {
        Self {
            name: names::LEASE.to_owned(),
            namespace: namespace.into(),
            holder: holder.into(),
            duration,
            renew: duration / 3,
            deadline: duration * 2 / 3,
            look: (duration / 6).clamp(Duration::from_millis(200), Duration::from_secs(2)),
        }
    }
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else, or nobody as far as known.
    Following {
        /// The holder, as far as known.
        holder: Option<String>,
    },
    /// This process. The number grows every time it begins to lead: between two numbers somebody else may have led.
    Leading {
        /// From 1.
        term: u64,
    },
}

/// Time for one call: two tries fit before the deadline.
const CALL: Duration = Duration::from_secs(4);

/// Pause after a call that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Takes and keeps the lease.
pub struct Elector {
    caller: Caller,
    gate: Gate,
    options: LeaseOptions,
    wall: fn() -> Timestamp,
    told: fn(Timestamp, Instant),
    publish: watch::Sender<Leadership>,
    seen: Option<Seen>,
    term: u64,
}

/// How holding it ended.
enum Ended {
    Lost,
    Asked,
}

impl Elector {
    /// Opens and closes `gate`. It talks through connections and a breaker of its own, so that what happens to other
    /// calls doesn't cost the lease. `wall` is written into the lease for people; nothing is decided from it.
    #[must_use]
    pub fn new(
        client: kube::Client,
        gate: Gate,
        options: LeaseOptions,
        wall: fn() -> Timestamp,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (publish, seen) = watch::channel(Leadership::Following { holder: None });
        let caller = Caller::over(client, Gate::always());
        (Self { caller, gate, options, wall, told: |_, _| {}, publish, seen: None, term: 0 }, seen)
    }

    /// Tells what the API server's clock shows whenever it answers: at least once before this process leads, and with
    /// every renewal.
    #[must_use]
    pub fn telling(mut self, told: fn(Timestamp, Instant)) -> Self {
        self.told = told;
        self
    }

    /// Runs until `shutdown`, then lets go of the lease, so that another takes it at once.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let taken = tokio::select! {
                () = &mut shutdown => break,
                taken = self.follow() => taken,
            };
            self.term += 1;
            tracing::info!(holder = self.options.holder, term = self.term, "leading");
            self.publish.send_replace(Leadership::Leading { term: self.term });
            let ended = self.lead(taken, shutdown.as_mut()).await;
            self.gate.close();
            let holder = self.seen.as_ref().and_then(|seen| seen.record.holder.clone());
            let holder = holder.filter(|holder| *holder != self.options.holder);
            tracing::warn!(?holder, "not leading any more");
            self.publish.send_replace(Leadership::Following { holder });
            if matches!(ended, Ended::Asked) {
                break;
            }
        }
    }

    /// Looks until the lease was taken; the record as it was written comes back, with the begin of the writing.
    async fn follow(&mut self) -> (Record, Instant) {
        loop {
            let begun = Instant::now();
            match self.look_and_take().await {
                Ok(Some(taken)) => {
                    self.gate.open_until(begun + self.options.deadline);
                    return (taken, begun);
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the lease can't be looked at"),
            }
            sleep(self.options.look).await;
        }
    }

    async fn look_and_take(&mut self) -> Result<Option<Record>, CallError> {
        let Some(record) = self.read().await? else {
            let first = Record::first(&self.options, (self.wall)());
            let uri = Kind::LEASE.all(Some(&self.options.namespace));
            let made = within(self.caller.create::<Value>(&uri, &first.object(&self.options))).await;
            return match made {
                Ok(object) => Ok(Some(Record::read(&object)?)),
                Err(error) if error.is_conflict() => Ok(None),
                Err(error) => Err(error),
            };
        };
        let now = Instant::now();
        let seen = Seen::again(self.seen.take(), record.clone(), now);
        let (free, holder) =
            (seen.is_free(&self.options.holder, self.options.duration, now), record.holder.clone());
        self.seen = Some(seen);
        self.publish.send_if_modified(|known| {
            let new = Leadership::Following { holder };
            let changed = *known != new;
            *known = new;
            changed
        });
        if !free {
            return Ok(None);
        }
        let taken = record.taken(&self.options, (self.wall)());
        match self.write(&taken).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews until it is lost or let go.
    async fn lead(
        &mut self,
        (mut record, mut good): (Record, Instant),
        mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
    ) -> Ended {
        let mut pause = self.options.renew;
        // What was sent since the last answer: one of these may have arrived.
        let mut sent: Vec<Record> = Vec::new();
        loop {
            let until = good + self.options.deadline;
            tokio::select! {
                () = shutdown.as_mut() => {
                    // Nothing is written from here on, and only then somebody else is let in.
                    self.gate.close();
                    self.release(&record).await;
                    return Ended::Asked;
                }
                () = tokio::time::sleep_until(until) => return Ended::Lost,
                () = sleep(pause) => {}
            }
            let begun = Instant::now();
            if begun >= until {
                // The process was stopped: others may have led meanwhile.
                return Ended::Lost;
            }
            let renewed = record.renewed(&self.options, (self.wall)());
            let error = match self.write(&renewed).await {
                Ok(written) => {
                    (record, good) = (written, begun);
                    self.gate.open_until(good + self.options.deadline);
                    pause = self.options.renew;
                    sent.clear();
                    continue;
                }
                Err(error) => error,
            };
            tracing::warn!(%error, "the lease couldn't be renewed");
            pause = RETRY;
            sent.push(renewed);
            // An own renewal whose answer was lost, or somebody's annotation: it goes on from there. Anything else, be
            // it the own name with other times, means that somebody has put a backup back or leads.
            if let Ok(now) = self.read().await {
                let own = |now: &Record| sent.iter().chain([&record]).any(|known| known.is_same_renewal(now));
                match now.filter(own) {
                    Some(now) => record = now,
                    None => return Ended::Lost,
                }
            }
        }
    }

    /// Lets go of it. Whether that arrives doesn't matter much: it runs out otherwise.
    async fn release(&self, record: &Record) {
        let released = record.released(&self.options, (self.wall)());
        if let Err(error) = self.write(&released).await {
            tracing::warn!(%error, "the lease couldn't be released; it runs out by itself");
        }
    }

    fn tell(&self) {
        if let Some((at, received)) = self.caller.told() {
            (self.told)(at, received);
        }
    }

    async fn read(&self) -> Result<Option<Record>, CallError> {
        let answer = within(self.caller.get::<Value>(&self.uri())).await;
        self.tell();
        match answer {
            Ok(object) => Record::read(&object).map(Some),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, record: &Record) -> Result<Record, CallError> {
        let object = record.object(&self.options);
        let answer = within(self.caller.replace::<Value>(&self.uri(), &object)).await;
        self.tell();
        Record::read(&answer?)
    }

    fn uri(&self) -> String {
        Kind::LEASE.one(Some(&self.options.namespace), &self.options.name)
    }
}

async fn within<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    timeout(CALL, call).await.unwrap_or(Err(CallError::Timeout(CALL)))
}
