//! The loop behind one kind: list, then watch from there; list again when the API server has forgotten the place.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use http::Request;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::time::Instant;

use super::state::{FeedStatus, Kept, SILENCE_MAX, Shared};
use crate::client::{CallError, Caller, Kind, query};
use crate::clock;
use crate::objects::Key;

/// Objects a page. The API server holds one page in memory a request; 500 is what kubectl takes.
const PAGE: u32 = 500;
/// Pages of one list at most: half a million objects are more than the largest clusters have.
const PAGES_MAX: u32 = 1_000;
/// How long a watch lasts before the API server ends it. Reconnecting costs one request; an hour makes it rare.
const WATCH_FOR: u64 = 3_600;
/// Up to so many seconds more, different for each kind, so that streams don't end together.
const WATCH_SPREAD: u64 = 600;
/// First pause after a failure; it doubles up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Longest pause after a failure: a cluster that is back is seen within it.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pause before looking again for a kind that wasn't there. Kinds come with an installation, which is rare.
const ABSENT_PAUSE: Duration = Duration::from_secs(600);

/// Why a watch ended.
enum End {
    /// The API server has ended it; it goes on from where it was.
    Over,
    /// The API server doesn't know the place any more.
    Forgotten,
    /// It broke.
    Broken(CallError),
}

#[derive(Deserialize)]
#[serde(bound = "T: Kept")]
struct List<T> {
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    go_on: Option<String>,
}

/// Keeps one kind up to date, for ever. Whoever drops the future ends it.
pub async fn run<T: Kept>(caller: Caller, shared: Arc<Shared>) {
    let plural = T::KIND.plural;
    shared.lock().feeds.entry(plural).or_insert(FeedStatus::Starting);
    let mut failures = 0_u32;
    loop {
        let error = match list::<T>(&caller, &shared).await {
            Ok(version) => {
                failures = 0;
                match follow::<T>(&caller, &shared, version).await {
                    None => continue,
                    Some(error) => error,
                }
            }
            Err(error) => error,
        };
        if error.is_absent() {
            set(&shared, plural, FeedStatus::Absent);
            forget_all::<T>(&shared);
            tokio::time::sleep(ABSENT_PAUSE).await;
            continue;
        }
        tracing::debug!(kind = plural, %error, "a watch is broken");
        set(&shared, plural, FeedStatus::Broken { error: error.to_string() });
        let pause = PAUSE_FIRST.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
        failures = failures.saturating_add(1);
        tokio::time::sleep(pause).await;
    }
}

fn set(shared: &Shared, plural: &'static str, status: FeedStatus) {
    let mut state = shared.lock();
    let before = state.feeds.insert(plural, status);
    let now = state.feeds.get(plural);
    // Being heard again is no news; that a stream opens, breaks or is missing is.
    let news = !matches!((&before, now), (Some(FeedStatus::Live { .. }), Some(FeedStatus::Live { .. })));
    drop(state);
    if news {
        shared.pulse();
    }
}

fn heard(shared: &Shared, plural: &'static str) {
    set(shared, plural, FeedStatus::Live { heard: Instant::now() });
}

fn forget_all<T: Kept>(shared: &Shared) {
    let mut state = shared.lock();
    for key in T::keys(&state) {
        T::remove(&key, &mut state);
    }
}

/// Lists everything and takes it in at once; nothing is seen half.
async fn list<T: Kept>(caller: &Caller, shared: &Shared) -> Result<String, CallError> {
    let mut items: Vec<T> = Vec::new();
    let mut go_on: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut uri = query(&T::KIND.all(None), &format!("limit={PAGE}"));
        if let Some(token) = &go_on {
            uri = query(&uri, &format!("continue={token}"));
        }
        let page: List<T> = caller.get(&uri).await?;
        items.extend(page.items);
        match page.metadata.go_on.filter(|token| !token.is_empty()) {
            Some(token) => go_on = Some(token),
            None => {
                take_in(shared, items, &page.metadata.resource_version);
                return Ok(page.metadata.resource_version);
            }
        }
    }
    Err(CallError::Malformed(format!("a list of {} that doesn't end", T::KIND.plural)))
}

