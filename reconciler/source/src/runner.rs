//! Running blocking Git work beside the async world, with a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Result, SourceError};

/// A request to stop, shared with blocking work that checks it where it can.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether stopping was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Cancels when dropped: covers the deadline, a dropped future and shutdown alike. Cancelling finished work is harmless.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// How many looks may hang at once. One hung connection must not stop the source for good; each costs a thread and a
/// socket, so there is an end.
const MOST_HANGING: usize = 3;

/// Runs looks one after the other, each on a thread of its own.
///
/// Not on the runtime's blocking pool: a thread that hangs in a system call would hold up the runtime's shutdown, and
/// libgit2 sets no socket deadline that safe code could reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runner {
    running: Arc<AtomicUsize>,
}

/// Counts a thread for as long as it lives, even when its work panics.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Runner {
    /// The result of `work`, or [`SourceError::TimedOut`] after `deadline`; the work is then asked to stop and left alone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        cancel: Cancel,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let hanging = self.running.load(Ordering::Acquire);
        if hanging >= MOST_HANGING {
            return Err(SourceError::StillHanging { hanging });
        }
        let _guard = CancelOnDrop(cancel);
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.running));
        let (answer, result) = oneshot::channel();
        std::thread::Builder::new()
            .name("drydock-git".to_owned())
            .spawn(move || {
                let outcome = work();
                drop(running);
                // Nobody listens any more after the deadline.
                let _ = answer.send(outcome);
            })
            .map_err(SourceError::io("starting a thread for", std::path::Path::new("git")))?;
        match tokio::time::timeout(deadline, result).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                Err(SourceError::Git { doing: "looking at the source", text: "the work panicked".to_owned() })
            }
            Err(_) => Err(SourceError::TimedOut { after: deadline }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc;

    #[tokio::test(start_paused = true)]
    async fn hanging_work_is_left_behind_and_bounded() {
        let runner = Runner::default();
        let mut holds = Vec::new();
        for _ in 0..MOST_HANGING {
            let (hold, held) = mpsc::channel::<()>();
            let (ended, end) = oneshot::channel();
            let cancel = Cancel::default();
            let work = {
                let cancel = cancel.clone();
                move || {
                    let _ = held.recv();
                    let _ = ended.send(cancel.is_cancelled());
                    Ok(())
                }
            };
            // Paused time jumps to the deadline: nothing else can happen.
            let error = runner.run(Duration::from_secs(60), cancel, work).await.unwrap_err();
            assert_eq!(error, SourceError::TimedOut { after: Duration::from_secs(60) });
            holds.push((hold, end));
        }
        let refused = runner.run(Duration::from_secs(60), Cancel::default(), || Ok(())).await;
        assert_eq!(refused, Err(SourceError::StillHanging { hanging: MOST_HANGING }));
        for (hold, end) in holds {
            drop(hold);
            assert!(end.await.unwrap(), "the work must see that it was cancelled");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_place() {
        let runner = Runner::default();
        for _ in 0..2 * MOST_HANGING {
            let outcome: Result<()> = runner
                .run(Duration::from_secs(3600), Cancel::default(), || std::panic::resume_unwind(Box::new(())))
                .await;
            assert!(matches!(outcome, Err(SourceError::Git { .. })), "{outcome:?}");
        }
        assert_eq!(runner.run(Duration::from_secs(3600), Cancel::default(), || Ok(7)).await, Ok(7));
    }
}
