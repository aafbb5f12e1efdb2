//! How the command ends: every exit code, its meaning, and errors that carry one.

use std::process::ExitCode;

/// How the command ends. Scripts rely on the numbers; those from 64 on are the ones of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok,
    /// `validate` found errors.
    Findings,
    /// `plan --detailed-exitcode` found changes.
    Changes,
    /// A rollout didn't end as it should.
    EndedBadly,
    /// The command line makes no sense.
    Usage,
    /// A folder, file or revision can't be read.
    NoInput,
    /// Something broke that shouldn't.
    Internal,
    /// No running drydock answers.
    Unreachable,
    /// The running drydock refuses the token.
    Denied,
}

/// All of them with their meaning, for `--help`. One place, so that the page and the program can't differ.
const TABLE: [(Exit, &str); 9] = [
    (Exit::Ok, "done"),
    (Exit::Findings, "validate, plan: the documents have errors"),
    (Exit::Changes, "plan --detailed-exitcode: something would change"),
    (Exit::EndedBadly, "simulate, demo --once: a rollout didn't end as it should"),
    (Exit::Usage, "the command line makes no sense"),
    (Exit::NoInput, "a folder, file, revision, node or rollout isn't there"),
    (Exit::Internal, "something broke that shouldn't"),
    (Exit::Unreachable, "no running drydock answers"),
    (Exit::Denied, "the running drydock refuses the token or the command"),
];

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Findings => 1,
            Self::Changes => 2,
            Self::EndedBadly => 3,
            Self::Usage => 64,
            Self::NoInput => 66,
            Self::Internal => 70,
            Self::Unreachable => 75,
            Self::Denied => 77,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The table as it stands under `--help`.
pub(crate) fn help() -> String {
    let rows = TABLE.iter().map(|(exit, text)| format!("  {:>3}  {text}", exit.code()));
    format!("Exit codes:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

/// Why a command couldn't do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure with its exit.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }
    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
    /// Something named isn't there.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(Exit::NoInput, message)
    }
    /// With what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Internal, format!("{error:#}"))
    }
}

/// What a command comes to.
pub(crate) type Result<T = Exit> = std::result::Result<T, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_code_once() {
        let codes: Vec<u8> = TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.windows(2).all(|w| w[0] < w[1]), "{codes:?}");
        assert!(help().contains("\n   75  no running drydock answers\n"));
    }
}
