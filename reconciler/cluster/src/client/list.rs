//! Whole lists, page by page.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{CallError, Caller, query};

/// Objects asked for at once: a page of full objects stays far below what is read of one answer.
const PAGE: usize = 500;

/// Most pages of one list: half a million objects.
const PAGES_MAX: usize = 1000;

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: Meta,
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    #[serde(rename = "continue")]
    next: String,
}

impl Caller {
    /// Everything at an address, all or nothing: an answer that breaks off in the middle is an error, never a short
    /// list.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn list<T: DeserializeOwned>(&self, uri: &str) -> Result<Vec<T>, CallError> {
        let mut items = Vec::new();
        let mut next = String::new();
        for _ in 0..PAGES_MAX {
            let mut page = query(uri, &format!("limit={PAGE}"));
            if !next.is_empty() {
                page = query(&page, &format!("continue={}", escaped(&next)));
            }
            let mut list: List<T> = self.get(&page).await?;
            items.append(&mut list.items);
            if list.metadata.next.is_empty() {
                return Ok(items);
            }
            next = list.metadata.next;
        }
        Err(CallError::Malformed(format!("{uri}: more than {PAGES_MAX} pages")))
    }
}

/// The token is base64, whose `+`, `/` and `=` mean something in an address.
fn escaped(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_survive_an_address() {
        assert_eq!(super::escaped("aZ0-_+/="), "aZ0-_%2B%2F%3D");
    }
}
