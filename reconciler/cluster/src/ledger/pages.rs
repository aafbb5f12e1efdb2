//! Pages: bytes too large for one object, cut into immutable ConfigMaps whose names and digests somebody else keeps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drydock_api::names;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::LedgerError;
use crate::client::{Caller, Kind, query};

/// Bytes in a page. A ConfigMap may hold 1 MiB, and 700 KiB are 934 KiB in base64.
pub(super) const PAGE_BYTES: usize = 700 << 10;

/// Most pages of one thing: 44 MiB compressed.
const PAGES_MAX: usize = 64;

/// One page, as whoever refers to it remembers it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PageRef {
    /// Name of the ConfigMap.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// Its size in bytes.
    pub size: usize,
}

/// Annotation on pages: the number they belong to, by which old ones are told from new ones.
const NUMBER: &str = "drydock.dev/page-number";

/// Pages of one kind of thing in one namespace.
#[derive(Debug, Clone)]
pub(super) struct Pages<'a> {
    pub(super) caller: &'a Caller,
    pub(super) namespace: &'a str,
    /// Name of the head that refers to them.
    pub(super) of: &'a str,
}

impl Pages<'_> {
    /// Writes `bytes` as pages with this number. A number may be used twice: names hold a digest as well.
    pub(super) async fn write(&self, number: u64, bytes: &[u8]) -> Result<Vec<PageRef>, LedgerError> {
        let max = PAGES_MAX * PAGE_BYTES;
        if bytes.len() > max {
            return Err(LedgerError::TooLarge { what: "what is to be kept", bytes: bytes.len(), max });
        }
        let mut written = Vec::new();
        for (n, chunk) in bytes.chunks(PAGE_BYTES).enumerate() {
            let sha256 = digest(chunk);
            let short = sha256.get(..8).unwrap_or_default();
            let page =
                PageRef { name: format!("{}-{number}-{short}-{n}", self.of), size: chunk.len(), sha256 };
            self.write_one(&page, number, chunk).await?;
            written.push(page);
        }
        Ok(written)
    }

    async fn write_one(&self, page: &PageRef, number: u64, bytes: &[u8]) -> Result<(), LedgerError> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": page.name,
                "namespace": self.namespace,
                "labels": { (names::MANAGED_BY): names::MANAGER, (names::PAGE_OF): self.of },
                "annotations": { (NUMBER): number.to_string() },
            },
            "immutable": true,
            "binaryData": { "page": STANDARD.encode(bytes) },
        });
        let uri = Kind::CONFIG_MAP.all(Some(self.namespace));
        match self.caller.create::<Value>(&uri, &object).await {
            Ok(_) => Ok(()),
            // An attempt before this one got further than its answer did; the name holds the digest.
            Err(error) if error.is_conflict() || error.is_ambiguous() => {
                self.read_one(page).await.map(drop).map_err(|found| match found {
                    LedgerError::MissingPage { .. } => LedgerError::Call { doing: "writing a page", error },
                    other => other,
                })
            }
            Err(error) => Err(LedgerError::Call { doing: "writing a page", error }),
        }
    }

    /// The bytes of these pages.
    pub(super) async fn read(&self, pages: &[PageRef]) -> Result<Vec<u8>, LedgerError> {
        let mut bytes = Vec::new();
        for page in pages.iter().take(PAGES_MAX) {
            bytes.extend(self.read_one(page).await?);
        }
        Ok(bytes)
    }

    async fn read_one(&self, page: &PageRef) -> Result<Vec<u8>, LedgerError> {
        let uri = Kind::CONFIG_MAP.one(Some(self.namespace), &page.name);
        let object = match self.caller.get::<Value>(&uri).await {
            Ok(object) => object,
            Err(error) if error.is_absent() => {
                return Err(LedgerError::MissingPage {
                    namespace: self.namespace.to_owned(),
                    name: page.name.clone(),
                    head: self.of.to_owned(),
                });
            }
            Err(error) => return Err(LedgerError::Call { doing: "reading a page", error }),
        };
        let what = || format!("the page {}/{}", self.namespace, page.name);
        let text = object["binaryData"]["page"].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(text).map_err(|error| LedgerError::damaged(what(), error))?;
        if bytes.len() != page.size || digest(&bytes) != page.sha256 {
            let text = format!("{} bytes with another digest than its head says", bytes.len());
            return Err(LedgerError::damaged(what(), text));
        }
        Ok(bytes)
    }

    /// Deletes pages that belong to a smaller number than `before` and aren't in `keep`. What fails is found again the
    /// next time. Never those of a larger number: somebody may just have written them, and not yet referred to them.
    pub(super) async fn sweep(&self, before: u64, keep: &[PageRef]) -> Result<usize, LedgerError> {
        let selector =
            format!("labelSelector={}%3D{}&limit=500", names::PAGE_OF.replace('/', "%2F"), self.of);
        let uri = query(&Kind::CONFIG_MAP.all(Some(self.namespace)), &selector);
        // Only names are asked for: the answer would hold all the bytes otherwise.
        let list: Value =
            self.caller.list_metadata(&uri).await.map_err(LedgerError::while_("listing pages"))?;
        let mut gone = 0;
        for item in list["items"].as_array().into_iter().flatten() {
            let meta = &item["metadata"];
            let (Some(name), Some(uid)) = (meta["name"].as_str(), meta["uid"].as_str()) else { continue };
            let number = meta["annotations"][NUMBER].as_str().and_then(|text| text.parse::<u64>().ok());
            if number.is_none_or(|number| number >= before) || keep.iter().any(|page| page.name == name) {
                continue;
            }
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
            });
            let uri = Kind::CONFIG_MAP.one(Some(self.namespace), name);
            match self.caller.delete(&uri, &options).await {
                Ok(()) => gone += 1,
                Err(error) if error.is_absent() || error.is_conflict() => {}
                Err(error) => return Err(LedgerError::Call { doing: "deleting an old page", error }),
            }
        }
        Ok(gone)
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
