//! The objects of one cluster's nodes: what was written, and what is worth writing now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drydock_api::crd::{GpuNode, GpuNodeSpec, GpuNodeStatus};
use drydock_api::names;
use drydock_plan::{NodeId, NodeRecord, ObservedNode};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::purse::Purse;
use super::{Facts, Shared, node};
use crate::client::{CallError, Caller, Kind, Patch};

/// The least time between two writes of one object that can wait.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// What can wait long: changes of a node that isn't in flight.
const SETTLED_EVERY: Duration = Duration::from_secs(5 * 60);

/// Writes between two looks at newer facts.
const WRITES_AT_ONCE: usize = 20;

/// An object as it was written or found.
#[derive(Debug, Clone)]
pub(super) struct Written {
    /// Without the record and the revision.
    pub(super) intent: GpuNodeSpec,
    pub(super) revision: i64,
    pub(super) status: GpuNodeStatus,
    uid: String,
    pub(super) at: Instant,
}

impl Written {
    fn of(object: GpuNode, at: Instant) -> Option<(String, Self)> {
        let name = object.metadata.name?;
        let (revision, mut intent) = (object.spec.ledger_revision, object.spec);
        (intent.record, intent.ledger_revision) = (Map::new(), 0);
        let written = Self {
            intent,
            revision,
            status: object.status.unwrap_or_default(),
            uid: object.metadata.uid.unwrap_or_default(),
            at,
        };
        Some((name, written))
    }
}

/// What is worth writing of an object now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Nothing,
    Intent,
    Status,
    Both,
}

impl Worth {
    const fn requests(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Intent | Self::Status => 1,
            Self::Both => 2,
        }
    }
}

/// Decides it. A begin goes out as intent only: its `metadata.generation` is then ahead of what the status has seen,
/// which says that work is under way.
pub(super) fn worth(
    written: Option<&Written>,
    intent: &GpuNodeSpec,
    status: impl FnOnce() -> GpuNodeStatus,
    now: Instant,
    purse: &mut Purse,
) -> Worth {
    let Some(written) = written else {
        return if intent.reservation.is_some() { Worth::Intent } else { Worth::Both };
    };
    let old = &written.intent;
    let quarantine = old.quarantine.is_some() != intent.quarantine.is_some();
    let waited = now.duration_since(written.at);
    match (&old.reservation, &intent.reservation) {
        (Some(_), None) => Worth::Both,
        _ if quarantine => Worth::Both,
        (None, Some(_)) => Worth::Intent,
        (Some(before), Some(held)) if before.epoch != held.epoch => Worth::Intent,
        (Some(before), Some(held)) => {
            // The point of no return is worth more than any other step.
            let needs = if held.step == "apply" { 1 } else { 2 };
            let goes_on = before.step != held.step && waited >= WRITE_EVERY;
            if goes_on && purse.spare(now) >= needs { Worth::Intent } else { Worth::Nothing }
        }
        (None, None) if waited < SETTLED_EVERY => Worth::Nothing,
        (None, None) if (&old.pool, &old.target) != (&intent.pool, &intent.target) => Worth::Both,
        (None, None) => {
            let plain = |status: &GpuNodeStatus| GpuNodeStatus {
                observed_generation: 0,
                conditions: Vec::new(),
                ..status.clone()
            };
            let new = status();
            let words = |status: &GpuNodeStatus| -> Vec<_> {
                status.conditions.iter().map(|c| (c.kind.clone(), c.status, c.reason.clone())).collect()
            };
            let same = plain(&new) == plain(&written.status) && words(&new) == words(&written.status);
            if same { Worth::Nothing } else { Worth::Status }
        }
    }
}

/// Nodes of one cluster.
#[derive(Debug)]
pub(super) struct NodeDesk {
    cluster: String,
    /// Absent until the objects that are there were read.
    written: Option<BTreeMap<String, Written>>,
    /// Nodes whose record was there in this process.
    known: BTreeSet<NodeId>,
    /// Epochs of open visits, for the purse.
    visits: BTreeMap<String, u64>,
}

