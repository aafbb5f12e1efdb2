//! What a kubelet shows of a pod: from its fate and its age to the status it writes. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::options::{Ended, Timings};

/// What becomes of a pod on its node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// It runs and becomes ready.
    Serves,
    /// It runs, for so long or for ever, and ends like this.
    Ends { after: Option<Duration>, how: Ended },
    /// These images of it can't be pulled.
    PullFails { images: Vec<String> },
    /// Its containers are never made, and nothing says why.
    NeverStarts,
    /// It runs and never becomes ready.
    NeverReady,
    /// It crashes again and again.
    CrashLoops,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Face {
    Creating,
    PullFails { images: Vec<String> },
    Running { ready: bool, restarts: u32 },
    CrashLoop { restarts: u32 },
    Ended(Ended),
}

/// The pause between two crashes doubles up to this many times: a kubelet goes from 10 s to 5 min.
const DOUBLINGS: u32 = 10;

/// What is shown of a pod of this age, and when that changes by itself.
///
/// `restarts` is how often it had started anew before its present life began.
pub(super) fn face(fate: &Fate, age: Duration, restarts: u32, t: &Timings) -> (Face, Option<Duration>) {
    let left = |until: Duration| until.checked_sub(age).filter(|left| !left.is_zero());
    let running = |ready| Face::Running { ready, restarts };
    if let (Some(wait), false) = (left(t.start), *fate == Fate::NeverStarts) {
        return (Face::Creating, Some(wait));
    }
    match fate {
        Fate::NeverStarts => (Face::Creating, None),
        Fate::PullFails { images } => (Face::PullFails { images: images.clone() }, None),
        Fate::NeverReady => (running(false), None),
        Fate::Serves => match left(t.start + t.ready) {
            Some(wait) => (running(false), Some(wait)),
            None => (running(true), None),
        },
        Fate::Ends { after: None, .. } => (running(true), None),
        Fate::Ends { after: Some(after), how } => match left(t.start + *after) {
            Some(wait) => (running(true), Some(wait)),
            None => (Face::Ended(how.clone()), None),
        },
        Fate::CrashLoops => {
            // Crashes at 0, 1, 3, 7, … times the first pause.
            let since = age.saturating_sub(t.start);
            let base = t.backoff.max(Duration::from_millis(1));
            let mut crashes: u32 = 0;
            let mut next = Duration::ZERO;
            while next <= since {
                next += base * 2u32.pow(crashes.min(DOUBLINGS));
                crashes += 1;
            }
            // The first crash is of the first start, so the first restart is the second crash.
            let restarts = restarts + crashes.saturating_sub(1);
            (Face::CrashLoop { restarts }, Some(next.saturating_sub(since)))
        }
    }
}

/// The status that shows it, as a strategic merge patch: conditions of others stay.
pub(super) fn status(pod: &Pod, face: &Face, stamp: &str) -> Value {
    let spec = pod.spec.as_ref();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let (phase, ready) = match face {
        Face::Creating | Face::PullFails { .. } => ("Pending", false),
        Face::Running { ready, .. } => ("Running", *ready),
        Face::CrashLoop { .. } => ("Running", false),
        Face::Ended(how) if how.code == 0 => ("Succeeded", false),
        Face::Ended(_) => ("Failed", false),
    };
    let started = !matches!(face, Face::Creating | Face::PullFails { .. });
    let containers = spec.map(|s| s.containers.as_slice()).unwrap_or_default();
    let first = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    let why = match face {
        Face::Ended(how) if how.code == 0 => "PodCompleted",
        Face::Ended(_) => "PodFailed",
        Face::Creating | Face::PullFails { .. } | Face::Running { .. } | Face::CrashLoop { .. } => {
            "ContainersNotReady"
        }
    };
    let condition = |kind: &str, holds: bool| {
        let mut c = json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": stamp});
        if !holds {
            c["reason"] = json!(why);
        }
        c
    };
    let ip = address(uid);
    json!({"status": {
        "phase": phase,
        "startTime": pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or_else(|| json!(stamp), |t| json!(t)),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": if started { json!(ip) } else { Value::Null },
        "podIPs": if started { json!([{"ip": ip}]) } else { Value::Null },
        "conditions": [
            condition("PodReadyToStartContainers", started),
            condition("Initialized", started),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "initContainerStatuses": first.iter().map(|c| first_status(c, uid, started, stamp)).collect::<Vec<_>>(),
        "containerStatuses": containers.iter().map(|c| container_status(c, uid, face, stamp)).collect::<Vec<_>>(),
    }})
}

fn first_status(container: &Container, uid: &str, done: bool, stamp: &str) -> Value {
    let image = container.image.as_deref().unwrap_or_default();
    let state = if done {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp,
            "containerID": container_id(uid, &container.name, 0)}})
    } else {
        json!({"waiting": {"reason": "PodInitializing"}})
    };
    json!({
        "name": container.name, "image": image, "imageID": if done { image_id(image) } else { String::new() },
        "ready": done, "started": false, "restartCount": 0, "state": state,
    })
}

