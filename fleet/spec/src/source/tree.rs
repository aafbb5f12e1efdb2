//! The tree of a document: what was written, where.

use std::borrow::Cow;

use crate::{diagnostic::Span, rule::RuleId};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node<'s> {
    /// Where it stands; for a mapping in block style the first key, for other collections their first character.
    pub(crate) span: Span,
    /// What it is.
    pub(crate) value: Value<'s>,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Value<'s> {
    /// Unquoted: its meaning depends on what it looks like.
    Plain(Cow<'s, str>),
    /// Quoted, in a block, or tagged as text: always text.
    Text(Cow<'s, str>),
    /// A list.
    List(Vec<Node<'s>>),
    /// A mapping.
    Map(Vec<Entry<'s>>),
    /// Stands where something wrong was found and reported, so that the rest of the document can be read. It reads
    /// as whatever is wanted; the number counts how many guesses were refused.
    Absent(u8),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'s> {
    /// The key.
    pub(crate) key: Cow<'s, str>,
    /// Where the key stands.
    pub(crate) key_span: Span,
    /// The value.
    pub(crate) value: Node<'s>,
}

/// Something found while reading, before it is tied to a file.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) rule: RuleId,
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(rule: RuleId, span: Span, message: impl Into<String>) -> Self {
        Self { rule, span, message: message.into(), hint: None }
    }
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A step into a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// An item of a list.
    Item(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}
impl<'a> From<&'a String> for Step<'a> {
    fn from(key: &'a String) -> Self {
        Self::Key(key)
    }
}
impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Item(index)
    }
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// To this, or to the nearest thing around it that was written.
    At(Span),
    /// Into something that was wrong and has been reported.
    Reported,
}

impl<'s> Node<'s> {
    /// The place of what `path` names. A value that wasn't written (a default) is at the key around it.
    /// With nothing written at all, it is `around`.
    pub(crate) fn place(&self, path: &[Step<'_>], around: Span) -> Place {
        let mut node = self;
        let mut span = around;
        for step in path {
            let next = match (step, &node.value) {
                (_, Value::Absent(_)) => return Place::Reported,
                (Step::Key(key), Value::Map(entries)) => match entries.iter().find(|e| e.key == *key) {
                    Some(entry) => {
                        span = entry.key_span;
                        &entry.value
                    }
                    None => return Place::At(span),
                },
                (Step::Item(index), Value::List(items)) => match items.get(*index) {
                    Some(item) => item,
                    None => return Place::At(span),
                },
                // Written in short: the scalar stands for the whole of it.
                (_, Value::Plain(_) | Value::Text(_)) => return Place::At(node.span),
                (_, Value::Map(_) | Value::List(_)) => return Place::At(span),
            };
            node = next;
        }
        match node.value {
            Value::Absent(_) => Place::Reported,
            Value::Plain(_) | Value::Text(_) => Place::At(node.span),
            // A key says more than the first line of what is under it.
            Value::List(_) | Value::Map(_) => match path.last() {
                Some(Step::Key(_)) => Place::At(span),
                Some(Step::Item(_)) => Place::At(node.span),
                None => Place::At(around),
            },
        }
    }
    /// The place of a key of the mapping at `path`.
    pub(crate) fn key_place(&self, path: &[Step<'_>], key: &str, around: Span) -> Place {
        let Some(map) = self.get(path) else { return self.place(path, around) };
        match &map.value {
            Value::Map(entries) => match entries.iter().find(|e| e.key == key) {
                Some(entry) => Place::At(entry.key_span),
                None => self.place(path, around),
            },
            _ => self.place(path, around),
        }
    }
    fn get(&self, path: &[Step<'_>]) -> Option<&Self> {
        path.iter().try_fold(self, |node, step| match (step, &node.value) {
            (Step::Key(key), Value::Map(entries)) => entries.iter().find(|e| e.key == *key).map(|e| &e.value),
            (Step::Item(index), Value::List(items)) => items.get(*index),
            _ => None,
        })
    }
    /// The entry of a mapping.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry<'s>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }
    /// The text of a scalar, whatever it looks like.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Plain(text) | Value::Text(text) => Some(text),
            Value::List(_) | Value::Map(_) | Value::Absent(_) => None,
        }
    }
    /// What it is, in words.
    pub(crate) fn noun(&self) -> &'static str {
        match self.value {
            Value::Plain(_) | Value::Text(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Absent(_) => "nothing",
        }
    }
}
