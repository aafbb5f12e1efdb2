//! The one door for YAML that is written. What is read goes through the positioned reader of this crate; a test
//! holds the two against each other.

use serde::Serialize;
use serde_yaml::Value;

use crate::{
    diagnostic::Span,
    source::{
        self,
        scalar::{self, Plain},
        tree::{self, Node},
    },
};

/// Why something can't be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("can't be written as YAML: {0}")]
pub struct YamlError(#[from] serde_yaml::Error);

/// Writes a document as this crate reads it: enums as single-key mappings, absent options left out, and every text
/// quoted that some generation of YAML takes for something else.
///
/// # Errors
/// A value with no form in YAML, such as a mapping with a mapping as its key.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, YamlError> {
    let mut value =
        serde_yaml::with::singleton_map_recursive::serialize(value, serde_yaml::value::Serializer)?;
    prune(&mut value);
    Ok(quote(serde_yaml::to_string(&value)?))
}

/// Writes several documents into one file.
///
/// # Errors
/// See [`to_string`].
pub fn to_string_all<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<String, YamlError> {
    let texts: Result<Vec<String>, YamlError> = values.into_iter().map(|v| to_string(&v)).collect();
    Ok(texts?.join("---\n"))
}

/// A field that isn't there reads as its default, and is shorter than `null`.
fn prune(value: &mut Value) {
    match value {
        Value::Mapping(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Sequence(items) => items.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Tagged(_) => {}
    }
}

/// The writer quotes by the rules of YAML 1.2; older readers need some more.
fn quote(text: String) -> String {
    let mut spots: Vec<Span> = Vec::new();
    let parsed = source::parse(&text);
    parsed.documents.iter().for_each(|root| old_words(&root.node, &mut spots));
    if spots.is_empty() {
        return text;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that the columns of earlier spots stay right.
    spots.sort_unstable();
    for spot in spots.into_iter().rev() {
        let index = spot.line.saturating_sub(1) as usize;
        if let Some(line) = lines.get_mut(index) {
            let range = spot.byte_range(line);
            line.insert(range.end, '"');
            line.insert(range.start, '"');
        }
    }
    lines.join("\n") + "\n"
}

fn old_words(node: &Node<'_>, spots: &mut Vec<Span>) {
    match &node.value {
        tree::Value::Plain(text) if matches!(scalar::plain(text), Plain::Old(_)) => spots.push(node.span),
        tree::Value::Plain(_) | tree::Value::Text(_) | tree::Value::Absent(_) => {}
        tree::Value::List(items) => items.iter().for_each(|item| old_words(item, spots)),
        tree::Value::Map(entries) => entries.iter().for_each(|entry| old_words(&entry.value, spots)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_what_older_readers_misread() {
        let map = BTreeMap::from([
            ("a", "22:00"),
            ("b", "no"),
            ("c", "0755"),
            ("d", "580.10"),
            ("e", "plain"),
            ("f", "~"),
        ]);
        let text = to_string(&map).unwrap();
        let quoted = |key: &str| {
            let line = text.lines().find(|l| l.starts_with(key)).unwrap();
            line.ends_with(['"', '\''])
        };
        assert!(["a", "b", "c", "d", "f"].into_iter().all(quoted), "{text}");
        assert!(!quoted("e"), "{text}");
    }

    /// Our tree as the other reader's value.
    fn value(node: &Node<'_>) -> Value {
        match &node.value {
            tree::Value::Text(text) => Value::String(text.to_string()),
            tree::Value::Plain(text) => match scalar::plain(text) {
                Plain::Null => Value::Null,
                Plain::Bool(b) => b.into(),
                Plain::Unsigned(n) => n.into(),
                Plain::Signed(n) => n.into(),
                Plain::Float(n) => n.into(),
                Plain::Text | Plain::Old(_) => Value::String(text.to_string()),
            },
            tree::Value::List(items) => Value::Sequence(items.iter().map(value).collect()),
            tree::Value::Map(entries) => Value::Mapping(
                entries.iter().map(|e| (Value::String(e.key.to_string()), value(&e.value))).collect(),
            ),
            tree::Value::Absent(_) => unreachable!("only mending makes these"),
        }
    }

    fn anything() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "[a-z0-9:.%*-]{0,8}",
            prop::sample::select(vec![
                "no", "22:00", "0755", "580.10", "~", "null", "", "true", "1_0", "- x", "a: b", "#"
            ])
            .prop_map(str::to_owned),
            "(a|\n| |é|😀|\t){0,6}",
        ];
        let leaf = prop_oneof![
            text.clone().prop_map(Value::String),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            (0u32..10_000).prop_map(|n| Value::from(f64::from(n) + 0.5)),
        ];
        leaf.prop_recursive(4, 24, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Sequence),
                prop::collection::btree_map("[a-z]{1,6}", inner, 0..5).prop_map(|map| Value::Mapping(
                    map.into_iter().map(|(k, v)| (Value::String(k), v)).collect()
                )),
            ]
        })
    }

    proptest! {
        /// What the writer writes, both readers read alike.
        #[test]
        fn both_readers_agree(written in anything()) {
            let text = to_string(&written).unwrap();
            let parsed = source::parse(&text);
            prop_assert!(parsed.fatal.is_none(), "{:?}\n{text}", parsed.fatal);
            prop_assert!(parsed.documents[0].problems.is_empty(), "{:?}\n{text}", parsed.documents[0].problems);
            let other: Value = serde_yaml::from_str(&text).unwrap();
            prop_assert_eq!(value(&parsed.documents[0].node), other.clone(), "{}", text);
            prop_assert_eq!(other, written, "{}", text);
        }
    }
}
