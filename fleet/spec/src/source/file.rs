//! A file while its findings are collected.

use std::cell::OnceCell;

use super::tree::Problem;
use crate::diagnostic::{Diagnostic, Span};

/// A file and its lines.
#[derive(Debug)]
pub(crate) struct FileText<'f> {
    pub(crate) path: &'f str,
    pub(crate) text: &'f str,
    /// Byte at which each line starts; made when the first finding needs it, since most files have none.
    starts: OnceCell<Vec<usize>>,
}

impl<'f> FileText<'f> {
    pub(crate) fn new(path: &'f str, text: &'f str) -> Self {
        Self { path, text, starts: OnceCell::new() }
    }

    /// A line by its number from 1, without its end; empty when there is none.
    fn line(&self, number: u32) -> &'f str {
        let starts = self.starts.get_or_init(|| {
            let breaks = self.text.match_indices('\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(breaks).collect()
        });
        let index = number.saturating_sub(1) as usize;
        let Some(&start) = starts.get(index) else { return "" };
        let end = starts.get(index + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or("").trim_end_matches(['\n', '\r'])
    }

    /// Ties a finding to this file.
    pub(crate) fn diagnose(&self, problem: Problem) -> Diagnostic {
        let Problem { rule, span, message, hint } = problem;
        let source_line = self.line(span.line).to_owned();
        let length = u32::try_from(source_line.trim_end().chars().count()).unwrap_or(u32::MAX);
        let end_column = span.end_column.min(length.saturating_add(1)).max(span.column);
        let span = Span { end_column, ..span };
        let file = self.path.to_owned();
        Diagnostic { rule, severity: rule.severity(), file, span, message, hint, source_line }
    }
}