fn container_status(container: &Container, uid: &str, face: &Face, stamp: &str) -> Value {
    let image = container.image.as_deref().unwrap_or_default();
    let name = container.name.as_str();
    let ended = |how: &Ended, restarts| {
        json!({"terminated": {
            "exitCode": how.code, "reason": how.reason, "message": how.message,
            "startedAt": stamp, "finishedAt": stamp, "containerID": container_id(uid, name, restarts),
        }})
    };
    let crashed = Ended::with(1, "");
    let (state, last, ready, restarts) = match face {
        Face::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), false, 0),
        Face::PullFails { images } if !images.iter().any(|i| i == image) => {
            (json!({"running": {"startedAt": stamp}}), json!({}), true, 0)
        }
        Face::PullFails { .. } => {
            let message = format!("Back-off pulling image \"{image}\"");
            (json!({"waiting": {"reason": "ImagePullBackOff", "message": message}}), json!({}), false, 0)
        }
        Face::Running { ready, restarts } => {
            let last = if *restarts > 0 { ended(&crashed, restarts - 1) } else { json!({}) };
            (json!({"running": {"startedAt": stamp}}), last, *ready, *restarts)
        }
        Face::CrashLoop { restarts } => {
            let message = format!("back-off restarting failed container={name}");
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
            (waiting, ended(&crashed, *restarts), false, *restarts)
        }
        Face::Ended(how) => (ended(how, 0), json!({}), false, 0),
    };
    let pulled = match face {
        Face::Creating => false,
        Face::PullFails { images } => !images.iter().any(|i| i == image),
        Face::Running { .. } | Face::CrashLoop { .. } | Face::Ended(_) => true,
    };
    let mut status = json!({
        "name": name, "image": image, "imageID": if pulled { image_id(image) } else { String::new() },
        "ready": ready, "started": matches!(face, Face::Running { .. }), "restartCount": restarts,
        "state": state, "lastState": last,
    });
    if pulled {
        status["containerID"] = json!(container_id(uid, name, restarts));
    }
    status
}

fn container_id(uid: &str, name: &str, restarts: u32) -> String {
    format!("hollow://{uid}/{name}/{restarts}")
}

/// The digest an image is pinned to, or one that follows from its name: the same name is the same image everywhere.
pub(super) fn image_id(image: &str) -> String {
    if image.contains("@sha256:") {
        return image.to_owned();
    }
    let digest: String = Sha256::digest(image).iter().map(|byte| format!("{byte:02x}")).collect();
    let (repository, _) = split_tag(image);
    format!("{repository}@sha256:{digest}")
}

/// Repository and tag of an image; the tag is empty where there is none.
pub(super) fn split_tag(image: &str) -> (&str, &str) {
    let plain = image.split_once('@').map_or(image, |(plain, _)| plain);
    match plain.rsplit_once(':') {
        // `host:5000/name` has a port and no tag.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (plain, ""),
    }
}

/// An address of the pod's own, more or less: nobody connects to it.
fn address(uid: &str) -> String {
    let digest = Sha256::digest(uid);
    let byte = |n: usize| digest.get(n).copied().unwrap_or_default();
    format!("10.{}.{}.{}", byte(0), byte(1), byte(2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_pod_comes_up_and_a_job_ends() {
        let t = Timings::default();
        assert_eq!(face(&Fate::Serves, ms(0), 0, &t), (Face::Creating, Some(ms(50))));
        assert_eq!(
            face(&Fate::Serves, ms(60), 0, &t),
            (Face::Running { ready: false, restarts: 0 }, Some(ms(40)))
        );
        assert_eq!(face(&Fate::Serves, ms(100), 2, &t), (Face::Running { ready: true, restarts: 2 }, None));
        let ends = Fate::Ends { after: Some(ms(100)), how: Ended::with(1, "no") };
        assert_eq!(face(&ends, ms(150), 0, &t), (Face::Ended(Ended::with(1, "no")), None));
        assert_eq!(face(&Fate::NeverStarts, ms(9999), 0, &t), (Face::Creating, None));
    }

    #[test]
    fn a_crash_loop_restarts_ever_more_slowly() {
        let t = Timings::default();
        let at = |age| face(&Fate::CrashLoops, ms(age), 0, &t);
        assert_eq!(at(50), (Face::CrashLoop { restarts: 0 }, Some(ms(200))));
        assert_eq!(at(250), (Face::CrashLoop { restarts: 1 }, Some(ms(400))));
        assert_eq!(at(650), (Face::CrashLoop { restarts: 2 }, Some(ms(800))));
    }

    #[test]
    fn images_have_repository_tag_and_digest() {
        assert_eq!(
            split_tag("nvcr.io/nvidia/driver:580.1-ubuntu"),
            ("nvcr.io/nvidia/driver", "580.1-ubuntu")
        );
        assert_eq!(split_tag("localhost:5000/x"), ("localhost:5000/x", ""));
        assert_eq!(image_id("a:1@sha256:00"), "a:1@sha256:00");
        assert!(image_id("a:1").starts_with("a@sha256:"));
        assert_ne!(image_id("a:1"), image_id("a:2"));
    }
}
