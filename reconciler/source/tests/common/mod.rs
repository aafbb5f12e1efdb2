//! Temporary repositories for the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use drydock_source::{Author, Reference, SourceSpec, commit_all, init_repository};
use git2::{Oid, Repository};
use jiff::Timestamp;
use tempfile::TempDir;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub fn author() -> Author {
    Author { name: "Ada Example".into(), email: "ada@fleet.example".into() }
}

/// A folder with a remote work repository in `remote` and room for a mirror in `mirror`.
pub struct World {
    pub dir: TempDir,
}

impl World {
    /// A remote whose first commit holds `files`.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        let files: Vec<_> = files.iter().map(|(p, t)| ((*p).to_owned(), t.as_bytes().to_vec())).collect();
        init_repository(&world.remote(), &files, &author(), "first\n\nbody", at(1_000)).unwrap();
        world
    }

    pub fn remote(&self) -> PathBuf {
        self.dir.path().join("remote")
    }

    pub fn mirror(&self) -> PathBuf {
        self.dir.path().join("mirror")
    }

    pub fn repo(&self) -> Repository {
        Repository::open(self.remote()).unwrap()
    }

    pub fn head(&self) -> String {
        self.repo().head().unwrap().peel_to_commit().unwrap().id().to_string()
    }

    pub fn commit(&self, path: &str, text: &str) -> String {
        let change = (path.to_owned(), Some(text.as_bytes().to_vec()));
        commit_all(&self.remote(), &[change], &author(), &format!("change {path}"), at(2_000)).unwrap()
    }

    pub fn remove(&self, path: &str) -> String {
        commit_all(&self.remote(), &[(path.to_owned(), None)], &author(), "remove", at(3_000)).unwrap()
    }

    /// Moves `main` (and the work tree) to another commit, as a force push does.
    pub fn force(&self, commit: &str) {
        let repo = self.repo();
        let object = repo.find_object(Oid::from_str(commit).unwrap(), None).unwrap();
        repo.reset(&object, git2::ResetType::Hard, None).unwrap();
    }

    pub fn spec(&self, reference: Reference, path: &str) -> SourceSpec {
        SourceSpec::new(self.remote().to_str().unwrap(), reference, path, Duration::from_secs(60)).unwrap()
    }

    pub fn main(&self) -> SourceSpec {
        self.spec(Reference::default(), "")
    }

    /// Commits a tree made by hand: entries `(name, mode, object)` at the root beside what is there.
    pub fn commit_entries(&self, entries: &[(&str, i32, Oid)]) -> String {
        let repo = self.repo();
        let parent = repo.head().unwrap().peel_to_commit().unwrap();
        let mut builder = repo.treebuilder(Some(&parent.tree().unwrap())).unwrap();
        for (name, mode, id) in entries {
            builder.insert(name, *id, *mode).unwrap();
        }
        let tree = repo.find_tree(builder.write().unwrap()).unwrap();
        let who =
            git2::Signature::new("Ada Example", "ada@fleet.example", &git2::Time::new(4_000, 0)).unwrap();
        let id = repo.commit(Some("HEAD"), &who, &who, "by hand", &tree, &[&parent]).unwrap();
        id.to_string()
    }
}

pub fn write(dir: &Path, path: &str, bytes: &[u8]) {
    let place = dir.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, bytes).unwrap();
}
