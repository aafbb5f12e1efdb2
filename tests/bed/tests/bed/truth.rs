//! One script on real nodes and on hollow ones: two clusters of four, a driver and a device plugin by DaemonSet, a gang
//! with a checkpoint hook and a disruption budget, good releases and five kinds of bad ones (one in an ordinary run). drydock does the same on
//! both, event for event: what hollow nodes show is what kubelets show.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use drydock_api::names;
use drydock_bed::hollow::NodeSpec;
use drydock_bed::mode::Mode;
use drydock_bed::real::{Image, STAND_IN, stand_in_image, stand_in_with};
use drydock_bed::{RealOptions, RealTools, Tools, User};
use drydock_plan::{Ledger, PauseReason, RolloutState};
use serde_json::{Value, json};

use crate::ground::documents::{document, policy, pools, release};
use crate::ground::{Drydock, Ground, Site, SiteSpec};

use crate::harness::tests;

tests![real_nodes_and_hollow_ones_tell_the_same_story];

const LONG: Duration = Duration::from_secs(400);
const CLUSTERS: [&str; 2] = ["c1", "c2"];
const NODES: usize = 4;
/// Where driver, checks and the test leave notes for each other on a node.
const NOTES: &str = "/run/bed";

/// What is wrong with a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Its pod is ready, and the training check fails.
    Fails,
    /// Its pod is ready, and the driver's check never ends.
    Hangs,
    /// Its container ends again and again.
    Crashes,
    /// Its image isn't to be had.
    Absent,
}

/// What a release brings: driver, device plugin, what is wrong.
type Scene = (&'static str, &'static str, Option<Defect>);

/// Releases in their order. The first few are a first install, an upgrade with a gang in its way, and a way back; the rest
/// is for a run that has time: each more takes a minute.
const SCENES: [Scene; 8] = [
    ("580.65.06", "0.17.4", None),
    ("580.82.07", "0.18.0", None),
    ("580.95.05", "0.18.0", Some(Defect::Fails)),
    ("580.105.08", "0.18.0", None),
    ("580.119.02", "0.18.0", Some(Defect::Hangs)),
    ("580.126.09", "0.18.0", Some(Defect::Absent)),
    ("580.126.16", "0.18.0", Some(Defect::Crashes)),
    ("580.142.01", "0.18.0", None),
];
const FEW: usize = 3;
/// The release under which checks are killed for a while; after all others.
const KILLED: (&str, &str) = ("580.150.02", "0.18.1");

fn scenes() -> &'static [Scene] {
    &SCENES[..Mode::of_two(FEW, SCENES.len())]
}

