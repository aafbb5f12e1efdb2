//! What can be wrong with a value, in the words of serde but with its place.

use std::fmt;

use serde::de::{self, Unexpected};

use crate::diagnostic::Span;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FaultKind {
    /// Text is wanted, and this unquoted scalar is something else to some parser.
    Quote { text: String, read_as: String },
    /// Nothing stands where this is wanted.
    Null { wanted: String },
    /// A field that isn't known.
    UnknownField { field: String, known: &'static [&'static str] },
    /// A required field isn't there.
    MissingField(&'static str),
    /// A word that isn't one of those known.
    UnknownWord { word: String, known: &'static [&'static str] },
    /// Something of another type.
    WrongType { found: String, wanted: String },
    /// A mapping that should name exactly one of these.
    OneOf { count: usize, known: &'static [&'static str] },
    /// A word that needs something under it, written alone.
    Bare { word: String },
    /// Anything else: the words of the type that refused it.
    Refused(String),
}

/// An error with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) kind: Box<FaultKind>,
    /// Where; filled in by the first deserializer that the error passes.
    pub(crate) at: Option<Span>,
    /// Positions of children on the way to it, innermost first.
    pub(crate) path: Vec<usize>,
    /// The key under which it stands.
    pub(crate) field: Option<String>,
    /// It is about the last key of the path, not about its value.
    pub(crate) on_key: bool,
}

impl Fault {
    pub(super) fn new(kind: FaultKind) -> Self {
        Self { kind: Box::new(kind), at: None, path: Vec::new(), field: None, on_key: false }
    }
    pub(super) fn at(mut self, span: Span) -> Self {
        self.at = self.at.or(Some(span));
        self
    }
    /// Passing out of a child.
    pub(super) fn step(mut self, index: usize) -> Self {
        self.path.push(index);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}
impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(FaultKind::Refused(message.to_string()))
    }
    fn invalid_type(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::new(FaultKind::WrongType { found: found.to_string(), wanted: wanted.to_string() })
    }
    fn invalid_value(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::new(FaultKind::Refused(format!("{found} isn't {wanted}")))
    }
    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownWord { word: word.to_owned(), known })
    }
    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownField { field: field.to_owned(), known })
    }
    fn missing_field(field: &'static str) -> Self {
        Self::new(FaultKind::MissingField(field))
    }
}
