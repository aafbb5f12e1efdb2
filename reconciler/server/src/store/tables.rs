//! The tables of the ledger's file, and reading and writing single records.

use std::ops::Bound;
use std::sync::Arc;

use drydock_plan::{Ledger, LedgerChange, NodeId, RolloutId};
use drydock_spec::{PoolName, ReleaseId};
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use serde::de::DeserializeOwned;

use super::{Event, StoreError, codec};

type Texts = TableDefinition<'static, &'static str, &'static [u8]>;
type Numbers = TableDefinition<'static, u64, &'static [u8]>;

pub(super) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
pub(super) const NODES: Texts = TableDefinition::new("nodes");
pub(super) const ROLLOUTS: Texts = TableDefinition::new("rollouts");
pub(super) const QUARANTINES: Texts = TableDefinition::new("quarantines");
pub(super) const RELEASES: Texts = TableDefinition::new("releases");
pub(super) const COMMANDS: Numbers = TableDefinition::new("commands");
pub(super) const EVENTS: Numbers = TableDefinition::new("events");
/// Files of the last good commit, by path, as they were committed.
pub(super) const DESIRED: Texts = TableDefinition::new("desired");
/// What is remembered of a ledger that is kept elsewhere.
pub(super) const ELSEWHERE: Texts = TableDefinition::new("elsewhere");

pub(super) const REVISION: &str = "revision";
pub(super) const NEXT_EVENT: &str = "nextEvent";
pub(super) const WRITTEN_FORMAT: &str = "format";
pub(super) const NEEDED_FORMAT: &str = "oldestReader";

