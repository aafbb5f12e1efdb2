//! Where the ledger is kept, behind [`LedgerStore`]: on disk in `ledger.redb` ([`Store`]), or in a cluster
//! ([`KubernetesStore`]).
//!
//! Every commit is one transaction with compare-and-swap on the revision, and is durable before it returns. The file is
//! the truth; [`Store`] keeps a copy in memory that moves only after the transaction has, so that a planning pass over
//! 30,000 records needs no parsing.

mod codec;
mod error;
mod event;
mod known;
mod kubernetes;
mod ledger_store;
mod tables;
mod world;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drydock_plan::{CommitRef, Ledger, LedgerChange};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};
use tokio::sync::broadcast;

pub use error::StoreError;
pub use event::{Event, EventKind, LedgerNotice, NewEvent};
pub use known::Known;
pub use kubernetes::{KubernetesOptions, KubernetesStore};
pub use ledger_store::LedgerStore;
pub use world::{WorldStore, WorldWrite};

use tables::{Failed, Trouble, while_};

/// Events kept. A rollout of 3,000 nodes makes about 30,000 node events over days; the newest third is what a reader
/// that lost its connection wants, and rollouts keep their own history.
pub const EVENTS_KEPT: u64 = 10_000;

/// Live events that wait for a reader before it counts as slow.
const FEED_QUEUE: usize = 1024;

/// The largest cache of the database. The copy in memory answers reads; this only has to hold what a commit touches.
const CACHE_BYTES: usize = 16 << 20;

/// Files of the last good commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSource {
    /// The commit.
    pub commit: CommitRef,
    /// Its files by path, exactly as committed.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Changes together with what the ledger is after them; made only by applying them, so the two can't differ.
#[derive(Debug, Clone)]
pub struct Prepared {
    parent: u64,
    changes: Vec<LedgerChange>,
    after: Arc<Ledger>,
}

impl Prepared {
    /// Applies `changes` to a copy of `before`.
    #[must_use]
    pub fn new(before: &Arc<Ledger>, changes: Vec<LedgerChange>) -> Self {
        let parent = before.revision;
        let mut after = Arc::clone(before);
        if !changes.is_empty() {
            let ledger = Arc::make_mut(&mut after);
            changes.iter().cloned().for_each(|change| ledger.apply(change));
        }
        Self { parent, changes, after }
    }
    /// The ledger with the changes.
    #[must_use]
    pub fn after(&self) -> &Arc<Ledger> {
        &self.after
    }
    /// The changes.
    #[must_use]
    pub fn changes(&self) -> &[LedgerChange] {
        &self.changes
    }
}

/// The ledger and its events, on disk.
pub struct Store {
    path: PathBuf,
    database: Database,
    mirror: Mutex<Arc<Ledger>>,
    feed: broadcast::Sender<Arc<Event>>,
}

