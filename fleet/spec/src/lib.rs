//! The documents of a fleet repository: their types, loading with source positions, diagnostics, lint, JSON Schema.
//!
//! Pure: it is given paths and bytes, and never reads a file itself.

pub mod fleet;
pub mod kinds;
pub mod release;
pub mod text;

pub use fleet::{Fleet, Named};
pub use kinds::*;
pub use release::*;
pub use text::*;
