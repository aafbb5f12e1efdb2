//! The head: one ConfigMap that says which pages and which journal the ledger is made of. Replacing it is what a commit
//! is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LedgerError, pages::PageRef};

/// Format written by this program.
pub(super) const FORMAT: u32 = 1;
/// The oldest format whose readers understand everything this program writes.
pub(super) const OLDEST_READER: u32 = 1;

/// What the head says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// Format in which it was written.
    pub format: u32,
    /// Oldest format that can read it.
    pub oldest_reader: u32,
    /// Made with the first head: two ledgers with different lineages have nothing to do with each other.
    pub lineage: String,
    /// Revision of the ledger with its journal.
    pub revision: u64,
    /// Unique for each attempt to write: whoever gets no answer reads this to learn whether it was carried out.
    pub commit: String,
    /// Who writes.
    pub holder: String,
    /// Revision of the ledger in the pages, before the journal.
    pub base: u64,
    /// The ledger at `base`; none for an empty one.
    pub pages: Vec<PageRef>,
}

/// The head as it was read or written last, with what a compare-and-swap needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What it says.
    pub head: Head,
    /// The journal, compressed.
    pub(super) journal: Vec<u8>,
    /// The compare-and-swap.
    pub(super) resource_version: String,
    /// Identity of the object.
    pub(super) uid: String,
}

impl Place {
    /// Size of the compressed journal, in bytes.
    #[must_use]
    pub fn journal_bytes(&self) -> usize {
        self.journal.len()
    }

    /// Reads the ConfigMap.
    pub(super) fn read(object: &Value, namespace: &str, name: &str) -> Result<Self, LedgerError> {
        let what = || format!("the ConfigMap {namespace}/{name}");
        let text = object["data"]["head"].as_str().ok_or_else(|| {
            LedgerError::damaged(what(), "it has no data.head; if it isn't drydock's, move it away")
        })?;
        // The format is looked at first: a newer head may not be readable otherwise.
        let format: Format =
            serde_json::from_str(text).map_err(|error| LedgerError::damaged(what(), error))?;
        if format.oldest_reader > FORMAT {
            return Err(LedgerError::TooNew {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                needs: format.oldest_reader,
                ours: FORMAT,
            });
        }
        let head: Head = serde_json::from_str(text).map_err(|error| LedgerError::damaged(what(), error))?;
        let journal = match &object["binaryData"]["journal"] {
            Value::String(text) => STANDARD.decode(text).map_err(|e| LedgerError::damaged(what(), e))?,
            _ => Vec::new(),
        };
        let meta = |key: &str| {
            let found = object["metadata"][key].as_str().map(ToOwned::to_owned);
            found
                .ok_or_else(|| LedgerError::damaged(what(), format!("the API server sent no metadata.{key}")))
        };
        Ok(Self { head, journal, resource_version: meta("resourceVersion")?, uid: meta("uid")? })
    }

    /// The ConfigMap that replaces this one.
    pub(super) fn replacement(
        &self,
        head: &Head,
        journal: &[u8],
        namespace: &str,
        name: &str,
    ) -> Result<Value, LedgerError> {
        let mut object = object(head, journal, namespace, name)?;
        object["metadata"]["resourceVersion"] = json!(self.resource_version);
        object["metadata"]["uid"] = json!(self.uid);
        Ok(object)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Format {
    oldest_reader: u32,
}

/// The ConfigMap without what only a replacement has.
pub(super) fn object(head: &Head, journal: &[u8], namespace: &str, name: &str) -> Result<Value, LedgerError> {
    let text = serde_json::to_string(head).map_err(|error| LedgerError::damaged("the new head", error))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { (drydock_api::names::MANAGED_BY): drydock_api::names::MANAGER },
        },
        "data": { "head": text },
        "binaryData": { "journal": STANDARD.encode(journal) },
    }))
}
