//! The fleets that newcomers copy load without a warning, and are as large as their README says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use drydock_spec::{Fleet, RuleId, SourceFile, load};

fn root(fleet: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples-repo").join(fleet)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push(SourceFile { path: name, bytes: fs::read(&path).unwrap() });
        }
    }
}

fn files(fleet: &str) -> Vec<SourceFile> {
    let (root, mut files) = (root(fleet), Vec::new());
    collect(&root, &root, &mut files);
    files
}

/// The fleet, when nothing is found but the one note that a mixed policy always has: RDMA checks don't apply to pools
/// without rails.
fn good(fleet: &str, files: &[SourceFile]) -> Fleet {
    let loaded = load(files);
    let found = loaded.diagnostics.iter().filter(|d| d.rule != RuleId::CheckNotApplicable);
    let found: Vec<String> = found.map(ToString::to_string).collect();
    assert!(found.is_empty(), "{fleet}:\n{}", found.join("\n"));
    loaded.fleet.unwrap()
}

/// With one text for another in all releases.
fn with_driver(files: &[SourceFile], old: &str, new: &str) -> Vec<SourceFile> {
    let mut files = files.to_vec();
    for file in files.iter_mut().filter(|f| f.path.starts_with("releases/")) {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        file.bytes = text.replace(old, new).into_bytes();
    }
    files
}

/// Clusters, pools, nodes and GPUs. A pool of the examples has a fixed number of nodes.
fn size(fleet: &Fleet) -> (usize, usize, u32, u32) {
    let (mut nodes, mut gpus) = (0, 0);
    for (name, pool) in &fleet.pools {
        assert_eq!(pool.nodes.min, pool.nodes.max, "{name}");
        let count = pool.nodes.min.unwrap();
        nodes += count;
        gpus += count * pool.gpu.count;
    }
    (fleet.clusters.len(), fleet.pools.len(), nodes, gpus)
}

#[test]
fn demo_loads() {
    assert_eq!(size(&good("demo", &files("demo"))), (2, 9, 184, 640));
}

#[test]
fn model_loads() {
    assert_eq!(size(&good("model", &files("model"))), (12, 39, 3_000, 20_416));
}

/// The exercises of the README replace one text under `releases/` and nothing else.
#[test]
fn one_text_moves_every_pool() {
    for fleet in ["demo", "model"] {
        let before = files(fleet);
        let mut last = good(fleet, &before);
        for version in ["580.105.08", "580.126.09", "580.126.20"] {
            let next = good(fleet, &with_driver(&before, "580.95.05", version));
            let ids =
                |fleet: &Fleet| -> BTreeSet<_> { fleet.releases.values().map(|r| r.vector().id()).collect() };
            assert!(ids(&last).is_disjoint(&ids(&next)), "{fleet} {version}");
            last = next;
        }
    }
}

/// What `releases/README.md` promises.
#[test]
fn a_fabric_manager_left_behind_is_refused() {
    for fleet in ["demo", "model"] {
        let left =
            with_driver(&files(fleet), "fabric-manager: \"580.95.05\"", "fabric-manager: \"580.82.07\"");
        let loaded = load(&left);
        assert!(loaded.fleet.is_none(), "{fleet}");
        assert!(loaded.diagnostics.iter().any(|d| d.rule == RuleId::FabricManager), "{fleet}");
    }
}

/// The only notes: two pools of the demo have no fabric, and one policy moves them together with others that have.
#[test]
fn notes_are_the_expected_ones() {
    let notes = |fleet: &str| load(&files(fleet)).diagnostics.into_iter().map(|d| d.file).collect::<Vec<_>>();
    assert_eq!(notes("demo"), ["pools/c08-research.yaml"; 2]);
    assert!(notes("model").is_empty());
}

/// Everything that is defined is used: no leftovers for a reader to wonder about.
#[test]
fn nothing_stands_unused() {
    for name in ["demo", "model"] {
        let fleet = good(name, &files(name));
        let releases: BTreeSet<_> = fleet.pools.values().map(|p| p.release.clone()).collect();
        assert_eq!(releases, fleet.releases.keys().cloned().collect(), "{name}: releases");
        let layouts: BTreeSet<_> = fleet.pools.values().filter_map(|p| p.layout.clone()).collect();
        assert_eq!(layouts, fleet.layouts.keys().cloned().collect(), "{name}: layouts");
        let suites: BTreeSet<_> = fleet.policies.values().map(|p| p.checks.clone()).collect();
        assert_eq!(suites, fleet.suites.keys().cloned().collect(), "{name}: suites");
    }
}

/// What stands in comments as something to try can be tried: `#` and three blanks mark it.
#[test]
fn examples_in_comments_are_valid() {
    let mut tried = 0;
    for name in ["demo", "model"] {
        let mut files = files(name);
        for file in &mut files {
            // Clusters show alternatives to each other, of which only one can hold.
            if !["controls/", "calendars/", "policies/"].iter().any(|folder| file.path.starts_with(folder)) {
                continue;
            }
            let mut text = String::new();
            for line in String::from_utf8(file.bytes.clone()).unwrap().lines() {
                let code = line.split_once("#   ").filter(|(indent, _)| indent.trim().is_empty());
                tried += usize::from(code.is_some());
                text += &code.map_or_else(|| line.to_owned(), |(indent, code)| format!("{indent}{code}"));
                text.push('\n');
            }
            file.bytes = text.into_bytes();
        }
        good(name, &files);
    }
    assert_eq!(tried, 14);
}
