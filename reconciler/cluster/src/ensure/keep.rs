//! Objects of drydock's own that nobody asks for just now: what somebody has edited is put right, what no node needs
//! any more goes.
//!
//! DaemonSets are `OnDelete`, so neither an edit nor putting it right restarts a pod. Two writers that undo each other
//! are noticed: after a few rounds drydock stops and says who it is.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use drydock_api::names;
use drydock_plan::{Action, Ensure};
use drydock_spec::{ComponentName, ComponentVersion, Delivery, Fleet};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::apply::{operator, workload};
use super::{Call, Objects, Request, SHARED, Settings};
use crate::client::{Kind, Patch};
use crate::objects::{Key, Meta};
use crate::{delivery, drift};

/// Times an object is put right within [`FIGHT_WITHIN`] before it counts as a fight.
pub const FIGHT_ROUNDS: usize = 3;
/// See [`FIGHT_ROUNDS`]. Self-healing controllers come back within seconds to minutes; a person doesn't edit the same
/// object three times in ten minutes.
pub const FIGHT_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// An object that differs from what the documents say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drifted {
    /// `DaemonSet gpu/driver-580…`.
    pub object: String,
    /// Stated fields that differ, as paths.
    pub fields: Vec<String>,
    /// Somebody sets it back again and again, so drydock has stopped.
    pub fight: bool,
}

/// What was put right lately.
#[derive(Debug, Default)]
pub struct Rounds(BTreeMap<String, Vec<Timestamp>>);

impl Rounds {
    /// May the object be put right once more? Notes it if so.
    fn admit(&mut self, object: &str, now: Timestamp) -> bool {
        let since = now.checked_sub(FIGHT_WITHIN).unwrap_or(Timestamp::MIN);
        let rounds = self.0.entry(object.to_owned()).or_default();
        rounds.retain(|at| *at > since);
        if rounds.len() >= FIGHT_ROUNDS {
            return false;
        }
        rounds.push(now);
        true
    }
}

/// What keeping things comes to.
#[derive(Debug, Default, PartialEq)]
pub struct Kept {
    /// Calls to make.
    pub calls: Vec<Call>,
    /// What differs.
    pub drifted: Vec<Drifted>,
}

/// Versions that somebody needs: those of releases in force, and those that present actions are about.
fn needed<'a>(
    fleet: &'a Fleet,
    actions: impl IntoIterator<Item = &'a Action>,
) -> BTreeSet<(&'a ComponentName, &'a ComponentVersion)> {
    let mut needed: BTreeSet<_> = fleet.releases.values().flat_map(|r| &r.spec.components).collect();
    for action in actions {
        match &action.ensure {
            Ensure::Applied { component, version: Some(version), .. } => {
                needed.insert((component, version));
            }
            Ensure::Preflight { artifacts, .. } => {
                needed.extend(artifacts.iter().flat_map(|(name, all)| all.iter().map(move |v| (name, v))));
            }
            _ => {}
        }
    }
    needed
}

/// Looks at everything that drydock has made for versions of components.
pub fn keep<'a>(
    objects: &Objects,
    fleet: &'a Fleet,
    settings: &Settings,
    actions: impl IntoIterator<Item = &'a Action>,
    rounds: &mut Rounds,
    now: Timestamp,
) -> Kept {
    let needed = needed(fleet, actions);
    // Looked for once and only where it is asked: a version that no release names is rare.
    let on_nodes = OnceCell::new();
    let unused = |name: &ComponentName, version: &ComponentVersion| {
        let (key, slug) = (delivery::label_key(name), delivery::slug(version));
        !needed.contains(&(name, version))
            && !on_nodes.get_or_init(|| versions_on(objects)).contains(&(key.as_str(), slug.as_str()))
    };
    let mut kept = Kept::default();
    for set in objects.daemon_sets.values() {
        let Some((name, version)) = own(&set.meta) else { continue };
        let Some(component) = fleet.components.get(&name) else { continue };
        let Delivery::DaemonSet(object) = &component.spec.delivery else { continue };
        let key = Key::new(&set.meta.namespace, &set.meta.name);
        if unused(&name, &version) {
            kept.calls.push(delete(Kind::DAEMON_SET, &key, &set.meta));
            continue;
        }
        let wanted = workload::daemon_set_object(&name, object, &version, settings);
        let template = wanted.pointer("/spec/template").cloned().unwrap_or_default();
        let mut fields = drift::differences(&template, &set.template);
        if set.strategy != "OnDelete" {
            fields.push("spec.updateStrategy.type".to_owned());
        }
        mend(&mut kept, rounds, Kind::DAEMON_SET, &key, fields, || wanted, now);
    }
    for driver in objects.drivers.values() {
        let Some((name, version)) = own(&driver.meta) else { continue };
        let Some(component) = fleet.components.get(&name) else { continue };
        let Delivery::NvidiaDriver(object) = &component.spec.delivery else { continue };
        let key = Key::new("", &driver.meta.name);
        if unused(&name, &version) {
            kept.calls.push(delete(Kind::NVIDIA_DRIVER, &key, &driver.meta));
            continue;
        }
        let wanted = operator::driver_object(&name, object, &version);
        let spec = wanted.get("spec").cloned().unwrap_or(Value::Object(Map::new()));
        let fields = drift::differences(&spec, &driver.spec);
        mend(&mut kept, rounds, Kind::NVIDIA_DRIVER, &key, fields, || wanted, now);
    }
    kept
}

