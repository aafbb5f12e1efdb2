//! Calls to one cluster's API server: each with a deadline, behind a breaker of its own, counted, and refused when
//! this process doesn't lead.
//!
//! kube's own client would repeat a 429 up to fifteen times by itself; a refused eviction is an answer, not a hiccup,
//! so that is switched off here for everything.

mod breaker;
mod error;
mod gate;
mod list;
mod path;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use jiff::Timestamp;
use kube::client::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

pub use self::breaker::Breaker;
pub use self::error::{CallError, ConnectError, Refusal};
pub use self::gate::Gate;
pub use self::path::{Kind, query};

/// Longest time for one call that isn't a watch. A busy API server answers in milliseconds; what takes longer than this
/// isn't going to answer, and the caller has better things to do.
pub const CALL_DEADLINE: Duration = Duration::from_secs(15);

/// Largest answer that is read, in bytes. Lists are paged far below it.
const ANSWER_MAX: usize = 64 << 20;

/// How a patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// Server-side apply as [`drydock_api::names::MANAGER`], taking over fields only when `force`.
    Apply {
        /// Take fields that another manager holds.
        force: bool,
    },
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// JSON patch (RFC 6902): with `test` operations a compare-and-swap on single fields.
    Json,
}

/// One cluster's API server. Clones share connections, breaker and counters.
#[derive(Clone)]
pub struct Caller {
    client: kube::Client,
    gate: Gate,
    shared: Arc<Shared>,
}

