//! The last good commit, kept beside the ledger: a drydock that starts on a fresh disk while Git is away still knows what
//! is in force.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drydock_api::names;
use drydock_plan::CommitRef;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Home, LedgerError, PageRef, journal, pages::Pages};
use crate::client::Kind;

/// Largest size of all files together, in bytes: more than a fleet's repository ever has, less than what hurts.
const FILES_MAX: usize = 64 << 20;

/// The files of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The commit.
    pub commit: CommitRef,
    /// Its files by path, exactly as committed.
    pub files: Vec<(String, Vec<u8>)>,
}

/// What the ConfigMap says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    commit: CommitRef,
    /// Grows with every commit kept; pages are told apart by it.
    number: u64,
    pages: Vec<PageRef>,
}

impl Home {
    /// Replaces the kept files: all or nothing, since the head is written last.
    ///
    /// # Errors
    /// When they can't be written, or are too large.
    pub async fn keep(&self, kept: &Kept) -> Result<(), LedgerError> {
        let bytes: usize = kept.files.iter().map(|(_, bytes)| bytes.len()).sum();
        if bytes > FILES_MAX {
            return Err(LedgerError::TooLarge { what: "the last good commit", bytes, max: FILES_MAX });
        }
        let files: Vec<(&str, String)> =
            kept.files.iter().map(|(path, bytes)| (path.as_str(), STANDARD.encode(bytes))).collect();
        let text = serde_json::to_vec(&files).map_err(|e| LedgerError::damaged("the last good commit", e))?;
        let before = self.kept_head().await?;
        let number = before.as_ref().map_or(0, |(head, _)| head.number) + 1;
        let pages = self.kept_pages().write(number, &journal::pack(&text)?).await?;
        let head = Head { commit: kept.commit.clone(), number, pages };
        let text =
            serde_json::to_string(&head).map_err(|e| LedgerError::damaged("the last good commit", e))?;
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": names::KEPT_SOURCE,
                "namespace": self.namespace(),
                "labels": { (names::MANAGED_BY): names::MANAGER },
            },
            "data": { "head": text },
        });
        let written = match before {
            Some((_, version)) => {
                object["metadata"]["resourceVersion"] = json!(version);
                self.caller().replace::<Value>(&self.kept_uri(), &object).await
            }
            None => {
                let uri = Kind::CONFIG_MAP.all(Some(self.namespace()));
                self.caller().create::<Value>(&uri, &object).await
            }
        };
        written.map_err(LedgerError::while_("keeping the last good commit"))?;
        if let Err(error) = self.kept_pages().sweep(number, &head.pages).await {
            tracing::warn!(%error, "old pages of the last good commit are left for the next time");
        }
        Ok(())
    }

    /// The kept files; absent before the first.
    ///
    /// # Errors
    /// When they can't be read or are damaged.
    pub async fn kept(&self) -> Result<Option<Kept>, LedgerError> {
        let Some((head, _)) = self.kept_head().await? else { return Ok(None) };
        let what = "the last good commit";
        // Base64 and JSON around the files.
        let text = journal::unpack(&self.kept_pages().read(&head.pages).await?, 2 * FILES_MAX, what)?;
        let files: Vec<(String, String)> =
            serde_json::from_slice(&text).map_err(|error| LedgerError::damaged(what, error))?;
        let decoded = files.into_iter().map(|(path, text)| {
            let bytes = STANDARD.decode(text).map_err(|error| LedgerError::damaged(what, error))?;
            Ok((path, bytes))
        });
        Ok(Some(Kept { commit: head.commit, files: decoded.collect::<Result<_, LedgerError>>()? }))
    }

    async fn kept_head(&self) -> Result<Option<(Head, String)>, LedgerError> {
        let what = || format!("the ConfigMap {}/{}", self.namespace(), names::KEPT_SOURCE);
        let object = match self.caller().get::<Value>(&self.kept_uri()).await {
            Ok(object) => object,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(LedgerError::Call { doing: "reading the last good commit", error }),
        };
        let text = object["data"]["head"].as_str().unwrap_or_default();
        let head = serde_json::from_str(text).map_err(|error| LedgerError::damaged(what(), error))?;
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Ok(Some((head, version.to_owned())))
    }

    fn kept_uri(&self) -> String {
        Kind::CONFIG_MAP.one(Some(self.namespace()), names::KEPT_SOURCE)
    }

    fn kept_pages(&self) -> Pages<'_> {
        Pages { caller: self.caller(), namespace: self.namespace(), of: names::KEPT_SOURCE }
    }
}
