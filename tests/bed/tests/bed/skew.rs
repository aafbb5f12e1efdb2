//! Machines whose clocks are ten minutes off: what they do takes as long as it does elsewhere, and they take turns.

use std::path::Path;
use std::time::Duration;

use drydock_bed::{Missing, Tools, User};
use drydock_plan::RolloutState;

use crate::ground::documents::driver_fleet;
use crate::ground::{Ground, SiteSpec};

use crate::harness::tests;

tests![clocks_that_are_twenty_minutes_apart];

const LONG: Duration = Duration::from_secs(240);
/// Far less than the clocks are apart, and far more than a rollout of three nodes takes.
const SOON: Duration = Duration::from_secs(120);
const NODES: u32 = 3;

/// Gives a program another time. Debian's package `faketime`.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

fn library() -> Result<String, Missing> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders.iter().map(|folder| Path::new(folder).join(LIBRARY)).find(|path| path.is_file());
    found.map(|path| path.display().to_string()).ok_or_else(|| Missing {
        what: vec![LIBRARY.to_owned()],
        remedy: "Install the package faketime.".to_owned(),
    })
}

async fn clocks_that_are_twenty_minutes_apart() -> anyhow::Result<()> {
    let found = Tools::find().and_then(|tools| Ok((tools, library()?)));
    let (tools, library) = found?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", NODES as usize)]).await?;
    let site = ground.site("c1");
    let other = ground.folder.path().join("kubeconfig-b");
    ground.kubeconfig(User::DrydockB, &other)?;
    let clock =
        |offset| [("LD_PRELOAD", library.as_str()), ("FAKETIME", offset), ("DONT_FAKE_MONOTONIC", "1")];

    let first = ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", NODES, ""))])?;
    let ahead = ground.drydock_in("ahead", &ground.kubeconfig, &[], &clock("+600"))?;
    assert_eq!(ground.ended(&first, LONG).await?.state, RolloutState::Succeeded);
    let said = std::fs::read_to_string(&ahead.log)?;
    assert!(said.contains("ahead of the home cluster's"), "{said}");

    // A second one, far behind, sees a lease that was renewed in its future; it waits all the same.
    let behind = ground.drydock_in("behind", &other, &[], &clock("-600"))?;
    site.hollow.inject_yaml(
        "- badVersion: {component: driver, version: \"580.105.08\", how: {readyButBroken: {check: training}}}",
    )?;
    let second = ground.commit("broken", &[("fleet.yaml", driver_fleet("580.105.08", NODES, ""))])?;
    let broken = ground.ended(&second, LONG).await?;
    assert_eq!((broken.state.word(), broken.exposed), ("RolledBack", 1));
    let writes = |user| -> anyhow::Result<usize> {
        let entries = site.plane.audit()?.into_iter();
        Ok(entries.filter(|e| e.by(user) && e.writes() && e.resource != "leases").count())
    };
    assert_eq!(writes(User::DrydockB)?, 0);

    // It takes over in mid-rollout, and no step lasts twenty minutes longer for it.
    let third = ground.commit("fixed", &[("fleet.yaml", driver_fleet("580.126.09", NODES, ""))])?;
    ground
        .until("a node of the first", LONG, |l| l.nodes.values().find(|n| n.visit.is_some()).map(drop))
        .await?;
    drop(ahead);
    assert_eq!(ground.ended(&third, SOON).await?.state, RolloutState::Succeeded);
    let said = std::fs::read_to_string(&behind.log)?;
    assert!(said.contains("behind the home cluster's"), "{said}");
    assert!(writes(User::DrydockB)? > 0);
    ground.tidy(Duration::from_secs(90)).await
}