fn fleet(driver: &str, plugin: &str) -> String {
    let count = u32::try_from(NODES).unwrap_or_default();
    let mut text = pools(&CLUSTERS.map(|name| (name, count)));
    let check = |name: &str, class: &str, value: &str| {
        format!(
            "  - name: {name}
    class: {class}
    timeout: 20s
    regress: \"10%\"
    template:
      spec:
        volumes: [{{name: notes, hostPath: {{path: {NOTES}, type: DirectoryOrCreate}}}}]
        containers:
          - name: check
            image: bed/check:1
            args: [check, --notes, {NOTES}, --value, \"{value}\"]
            resources: {{limits: {{memory: 64Mi}}}}
            volumeMounts: [{{name: notes, mountPath: {NOTES}}}]
"
        )
    };
    let checks = check("driver-smoke", "driver", "460") + &check("training-step", "training", "120");
    text += &document("CheckSuite", "smoke", &format!("checks:\n{checks}"));
    text += &document(
        "Component",
        "driver",
        &format!(
            "class: gpuDriver
disruption: drain
deadline: 2m
expect: {{p50: 1s, p90: 5s}}
delivery:
  daemonSet:
    namespace: gpu
    name: driver
    image: registry.invalid/driver
    template:
      spec:
        terminationGracePeriodSeconds: 1
        volumes: [{{name: notes, hostPath: {{path: {NOTES}, type: DirectoryOrCreate}}}}]
        containers:
          - name: driver
            volumeMounts: [{{name: notes, mountPath: {NOTES}}}]
            readinessProbe: {{exec: {{command: [{STAND_IN}, probe, /run/driver-ready]}}, periodSeconds: 1}}"
        ),
    );
    text += &document(
        "Component",
        "plugin",
        "class: devicePlugin
disruption: restart
deadline: 2m
expect: {p50: 1s, p90: 5s}
delivery:
  daemonSet:
    namespace: gpu
    name: plugin
    image: registry.invalid/device-plugin
    template:
      spec:
        terminationGracePeriodSeconds: 1
        volumes: [{name: sockets, hostPath: {path: /var/lib/kubelet/device-plugins}}]
        containers:
          - name: plugin
            volumeMounts: [{name: sockets, mountPath: /var/lib/kubelet/device-plugins}]",
    );
    for name in CLUSTERS {
        text += &release(name, &[("driver", driver), ("plugin", plugin)]);
    }
    text += &policy(&CLUSTERS, "drain: {timeout: 2m}\n");
    text
}

/// Images of everything that runs on real nodes.
fn images(real: &RealTools) -> anyhow::Result<Vec<Image>> {
    let mut images = vec![stand_in_image("bed/check", "1")?, stand_in_image("bed/work", "1")?];
    let note = format!("{NOTES}/driver");
    let drivers = SCENES.iter().map(|(driver, _, defect)| (*driver, *defect)).chain([(KILLED.0, None)]);
    for (driver, defect) in drivers {
        let more: &[&str] = match defect {
            Some(Defect::Fails) => &["--defect", "training-step=fail"],
            Some(Defect::Hangs) => &["--defect", "driver-smoke=hang"],
            Some(Defect::Crashes) => &["--crash"],
            Some(Defect::Absent) => continue,
            None => &[],
        };
        let args: Vec<&str> = ["driver", "--note", &note].into_iter().chain(more.iter().copied()).collect();
        images.push(stand_in_with("registry.invalid/driver", driver, &args)?);
    }
    for plugin in ["0.17.4", "0.18.0", "0.18.1"] {
        images.push(real.device_plugin_image("registry.invalid/device-plugin", plugin, 8)?);
    }
    Ok(images)
}

/// What has no real part on hollow nodes is a fault there.
fn fault(driver: &str, defect: Defect) -> Option<String> {
    let bad = |how: &str| Some(format!("- badVersion: {{component: driver, version: {driver}, how: {how}}}"));
    match defect {
        Defect::Fails => bad("{readyButBroken: {check: training}}"),
        Defect::Hangs => bad("{hangsInCheck: {check: driver}}"),
        Defect::Crashes => bad("crashLoops"),
        Defect::Absent => None,
    }
}

/// A training job of two pods that fill their nodes. It writes checkpoints when it is asked to, and one pod of it has to
/// be there always. A Deployment brings its pods back at once; a Job waits longer after each.
async fn gang(ground: &Ground, site: &Site) -> anyhow::Result<()> {
    let job = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train", "namespace": "team"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "train"}},
            "template": {
                "metadata": {
                    "labels": {"app": "train", names::GANG: "train"},
                    "annotations": {names::CHECKPOINT_HOOK: names::CHECKPOINT_HOOK_ANNOTATION},
                },
                "spec": {
                    "terminationGracePeriodSeconds": 2,
                    "containers": [{
                        "name": "rank", "image": "bed/work:1", "imagePullPolicy": "IfNotPresent", "args": ["job"],
                        "lifecycle": {"preStop": {"exec": {"command": [STAND_IN, "checkpoint", "/checkpoint"]}}},
                        "resources": {"limits": {"nvidia.com/gpu": "8"}},
                    }],
                },
            },
        },
    });
    ground.create(site, "/apis/apps/v1/namespaces/team/deployments", &job).await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "train", "namespace": "team"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}},
    });
    ground.create(site, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", &budget).await?;
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let pods = ground.list(site, "/api/v1/namespaces/team/pods").await?;
        if pods.iter().filter(|p| p["status"]["phase"] == "Running").count() == 2 {
            return Ok(());
        }
        anyhow::ensure!(std::time::Instant::now() < deadline, "the gang doesn't run: {pods:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// The job's own side of the hook: it answers requests. A hollow kubelet does that itself.
async fn answer_checkpoints(clients: Vec<kube::Client>) {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams, Patch, PatchParams};
    loop {
        for client in &clients {
            let api: Api<Pod> = Api::namespaced(client.clone(), "team");
            let Ok(pods) = api.list(&ListParams::default().labels(names::GANG)).await else { continue };
            for pod in pods {
                let annotations = pod.metadata.annotations.unwrap_or_default();
                let asked = annotations.get(names::CHECKPOINT_REQUEST);
                if asked.is_none() || asked == annotations.get(names::CHECKPOINT_FOR) {
                    continue;
                }
                let body = json!({"metadata": {"annotations": {names::CHECKPOINT_FOR: asked}}});
                let name = pod.metadata.name.unwrap_or_default();
                let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(body)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// What happened: of each rollout its own events in order, and for each cluster the ways of its nodes, each in order.
///
/// Without times, causes in words, and names of nodes: which node is idle, and so goes first, is the scheduler's doing.
fn story(drydock: &Drydock) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut events: Vec<Value> = Vec::new();
    let mut before = u64::MAX;
    loop {
        let page = drydock.get(&format!("/history?limit=100&before={before}"))?;
        let items = page["items"].as_array().cloned().unwrap_or_default();
        events.extend(items);
        match page["next"].as_str().and_then(|n| n.parse().ok()) {
            Some(next) => before = next,
            None => break,
        }
    }
    let mut story: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut ways: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for event in events.iter().rev() {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("node") => {
                let way = ways.entry((text("rollout"), text("node"))).or_insert_with(|| vec![text("from")]);
                way.push(text("to"));
            }
            Some("rollout") => {
                let mut what = event["event"].clone();
                for inner in what.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
                    let Some(inner) = inner.as_object_mut() else { continue };
                    inner.retain(|key, _| key != "text" && key != "why");
                    if let Some(node) = inner.get_mut("node") {
                        *node = json!(node.as_str().and_then(|node| node.split('/').next()));
                    }
                }
                story.entry(text("rollout")).or_default().push(what.to_string());
            }
            _ => {}
        }
    }
    for ((rollout, node), way) in ways {
        let cluster = node.split('/').next().unwrap_or_default();
        // The gang is asked on whichever nodes it sits just then; its pods come back where there is room first.
        let asked = way.iter().any(|step| step == "checkpoint");
        let way: Vec<&str> = way.iter().map(String::as_str).filter(|step| *step != "checkpoint").collect();
        let of = format!("nodes of {cluster} in {rollout}");
        if asked {
            story
                .insert(format!("gang of {cluster} in {rollout}"), vec!["asked for a checkpoint".to_owned()]);
        }
        story.entry(of).or_default().push(way.join(" > "));
    }
    for (of, ways) in &mut story {
        if of.starts_with("nodes of") {
            ways.sort();
        }
    }
    Ok(story)
}

fn paused(ledger: &Ledger, commit: &str) -> Option<()> {
    let held = ledger.rollouts.values().find(|r| r.commit.id == commit)?;
    matches!(held.state, RolloutState::Paused(PauseReason::Inconclusive { .. })).then_some(())
}

/// Checks that are killed say nothing about the version: it waits, and goes on.
async fn killed_checks(ground: &Ground, said: &impl Fn(&str)) -> anyhow::Result<()> {
    let kill = |yes: bool| -> anyhow::Result<()> {
        for site in &ground.sites {
            match &site.real {
                Some(nodes) => {
                    nodes.write(&format!("{NOTES}/runner"), if yes { "training-step=memory" } else { "" })?;
                }
                None if yes => site.hollow.inject_yaml("- brokenRunner: {check: training-step}")?,
                None => site.hollow.clear(),
            }
        }
        Ok(())
    };
    kill(true)?;
    let commit = ground.commit("killed", &[("fleet.yaml", fleet(KILLED.0, KILLED.1))])?;
    ground.until("it waits for checks that are killed", LONG, |ledger| paused(ledger, &commit)).await?;
    said(&format!("{} waits", KILLED.0));
    kill(false)?;
    let end = ground.ended(&commit, LONG).await?;
    said(&format!("{}: {}", KILLED.0, end.state.word()));
    anyhow::ensure!(end.state == RolloutState::Succeeded, "{end:?}");
    Ok(())
}

/// The script.
async fn script(ground: &Ground, real: bool) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let said = |text: &str| eprintln!("{} nodes: {text}", if real { "real" } else { "hollow" });
    let began = std::time::Instant::now();
    let mut drydock = None;
    for (number, (driver, plugin, defect)) in scenes().iter().copied().enumerate() {
        if !real && let Some(defect) = defect {
            for site in &ground.sites {
                match fault(driver, defect) {
                    Some(fault) => site.hollow.inject_yaml(&fault)?,
                    None => site.hollow.break_image(&format!("registry.invalid/driver:{driver}")),
                }
            }
        }
        let commit = ground.commit(driver, &[("fleet.yaml", fleet(driver, plugin))])?;
        if drydock.is_none() {
            drydock = Some(ground.drydock("one")?);
        }
        let end = ground.ended(&commit, LONG).await?;
        said(&format!(
            "{driver} {defect:?}: {} with {} exposed after {:?}; {:?}",
            end.state.word(),
            end.exposed,
            began.elapsed(),
            end.failures
                .iter()
                .map(|f| (&f.node, f.blame, f.evidence.last().map(|e| &e.text)))
                .collect::<Vec<_>>()
        ));
        let wanted = match defect {
            None => ("Succeeded", 2 * u32::try_from(NODES)?),
            Some(Defect::Fails | Defect::Hangs | Defect::Crashes) => ("RolledBack", 1),
            Some(Defect::Absent) => ("RolledBack", 0),
        };
        anyhow::ensure!((end.state.word(), end.exposed) == wanted, "{driver} {defect:?}: {end:?}");
        if number == 0 {
            for site in &ground.sites {
                gang(ground, site).await?;
            }
        }
    }
    let last = if scenes().len() == SCENES.len() {
        killed_checks(ground, &said).await?;
        KILLED.0
    } else {
        let good = scenes().iter().rev().find(|(_, _, defect)| defect.is_none());
        good.context("a release that stays")?.0
    };
    for site in &ground.sites {
        let driver = ground.versions(site, "driver").await?;
        anyhow::ensure!(driver == [(last.to_owned(), NODES)].into(), "{driver:?}");
        let running = ground.list(site, "/api/v1/namespaces/team/pods").await?;
        let running = running.iter().filter(|p| p["status"]["phase"] == "Running").count();
        anyhow::ensure!(running == 2, "{running} pods of the gang run");
    }
    ground.tidy(Duration::from_secs(120)).await?;
    story(drydock.as_ref().context("it was never started")?)
}

fn sites(tools: &Tools, real: Option<&RealTools>) -> anyhow::Result<Vec<SiteSpec>> {
    let made = CLUSTERS.map(|name| {
        let mut spec = SiteSpec::new(tools, name, 0);
        let labels = [("pool", name), ("nvidia.com/gpu.deploy.driver", "true")];
        match real {
            Some(real) => {
                let options = RealOptions {
                    prefix: format!("{name}-n"),
                    labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
                    images: images(real)?,
                };
                spec.real = Some((NODES, real.clone(), options));
            }
            None => {
                spec.hollow.device_plugin = Some("plugin".to_owned());
                let node = |n| {
                    let node = NodeSpec::new(&format!("{name}-n-{n}"));
                    labels.iter().fold(node, |node, (key, value)| node.label(key, value))
                };
                spec.nodes = (0..NODES).map(node).collect();
            }
        }
        Ok(spec)
    });
    made.into_iter().collect()
}

async fn real_nodes_and_hollow_ones_tell_the_same_story() -> anyhow::Result<()> {
    let found = Tools::find().and_then(|tools| Ok((tools, RealTools::find()?)));
    let (tools, real) = found?;
    // Both at a time: nearly all of it is waiting.
    let on_hollow = async {
        let ground = Ground::start(sites(&tools, None)?).await?;
        script(&ground, false).await
    };
    let on_real = async {
        let ground = Ground::start(sites(&tools, Some(&real))?).await?;
        let clients: Result<Vec<_>, _> =
            ground.sites.iter().map(|site| site.plane.client(User::Person)).collect();
        let job = tokio::spawn(answer_checkpoints(clients?));
        let told = script(&ground, true).await;
        job.abort();
        told
    };
    let (mut told, truth) = tokio::try_join!(on_hollow, on_real)?;
    assert!(truth.len() > scenes().len(), "each release has a story: {truth:?}");
    let mut differences = Vec::new();
    for (object, real) in &truth {
        let hollow = told.remove(object).unwrap_or_default();
        if &hollow != real {
            differences.push(format!(
                "{object}\n  real:\n    {}\n  hollow:\n    {}",
                real.join("\n    "),
                hollow.join("\n    ")
            ));
        }
    }
    differences.extend(told.into_keys().map(|object| format!("{object} has a story on hollow nodes only")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
