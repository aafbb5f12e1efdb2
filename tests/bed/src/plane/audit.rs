//! Who asked the API server for what.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::Value;

use super::{Plane, User};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// User by name; see [`User::name`].
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Plural of the kind, `nodes` for example; empty for paths that aren't objects.
    pub resource: String,
    /// `status`, `eviction`, `scale`; or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name of the object; empty for lists, watches and creations with a generated name.
    pub name: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// When it came in.
    pub at: Timestamp,
    /// Path and query.
    pub uri: String,
}

impl AuditEntry {
    /// Whether this user asked.
    #[must_use]
    pub fn by(&self, user: User) -> bool {
        self.user == user.name()
    }
    /// Whether it asked for a change.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

impl Plane {
    pub(super) fn audit_path(&self) -> PathBuf {
        self.path("audit.log")
    }

    /// Every request since the start that has been answered, in the order of the answers. A watch stands where it
    /// began, once.
    ///
    /// # Errors
    /// The plane runs without `audit`.
    pub fn audit(&self) -> anyhow::Result<Vec<AuditEntry>> {
        let path = self.audit_path();
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(parse(&text))
    }
}

fn parse(text: &str) -> Vec<AuditEntry> {
    let mut seen = BTreeSet::new();
    // The last line may be half written.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // A watch has two events, at its beginning and at its end.
    events
        .filter(|event| event["auditID"].as_str().is_none_or(|id| seen.insert(id.to_owned())))
        .map(|event| entry(&event))
        .collect()
}

fn entry(event: &Value) -> AuditEntry {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    AuditEntry {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        resource: text(&object["resource"]),
        subresource: text(&object["subresource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        user_agent: text(&event["userAgent"]),
        code: event["responseStatus"]["code"]
            .as_u64()
            .and_then(|c| u16::try_from(c).ok())
            .unwrap_or_default(),
        at: event["requestReceivedTimestamp"].as_str().and_then(|t| t.parse().ok()).unwrap_or_default(),
        uri: text(&event["requestURI"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_counts_once_and_half_a_line_not_at_all() {
        let watch = |stage: &str| {
            format!(
                r#"{{"auditID":"1","stage":"{stage}","verb":"watch","requestURI":"/api/v1/nodes?watch=1",
                "user":{{"username":"drydock-a"}},"objectRef":{{"resource":"nodes"}},"responseStatus":{{"code":200}},
                "requestReceivedTimestamp":"2026-03-02T10:00:00.000001Z"}}"#
            )
            .replace('\n', "")
        };
        let text =
            format!("{}\n{}\n{{\"auditID\":\"2\",\"ve", watch("ResponseStarted"), watch("ResponseComplete"));
        let entries = parse(&text);
        assert_eq!(entries.len(), 1);
        let entry = entries.first().unwrap();
        assert!(entry.by(User::DrydockA) && !entry.writes());
        assert_eq!((entry.resource.as_str(), entry.code), ("nodes", 200));
        assert_eq!(entry.at, "2026-03-02T10:00:00.000001Z".parse().unwrap());
    }
}
