//! Reading the ledger and committing to it.

use std::sync::atomic::{AtomicU64, Ordering};

use drydock_api::names;
use drydock_plan::{Ledger, LedgerChange};
use serde_json::Value;

use super::head::{self, FORMAT, Head, OLDEST_READER, Place};
use super::{LedgerError, PageRef, journal, pages::Pages};
use crate::client::{CallError, Caller, Kind};

/// Largest compressed journal, in bytes; beyond it the whole ledger is written as pages.
pub const MAX_JOURNAL: usize = journal::JOURNAL_MAX;

/// Readings of a head whose pages went away meanwhile: somebody compacted in between. Twice in a row is chance, more
/// is a lost page.
const READINGS: usize = 4;

/// Where the ledger is kept, and as whom this process writes it.
#[derive(Debug)]
pub struct Home {
    caller: Caller,
    namespace: String,
    /// Unique to this process: its commit ids begin with it.
    holder: String,
    attempts: AtomicU64,
}

/// What came of replacing the head.
enum Written {
    Yes(Place),
    /// Somebody else's head is there.
    Lost,
    /// The head is as it was.
    Unchanged(CallError),
}

impl Home {
    /// In this namespace of the cluster that `caller` talks to. `holder` must be unique to this process and run: a name
    /// for people and something random.
    #[must_use]
    pub fn new(caller: Caller, namespace: impl Into<String>, holder: impl Into<String>) -> Self {
        Self { caller, namespace: namespace.into(), holder: holder.into(), attempts: AtomicU64::new(0) }
    }

    /// As whom it writes.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }
    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
    /// The cluster.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The ledger as it is now; `None` when there is no head.
    ///
    /// # Errors
    /// When the API server doesn't answer, or something is damaged or missing. Never an empty ledger instead.
    pub async fn load(&self) -> Result<Option<(Place, Ledger)>, LedgerError> {
        let mut before: Option<Vec<PageRef>> = None;
        for reading in 1.. {
            let Some(place) = self.head().await? else { return Ok(None) };
            let missing = match self.read(&place).await {
                Ok(ledger) => return Ok(Some((place, ledger))),
                Err(error @ LedgerError::MissingPage { .. }) => error,
                Err(error) => return Err(error),
            };
            // Somebody may have compacted between the two readings; then the head names others now.
            if before.as_ref() == Some(&place.head.pages) || reading == READINGS {
                return Err(missing);
            }
            before = Some(place.head.pages);
        }
        Ok(None)
    }

    /// The head as it is now, without its pages.
    ///
    /// # Errors
    /// When the API server doesn't answer or the head is damaged.
    pub async fn head(&self) -> Result<Option<Place>, LedgerError> {
        match self.caller.get::<Value>(&self.uri()).await {
            Ok(object) => Place::read(&object, &self.namespace, names::LEDGER).map(Some),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(LedgerError::Call { doing: "reading the ledger", error }),
        }
    }

    /// The ledger that a head stands for.
    async fn read(&self, place: &Place) -> Result<Ledger, LedgerError> {
        let head = &place.head;
        let mut ledger = if head.pages.is_empty() {
            Ledger::default()
        } else {
            journal::read_snapshot(&self.pages().read(&head.pages).await?)?
        };
        let check = |found: u64, says: u64, what: &str| {
            let text = format!("the head says revision {says}, {what} is at {found}");
            if found == says { Ok(()) } else { Err(LedgerError::damaged("the ledger", text)) }
        };
        check(ledger.revision, head.base, "what is in the pages")?;
        journal::replay(&mut ledger, &place.journal)?;
        check(ledger.revision, head.revision, "what is in the journal")?;
        Ok(ledger)
    }

    /// Makes the first head, for this ledger.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] when there is one already.
    pub async fn create(&self, ledger: &Ledger, lineage: &str) -> Result<Place, LedgerError> {
        let pages = if *ledger == Ledger::default() {
            Vec::new()
        } else {
            self.pages().write(ledger.revision, &journal::snapshot(ledger)?).await?
        };
        let head = Head {
            format: FORMAT,
            oldest_reader: OLDEST_READER,
            lineage: lineage.to_owned(),
            revision: ledger.revision,
            commit: self.next_commit(),
            holder: self.holder.clone(),
            base: ledger.revision,
            pages,
        };
        let object = head::object(&head, &[], &self.namespace, names::LEDGER)?;
        let uri = Kind::CONFIG_MAP.all(Some(&self.namespace));
        let created = self.caller.create::<Value>(&uri, &object).await;
        match created {
            Ok(object) => Place::read(&object, &self.namespace, names::LEDGER),
            Err(error) if error.is_conflict() || error.is_ambiguous() => match self.head().await? {
                Some(place) if place.head.commit == head.commit => Ok(place),
                Some(_) => Err(LedgerError::Conflict),
                None => Err(LedgerError::Unsettled(error)),
            },
            Err(error) => Err(LedgerError::Call { doing: "making the ledger", error }),
        }
    }

