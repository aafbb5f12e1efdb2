#![allow(clippy::unwrap_used)]

use std::time::Duration;

use drydock_api::names;
use drydock_plan::{Blocker, DrainRules, Ensure, GangId, StepState};
use drydock_spec::{Gangs, LocalStorage, Period, Unmanaged};
use http::StatusCode;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{checkpointed, drained};
use crate::client::{CallError, Refusal};
use crate::ensure::fixture::{Scene, effort};
use crate::ensure::{Effort, Outcome, Request};
use crate::objects::PodObject;

fn n1() -> Scene {
    Scene::node(json!({"metadata": {"name": "n1"}}))
}

/// A running pod of a ReplicaSet with one GPU on n1, and `more` merged into it.
fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"),
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]},
        "spec": {"nodeName": "n1", "containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"}
    });
    merge(&mut pod, more);
    pod
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn labels(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn on(node: &str) -> Value {
    json!({"spec": {"nodeName": node}})
}

fn both(a: Value, b: Value) -> Value {
    let mut a = a;
    merge(&mut a, b);
    a
}

fn drain_with(scene: &Scene, effort: &mut Effort, rules: DrainRules) -> Outcome {
    drained(&scene.view(&Ensure::Drained { rules }), effort, &rules)
}

fn drain(scene: &Scene, effort: &mut Effort) -> Outcome {
    drain_with(scene, effort, DrainRules::default())
}

/// Names of the pods whose eviction is asked for, in order.
fn evicted(outcome: &Outcome) -> Vec<String> {
    let of = |request: &Request| match request {
        Request::Evict { pod, uid, .. } => {
            assert_eq!(*uid, format!("uid-{}", pod.name), "bound to this very pod");
            pod.name.to_string()
        }
        other => panic!("only evictions: {other:?}"),
    };
    outcome.calls.iter().map(|call| of(&call.request)).collect()
}

/// As the runner does it: all calls are made and end like this.
fn make(outcome: &Outcome, effort: &mut Effort, scene: &Scene, result: Result<(), CallError>) {
    for call in &outcome.calls {
        effort.begin(&call.key, scene.now);
        effort.end(&call.key, result.clone(), scene.now);
    }
}

fn refused(status: u16, body: &Value) -> CallError {
    let status = StatusCode::from_u16(status).unwrap();
    CallError::Refused(Refusal::read(status, None, body.to_string().as_bytes()))
}

fn blocked_by(outcome: &Outcome) -> Option<Blocker> {
    match &outcome.state {
        StepState::Working { blocked_by, .. } => blocked_by.clone(),
        other => panic!("{other:?}"),
    }
}

fn remaining(outcome: &Outcome) -> u32 {
    match outcome.state {
        StepState::Working { remaining, .. } => remaining,
        StepState::Done => 0,
        StepState::Failed { .. } => panic!("{outcome:?}"),
    }
}

fn daemon() -> Value {
    json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]}})
}

