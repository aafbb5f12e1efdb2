//! What happens, as Events on the objects it happens to, for `kubectl describe node` and `kubectl get events`.
//!
//! They are a courtesy: the ledger's own history is complete, these aren't. A node gets two on its way, one when it goes
//! and one when it is back or isn't coming back.

use std::sync::Arc;

use drydock_api::names;
use drydock_cluster::client::{Caller, Kind};
use drydock_cluster::clusters::Callers;
use drydock_plan::{Blame, RolloutEvent};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::store::{Event, EventKind};

/// Where an Event goes.
#[derive(Debug, Clone, PartialEq)]
enum On {
    /// A node, by its cluster and name.
    Node(String, String),
    /// A rollout in the home cluster.
    Rollout(String),
}

/// An Event that is to be written.
#[derive(Debug, Clone, PartialEq)]
struct Notice {
    on: On,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// Writes Events until the feed ends.
pub(super) async fn run(
    mut feed: broadcast::Receiver<Arc<Event>>,
    callers: Callers,
    home: Caller,
    namespace: String,
) {
    loop {
        let event = match feed.recv().await {
            Ok(event) => event,
            // Events that weren't read in time aren't told here; whoever wants them all reads the history.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(notice) = notice(&event.what) else { continue };
        let (caller, space) = match &notice.on {
            On::Node(cluster, _) => (callers.get(cluster), "default"),
            On::Rollout(_) => (Some(home.clone()), namespace.as_str()),
        };
        let Some(caller) = caller else { continue };
        let body = body(&notice, &event, space);
        let uri = Kind::EVENT.all(Some(space));
        if let Err(error) = caller.create::<Value>(&uri, &body).await {
            tracing::debug!(%error, "an Event wasn't written");
        }
    }
}

fn notice(what: &EventKind) -> Option<Notice> {
    let normal = |on, reason, message| Some(Notice { on, warning: false, reason, message });
    let warning = |on, reason, message| Some(Notice { on, warning: true, reason, message });
    match what {
        EventKind::Node { node, rollout, from, to } => {
            let on = On::Node(node.cluster().to_owned(), node.node().to_owned());
            let by = rollout.as_ref().map_or(String::new(), |r| format!(" by rollout {r}"));
            match (from.as_str(), to.as_str()) {
                (_, "quarantined") => warning(on, "Quarantined", format!("kept away from work{by}")),
                ("idle" | "soaking", "idle" | "soaking") => None,
                ("idle" | "soaking", _) => normal(on, "RolloutBegan", format!("reserved{by}")),
                (_, "soaking") => normal(on, "Returned", format!("serves again and is watched{by}")),
                (_, "idle") => normal(on, "Returned", format!("given back{by}")),
                _ => None,
            }
        }
        EventKind::Rollout { rollout, event, .. } => {
            let on = On::Rollout(rollout.to_string());
            match event {
                RolloutEvent::Created { nodes, waves } => {
                    normal(on, "Created", format!("{nodes} nodes in {waves} waves"))
                }
                RolloutEvent::State { to, why, .. } => {
                    let bad = ["Halted", "RollingBack", "RollbackBlocked", "Rejected"].contains(&to.as_str());
                    let message = if why.is_empty() { to.clone() } else { format!("{to}: {why}") };
                    Some(Notice { on, warning: bad, reason: "State", message })
                }
                RolloutEvent::FailureSettled { node, blame, text } => {
                    let whom = match blame {
                        Blame::Version => "the version is to blame",
                        Blame::Node => "the node is to blame",
                        Blame::Unknown => "it isn't known what is to blame",
                    };
                    warning(on, "Failed", format!("{node}: {text}; {whom}"))
                }
                RolloutEvent::LayoutQuarantined { layout, .. } => {
                    warning(on, "LayoutQuarantined", format!("layout {layout} isn't tried again here"))
                }
                RolloutEvent::ReleaseQuarantined { release, .. } => {
                    warning(on, "ReleaseQuarantined", format!("{release} isn't tried again here"))
                }
                RolloutEvent::Wave { .. }
                | RolloutEvent::Batch { .. }
                | RolloutEvent::Suspect { .. }
                | RolloutEvent::Approved { .. }
                | RolloutEvent::NodeQuarantined { .. }
                | RolloutEvent::Deferred { .. }
                | RolloutEvent::Skipped { .. }
                | RolloutEvent::Drawn { .. } => None,
            }
        }
        EventKind::Command { .. }
        | EventKind::Adopted { .. }
        | EventKind::SourceProblem { .. }
        | EventKind::SourceWell {}
        | EventKind::Ledger { .. }
        | EventKind::Violation { .. } => None,
    }
}

/// The API server takes messages of at most 1,024 bytes.
const MESSAGE_MAX: usize = 1_000;

fn body(notice: &Notice, event: &Event, namespace: &str) -> Value {
    let at = event.at.to_string();
    let (version, kind, name) = match &notice.on {
        On::Node(_, name) => ("v1", "Node", name),
        On::Rollout(name) => (Kind::ROLLOUT.version, Kind::ROLLOUT.kind, name),
    };
    let mut involved = json!({ "apiVersion": version, "kind": kind, "name": name });
    match &notice.on {
        // The kubelet takes a node's name for its uid here, and that is what `kubectl describe node` looks for.
        On::Node(..) => involved["uid"] = json!(name),
        On::Rollout(_) => involved["namespace"] = json!(namespace),
    }
    let mut message = notice.message.clone();
    let mut end = MESSAGE_MAX.min(message.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "generateName": format!("{name}."), "namespace": namespace, "labels": { names::MANAGED_BY: "drydock" } },
        "involvedObject": involved,
        "reason": notice.reason,
        "message": message,
        "type": if notice.warning { "Warning" } else { "Normal" },
        "source": { "component": "drydock" },
        "reportingComponent": "drydock.dev/reconciler",
        "reportingInstance": "drydock",
        "action": notice.reason,
        "eventTime": null,
        "firstTimestamp": at.split('.').next().map(|s| format!("{}Z", s.trim_end_matches('Z'))),
        "lastTimestamp": at.split('.').next().map(|s| format!("{}Z", s.trim_end_matches('Z'))),
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use drydock_plan::NodeId;

    #[test]
    fn a_node_gets_two_on_its_way() {
        let step = |from: &str, to: &str| EventKind::Node {
            node: NodeId::new("c1/n1"),
            rollout: Some(drydock_plan::RolloutId::new("r-1")),
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let way = ["idle", "preflight", "cordon", "drain", "apply", "verify", "return", "soaking", "idle"];
        let told: Vec<&str> =
            way.windows(2).filter_map(|w| notice(&step(w[0], w[1]))).map(|n| n.reason).collect();
        assert_eq!(told, ["RolloutBegan", "Returned"]);
        let event = Event {
            number: 1,
            at: "2026-01-01T00:00:00.5Z".parse().unwrap(),
            what: step("verify", "quarantined"),
        };
        let body = body(&notice(&event.what).unwrap(), &event, "default");
        assert_eq!(
            (body["type"].as_str(), body["firstTimestamp"].as_str()),
            (Some("Warning"), Some("2026-01-01T00:00:00Z"))
        );
        assert_eq!(body["involvedObject"]["uid"], "n1");
    }
}
