//! The objects of rollouts: what was written, and what is worth writing now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drydock_api::crd::{Rollout, RolloutStatus};
use drydock_api::names;
use drydock_plan::{RolloutId, RolloutRecord, RolloutReport};
use serde_json::json;
use tokio::time::Instant;

use super::purse::Purse;
use super::rollout::{differs, marks, spec, status};
use super::{Facts, Shared, Words};
use crate::client::{CallError, Kind, Patch};

/// The least time between two writes because of numbers.
const NUMBERS_EVERY: Duration = Duration::from_secs(5);
/// The least time between two writes because of reasons only: they change with every pass.
const REASONS_EVERY: Duration = Duration::from_secs(60);
/// After this long a change is written whatever else is going on.
const AT_LAST: Duration = Duration::from_secs(10 * 60);

/// An object as it was written or found.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) status: RolloutStatus,
    /// The object's `metadata.generation`.
    generation: i64,
    uid: String,
    pub(super) at: Instant,
}

impl Written {
    fn of(object: Rollout, at: Instant) -> Option<(String, Self)> {
        let generation = object.metadata.generation.unwrap_or(0);
        let (status, uid) = (object.status.unwrap_or_default(), object.metadata.uid.unwrap_or_default());
        Some((object.metadata.name?, Self { status, generation, uid, at }))
    }
}

/// Whether a status is worth a request now.
pub(super) fn worth(written: &Written, new: &RolloutStatus, now: Instant, purse: &mut Purse) -> bool {
    let old = &written.status;
    if marks(old) != marks(new) || old.ended != new.ended {
        return true;
    }
    if !differs(old, new) {
        return false;
    }
    let waited = now.duration_since(written.at);
    let numbers =
        (&old.done, old.exposed, old.failures_total) != (&new.done, new.exposed, new.failures_total);
    let patience = if numbers { NUMBERS_EVERY } else { REASONS_EVERY };
    waited >= AT_LAST || (waited >= patience && purse.spare(now) >= 1)
}

/// All rollouts.
#[derive(Debug, Default)]
pub(super) struct RolloutDesk {
    /// Absent until the objects that are there were read.
    written: Option<BTreeMap<String, Written>>,
    /// Rollouts that were in the ledger in this process.
    known: BTreeSet<RolloutId>,
}

impl RolloutDesk {
    /// Writes what is worth it.
    pub(super) async fn publish(&mut self, shared: &Shared, facts: &Facts) -> Result<(), CallError> {
        let written = match &mut self.written {
            Some(written) => written,
            None => {
                let found: Vec<Rollout> =
                    shared.home.list(&Kind::ROLLOUT.all(Some(&shared.namespace))).await?;
                let now = Instant::now();
                self.written.insert(found.into_iter().filter_map(|object| Written::of(object, now)).collect())
            }
        };
        for (id, record) in &facts.ledger.rollouts {
            let before = written.get(id.as_str());
            let over = |before: &Written| {
                before.status.state == record.state.word() && before.status.ended == record.ended
            };
            if record.state.is_final() && before.is_some_and(over) {
                continue;
            }
            let report = facts.report.rollouts.iter().find(|report| report.id == *id);
            let reasons = reasons(report, &shared.words);
            let new = status(record, &facts.ledger, &reasons, before.map(|b| &b.status), facts.now);
            let requests = match before {
                None => 2,
                Some(before) if worth(before, &new, Instant::now(), &mut shared.purse()) => 1,
                Some(_) => continue,
            };
            shared.purse().spend(requests);
            if let Some((name, now)) = write(shared, record, new, before).await? {
                written.insert(name, now);
            }
        }
        self.forget(shared, facts).await
    }

    /// Deletes objects of rollouts that the ledger has forgotten. What this process has never seen in the ledger stays:
    /// a ledger that was lost must not take with it what it could be made from.
    async fn forget(&mut self, shared: &Shared, facts: &Facts) -> Result<(), CallError> {
        let gone: Vec<RolloutId> =
            self.known.iter().filter(|id| !facts.ledger.rollouts.contains_key(*id)).cloned().collect();
        self.known.extend(facts.ledger.rollouts.keys().cloned());
        for id in gone {
            let uid = self.written.as_ref().and_then(|all| all.get(id.as_str())).map(|one| one.uid.clone());
            if let Some(uid) = uid {
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
                });
                let uri = Kind::ROLLOUT.one(Some(&shared.namespace), id.as_str());
                match shared.home.delete(&uri, &options).await {
                    Ok(()) => {}
                    // Gone already, or another object of the same name, which isn't ours to delete.
                    Err(error) if error.is_absent() || error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
            self.known.remove(&id);
            if let Some(all) = &mut self.written {
                all.remove(id.as_str());
            }
        }
        Ok(())
    }
}

async fn write(
    shared: &Shared,
    record: &RolloutRecord,
    mut new: RolloutStatus,
    before: Option<&Written>,
) -> Result<Option<(String, Written)>, CallError> {
    let uri = Kind::ROLLOUT.one(Some(&shared.namespace), record.id.as_str());
    let apply = Patch::Apply { force: true };
    let (version, kind) = (Kind::ROLLOUT.version, Kind::ROLLOUT.kind);
    let generation = match before {
        Some(before) => before.generation,
        None => {
            let body = json!({
                "apiVersion": version, "kind": kind,
                "metadata": {
                    "name": record.id.as_str(),
                    "namespace": shared.namespace,
                    "labels": { (names::MANAGED_BY): names::MANAGER },
                },
                "spec": spec(record),
            });
            let object: Rollout = shared.home.patch(&uri, apply, &body).await?;
            object.metadata.generation.unwrap_or(0)
        }
    };
    new.observed_generation = generation;
    new.conditions.iter_mut().for_each(|condition| condition.observed_generation = generation);
    let body = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": record.id.as_str(), "namespace": shared.namespace },
        "status": new,
    });
    let object: Rollout = shared.home.patch(&format!("{uri}/status"), apply, &body).await?;
    Ok(Written::of(object, Instant::now()))
}

/// Reasons as sentences: what holds the whole rollout first, then what holds most nodes.
fn reasons(report: Option<&RolloutReport>, words: &Words) -> Vec<String> {
    let Some(report) = report else { return Vec::new() };
    let mut waits: Vec<_> = report.waves.iter().flat_map(|wave| &wave.waits).collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.nodes));
    let of_all = report.waits.iter().map(|reason| words(reason));
    of_all.chain(waits.into_iter().map(|wait| words(&wait.reason))).collect()
}
