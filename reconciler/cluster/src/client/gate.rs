//! Who may write: only a process that has led without a doubt until now.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// A gate in front of every write. Whoever renews the lease moves its end; when that fails, it closes by itself, with
/// no help from a process that may be stopped just then.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Mutex<Until>>);

#[derive(Debug, Clone, Copy)]
enum Until {
    Always,
    Closed,
    At(Instant),
}

impl Gate {
    /// For a process that is the only one by other means.
    #[must_use]
    pub fn always() -> Self {
        Self(Arc::new(Mutex::new(Until::Always)))
    }
    /// Closed until the lease is held.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(Mutex::new(Until::Closed)))
    }
    /// Open until this instant. A gate that is always open stays so.
    pub fn open_until(&self, at: Instant) {
        self.set(Until::At(at));
    }
    /// Closed from now on.
    pub fn close(&self) {
        self.set(Until::Closed);
    }
    fn set(&self, until: Until) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, Until::Always) {
            *state = until;
        }
    }
    /// Whether writes may be made now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Until::Always => true,
            Until::Closed => false,
            Until::At(at) => Instant::now() < at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_closes_by_itself() {
        let gate = Gate::closed();
        assert!(!gate.is_open() && Gate::always().is_open());
        gate.open_until(Instant::now() + Duration::from_secs(10));
        assert!(gate.is_open());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!gate.is_open());
        gate.open_until(Instant::now() + Duration::from_secs(10));
        gate.close();
        assert!(!gate.is_open());
    }
}
