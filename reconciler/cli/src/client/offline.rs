//! A folder in which no drydock runs, read as the API would answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drydock_plan::{NodeId, RolloutId};
use drydock_server::embedded::{EmbeddedError, Offline};
use drydock_server::http::{FleetAnswer, List, NodeAnswer};
use drydock_server::view::Facts;
use serde::Serialize;
use serde_json::Value;

use crate::exit::{Exit, Failure, Result};

/// The folder.
pub(crate) struct Folder {
    path: PathBuf,
    offline: Offline,
}

/// Events on a page unless asked otherwise.
const PAGE: usize = 100;

impl Folder {
    /// Opens it; `None` when there is nothing of drydock in it.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        match Offline::open(path) {
            Ok(offline) => Ok(offline.map(|offline| Self { path: path.to_owned(), offline })),
            Err(error @ EmbeddedError::Lock(_)) => Err(Failure::new(Exit::Unreachable, error.to_string())
                .hint("it doesn't serve its API, so it can't be asked while it runs")),
            Err(error) => Err(Failure::new(Exit::Internal, error.to_string())),
        }
    }
    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
    /// The answer to `GET /api/v1{path}`.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["fleet"] => self.fleet(),
            ["clusters"] => self.list(|facts| facts.overview().clusters.clone()),
            ["pools"] => self.list(|facts| facts.overview().pools.clone()),
            ["rollouts"] => self.list(Facts::rollout_rows),
            ["nodes"] => {
                self.list(|facts| facts.node_ids().filter_map(|id| facts.node_row(id)).collect::<Vec<_>>())
            }
            ["nodes", cluster, node] => self.node(&NodeId::new(&format!("{cluster}/{node}"))),
            ["rollouts", id] => self.rollout(&RolloutId::new(id)),
            ["history"] => self.history(query),
            _ => Err(Failure::new(Exit::Internal, format!("no answer for {path}"))),
        }
    }

    fn facts(&self) -> Result<&Arc<Facts>> {
        self.offline.snapshot.facts.as_ref().ok_or_else(|| {
            Failure::new(Exit::Unreachable, format!("no fleet was ever in force in {}", self.path.display()))
                .hint("its first commit was never read; start it again")
        })
    }

    fn list<T: Serialize>(&self, items: impl FnOnce(&Facts) -> Vec<T>) -> Result<Value> {
        let facts = self.facts()?;
        json(&List { at: facts.now, items: items(facts), next: None })
    }

    fn fleet(&self) -> Result<Value> {
        let snapshot = &self.offline.snapshot;
        let facts = snapshot.facts.as_deref();
        json(&FleetAnswer {
            number: snapshot.number,
            clock: snapshot.clock,
            source: snapshot.source.clone(),
            fleet: facts.map(|facts| facts.overview().fleet.clone()),
            warnings: facts.map(|facts| facts.warnings.to_vec()).unwrap_or_default(),
            trouble: snapshot.trouble.clone(),
            violations: facts.map(|facts| facts.report.violations.clone()).unwrap_or_default(),
        })
    }

    fn node(&self, id: &NodeId) -> Result<Value> {
        let facts = self.facts()?;
        let node = facts.node_detail(id).ok_or_else(|| Failure::missing(format!("there is no node {id}")))?;
        json(&NodeAnswer { at: facts.now, node, why: facts.why(id) })
    }

    fn rollout(&self, id: &RolloutId) -> Result<Value> {
        let detail = self.facts()?.rollout_detail(id);
        json(&detail.ok_or_else(|| Failure::missing(format!("there is no rollout {id}")))?)
    }

    fn history(&self, query: &str) -> Result<Value> {
        let number = |key: &str| {
            query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
        };
        let before = number("before").unwrap_or(u64::MAX);
        let limit = number("limit").and_then(|n| usize::try_from(n).ok()).unwrap_or(PAGE);
        let items = self.offline.store.events_before(before, limit);
        let items = items.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        json(&List { at: self.offline.snapshot.clock.at, items, next: None })
    }
}

fn json<T: Serialize>(value: &T) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Failure::new(Exit::Internal, error.to_string()))
}
