//! Keeping new pods away from a node, and letting them back.
//!
//! The cordon, its note and the taint are one write, with compare-and-swap on the node: who had cordoned it before must
//! not change between the look and the write. A cordon that drydock didn't set is never taken away.

use drydock_api::names;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Call, Effort, Outcome, Request, View};
use crate::client::{Kind, Patch};
use crate::objects::Taint;

/// Key of the call.
const CORDON: &str = "cordon";
const RETURN: &str = "return";
/// Looks again soon while a write isn't seen: it usually shows within milliseconds, which wakes by itself.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

/// The node takes no new pods, and that is known as drydock's doing, for this reservation.
pub fn cordoned(view: &View<'_>, effort: &mut Effort) -> Outcome {
    let node = view.node;
    let epoch = view.action.epoch.0;
    let tainted = node.taints.iter().any(|t| t.key == names::TAINT && t.effect == "NoSchedule");
    let wants_taint = operands_come_back(view);
    if node.own_cordon() == Some(epoch) && tainted == wants_taint {
        return Outcome::done();
    }
    let before = match node.own_cordon() {
        // Ours already, from an earlier reservation: what stood before it stays noted.
        Some(_) => node.meta.annotation(names::CORDON_BEFORE).map(str::to_owned),
        None => node.foreign_cordon(),
    };
    let mut taints: Vec<Taint> = node.taints.iter().filter(|t| t.key != names::TAINT).cloned().collect();
    if wants_taint {
        taints.push(Taint {
            key: names::TAINT.to_owned(),
            value: "away".to_owned(),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let body = json!({
        "metadata": {
            "resourceVersion": node.meta.resource_version,
            "annotations": { names::CORDON: epoch.to_string(), names::CORDON_BEFORE: before },
        },
        "spec": { "unschedulable": true, "taints": taints },
    });
    write(view, effort, CORDON, body)
}

/// Whether everything that has to come back on a node in its visit bears drydock's taint. Every DaemonSet bears a cordon;
/// those of the GPU Operator bear a taint only where the ClusterPolicy says so, and a driver whose device plugin can't
/// come back is never verified. There the cordon has to do alone.
fn operands_come_back(view: &View<'_>) -> bool {
    view.objects.policies.values().all(|policy| {
        let tolerations = policy.spec.pointer("/daemonsets/tolerations").and_then(Value::as_array);
        tolerations.into_iter().flatten().any(|t| {
            let text = |field: &str| t.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            text("operator") == Some("Exists") && text("key").is_none_or(|key| key == names::TAINT)
                || text("key") == Some(names::TAINT)
        })
    })
}

/// drydock's own cordon and taint are gone, and nothing else was changed.
pub fn returned(view: &View<'_>, effort: &mut Effort) -> Outcome {
    let node = view.node;
    let tainted = node.taints.iter().any(|t| t.key == names::TAINT);
    let noted = node.meta.annotation(names::CORDON).is_some();
    if !tainted && !noted {
        return Outcome::done();
    }
    let taints: Vec<Taint> = node.taints.iter().filter(|t| t.key != names::TAINT).cloned().collect();
    // Without a note the cordon isn't ours; with a note of one that stood before, that one stays.
    let ours = noted && node.meta.annotation(names::CORDON_BEFORE).is_none();
    let mut spec = serde_json::Map::new();
    if tainted {
        spec.insert("taints".to_owned(), if taints.is_empty() { Value::Null } else { json!(taints) });
    }
    if ours && node.unschedulable {
        spec.insert("unschedulable".to_owned(), Value::Null);
    }
    let body = json!({
        "metadata": {
            "resourceVersion": node.meta.resource_version,
            "annotations": { names::CORDON: null, names::CORDON_BEFORE: null, names::REBOOT: null },
        },
        "spec": spec,
    });
    write(view, effort, RETURN, body)
}

fn write(view: &View<'_>, effort: &Effort, key: &str, body: Value) -> Outcome {
    let uri = Kind::NODE.one(None, view.name());
    // The version in the key: what was answered about an older state of the node says nothing about this one.
    let key = format!("{key}@{}", view.node.meta.resource_version);
    if let Some(error) = effort.error(&key).filter(|error| error.is_forbidden()) {
        let text = format!("not allowed to patch nodes: {error}");
        return Outcome::blocked(0, drydock_plan::Blocker::Refused(text))
            .again(view.now, SignedDuration::from_secs(30));
    }
    let call = Call { key, request: Request::Patch { uri, patch: Patch::Merge, body } };
    Outcome::working(vec![call]).again(view.now, LOOK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fixture::{Scene, effort};
    use super::*;
    use drydock_plan::{Ensure, StepState};

    fn body(outcome: &Outcome) -> Value {
        let Request::Patch { body, .. } = &outcome.calls[0].request else { panic!("{outcome:?}") };
        body.clone()
    }

    #[test]
    fn a_cordon_is_one_write_and_notes_what_stood_before() {
        let scene = Scene::node(json!({"metadata": {"name": "n1", "resourceVersion": "5"}}));
        let body_ = body(&cordoned(&scene.view(&Ensure::Cordoned), &mut effort()));
        assert_eq!(body_["metadata"]["resourceVersion"], "5");
        assert_eq!(body_["metadata"]["annotations"][names::CORDON], "3");
        assert_eq!(body_["metadata"]["annotations"][names::CORDON_BEFORE], Value::Null);
        assert_eq!(body_["spec"]["taints"][0]["key"], names::TAINT);

        let foreign = json!({"metadata": {"name": "n1", "managedFields": [
                {"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]},
            "spec": {"unschedulable": true, "taints": [{"key": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]}});
        let body_ = body(&cordoned(&Scene::node(foreign).view(&Ensure::Cordoned), &mut effort()));
        assert_eq!(body_["metadata"]["annotations"][names::CORDON_BEFORE], "kubectl-cordon");
        assert_eq!(body_["spec"]["taints"][0]["timeAdded"], "2026-01-01T00:00:00Z");
        assert_eq!(body_["spec"]["taints"].as_array().unwrap().len(), 2);
    }

    fn ours(epoch: &str, before: Option<&str>, unschedulable: bool) -> Scene {
        let mut annotations = json!({ names::CORDON: epoch });
        if let Some(before) = before {
            annotations[names::CORDON_BEFORE] = json!(before);
        }
        Scene::node(json!({
            "metadata": {"name": "n1", "annotations": annotations},
            "spec": {"unschedulable": unschedulable, "taints": [
                {"key": names::TAINT, "value": "away", "effect": "NoSchedule"},
                {"key": "x", "effect": "NoSchedule"},
            ]},
        }))
    }

    #[test]
    fn what_is_so_isnt_asked_for_again_and_an_older_epoch_is_renewed() {
        let scene = ours("3", None, true);
        assert_eq!(cordoned(&scene.view(&Ensure::Cordoned), &mut effort()).state, StepState::Done);
        assert_eq!(cordoned(&ours("2", None, true).view(&Ensure::Cordoned), &mut effort()).calls.len(), 1);
        // Somebody has uncordoned it.
        assert_eq!(cordoned(&ours("3", None, false).view(&Ensure::Cordoned), &mut effort()).calls.len(), 1);
    }

    #[test]
    fn where_operands_dont_bear_the_taint_the_cordon_does_alone() {
        let policy = |spec: Value| json!({"metadata": {"name": "cluster-policy"}, "spec": spec});
        let bare = || Scene::node(json!({"metadata": {"name": "n1"}}));
        let operator = bare().with::<crate::objects::OperatorObject<true>>([policy(json!({}))]);
        let body_ = body(&cordoned(&operator.view(&Ensure::Cordoned), &mut effort()));
        assert_eq!(body_["spec"]["taints"], json!([]));
        let bears = json!({"daemonsets": {"tolerations": [{"key": names::TAINT, "operator": "Exists"}]}});
        let operator = bare().with::<crate::objects::OperatorObject<true>>([policy(bears)]);
        let body_ = body(&cordoned(&operator.view(&Ensure::Cordoned), &mut effort()));
        assert_eq!(body_["spec"]["taints"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn only_the_own_cordon_goes() {
        let mut scene = ours("3", Some("kubectl-cordon"), true);
        let body_ = body(&returned(&scene.view(&Ensure::Returned), &mut effort()));
        assert!(body_["spec"].get("unschedulable").is_none());
        assert_eq!(body_["spec"]["taints"].as_array().unwrap().len(), 1);
        scene = Scene::node(json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}}));
        assert_eq!(returned(&scene.view(&Ensure::Returned), &mut effort()), Outcome::done());
        let mut alone = json!({"metadata": {"name": "n1", "annotations": {names::CORDON: "3"}}, "spec": {"unschedulable": true}});
        let body_ = body(&returned(&Scene::node(alone.take()).view(&Ensure::Returned), &mut effort()));
        assert_eq!(body_["spec"], json!({"unschedulable": null}));
    }
}
