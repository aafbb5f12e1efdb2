//! Dependency arrows between the crates of the workspace.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::{assert_clean, tree};

/// The drawing: who may name whom. A crate that isn't here isn't on the drawing, and an arrow that isn't here isn't
/// either. Add a line only together with ARCHITECTURE.md.
const DRAWING: &[(&str, &[&str])] = &[
    // fleet/: facts, documents, shared words, decisions, simulation. Each names only what lies deeper.
    ("drydock-gpu", &[]),
    ("drydock-spec", &["drydock-gpu"]),
    ("drydock-plan", &["drydock-spec", "drydock-gpu"]),
    ("drydock-planner", &["drydock-plan", "drydock-spec", "drydock-gpu"]),
    ("drydock-sim", &["drydock-planner", "drydock-plan", "drydock-spec", "drydock-gpu"]),
    // reconciler/: git hands over paths and bytes, so it knows no document.
    ("drydock-source", &[]),
    // The executor carries out plans and doesn't make them: it never names the planner.
    ("drydock-cluster", &["drydock-plan", "drydock-spec", "drydock-gpu", "drydock-api"]),
    (
        "drydock-server",
        &[
            "drydock-source",
            "drydock-cluster",
            "drydock-api",
            "drydock-sim",
            "drydock-planner",
            "drydock-plan",
            "drydock-spec",
            "drydock-gpu",
        ],
    ),
    (
        "drydock",
        &[
            "drydock-server",
            "drydock-source",
            "drydock-cluster",
            "drydock-api",
            "drydock-sim",
            "drydock-planner",
            "drydock-plan",
            "drydock-spec",
            "drydock-gpu",
        ],
    ),
    // node-components/: what lives on nodes knows the protocol and the hardware, never the reconciler.
    ("drydock-api", &["drydock-gpu"]),
    ("drydock-agent", &["drydock-api", "drydock-gpu"]),
    ("drydock-device-plugin", &["drydock-api", "drydock-gpu"]),
    ("drydock-scheduler", &["drydock-api", "drydock-gpu"]),
    ("drydock-smoke", &["drydock-api", "drydock-gpu"]),
];

/// Tests and the grounds they run on may name everybody, and nobody may name them.
const TESTS: &[&str] = &["drydock-tests", "drydock-bed"];

/// Crates that touch the world: network, clusters, Git, files, devices, processes, or a clock behind one's back.
/// Nothing of `fleet/` may have one of them below it, however far down.
const IO_CRATES: &[&str] = &[
    "async-std",
    "axum",
    "chrono",
    "curl",
    "git2",
    "hyper",
    "kube",
    "kube-client",
    "mio",
    "notify",
    "nvml-wrapper",
    "openssl-sys",
    "rand",
    "redb",
    "reqwest",
    "rusqlite",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tonic",
    "tracing-subscriber",
    "ureq",
];

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(tree::root().join("Cargo.toml")).no_deps().exec().unwrap()
}

/// The same with everything below, for the platform the tests run on. What cargo needed to build these tests is on the
/// disk already, so nothing is fetched.
pub(crate) fn resolved() -> Metadata {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    MetadataCommand::new()
        .manifest_path(tree::root().join("Cargo.toml"))
        .other_options(vec!["--filter-platform".to_owned(), platform])
        .exec()
        .unwrap()
}

/// Arrows of the workspace, `(from, to)`, of every kind of dependency.
fn arrows(packages: &[Package]) -> Vec<(String, String)> {
    packages
        .iter()
        .flat_map(|p| {
            let ours = p.dependencies.iter().filter(|d| d.path.is_some());
            ours.map(|d| (p.name.to_string(), d.name.clone())).collect::<Vec<_>>()
        })
        .collect()
}

fn judge_arrows(arrows: &[(String, String)]) -> Vec<String> {
    let drawing: BTreeMap<&str, &[&str]> = DRAWING.iter().copied().collect();
    arrows
        .iter()
        .filter(|(from, to)| {
            !TESTS.contains(&from.as_str())
                && !drawing.get(from.as_str()).is_some_and(|may| may.contains(&to.as_str()))
        })
        .map(|(from, to)| format!("{from} names {to} in its Cargo.toml, and that arrow isn't on the drawing"))
        .collect()
}

