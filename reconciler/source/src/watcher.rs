//! File events as wake-ups. An event says "look again" and nothing else: which file, what kind and how many are
//! unreliable between platforms and editors, and polling stands behind it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::{Result, SourceError};

/// How long it must be quiet after an event. A branch checkout arrives in several batches.
const QUIET: Duration = Duration::from_millis(200);

/// When to wake although it never gets quiet, counted from the first event.
const LATEST: Duration = Duration::from_secs(2);

/// Watches while it lives.
pub struct Watching {
    _watcher: RecommendedWatcher,
    debounce: tokio::task::JoinHandle<()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.debounce.abort();
    }
}

/// Wakes when a reference of the repository at or above `dir` moves: HEAD, packed-refs, refs. Call it in a Tokio runtime.
///
/// # Errors
/// [`SourceError::Unreachable`] when there is no repository, [`SourceError::Io`] when the system can't watch.
pub fn watch_repository(dir: &Path, wake: Arc<Notify>) -> Result<Watching> {
    let repo = git2::Repository::discover(dir).map_err(|error| SourceError::Unreachable {
        url: dir.display().to_string(),
        text: error.message().to_owned(),
    })?;
    // In a linked work tree HEAD lies in its own folder and the branches in the common one.
    let (own, common) = (real(repo.path()), real(repo.commondir()));
    let refs = common.join("refs");
    let mut places =
        vec![(own.clone(), RecursiveMode::NonRecursive), (refs.clone(), RecursiveMode::Recursive)];
    if common != own {
        places.push((common.clone(), RecursiveMode::NonRecursive));
    }
    let relevant = move |path: &Path| {
        path.starts_with(&refs) || path == own.join("HEAD") || path == common.join("packed-refs")
    };
    watch(&places, relevant, wake)
}

/// Wakes when a file under `root` changes, `.git` folders aside. Call it in a Tokio runtime.
///
/// # Errors
/// [`SourceError::Io`] when the folder is missing or the system can't watch.
pub fn watch_worktree(root: &Path, wake: Arc<Notify>) -> Result<Watching> {
    let root = real(root);
    let base = root.clone();
    let relevant = move |path: &Path| {
        let inside = path.strip_prefix(&base).unwrap_or(path);
        !inside.components().any(|part| part.as_os_str() == ".git")
    };
    watch(&[(root, RecursiveMode::Recursive)], relevant, wake)
}

/// Events carry resolved paths on some platforms; comparing needs ours resolved too.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn watch(
    places: &[(PathBuf, RecursiveMode)],
    relevant: impl Fn(&Path) -> bool + Send + 'static,
    wake: Arc<Notify>,
) -> Result<Watching> {
    let event = Arc::new(Notify::new());
    let seen = Arc::clone(&event);
    let handler = move |outcome: notify::Result<Event>| {
        let counts = match outcome {
            // Our own reading makes access events; waking on them would never end.
            Ok(event) => {
                !event.kind.is_access()
                    && (event.need_rescan()
                        || event.paths.is_empty()
                        || event.paths.iter().any(|path| relevant(path)))
            }
            // Events may have been lost.
            Err(_) => true,
        };
        if counts {
            seen.notify_one();
        }
    };
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: notify::Error| SourceError::Io {
            doing: "watching",
            path: path.clone(),
            text: error.to_string(),
        }
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(failed(Path::new("")))?;
    for (place, mode) in places {
        watcher.watch(place, *mode).map_err(failed(place))?;
    }
    Ok(Watching { _watcher: watcher, debounce: tokio::spawn(debounce(event, wake)) })
}

/// Turns bursts into single wake-ups.
async fn debounce(event: Arc<Notify>, wake: Arc<Notify>) {
    loop {
        event.notified().await;
        let latest = Instant::now() + LATEST;
        loop {
            let quiet = Instant::now() + QUIET;
            match tokio::time::timeout_at(quiet.min(latest), event.notified()).await {
                Ok(()) if Instant::now() < latest => {}
                Ok(()) | Err(_) => break,
            }
        }
        wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_becomes_one_wake_up_after_it_is_quiet() {
        let (event, wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let task = tokio::spawn(debounce(Arc::clone(&event), Arc::clone(&wake)));
        let start = Instant::now();
        for _ in 0..3 {
            event.notify_one();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        wake.notified().await;
        assert_eq!(start.elapsed().as_millis() / 10, 40, "200 ms after the third event, at 200 ms");
        let more = tokio::time::timeout(Duration::from_secs(60), wake.notified()).await;
        assert!(more.is_err(), "a second wake-up for the same burst");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn events_without_end_still_wake() {
        let (event, wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let task = tokio::spawn(debounce(Arc::clone(&event), Arc::clone(&wake)));
        let noise = tokio::spawn(async move {
            loop {
                event.notify_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let start = Instant::now();
        wake.notified().await;
        assert!(start.elapsed() <= LATEST + QUIET, "{:?}", start.elapsed());
        noise.abort();
        task.abort();
    }
}
