//! Runs on several nodes.

use drydock_plan::{CheckOrder, NodeId, RawVerdict, StepState};
use drydock_spec::CheckOn;
use serde_json::{Value, json};

use super::kit::{Bench, order};
use RawVerdict::{Fail, Hang, Inconclusive, NotApplicable, Pass};

fn pair() -> CheckOrder {
    let mut order = order("ib-write");
    order.on = CheckOn::Pair;
    order.partner = Some(NodeId::new("c1/n2"));
    order.nodes = vec![NodeId::new("c1/n1"), NodeId::new("c1/n2")];
    order
}

fn group() -> CheckOrder {
    CheckOrder { on: CheckOn::Group, partner: None, ..pair() }
}

fn ended(code: i32, message: &str) -> Value {
    json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses":
        [{"name": "check", "state": {"terminated": {"exitCode": code, "message": message}}}]})
}

fn running() -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "check", "state": {"running": {}}}]})
}

#[test]
fn a_pair_is_as_good_as_the_worse_of_its_ends() {
    let value = "{\"verdict\":\"pass\",\"value\":390}";
    for (own, other, verdict, number) in [
        (ended(0, value), ended(0, ""), Pass, Some(390.0)),
        (ended(0, ""), ended(0, value), Pass, Some(390.0)),
        (ended(0, value), ended(1, "slow"), Fail, None),
        (ended(2, ""), ended(1, "slow"), Fail, None),
        (ended(0, value), ended(143, ""), Inconclusive, None),
        (ended(0, value), ended(3, ""), NotApplicable, None),
    ] {
        let mut bench = Bench::new([pair()]);
        bench.make();
        bench.pod_on("n1", own.clone());
        bench.pod_on("n2", other.clone());
        let result = bench.look().checks.remove(0);
        assert_eq!((result.verdict, result.value), (verdict, number), "{own} {other}");
        assert_eq!(result.partner, Some(NodeId::new("c1/n2")));
    }
}

#[test]
fn time_runs_from_when_both_run() {
    let mut bench = Bench::new([pair()]);
    bench.make();
    bench.pod_on("n1", running());
    bench.pod_on("n2", json!({"phase": "Pending"}));
    bench.look();
    bench.pass(299);
    assert!(bench.look().checks.is_empty());
    bench.pod_on("n2", running());
    bench.look();
    bench.pass(299);
    assert!(bench.look().checks.is_empty());
    bench.pod_on("n1", ended(0, ""));
    bench.pass(1);
    assert_eq!(bench.look().checks[0].verdict, Hang, "the other end never answered");

    let mut bench = Bench::new([pair()]);
    bench.make();
    bench.pod_on("n1", running());
    bench.pod_on("n2", json!({"phase": "Pending"}));
    bench.pass(420);
    bench.look();
    let result = bench.look().checks.remove(0);
    assert_eq!(result.verdict, Inconclusive, "the partner's GPUs are in use");
}

/// Two nodes of a group, which see the same cluster.
fn follower_of(bench: &mut Bench) -> Bench {
    let mut other = Bench::on("n2", [group()]);
    other.scene.state.objects.jobs = bench.scene.state.objects.jobs.clone();
    other.scene.state.objects.pods = bench.scene.state.objects.pods.clone();
    other.scene.now = bench.scene.now;
    other
}

fn share(from: &Bench, to: &mut Bench) {
    to.scene.state.objects.jobs = from.scene.state.objects.jobs.clone();
    to.scene.state.objects.pods = from.scene.state.objects.pods.clone();
    to.scene.now = from.scene.now;
}

#[test]
fn the_first_node_makes_the_groups_job_and_each_has_its_own_result() {
    let mut first = Bench::new([group()]);
    let mut second = follower_of(&mut first);
    assert!(second.look().calls.is_empty(), "the first makes it");
    first.make();
    share(&first, &mut second);
    assert!(second.look().calls.is_empty());
    first.pod_on("n1", ended(0, "{\"verdict\":\"pass\",\"value\":400}"));
    share(&first, &mut second);
    assert!(first.look().checks.is_empty(), "not before all have ended");
    first.pod_on("n2", ended(1, "slow"));
    share(&first, &mut second);
    let told = |bench: &mut Bench| {
        let outcome = bench.look();
        (outcome.state.clone(), outcome.checks[0].verdict, outcome.checks[0].value, outcome.calls.len())
    };
    assert_eq!(told(&mut first), (StepState::Done, Pass, Some(400.0), 0));
    assert_eq!(told(&mut second), (StepState::Done, Fail, None, 0));
    // It is over: left to its time to live, since others may still read it.
    first.job_condition(json!({"type": "Complete", "status": "True"}));
    first.pass(60);
    assert!(first.look().calls.is_empty());
}

#[test]
fn a_value_that_only_one_rank_prints_counts_for_all() {
    let mut first = Bench::new([group()]);
    first.make();
    first.pod_on("n1", ended(0, "{\"verdict\":\"pass\",\"value\":400}"));
    first.pod_on("n2", ended(0, ""));
    let mut second = follower_of(&mut first);
    second.look();
    assert_eq!(second.look().checks[0].value, Some(400.0));
}

#[test]
fn an_answer_from_before_is_none() {
    let mut first = Bench::new([group()]);
    first.make();
    first.pod_on("n1", ended(0, ""));
    first.pod_on("n2", ended(0, ""));
    first.job_condition(json!({"type": "Complete", "status": "True"}));
    // The second node's intent begins now; what has ended was about an earlier one.
    let mut second = follower_of(&mut first);
    let outcome = second.look();
    assert!(outcome.checks.is_empty() && outcome.calls.is_empty(), "{outcome:?}");
    // The first has left the step, so nobody makes another: it does so itself.
    second.pass(60);
    assert_eq!(second.look().calls.len(), 1);
}
