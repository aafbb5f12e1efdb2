//! A file of the planner and the places where it can be changed.

use std::ops::Range;

use proc_macro2::{LineColumn, Span};

/// Bytes of each line's beginning, so that what syn says of lines and columns becomes a place in the text.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after).collect())
    }

    /// Columns count characters, not bytes.
    fn at(&self, text: &str, place: LineColumn) -> usize {
        let begin = self.0.get(place.line.saturating_sub(1)).copied().unwrap_or(text.len());
        let line = text.get(begin..).unwrap_or_default();
        begin + line.char_indices().nth(place.column).map_or(line.len(), |(at, _)| at)
    }

    pub(crate) fn range(&self, text: &str, span: Span) -> Range<usize> {
        self.at(text, span.start())..self.at(text, span.end())
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line(&self, byte: usize) -> usize {
        self.0.partition_point(|begin| *begin <= byte)
    }

    /// The byte of a line and column as compilers count them, from 1.
    pub(crate) fn byte(&self, text: &str, line: usize, column: usize) -> usize {
        self.at(text, LineColumn { line, column: column.saturating_sub(1) })
    }
}

/// How the changed text stands beside the text as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `(if mutant { changed } else { as it was })`.
    Expression,
    /// The condition also holds with this mutant: `(mutant || (as it was))`.
    OrTrue,
    /// It never holds with this one: `!mutant && (as it was)`.
    AndNot,
    /// The same for a condition that binds names, which can't stand in parentheses, and needs none.
    AndNotChain,
    /// The statement is left out: `if !mutant { as it was }`.
    LeftOut,
    /// Said before all else in a function: `if mutant { changed }`.
    First,
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) range: Range<usize>,
    pub(crate) form: Form,
    /// What stands there instead, for forms that have it.
    pub(crate) text: String,
    /// The function it is in.
    pub(crate) function: String,
    /// As people read it: what was, what is.
    pub(crate) told: String,
}

/// A change with the name by which survivors are known: file, function and what is changed, so that lines may move.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) change: Change,
}

/// A file with its mutants.
pub(crate) struct File {
    /// Relative to `fleet/planner/src`.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) mutants: Vec<Mutant>,
}
