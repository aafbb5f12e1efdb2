//! Errors of the API: `{"error": …, "hint": …}` with a fitting status.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::store::StoreError;

/// What the body of an error says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorBody {
    /// What is wrong, one sentence.
    pub error: String,
    /// What to do about it.
    pub hint: String,
}

/// An error of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// Status of the answer.
    pub status: StatusCode,
    /// Its body.
    pub body: ErrorBody,
}

impl ApiError {
    /// With a status, what is wrong and what to do about it.
    pub fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, body: ErrorBody { error: error.into(), hint: hint.into() } }
    }
    /// The request can't mean anything.
    pub fn bad(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, hint)
    }
    /// There is no such thing.
    pub fn not_found(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, hint)
    }
    /// It doesn't fit the present state.
    pub fn conflict(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error, hint)
    }
    /// Not now.
    pub fn unavailable(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, hint)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // An error must not be shown again when the state has long changed.
        (self.status, [(header::CACHE_CONTROL, "no-store")], Json(self.body)).into_response()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the ledger can't be used");
        Self::unavailable("the ledger can't be used", format!("{error}; see the log of drydock"))
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "send JSON with Content-Type: application/json")
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "check the parameters after `?`")
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "check the address")
    }
}