struct Shared {
    breaker: Breaker,
    calls: AtomicU64,
    told: Mutex<Option<(Timestamp, Instant)>>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl Caller {
    /// Over a client's configuration. Writes are refused while `gate` is closed.
    ///
    /// # Errors
    /// When the configuration can't be used.
    pub fn new(mut config: kube::Config, gate: Gate) -> Result<Self, ConnectError> {
        provider();
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        // Watches are quiet for minutes; their liveness is judged by bookmarks, other calls have a deadline.
        config.read_timeout = None;
        let agent = concat!("drydock/", env!("CARGO_PKG_VERSION"));
        config.headers.push((header::USER_AGENT, http::HeaderValue::from_static(agent)));
        let client =
            kube::Client::try_from(config).map_err(|error| ConnectError::Client(error.to_string()))?;
        Ok(Self::over(client, gate))
    }

    /// Over a client that exists already; it must not retry by itself.
    #[must_use]
    pub fn over(client: kube::Client, gate: Gate) -> Self {
        let shared = Shared { breaker: Breaker::default(), calls: AtomicU64::new(0), told: Mutex::new(None) };
        Self { client, gate, shared: Arc::new(shared) }
    }

    /// The same API server behind another gate: leases are renewed by whoever doesn't lead yet.
    #[must_use]
    pub fn with_gate(&self, gate: Gate) -> Self {
        Self { gate, ..self.clone() }
    }

    /// kube's client, for watches.
    #[must_use]
    pub fn client(&self) -> &kube::Client {
        &self.client
    }
    /// Whether this process may write.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
    /// Calls made so far, watches included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
    /// What the API server's clock showed when it last answered, and when that was here.
    #[must_use]
    pub fn told(&self) -> Option<(Timestamp, Instant)> {
        *self.shared.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The breaker.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.shared.breaker
    }
    /// Counts a call that was made past [`Caller::call`].
    pub fn count(&self) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get<T: DeserializeOwned>(&self, uri: &str) -> Result<T, CallError> {
        self.call(Method::GET, uri, None::<(&str, &Value)>).await
    }
    /// Reads a list of objects without what is in them: names, labels, annotations.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn list_metadata<T: DeserializeOwned>(&self, uri: &str) -> Result<T, CallError> {
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        self.call_as(Method::GET, uri, None::<(&str, &Value)>, accept).await
    }
    /// Makes an object.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn create<T: DeserializeOwned>(
        &self,
        uri: &str,
        object: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Method::POST, uri, Some(("application/json", object))).await
    }
    /// Replaces an object; with `metadata.resourceVersion` in it a compare-and-swap.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn replace<T: DeserializeOwned>(
        &self,
        uri: &str,
        object: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Method::PUT, uri, Some(("application/json", object))).await
    }
    /// Changes an object.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn patch<T: DeserializeOwned>(
        &self,
        uri: &str,
        patch: Patch,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        let (kind, force) = match patch {
            Patch::Apply { force } => ("application/apply-patch+yaml", Some(force)),
            Patch::Merge => ("application/merge-patch+json", None),
            Patch::Strategic => ("application/strategic-merge-patch+json", None),
            Patch::Json => ("application/json-patch+json", None),
        };
        let force = force.map_or(String::new(), |force| format!("&force={force}"));
        let uri = query(uri, &format!("fieldManager={}{force}", drydock_api::names::MANAGER));
        self.call(Method::PATCH, &uri, Some((kind, body))).await
    }
    /// Deletes an object.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn delete(&self, uri: &str, options: &impl Serialize) -> Result<(), CallError> {
        self.call::<Value>(Method::DELETE, uri, Some(("application/json", options))).await.map(drop)
    }

    /// One call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        uri: &str,
        body: Option<(&str, &impl Serialize)>,
    ) -> Result<T, CallError> {
        self.call_as(method, uri, body, "application/json").await
    }

    async fn call_as<T: DeserializeOwned>(
        &self,
        method: Method,
        uri: &str,
        body: Option<(&str, &impl Serialize)>,
        accept: &str,
    ) -> Result<T, CallError> {
        if method != Method::GET && !self.gate.is_open() {
            return Err(CallError::NotLeading);
        }
        self.shared.breaker.admit()?;
        let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, accept);
        let mut bytes = Vec::new();
        if let Some((kind, body)) = body {
            request = request.header(header::CONTENT_TYPE, kind);
            bytes = serde_json::to_vec(body).map_err(|error| CallError::Malformed(error.to_string()))?;
        }
        let request =
            request.body(Body::from(bytes)).map_err(|error| CallError::Malformed(error.to_string()))?;
        self.count();
        let answer = tokio::time::timeout(CALL_DEADLINE, self.exchange(request)).await;
        let answer = answer.unwrap_or(Err(CallError::Timeout(CALL_DEADLINE)));
        self.shared.breaker.note(answer.as_ref().err());
        let bytes = answer?;
        serde_json::from_slice(&bytes).map_err(|error| CallError::Malformed(format!("{uri}: {error}")))
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Vec<u8>, CallError> {
        let answer = self.client.send(request).await.map_err(|error| CallError::of_kube(&error))?;
        let (parts, body) = answer.into_parts();
        if let Some(told) = parts.headers.get(header::DATE).and_then(|v| date(v.to_str().ok()?)) {
            *self.shared.told.lock().unwrap_or_else(PoisonError::into_inner) = Some((told, Instant::now()));
        }
        let after = parts.headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let bytes = read_bounded(body).await?;
        if parts.status.is_success() {
            return Ok(bytes);
        }
        Err(CallError::Refused(Refusal::read(parts.status, after, &bytes)))
    }
}

/// The date of an answer (RFC 9110, 5.6.7): `Mon, 30 Nov 2026 15:38:23 GMT`.
fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

async fn read_bounded(mut body: Body) -> Result<Vec<u8>, CallError> {
    use http_body_util::BodyExt as _;
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallError::Transport(error.to_string()))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > ANSWER_MAX {
                return Err(CallError::Malformed(format!("an answer of more than {ANSWER_MAX} bytes")));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

/// Whether an API server's "no" means that the thing isn't there.
#[must_use]
pub fn absent(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND)
}

/// rustls wants one provider chosen for the process before the first connection.
fn provider() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // Somebody else may have chosen already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_read() {
        let told = date("Mon, 30 Nov 2026 15:38:23 GMT");
        assert_eq!(told, Some(Timestamp::constant(1_796_053_103, 0)));
        assert_eq!(date("soon"), None);
    }
}
