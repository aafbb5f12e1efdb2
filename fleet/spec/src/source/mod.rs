//! From bytes to typed values, with the place of each.
//!
//! Bytes become YAML events, events a tree of nodes with positions (`tree`), and a serde deserializer over the tree
//! (`de`) makes typed values of it. `decode` runs that again and again until it has seen every error of a document.

mod builder;
pub(crate) mod de;
pub(crate) mod decode;
mod fault;
pub(crate) mod file;
pub(crate) mod scalar;
pub(crate) mod tree;

pub(crate) use builder::parse;
