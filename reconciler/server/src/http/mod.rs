//! The HTTP API. It reads the published state and appends commands to the ledger; it decides nothing.
//!
//! | | |
//! |---|---|
//! | `GET /healthz`, `/readyz` | alive; a fleet is in force |
//! | `GET /metrics` | Prometheus text |
//! | `GET /api/v1/fleet` | [`FleetAnswer`] |
//! | `GET /api/v1/clusters` | [`List`] of [`ClusterView`](crate::view::ClusterView) |
//! | `GET /api/v1/pools?cluster=` | [`List`] of [`PoolView`](crate::view::PoolView) |
//! | `GET /api/v1/nodes?pool=&cluster=&rollout=&state=&limit=&after=` | [`List`] of [`NodeRow`](crate::view::NodeRow) |
//! | `GET /api/v1/nodes/{cluster}/{node}` | [`NodeAnswer`] |
//! | `GET /api/v1/rollouts` | [`List`] of [`RolloutRow`](crate::view::RolloutRow), open ones first |
//! | `GET /api/v1/rollouts/{id}` | [`RolloutDetail`](crate::view::RolloutDetail) |
//! | `GET /api/v1/plan-report` | [`ReportAnswer`] |
//! | `GET /api/v1/history?before=&limit=` | [`List`] of [`Event`](crate::store::Event), newest first |
//! | `GET /api/v1/events?after=` | server-sent events |
//! | `POST /api/v1/commands` | [`CommandRequest`] → [`CommandAnswer`] |
//! | `POST /api/v1/source/refresh` | look at the repository now |
//! | `POST /api/v1/source/approve` | [`ApproveCommit`]: a commit that is held comes into force |
//!
//! Errors are [`ErrorBody`].

mod command;
mod error;
mod guard;
mod live;
mod meaning;
mod pages;
mod read;

use std::future::Future;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State, rejection::JsonRejection};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use drydock_source::SourceHandle;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use command::{CommandAction, CommandAnswer, CommandRequest};
pub use error::{ApiError, ErrorBody};
pub use guard::Hosts;
pub use pages::{Page, Pages};
pub use read::{FleetAnswer, List, NodeAnswer, PAGE, PAGE_MAX, ReportAnswer};

use crate::engine::{EngineHandle, Stats};
use crate::store::LedgerStore;
use crate::token::Token;
use crate::view::Snapshot;

/// The longest body of a request, in bytes: a command with a long reason.
const BODY_MAX: usize = 16 * 1024;

/// Clients that may listen for events at once: a team's browsers.
const CLIENTS_MAX: usize = 64;

/// What the API is made of.
pub struct ApiParts {
    /// The engine.
    pub engine: EngineHandle,
    /// The ledger.
    pub store: Arc<dyn LedgerStore>,
    /// The source, where there is one.
    pub source: Option<SourceHandle>,
    /// What a caller has to know to change anything.
    pub token: Token,
    /// Names under which it answers.
    pub hosts: Hosts,
    /// The dashboard.
    pub pages: Option<Pages>,
}

/// The API; clones share it.
#[derive(Clone)]
pub struct Api {
    parts: Arc<ApiParts>,
    clients: Arc<Semaphore>,
}

/// `POST /api/v1/source/approve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveCommit {
    /// The full id of the held commit.
    pub commit: String,
}

impl Api {
    /// From its parts.
    #[must_use]
    pub fn new(parts: ApiParts) -> Self {
        Self { parts: Arc::new(parts), clients: Arc::new(Semaphore::new(CLIENTS_MAX)) }
    }

    /// All routes.
    pub fn router(&self) -> Router {
        let v1 = Router::new()
            .route("/fleet", get(read::fleet))
            .route("/clusters", get(read::clusters))
            .route("/pools", get(read::pools))
            .route("/nodes", get(read::nodes))
            .route("/nodes/{cluster}/{node}", get(read::node))
            .route("/rollouts", get(read::rollouts))
            .route("/rollouts/{id}", get(read::rollout))
            .route("/plan-report", get(read::plan_report))
            .route("/history", get(read::history))
            .route("/events", get(live::live))
            .route("/commands", post(command::command))
            .route("/source/refresh", post(refresh))
            .route("/source/approve", post(approve));
        Router::new()
            .route("/healthz", get(read::healthz))
            .route("/readyz", get(read::readyz))
            .route("/metrics", get(read::metrics))
            .nest("/api/v1", v1)
            .fallback(pages::page)
            .method_not_allowed_fallback(wrong_method)
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .layer(middleware::from_fn_with_state(self.clone(), guard::guard))
            .with_state(self.clone())
    }

    /// Answers on `listener` until `shutdown` is done.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(shutdown).await
    }

    fn hosts(&self) -> &Hosts {
        &self.parts.hosts
    }
    fn token(&self) -> &Token {
        &self.parts.token
    }
    fn store(&self) -> &Arc<dyn LedgerStore> {
        &self.parts.store
    }
    fn stats(&self) -> &Stats {
        self.parts.engine.stats()
    }
    fn pages(&self) -> Option<&Pages> {
        self.parts.pages.as_ref()
    }
    fn wake(&self) {
        self.parts.engine.wake();
    }
    fn now(&self) -> Timestamp {
        self.parts.engine.clock().now()
    }
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.parts.engine.snapshot().borrow())
    }
    fn published(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.parts.engine.snapshot()
    }
    async fn stopping(&self) {
        self.parts.engine.stopping().await;
    }
    fn place_for_client(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.clients).try_acquire_owned().ok()
    }
    fn source(&self) -> Result<&SourceHandle, ApiError> {
        let missing = || ApiError::conflict("this server has no repository of its own", "start it with one");
        self.parts.source.as_ref().ok_or_else(missing)
    }
}

async fn refresh(State(api): State<Api>) -> Result<StatusCode, ApiError> {
    api.source()?.wake();
    Ok(StatusCode::ACCEPTED)
}

async fn approve(
    State(api): State<Api>,
    request: Result<Json<ApproveCommit>, JsonRejection>,
) -> Result<StatusCode, ApiError> {
    let Json(ApproveCommit { commit }) = request?;
    if commit.len() != 40 || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ApiError::bad("that is no full commit id", "write all 40 hexadecimal digits"));
    }
    api.source()?.approve(&commit.to_ascii_lowercase());
    Ok(StatusCode::ACCEPTED)
}

async fn wrong_method() -> ApiError {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(status, "this address isn't used with that method", "reading is GET, changing is POST")
}
