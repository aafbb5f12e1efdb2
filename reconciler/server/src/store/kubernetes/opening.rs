//! Opening: reading the ledger, judging whether it is what it was, and taking it over.

use std::sync::{Arc, Mutex};

use drydock_cluster::client::Caller;
use drydock_cluster::ledger::{Home, LedgerError, Place, Rebuilt, gather, rebuild, stride};
use drydock_plan::Ledger;
use tokio::runtime::Handle;

use super::{Held, KubernetesOptions, KubernetesStore, Standing, compare};
use crate::store::{EventKind, KeptSource, Known, LedgerNotice, NewEvent, Store, StoreError};

/// Lost races in a row before opening is given up: every one means that somebody else took the ledger just then.
const RACES: usize = 5;

/// What was found, and what is to be told of it.
struct Opened {
    place: Option<Place>,
    ledger: Ledger,
    known: Known,
    standing: Standing,
    notice: Option<LedgerNotice>,
}

impl KubernetesStore {
    /// Reads the ledger and takes it over: from now on a commit of any other process is a conflict. Call it in a Tokio
    /// runtime, after the lease was taken, with a caller whose gate the lease opens.
    ///
    /// A ledger that went back in time is no error here: the store opens, shows it, and isn't
    /// [`ready`](crate::store::LedgerStore::ready), so that screens can say why.
    ///
    /// # Errors
    /// When the cluster doesn't answer, something of the ledger is damaged or missing, this process doesn't lead, or
    /// the local file can't be used.
    pub async fn open(caller: Caller, options: KubernetesOptions) -> Result<Self, StoreError> {
        let local = match &options.local {
            Some(path) => Store::open(path)?,
            None => Store::in_memory()?,
        };
        let home = Home::new(caller, options.namespace.clone(), options.holder.clone());
        let known = local.known()?;
        let mut races = 0;
        let opened = loop {
            match take(&home, known.as_ref(), &options).await {
                Err(LedgerError::Conflict) if races < RACES => races += 1,
                Err(error) if error.is_not_leading() => return Err(StoreError::NotLeading { holder: None }),
                opened => break opened?,
            }
        };
        let store = Self {
            home,
            local,
            wall: options.wall,
            handle: Handle::current(),
            mirror: Mutex::new(Arc::new(opened.ledger)),
            standing: Mutex::new(Standing::Good),
            held: tokio::sync::Mutex::new(Held { place: opened.place, known: opened.known.clone() }),
        };
        if opened.standing == Standing::Good {
            let news = opened.notice.map(|notice| {
                tracing::warn!(?notice, "the ledger isn't simply what it was before");
                NewEvent { at: (store.wall)(), what: EventKind::Ledger { notice } }
            });
            // What isn't remembered can't be noticed later, so this one is not only told.
            store.local.note(&opened.known, news.as_slice())?;
        } else {
            store.stand(opened.standing);
        }
        store.bring_source().await;
        Ok(store)
    }

    /// The last good commit as another process has kept it: this disk may be fresh, or older.
    async fn bring_source(&self) {
        match self.home.kept().await {
            Ok(Some(kept)) => {
                let kept = KeptSource { commit: kept.commit, files: kept.files };
                let same = matches!(self.local.kept_source(), Ok(Some(own)) if own == kept);
                if !same {
                    self.tell(self.local.keep_source(&kept, &[]));
                }
            }
            Ok(None) => {}
            // Git says the same in a moment, and what is on the disk is better than nothing.
            Err(error) => tracing::warn!(%error, "the last good commit can't be read from the cluster"),
        }
    }
}

async fn take(
    home: &Home,
    known: Option<&Known>,
    options: &KubernetesOptions,
) -> Result<Opened, LedgerError> {
    match home.load().await? {
        Some((place, ledger)) => take_found(home, known, options, place, ledger).await,
        None => begin(home, known, options).await,
    }
}

async fn take_found(
    home: &Home,
    known: Option<&Known>,
    options: &KubernetesOptions,
    place: Place,
    mut ledger: Ledger,
) -> Result<Opened, LedgerError> {
    let found = ledger.revision;
    let standing = known.map_or(Standing::Good, |known| compare(known, &place.head.lineage, found));
    let now = |place: &Place, ledger: &Ledger| Known {
        lineage: place.head.lineage.clone(),
        revision: ledger.revision,
    };
    match (standing, known) {
        (Standing::WentBack { .. }, Some(known)) if options.accept_restored => {
            // Revisions, epochs and generations go on from above what anybody has seen.
            ledger.revision = found.max(known.revision).saturating_add(1);
            stride(&mut ledger);
            let place = home.compact(&place, &ledger).await?;
            let notice = Some(LedgerNotice::Accepted { known: known.revision, found });
            Ok(Opened {
                known: now(&place, &ledger),
                place: Some(place),
                ledger,
                standing: Standing::Good,
                notice,
            })
        }
        (standing @ Standing::WentBack { .. }, Some(known)) => {
            Ok(Opened { place: None, ledger, known: known.clone(), standing, notice: None })
        }
        (standing, _) => {
            let place = home.take(&place).await?;
            Ok(Opened { known: now(&place, &ledger), place: Some(place), ledger, standing, notice: None })
        }
    }
}

/// There is no head: the first start, or somebody has deleted it.
async fn begin(
    home: &Home,
    known: Option<&Known>,
    options: &KubernetesOptions,
) -> Result<Opened, LedgerError> {
    let (nodes, rollouts) = gather(home.caller(), home.namespace(), &options.others).await?;
    let rebuilt = rebuild(&nodes, &rollouts)?;
    let found = rebuilt.as_ref().map_or(0, |rebuilt| rebuilt.ledger.revision);
    if let Some(known) = known.filter(|_| !options.accept_restored) {
        let standing = Standing::WentBack { known: known.revision, found, another: false };
        let ledger = rebuilt.map(|rebuilt| rebuilt.ledger).unwrap_or_default();
        return Ok(Opened { place: None, ledger, known: known.clone(), standing, notice: None });
    }
    let (mut ledger, notice) = match rebuilt {
        Some(Rebuilt { ledger, notes }) => {
            let (nodes, rollouts) = (ledger.nodes.len(), ledger.rollouts.len());
            (ledger, Some(LedgerNotice::Rebuilt { nodes, rollouts, notes }))
        }
        None => (Ledger::default(), None),
    };
    let notice = notice.or(known.map(|known| LedgerNotice::Accepted { known: known.revision, found }));
    if let Some(known) = known {
        ledger.revision = ledger.revision.max(known.revision.saturating_add(1));
    }
    // The holder is unique to this process and run, so this is unique to this beginning.
    let lineage = format!("{} {}", options.holder, (options.wall)());
    let place = home.create(&ledger, &lineage).await?;
    let known = Known { lineage, revision: ledger.revision };
    Ok(Opened { place: Some(place), ledger, known, standing: Standing::Good, notice })
}
