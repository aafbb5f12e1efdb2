//! How much one step may take away.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, fmt::Write as _};

use drydock_spec::{Fleet, RemovalRefused, Removed, Seen, SourceFile, accept, load, removal::lost, removals};

const API: &str = "apiVersion: drydock.dev/v1alpha1";

/// A fleet of `clusters` clusters with one pool each, changed by hand.
fn text(clusters: usize, budget: Option<&str>) -> String {
    let budget = budget.map(|b| format!("  removalBudget: {b}\n")).unwrap_or_default();
    let mut text = format!("{API}\nkind: Fleet\nmetadata: {{name: f}}\nspec:\n{budget}");
    text += &format!(
        "---\n{API}\nkind: Component\nmetadata: {{name: gpu-driver}}\nspec: {{class: gpuDriver, delivery: {{daemonSet: {{name: d}}}}}}\n\
         ---\n{API}\nkind: Release\nmetadata: {{name: r1}}\nspec: {{components: {{gpu-driver: \"580.95.05\"}}}}\n\
         ---\n{API}\nkind: CheckSuite\nmetadata: {{name: s}}\nspec: {{checks: [{{name: v, class: driver}}]}}\n\
         ---\n{API}\nkind: RolloutPolicy\nmetadata: {{name: p}}\nspec: {{select: {{}}, checks: s, waves: [{{name: all}}]}}\n"
    );
    for i in 0..clusters {
        write!(
            text,
            "---\n{API}\nkind: Cluster\nmetadata: {{name: c{i}}}\nspec: {{access: {{kubeconfigContext: ctx-{i}}}}}\n\
             ---\n{API}\nkind: GpuNodePool\nmetadata: {{name: pool{i}}}\nspec: {{cluster: c{i}, nodeSelector: {{pool: p{i}}}, \
             gpu: {{model: H100-80GB, count: 8}}, release: r1, nodes: {{min: 10}}}}\n"
        )
        .unwrap();
    }
    text
}

fn more(kind: &str, name: &str, spec: &str) -> String {
    format!("---\n{API}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
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

fn removed(a: &Fleet, b: &Fleet, what: Removed) -> u32 {
    removals(a, b, &Seen::default()).of(what).removed
}

fn follow(a: &Fleet, b: &Fleet) -> Result<(), RemovalRefused> {
    accept(a, b, &Seen::default())
}

#[test]
fn a_rename_is_no_removal() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("name: pool0", "name: training"));
    assert_eq!(removed(&a, &b, Removed::Pools), 0);
    assert_eq!(follow(&a, &b), Ok(()));
}

#[test]
fn a_renamed_cluster_takes_its_pools_along() {
    let a = fleet(&text(2, None));
    let renamed =
        text(2, None).replace("name: c0}", "name: berlin}").replace("cluster: c0,", "cluster: berlin,");
    let b = fleet(&renamed);
    assert_eq!((removed(&a, &b, Removed::Pools), removed(&a, &b, Removed::Clusters)), (0, 0));
    let both = renamed.replace("name: pool0", "name: training");
    assert_eq!(removed(&a, &fleet(&both), Removed::Pools), 0);
    // Its nodes go on under the new name.
    let labels = BTreeMap::from([("pool".to_owned(), "p0".to_owned())]);
    let seen = Seen { now: None, nodes: vec![("c0", &labels); 3] };
    assert_eq!(removals(&a, &fleet(&both), &seen).of(Removed::Nodes).removed, 0);
}

#[test]
fn a_pool_under_its_name_in_another_cluster_is_a_removal() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("cluster: c0,", "cluster: c1,"));
    assert_eq!(removed(&a, &b, Removed::Pools), 1);
}

