//! Differences of fleets, and how much one step may take away.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use drydock_spec::{Fleet, PoolChange, SourceFile, diff, load};

/// A fleet of `clusters` clusters with one pool each, changed by hand.
fn text(clusters: usize, budget: Option<&str>) -> String {
    let api = "apiVersion: drydock.dev/v1alpha1";
    let budget = budget.map(|b| format!("  removalBudget: {b}\n")).unwrap_or_default();
    let mut text = format!("{api}\nkind: Fleet\nmetadata: {{name: f}}\nspec:\n{budget}");
    text += &format!(
        "---\n{api}\nkind: Component\nmetadata: {{name: gpu-driver}}\nspec: {{class: gpuDriver, delivery: {{daemonSet: {{name: d}}}}}}\n\
         ---\n{api}\nkind: Release\nmetadata: {{name: r1}}\nspec: {{components: {{gpu-driver: \"580.95.05\"}}}}\n\
         ---\n{api}\nkind: Release\nmetadata: {{name: r2}}\nspec: {{components: {{gpu-driver: \"580.105.08\"}}}}\n\
         ---\n{api}\nkind: CheckSuite\nmetadata: {{name: s}}\nspec: {{checks: [{{name: v, class: driver}}]}}\n\
         ---\n{api}\nkind: RolloutPolicy\nmetadata: {{name: p}}\nspec: {{select: {{}}, checks: s, waves: [{{name: all}}]}}\n"
    );
    for i in 0..clusters {
        let access = format!("{{kubeconfigContext: ctx-{i}}}");
        write!(
            text,
            "---\n{api}\nkind: Cluster\nmetadata: {{name: c{i}}}\nspec: {{access: {access}}}\n\
             ---\n{api}\nkind: GpuNodePool\nmetadata: {{name: pool{i}}}\nspec: {{cluster: c{i}, nodeSelector: {{pool: p{i}}}, \
             gpu: {{model: H100-80GB, count: 8}}, release: r1, nodes: {{min: 10}}}}\n"
        )
        .unwrap();
    }
    text
}

fn fleet(text: &str) -> Fleet {
    let loaded = load(&[SourceFile { path: "f.yaml".into(), bytes: text.as_bytes().to_vec() }]);
    loaded.fleet.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics))
}

#[test]
fn nothing_differs_from_itself_or_from_another_place() {
    let a = fleet(&text(3, None));
    assert!(diff(&a, &a).is_empty());
    // Moving documents around in files changes no word of them.
    let moved =
        text(3, None).split("---\n").map(|d| format!("# moved\n{d}")).collect::<Vec<_>>().join("---\n");
    assert!(diff(&a, &fleet(&moved)).is_empty());
}

#[test]
fn a_release_moves_a_pool() {
    let a = fleet(&text(3, None));
    let b = fleet(&text(3, None).replacen("release: r1", "release: r2", 2));
    let d = diff(&a, &b);
    let moving: Vec<_> = d.moving().map(|(name, _)| name.to_string()).collect();
    assert_eq!(moving, ["pool0", "pool1"]);
    assert_eq!(d.versions.len(), 1);
    let one = &d.versions[0];
    assert_eq!(one.component.to_string(), "gpu-driver");
    assert_eq!(one.from.as_ref().unwrap().version.as_str(), "580.95.05");
    assert_eq!(one.to.as_ref().unwrap().version.as_str(), "580.105.08");
    assert_eq!(one.pools.len(), 2);
}

#[test]
fn the_same_versions_under_another_name_move_nothing() {
    let a = fleet(&text(1, None));
    let b = fleet(&text(1, None).replace("580.105.08", "580.95.05").replace("release: r1", "release: r2"));
    let d = diff(&a, &b);
    assert_eq!(d.moving().count(), 0);
    assert_eq!(d.pools.len(), 1);
    assert_eq!(d.releases.changed.len(), 1);
}

#[test]
fn a_rename_is_shown_as_one() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("name: pool0", "name: training"));
    let d = diff(&a, &b);
    assert_eq!(d.pools.len(), 1);
    let change = d.pools.values().next().unwrap();
    assert!(matches!(change, PoolChange::Renamed { from_name, .. } if from_name.as_str() == "pool0"));
    assert!(!change.moves_nodes());
}
