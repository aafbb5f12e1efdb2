//! Tables without lines, as `kubectl` prints them.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use super::paint::{Paint, Tone};

/// A table under construction.
pub(crate) struct Columns {
    table: Table,
    paint: Paint,
    /// Longest word of each column: no word is ever broken.
    words: Vec<usize>,
}

/// One cell.
pub(crate) struct Item {
    text: String,
    tone: Tone,
    right: bool,
}

impl Item {
    /// In the tone of its word.
    pub(crate) fn word(text: &str) -> Self {
        Self { text: text.to_owned(), tone: Tone::of(text), right: false }
    }
    /// Less important.
    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Dim, right: false }
    }
    /// A number: stands to the right.
    pub(crate) fn number(text: impl ToString) -> Self {
        Self { text: text.to_string(), tone: Tone::Plain, right: true }
    }
}

impl<T: Into<String>> From<T> for Item {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: Tone::Plain, right: false }
    }
}

impl Columns {
    /// With a head, laid out for `width` columns.
    pub(crate) fn new(names: &[&str], paint: Paint, width: usize) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        if paint.0 {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let head = names.iter().map(|text| {
            let cell = Cell::new(text);
            if paint.0 { cell.add_attribute(Attribute::Dim) } else { cell }
        });
        table.set_header(head);
        let mut columns = Self { table, paint, words: Vec::new() };
        columns.measure(names.iter().copied());
        columns
    }

    fn measure<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        for (at, text) in texts.enumerate() {
            let longest = text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
            match self.words.get_mut(at) {
                Some(known) => *known = longest.max(*known),
                None => self.words.push(longest),
            }
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, items: Vec<Item>) {
        self.measure(items.iter().map(|item| item.text.as_str()));
        let paint = self.paint.0;
        let cells = items.into_iter().map(|Item { text, tone, right }| {
            let cell = Cell::new(text);
            let cell = if right { cell.set_alignment(CellAlignment::Right) } else { cell };
            match tone {
                _ if !paint => cell,
                Tone::Good => cell.fg(Color::Green),
                Tone::Warn => cell.fg(Color::Yellow),
                Tone::Bad => cell.fg(Color::Red),
                Tone::Busy => cell.fg(Color::Cyan),
                Tone::Dim => cell.add_attribute(Attribute::Dim),
                Tone::Strong => cell.add_attribute(Attribute::Bold),
                Tone::Plain => cell,
            }
        });
        self.table.add_row(cells);
    }

    /// The lines, without blanks at their ends.
    pub(crate) fn finish(mut self, indent: &str) -> String {
        /// Longer words, such as paths, may be broken: they would push everything else off the screen.
        const WORD_MAX: usize = 40;
        for (column, longest) in self.table.column_iter_mut().zip(&self.words) {
            column.set_padding((0, 2));
            let width = u16::try_from((*longest).min(WORD_MAX) + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        let text = self.table.to_string();
        text.lines().map(|line| format!("{indent}{}", line.trim_end())).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut columns = Columns::new(&["name", "nodes"], Paint(false), 80);
        columns.row(vec!["lab".into(), Item::number(24)]);
        columns.row(vec!["development".into(), Item::number(160)]);
        assert_eq!(columns.finish("  "), "  name         nodes\n  lab             24\n  development    160");
    }
}