#[test]
fn what_has_to_leave() {
    let idle = json!({"spec": {"containers": [{"image": "i"}]}});
    let stays: &[(&str, Value)] = &[
        ("of a DaemonSet", daemon()),
        ("a mirror", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
        ("ended well", json!({"status": {"phase": "Succeeded"}})),
        ("ended badly", json!({"status": {"phase": "Failed"}})),
        ("a check", labels(names::CHECK, "vector-add")),
        ("drydock's own", labels(names::MANAGED_BY, "drydock")),
        ("on another node", on("n2")),
    ];
    for (what, more) in stays {
        let scene = n1().with::<PodObject>([pod("p", more.clone())]);
        assert_eq!(drain(&scene, &mut effort()), Outcome::done(), "{what}");
    }
    let leaves: &[(&str, Value)] = &[
        ("holds a GPU", json!({})),
        (
            "holds one by its runtime class",
            both(idle.clone(), json!({"spec": {"runtimeClassName": "nvidia"}})),
        ),
        ("holds none", idle),
        ("is pending", json!({"status": {"phase": "Pending"}})),
        ("has a scratch directory", json!({"spec": {"volumes": [{"emptyDir": {}}]}})),
        ("is made by somebody else", labels(names::MANAGED_BY, "Helm")),
    ];
    for (what, more) in leaves {
        let scene = n1().with::<PodObject>([pod("p", more.clone())]);
        let outcome = drain(&scene, &mut effort());
        assert_eq!((evicted(&outcome), remaining(&outcome)), (vec!["p".to_owned()], 1), "{what}");
    }
}

#[test]
fn a_gang_goes_first_and_at_once_and_what_has_no_gpu_last() {
    let gang = |name: &str, node: &str| pod(name, both(labels(names::GANG, "train"), on(node)));
    let cpu = json!({"spec": {"containers": [{"image": "i"}]}});
    let pods =
        [pod("a-cpu", cpu), pod("b-gpu", json!({})), gang("y", "n1"), gang("z", "n1"), gang("w", "n2")];
    let scene = n1().with::<PodObject>(pods);
    assert_eq!(evicted(&drain(&scene, &mut effort())), ["y", "z", "b-gpu", "a-cpu"]);
    let rules = DrainRules { gangs: Gangs::Ignore, ..DrainRules::default() };
    assert_eq!(evicted(&drain_with(&scene, &mut effort(), rules)), ["b-gpu", "y", "z", "a-cpu"]);

    let rules = DrainRules { gangs: Gangs::Avoid, ..DrainRules::default() };
    let outcome = drain_with(&scene, &mut effort(), rules);
    assert!(outcome.calls.is_empty() && remaining(&outcome) == 4);
    assert!(blocked_by(&outcome).unwrap().to_string().contains("a/train"), "{outcome:?}");
    // The same labels on a job that sits here alone.
    let scene = n1().with::<PodObject>([gang("y", "n1"), gang("z", "n1")]);
    assert_eq!(evicted(&drain_with(&scene, &mut effort(), rules)), ["y", "z"]);
}

#[test]
fn pods_to_wait_for_are_named_and_keep_the_others() {
    let bare = json!({"metadata": {"ownerReferences": []}});
    let scratch = json!({"spec": {"volumes": [{"emptyDir": {}}]}});
    let rules = |unmanaged, local_storage| DrainRules { unmanaged, local_storage, ..DrainRules::default() };
    let (wait, evict) =
        (rules(Unmanaged::Wait, LocalStorage::Evict), rules(Unmanaged::Evict, LocalStorage::Evict));
    let strict = rules(Unmanaged::Evict, LocalStorage::Wait);
    let name = vec!["a/p".to_owned()];
    let protected = labels(names::PROTECTED, "true");
    let rows: &[(Value, DrainRules, Option<Blocker>)] = &[
        (protected, evict, Some(Blocker::Protected(name.clone()))),
        (labels(names::PROTECTED, "false"), evict, None),
        (bare.clone(), wait, Some(Blocker::Unmanaged(name.clone()))),
        (bare.clone(), evict, None),
        (scratch.clone(), strict, Some(Blocker::LocalStorage(name))),
        (scratch, evict, None),
        (json!({"spec": {"volumes": [{"emptyDir": {"medium": "Memory"}}]}}), strict, None),
    ];
    for (more, rules, by) in rows {
        let scene = n1().with::<PodObject>([pod("p", more.clone()), pod("q", json!({}))]);
        let outcome = drain_with(&scene, &mut effort(), *rules);
        assert_eq!(blocked_by(&outcome), *by, "{more}");
        assert_eq!((outcome.calls.is_empty(), remaining(&outcome)), (by.is_some(), 2), "{more}");
    }
    let scene = n1().with::<PodObject>([pod("p", bare), pod("q", json!({}))]);
    let outcome = drain_with(&scene, &mut effort(), rules(Unmanaged::Fail, LocalStorage::Evict));
    let StepState::Failed { message } = &outcome.state else { panic!("{outcome:?}") };
    assert!(message.contains("a/p") && outcome.calls.is_empty(), "{message}");
}

#[test]
fn what_an_answer_means() {
    let pdb = |text: &str| {
        json!({"reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": text}], "retryAfterSeconds": 10}})
    };
    let budget = |name: &str| Some(Blocker::DisruptionBudget(name.to_owned()));
    let rows = [
        (
            refused(429, &pdb("The disruption budget train needs 4 healthy pods and has 4 currently")),
            budget("a/train"),
        ),
        (
            refused(429, &pdb("The disruption budget train is still being processed by the server.")),
            budget("a/train"),
        ),
        (refused(429, &pdb("")), budget("a/(unnamed)")),
        (refused(429, &json!({"message": "too many requests, please try again later"})), None),
        (refused(404, &json!({})), None),
        (refused(409, &json!({})), None),
        (refused(500, &json!({"message": "etcdserver: leader changed"})), None),
        (CallError::Timeout(Duration::from_secs(15)), None),
        (CallError::NotLeading, None),
    ];
    let scene = n1().with::<PodObject>([pod("p", json!({}))]);
    for (error, by) in rows {
        let mut effort = effort();
        let outcome = drain(&scene, &mut effort);
        make(&outcome, &mut effort, &scene, Err(error.clone()));
        let outcome = drain(&scene, &mut effort);
        assert_eq!(blocked_by(&outcome), by, "{error}");
        assert!(outcome.calls.is_empty() && outcome.again.is_some(), "{error}: paused");
    }
}