#[test]
fn removals_stay_within_the_budget_of_the_fleet_before() {
    let before = text(20, None);
    let a = fleet(&before);
    assert_eq!(follow(&a, &fleet(&without(&before, &[3, 4]))), Ok(()));
    let b = fleet(&without(&before, &[3, 4, 5]));
    let refused = follow(&a, &b).unwrap_err();
    assert_eq!((refused.removed, refused.before, refused.allowed), (3, 20, 2));
    assert_eq!((removed(&a, &b, Removed::Nodes), removed(&a, &b, Removed::Clusters)), (30, 3));
    assert!(refused.to_string().contains("3 of 20 pools (pool3, pool4, pool5)"), "{refused}");
}

#[test]
fn the_budget_is_raised_on_purpose_only() {
    let gone = [0, 1, 2, 3];
    let (strict, usual, raised) = (text(20, Some("0")), text(20, None), text(20, Some("\"20%\"")));
    // Raised in the same commit.
    assert_eq!(follow(&fleet(&usual), &fleet(&without(&raised, &gone))), Ok(()));
    // A stricter one removed from the document: its default is no word of leave.
    assert!(follow(&fleet(&strict), &fleet(&without(&usual, &[0]))).is_err());
    // A lower one counts from the next commit on.
    assert_eq!(follow(&fleet(&usual), &fleet(&without(&strict, &[0, 1]))), Ok(()));
}

#[test]
fn a_lost_cluster_counts_without_pools() {
    let spare = text(3, None) + &more("Cluster", "spare", "{access: {inCluster: {}}}");
    let refused = follow(&fleet(&spare), &fleet(&text(3, None))).unwrap_err();
    assert_eq!((refused.removed, refused.before), (1, 4));
    assert!(refused.to_string().contains("1 of 4 clusters (spare)"), "{refused}");
}

#[test]
fn limits_that_end_are_removals() {
    let cases = [
        (Removed::Budgets, more("Budget", "all", "{maxInFlight: 2}")),
        (
            Removed::Calendars,
            more("Calendar", "all", "{windows: [{from: \"02:00\", for: 2h, timeZone: UTC}]}"),
        ),
    ];
    for (what, document) in cases {
        let (a, b) = (fleet(&(text(2, None) + &document)), fleet(&text(2, None)));
        let refused = follow(&a, &b).unwrap_err();
        assert_eq!((refused.what, refused.removed, refused.before), (what, 1, 1), "{refused}");
        assert!(refused.to_string().contains("(all)"), "{refused}");
        // The same under another name, and the explicit word.
        let renamed = document.replace("name: all", "name: every");
        assert_eq!(follow(&a, &fleet(&(text(2, None) + &renamed))), Ok(()));
        assert_eq!(follow(&a, &fleet(&text(2, Some("\"100%\"")))), Ok(()));
    }
    let policy = text(2, None)
        .replace("kind: RolloutPolicy\nmetadata: {name: p}", "kind: RolloutPolicy\nmetadata: {name: q}");
    assert_eq!(follow(&fleet(&text(2, None)), &fleet(&policy)), Ok(()), "a policy under another name");
    let gone = text(2, None)
        .split("---\n")
        .filter(|d| !d.contains("RolloutPolicy"))
        .collect::<Vec<_>>()
        .join("---\n");
    assert_eq!(follow(&fleet(&text(2, None)), &fleet(&gone)).unwrap_err().what, Removed::Policies);
}

#[test]
fn a_freeze_that_has_ended_may_go() {
    let calendar = more(
        "Calendar",
        "year-end",
        "{freezes: [{from: \"2026-12-20T00:00:00Z\", to: \"2027-01-04T00:00:00Z\"}]}",
    );
    let (a, b) = (fleet(&(text(2, None) + &calendar)), fleet(&text(2, None)));
    let at = |now: &str| Seen { now: Some(now.parse().unwrap()), nodes: Vec::new() };
    assert_eq!(accept(&a, &b, &at("2026-12-24T00:00:00Z")).unwrap_err().what, Removed::Calendars);
    assert_eq!(accept(&a, &b, &at("2027-01-04T00:00:00Z")), Ok(()));
}

