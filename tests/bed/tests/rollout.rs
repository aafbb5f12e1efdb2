//! Rollouts on real API servers with hollow nodes.

mod ground;

use std::time::Duration;

use drydock_bed::{Tools, skip_or_fail};
use drydock_plan::RolloutState;

use ground::documents::{base, daemon_set, policy, release};
use ground::{Ground, SiteSpec};

const LONG: Duration = Duration::from_secs(60);

fn fleet(driver: &str) -> String {
    let mut text = base(&[("c1", 6)]);
    text += &daemon_set("driver", "gpuDriver", "drain");
    text += &release("c1", &[("driver", driver)]);
    text += &policy(&["c1"], "");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_cluster_goes_there_and_a_broken_driver_comes_back() -> anyhow::Result<()> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => return Ok(skip_or_fail(&missing)),
    };
    let ground = Ground::start(vec![SiteSpec::new(&tools, "c1", 6)]).await?;
    let site = ground.site("c1");
    let first = ground.commit("first", &[("fleet.yaml", fleet("580.95.05"))])?;
    let _drydock = ground.drydock("one")?;
    let good = ground.ended(&first, LONG).await?;
    assert_eq!(good.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(site, "driver").await?, [("580.95.05".to_owned(), 6)].into());

    site.hollow.inject_yaml(
        "- badVersion: {component: driver, version: \"580.105.08\", how: {readyButBroken: {check: training}}}",
    )?;
    let second = ground.commit("broken", &[("fleet.yaml", fleet("580.105.08"))])?;
    let broken = ground.ended(&second, LONG).await?;
    assert_eq!((broken.state.word(), broken.exposed), ("RolledBack", 1));
    assert_eq!(ground.versions(site, "driver").await?, [("580.95.05".to_owned(), 6)].into());

    let third = ground.commit("fixed", &[("fleet.yaml", fleet("580.126.09"))])?;
    let fixed = ground.ended(&third, LONG).await?;
    assert_eq!(fixed.state, RolloutState::Succeeded);
    assert_eq!(ground.versions(site, "driver").await?, [("580.126.09".to_owned(), 6)].into());
    ground.tidy(Duration::from_secs(90)).await?;
    Ok(())
}
