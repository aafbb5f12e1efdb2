//! The API of a running drydock.

use std::time::Duration;

use serde_json::Value;
use ureq::{Agent, Body, http::Response};

use crate::exit::{Exit, Failure, Result};

/// A person waits; an answer that takes longer isn't coming.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer: a page of 500 nodes has some 300 KiB.
const ANSWER_MAX: u64 = 16 << 20;

/// A running drydock.
pub(crate) struct Http {
    base: String,
    token: Option<String>,
    agent: Agent,
}

impl Http {
    /// At an address, with or without `http://`.
    pub(crate) fn new(address: &str, token: Option<String>) -> Self {
        let address = address.trim_end_matches('/');
        let base = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            // What the server says about an error is in its answer.
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Self { base, token, agent: config.into() }
    }
    /// It answers.
    pub(crate) fn is_alive(&self) -> bool {
        self.agent
            .get(format!("{}/healthz", self.base))
            .call()
            .is_ok_and(|answer| answer.status().is_success())
    }
    /// `GET /api/v1{path}`.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        let mut request = self.agent.get(format!("{}/api/v1{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        self.answer(request.call())
    }
    /// `POST /api/v1{path}`.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let mut request = self.agent.post(format!("{}/api/v1{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        self.answer(request.send_json(body))
    }

    fn answer(&self, result: std::result::Result<Response<Body>, ureq::Error>) -> Result<Value> {
        let mut response = result.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("{} doesn't answer: {error}", self.base))
                .hint("is it running? `drydock demo` starts one")
        })?;
        let status = response.status();
        let text =
            response.body_mut().with_config().limit(ANSWER_MAX).read_to_string().map_err(|error| {
                Failure::new(Exit::Unreachable, format!("{} broke off: {error}", self.base))
            })?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            return Ok(value);
        }
        let said = |key: &str| value.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let exit = match status.as_u16() {
            401 | 403 | 409 => Exit::Denied,
            400 | 404 | 422 => Exit::NoInput,
            503 => Exit::Unreachable,
            _ => Exit::Internal,
        };
        let message = said("error").unwrap_or_else(|| format!("{} answered {status}", self.base));
        let hint = match status.as_u16() {
            401 => Some(
                "give the token with --token or DRYDOCK_TOKEN; it lies in the file `token` of --dir"
                    .to_owned(),
            ),
            _ => said("hint"),
        };
        let failure = Failure::new(exit, message);
        Err(match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }
}
