//! Why a call failed, and what that means for the caller.

use std::time::Duration;

use drydock_plan::NodeId;
use http::StatusCode;
use serde::Deserialize;

/// Why a cluster can't be connected to at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig, or the context in it, can't be used.
    #[error("the kubeconfig can't be used: {0}")]
    Kubeconfig(String),
    /// The Secret with the kubeconfig.
    #[error("the Secret {namespace}/{name} can't be used: {why}")]
    Secret {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// What was seen.
        why: String,
    },
    /// The client can't be made of it.
    #[error("no client can be made of this access: {0}")]
    Client(String),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// This process doesn't lead (any more), so it doesn't write.
    #[error("not the leader: nothing is written")]
    NotLeading,
    /// The last calls failed; the next one is tried later.
    #[error("the API server didn't answer lately; the next try is in {} s", .0.as_secs().max(1))]
    Open(Duration),
    /// No answer in time. It isn't known whether the call was carried out.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The connection failed. It isn't known whether the call was carried out.
    #[error("{0}")]
    Transport(String),
    /// The API server said no.
    #[error(transparent)]
    Refused(Refusal),
    /// What was sent or received can't be read.
    #[error("an unreadable answer: {0}")]
    Malformed(String),
}

/// An API server's "no".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {reason}: {message}", status.as_u16())]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// Machine word, for example `TooManyRequests`.
    pub reason: String,
    /// For people; secrets have no place in API errors, but it is cut anyway.
    pub message: String,
    /// When it may be tried again, where the server says so.
    pub retry_after: Option<Duration>,
    /// Causes, each with its machine word and its text.
    pub causes: Vec<(String, String)>,
}

/// Longest text kept of an error, in bytes.
const MESSAGE_MAX: usize = 1024;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
    details: Details,
}
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u64,
    causes: Vec<Cause>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

impl Refusal {
    /// Reads a `Status` object, or whatever else a proxy in between has answered.
    #[must_use]
    pub fn read(status: StatusCode, retry_after: Option<u64>, body: &[u8]) -> Self {
        let told: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
            message: String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned(),
            ..Status::default()
        });
        let seconds = retry_after
            .or((told.details.retry_after_seconds > 0).then_some(told.details.retry_after_seconds));
        Self {
            status,
            reason: if told.reason.is_empty() {
                status.canonical_reason().unwrap_or("").to_owned()
            } else {
                told.reason
            },
            message: cut(told.message),
            retry_after: seconds.map(Duration::from_secs),
            causes: told.details.causes.into_iter().take(8).map(|c| (c.reason, cut(c.message))).collect(),
        }
    }
}

fn cut(mut text: String) -> String {
    let mut end = MESSAGE_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl CallError {
    /// From kube's own.
    #[must_use]
    pub fn of_kube(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(Refusal {
                status: StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                reason: status.reason.clone(),
                message: cut(status.message.clone()),
                retry_after: None,
                causes: Vec::new(),
            }),
            other => {
                // The chain names what really happened (connection refused, certificate unknown); the top often doesn't.
                let mut text = other.to_string();
                let mut below = std::error::Error::source(other);
                while let Some(error) = below {
                    let said = error.to_string();
                    if !text.contains(&said) {
                        text = format!("{text}: {said}");
                    }
                    below = error.source();
                }
                Self::Transport(cut(text))
            }
        }
    }
    /// The API server's answer, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::NotLeading | Self::Open(_) | Self::Timeout(_) | Self::Transport(_) | Self::Malformed(_) => {
                None
            }
        }
    }
    /// The status of the API server's answer.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.refusal().map(|r| r.status)
    }
    /// Somebody else changed the object in between, or it exists already.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }
    /// It isn't there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }
    /// drydock isn't allowed to.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self.status(), Some(StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED))
    }
    /// It isn't known whether the call was carried out: look before doing it again.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Transport(_) | Self::Malformed(_) => true,
            Self::Refused(refusal) => refusal.status.is_server_error(),
            Self::NotLeading | Self::Open(_) => false,
        }
    }
    /// The API server as a whole is in trouble, not this one call.
    #[must_use]
    pub fn is_of_the_server(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Transport(_) | Self::Open(_) => true,
            Self::Refused(refusal) => {
                refusal.status == StatusCode::UNAUTHORIZED || matches!(refusal.status.as_u16(), 502..=504)
            }
            Self::NotLeading | Self::Malformed(_) => false,
        }
    }
    /// A sentence about a node, for people.
    #[must_use]
    pub fn on(&self, doing: &str, node: &NodeId) -> String {
        format!("{doing} on {node}: {self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_eviction_says_by_whom_and_until_when() {
        let body = br#"{"kind":"Status","reason":"TooManyRequests","message":"Cannot evict pod as it would violate the pod's disruption budget.","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget train needs 4 healthy pods and has 4 currently"}],"retryAfterSeconds":10},"code":429}"#;
        let refusal = Refusal::read(StatusCode::TOO_MANY_REQUESTS, None, body);
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(10)));
        assert!(refusal.causes[0].1.contains("disruption budget train"));
        let text = Refusal::read(StatusCode::BAD_GATEWAY, Some(3), b"<html>proxy").to_string();
        assert_eq!(text, "502 Bad Gateway: <html>proxy");
    }

    #[test]
    fn what_may_have_happened_is_told_from_what_has_not() {
        let refused = |status| CallError::Refused(Refusal::read(status, None, b"{}"));
        assert!(CallError::Timeout(Duration::from_secs(1)).is_ambiguous());
        assert!(refused(StatusCode::INTERNAL_SERVER_ERROR).is_ambiguous());
        assert!(!refused(StatusCode::CONFLICT).is_ambiguous() && refused(StatusCode::CONFLICT).is_conflict());
        assert!(refused(StatusCode::SERVICE_UNAVAILABLE).is_of_the_server());
        assert!(!refused(StatusCode::TOO_MANY_REQUESTS).is_of_the_server());
    }
}
