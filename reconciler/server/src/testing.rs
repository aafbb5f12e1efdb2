//! Shared by unit tests: a small fleet and snapshots of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use drydock_plan::CommitRef;
use drydock_source::{Attempt, CommitInfo, FileBlob, Snapshot, SourceState};
use jiff::Timestamp;

use crate::store::KeptSource;

/// Pools `h100-0…` of 4 nodes each in cluster `c01`, on this driver.
pub(crate) fn documents(driver: &str, pools: usize) -> Vec<(String, Vec<u8>)> {
    let base = "apiVersion: drydock.dev/v1alpha1\nkind: Fleet\nmetadata: {name: test}\nspec: {}\n---\n\
        apiVersion: drydock.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c01}\nspec: {access: {simulated: {}}}\n---\n\
        apiVersion: drydock.dev/v1alpha1\nkind: Component\nmetadata: {name: gpu-driver}\n\
        spec: {class: gpuDriver, delivery: {daemonSet: {name: gpu-driver}}}\n---\n\
        apiVersion: drydock.dev/v1alpha1\nkind: CheckSuite\nmetadata: {name: smoke}\n\
        spec: {checks: [{name: vector-add, class: driver}]}\n---\n\
        apiVersion: drydock.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: h100}\n\
        spec: {select: {pools: [\"h100-*\"]}, checks: smoke, waves: [{name: all}]}\n---\n\
        apiVersion: drydock.dev/v1alpha1\nkind: Budget\nmetadata: {name: all}\nspec: {maxInFlight: 2}\n";
    let release = format!(
        "apiVersion: drydock.dev/v1alpha1\nkind: Release\nmetadata: {{name: r1}}\n\
         spec: {{components: {{gpu-driver: \"{driver}\"}}}}\n"
    );
    let pool = |n: usize| {
        format!(
            "apiVersion: drydock.dev/v1alpha1\nkind: GpuNodePool\nmetadata: {{name: h100-{n}}}\n\
             spec: {{cluster: c01, nodeSelector: {{pool: h100-{n}}}, gpu: {{model: H100-80GB, count: 8}}, \
             release: r1, nodes: {{min: 4}}}}\n"
        )
    };
    let pools = (0..pools).map(|n| (format!("pools/{n}.yaml"), pool(n).into_bytes()));
    let files = [
        ("base.yaml".to_owned(), base.as_bytes().to_vec()),
        ("release.yaml".to_owned(), release.into_bytes()),
    ];
    files.into_iter().chain(pools).collect()
}

pub(crate) fn commit(id: &str) -> CommitRef {
    CommitRef {
        id: id.to_owned(),
        summary: "a change".to_owned(),
        author: "ada".to_owned(),
        time: Timestamp::UNIX_EPOCH,
    }
}

pub(crate) fn kept(id: &str, files: Vec<(String, Vec<u8>)>) -> KeptSource {
    KeptSource { commit: commit(id), files }
}

/// A source that has read these files at this commit.
pub(crate) fn read(id: &str, generation: u64, files: Vec<(String, Vec<u8>)>) -> SourceState {
    let mut files: Vec<_> = files.into_iter().map(|(path, bytes)| FileBlob { path, bytes }).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let commit = CommitInfo {
        id: id.to_owned(),
        short: id.chars().take(12).collect(),
        author_name: "ada".to_owned(),
        author_email: "ada@example.org".to_owned(),
        time: Timestamp::UNIX_EPOCH,
        message: "a change".to_owned(),
        summary: "a change".to_owned(),
    };
    let snapshot = Snapshot { commit, tree: None, path: String::new(), files, findings: Vec::new() };
    SourceState {
        last_good: Some(Arc::new(snapshot)),
        last_attempt: Some(Attempt { at: Timestamp::UNIX_EPOCH, result: Ok(id.to_owned()) }),
        held: None,
        last_fetch_ok_at: Some(Timestamp::UNIX_EPOCH),
        failures: 0,
        generation,
    }
}

#[test]
fn the_fleet_of_the_tests_is_good() {
    let files =
        documents("580.95.05", 2).into_iter().map(|(path, bytes)| drydock_spec::SourceFile { path, bytes });
    let loaded = drydock_spec::load(&files.collect::<Vec<_>>());
    let errors: Vec<_> = loaded.diagnostics.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
