//! The documents: where they come from, and the task that looks at them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drydock_source::{
    Clock, GitLook, Look, ReadOptions, Reference, SourceError, SourceHandle, SourceSpec, SourceTask,
    TaskOptions, Watching, WorktreeLook, watch_repository, watch_worktree,
};

use crate::clock::wall;
use crate::files::Directory;
use crate::store::KeptSource;

/// Where the documents come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// A folder with a repository, or the address of one.
    pub repository: String,
    /// Branch, tag or commit.
    pub reference: Reference,
    /// Folder with the documents, relative to the repository's root.
    pub path: String,
    /// Files as they lie on disk count, committed or not: for writing documents with the dashboard beside the editor.
    pub worktree: bool,
    /// Time between two looks that nothing else causes.
    pub poll: Duration,
}

impl SourceOptions {
    /// Branch `main` of a repository, looked at every 30 seconds (folders are watched besides).
    #[must_use]
    pub fn of(repository: impl Into<String>) -> Self {
        Self {
            repository: repository.into(),
            reference: Reference::default(),
            path: String::new(),
            worktree: false,
            poll: Duration::from_secs(30),
        }
    }
}

/// Ends when it is time to stop.
pub(crate) type Shutdown = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
/// Runs a source until the future that it is given ends.
pub(crate) type SourceRun = Box<dyn FnOnce(Shutdown) -> Shutdown + Send>;

/// The source and how to run it; `seed` spreads the polls of several processes.
///
/// # Errors
/// When the repository can't be as configured. One that can't be read is no error: that is seen later, and shown.
pub(crate) fn begin(
    directory: &Directory,
    options: &SourceOptions,
    seed: u64,
    kept: Option<&KeptSource>,
) -> Result<(SourceHandle, SourceRun, Option<Watching>), SourceError> {
    let SourceOptions { repository, reference, path, worktree, poll } = options;
    let clock: Clock = Arc::new(wall);
    let mut task = TaskOptions::new(*poll, seed, clock);
    let folder = Path::new(repository);
    if *worktree {
        let look = WorktreeLook::new(folder.to_owned(), path.clone(), ReadOptions::default());
        let (handle, run) = task_of(look, task);
        let watching = watched(watch_worktree(folder, handle.waker()));
        return Ok((handle, run, watching));
    }
    task.baseline = kept.map(|kept| kept.commit.id.clone());
    let spec = SourceSpec::new(repository, reference.clone(), path, *poll)?;
    let (handle, run) = task_of(GitLook::new(directory.mirror(), spec), task);
    let watching = folder.is_dir().then(|| watched(watch_repository(folder, handle.waker()))).flatten();
    Ok((handle, run, watching))
}

fn task_of<L: Look>(look: L, options: TaskOptions) -> (SourceHandle, SourceRun) {
    let (task, handle) = SourceTask::new(look, options);
    (handle, Box::new(move |shutdown| Box::pin(task.run(shutdown))))
}

/// Watching is a convenience: polling stands behind it.
fn watched(watching: Result<Watching, SourceError>) -> Option<Watching> {
    watching.inspect_err(|error| tracing::warn!(%error, "changes are found by polling only")).ok()
}
