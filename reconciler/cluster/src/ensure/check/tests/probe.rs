//! Whether a scheduler schedules.

use drydock_plan::{Blocker, Ensure, StepState};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::kit::{both, refusal};
use crate::ensure::fixture::{Scene, effort};
use crate::ensure::{Effort, Outcome, Request, scheduled_probe};
use crate::objects::PodObject;

struct Stage {
    scene: Scene,
    effort: Effort,
}

impl Stage {
    fn new() -> Self {
        Self { scene: Scene::node(json!({"metadata": {"name": "n1"}})), effort: effort() }
    }
    fn look(&mut self) -> Outcome {
        scheduled_probe(&self.scene.view(&Ensure::Returned), &mut self.effort, "gpu-scheduler")
    }
    fn answer(&mut self, outcome: &Outcome, result: Result<(), crate::client::CallError>) {
        for call in &outcome.calls {
            self.effort.begin(&call.key, self.scene.now);
            self.effort.end(&call.key, result.clone(), self.scene.now);
        }
    }
    fn made(&mut self) -> Value {
        let outcome = self.look();
        let Request::Create { body, .. } = &outcome.calls[0].request else { panic!("{outcome:?}") };
        let body = both(body.clone(), json!({"metadata": {"uid": "u"}}));
        self.answer(&outcome, Ok(()));
        self.show(body.clone());
        body
    }
    fn show(&mut self, pod: Value) {
        let scene = std::mem::replace(&mut self.scene, Scene::node(json!({"metadata": {"name": "n1"}})));
        self.scene = scene.with::<PodObject>([pod]);
    }
    fn pass(&mut self, seconds: i64) {
        self.scene.now = self.scene.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

fn deletes(outcome: &Outcome) -> bool {
    matches!(&outcome.calls[..], [call] if matches!(&call.request, Request::Delete { uid, .. } if uid == "u"))
}

#[test]
fn a_bound_pod_is_all_that_is_asked() {
    let mut stage = Stage::new();
    let body = stage.made();
    let spec = &body["spec"];
    assert_eq!(spec["schedulerName"], "gpu-scheduler");
    assert_eq!(
        (&spec["nodeName"], &spec["tolerations"], &spec["affinity"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], Value::Null);
    assert!(matches!(stage.look().state, StepState::Working { .. }));
    stage.show(both(body, json!({"spec": {"nodeName": "n9"}})));
    let outcome = stage.look();
    assert!(outcome.state == StepState::Done && deletes(&outcome), "{outcome:?}");
    stage.answer(&outcome, Ok(()));
    assert_eq!(stage.look(), Outcome::done(), "it is deleted once");
    let mut gone = Stage::new();
    gone.effort = stage.effort;
    assert_eq!(gone.look(), Outcome::done(), "and not made again");
}

#[test]
fn a_scheduler_that_binds_nothing_fails_with_what_it_says() {
    let mut stage = Stage::new();
    let body = stage.made();
    let waiting = json!({"status": {"phase": "Pending", "conditions":
        [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}});
    stage.show(both(body, waiting));
    stage.pass(59);
    assert!(matches!(stage.look().state, StepState::Working { .. }));
    stage.pass(1);
    let outcome = stage.look();
    let StepState::Failed { message } = &outcome.state else { panic!("{outcome:?}") };
    assert!(message.contains("gpu-scheduler") && message.contains("0/3 nodes"), "{message}");
    assert!(deletes(&outcome));
    let mut gone = Stage::new();
    gone.effort = stage.effort;
    assert_eq!(gone.look(), Outcome::failed(message.clone()), "it stays failed and makes no other pod");
}

#[test]
fn a_pod_that_cant_be_made_says_nothing_about_the_scheduler() {
    let mut stage = Stage::new();
    for _ in 0..5 {
        let outcome = stage.look();
        stage.answer(&outcome, Err(refusal(403, "exceeded quota")));
        stage.pass(60);
        let outcome = stage.look();
        let StepState::Working { blocked_by: Some(Blocker::Refused(text)), .. } = &outcome.state else {
            panic!("{outcome:?}")
        };
        assert!(text.contains("exceeded quota"));
    }
}
