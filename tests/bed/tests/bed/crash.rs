//! The program is killed, its API server stops, two of it run at once: nothing is lost, nothing is done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use drydock_bed::mode::Mode;
use drydock_bed::{Tools, User};
use drydock_plan::RolloutState;
use serde_json::json;

use crate::ground::documents::driver_fleet;
use crate::ground::people::workload;
use crate::ground::{Ground, Site, SiteSpec, describe};

use crate::harness::tests;

tests![
    killed_again_and_again,
    the_api_server_stops_for_a_minute_in_mid_drain,
    a_stopped_leader_that_wakes_up_writes_nothing,
];

const LONG: Duration = Duration::from_secs(300);
const NODES: usize = 12;

/// Evictions that were carried out, by pod.
fn evictions(site: &Site) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    for entry in site.plane.audit()? {
        if entry.subresource == "eviction" && entry.code == 201 {
            *found.entry(entry.name.clone()).or_default() += 1;
        }
    }
    Ok(found)
}

/// A small generator, so that a failing run can be repeated: xorshift over 64 bits.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

async fn killed_again_and_again() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let spec = SiteSpec::new(&tools, "c1", NODES);
    let ground = Ground::start(vec![spec]).await?;
    let site = ground.site("c1");
    workload(&ground, site, NODES, 4).await?;
    let kills: u64 = Mode::of_two(10, 50);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut killed, mut version) = (0, 0);
    let mut last = None;
    while killed < kills {
        version += 1;
        let commit =
            ground.commit("next", &[("fleet.yaml", driver_fleet(&format!("580.{version}.0"), 12, ""))])?;
        last = Some(commit.clone());
        loop {
            let mut drydock = ground.drydock_with("one", &ground.kubeconfig, &["--lease", "3"])?;
            // From before it leads to some way into the rollout.
            let life = Duration::from_millis(500 + dice.below(7_000));
            let ended = tokio::time::timeout(life, ground.ended(&commit, LONG)).await;
            drydock.kill();
            if ended.is_ok() || killed >= kills {
                break;
            }
            killed += 1;
        }
    }
    let _drydock = ground.drydock_with("one", &ground.kubeconfig, &["--lease", "3"])?;
    let end = ground.ended(&last.unwrap(), LONG).await?;
    assert_eq!(end.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(site, "driver").await?, [(format!("580.{version}.0"), NODES)].into());
    // Finished checks are tidied up a little later.
    ground.tidy(Duration::from_secs(90)).await?;
    let doubled: Vec<_> = evictions(site)?.into_iter().filter(|(_, times)| *times > 1).collect();
    assert_eq!(doubled, Vec::<(String, usize)>::new());
    eprintln!("killed {killed} times over {version} rollouts, {} pods evicted once", evictions(site)?.len());
    Ok(())
}

async fn the_api_server_stops_for_a_minute_in_mid_drain() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", 4)]).await?;
    let site = ground.site("c1");
    let first = ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", 4, ""))])?;
    let drydock = ground.drydock("one")?;
    assert_eq!(ground.ended(&first, LONG).await?.state, RolloutState::Succeeded);
    workload(&ground, site, 4, 4).await?;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "team"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "work"}}}});
    ground.create(site, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", &budget).await?;
    let second = ground.commit("second", &[("fleet.yaml", driver_fleet("580.105.08", 4, ""))])?;
    let draining = ground
        .until("a node that drains", LONG, |ledger| {
            let mut nodes = ledger.nodes.iter();
            nodes
                .find_map(|(id, n)| (n.visit.as_ref()?.step == drydock_plan::Step::Drain).then(|| id.clone()))
        })
        .await?;
    drydock.why(draining.as_str(), &["disruptionBudget", "team/keep"], LONG).await?;
    site.plane.stop_apiserver();
    tokio::time::sleep(Duration::from_secs(60)).await;
    site.plane.start_apiserver().await?;
    ground
        .admin(site)?
        .delete("/apis/policy/v1/namespaces/team/poddisruptionbudgets/keep", &json!({}))
        .await?;
    assert_eq!(ground.ended(&second, LONG).await?.state, RolloutState::Succeeded);
    let versions = ground.versions(site, "driver").await?;
    let ledger = ground.ledger().await?;
    let told = describe(&ledger);
    assert_eq!(
        versions,
        [("580.105.08".to_owned(), 4)].into(),
        "{told}\n{:?}\n{}",
        ledger.nodes,
        drydock.tail()
    );
    ground.tidy(Duration::from_secs(90)).await
}

async fn a_stopped_leader_that_wakes_up_writes_nothing() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let spec = SiteSpec::new(&tools, "c1", NODES);
    let ground = Ground::start(vec![spec]).await?;
    let site = ground.site("c1");
    workload(&ground, site, NODES, 4).await?;
    let other = ground.folder.path().join("kubeconfig-b");
    ground.kubeconfig(User::DrydockB, &other)?;
    let commit = ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", 12, ""))])?;
    let first = ground.drydock("one")?;
    ground
        .until("a node of the first leader", LONG, |l| l.nodes.values().find(|n| n.visit.is_some()).map(drop))
        .await?;
    let second = ground.drydock_with("two", &other, &[])?;
    let stopped = std::time::Instant::now();
    first.signal("STOP")?;
    let mut took = None;
    while took.is_none() && stopped.elapsed() < Duration::from_secs(40) {
        let log = std::fs::read_to_string(&second.log)?;
        took = log.contains("this process leads").then(|| stopped.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = took.expect("the second took over");
    first.signal("CONT")?;
    assert_eq!(ground.ended(&commit, LONG).await?.state, RolloutState::Succeeded);
    // The lease, one look of the follower, and the slack of a busy machine.
    assert!(took < Duration::from_secs(15 + 2 + 5), "{took:?}");
    let writes: Vec<(bool, String)> = site
        .plane
        .audit()?
        .into_iter()
        .filter(|e| e.writes() && e.resource != "leases" && (200..300).contains(&e.code))
        .filter(|e| e.by(User::DrydockA) || e.by(User::DrydockB))
        .map(|e| (e.by(User::DrydockB), format!("{e:?}")))
        .collect();
    let begin = writes.iter().position(|(b, _)| *b).expect("the second wrote");
    let late: Vec<&String> = writes[begin..].iter().filter(|(b, _)| !b).map(|(_, e)| e).collect();
    assert_eq!(late, Vec::<&String>::new());
    eprintln!(
        "the second led {took:?} after the first was stopped; {} writes of the first before, {} of the second after",
        begin,
        writes.len() - begin
    );
    ground.tidy(Duration::from_secs(90)).await
}
