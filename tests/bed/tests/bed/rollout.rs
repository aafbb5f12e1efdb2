//! Rollouts on real API servers with hollow nodes.

use std::time::Duration;

use std::process::Command;

use drydock_bed::{Tools, User};
use drydock_plan::RolloutState;

use crate::ground::documents::driver_fleet;
use crate::ground::{Ground, SiteSpec, program, setting};

use crate::harness::tests;

tests![a_small_cluster_goes_there_and_a_broken_driver_comes_back, kubectl_reads_well,];

const LONG: Duration = Duration::from_secs(180);

async fn a_small_cluster_goes_there_and_a_broken_driver_comes_back() -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", 6)]).await?;
    let site = ground.site("c1");
    let first = ground.commit("first", &[("fleet.yaml", driver_fleet("580.95.05", 6, ""))])?;
    let _drydock = ground.drydock("one")?;
    let good = ground.ended(&first, LONG).await?;
    assert_eq!(good.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(site, "driver").await?, [("580.95.05".to_owned(), 6)].into());

    site.hollow.inject_yaml(
        "- badVersion: {component: driver, version: \"580.105.08\", how: {readyButBroken: {check: training}}}",
    )?;
    let second = ground.commit("broken", &[("fleet.yaml", driver_fleet("580.105.08", 6, ""))])?;
    let broken = ground.ended(&second, LONG).await?;
    assert_eq!((broken.state.word(), broken.exposed), ("RolledBack", 1));
    assert_eq!(ground.versions(site, "driver").await?, [("580.95.05".to_owned(), 6)].into());

    let third = ground.commit("fixed", &[("fleet.yaml", driver_fleet("580.126.09", 6, ""))])?;
    let fixed = ground.ended(&third, LONG).await?;
    assert_eq!(fixed.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(site, "driver").await?, [("580.126.09".to_owned(), 6)].into());
    ground.tidy(Duration::from_secs(90)).await?;
    Ok(())
}

/// What people type, and what they read. `DRYDOCK_SHOW=1` prints it.
async fn kubectl_reads_well() -> anyhow::Result<()> {
    let found = Tools::find().and_then(|tools| Ok((tools, Tools::kubectl()?)));
    let (tools, kubectl) = found?;
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", 6)]).await?;
    let admin = ground.folder.path().join("admin");
    ground.kubeconfig(User::Admin, &admin)?;
    let run = |args: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(&kubectl).arg("--kubeconfig").arg(&admin).args(args).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(
            output.status.success(),
            "{args:?}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        if setting("DRYDOCK_SHOW").is_some() {
            eprintln!("$ kubectl {}\n{said}", args.join(" "));
        }
        Ok(said)
    };
    let crds = Command::new(program()?).args(["schema", "--crds"]).output()?;
    let file = ground.folder.path().join("crds.yaml");
    std::fs::write(&file, crds.stdout)?;
    run(&["apply", "--server-side", "--force-conflicts", "-f", &file.display().to_string()])?;

    let first = ground.commit("Driver 580.95.05", &[("fleet.yaml", driver_fleet("580.95.05", 6, ""))])?;
    let _drydock = ground.drydock("one")?;
    assert_eq!(ground.ended(&first, LONG).await?.state, RolloutState::Succeeded);
    let good = "rollout/drivers-580.95.05";
    run(&["wait", "-n", "drydock-system", "--for=condition=Ready", good, "--timeout=60s"])?;
    let site = ground.site("c1");
    site.hollow.inject_yaml(
        "- badVersion: {component: driver, version: \"580.105.08\", how: {readyButBroken: {check: training}}}",
    )?;
    let second = ground.commit("Driver 580.105.08", &[("fleet.yaml", driver_fleet("580.105.08", 6, ""))])?;
    assert_eq!(ground.ended(&second, LONG).await?.state.word(), "RolledBack");
    run(&[
        "wait",
        "-n",
        "drydock-system",
        "--for=jsonpath={.status.state}=RolledBack",
        "rollout/drivers-580.105.08",
        "--timeout=60s",
    ])?;
    let rollouts = run(&["get", "rollouts", "-n", "drydock-system"])?;
    for word in ["POLICY", "STATE", "DONE", "EXPOSED", "drivers-580.105.08", "RolledBack", "Succeeded", "6/6"]
    {
        assert!(rollouts.contains(word), "{word} isn't in\n{rollouts}");
    }
    let nodes = run(&["get", "gpunodes"])?;
    for word in ["POOL", "STEP", "RELEASE", "TARGET", "READY", "c1-n-000"] {
        assert!(nodes.contains(word), "{word} isn't in\n{nodes}");
    }
    let story = run(&["describe", "-n", "drydock-system", "rollout/drivers-580.105.08"])?;
    assert!(story.contains("Blame") && story.contains("580.105.08"), "{story}");
    let exposed = ground
        .ledger()
        .await?
        .rollouts
        .values()
        .find(|r| r.exposed == 1)
        .map(|r| r.exposed_nodes[0].node().to_owned());
    let node = run(&["describe", "node", &exposed.unwrap_or_default()])?;
    assert!(node.contains("RolloutBegan") && node.contains("drydock"), "{node}");
    Ok(())
}
