//! Colours. They repeat what the words say already and never say anything alone.

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

/// What a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Wrong.
    Bad,
    /// Under way.
    Busy,
    /// Less important.
    Dim,
    /// More important.
    Strong,
    /// Nothing special.
    Plain,
}

impl Tone {
    /// SGR parameters of ECMA-48.
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Busy => "36",
            Self::Dim => "2",
            Self::Strong => "1",
            Self::Plain => "0",
        }
    }

    /// The tone of a word of the screens: states of rollouts and waves, sync, health, severity.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "Succeeded" | "Synced" | "Healthy" | "Complete" | "Fresh" | "ok" => Self::Good,
            "Running" | "Progressing" | "Soaking" | "RollingBack" => Self::Busy,
            "Paused" | "Suspended" | "OutOfSync" | "Drifted" | "GatedBefore" | "GatedAfter"
            | "RolledBack" | "Stale" | "warning" | "Aborted" => Self::Warn,
            "Halted" | "Rejected" | "RollbackBlocked" | "Failed" | "Degraded" | "Missing" | "Conflict"
            | "Unreachable" | "error" => Self::Bad,
            "Pending" | "Skipped" | "Superseded" | "note" => Self::Dim,
            _ => Self::Plain,
        }
    }
}

impl Paint {
    /// `text` in a tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        if self.0 && tone != Tone::Plain && !text.is_empty() {
            format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
    /// A word of the screens in its tone.
    pub(crate) fn word(self, word: &str) -> String {
        self.tone(Tone::of(word), word)
    }
    /// Less important.
    pub(crate) fn dim(self, text: &str) -> String {
        self.tone(Tone::Dim, text)
    }
    /// More important.
    pub(crate) fn strong(self, text: &str) -> String {
        self.tone(Tone::Strong, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_nothing_is_added() {
        assert_eq!(Paint(false).word("Degraded"), "Degraded");
        assert_eq!(Paint(true).word("Degraded"), "\u{1b}[31mDegraded\u{1b}[0m");
        assert_eq!(Paint(true).word("whatever"), "whatever");
    }
}
