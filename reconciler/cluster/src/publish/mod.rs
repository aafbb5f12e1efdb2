//! Publishing: what the ledger says, as `GpuNode` and `Rollout` objects, for people, for scripts, and to make the ledger
//! again from when it is lost.
//!
//! Publishing follows the ledger and never holds it up: facts go into a place that holds the newest only, one task per
//! cluster (and one for rollouts) compares them with what it has written and writes what is worth it. Begins and ends of
//! visits, quarantines and states of rollouts go out at once; the rest waits and is bounded (`purse`): on average four
//! requests for each upgraded node, all together. An object in between may show an older step; the dashboard doesn't.

mod conditions;
mod node;
mod nodes;
mod purse;
mod rollout;
mod rollouts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drydock_plan::{Inventory, Ledger, PlanReport, Reason};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::nodes::NodeDesk;
use self::purse::Purse;
use self::rollouts::RolloutDesk;
use crate::client::{CallError, Caller};

/// What is published from.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The instant they are about.
    pub now: Timestamp,
    /// What is intended.
    pub ledger: Arc<Ledger>,
    /// What was observed.
    pub inventory: Arc<Inventory>,
    /// Why what isn't moving isn't moving.
    pub report: Arc<PlanReport>,
}

/// The caller of a cluster, as far as it can be connected to.
pub type Callers = Arc<dyn Fn(&str) -> Option<Caller> + Send + Sync>;

/// A reason as a sentence.
pub type Words = Arc<dyn Fn(&Reason) -> String + Send + Sync>;

/// How publishing stands in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// What was worth it was written.
    Well,
    /// The definitions of drydock's custom resources aren't installed there.
    Missing,
    /// drydock isn't allowed to; what the API server said.
    Forbidden(String),
    /// It doesn't work just now; what was seen.
    Failing(String),
}

impl Published {
    /// A sentence for people, with what to do; `None` while all is well.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Well => None,
            Self::Missing => Some(
                "GpuNode and Rollout objects aren't published: their definitions aren't installed; run `drydock schema \
                 --crds | kubectl apply -f -`"
                    .to_owned(),
            ),
            Self::Forbidden(text) => {
                Some(format!("GpuNode and Rollout objects aren't published: drydock isn't allowed to: {text}"))
            }
            Self::Failing(text) => Some(format!("GpuNode and Rollout objects aren't published: {text}")),
        }
    }

    fn of(error: &CallError) -> Self {
        if error.is_absent() {
            Self::Missing
        } else if error.is_forbidden() {
            Self::Forbidden(error.to_string())
        } else {
            Self::Failing(error.to_string())
        }
    }

    /// Time until it is tried again. Definitions and permissions are given by people, not within seconds.
    const fn pause(&self) -> Duration {
        match self {
            Self::Well => LOOK_EVERY,
            Self::Missing | Self::Forbidden(_) => Duration::from_secs(120),
            Self::Failing(_) => Duration::from_secs(10),
        }
    }
}

/// The least time between two comparisons in one place.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest time between two: what waits for its time is found then, when nothing else happens.
const LOOK_AT_LAST: Duration = Duration::from_secs(30);

/// The key of [`Publisher::troubles`] under which rollouts stand.
pub const ROLLOUTS: &str = "(rollouts)";

/// Gives facts to the tasks; clones share it.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    facts: watch::Sender<Option<Facts>>,
    standing: Mutex<BTreeMap<String, Published>>,
    purse: Mutex<Purse>,
    home: Caller,
    namespace: String,
    callers: Callers,
    words: Words,
}

impl Shared {
    fn purse(&self) -> MutexGuard<'_, Purse> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn stand(&self, place: &str, published: Published) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = standing.insert(place.to_owned(), published.clone());
        if before.as_ref() != Some(&published)
            && let Some(trouble) = published.trouble()
        {
            tracing::warn!(place, trouble, "publishing");
        }
    }
}