fn take_in<T: Kept>(shared: &Shared, items: Vec<T>, version: &str) {
    let plural = T::KIND.plural;
    let mut state = shared.lock();
    let mut gone: std::collections::BTreeSet<Key> = T::keys(&state).into_iter().collect();
    for item in items {
        gone.remove(&item.key());
        item.put(&mut state);
    }
    for key in gone {
        T::remove(&key, &mut state);
    }
    if T::KIND == Kind::NODE {
        state.nodes_told_gone = false;
    }
    // Versions are numbers in etcd's order in every API server there is; where one isn't, nothing is concluded.
    if let Ok(version) = version.parse::<u64>() {
        let highest = state.highest.get(plural).copied().unwrap_or(0);
        if version < highest {
            tracing::error!(kind = plural, version, highest, "the API server went back to older data");
            state.went_back = Some(clock::wall());
            // Other kinds of the same server went back with it; they have their own numbers to forget.
            state.highest.clear();
        }
        state.highest.insert(plural, version);
    }
    state.feeds.insert(plural, FeedStatus::Live { heard: Instant::now() });
    state.changes += 1;
    drop(state);
    shared.pulse();
}

/// Watches from `version` for as long as the API server knows the place.
async fn follow<T: Kept>(caller: &Caller, shared: &Shared, mut version: String) -> Option<CallError> {
    loop {
        match watch::<T>(caller, shared, &mut version).await {
            End::Over => {}
            End::Forgotten => return None,
            End::Broken(error) => return Some(error),
        }
    }
}

async fn watch<T: Kept>(caller: &Caller, shared: &Shared, version: &mut String) -> End {
    let plural = T::KIND.plural;
    let spread = plural.bytes().fold(0_u64, |sum, byte| sum * 31 + u64::from(byte)) % WATCH_SPREAD;
    let parameters = format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={}",
        WATCH_FOR + spread
    );
    let request = match Request::get(query(&T::KIND.all(None), &parameters)).body(Vec::new()) {
        Ok(request) => request,
        Err(error) => return End::Broken(CallError::Malformed(error.to_string())),
    };
    caller.count();
    let opened =
        tokio::time::timeout(crate::client::CALL_DEADLINE, caller.client().request_events::<T>(request));
    let stream = match opened.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return ended(&error),
        Err(_) => return End::Broken(CallError::Timeout(crate::client::CALL_DEADLINE)),
    };
    let mut stream = std::pin::pin!(stream);
    heard(shared, plural);
    loop {
        let event = match tokio::time::timeout(SILENCE_MAX, stream.try_next()).await {
            Err(_) => return End::Broken(CallError::Timeout(SILENCE_MAX)),
            Ok(Ok(None)) => return End::Over,
            Ok(Ok(Some(event))) => event,
            Ok(Err(error)) => return ended(&error),
        };
        match event {
            WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) if status.code == 410 => return End::Forgotten,
            WatchEvent::Error(status) => return ended(&kube::Error::Api(status)),
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version.clone_from(&object.meta().resource_version);
                change(shared, |state| object.put(state));
            }
            WatchEvent::Deleted(object) => {
                version.clone_from(&object.meta().resource_version);
                change(shared, |state| {
                    T::remove(&object.key(), state);
                    state.nodes_told_gone |= T::KIND == Kind::NODE;
                });
            }
        }
        note_version(shared, plural, version);
    }
}

fn change(shared: &Shared, how: impl FnOnce(&mut super::State)) {
    let mut state = shared.lock();
    how(&mut state);
    state.changes += 1;
    drop(state);
    shared.pulse();
}

fn note_version(shared: &Shared, plural: &'static str, version: &str) {
    let mut state = shared.lock();
    if let Ok(version) = version.parse::<u64>() {
        let highest = state.highest.entry(plural).or_default();
        *highest = version.max(*highest);
    }
    state.feeds.insert(plural, FeedStatus::Live { heard: Instant::now() });
}

fn ended(error: &kube::Error) -> End {
    match error {
        kube::Error::Api(status) if status.code == 410 => End::Forgotten,
        other => End::Broken(CallError::of_kube(other)),
    }
}
