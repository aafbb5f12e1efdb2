//! Findings in documents, with the line and a caret under the place.

use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use drydock_spec::{Diagnostic, Severity};

use crate::ui::Ui;

/// A finding as compilers show theirs.
pub(crate) fn render(diagnostic: &Diagnostic, ui: &Ui) -> String {
    let Diagnostic { rule, severity, file, span, message, hint, source_line } = diagnostic;
    let level = match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let rule = rule.to_string();
    let mut elements: Vec<Element<'_>> = Vec::new();
    if file == "." {
        // It is about the repository as a whole: no line to point at.
    } else if source_line.trim().is_empty() {
        elements.push(
            Origin::path(file.as_str()).line(span.line as usize).char_column(span.column as usize).into(),
        );
    } else {
        let snippet = Snippet::source(source_line.as_str())
            .path(file.as_str())
            .line_start(span.line as usize)
            .annotation(AnnotationKind::Primary.span(diagnostic.byte_range()));
        elements.push(snippet.into());
    }
    if let Some(hint) = hint {
        elements.push(Level::HELP.message(hint.as_str()).into());
    }
    let group = level.primary_title(message.as_str()).id(rule.as_str()).elements(elements);
    let renderer = if ui.paint.0 { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).term_width(ui.width).render(&[group])
}
