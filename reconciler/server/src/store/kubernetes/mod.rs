//! The ledger in a cluster, and on the local disk what only screens need: events, and what is remembered of the ledger.
//!
//! The cluster is the truth. [`KubernetesStore`] keeps a copy in memory that moves only after a commit was made there;
//! a local disk that is lost costs the history on the screens, never a decision.

mod opening;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use drydock_cluster::client::{CallError, Caller};
use drydock_cluster::ledger::{Home, Kept, LedgerError, Place};
use drydock_plan::Ledger;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::{
    Event, EventKind, KeptSource, Known, LedgerNotice, LedgerStore, NewEvent, Prepared, Store, StoreError,
};
use crate::clock::wall;

/// How a ledger in a cluster is opened.
#[derive(Debug, Clone)]
pub struct KubernetesOptions {
    /// The local file with events; `None`: in memory.
    pub local: Option<PathBuf>,
    /// Namespace of the ledger.
    pub namespace: String,
    /// As whom it is written: a name for people and something random, unique to this process and run.
    pub holder: String,
    /// A person has looked at a ledger that went back in time and says to go on from it. It holds for this opening.
    pub accept_restored: bool,
    /// The other clusters: nodes' records lie there when the ledger has to be made again.
    pub others: Vec<Caller>,
    /// The wall clock, for the times of events.
    pub wall: fn() -> Timestamp,
}

impl KubernetesOptions {
    /// With the local file at this place.
    #[must_use]
    pub fn new(local: PathBuf, namespace: impl Into<String>) -> Self {
        Self { local: Some(local), ..Self::in_memory(namespace) }
    }
    /// With nothing on the local disk.
    #[must_use]
    pub fn in_memory(namespace: impl Into<String>) -> Self {
        Self {
            local: None,
            namespace: namespace.into(),
            holder: format!("drydock-{}", std::process::id()),
            accept_restored: false,
            others: Vec::new(),
            wall,
        }
    }
}

/// The ledger in a cluster, held by this process.
pub struct KubernetesStore {
    home: Home,
    local: Store,
    wall: fn() -> Timestamp,
    handle: Handle,
    /// The ledger as committed last.
    mirror: Mutex<Arc<Ledger>>,
    standing: Mutex<Standing>,
    /// Held over a commit: one at a time.
    held: tokio::sync::Mutex<Held>,
}

/// What a commit starts from.
#[derive(Debug)]
struct Held {
    /// Absent while there is no ledger that may be written.
    place: Option<Place>,
    known: Known,
}

/// Whether decisions may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Good,
    /// It isn't known what became of the last commit: the ledger is read again before the next decision.
    Unsettled,
    WentBack {
        known: u64,
        found: u64,
        another: bool,
    },
    Fenced {
        holder: String,
    },
}

impl Standing {
    fn error(&self) -> Option<StoreError> {
        match self.clone() {
            Self::Good | Self::Unsettled => None,
            Self::WentBack { known, found, another } => Some(StoreError::WentBack { known, found, another }),
            Self::Fenced { holder } => Some(StoreError::Fenced { holder }),
        }
    }
}

/// How a ledger in the cluster stands to what is remembered of it.
fn compare(known: &Known, lineage: &str, revision: u64) -> Standing {
    let another = known.lineage != lineage;
    if another || revision < known.revision {
        Standing::WentBack { known: known.revision, found: revision, another }
    } else {
        Standing::Good
    }
}

impl std::fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesStore").field("home", &self.home).finish_non_exhaustive()
    }
}

impl KubernetesStore {
    /// Everything of it that is on the local disk.
    #[must_use]
    pub fn local(&self) -> &Store {
        &self.local
    }

