//! A running drydock by its API, or what lies in its folder when none runs: the same answers either way.

pub(crate) mod answers;
mod find;
mod http;
mod offline;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use find::Target;

use crate::exit::{Exit, Failure, Result};
use http::Http;
use offline::Folder;

/// Where answers come from.
pub(crate) enum Reader {
    /// A running drydock.
    Running(Http),
    /// A folder in which none runs.
    Folder(Box<Folder>),
}

impl Reader {
    /// The answer to `GET /api/v1{path}`.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        match self {
            Self::Running(http) => http.get(path),
            Self::Folder(folder) => folder.get(path),
        }
    }
    /// Sends what a person says.
    pub(crate) fn command(&self, body: &Value) -> Result<Value> {
        match self {
            Self::Running(http) => http.post("/commands", body),
            Self::Folder(folder) => {
                let message =
                    format!("no drydock runs in {}, so nobody would hear it", folder.path().display());
                Err(Failure::new(Exit::Unreachable, message)
                    .hint(format!("start one: drydock demo --dir {}", folder.path().display())))
            }
        }
    }
    /// A line that says how current the answers are; absent for a running one.
    pub(crate) fn caveat(&self) -> Option<String> {
        match self {
            Self::Running(_) => None,
            Self::Folder(folder) => Some(format!(
                "no drydock runs in {}: this is what was true when the last one stopped",
                folder.path().display()
            )),
        }
    }
}

/// An answer as a type.
pub(crate) fn parse<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| {
        Failure::new(Exit::Internal, format!("the answer can't be understood: {error}"))
            .hint("the running drydock may be of another version")
    })
}