#[test]
fn one_pause_may_end_and_a_folder_of_them_not() {
    let pause = |name: &str| more("RolloutControl", name, "{policy: p, state: Pause}");
    let run = more("RolloutControl", "go", "{policy: p}");
    let base = text(2, None);
    let many = fleet(&format!("{base}{}{}{run}", pause("a"), pause("b")));
    assert_eq!(follow(&many, &fleet(&format!("{base}{}", pause("a")))), Ok(()));
    let refused = follow(&many, &fleet(&base)).unwrap_err();
    assert_eq!((refused.what, refused.removed), (Removed::Controls, 2), "{refused}");
    // One that holds nothing back isn't missed.
    assert_eq!(follow(&fleet(&format!("{base}{run}")), &fleet(&base)), Ok(()));
}

#[test]
fn a_pool_without_a_number_of_nodes_has_some() {
    let a = fleet(&text(1, None).replace(", nodes: {min: 10}", ""));
    let counted = removals(&a, &a, &Seen::default()).of(Removed::Nodes);
    assert_eq!((counted.removed, counted.before), (0, 1));
}

#[test]
fn nodes_fall_out_with_a_selector_that_matches_nothing_any_more() {
    let a = fleet(&text(2, None));
    let b = fleet(&text(2, None).replace("{pool: p0}", "{pool: typo}"));
    let labels = BTreeMap::from([("pool".to_owned(), "p0".to_owned())]);
    let seen = Seen { now: None, nodes: vec![("c0", &labels); 7] };
    let counted = removals(&a, &b, &seen).of(Removed::Nodes);
    // Three more are in the document and weren't seen: they go with the others.
    assert_eq!((counted.removed, counted.before), (10, 20));
    assert_eq!(counted.names, ["pool0"]);
    assert!(accept(&a, &b, &seen).unwrap_err().to_string().contains("10 of 20 nodes (of pool0)"));
    // A narrower selector lets go of those only that it doesn't match.
    let narrow = fleet(&text(2, None).replace("{pool: p0}", "{pool: p0, disk: ssd}"));
    let with = BTreeMap::from([("pool".to_owned(), "p0".to_owned()), ("disk".to_owned(), "ssd".to_owned())]);
    let nodes = vec![("c0", &labels), ("c0", &with), ("c0", &with)];
    let seen = Seen { now: None, nodes };
    assert_eq!(removals(&a, &narrow, &seen).of(Removed::Nodes).removed, 1);
}

#[test]
fn what_goes_is_said_by_name() {
    let a = fleet(&(text(2, None) + &more("Budget", "all", "{maxInFlight: 2}")));
    let b = fleet(&without(&text(2, None), &[1]));
    let counted = removals(&a, &b, &Seen::default());
    let words = counted.words(&[Removed::Pools, Removed::Clusters, Removed::Budgets, Removed::Calendars]);
    assert_eq!(words, ["pools: pool1", "clusters: c1", "budgets: all"]);
}

#[test]
fn documents_that_moved_are_not_lost() {
    let load_at = |path: &str, document: &str| {
        let files = [
            SourceFile { path: "base.yaml".into(), bytes: text(1, None).into_bytes() },
            SourceFile { path: path.into(), bytes: document.as_bytes().to_vec() },
        ];
        load(&files).fleet.unwrap()
    };
    let budget = more("Budget", "all", "{maxInFlight: 2}");
    let (a, moved, gone) = (
        load_at("budgets/a.yaml", &budget),
        load_at("shared/a.yaml", &budget),
        load_at("x.yaml", "# nothing\n"),
    );
    assert!(!lost(&a, Some(&moved), "budgets"));
    assert!(lost(&a, Some(&gone), "budgets") && lost(&a, Some(&gone), "budgets/a.yaml"));
    assert!(!lost(&a, Some(&gone), "budget"), "another folder");
    assert!(lost(&a, None, "budgets"));
}