#[test]
fn arrows_run_one_way() {
    let packages = metadata().packages;
    let unknown = packages
        .iter()
        .filter(|p| !TESTS.contains(&p.name.as_str()) && !DRAWING.iter().any(|(name, _)| p.name == *name))
        .map(|p| format!("{} isn't on the drawing in tests/tests/house/arrows.rs", p.name));
    let mut findings: Vec<String> = unknown.collect();
    let arrows = arrows(&packages);
    assert!(arrows.len() > 10, "too few arrows were found: {arrows:?}");
    findings.extend(judge_arrows(&arrows));
    assert_clean("Dependency arrows run one way (ARCHITECTURE.md, the house).", &findings);
}

#[test]
fn a_wrong_arrow_is_named() {
    let arrow = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert!(
        judge_arrows(&[arrow("drydock-sim", "drydock-planner"), arrow(TESTS[0], "drydock-sim")]).is_empty()
    );
    for (from, to) in [
        ("drydock-cluster", "drydock-planner"),
        ("drydock-planner", "drydock-sim"),
        ("drydock-agent", "drydock-plan"),
        ("drydock-source", "drydock-server"),
        ("drydock-server", "drydock"),
        ("drydock-new", "drydock-gpu"),
        ("drydock", TESTS[0]),
    ] {
        let found = judge_arrows(&[arrow(from, to)]);
        assert_eq!(found.len(), 1, "{from} -> {to}");
        assert!(found[0].contains(from) && found[0].contains(to), "{}", found[0]);
    }
}

/// The drawing has no circle: whoever is named in a line names nobody that names it back.
#[test]
fn the_drawing_itself_has_no_circle() {
    let mut placed = BTreeSet::new();
    while placed.len() < DRAWING.len() {
        let next = DRAWING
            .iter()
            .find(|(name, may)| !placed.contains(name) && may.iter().all(|below| placed.contains(below)))
            .expect("some crates of the drawing lie below each other");
        placed.insert(next.0);
    }
}

/// Names of everything below a package through normal dependencies, with one way to it.
fn below(metadata: &Metadata, of: &Package) -> BTreeMap<String, String> {
    let resolve = metadata.resolve.as_ref().unwrap();
    let mut found = BTreeMap::new();
    let mut open = vec![(of.id.clone(), of.name.to_string())];
    while let Some((id, way)) = open.pop() {
        let node = resolve.nodes.iter().find(|n| n.id == id).unwrap();
        for dep in &node.deps {
            if !dep.dep_kinds.iter().any(|k| k.kind == DependencyKind::Normal) {
                continue;
            }
            let name = metadata[&dep.pkg].name.to_string();
            let way = format!("{way} -> {name}");
            if found.insert(name, way.clone()).is_none() {
                open.push((dep.pkg.clone(), way));
            }
        }
    }
    found
}

#[test]
fn nothing_below_fleet_touches_the_world() {
    let metadata = resolved();
    let mut findings = Vec::new();
    let fleet = metadata
        .packages
        .iter()
        .filter(|p| p.manifest_path.as_str().contains("/fleet/") && p.source.is_none());
    let mut seen = 0;
    for package in fleet {
        seen += 1;
        let below = below(&metadata, package);
        findings.extend(
            IO_CRATES.iter().filter_map(|io| below.get(*io)).map(|way| format!("IO in the core: {way}")),
        );
        // The features that give a crate a clock or the machine's time zones are switched off in the root manifest.
        let timed =
            metadata.resolve.as_ref().unwrap().nodes.iter().filter(|n| metadata[&n.id].name == "jiff");
        for node in timed {
            let features = node.features.iter().map(ToString::to_string);
            findings.extend(
                features
                    .filter(|f| f == "tz-system" || f == "tzdb-zoneinfo")
                    .map(|f| format!("jiff is built with {f}: the same input would differ between machines")),
            );
        }
    }
    assert_eq!(seen, 5, "crates of fleet/ found in the metadata");
    assert_clean("The core is pure (ARCHITECTURE.md, the house).", &findings);
    // The walk does find what lies deep down.
    let server = metadata.packages.iter().find(|p| p.name == "drydock-server").unwrap();
    assert!(below(&metadata, server).contains_key("mio"));
}