#[test]
fn a_budget_is_asked_again_when_it_says_so() {
    let mut scene = n1().with::<PodObject>([pod("p", json!({}))]);
    let mut effort = effort();
    let body = json!({"message": "disruption budget", "details": {"retryAfterSeconds": 10,
        "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods"}]}});
    let outcome = drain(&scene, &mut effort);
    make(&outcome, &mut effort, &scene, Err(refused(429, &body)));
    let waiting = drain(&scene, &mut effort);
    let at = scene.now.checked_add(SignedDuration::from_secs(10)).unwrap();
    assert_eq!(waiting.again, Some(at));
    scene.now = at;
    let again = drain(&scene, &mut effort);
    assert_eq!(evicted(&again), ["p"]);
    assert!(matches!(blocked_by(&again), Some(Blocker::DisruptionBudget(_))), "named until it is granted");
    make(&again, &mut effort, &scene, Ok(()));
    assert_eq!(blocked_by(&drain(&scene, &mut effort)), None);
}

#[test]
fn what_can_never_work_fails_and_what_isnt_allowed_is_said() {
    let scene = n1().with::<PodObject>([pod("p", json!({}))]);
    let after = |error: CallError, times: u32| {
        let mut effort = effort();
        let first = drain(&scene, &mut effort);
        for _ in 0..times {
            make(&first, &mut effort, &scene, Err(error.clone()));
        }
        drain(&scene, &mut effort)
    };
    let two = refused(
        500,
        &json!({"message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}),
    );
    let StepState::Failed { message } = after(two, 1).state else { panic!() };
    assert!(message.starts_with("a/p is covered by more than one PodDisruptionBudget"), "{message}");

    let text = |outcome: Outcome| blocked_by(&outcome).unwrap().to_string();
    let rbac = refused(
        403,
        &json!({"message": "User \"drydock\" cannot create resource \"pods/eviction\" in API group \"\""}),
    );
    assert!(text(after(rbac, 1)).contains("needs the verb create on pods/eviction"));
    let hook = refused(403, &json!({"message": "admission webhook \"keep\" denied the request"}));
    let hook = text(after(hook, 1));
    assert!(hook.contains("webhook \"keep\" denied") && !hook.contains("verb"), "{hook}");
    let dead = after(CallError::Transport("connection refused".to_owned()), 3);
    assert!(text(dead).contains("connection refused"));
}

#[test]
fn a_pod_that_doesnt_end_is_named_by_the_clock_here() {
    // By the API server's clock it has been gone for years; only what is seen here counts.
    let leaving =
        json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 120}});
    let mut scene = n1().with::<PodObject>([pod("p", leaving)]);
    let mut effort = effort();
    let outcome = drain(&scene, &mut effort);
    assert_eq!((outcome.calls.len(), remaining(&outcome), blocked_by(&outcome)), (0, 1, None));
    let at = scene.now.checked_add(SignedDuration::from_secs(180)).unwrap();
    assert_eq!(outcome.again, Some(at));
    scene.now = at;
    let outcome = drain(&scene, &mut effort);
    assert_eq!(blocked_by(&outcome), Some(Blocker::Terminating(vec!["a/p".to_owned()])));
    assert!(outcome.calls.is_empty(), "never by force");
    let scene = Scene { now: at, ..n1() };
    assert_eq!(drain(&scene, &mut effort), Outcome::done());
    assert!(effort.notes.is_empty(), "nothing is kept of what is gone");
}

#[test]
fn grace_and_number_of_evictions_are_bounded() {
    let pods = (0..80).map(|i| pod(&format!("p{i:02}"), json!({})));
    let scene = n1().with::<PodObject>(pods);
    let rules = DrainRules { grace: Some(Period::from_millis(1_500)), ..DrainRules::default() };
    let mut effort = effort();
    let outcome = drain_with(&scene, &mut effort, rules);
    assert_eq!((outcome.calls.len(), remaining(&outcome)), (50, 80));
    assert!(matches!(outcome.calls[0].request, Request::Evict { grace: Some(2), .. }));
    for call in &outcome.calls {
        effort.begin(&call.key, scene.now);
    }
    assert_eq!(drain_with(&scene, &mut effort, rules).calls.len(), 0, "50 are under way");
    effort.end(&outcome.calls[0].key, Ok(()), scene.now);
    assert_eq!(evicted(&drain_with(&scene, &mut effort, rules)), ["p50"]);
}

