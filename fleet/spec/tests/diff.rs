//! Differences of fleets, and how much one step may take away.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use drydock_spec::{Fleet, PoolChange, SourceFile, accept, diff, load, removals};

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

/// Without the documents of the pools and clusters with these numbers.
fn without(text: &str, numbers: &[usize]) -> String {
    let gone = |doc: &&str| {
        !numbers
            .iter()
            .any(|n| doc.contains(&format!("name: c{n}}}")) || doc.contains(&format!("name: pool{n}}}")))
    };
    text.split("---\n").filter(gone).collect::<Vec<_>>().join("---\n")
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
fn a_rename_is_no_removal() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("name: pool0", "name: training"));
    let d = diff(&a, &b);
    assert_eq!(d.pools.len(), 1);
    let change = d.pools.values().next().unwrap();
    assert!(matches!(change, PoolChange::Renamed { from_name, .. } if from_name.as_str() == "pool0"));
    assert!(!change.moves_nodes());
    assert_eq!(removals(&a, &b).pools_removed, 0);
    assert_eq!(accept(&a, &b), Ok(()));
}

#[test]
fn a_renamed_cluster_takes_its_pools_along() {
    let a = fleet(&text(2, None));
    let b = fleet(
        &text(2, None).replace("name: c0}", "name: berlin}").replace("cluster: c0,", "cluster: berlin,"),
    );
    let counted = removals(&a, &b);
    assert_eq!((counted.pools_removed, counted.clusters_removed), (0, 0));
    let both = text(2, None).replace("name: pool0", "name: training");
    let both = both.replace("name: c0}", "name: berlin}").replace("cluster: c0,", "cluster: berlin,");
    assert_eq!(removals(&a, &fleet(&both)).pools_removed, 0);
}

#[test]
fn a_pool_under_its_name_in_another_cluster_is_a_removal() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("cluster: c0,", "cluster: c1,"));
    assert_eq!(removals(&a, &b).pools_removed, 1);
}

#[test]
fn removals_stay_within_the_budget_of_the_fleet_before() {
    let before = text(20, None);
    let a = fleet(&before);
    assert_eq!(accept(&a, &fleet(&without(&before, &[3, 4]))), Ok(()));
    let refused = accept(&a, &fleet(&without(&before, &[3, 4, 5]))).unwrap_err();
    assert_eq!((refused.removed, refused.before, refused.allowed), (3, 20, 2));
    assert_eq!(refused.removals.nodes_removed, 30);
    assert_eq!(refused.removals.clusters_removed, 3);
    assert!(refused.to_string().contains("3 of 20 pools"), "{refused}");
}

#[test]
fn the_budget_is_raised_on_purpose_only() {
    let gone = [0, 1, 2, 3];
    let (strict, usual, raised) = (text(20, Some("0")), text(20, None), text(20, Some("\"20%\"")));
    // Raised in the same commit.
    assert_eq!(accept(&fleet(&usual), &fleet(&without(&raised, &gone))), Ok(()));
    // A stricter one removed from the document: its default is no word of leave.
    assert!(accept(&fleet(&strict), &fleet(&without(&usual, &[0]))).is_err());
    // A lower one counts from the next commit on.
    assert_eq!(accept(&fleet(&usual), &fleet(&without(&strict, &[0, 1]))), Ok(()));
}

#[test]
fn a_lost_cluster_counts_without_pools() {
    let api = "apiVersion: drydock.dev/v1alpha1";
    let more = format!(
        "{}---\n{api}\nkind: Cluster\nmetadata: {{name: spare}}\nspec: {{access: {{inCluster: {{}}}}}}\n",
        text(3, None)
    );
    let refused = accept(&fleet(&more), &fleet(&text(3, None))).unwrap_err();
    assert_eq!((refused.removed, refused.before), (1, 4));
    assert!(refused.to_string().contains("1 of 4 clusters"), "{refused}");
}
