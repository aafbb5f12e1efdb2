//! One look at a source. It re-reads everything: a first start, a wake-up and a restart are the same path.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use crate::access::Access;
use crate::error::{Result, SourceError};
use crate::limits::ReadOptions;
use crate::mirror::Mirror;
use crate::movement::{Admission, Movement, RewritePolicy, admit};
use crate::runner::Cancel;
use crate::snapshot::Snapshot;
use crate::spec::SourceSpec;

/// What a look is told.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The present time.
    pub now: Timestamp,
    /// The commit in force in this process, by its full id.
    pub have: Option<String>,
    /// The commit that a durable record outside says was in force last; counts when nothing nearer is known.
    pub baseline: Option<String>,
    /// A commit someone approved although history was rewritten or the head is older.
    pub approved: Option<String>,
    /// Set when the look has passed its deadline.
    pub cancel: Cancel,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The commit in force is still the one.
    Same {
        /// Its full id.
        commit: String,
    },
    /// A snapshot to put in force.
    New(Snapshot),
    /// A commit that is not applied without a yes.
    Held(Movement),
}

/// A source that can be looked at. Calls block and may hang; they run on a thread of their own.
pub trait Look: Send + Sync + 'static {
    /// What was in force before a restart, without asking anyone else. `None` when nothing is recorded.
    ///
    /// # Errors
    /// When the record exists and can't be read.
    fn restore(&self, ask: &Ask) -> Result<Option<Snapshot>>;

    /// Looks.
    ///
    /// # Errors
    /// When the source can't be read completely; whatever was in force stays.
    fn look(&self, ask: &Ask) -> Result<Found>;
}

impl<L: Look + ?Sized> Look for Box<L> {
    fn restore(&self, ask: &Ask) -> Result<Option<Snapshot>> {
        (**self).restore(ask)
    }

    fn look(&self, ask: &Ask) -> Result<Found> {
        (**self).look(ask)
    }
}

/// Looks at a repository through a [`Mirror`].
pub struct GitLook {
    dir: PathBuf,
    spec: SourceSpec,
    options: ReadOptions,
    on_rewrite: RewritePolicy,
    access: Arc<dyn Fn() -> Result<Access> + Send + Sync>,
}

impl GitLook {
    /// A look at `spec` with its mirror in `dir`, without credentials, holding rewritten history.
    #[must_use]
    pub fn new(dir: PathBuf, spec: SourceSpec) -> Self {
        Self {
            dir,
            spec,
            options: ReadOptions::default(),
            on_rewrite: RewritePolicy::default(),
            access: Arc::new(|| Ok(Access::default())),
        }
    }

    /// Asks `access` for credentials at every look.
    #[must_use]
    pub fn with_access(mut self, access: impl Fn() -> Result<Access> + Send + Sync + 'static) -> Self {
        self.access = Arc::new(access);
        self
    }

    /// Sets what to do when history was rewritten.
    #[must_use]
    pub fn on_rewrite(mut self, policy: RewritePolicy) -> Self {
        self.on_rewrite = policy;
        self
    }

    /// Sets what is read.
    #[must_use]
    pub fn reading(mut self, options: ReadOptions) -> Self {
        self.options = options;
        self
    }
}

impl Look for GitLook {
    fn restore(&self, _ask: &Ask) -> Result<Option<Snapshot>> {
        let mirror = Mirror::open_or_create(&self.dir, &self.spec)?;
        mirror.accepted().map(|commit| mirror.read_tree(&commit, &self.spec.path, &self.options)).transpose()
    }

    fn look(&self, ask: &Ask) -> Result<Found> {
        let access = (self.access)()?;
        let mirror = Mirror::open_or_create(&self.dir, &self.spec)?;
        let accepted = mirror.accepted();
        let commit = mirror.fetch(&access, &ask.cancel)?.commit;
        // The nearest knowledge counts: this process, then the mirror, then the record outside.
        let base = ask.have.as_ref().or(accepted.as_ref()).or(ask.baseline.as_ref());
        if let Some(base) = base {
            let movement = mirror.movement(base, &commit)?;
            match admit(&movement, &self.spec.reference, self.on_rewrite, ask.approved.as_deref()) {
                Admission::Apply => {}
                Admission::Hold => return Ok(Found::Held(movement)),
            }
        }
        if ask.have.as_ref() == Some(&commit) {
            return Ok(Found::Same { commit });
        }
        // Recorded only after the tree was read completely: a commit that can't be read never becomes the base.
        let snapshot = mirror.read_tree(&commit, &self.spec.path, &self.options)?;
        if ask.cancel.is_cancelled() {
            return Err(SourceError::TimedOut { after: std::time::Duration::ZERO });
        }
        if accepted.as_ref() != Some(&commit) && !mirror.accept(accepted.as_deref(), &commit)? {
            let text = "another look accepted a commit meanwhile; the next look decides anew".to_owned();
            return Err(SourceError::Git { doing: "recording the accepted commit", text });
        }
        Ok(Found::New(snapshot))
    }
}