// Checkpoints.

fn member(name: &str, node: &str, notes: Value) -> Value {
    let notes = both(json!({names::CHECKPOINT_HOOK: "annotation"}), notes);
    let more = json!({"metadata": {"labels": {names::GANG: "train"}, "annotations": notes}});
    pod(name, both(more, on(node)))
}

fn ask(scene: &Scene, effort: &mut Effort) -> Outcome {
    let gangs = vec![GangId::new("c1/a/train")];
    checkpointed(&scene.view(&Ensure::Checkpointed { gangs: gangs.clone() }), effort, &gangs)
}

/// The pods that are asked, with the request.
fn asked(outcome: &Outcome) -> Vec<(String, String)> {
    let of = |request: &Request| match request {
        Request::Patch { uri, body, .. } => {
            let request = body["metadata"]["annotations"][names::CHECKPOINT_REQUEST].as_str().unwrap();
            assert!(body["metadata"]["uid"].is_string());
            (uri.rsplit('/').next().unwrap().to_owned(), request.to_owned())
        }
        other => panic!("{other:?}"),
    };
    outcome.calls.iter().map(|call| of(&call.request)).collect()
}

fn request(text: &str) -> Value {
    json!({names::CHECKPOINT_REQUEST: text})
}

fn answer(text: &str) -> Value {
    json!({names::CHECKPOINT_REQUEST: text, names::CHECKPOINT_FOR: text})
}

#[test]
fn a_job_is_asked_once_and_answers_on_any_pod() {
    let gang = |a: Value, b: Value| n1().with::<PodObject>([member("p", "n1", a), member("q", "n2", b)]);
    let pair = |name: &str, request: &str| (name.to_owned(), request.to_owned());
    let outcome = ask(&gang(json!({}), json!({})), &mut effort());
    assert_eq!(asked(&outcome), [pair("p", "n1:7"), pair("q", "n1:7")]);
    assert!(asked(&ask(&gang(request("n1:7"), request("n1:7")), &mut effort())).is_empty());
    // An answer to an earlier intent is none.
    let outcome = ask(&gang(answer("n1:6"), answer("n1:6")), &mut effort());
    assert_eq!(asked(&outcome).len(), 2);
    // The pod of another node answers for all.
    assert_eq!(ask(&gang(request("n1:7"), answer("n1:7")), &mut effort()).state, StepState::Done);
    // A write was lost.
    let outcome = ask(&gang(request("n1:7"), json!({})), &mut effort());
    assert_eq!(asked(&outcome), [pair("q", "n1:7")]);
}

#[test]
fn nodes_of_a_job_share_a_request() {
    let n2 = || Scene::node(json!({"metadata": {"name": "n2"}}));
    let gang = |a: Value, b: Value| n2().with::<PodObject>([member("p", "n1", a), member("q", "n2", b)]);
    let mut effort = effort();
    // The first node is given time to ask.
    assert!(asked(&ask(&gang(json!({}), json!({})), &mut effort)).is_empty());
    assert!(asked(&ask(&gang(request("n1:9"), request("n1:9")), &mut effort)).is_empty());
    assert_eq!(ask(&gang(answer("n1:9"), request("n1:9")), &mut effort).state, StepState::Done);
    // One that was answered before this intent began doesn't count, and after a while this node asks itself.
    let mut effort = super::super::fixture::effort();
    let mut scene = gang(answer("n1:9"), request("n1:9"));
    assert!(asked(&ask(&scene, &mut effort)).is_empty());
    scene.now = scene.now.checked_add(SignedDuration::from_secs(15)).unwrap();
    assert_eq!(asked(&ask(&scene, &mut effort)).len(), 2);
    // Of two open requests the first by text wins, whoever looks.
    let scene = gang(request("n1:9"), request("n2:7"));
    let mut late = super::super::fixture::effort();
    late.since("checkpoint:c1/a/train", scene.now.checked_sub(SignedDuration::from_secs(60)).unwrap());
    assert_eq!(asked(&ask(&scene, &mut late)), [("q".to_owned(), "n1:9".to_owned())]);
}

