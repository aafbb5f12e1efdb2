//! A small fleet in a repository of its own, and an embedded drydock over it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use drydock_server::clock::Speed;
use drydock_server::embedded::{Embedded, EmbeddedOptions, SourceOptions};
use drydock_server::view::Facts;
use drydock_source::{Author, commit_all, init_repository};
use jiff::Timestamp;

/// Longest wait for anything: far beyond what it takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver the fleet runs at first, and one it moves to.
pub(crate) const OLD: &str = "580.95.05";
pub(crate) const NEW: &str = "580.105.08";

const FLEET: &str = r#"
apiVersion: drydock.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec: {}
---
apiVersion: drydock.dev/v1alpha1
kind: Cluster
metadata: {name: c01}
spec: {access: {simulated: {}}}
---
apiVersion: drydock.dev/v1alpha1
kind: Component
metadata: {name: gpu-driver}
spec: {class: gpuDriver, delivery: {daemonSet: {name: gpu-driver}}}
---
apiVersion: drydock.dev/v1alpha1
kind: CheckSuite
metadata: {name: smoke}
spec: {checks: [{name: vector-add, class: driver}]}
---
apiVersion: drydock.dev/v1alpha1
kind: GpuNodePool
metadata: {name: h100}
spec: {cluster: c01, nodeSelector: {pool: h100}, gpu: {model: H100-80GB, count: 8}, release: r1, nodes: {min: 6}}
---
apiVersion: drydock.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: h100}
spec: {select: {pools: [h100]}, checks: smoke, waves: [{name: first, pick: {count: 1}}, {name: rest}]}
---
apiVersion: drydock.dev/v1alpha1
kind: Budget
metadata: {name: all}
spec: {maxInFlight: 2}
"#;

fn release(driver: &str) -> Vec<u8> {
    format!(
        "apiVersion: drydock.dev/v1alpha1\nkind: Release\nmetadata: {{name: r1}}\n\
         spec: {{components: {{gpu-driver: \"{driver}\"}}}}\n"
    )
    .into_bytes()
}

fn author() -> Author {
    Author { name: "Ada".to_owned(), email: "ada@example.org".to_owned() }
}

/// Folders of one test.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) repository: PathBuf,
    pub(crate) directory: PathBuf,
}

impl Place {
    /// With a repository whose one commit is the fleet on [`OLD`].
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (repository, directory) = (dir.path().join("fleet"), dir.path().join("drydock"));
        let files =
            [("fleet.yaml".to_owned(), FLEET.as_bytes().to_vec()), ("release.yaml".to_owned(), release(OLD))];
        let time = Timestamp::from_second(1_772_000_000).unwrap();
        init_repository(&repository, &files, &author(), "The fleet", time).unwrap();
        Self { _dir: dir, repository, directory }
    }

    /// Commits another content of a file; the commit's id comes back.
    pub(crate) fn commit(&self, path: &str, content: Option<Vec<u8>>, message: &str) -> String {
        let time = Timestamp::from_second(1_772_000_100).unwrap();
        commit_all(&self.repository, &[(path.to_owned(), content)], &author(), message, time).unwrap()
    }

    /// Commits a change of the driver.
    pub(crate) fn move_to(&self, driver: &str) -> String {
        self.commit("release.yaml", Some(release(driver)), &format!("Driver {driver}"))
    }

    pub(crate) fn options(&self) -> EmbeddedOptions {
        let repository = self.repository.to_str().unwrap().to_owned();
        let mut options = EmbeddedOptions::new(&self.directory, SourceOptions::of(repository));
        options.listen = Some("127.0.0.1:0".parse().unwrap());
        options.speed = Speed::FlatOut;
        options
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// Waits until what is published is as wished.
pub(crate) async fn until(drydock: &Embedded, wish: impl FnMut(&Facts) -> bool) {
    let seen = tokio::time::timeout(PATIENCE, drydock.wait_until(wish)).await;
    seen.expect("it doesn't come").expect("the engine has ended");
}

/// Waits until the source has a problem of this kind.
pub(crate) async fn until_problem(drydock: &Embedded, word: &str) {
    let mut snapshot = drydock.snapshot();
    let seen = snapshot.wait_for(|s| s.source.problem.as_ref().is_some_and(|problem| problem.word() == word));
    tokio::time::timeout(PATIENCE, seen).await.expect("it doesn't come").expect("the engine has ended");
}

/// Rollouts by the word of their state.
pub(crate) fn states(facts: &Facts) -> Vec<&'static str> {
    facts.ledger.rollouts.values().map(|rollout| rollout.state.word()).collect()
}
