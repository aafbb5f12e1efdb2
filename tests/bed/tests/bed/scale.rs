//! A thousand nodes in one cluster: what it costs the API server, how long a node waits, how much memory it takes.
//!
//! It takes minutes and is about figures, so it runs only where it is asked for: `DRYDOCK_SCALE=1000`.

use std::collections::BTreeMap;
use std::time::Duration;

use drydock_bed::plane::AuditEntry;
use drydock_bed::{Tools, User};
use drydock_plan::RolloutState;
use jiff::Timestamp;
use serde_json::json;

use crate::ground::documents::driver_fleet;
use crate::ground::{Ground, SiteSpec, setting};

use crate::harness::{NotNow, tests};

tests![a_thousand_nodes];

const LONG: Duration = Duration::from_secs(1_500);

/// Requests of drydock, the lease's aside.
fn requests(entries: &[AuditEntry]) -> Vec<&AuditEntry> {
    entries.iter().filter(|e| e.by(User::DrydockA) && e.resource != "leases").collect()
}

fn median(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    (middle, values.last().copied().unwrap_or(f64::NAN))
}

async fn a_thousand_nodes() -> anyhow::Result<()> {
    let Some(nodes) = setting("DRYDOCK_SCALE") else {
        return Err(NotNow("DRYDOCK_SCALE says how many nodes; it isn't set".to_owned()).into());
    };
    let nodes: u32 = nodes.parse()?;
    let tools = Tools::find()?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", nodes as usize)]).await?;
    let site = ground.site("c1");
    let first = ground.commit(
        "first",
        &[("fleet.yaml", driver_fleet("580.95.05", nodes, "").replace("max: 16", "max: 100"))],
    )?;
    let drydock = ground.drydock("one")?;
    assert_eq!(ground.ended(&first, LONG).await?.state, RolloutState::Succeeded);
    let work = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "work", "namespace": "team"},
        "spec": {"replicas": nodes, "selector": {"matchLabels": {"app": "work"}},
            "template": {"metadata": {"labels": {"app": "work"}}, "spec": {"containers": [
                {"name": "c", "image": "work:1", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}}
    });
    ground.create(site, "/apis/apps/v1/namespaces/team/deployments", &work).await?;
    ground.tidy(Duration::from_secs(180)).await?;

    // An idle minute: after the last word about the nodes, which may wait for five minutes.
    let quiet = std::time::Instant::now() + Duration::from_secs(900);
    loop {
        let before = site.plane.audit()?.len();
        tokio::time::sleep(Duration::from_secs(30)).await;
        if requests(&site.plane.audit()?.split_off(before)).is_empty() {
            break;
        }
        anyhow::ensure!(std::time::Instant::now() < quiet, "it never falls silent");
    }
    let before = site.plane.audit()?.len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let idle = site.plane.audit()?.split_off(before);
    let idle: Vec<String> = requests(&idle).iter().map(|e| format!("{} {}", e.verb, e.uri)).collect();

    // An upgrade of everything.
    let before = site.plane.audit()?.len();
    let begun = std::time::Instant::now();
    let second = ground.commit(
        "second",
        &[("fleet.yaml", driver_fleet("580.105.08", nodes, "").replace("max: 16", "max: 100"))],
    )?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    let took = begun.elapsed();
    ground.tidy(Duration::from_secs(180)).await?;
    let entries = site.plane.audit()?.split_off(before);
    let ours = requests(&entries);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for entry in &ours {
        *kinds.entry(format!("{} {} {}", entry.verb, entry.resource, entry.subresource)).or_default() += 1;
    }
    let evicted = ours.iter().filter(|e| e.subresource == "eviction" && e.code == 201).count();
    let checks = ours.iter().filter(|e| e.verb == "create" && e.resource == "jobs").count();
    let rest = ours.len().saturating_sub(evicted + 2 * checks);
    let each = rest as f64 / f64::from(nodes);

    // From the instant at which a driver's pod is told ready to the first look at the next step.
    let mut ready: BTreeMap<String, Timestamp> = BTreeMap::new();
    let pods = ground.list(site, "/api/v1/pods?labelSelector=drydock.dev%2Fcomponent%3Ddriver").await?;
    let node_of: BTreeMap<&str, &str> = pods
        .iter()
        .filter_map(|p| Some((p["metadata"]["name"].as_str()?, p["spec"]["nodeName"].as_str()?)))
        .collect();
    for entry in
        entries.iter().filter(|e| e.by(User::Hollow) && e.resource == "pods" && e.subresource == "status")
    {
        if let Some(node) = node_of.get(entry.name.as_str()) {
            ready.insert((*node).to_owned(), entry.at);
        }
    }
    let log = std::fs::read_to_string(&drydock.log)?;
    let mut next: BTreeMap<String, Timestamp> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("step=\"check\"")) {
        let at = line.split_whitespace().next().and_then(|t| t.parse::<Timestamp>().ok());
        let node = line.split("node=\"").nth(1).and_then(|rest| rest.split('"').next());
        if let (Some(at), Some(node)) = (at, node)
            && ready.get(node).is_some_and(|ready| at >= *ready)
        {
            next.entry(node.to_owned()).or_insert(at);
        }
    }
    let waits: Vec<f64> = ready
        .iter()
        .filter_map(|(node, ready)| Some(next.get(node)?.duration_since(*ready).as_secs_f64()))
        .collect();
    let (middle, most) = median(waits.clone());
    let status = std::fs::read_to_string(format!("/proc/{}/status", drydock.id()))?;
    let peak = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default().to_owned();
    eprintln!(
        "{nodes} nodes in {took:?}; idle minute: {} requests {idle:?}; an upgraded node: {each:.2} requests beside {evicted} evictions and {checks} check pods ({} in all: {kinds:?}); ready to next step: median {middle:.2} s, most {most:.2} s of {}; {peak}",
        idle.len(),
        ours.len(),
        waits.len()
    );
    assert_eq!(idle, Vec::<String>::new());
    assert!(each <= 12.0, "{each}");
    Ok(())
}
