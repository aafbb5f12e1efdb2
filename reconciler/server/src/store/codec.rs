//! How a value is written: one byte with the version of its encoding, then JSON.
//!
//! A reader ignores fields it doesn't know, and a field that is new has a default, so most changes keep version 1. A
//! change that an older reader would misread raises [`FORMAT`] together with [`OLDEST_READER`]: older programs then
//! refuse to open the file instead of dropping on their next write what they didn't understand.

use serde::{Serialize, de::DeserializeOwned};

use super::StoreError;

/// Format written by this program.
pub(crate) const FORMAT: u32 = 1;

/// The oldest format whose readers understand everything this program writes.
pub(crate) const OLDEST_READER: u32 = 1;

/// Version of the encoding of one value.
const JSON_V1: u8 = 1;

pub(crate) fn encode<T: Serialize>(table: &'static str, key: &str, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![JSON_V1];
    serde_json::to_writer(&mut bytes, value).map_err(|error| damaged(table, key, error.to_string()))?;
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(
    table: &'static str,
    key: &str,
    bytes: &[u8],
) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&JSON_V1, json)) => {
            serde_json::from_slice(json).map_err(|error| damaged(table, key, error.to_string()))
        }
        Some((version, _)) => Err(damaged(table, key, format!("unknown encoding {version}"))),
        None => Err(damaged(table, key, "it is empty".to_owned())),
    }
}

fn damaged(table: &'static str, key: &str, text: String) -> StoreError {
    StoreError::Damaged { table, key: key.to_owned(), text }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Old {
        a: u32,
    }

    #[test]
    fn an_older_reader_ignores_newer_fields() {
        let newer = encode("t", "k", &serde_json::json!({"a": 1, "b": [2]})).unwrap();
        assert_eq!(decode::<Old>("t", "k", &newer).unwrap(), Old { a: 1 });
    }

    #[test]
    fn what_it_does_not_know_is_an_error_with_its_place() {
        for bytes in [&b""[..], b"\x02{\"a\":1}", b"\x01{\"a\":", b"{\"a\":1}"] {
            let error = decode::<Old>("nodes", "c/n", bytes).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { table: "nodes", .. }), "{error}");
            assert!(error.to_string().starts_with("nodes/c/n can't be read"), "{error}");
        }
    }
}