impl NodeDesk {
    pub(super) fn new(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), written: None, known: BTreeSet::new(), visits: BTreeMap::new() }
    }

    /// Writes what is worth it; whether there is more comes back.
    pub(super) async fn publish(
        &mut self,
        shared: &Shared,
        caller: &Caller,
        facts: &Facts,
    ) -> Result<bool, CallError> {
        if self.written.is_none() {
            let found: Vec<GpuNode> = caller.list(&Kind::GPU_NODE.all(None)).await?;
            let now = Instant::now();
            self.written = Some(found.into_iter().filter_map(|object| Written::of(object, now)).collect());
        }
        let mut writes = 0;
        let prefix = format!("{}/", self.cluster);
        let records = facts.ledger.nodes.range(NodeId::new(&prefix)..);
        for (id, record) in records.take_while(|(id, _)| id.as_str().starts_with(&prefix)) {
            let observed = facts.inventory.nodes.get(id);
            self.count_visit(shared, id, record);
            self.known.insert(id.clone());
            let before = self.written.as_ref().and_then(|all| all.get(id.node()));
            if before.is_none() && !node::is_worth_it(record) {
                continue;
            }
            let intent = node::intent(id, record, observed);
            let conditions = before.map(|b| b.status.conditions.clone()).unwrap_or_default();
            let status = || node::status(record, observed, &conditions, facts.now);
            let worth = worth(before, &intent, status, Instant::now(), &mut shared.purse());
            if worth == Worth::Nothing {
                continue;
            }
            if writes == WRITES_AT_ONCE {
                return Ok(true);
            }
            writes += 1;
            shared.purse().spend(worth.requests());
            self.write(caller, facts, id, record, observed, worth).await?;
        }
        self.forget(caller, facts).await?;
        Ok(false)
    }

    fn count_visit(&mut self, shared: &Shared, id: &NodeId, record: &NodeRecord) {
        let open = record.visit.is_some().then_some(record.epoch.0);
        let before = self.visits.get(id.node()).copied();
        if open == before {
            return;
        }
        let mut purse = shared.purse();
        if before.is_some() {
            self.visits.remove(id.node());
            purse.end();
        }
        if let Some(epoch) = open {
            self.visits.insert(id.node().to_owned(), epoch);
            purse.begin();
        }
    }

    async fn write(
        &mut self,
        caller: &Caller,
        facts: &Facts,
        id: &NodeId,
        record: &NodeRecord,
        observed: Option<&ObservedNode>,
        worth: Worth,
    ) -> Result<(), CallError> {
        let uri = Kind::GPU_NODE.one(None, id.node());
        let apply = Patch::Apply { force: true };
        let head = |labels: bool| {
            let mut meta = json!({ "name": id.node() });
            if labels {
                meta["labels"] = json!({ (names::MANAGED_BY): names::MANAGER });
            }
            json!({ "apiVersion": Kind::GPU_NODE.version, "kind": Kind::GPU_NODE.kind, "metadata": meta })
        };
        let before = self.written.as_ref().and_then(|all| all.get(id.node())).map(|b| b.status.clone());
        let mut generation = None;
        if matches!(worth, Worth::Intent | Worth::Both) {
            let mut body = head(true);
            body["spec"] = json!(node::spec(id, record, observed, facts.ledger.revision));
            let object: GpuNode = caller.patch(&uri, apply, &body).await?;
            generation = object.metadata.generation;
            self.remember(object);
        }
        if matches!(worth, Worth::Status | Worth::Both) {
            let conditions = before.map(|status| status.conditions).unwrap_or_default();
            let mut status = node::status(record, observed, &conditions, facts.now);
            let known =
                || -> Option<i64> { Some(self.written.as_ref()?.get(id.node())?.status.observed_generation) };
            let generation = generation.or_else(known).unwrap_or(0);
            status.observed_generation = generation;
            status.conditions.iter_mut().for_each(|c| c.observed_generation = generation);
            let mut body = head(false);
            body["status"] = json!(status);
            let object: GpuNode = caller.patch(&format!("{uri}/status"), apply, &body).await?;
            self.remember(object);
        }
        Ok(())
    }

    fn remember(&mut self, object: GpuNode) {
        if let (Some((name, written)), Some(all)) = (Written::of(object, Instant::now()), &mut self.written) {
            all.insert(name, written);
        }
    }

    /// Deletes objects of nodes whose record is forgotten. A record that was never seen by this process is believed to
    /// be forgotten only when the ledger is newer than the object and the node itself is gone too: a ledger that was
    /// lost must not take with it what it could be made from.
    async fn forget(&mut self, caller: &Caller, facts: &Facts) -> Result<(), CallError> {
        let answers = |cluster: &str| {
            let mut all = facts.inventory.clusters.iter();
            all.any(|(name, seen)| name.as_str() == cluster && seen.error.is_none())
        };
        let mut gone = Vec::new();
        for (name, written) in self.written.iter().flatten() {
            let id = NodeId::new(&format!("{}/{name}", self.cluster));
            if facts.ledger.nodes.contains_key(&id) {
                continue;
            }
            let newer =
                u64::try_from(written.revision).is_ok_and(|revision| revision < facts.ledger.revision);
            let left = newer && answers(&self.cluster) && !facts.inventory.nodes.contains_key(&id);
            if self.known.contains(&id) || (left && written.intent.cluster == self.cluster) {
                gone.push((id, written.uid.clone()));
            }
        }
        for (id, uid) in gone.into_iter().take(WRITES_AT_ONCE) {
            let options: Value = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
            });
            match caller.delete(&Kind::GPU_NODE.one(None, id.node()), &options).await {
                Ok(()) => {}
                // Gone already, or another object of the same name, which isn't ours to delete.
                Err(error) if error.is_absent() || error.is_conflict() => {}
                Err(error) => return Err(error),
            }
            self.known.remove(&id);
            if let Some(all) = &mut self.written {
                all.remove(id.node());
            }
        }
        Ok(())
    }
}