impl Store {
    /// Opens or makes the file at `path`.
    ///
    /// # Errors
    /// When it is in use, damaged, or written by a newer drydock that this one would misread.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = open_file(path)?;
        Self::over(path.to_owned(), database)
    }

    /// A store that is gone when it is dropped.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from("(memory)");
        let database = in_memory(&path)?;
        Self::over(path, database)
    }

    fn over(path: PathBuf, database: Database) -> Result<Self, StoreError> {
        prepare(&path, &database, tables::create_all)?;
        let ledger = read(&path, &database, tables::read_ledger)?;
        Ok(Self {
            path,
            database,
            mirror: Mutex::new(Arc::new(ledger)),
            feed: broadcast::Sender::new(FEED_QUEUE),
        })
    }

    /// The ledger as committed last.
    #[must_use]
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.lock())
    }

    /// The ledger as it is on disk.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn load(&self) -> Result<Ledger, StoreError> {
        read(&self.path, &self.database, tables::read_ledger)
    }

    /// Commits changes that were made from revision `parent`, and events about them; the new revision comes back.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody else has committed in between.
    pub fn commit(
        &self,
        parent: u64,
        changes: &[LedgerChange],
        events: &[NewEvent],
    ) -> Result<u64, StoreError> {
        let before = self.ledger();
        if before.revision != parent {
            return Err(StoreError::Conflict { expected: parent, found: before.revision });
        }
        self.commit_prepared(&Prepared::new(&before, changes.to_vec()), events)
    }

    /// Like [`Store::commit`], for whoever needed the ledger with the changes beforehand.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody else has committed in between.
    pub fn commit_prepared(&self, prepared: &Prepared, events: &[NewEvent]) -> Result<u64, StoreError> {
        // Held over the transaction: the copy must not be seen older than what another thread has just committed.
        let mut mirror = self.lock();
        if prepared.changes.is_empty() && events.is_empty() {
            return match mirror.revision {
                same if same == prepared.parent => Ok(same),
                found => Err(StoreError::Conflict { expected: prepared.parent, found }),
            };
        }
        let stored = self.write(|txn| {
            check_revision(txn, prepared.parent)?;
            for change in &prepared.changes {
                tables::write_change(txn, change)?;
            }
            set_meta(txn, tables::REVISION, prepared.after.revision)?;
            append(txn, events)
        });
        match stored {
            Ok(stored) => {
                *mirror = Arc::clone(&prepared.after);
                drop(mirror);
                self.announce(stored);
                Ok(prepared.after.revision)
            }
            Err(error) => {
                if matches!(error, StoreError::Conflict { .. }) {
                    *mirror = Arc::new(self.load()?);
                }
                Err(error)
            }
        }
    }

    /// Stores events that aren't about a change of the ledger.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn record(&self, events: &[NewEvent]) -> Result<(), StoreError> {
        if !events.is_empty() {
            let stored = self.write(|txn| append(txn, events))?;
            self.announce(stored);
        }
        Ok(())
    }

    /// At most `limit` events after the one numbered `after`, in order.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn events_after(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        read(&self.path, &self.database, |txn| tables::events_after(txn, after, limit))
    }

    /// At most `limit` events before the one numbered `before`, newest first.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn events_before(&self, before: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        read(&self.path, &self.database, |txn| tables::events_before(txn, before, limit))
    }

    /// Events as they are stored. A reader that is more than 1,024 behind is told so and reads [`Store::events_after`].
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.feed.subscribe()
    }

    /// Replaces the kept files of the last good commit, all or nothing.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn keep_source(&self, kept: &KeptSource, events: &[NewEvent]) -> Result<(), StoreError> {
        let stored = self.write(|txn| {
            let doing = "keeping the last good commit";
            txn.delete_table(tables::DESIRED).map_err(while_(doing))?;
            let mut table = txn.open_table(tables::DESIRED).map_err(while_(doing))?;
            let commit = codec::encode("desired", COMMIT_KEY, &kept.commit)?;
            table.insert(COMMIT_KEY, commit.as_slice()).map_err(while_(doing))?;
            for (path, bytes) in &kept.files {
                table.insert(path.as_str(), bytes.as_slice()).map_err(while_(doing))?;
            }
            drop(table);
            append(txn, events)
        })?;
        self.announce(stored);
        Ok(())
    }

    /// The kept files of the last good commit; absent before the first.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn kept_source(&self) -> Result<Option<KeptSource>, StoreError> {
        read(&self.path, &self.database, |txn| {
            let doing = "reading the last good commit";
            let table = txn.open_table(tables::DESIRED).map_err(while_(doing))?;
            let (mut commit, mut files) = (None, Vec::new());
            for entry in table.iter().map_err(while_(doing))? {
                let (path, bytes) = entry.map_err(while_(doing))?;
                match path.value() {
                    COMMIT_KEY => commit = Some(codec::decode("desired", COMMIT_KEY, bytes.value())?),
                    path => files.push((path.to_owned(), bytes.value().to_vec())),
                }
            }
            Ok(commit.map(|commit| KeptSource { commit, files }))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Ledger>> {
        // The guarded value is replaced whole, so a panic elsewhere can't have left it half changed.
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, events: Vec<Event>) {
        for event in events {
            // Nobody listening is fine: the events are stored.
            let _ = self.feed.send(Arc::new(event));
        }
    }

    fn write<T>(&self, body: impl FnOnce(&WriteTransaction) -> Result<T, Failed>) -> Result<T, StoreError> {
        write(&self.path, &self.database, body)
    }
}

/// No path is empty, so the commit stands beside the files.
const COMMIT_KEY: &str = "";

fn open_file(path: &Path) -> Result<Database, StoreError> {
    let failed = |error: redb::DatabaseError| StoreError::Database {
        path: path.to_owned(),
        doing: "opening",
        text: error.to_string(),
    };
    Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)
}

fn in_memory(path: &Path) -> Result<Database, StoreError> {
    let failed = |error: redb::DatabaseError| StoreError::Database {
        path: path.to_owned(),
        doing: "opening",
        text: error.to_string(),
    };
    Database::builder().create_with_backend(redb::backends::InMemoryBackend::new()).map_err(failed)
}

