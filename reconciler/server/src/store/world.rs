//! The simulated world on disk: `world.redb`.
//!
//! It plays the part of the clusters, so it obeys the order that is true for them: what the planner has observed was
//! real before anything was decided from it. Whoever joins the two files saves the world before the ledger.

use std::path::{Path, PathBuf};

use redb::{Database, TableDefinition};
use serde::{Serialize, de::DeserializeOwned};

use super::{StoreError, codec, in_memory, open_file, prepare, read, tables::while_, write};

const WORLD: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("world");

/// Writes that belong together.
#[derive(Debug, Clone, Default)]
pub struct WorldWrite {
    puts: Vec<(String, Vec<u8>)>,
    removes: Vec<String>,
}

impl WorldWrite {
    /// `key` holds `value` afterwards.
    ///
    /// # Errors
    /// When the value can't be written as JSON.
    pub fn put<T: Serialize>(&mut self, key: &str, value: &T) -> Result<(), StoreError> {
        self.puts.push((key.to_owned(), codec::encode("world", key, value)?));
        Ok(())
    }
    /// `key` doesn't exist afterwards.
    pub fn remove(&mut self, key: &str) {
        self.removes.push(key.to_owned());
    }
    /// Nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.removes.is_empty()
    }
}

/// Records of the simulated world, by key.
pub struct WorldStore {
    path: PathBuf,
    database: Database,
}

impl WorldStore {
    /// Opens or makes the file at `path`.
    ///
    /// # Errors
    /// When it is in use, damaged, or written by a newer drydock.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::over(path.to_owned(), open_file(path)?)
    }

    /// A store that is gone when it is dropped.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from("(memory)");
        let database = in_memory(&path)?;
        Self::over(path, database)
    }

    fn over(path: PathBuf, database: Database) -> Result<Self, StoreError> {
        prepare(&path, &database, |txn| {
            txn.open_table(WORLD).map_err(while_("creating tables"))?;
            Ok(())
        })?;
        Ok(Self { path, database })
    }

    /// All of `write` or nothing of it; durable when it returns.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn save(&self, writes: &WorldWrite) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        write(&self.path, &self.database, |txn| {
            let doing = "saving the world";
            let mut table = txn.open_table(WORLD).map_err(while_(doing))?;
            for key in &writes.removes {
                table.remove(key.as_str()).map_err(while_(doing))?;
            }
            for (key, value) in &writes.puts {
                table.insert(key.as_str(), value.as_slice()).map_err(while_(doing))?;
            }
            Ok(())
        })
    }

    /// The record at `key`.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        read(&self.path, &self.database, |txn| {
            let table = txn.open_table(WORLD).map_err(while_("reading the world"))?;
            let value = table.get(key).map_err(while_("reading the world"))?;
            Ok(value.map(|bytes| codec::decode("world", key, bytes.value())).transpose()?)
        })
    }

    /// Records whose key begins with `prefix`, by the rest of their key.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn list<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(String, T)>, StoreError> {
        read(&self.path, &self.database, |txn| {
            let doing = "reading the world";
            let table = txn.open_table(WORLD).map_err(while_(doing))?;
            let mut found = Vec::new();
            for entry in table.range(prefix..).map_err(while_(doing))? {
                let (key, value) = entry.map_err(while_(doing))?;
                let Some(rest) = key.value().strip_prefix(prefix) else { break };
                found.push((rest.to_owned(), codec::decode("world", key.value(), value.value())?));
            }
            Ok(found)
        })
    }
}
