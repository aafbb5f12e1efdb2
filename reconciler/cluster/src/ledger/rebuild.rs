//! Making the ledger again from the objects that were published from it, when its head is gone.
//!
//! They lag behind the ledger by seconds to minutes and don't hold everything: commands of people (pauses, approvals)
//! are lost and have to be given again. So this is said loudly, and it is done only when there is no head at all.

use std::str::FromStr;
use std::sync::Arc;

use drydock_api::crd::{GpuNode, Rollout};
use drydock_plan::{Ledger, NodeId, NodeRecord, ReleaseQuarantine, RolloutId, RolloutRecord};
use drydock_spec::{PoolName, ReleaseId};
use serde_json::{Map, Value};

use super::LedgerError;
use crate::client::{CallError, Caller, Kind};

/// Added to every generation and epoch of a ledger that went back: nodes may have seen later ones than it knows, and
/// refuse older ones. Nothing counts a thousand intents of one node within what a backup or an object lags behind.
const STRIDE: u64 = 1000;

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// The ledger.
    pub ledger: Ledger,
    /// What couldn't be kept, one sentence each, at most `NOTES_MAX`.
    pub notes: Vec<String>,
}

/// Notes kept.
const NOTES_MAX: usize = 100;

/// Reads every published object: rollouts in the home cluster, nodes in all of them.
///
/// # Errors
/// When one cluster can't be read: a ledger made from a part would forget the rest.
pub async fn gather(
    home: &Caller,
    namespace: &str,
    others: &[Caller],
) -> Result<(Vec<GpuNode>, Vec<Rollout>), LedgerError> {
    let rollouts = none_if_absent(home.list(&Kind::ROLLOUT.all(Some(namespace))).await)?;
    let mut nodes = none_if_absent(home.list(&Kind::GPU_NODE.all(None)).await)?;
    for other in others {
        nodes.extend(none_if_absent(other.list::<GpuNode>(&Kind::GPU_NODE.all(None)).await)?);
    }
    Ok((nodes, rollouts))
}

/// Without the definition there are no objects.
fn none_if_absent<T>(list: Result<Vec<T>, CallError>) -> Result<Vec<T>, LedgerError> {
    match list {
        Ok(items) => Ok(items),
        Err(error) if error.is_absent() => Ok(Vec::new()),
        Err(error) => Err(LedgerError::Call { doing: "looking for published records", error }),
    }
}

/// Makes the ledger again; `None` when no object carries a record.
///
/// # Errors
/// When a record can't be read: the object is named, and a person decides whether it can go.
pub fn rebuild(nodes: &[GpuNode], rollouts: &[Rollout]) -> Result<Option<Rebuilt>, LedgerError> {
    let mut made = Rebuilt { ledger: Ledger::default(), notes: Vec::new() };
    let mut found = false;
    for rollout in rollouts.iter().filter(|rollout| !rollout.spec.record.is_empty()) {
        found = true;
        take_rollout(&mut made, rollout)?;
    }
    for node in nodes.iter().filter(|node| !node.spec.record.is_empty()) {
        found = true;
        take_node(&mut made, node)?;
    }
    if !found {
        return Ok(None);
    }
    let Rebuilt { ledger, notes } = &mut made;
    let open = |rollouts: &std::collections::BTreeMap<RolloutId, Arc<RolloutRecord>>, id: &RolloutId| {
        rollouts.get(id).is_some_and(|record| !record.state.is_final())
    };
    for (id, record) in &mut ledger.nodes {
        // The node's object is older than the rollout's end, or the rollout has no object: nothing would ever move it.
        if record.assignment.as_ref().is_some_and(|part| !open(&ledger.rollouts, &part.rollout)) {
            record.assignment = None;
        }
        if let Some(visit) = record.visit.take_if(|visit| !open(&ledger.rollouts, &visit.rollout)) {
            notes.push(format!(
                "{id} was reserved by {}, which isn't open any more; it is given back",
                visit.rollout
            ));
        }
    }
    ledger.revision = ledger.revision.saturating_add(1);
    stride(ledger);
    notes.truncate(NOTES_MAX);
    Ok(Some(made))
}

/// Lifts generations and epochs above everything that nodes may have seen before the ledger went back.
pub fn stride(ledger: &mut Ledger) {
    for record in ledger.nodes.values_mut() {
        record.generation.0 = record.generation.0.saturating_add(STRIDE);
        record.epoch.0 = record.epoch.0.saturating_add(STRIDE);
    }
}

fn take_node(made: &mut Rebuilt, node: &GpuNode) -> Result<(), LedgerError> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let record: NodeRecord = parse(&node.spec.record, || format!("gpunode/{name}"))?;
    noted(made, node.spec.ledger_revision);
    made.ledger.nodes.insert(NodeId::new(&format!("{}/{name}", node.spec.cluster)), record);
    Ok(())
}

fn take_rollout(made: &mut Rebuilt, rollout: &Rollout) -> Result<(), LedgerError> {
    let name = rollout.metadata.name.as_deref().unwrap_or_default();
    let what = || format!("rollout/{name}");
    let Some(status) = rollout.status.as_ref().filter(|status| !status.record.is_empty()) else {
        made.notes.push(format!("the rollout {name} has no state yet; it begins anew"));
        return Ok(());
    };
    noted(made, status.ledger_revision);
    let mut whole = rollout.spec.record.clone();
    whole.extend(status.record.clone());
    let record: RolloutRecord = parse(&whole, what)?;
    for quarantined in &status.quarantined {
        let damaged = |error: String| LedgerError::damaged(what(), error);
        let pool = PoolName::from_str(&quarantined.pool).map_err(|error| damaged(error.to_string()))?;
        let release =
            ReleaseId::from_str(&quarantined.release).map_err(|error| damaged(error.to_string()))?;
        let why = ReleaseQuarantine {
            rollout: record.id.clone(),
            since: quarantined.since,
            why: quarantined.why.clone(),
        };
        made.ledger.quarantines.insert((pool, release), why);
    }
    for (id, vector) in &status.releases {
        let id = ReleaseId::from_str(id).map_err(|error| LedgerError::damaged(what(), error))?;
        let vector = serde_json::from_value(vector.clone()).map_err(|e| LedgerError::damaged(what(), e))?;
        made.ledger.releases.insert(id, vector);
    }
    made.ledger.rollouts.insert(record.id.clone(), Arc::new(record));
    Ok(())
}

fn noted(made: &mut Rebuilt, revision: i64) {
    made.ledger.revision = made.ledger.revision.max(u64::try_from(revision).unwrap_or(0));
}

fn parse<T: serde::de::DeserializeOwned>(
    record: &Map<String, Value>,
    what: impl FnOnce() -> String,
) -> Result<T, LedgerError> {
    serde_json::from_value(Value::Object(record.clone())).map_err(|error| LedgerError::damaged(what(), error))
}
