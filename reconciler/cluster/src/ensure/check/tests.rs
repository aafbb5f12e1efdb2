#![allow(clippy::unwrap_used)]

mod group;
mod kit;
mod probe;
mod shape;

use drydock_api::names;
use drydock_plan::{Blocker, RawVerdict, StepState};
use drydock_spec::{CheckClass, CheckRun};
use serde_json::{Value, json};

use self::kit::{Bench, order, refusal};
use crate::ensure::Request;
use RawVerdict::{Fail, Hang, Inconclusive, NotApplicable, Pass};

fn ended(code: i32, more: Value) -> Value {
    kit::both(json!({"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}), more)
}

#[test]
fn how_a_pod_ended_is_read() {
    let pass = json!({"message": "noise\n{\"verdict\":\"pass\",\"value\":391.5,\"detail\":\"fine\"}\n"});
    let rows: &[(Value, RawVerdict, Option<f64>, &str)] = &[
        (ended(0, pass.clone()), Pass, Some(391.5), "fine"),
        (ended(0, json!({})), Pass, None, "exit code 0"),
        (ended(1, json!({"message": "Xid 79"})), Fail, None, "Xid 79"),
        (ended(1, json!({"message": "{\"verdict\":\"hang\",\"detail\":\"stuck\"}"})), Hang, None, "stuck"),
        (ended(2, json!({})), Inconclusive, None, "exit code 2"),
        (ended(3, json!({"message": "no GPU"})), NotApplicable, None, "no GPU"),
        (ended(137, pass.clone()), Inconclusive, None, "signal 9"),
        (ended(1, json!({"signal": 11})), Inconclusive, None, "signal 11"),
        (ended(1, json!({"reason": "OOMKilled"})), Inconclusive, None, "OOMKilled"),
        (
            ended(128, json!({"reason": "StartError", "message": "no such file"})),
            Inconclusive,
            None,
            "no such file",
        ),
    ];
    for (how, verdict, value, detail) in rows {
        let mut bench = Bench::new([order("vector-add")]);
        bench.make();
        bench.pod(json!({"terminated": how}));
        let outcome = bench.look();
        assert_eq!(outcome.state, StepState::Done, "{how}");
        let result = &outcome.checks[0];
        assert_eq!((result.verdict, result.value), (*verdict, *value), "{how}");
        assert!(result.detail.contains(detail), "{how}: {}", result.detail);
    }
}

#[test]
fn a_pod_that_was_thrown_out_says_nothing() {
    for (status, detail) in [
        (json!({"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}), "disk pressure"),
        (
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"}),
            "no devices",
        ),
        (json!({"phase": "Failed"}), "without a word"),
        (
            json!({"phase": "Failed", "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 4, "reason": "Error"}}}],
                "containerStatuses": [{"name": "check", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
            "container init ended with 4",
        ),
        // It even said that something is wrong, on its way out.
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "drained",
                "containerStatuses": [{"name": "check", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            "drained",
        ),
    ] {
        let mut bench = Bench::new([order("vector-add")]);
        bench.make();
        bench.pod_status(status.clone());
        let outcome = bench.look();
        assert_eq!(outcome.checks[0].verdict, Inconclusive, "{status}");
        assert!(outcome.checks[0].detail.contains(detail), "{status}: {}", outcome.checks[0].detail);
    }
}

#[test]
fn what_doesnt_end_has_hung_and_its_job_goes() {
    let mut bench = Bench::new([order("vector-add"), order("busbw")]);
    bench.make();
    bench.pod(json!({"running": {"startedAt": "2020-01-01T00:00:00Z"}}));
    let outcome = bench.look();
    assert_eq!(outcome.state, StepState::Working { remaining: 2, blocked_by: None });
    bench.pass(299);
    assert!(bench.look().checks.is_empty(), "by the clock here it has run for 299 s");
    bench.pass(1);
    let outcome = bench.look();
    assert_eq!(outcome.state, StepState::Done);
    let told: Vec<_> = outcome.checks.iter().map(|r| (r.check.as_str(), r.verdict)).collect();
    assert_eq!(told, [("vector-add", Hang), ("busbw", Inconclusive)], "nothing runs after a hang");
    assert!(outcome.checks[1].detail.contains("vector-add hung"));
    assert_eq!(outcome.checks[0].finished.duration_since(outcome.checks[0].started).as_secs(), 300);
    bench.pass(15);
    let outcome = bench.look();
    let Request::Delete { uid, propagation, .. } = &outcome.calls[0].request else { panic!("{outcome:?}") };
    assert_eq!((uid.as_str(), *propagation), ("job-uid", "Background"));
    assert_eq!(bench.look().checks, outcome.checks, "the same at every look");
}

#[test]
fn a_silent_node_is_no_hang() {
    let mut bench = Bench::new([order("vector-add")]);
    bench.make();
    bench.pod(json!({"running": {}}));
    bench.look();
    bench.node(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    bench.pass(300);
    let result = bench.look().checks.remove(0);
    assert_eq!(result.verdict, Inconclusive);
    assert!(result.detail.contains("c1/n1 isn't ready"), "{}", result.detail);
}

#[test]
fn the_net_below_is_read_by_whether_it_ran() {
    let deadline =
        json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"});
    for (state, verdict) in [
        (Some(json!({"terminated": {"exitCode": 137, "reason": "Error"}})), Hang),
        (Some(json!({"running": {}})), Hang),
        (Some(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), Fail),
        (Some(json!({"waiting": {"reason": "ContainerCreating"}})), Inconclusive),
        (None, Inconclusive),
    ] {
        let mut bench = Bench::new([order("vector-add")]);
        bench.make();
        if let Some(state) = &state {
            bench.pod(state.clone());
        }
        bench.job_condition(deadline.clone());
        assert_eq!(bench.look().checks[0].verdict, verdict, "{state:?}");
    }
}

#[test]
fn what_never_starts_is_inconclusive_and_says_why() {
    let rows: &[(Option<Value>, &str)] = &[
        (None, "no pod"),
        (Some(json!({"phase": "Pending"})), "hasn't started"),
        (
            Some(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/9 nodes are available: Insufficient nvidia.com/gpu"}]}),
            ),
            "Insufficient nvidia.com/gpu",
        ),
        (
            Some(
                json!({"phase": "Pending", "containerStatuses": [{"name": "check", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}),
            ),
            "ImagePullBackOff: not found",
        ),
        (
            Some(
                json!({"phase": "Pending", "containerStatuses": [{"name": "check", "state": {"waiting": {"reason": "CreateContainerError", "message": "no runtime"}}}]}),
            ),
            "CreateContainerError",
        ),
    ];
    for (status, detail) in rows {
        let mut bench = Bench::new([order("vector-add")]);
        bench.make();
        if let Some(status) = status {
            bench.pod_status(status.clone());
        }
        bench.pass(419);
        let outcome = bench.look();
        let StepState::Working { blocked_by, .. } = &outcome.state else { panic!("{outcome:?}") };
        if let Some(Blocker::Refused(by)) = blocked_by {
            assert!(by.contains(detail), "{by}");
        }
        bench.pass(1);
        let outcome = bench.look();
        assert_eq!(outcome.checks[0].verdict, Inconclusive, "{status:?}");
        assert!(outcome.checks[0].detail.contains(detail), "{status:?}: {}", outcome.checks[0].detail);
    }
}

#[test]
fn a_node_that_doesnt_offer_its_devices_fails_the_drivers_check_alone() {
    for (class, devices, verdict) in [
        (CheckClass::Driver, "0", Fail),
        (CheckClass::Training, "0", Inconclusive),
        (CheckClass::Driver, "8", Inconclusive),
    ] {
        let mut order = order("vector-add");
        (order.class, order.gpus) = (class, 8);
        let mut bench = Bench::new([order]);
        bench.node(json!({"status": {"allocatable": {"nvidia.com/gpu": devices}}}));
        bench.make();
        bench.pod_status(json!({"phase": "Pending"}));
        bench.pass(420);
        let result = bench.look().checks.remove(0);
        assert_eq!(result.verdict, verdict, "{class:?} {devices}: {}", result.detail);
        if verdict == Fail {
            assert!(result.detail.contains("offers 0 of 8 nvidia.com/gpu"), "{}", result.detail);
        }
    }
}

#[test]
fn a_job_that_cant_be_made_is_given_up_and_named() {
    for (status, text) in [
        (403, "cannot create resource \"jobs\""),
        (403, "exceeded quota: gpus"),
        (403, "unable to create new content in namespace drydock-system because it is being terminated"),
        (404, "namespaces \"drydock-system\" not found"),
        (422, "spec.template: Invalid value"),
    ] {
        let mut bench = Bench::new([order("vector-add")]);
        for _ in 0..3 {
            assert!(bench.look().checks.is_empty());
            bench.fail(&refusal(status, text));
            bench.pass(60);
        }
        let result = bench.look().checks.remove(0);
        assert_eq!(result.verdict, Inconclusive);
        assert!(result.detail.contains(text), "{}", result.detail);
    }
    // An API server in trouble is waited for, as long as a pod would be.
    let mut bench = Bench::new([order("vector-add")]);
    for _ in 0..7 {
        let outcome = bench.look();
        assert!(outcome.checks.is_empty(), "{outcome:?}");
        bench.fail(&refusal(503, "etcdserver: request timed out"));
        bench.pass(60);
    }
    assert_eq!(bench.look().checks[0].verdict, Inconclusive);
}

#[test]
fn a_job_that_somebody_deletes_isnt_run_again_unasked() {
    let mut bench = Bench::new([order("vector-add")]);
    bench.make();
    bench.look();
    bench.job_gone();
    let outcome = bench.look();
    assert_eq!((outcome.state, outcome.checks[0].verdict), (StepState::Done, Inconclusive));
    assert!(outcome.calls.is_empty());
}

#[test]
fn checks_run_one_after_the_other_and_results_outlive_their_jobs() {
    let mut bench = Bench::new([order("vector-add"), order("busbw")]);
    bench.make();
    assert_eq!(bench.creations(), 1);
    bench.pod(json!({"terminated": {"exitCode": 0}}));
    bench.job_condition(json!({"type": "Complete", "status": "True"}));
    let outcome = bench.look();
    assert_eq!(outcome.state, StepState::Working { remaining: 1, blocked_by: None });
    assert_eq!(outcome.checks.len(), 1, "what is known is told");
    bench.make();
    assert_eq!(bench.creations(), 2);
    bench.pod(json!({"terminated": {"exitCode": 0}}));
    bench.job_condition(json!({"type": "Complete", "status": "True"}));
    let done = bench.look();
    assert_eq!((done.state, done.checks.len(), done.calls.len()), (StepState::Done, 2, 0));
    assert!(done.again.is_some());
    bench.pass(30);
    let outcome = bench.look();
    assert_eq!(outcome.calls.len(), 2, "two requests a run: one to make it, one to delete it");
    bench.answer();
    bench.jobs_gone();
    let outcome = bench.look();
    assert_eq!((outcome.state, outcome.checks), (StepState::Done, done.checks));
    assert!(outcome.calls.is_empty() && bench.creations() == 2);
}

#[test]
fn after_a_restart_the_job_is_found_by_its_name() {
    let mut bench = Bench::new([order("vector-add")]);
    bench.make();
    bench.restart();
    assert!(bench.look().calls.is_empty(), "it runs already");
    bench.pod(json!({"terminated": {"exitCode": 1, "message": "bad"}}));
    bench.restart();
    let outcome = bench.look();
    assert_eq!((outcome.calls.len(), outcome.checks[0].verdict), (0, Fail));
    // Another try is another Job.
    bench.restart();
    bench.orders[0].attempt = 2;
    assert_eq!(bench.look().calls.len(), 1);
}

#[test]
fn repeats_run_in_turn_and_stop_at_a_failure() {
    let mut three = order("busbw");
    three.repeats = 3;
    let mut bench = Bench::new([three.clone()]);
    for (i, value) in [300, 100, 200].iter().enumerate() {
        bench.make();
        assert_eq!(bench.creations(), i + 1);
        bench.pod(json!({"terminated": {"exitCode": 0, "message": format!("{{\"verdict\":\"pass\",\"value\":{value}}}")}}));
        bench.job_condition(json!({"type": "Complete", "status": "True"}));
    }
    let outcome = bench.look();
    assert_eq!((outcome.checks.len(), outcome.checks[0].value), (1, Some(200.0)));

    let mut bench = Bench::new([three]);
    bench.make();
    bench.pod(json!({"terminated": {"exitCode": 1}}));
    let outcome = bench.look();
    assert_eq!((outcome.state, outcome.checks[0].verdict), (StepState::Done, Fail));
}

#[test]
fn asking_twice_is_asking_once() {
    let mut bench = Bench::new([order("vector-add")]);
    let outcome = bench.look();
    bench.answer();
    assert_eq!(outcome.calls.len(), 1);
    assert!(bench.look().calls.is_empty(), "the watch hasn't shown it yet");
    bench.show();
    assert!(bench.look().calls.is_empty());
}

#[test]
fn what_nobody_asks_for_is_deleted() {
    use crate::objects::{JobObject, PodObject};
    let job = |name: &str, node: &str, generation: &str, more: Value| {
        let labels = json!({names::MANAGED_BY: "drydock", names::CHECK: "c", names::NODE: node, names::GENERATION: generation});
        kit::both(json!({"metadata": {"name": name, "namespace": "d", "uid": name, "labels": labels}}), more)
    };
    let pod = |name: &str, key: &str, generation: &str, more: Value| {
        let labels = json!({names::MANAGED_BY: "drydock", key: "true", names::NODE: "n1", names::GENERATION: generation});
        kit::both(json!({"metadata": {"name": name, "namespace": "x", "uid": name, "labels": labels}}), more)
    };
    let complete = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let group = json!({"metadata": {"labels": {names::CHECK_GROUP: "g"}}});
    let scene = crate::ensure::fixture::Scene::node(json!({"metadata": {"name": "n1"}}))
        .with::<JobObject>([
            job("wanted", "n1", "7", json!({})),
            job("older", "n1", "6", json!({})),
            job("gone", "n2", "7", json!({})),
            job("leaving", "n1", "6", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            job("others", "n1", "6", json!({"metadata": {"labels": {names::MANAGED_BY: "Helm"}}})),
            job("group", "n1", "6", group.clone()),
            job("read", "n1", "6", kit::both(group, complete)),
        ])
        .with::<PodObject>([
            pod("drydock-prefetch-a", names::PREFETCH, "6", json!({})),
            pod("drydock-prefetch-b", names::PREFETCH, "7", json!({})),
            pod("drydock-probe-a", names::PROBE, "6", json!({})),
            pod("drydock-probe-b", names::PROBE, "6", json!({"metadata": {"namespace": "y"}})),
            pod("drydock-probe-c", names::PROBE, "6", json!({"metadata": {"ownerReferences": [{"kind": "Job", "controller": true, "name": "j", "uid": "j"}]}})),
            pod("zz", "app", "6", json!({})),
        ]);
    let wanted = [(std::sync::Arc::from("n1"), drydock_plan::Generation(7))].into();
    let calls = super::leftovers(scene.objects(), &wanted);
    let told: Vec<&str> = calls
        .iter()
        .map(|call| match &call.request {
            Request::Delete { uid, .. } => uid.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["gone", "group", "older", "drydock-prefetch-a", "drydock-probe-a", "drydock-probe-b"]);
}

#[test]
fn an_image_of_ones_own() {
    let mut own = order("mine");
    own.run = CheckRun::Image("reg/mine:1".to_owned());
    let body = Bench::new([own]).body();
    let container = &body["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["args"]), (&json!("reg/mine:1"), &Value::Null));
}