/// The component and version of an object that drydock has made.
fn own(meta: &Meta) -> Option<(ComponentName, ComponentVersion)> {
    if meta.label(names::MANAGED_BY) != Some("drydock") || meta.deletion_timestamp.is_some() {
        return None;
    }
    let name = meta.label(names::COMPONENT)?.parse().ok()?;
    Some((name, delivery::noted(meta.annotation(names::VERSION))?))
}

/// Labels by which nodes choose a version: of any component, on any node.
fn versions_on(objects: &Objects) -> BTreeSet<(&str, &str)> {
    let labels = objects.nodes.values().flat_map(|node| &node.meta.labels);
    let chosen = labels.filter(|(key, _)| key.starts_with(names::VERSION_PREFIX));
    chosen.map(|(key, slug)| (&**key, &**slug)).collect()
}

fn delete(kind: Kind, key: &Key, meta: &Meta) -> Call {
    Call {
        key: format!("{SHARED}drop {} {key} {}", kind.plural, meta.uid),
        request: Request::Delete {
            uri: kind.one(key.space(), &key.name),
            uid: meta.uid.clone(),
            propagation: "Background",
            grace: None,
        },
    }
}

fn mend(
    kept: &mut Kept,
    rounds: &mut Rounds,
    kind: Kind,
    key: &Key,
    fields: Vec<String>,
    wanted: impl FnOnce() -> Value,
    now: Timestamp,
) {
    let object = format!("{} {key}", kind.kind);
    if fields.is_empty() {
        return;
    }
    let fight = !rounds.admit(&object, now);
    if !fight {
        let uri = kind.one(key.space(), &key.name);
        let request = Request::Patch { uri, patch: Patch::Apply { force: true }, body: wanted() };
        kept.calls.push(Call { key: format!("{SHARED}keep {object}"), request });
    }
    kept.drifted.push(Drifted { object, fields, fight });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fixture::Scene;
    use super::*;
    use crate::objects::DaemonSetObject;
    use serde_json::json;

    fn scene(version: &str, label: bool, edit: impl Fn(&mut Value)) -> Scene {
        let version: ComponentVersion = serde_json::from_value(json!(version)).unwrap();
        let fleet = super::super::fixture::fleet(super::super::fixture::FLEET);
        let name: ComponentName = "driver".parse().unwrap();
        let Delivery::DaemonSet(object) = &fleet.components[&name].spec.delivery else { panic!() };
        let mut set = workload::daemon_set_object(&name, object, &version, &Settings::default());
        edit(&mut set);
        let labels =
            if label { json!({ delivery::label_key(&name): delivery::slug(&version) }) } else { json!({}) };
        Scene::node(json!({"metadata": {"name": "n1", "labels": labels}})).with::<DaemonSetObject>([set])
    }
    fn kept(scene: &Scene, rounds: &mut Rounds) -> Kept {
        keep(scene.objects(), &scene.fleet, &scene.settings, [], rounds, scene.now)
    }

    #[test]
    fn an_edit_is_put_right_until_it_is_a_fight() {
        let edited = scene("1.0", true, |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil:1")
        });
        let mut rounds = Rounds::default();
        for _ in 0..FIGHT_ROUNDS {
            let kept = kept(&edited, &mut rounds);
            assert_eq!((kept.calls.len(), kept.drifted[0].fight), (1, false));
            assert_eq!(kept.drifted[0].fields, ["spec.containers[driver].image"]);
        }
        let last = kept(&edited, &mut rounds);
        assert!(last.calls.is_empty() && last.drifted[0].fight);
        assert_eq!(kept(&scene("1.0", true, |_| {}), &mut rounds), Kept::default());
    }

    #[test]
    fn what_no_node_and_no_release_names_goes() {
        let unused = kept(&scene("0.9", false, |_| {}), &mut Rounds::default());
        assert!(matches!(unused.calls[0].request, Request::Delete { .. }));
        // Somebody else's, whatever it is called.
        let foreign = scene("0.9", false, |set| set["metadata"]["labels"] = json!({}));
        assert_eq!(kept(&foreign, &mut Rounds::default()), Kept::default());
    }
}