    /// Takes the ledger over: the head carries this holder's name from now on, and whatever another process still tries
    /// from what it knew is a conflict.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] when it was written in between.
    pub async fn take(&self, place: &Place) -> Result<Place, LedgerError> {
        let head = Head { holder: self.holder.clone(), commit: self.next_commit(), ..place.head.clone() };
        self.replace(place, &head, &place.journal).await
    }

    /// Commits `changes`, made from the ledger at `place`; `after` is the ledger with them.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] when somebody else has written the head: nothing of ours was.
    pub async fn commit(
        &self,
        place: &Place,
        changes: &[LedgerChange],
        after: &Ledger,
    ) -> Result<Place, LedgerError> {
        let longer = journal::append(&place.journal, changes)?;
        if longer.len() > MAX_JOURNAL {
            return self.compact(place, after).await;
        }
        let head = Head {
            format: FORMAT.max(place.head.format),
            oldest_reader: OLDEST_READER.max(place.head.oldest_reader),
            revision: after.revision,
            commit: self.next_commit(),
            holder: self.holder.clone(),
            ..place.head.clone()
        };
        self.replace(place, &head, &longer).await
    }

    /// Replaces whatever is at `place` with this ledger, as pages.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] when somebody else has written the head: pages of ours may be left, and are deleted
    /// at the next time.
    pub async fn compact(&self, place: &Place, ledger: &Ledger) -> Result<Place, LedgerError> {
        let pages = self.pages().write(ledger.revision, &journal::snapshot(ledger)?).await?;
        let head = Head {
            format: FORMAT.max(place.head.format),
            oldest_reader: OLDEST_READER.max(place.head.oldest_reader),
            revision: ledger.revision,
            commit: self.next_commit(),
            holder: self.holder.clone(),
            base: ledger.revision,
            pages,
            lineage: place.head.lineage.clone(),
        };
        let new = self.replace(place, &head, &[]).await?;
        // Only after the head: a crash in between leaves pages too many, never too few.
        if let Err(error) = self.pages().sweep(new.head.base, &new.head.pages).await {
            tracing::warn!(%error, "old pages of the ledger are left for the next time");
        }
        Ok(new)
    }

    async fn replace(&self, place: &Place, head: &Head, journal: &[u8]) -> Result<Place, LedgerError> {
        let object = place.replacement(head, journal, &self.namespace, names::LEDGER)?;
        // The second time only when the first is known not to have been carried out so far. Should it be carried out
        // late all the same, one of the two finds the other's work there, and both are the same.
        let mut last = None;
        for _ in 0..2 {
            match self.try_replace(place, head, &object).await? {
                Written::Yes(place) => return Ok(place),
                Written::Lost => return Err(LedgerError::Conflict),
                Written::Unchanged(error) => last = Some(error),
            }
        }
        Err(LedgerError::Unsettled(last.unwrap_or(CallError::NotLeading)))
    }

    async fn try_replace(&self, place: &Place, head: &Head, object: &Value) -> Result<Written, LedgerError> {
        let error = match self.caller.replace::<Value>(&self.uri(), object).await {
            Ok(object) => return Place::read(&object, &self.namespace, names::LEDGER).map(Written::Yes),
            Err(error) if error.is_absent() => return Err(self.absent()),
            Err(error) if error.is_conflict() || error.is_ambiguous() => error,
            Err(error) => return Err(LedgerError::Call { doing: "writing the ledger", error }),
        };
        // What is there now decides; the answer alone doesn't.
        let now = match self.head().await {
            Ok(Some(now)) => now,
            Ok(None) => return Err(self.absent()),
            Err(_) => return Err(LedgerError::Unsettled(error)),
        };
        Ok(if now.head.commit == head.commit {
            Written::Yes(now)
        } else if now.resource_version == place.resource_version {
            Written::Unchanged(error)
        } else {
            Written::Lost
        })
    }

    fn absent(&self) -> LedgerError {
        LedgerError::Absent { namespace: self.namespace.clone(), name: names::LEDGER.to_owned() }
    }

    fn next_commit(&self) -> String {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.holder)
    }

    fn uri(&self) -> String {
        Kind::CONFIG_MAP.one(Some(&self.namespace), names::LEDGER)
    }

    fn pages(&self) -> Pages<'_> {
        Pages { caller: &self.caller, namespace: &self.namespace, of: names::LEDGER }
    }
}
