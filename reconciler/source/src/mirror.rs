//! A bare copy of a remote repository in a folder of its own. It is a cache: deleting it costs one full fetch.

use std::path::{Path, PathBuf};

use git2::{AutotagOption, Direction, ErrorCode, FetchOptions, ObjectType, Oid, ProxyOptions, Repository};

use crate::access::Access;
use crate::error::{Result, SourceError};
use crate::limits::ReadOptions;
use crate::movement::Movement;
use crate::runner::Cancel;
use crate::snapshot::Snapshot;
use crate::spec::{Reference, SourceSpec, repository_path};
use crate::transport::Dial;
use crate::tree;

/// Says that a folder is ours to replace when it is damaged.
const MARKER: &str = "drydock-mirror";

/// A bare mirror of one source.
pub struct Mirror {
    repo: Repository,
    spec: SourceSpec,
}

/// What a fetch brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The commit the reference stands for now, by its full id. It is in the mirror with its whole history.
    pub commit: String,
    /// Objects received.
    pub objects: usize,
    /// Bytes received.
    pub bytes: usize,
}

impl Mirror {
    /// Opens the mirror in `dir`, or makes one there when the folder is missing or empty. A damaged mirror is moved
    /// aside to `dir.broken` and made anew.
    ///
    /// # Errors
    /// [`SourceError::InvalidSource`] when something else lives in `dir`; [`SourceError::Git`] and [`SourceError::Io`]
    /// when it can't be made.
    pub fn open_or_create(dir: &Path, spec: &SourceSpec) -> Result<Self> {
        let spec = spec.clone();
        let marker = dir.join(MARKER);
        if marker.is_file() {
            if let Ok(repo) = Repository::open_bare(dir) {
                return Ok(Self { repo, spec });
            }
            let aside = beside(dir, "broken");
            tracing::warn!(mirror = %dir.display(), aside = %aside.display(), "the mirror is damaged and is made anew");
            if aside.exists() {
                std::fs::remove_dir_all(&aside).map_err(SourceError::io("removing", &aside))?;
            }
            std::fs::rename(dir, &aside).map_err(SourceError::io("moving aside", dir))?;
        }
        std::fs::create_dir_all(dir).map_err(SourceError::io("creating", dir))?;
        let mut inside = std::fs::read_dir(dir).map_err(SourceError::io("listing", dir))?;
        if inside.next().is_some() {
            let text = format!("{} holds something that is not a mirror of drydock", dir.display());
            return Err(SourceError::InvalidSource(text));
        }
        // The marker comes first: a crash in between leaves a folder that is known to be ours.
        std::fs::write(&marker, "A cache of a Git repository; safe to delete.\n")
            .map_err(SourceError::io("writing", &marker))?;
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).external_template(false).initial_head("main");
        let repo = Repository::init_opts(dir, &options).map_err(SourceError::git("creating the mirror"))?;
        Ok(Self { repo, spec })
    }

    /// Asks the remote where the reference stands and fetches what is missing, in one connection. The answer is the
    /// remote's own: an older head that lies in the mirror is never used.
    ///
    /// A pinned commit that is in the mirror already needs no connection.
    ///
    /// # Errors
    /// [`SourceError::Unreachable`], [`SourceError::Auth`], the host key and certificate errors,
    /// [`SourceError::EmptyRepository`], [`SourceError::RefNotFound`], [`SourceError::CommitGone`],
    /// [`SourceError::TooLarge`]; [`SourceError::TimedOut`] when cancelled.
    pub fn fetch(&self, access: &Access, cancel: &Cancel) -> Result<Fetched> {
        if let Reference::Commit(id) = &self.spec.reference
            && let Some(commit) = self.pinned(id)
        {
            return Ok(Fetched { commit: commit.to_string(), objects: 0, bytes: 0 });
        }
        let dial = Dial::new(&self.spec.url, access, cancel);
        let failed = |error: git2::Error| {
            if cancel.is_cancelled() {
                SourceError::TimedOut { after: std::time::Duration::ZERO }
            } else {
                dial.explain(&error)
            }
        };
        let mut remote = self.repo.remote_anonymous(self.spec.url.for_transport()).map_err(failed)?;
        let mut proxy = ProxyOptions::new();
        proxy.auto();
        let mut connection =
            remote.connect_auth(Direction::Fetch, Some(dial.callbacks()), Some(proxy)).map_err(failed)?;
        let heads: Vec<(String, Oid)> = connection
            .list()
            .map_err(failed)?
            .iter()
            .map(|head| (head.name().to_owned(), head.oid()))
            .collect();
        if heads.is_empty() {
            return Err(SourceError::EmptyRepository { repository: self.spec.url.to_string() });
        }

        let (wanted, target) = match self.spec.reference.advertised() {
            Some(name) => {
                // A name alone is a branch, or else a tag: people write `v1.0` and mean the tag.
                let mut names = std::iter::once(name).chain(self.spec.reference.as_tag());
                let found = names.find_map(|name| heads.iter().find(|(head, _)| *head == name));
                let (name, target) = found.ok_or_else(|| self.no_reference())?;
                (vec![name.clone()], Some(*target))
            }
            // Not every server hands out a commit by its id, but every one hands out its branches and tags.
            None => {
                (vec!["+refs/heads/*:refs/heads/*".to_owned(), "+refs/tags/*:refs/tags/*".to_owned()], None)
            }
        };
        let (mut objects, mut bytes) = (0, 0);
        if target.is_none_or(|id| !self.has(id)) {
            let mut options = FetchOptions::new();
            let mut proxy = ProxyOptions::new();
            proxy.auto();
            // Objects only: the one reference that counts is written below, so branches that became folders of the
            // same name on the remote can't get in each other's way here.
            options
                .remote_callbacks(dial.callbacks())
                .proxy_options(proxy)
                .download_tags(AutotagOption::None);
            let remote = connection.remote();
            remote.download(&wanted, Some(&mut options)).map_err(failed)?;
            let stats = remote.stats();
            (objects, bytes) = (stats.received_objects(), stats.received_bytes());
        }
        drop(connection);

        let commit = match target {
            Some(target) => self.peel(target)?,
            None => self.pinned_by_spec()?,
        };
        // Names the commit for the next negotiation; without it the whole history would come again.
        self.repo
            .reference(&self.own_ref("fetched"), commit, true, "fetched")
            .map_err(SourceError::git("recording the fetched commit"))?;
        Ok(Fetched { commit: commit.to_string(), objects, bytes })
    }

    /// How the reference moved from `from` (a full id, perhaps of a commit that vanished) to the fetched `to`.
    ///
    /// # Errors
    /// [`SourceError::CommitGone`] when `to` is not in the mirror, [`SourceError::Git`] when its history can't be read.
    pub fn movement(&self, from: &str, to: &str) -> Result<Movement> {
        let gone = || SourceError::CommitGone { commit: to.to_owned() };
        Movement::between(&self.repo, from, self.pinned(to).ok_or_else(gone)?)
    }

    /// Reads `commit` (a full id) under `path`, straight from the object database.
    ///
    /// # Errors
    /// [`SourceError::CommitGone`], [`SourceError::PathNotFound`], [`SourceError::EmptyTree`] and the limits' errors.
    pub fn read_tree(&self, commit: &str, path: &str, options: &ReadOptions) -> Result<Snapshot> {
        let id = Oid::from_str(commit).map_err(|_| SourceError::CommitGone { commit: commit.to_owned() })?;
        tree::read_tree(&self.repo, id, &repository_path(path)?, options)
    }

    /// The commit that was last accepted for this repository and reference, by any process that used this mirror.
    #[must_use]
    pub fn accepted(&self) -> Option<String> {
        self.repo.refname_to_id(&self.own_ref("accepted")).ok().map(|id| id.to_string())
    }

    /// Records `commit` as accepted if `previous` still is; `false` when someone else was faster.
    ///
    /// The comparison keeps a look that passed its deadline long ago from turning the clock back.
    ///
    /// # Errors
    /// [`SourceError::CommitGone`] when the commit is not in the mirror; [`SourceError::Git`] when it can't be written.
    pub fn accept(&self, previous: Option<&str>, commit: &str) -> Result<bool> {
        let to = self.pinned(commit).ok_or_else(|| SourceError::CommitGone { commit: commit.to_owned() })?;
        let name = self.own_ref("accepted");
        let outcome = match previous.and_then(|id| Oid::from_str(id).ok()) {
            Some(from) => self.repo.reference_matching(&name, to, true, from, "accepted"),
            None => self.repo.reference(&name, to, false, "accepted"),
        };
        match outcome {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.code(), ErrorCode::Modified | ErrorCode::Exists) => Ok(false),
            Err(error) => Err(SourceError::git("recording the accepted commit")(error)),
        }
    }

    fn own_ref(&self, what: &str) -> String {
        format!("refs/drydock/{what}/{}", self.spec.key())
    }

    fn has(&self, id: Oid) -> bool {
        self.repo.odb().is_ok_and(|odb| odb.exists(id))
    }

    fn pinned(&self, id: &str) -> Option<Oid> {
        let id = Oid::from_str(id).ok()?;
        self.repo.find_commit(id).ok().map(|commit| commit.id())
    }

    fn pinned_by_spec(&self) -> Result<Oid> {
        match &self.spec.reference {
            Reference::Commit(id) => {
                self.pinned(id).ok_or_else(|| SourceError::CommitGone { commit: id.clone() })
            }
            Reference::Branch(_) | Reference::Tag(_) => Err(self.no_reference()),
        }
    }

    fn no_reference(&self) -> SourceError {
        let (repository, reference) = (self.spec.url.to_string(), self.spec.reference.to_string());
        SourceError::RefNotFound { repository, reference }
    }

    /// Through an annotated tag to its commit.
    fn peel(&self, id: Oid) -> Result<Oid> {
        let object =
            self.repo.find_object(id, None).map_err(SourceError::git("reading the fetched object"))?;
        object.peel(ObjectType::Commit).map(|commit| commit.id()).map_err(|_| SourceError::RefNotFound {
            repository: self.spec.url.to_string(),
            reference: format!("{} that is a commit", self.spec.reference),
        })
    }
}

/// `dir` with `.suffix` appended to its last part.
fn beside(dir: &Path, suffix: &str) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    dir.with_file_name(name)
}
