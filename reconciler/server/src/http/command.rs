//! What people say: each becomes a numbered command in the ledger, with who and why; the next pass takes it into account.

use axum::Json;
use axum::extract::{State, rejection::JsonRejection};
use axum::http::StatusCode;
use drydock_plan::{Command, LedgerChange, NodeId, RolloutId};
use drydock_spec::{GatePoint, PoolName, TeamName, WaveName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Present};
use super::{Api, ApiError};
use crate::engine::events;
use crate::store::StoreError;

/// Longest reason, in bytes. It stands in the ledger and on every screen.
const REASON_MAX: usize = 500;
/// Longest name of a person, in bytes.
const BY_MAX: usize = 100;
/// Lost races in a row before the caller is asked to try again.
const RACES: usize = 10;

/// `POST /api/v1/commands`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct CommandRequest {
    /// Who says so.
    pub by: String,
    /// Why, for the history.
    pub reason: String,
    /// What.
    #[serde(flatten)]
    pub action: CommandAction,
}

/// What can be said; `action` is its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum CommandAction {
    /// The rollout admits nothing more.
    Pause {
        /// The rollout.
        rollout: RolloutId,
    },
    /// It goes on.
    Resume {
        /// The rollout.
        rollout: RolloutId,
    },
    /// It ends: nodes that haven't begun to apply are returned, the others finish.
    Abort {
        /// The rollout.
        rollout: RolloutId,
    },
    /// A team agrees to a wave.
    Approve {
        /// The rollout.
        rollout: RolloutId,
        /// The wave.
        wave: WaveName,
        /// Before it starts or after it has soaked.
        #[serde(default)]
        gate: GatePoint,
        /// The team that agrees.
        team: TeamName,
    },
    /// Something that was quarantined is tried again.
    Retry {
        /// A release (`r-…`) or a node (`cluster/node`).
        what: String,
        /// A release on this pool only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolName>,
    },
    /// A node is left out.
    Skip {
        /// The node.
        node: NodeId,
    },
}

/// Answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandAnswer {
    /// Its number in the ledger.
    pub number: u64,
    /// Revision of the ledger that holds it.
    pub revision: u64,
    /// What comes of it, in a sentence.
    #[serde(default)]
    pub note: String,
}

pub(super) async fn command(
    State(api): State<Api>,
    request: Result<Json<CommandRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<CommandAnswer>), ApiError> {
    let Json(request) = request?;
    let name = |what: &str, text: &str, most: usize| {
        if text.trim().is_empty() {
            Err(ApiError::bad(
                format!("`{what}` is empty"),
                "say who you are and why; it is kept in the history",
            ))
        } else if text.len() > most {
            Err(ApiError::bad(format!("`{what}` has {} bytes", text.len()), format!("use at most {most}")))
        } else {
            Ok(())
        }
    };
    name("by", &request.by, BY_MAX)?;
    name("reason", &request.reason, REASON_MAX)?;
    let answer = {
        let api = api.clone();
        // Committing waits for the disk.
        let task = tokio::task::spawn_blocking(move || append(&api, &request));
        task.await.map_err(|error| ApiError::unavailable(error.to_string(), "try again"))??
    };
    api.wake();
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

fn append(api: &Api, request: &CommandRequest) -> Result<CommandAnswer, ApiError> {
    for _ in 0..RACES {
        let ledger = api.store().ledger();
        let snapshot = api.snapshot();
        let present = Present { ledger: &ledger, facts: snapshot.facts.as_deref(), by: &request.by };
        let Meaning { what, note } = present.meaning(&request.action)?;
        let number = ledger.commands.last_key_value().map_or(1, |(last, _)| last.saturating_add(1));
        let at = api.now();
        let (by, reason) = (request.by.trim().to_owned(), request.reason.trim().to_owned());
        let change = LedgerChange::Command(number, Command { at, by, reason, what, done: false });
        let changes = [change];
        match api.store().commit(ledger.revision, &changes, &events(&ledger, &changes, at)) {
            Ok(revision) => return Ok(CommandAnswer { number, revision, note }),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::unavailable("the ledger changes too quickly just now", "try again"))
}