impl Publisher {
    /// Rollouts are published through `home` in `namespace`, nodes through the callers of their clusters.
    #[must_use]
    pub fn new(home: Caller, namespace: impl Into<String>, callers: Callers, words: Words) -> Self {
        let shared = Shared {
            facts: watch::Sender::new(None),
            standing: Mutex::default(),
            purse: Mutex::new(Purse::new(Instant::now())),
            home,
            namespace: namespace.into(),
            callers,
            words,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Newer facts; older ones that weren't looked at yet are dropped. Never waits.
    pub fn submit(&self, facts: Facts) {
        self.shared.facts.send_replace(Some(facts));
    }

    /// What goes wrong with publishing, one sentence for each place: a cluster by its name, or [`ROLLOUTS`].
    #[must_use]
    pub fn troubles(&self) -> BTreeMap<String, String> {
        let standing = self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.iter().filter_map(|(place, is)| Some((place.clone(), is.trouble()?))).collect()
    }

    /// How publishing stands in each place.
    #[must_use]
    pub fn standing(&self) -> BTreeMap<String, Published> {
        self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes until `shutdown`.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut facts = self.shared.facts.subscribe();
        let mut tasks = JoinSet::new();
        let mut clusters: BTreeMap<String, ()> = BTreeMap::new();
        tasks.spawn(rollouts(Arc::clone(&self.shared)));
        loop {
            let ledger = facts.borrow_and_update().as_ref().map(|facts| Arc::clone(&facts.ledger));
            for id in ledger.iter().flat_map(|ledger| ledger.nodes.keys()) {
                if !clusters.contains_key(id.cluster()) {
                    clusters.insert(id.cluster().to_owned(), ());
                    tasks.spawn(nodes(Arc::clone(&self.shared), id.cluster().to_owned()));
                }
            }
            tokio::select! {
                () = &mut shutdown => break,
                changed = facts.changed() => if changed.is_err() { break },
            }
        }
        // Dropping the set ends the tasks between two requests or within one: every write is whole by itself.
    }
}

async fn rollouts(shared: Arc<Shared>) {
    let mut desk = RolloutDesk::default();
    let mut facts = shared.facts.subscribe();
    let mut again = true;
    while let Some(now) = newest(&mut facts, again).await {
        let published = desk.publish(&shared, &now).await;
        again = rest(&shared, ROLLOUTS, published.map(|()| false)).await;
    }
}

async fn nodes(shared: Arc<Shared>, cluster: String) {
    let mut desk = NodeDesk::new(&cluster);
    let mut facts = shared.facts.subscribe();
    let mut again = true;
    while let Some(now) = newest(&mut facts, again).await {
        // A cluster that can't be connected to says so elsewhere.
        let Some(caller) = (shared.callers)(&cluster) else {
            sleep(LOOK_EVERY).await;
            continue;
        };
        let published = desk.publish(&shared, &caller, &now).await;
        again = rest(&shared, &cluster, published).await;
    }
}

/// The newest facts: at once when there is more to do, otherwise when there are newer ones, or after [`LOOK_AT_LAST`].
async fn newest(facts: &mut watch::Receiver<Option<Facts>>, again: bool) -> Option<Facts> {
    if !again && let Ok(Err(_)) = timeout(LOOK_AT_LAST, facts.changed()).await {
        return None;
    }
    loop {
        if let Some(now) = facts.borrow_and_update().clone() {
            return Some(now);
        }
        facts.changed().await.ok()?;
    }
}

/// Rests; whether there is more to do comes back.
async fn rest(shared: &Shared, place: &str, published: Result<bool, CallError>) -> bool {
    let pause = match &published {
        // Another process leads: it publishes.
        Err(CallError::NotLeading) => Duration::from_secs(5),
        Err(CallError::Open(wait)) => *wait,
        Err(error) => {
            let published = Published::of(error);
            let pause = published.pause();
            shared.stand(place, published);
            pause
        }
        Ok(_) => {
            shared.stand(place, Published::Well);
            Published::Well.pause()
        }
    };
    sleep(pause).await;
    // What failed is tried again, with whatever is newest then.
    published.unwrap_or(true)
}
