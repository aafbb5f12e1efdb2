//! A finding, with the place it is about.

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::rule::{RuleId, Severity};

/// A place within one line. Lines and columns count from 1; columns count characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Column after the last one; never less than `column`.
    pub end_column: u32,
}

impl Span {
    /// The first column of the first line, for findings about a whole file.
    pub const START: Self = Self { line: 1, column: 1, end_column: 1 };

    /// The bytes of `line` that this covers; empty at the end of the line when it lies beyond.
    #[must_use]
    pub fn byte_range(self, line: &str) -> Range<usize> {
        let at = |column: u32| {
            let index = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
            line.char_indices().nth(index).map_or(line.len(), |(byte, _)| byte)
        };
        at(self.column)..at(self.end_column.max(self.column))
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The rule that is broken.
    pub rule: RuleId,
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the repository; `.` for the repository as a whole.
    pub file: String,
    /// The place in it.
    pub span: Span,
    /// What is wrong, on one line.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The line that `span` is in, without its end.
    pub source_line: String,
}

impl Diagnostic {
    /// True when it keeps a commit from being accepted.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
    /// The bytes of `source_line` to underline.
    #[must_use]
    pub fn byte_range(&self) -> Range<usize> {
        self.span.byte_range(&self.source_line)
    }
    /// By place, then by rule: the order in which people read.
    pub(crate) fn sort_key(&self) -> (&str, Span, RuleId, &str) {
        (&self.file, self.span, self.rule, &self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, severity, file, span, message, hint, .. } = self;
        write!(f, "{severity}[{rule}] {file}:{}:{}: {message}", span.line, span.column)?;
        match hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_characters_and_stay_inside() {
        let span = |column, end_column| Span { line: 1, column, end_column };
        assert_eq!(span(1, 3).byte_range("äöü"), 0..4);
        assert_eq!(span(3, 9).byte_range("äöü"), 4..6);
        assert_eq!(span(9, 2).byte_range("äöü"), 6..6);
        assert_eq!(span(2, 1).byte_range("abc"), 1..1);
    }
}