    fn standing(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn stand(&self, standing: Standing) {
        if let Standing::WentBack { known, found, .. } = standing {
            tracing::error!(
                known,
                found,
                "the ledger went back in time; nothing is done until a person accepts it"
            );
            let what = EventKind::Ledger { notice: LedgerNotice::WentBack { known, found } };
            self.tell(self.local.record(&[NewEvent { at: (self.wall)(), what }]));
        }
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }
    fn show(&self, ledger: Arc<Ledger>) {
        *self.mirror.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
    }

    /// What is on the local disk is for screens; when it can't be written that is said, and nothing waits for it.
    #[expect(clippy::unused_self, reason = "reads like what it belongs to")]
    fn tell(&self, written: Result<(), StoreError>) {
        if let Err(error) = written {
            tracing::error!(%error, "the local history can't be written");
        }
    }

    async fn commit_at_home(&self, prepared: &Prepared, events: &[NewEvent]) -> Result<u64, StoreError> {
        let mut held = self.held.lock().await;
        self.settle(&mut held).await?;
        let before = self.ledger();
        if before.revision != prepared.parent {
            return Err(StoreError::Conflict { expected: prepared.parent, found: before.revision });
        }
        if prepared.changes.is_empty() {
            self.local.record(events)?;
            return Ok(before.revision);
        }
        let Some(place) = &held.place else { return Err(StoreError::NotLeading { holder: None }) };
        match self.home.commit(place, &prepared.changes, &prepared.after).await {
            Ok(place) => {
                held.known = Known { lineage: place.head.lineage.clone(), revision: prepared.after.revision };
                held.place = Some(place);
                self.show(Arc::clone(&prepared.after));
                self.tell(self.local.note(&held.known, events));
                Ok(prepared.after.revision)
            }
            Err(error) if error.is_not_leading() => Err(StoreError::NotLeading { holder: None }),
            Err(error @ (LedgerError::Conflict | LedgerError::Absent { .. })) => {
                tracing::info!(%error, "looking at the ledger again");
                self.stand(Standing::Unsettled);
                self.settle(&mut held).await?;
                Err(StoreError::Conflict { expected: prepared.parent, found: self.ledger().revision })
            }
            Err(error) => {
                if matches!(error, LedgerError::Unsettled(_)) {
                    self.stand(Standing::Unsettled);
                }
                Err(error.into())
            }
        }
    }

    /// Reads the ledger again where that is due; then it is known whether decisions may be made.
    async fn settle(&self, held: &mut Held) -> Result<(), StoreError> {
        if self.standing() == Standing::Unsettled {
            let loaded = self.home.load().await?;
            let Some((place, ledger)) = loaded else {
                held.place = None;
                let (known, found) = (held.known.revision, 0);
                self.stand(Standing::WentBack { known, found, another: false });
                return Err(StoreError::WentBack { known, found, another: false });
            };
            let standing = match compare(&held.known, &place.head.lineage, ledger.revision) {
                Standing::Good if place.head.holder != self.home.holder() => {
                    Standing::Fenced { holder: place.head.holder.clone() }
                }
                standing => standing,
            };
            self.show(Arc::new(ledger));
            if standing == Standing::Good {
                held.known.revision = place.head.revision;
                self.tell(self.local.note(&held.known, &[]));
                held.place = Some(place);
            } else {
                held.place = None;
            }
            self.stand(standing);
        }
        self.standing().error().map_or(Ok(()), Err)
    }
}

impl LedgerStore for KubernetesStore {
    fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.mirror.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ready(&self) -> Result<(), StoreError> {
        if self.standing() == Standing::Unsettled {
            return self.handle.block_on(async { self.settle(&mut *self.held.lock().await).await });
        }
        if let Some(error) = self.standing().error() {
            return Err(error);
        }
        // What would be refused at the first write isn't begun at all.
        if self.home.caller().gate().is_open() {
            Ok(())
        } else {
            Err(StoreError::NotLeading { holder: None })
        }
    }

    fn commit_prepared(&self, prepared: &Prepared, events: &[NewEvent]) -> Result<u64, StoreError> {
        self.handle.block_on(self.commit_at_home(prepared, events))
    }

    fn record(&self, events: &[NewEvent]) -> Result<(), StoreError> {
        self.local.record(events)
    }
    fn events_after(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.local.events_after(after, limit)
    }
    fn events_before(&self, before: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.local.events_before(before, limit)
    }
    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.local.subscribe()
    }

    fn keep_source(&self, kept: &KeptSource, events: &[NewEvent]) -> Result<(), StoreError> {
        self.local.keep_source(kept, events)?;
        let kept = Kept { commit: kept.commit.clone(), files: kept.files.clone() };
        match self.handle.block_on(self.home.keep(&kept)) {
            Ok(()) => Ok(()),
            // The next leader reads Git itself.
            Err(LedgerError::Call { error: CallError::NotLeading, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
    fn kept_source(&self) -> Result<Option<KeptSource>, StoreError> {
        self.local.kept_source()
    }
}
