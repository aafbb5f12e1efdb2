//! Where output goes and how it looks: format, colour, width. Decided once, at the edge.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::render::paint::Paint;

/// What output is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs; nothing is left out.
    Json,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The least width that output is laid out for.
const NARROWEST: usize = 80;
/// Lines longer than this are hard to follow.
const WIDEST: usize = 160;

/// Where output goes and how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    /// What output is written as.
    pub(crate) format: Format,
    /// Colours, or none.
    pub(crate) paint: Paint,
    /// Columns that may be used.
    pub(crate) width: usize,
    /// A person watches: progress may be redrawn in place.
    pub(crate) live: bool,
    /// Diagnostic messages on stderr may be coloured.
    pub(crate) paint_err: Paint,
}

impl Ui {
    /// From what was asked for and what the process is connected to.
    pub(crate) fn new(global: &Global) -> Self {
        let Global { format, color, width, no_color } = global;
        let format = *format;
        let terminal = io::stdout().is_terminal();
        let wanted = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && no_color.as_ref().is_none_or(String::is_empty),
        };
        // A shell may leave anything in COLUMNS; what is no number says nothing.
        let columns = width.as_ref().and_then(|text| text.parse::<usize>().ok());
        let width = columns
            .or_else(|| terminal.then(|| comfy_table::Table::new().width().map(usize::from)).flatten())
            .unwrap_or(NARROWEST)
            .clamp(NARROWEST, WIDEST);
        Self {
            format,
            paint: Paint(wanted(terminal) && format == Format::Text),
            width,
            live: terminal && format == Format::Text,
            paint_err: Paint(wanted(io::stderr().is_terminal())),
        }
    }

    /// Writes text to stdout, with one line end at its end.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        written(writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush()))
    }

    /// Writes a value to stdout as JSON.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(Exit::Internal, format!("can't be written as JSON: {error}")))?;
        self.print(&text)
    }

    /// Writes a value in the format that was asked for.
    pub(crate) fn show<T: Serialize>(&self, value: &T, text: impl FnOnce() -> String) -> Result<()> {
        match self.format {
            Format::Text => self.print(&text()),
            Format::Json => self.json(value),
        }
    }

    /// Writes a line about the work itself to stderr: what the output doesn't consist of.
    pub(crate) fn note(&self, text: &str) {
        // Nobody reading stderr is no reason to stop.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// A reader that has seen enough (`| head`) is no failure, and ends the command all the same.
fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::new(Exit::Ok, "")),
        Err(error) => Err(Failure::new(Exit::Internal, format!("writing output: {error}"))),
    }
}