#[test]
fn who_doesnt_take_part_isnt_waited_for() {
    let plain = pod("p", labels(names::GANG, "train"));
    assert_eq!(ask(&n1().with::<PodObject>([plain]), &mut effort()), Outcome::done());
    assert_eq!(ask(&n1(), &mut effort()), Outcome::done(), "it has ended");
    let other = json!({names::CHECKPOINT_HOOK: "http"});
    assert_eq!(ask(&n1().with::<PodObject>([member("p", "n1", other)]), &mut effort()), Outcome::done());
    let scene = n1().with::<PodObject>([member("p", "n1", json!({}))]);
    let mut effort = effort();
    let outcome = ask(&scene, &mut effort);
    make(&outcome, &mut effort, &scene, Err(refused(403, &json!({"message": "no"}))));
    let outcome = ask(&scene, &mut effort);
    assert!(blocked_by(&outcome).unwrap().to_string().contains("verb patch on pods"), "{outcome:?}");
}

#[derive(Debug, Clone, Copy)]
enum Sort {
    Daemon,
    Mirror,
    Protected,
    Own,
    Finished,
    Plain,
    Bare,
    Scratch,
    Gang,
    Leaving,
}

fn sorts() -> impl Strategy<Value = Vec<Sort>> {
    use Sort::*;
    let all = [Daemon, Mirror, Protected, Own, Finished, Plain, Bare, Scratch, Gang, Leaving];
    proptest::collection::vec(proptest::sample::select(all.to_vec()), 0..12)
}

fn of_sort(i: usize, sort: Sort) -> Value {
    let more = match sort {
        Sort::Daemon => daemon(),
        Sort::Mirror => json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}),
        Sort::Protected => labels(names::PROTECTED, "true"),
        Sort::Own => labels(names::CHECK, "c"),
        Sort::Finished => json!({"status": {"phase": "Failed"}}),
        Sort::Plain => json!({}),
        Sort::Bare => json!({"metadata": {"ownerReferences": []}}),
        Sort::Scratch => json!({"spec": {"volumes": [{"emptyDir": {}}]}}),
        Sort::Gang => labels(names::GANG, "g"),
        Sort::Leaving => json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    };
    pod(&format!("p{i}"), more)
}

proptest! {
    #[test]
    fn what_stays_is_never_evicted_and_asking_twice_is_asking_once(
        sorts in sorts(),
        unmanaged in proptest::sample::select(vec![Unmanaged::Evict, Unmanaged::Wait, Unmanaged::Fail]),
        local_storage in proptest::sample::select(vec![LocalStorage::Evict, LocalStorage::Wait]),
        gangs in proptest::sample::select(vec![Gangs::Together, Gangs::Avoid, Gangs::Ignore]),
        status in proptest::sample::select(vec![200_u16, 429, 403, 404, 409, 500]),
    ) {
        let elsewhere = pod("far", both(labels(names::GANG, "g"), on("n2")));
        let pods = sorts.iter().enumerate().map(|(i, sort)| of_sort(i, *sort)).chain([elsewhere]);
        let scene = n1().with::<PodObject>(pods);
        let rules = DrainRules { unmanaged, local_storage, gangs, ..DrainRules::default() };
        let mut effort = effort();
        let outcome = drain_with(&scene, &mut effort, rules);
        let names = evicted(&outcome);
        for (i, sort) in sorts.iter().enumerate() {
            let named = names.contains(&format!("p{i}"));
            let may = match sort {
                Sort::Daemon | Sort::Mirror | Sort::Protected | Sort::Own | Sort::Finished | Sort::Leaving => false,
                Sort::Plain => true,
                Sort::Bare => unmanaged == Unmanaged::Evict,
                Sort::Scratch => local_storage == LocalStorage::Evict,
                Sort::Gang => gangs != Gangs::Avoid,
            };
            prop_assert!(may || !named, "{sort:?}");
        }
        let stays = |s: &Sort| matches!(s, Sort::Daemon | Sort::Mirror | Sort::Own | Sort::Finished);
        prop_assert_eq!(outcome.state == StepState::Done, sorts.iter().all(stays));
        let result = if status == 200 { Ok(()) } else { Err(refused(status, &json!({}))) };
        make(&outcome, &mut effort, &scene, result);
        let again = drain_with(&scene, &mut effort, rules);
        prop_assert!(again.calls.is_empty(), "{again:?}");
    }
}