/// Any error of the database, with what was being done.
#[derive(Debug)]
pub(super) struct Trouble(pub(super) &'static str, pub(super) redb::Error);

/// Either the database's trouble or an error that already says all.
#[derive(Debug)]
pub(super) enum Failed {
    Database(Trouble),
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// For `map_err`: names what was being done.
pub(super) fn while_<E: Into<redb::Error>>(doing: &'static str) -> impl Fn(E) -> Failed {
    move |error| Failed::Database(Trouble(doing, error.into()))
}

/// No name holds this character, so the two parts can't run together.
const BETWEEN: char = '\n';

fn quarantine_key(pool: &PoolName, release: &ReleaseId) -> String {
    format!("{pool}{BETWEEN}{release}")
}

/// Makes every table exist, so that reading never meets a missing one.
pub(super) fn create_all(txn: &WriteTransaction) -> Result<(), Failed> {
    let opening = "creating tables";
    txn.open_table(META).map_err(while_(opening))?;
    for table in [NODES, ROLLOUTS, QUARANTINES, RELEASES, DESIRED, ELSEWHERE] {
        txn.open_table(table).map_err(while_(opening))?;
    }
    for table in [COMMANDS, EVENTS] {
        txn.open_table(table).map_err(while_(opening))?;
    }
    Ok(())
}

/// Writes what [`Ledger::apply`] does in memory; a property test holds the two together.
pub(super) fn write_change(txn: &WriteTransaction, change: &LedgerChange) -> Result<(), Failed> {
    match change {
        LedgerChange::Node(id, record) => {
            put(txn, NODES, id.as_str(), &codec::encode("nodes", id.as_str(), record)?)
        }
        LedgerChange::ForgetNode(id) => remove(txn, NODES, id.as_str()),
        LedgerChange::Rollout(record) => {
            let id = record.id.as_str();
            put(txn, ROLLOUTS, id, &codec::encode("rollouts", id, record)?)
        }
        LedgerChange::ForgetRollout(id) => remove(txn, ROLLOUTS, id.as_str()),
        LedgerChange::Quarantine(pool, release, why) => {
            let key = quarantine_key(pool, release);
            put(txn, QUARANTINES, &key, &codec::encode("quarantines", &key, why)?)
        }
        LedgerChange::Release(pool, release) => remove(txn, QUARANTINES, &quarantine_key(pool, release)),
        LedgerChange::Remember(id, vector) => {
            put(txn, RELEASES, id.as_str(), &codec::encode("releases", id.as_str(), vector)?)
        }
        LedgerChange::Command(number, command) => {
            let bytes = codec::encode("commands", &number.to_string(), command)?;
            let mut table = txn.open_table(COMMANDS).map_err(while_("writing a command"))?;
            table.insert(number, bytes.as_slice()).map_err(while_("writing a command"))?;
            Ok(())
        }
        LedgerChange::ForgetCommand(number) => {
            let mut table = txn.open_table(COMMANDS).map_err(while_("removing a command"))?;
            table.remove(number).map_err(while_("removing a command"))?;
            Ok(())
        }
    }
}

fn put(txn: &WriteTransaction, table: Texts, key: &str, bytes: &[u8]) -> Result<(), Failed> {
    let mut table = txn.open_table(table).map_err(while_("writing a record"))?;
    table.insert(key, bytes).map_err(while_("writing a record"))?;
    Ok(())
}

fn remove(txn: &WriteTransaction, table: Texts, key: &str) -> Result<(), Failed> {
    let mut table = txn.open_table(table).map_err(while_("removing a record"))?;
    table.remove(key).map_err(while_("removing a record"))?;
    Ok(())
}

/// Everything.
pub(super) fn read_ledger(txn: &ReadTransaction) -> Result<Ledger, Failed> {
    let mut ledger = Ledger { revision: meta(txn, REVISION)?.unwrap_or(0), ..Ledger::default() };
    each(txn, NODES, "nodes", |key, record| {
        ledger.nodes.insert(NodeId::new(key), record);
        Ok(())
    })?;
    each(txn, ROLLOUTS, "rollouts", |key, record| {
        ledger.rollouts.insert(RolloutId::new(key), Arc::new(record));
        Ok(())
    })?;
    each(txn, QUARANTINES, "quarantines", |key, record| {
        let damaged = |text: String| StoreError::Damaged { table: "quarantines", key: key.to_owned(), text };
        let (pool, release) = key.split_once(BETWEEN).ok_or_else(|| damaged("no pair".to_owned()))?;
        let pool = pool.parse::<PoolName>().map_err(|error| damaged(error.to_string()))?;
        let release = release.parse::<ReleaseId>().map_err(|error| damaged(error.to_string()))?;
        ledger.quarantines.insert((pool, release), record);
        Ok(())
    })?;
    each(txn, RELEASES, "releases", |key, record| {
        let damaged = |text: String| StoreError::Damaged { table: "releases", key: key.to_owned(), text };
        ledger
            .releases
            .insert(key.parse().map_err(|e: drydock_spec::IdError| damaged(e.to_string()))?, record);
        Ok(())
    })?;
    let table = txn.open_table(COMMANDS).map_err(while_("reading commands"))?;
    for entry in table.iter().map_err(while_("reading commands"))? {
        let (number, bytes) = entry.map_err(while_("reading commands"))?;
        let number = number.value();
        ledger.commands.insert(number, codec::decode("commands", &number.to_string(), bytes.value())?);
    }
    Ok(ledger)
}

fn each<T: DeserializeOwned>(
    txn: &ReadTransaction,
    table: Texts,
    name: &'static str,
    mut take: impl FnMut(&str, T) -> Result<(), StoreError>,
) -> Result<(), Failed> {
    let table = txn.open_table(table).map_err(while_("reading records"))?;
    for entry in table.iter().map_err(while_("reading records"))? {
        let (key, bytes) = entry.map_err(while_("reading records"))?;
        take(key.value(), codec::decode(name, key.value(), bytes.value())?)?;
    }
    Ok(())
}

/// A number of the meta table.
pub(super) fn meta(txn: &ReadTransaction, key: &str) -> Result<Option<u64>, Failed> {
    let table = txn.open_table(META).map_err(while_("reading the revision"))?;
    Ok(table.get(key).map_err(while_("reading the revision"))?.map(|value| value.value()))
}

/// Events after a number, in order.
pub(super) fn events_after(txn: &ReadTransaction, after: u64, limit: usize) -> Result<Vec<Event>, Failed> {
    let table = txn.open_table(EVENTS).map_err(while_("reading events"))?;
    let range = (Bound::Excluded(after), Bound::Unbounded);
    let range = table.range::<u64>(range).map_err(while_("reading events"))?;
    range.take(limit).map(event).collect()
}

/// Events before a number, newest first.
pub(super) fn events_before(txn: &ReadTransaction, before: u64, limit: usize) -> Result<Vec<Event>, Failed> {
    let table = txn.open_table(EVENTS).map_err(while_("reading events"))?;
    table.range(..before).map_err(while_("reading events"))?.rev().take(limit).map(event).collect()
}

type Entry<'a> = (redb::AccessGuard<'a, u64>, redb::AccessGuard<'a, &'static [u8]>);

fn event(entry: Result<Entry<'_>, redb::StorageError>) -> Result<Event, Failed> {
    let (number, bytes) = entry.map_err(while_("reading events"))?;
    Ok(codec::decode("events", &number.value().to_string(), bytes.value())?)
}
