//! The documents of a fleet repository: their types, loading with source positions, diagnostics, lint, JSON Schema.
//!
//! Pure: it is given paths and bytes, and never reads a file itself.

mod collect;
pub mod diagnostic;
pub mod diff;
pub mod document;
pub mod fleet;
pub mod glob;
pub mod kinds;
mod lint;
pub mod load;
mod reading;
pub mod release;
pub mod removal;
pub mod rule;
pub mod schema;
pub mod settings;
mod source;
mod suggest;
pub mod text;
mod words;
pub mod yaml;

pub use diagnostic::{Diagnostic, Span};
pub use diff::{FleetDiff, PoolChange, PoolTarget, diff};
pub use document::{Document, Kind};
pub use fleet::{Fleet, Named, Standing};
pub use kinds::*;
pub use load::{Loaded, PassedOver, SourceFile, Unread, load, unread};
pub use release::*;
pub use removal::{RemovalRefused, Removals, Removed, Seen, accept, removals};
pub use rule::{RuleId, Severity};
pub use schema::schemas;
pub use text::*;