/// Refuses files of newer programs, stamps older ones and makes what is missing.
fn prepare(
    path: &Path,
    database: &Database,
    create: impl FnOnce(&WriteTransaction) -> Result<(), Failed>,
) -> Result<(), StoreError> {
    write(path, database, |txn| {
        let doing = "reading the format";
        let mut meta = txn.open_table(tables::META).map_err(while_(doing))?;
        let needs = meta.get(tables::NEEDED_FORMAT).map_err(while_(doing))?.map_or(0, |v| v.value());
        if needs > u64::from(codec::FORMAT) {
            let needs = u32::try_from(needs).unwrap_or(u32::MAX);
            return Err(StoreError::TooNew { path: path.to_owned(), needs, ours: codec::FORMAT }.into());
        }
        // Never lowered: what a newer program has written stays in the file.
        let written = meta.get(tables::WRITTEN_FORMAT).map_err(while_(doing))?.map_or(0, |v| v.value());
        let format = written.max(u64::from(codec::FORMAT));
        let needed = needs.max(u64::from(codec::OLDEST_READER));
        meta.insert(tables::WRITTEN_FORMAT, format).map_err(while_(doing))?;
        meta.insert(tables::NEEDED_FORMAT, needed).map_err(while_(doing))?;
        drop(meta);
        create(txn)
    })
}

fn read<T>(
    path: &Path,
    database: &Database,
    body: impl FnOnce(&redb::ReadTransaction) -> Result<T, Failed>,
) -> Result<T, StoreError> {
    let txn = database.begin_read().map_err(while_("beginning to read")).map_err(|f| place(path, f))?;
    body(&txn).map_err(|failed| place(path, failed))
}

fn write<T>(
    path: &Path,
    database: &Database,
    body: impl FnOnce(&WriteTransaction) -> Result<T, Failed>,
) -> Result<T, StoreError> {
    let run = || {
        let mut txn = database.begin_write().map_err(while_("beginning to write"))?;
        txn.set_durability(Durability::Immediate).map_err(while_("beginning to write"))?;
        // Dropping the transaction on an error takes everything back.
        let value = body(&txn)?;
        txn.commit().map_err(while_("committing"))?;
        Ok(value)
    };
    run().map_err(|failed| place(path, failed))
}

fn place(path: &Path, failed: Failed) -> StoreError {
    match failed {
        Failed::Store(error) => error,
        Failed::Database(Trouble(doing, error)) => {
            StoreError::Database { path: path.to_owned(), doing, text: error.to_string() }
        }
    }
}

fn check_revision(txn: &WriteTransaction, expected: u64) -> Result<(), Failed> {
    let meta = txn.open_table(tables::META).map_err(while_("reading the revision"))?;
    let found = meta.get(tables::REVISION).map_err(while_("reading the revision"))?.map_or(0, |v| v.value());
    if found == expected { Ok(()) } else { Err(StoreError::Conflict { expected, found }.into()) }
}

fn set_meta(txn: &WriteTransaction, key: &str, value: u64) -> Result<(), Failed> {
    let mut meta = txn.open_table(tables::META).map_err(while_("writing the revision"))?;
    meta.insert(key, value).map_err(while_("writing the revision"))?;
    Ok(())
}

/// Numbers events and forgets the oldest.
fn append(txn: &WriteTransaction, events: &[NewEvent]) -> Result<Vec<Event>, Failed> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let doing = "writing events";
    let mut meta = txn.open_table(tables::META).map_err(while_(doing))?;
    let mut number = meta.get(tables::NEXT_EVENT).map_err(while_(doing))?.map_or(1, |v| v.value());
    let mut table = txn.open_table(tables::EVENTS).map_err(while_(doing))?;
    let mut stored = Vec::with_capacity(events.len());
    for NewEvent { at, what } in events {
        let event = Event { number, at: *at, what: what.clone() };
        let bytes = codec::encode("events", &number.to_string(), &event)?;
        table.insert(number, bytes.as_slice()).map_err(while_(doing))?;
        stored.push(event);
        number += 1;
    }
    meta.insert(tables::NEXT_EVENT, number).map_err(while_(doing))?;
    let mut excess = table.len().map_err(while_(doing))?.saturating_sub(EVENTS_KEPT);
    while excess > 0 {
        table.pop_first().map_err(while_(doing))?;
        excess -= 1;
    }
    Ok(stored)
}
