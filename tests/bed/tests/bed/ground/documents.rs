//! Fleets as text.

/// A document.
pub(crate) fn document(kind: &str, name: &str, spec: &str) -> String {
    let indented: String = spec.trim_matches('\n').lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "---\napiVersion: drydock.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{indented}"
    )
}

/// Fleet, clusters, pools of one cluster each.
pub(crate) fn pools(clusters: &[(&str, u32)]) -> String {
    let mut text =
        "apiVersion: drydock.dev/v1alpha1\nkind: Fleet\nmetadata: {name: ground}\nspec: {}\n".to_owned();
    for (name, nodes) in clusters {
        text += &document("Cluster", name, &format!("access: {{kubeconfigContext: {name}}}"));
        text += &document(
            "GpuNodePool",
            name,
            &format!(
                "cluster: {name}\nnodeSelector: {{pool: {name}}}\ngpu: {{model: H100-80GB, count: 8}}\nrelease: {name}\nnodes: {{min: {nodes}}}"
            ),
        );
    }
    text
}

/// The same, with a suite of checks.
pub(crate) fn base(clusters: &[(&str, u32)]) -> String {
    pools(clusters)
        + &document(
            "CheckSuite",
            "smoke",
            "checks:
  - {name: driver-smoke, class: driver, timeout: 40s, run: {image: \"check:1\"}}
  - {name: training-step, class: training, timeout: 40s, regress: \"10%\", run: {image: \"check:1\"}}",
        )
}

/// A whole fleet: cluster `c1` with a driver by DaemonSet, and what the policy says beside the usual.
pub(crate) fn driver_fleet(driver: &str, nodes: u32, more: &str) -> String {
    let mut text = base(&[("c1", nodes)]);
    text += &daemon_set("driver", "gpuDriver", "drain");
    text += &release("c1", &[("driver", driver)]);
    text += &policy(&["c1"], more);
    text
}

/// A policy with one wave for each cluster, in this order; the first batch is one node.
pub(crate) fn policy(waves: &[&str], more: &str) -> String {
    let waves: String = waves
        .iter()
        .map(|name| {
            format!(
                "  - name: {name}\n    select: {{clusters: [{name}]}}\n    batch: {{start: 1, grow: 4, max: 16}}\n    soak: {{time: 1s}}\n    failure: {{tolerate: 0}}\n"
            )
        })
        .collect();
    document(
        "RolloutPolicy",
        "drivers",
        &format!(
            "select: {{pools: [\"*\"]}}\nchecks: smoke\nwaves:\n{waves}retry: {{applyAttempts: 2, backoff: 1s, backoffMax: 2s}}\nonFailure: {{action: rollback, scope: failedAndSuspect}}\n{more}"
        ),
    )
}

/// A component delivered by DaemonSet.
pub(crate) fn daemon_set(name: &str, class: &str, disruption: &str) -> String {
    document(
        "Component",
        name,
        &format!(
            "class: {class}\ndisruption: {disruption}\ndeadline: 2m\nexpect: {{p50: 1s, p90: 5s}}\ndelivery: {{daemonSet: {{namespace: gpu, name: {name}, image: \"reg/{name}\"}}}}"
        ),
    )
}

/// A release: component and version.
pub(crate) fn release(name: &str, components: &[(&str, &str)]) -> String {
    let list: String = components.iter().map(|(c, v)| format!("  {c}: \"{v}\"\n")).collect();
    document("Release", name, &format!("components:\n{list}"))
}
