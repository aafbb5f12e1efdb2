//! Whether a run of the tests may start control planes, and how much of it there is time for.

use crate::tools::env;

/// The variable that is asked. Without it nothing is started: whoever types `cargo test` gets no API servers unasked.
pub const VARIABLE: &str = "DRYDOCK_BED";

/// How a run was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not at all: every test is ignored.
    Off,
    /// `yes`: what this machine can run; the rest is ignored, and says what is missing.
    Possible,
    /// `require`, as in CI: what can't run fails.
    Required,
    /// `long`: as `require`, with every scene at its full size.
    Long,
}

impl Mode {
    /// What the environment asks for.
    ///
    /// # Errors
    /// A word that means nothing.
    pub fn asked() -> Result<Self, String> {
        env(VARIABLE).map_or(Ok(Self::Off), |word| Self::of(&word.to_string_lossy()))
    }

    fn of(word: &str) -> Result<Self, String> {
        match word {
            "yes" => Ok(Self::Possible),
            "require" => Ok(Self::Required),
            "long" => Ok(Self::Long),
            _ => Err(format!("{VARIABLE}={word} means nothing; say yes, require or long")),
        }
    }

    /// Whether what is missing is a failure.
    #[must_use]
    pub fn requires(self) -> bool {
        match self {
            Self::Off | Self::Possible => false,
            Self::Required | Self::Long => true,
        }
    }

    /// What a test takes on: the ordinary share, or all of it where there is time.
    pub fn of_two<T>(ordinary: T, whole: T) -> T {
        if Self::asked() == Ok(Self::Long) { whole } else { ordinary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_understood_or_refused() {
        assert_eq!(Mode::of("yes"), Ok(Mode::Possible));
        assert_eq!(Mode::of("require"), Ok(Mode::Required));
        assert_eq!(Mode::of("long"), Ok(Mode::Long));
        assert!(Mode::of("1").unwrap_err().contains("yes, require or long"));
    }
}
