//! What a component's pod on a node tells.

use drydock_plan::Blocker;
use jiff::SignedDuration;

use super::super::{Call, Effort, Outcome, Request, View};
use super::LOOK;
use crate::client::Kind;
use crate::objects::{Key, PodObject};

/// Restarts after which a container that falls over and over again is taken for broken: the third restart comes after
/// about a minute of the kubelet's back-off, the eleventh after half an hour.
const RESTARTS: u32 = 3;

/// An image that can't be pulled for so long isn't going to be: three tries of the kubelet.
const PULL_WITHIN: SignedDuration = SignedDuration::from_secs(90);

/// Judges the pod of the wanted version. `None` when it is ready.
pub(super) fn not_ready(
    view: &View<'_>,
    effort: &mut Effort,
    pod: Option<&PodObject>,
    attempt: u32,
) -> Option<Outcome> {
    let Some(pod) = pod else {
        let text = "its pod isn't there yet".to_owned();
        return Some(Outcome::blocked(0, Blocker::NotReady(text)).again(view.now, LOOK));
    };
    if pod.ready && !pod.leaving() {
        return None;
    }
    // A new try of the same begins with a new pod.
    let renew = format!("renew {attempt}");
    if attempt > 1 && !effort.notes.contains_key(&renew) {
        effort.notes.insert(renew.clone(), (view.now, pod.meta.uid.clone()));
    }
    if let Some((_, uid)) = effort.notes.get(&renew).filter(|_| attempt > 1)
        && *uid == pod.meta.uid
        && !pod.leaving()
    {
        return Some(Outcome::working(vec![delete(pod, &renew)]).again(view.now, LOOK));
    }
    let crashing = pod.containers.iter().find(|c| c.restarts >= RESTARTS && !c.ready);
    if let Some(container) = crashing {
        let ended = container.last.as_ref().or(container.terminated.as_ref());
        let how =
            ended.map_or(String::new(), |(code, _, said)| format!(", last with exit code {code} {said}"));
        let text =
            format!("container {} has ended {} times{}", container.name, container.restarts, how.trim_end());
        return Some(Outcome::failed(text));
    }
    let pulling = pod.containers.iter().any(|c| {
        matches!(
            c.waiting.as_deref(),
            Some("ImagePullBackOff" | "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName")
        )
    });
    let trouble = pod.trouble().unwrap_or_else(|| "its pod isn't ready yet".to_owned());
    if pulling {
        let until = effort.since("pulling", view.now).checked_add(PULL_WITHIN).unwrap_or(view.now);
        if view.now >= until {
            return Some(Outcome::failed(trouble));
        }
        let mut waiting = Outcome::blocked(0, Blocker::NotReady(trouble));
        waiting.again = Some(until);
        return Some(waiting);
    }
    Some(Outcome::blocked(0, Blocker::NotReady(trouble)).again(view.now, LOOK))
}

/// Deletes this very pod. Only pods of the component whose version changes are deleted, never a workload's.
pub(super) fn delete(pod: &PodObject, key: &str) -> Call {
    let at = Key::new(&pod.meta.namespace, &pod.meta.name);
    Call {
        key: format!("{key} {at} {}", pod.meta.uid),
        request: Request::Delete {
            uri: Kind::POD.one(at.space(), &at.name),
            uid: pod.meta.uid.clone(),
            propagation: "Background",
            grace: None,
        },
    }
}
