//! What a check says about itself: one line of JSON as its termination message, and an exit code.
//!
//! A check is any container. It gets its task from the environment (`DRYDOCK_CHECK`, `DRYDOCK_NODE`, `DRYDOCK_NODES`
//! for pairs and groups, `DRYDOCK_RUN`) and answers through `/dev/termination-log`, or as the last line of its log when
//! it wrote no message (`terminationMessagePolicy: FallbackToLogsOnError`). A container that writes nothing is judged
//! by its exit code.

use serde::{Deserialize, Serialize};

/// Environment variable with the name of the check.
pub const ENV_CHECK: &str = "DRYDOCK_CHECK";
/// Environment variable with the name of the node the pod is meant for.
pub const ENV_NODE: &str = "DRYDOCK_NODE";
/// Environment variable with the names of all nodes that take part, sorted, separated by commas.
pub const ENV_NODES: &str = "DRYDOCK_NODES";
/// Environment variable with the number of the run, from 0: a check with `repeats: 3` runs as 0, 1 and 2.
pub const ENV_RUN: &str = "DRYDOCK_RUN";

/// Exit codes.
pub mod exit {
    /// Nothing wrong was found.
    pub const PASS: i32 = 0;
    /// Something wrong was found.
    pub const FAIL: i32 = 1;
    /// The check itself broke; nothing was learnt about the thing under test.
    pub const INCONCLUSIVE: i32 = 2;
    /// It doesn't apply to this node.
    pub const NOT_APPLICABLE: i32 = 3;
}

/// How a run of a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Nothing wrong was found.
    Pass,
    /// Something wrong was found.
    Fail,
    /// The thing under test hung; the check noticed by itself.
    Hang,
    /// The check itself broke.
    Inconclusive,
    /// It doesn't apply to this node.
    NotApplicable,
}

/// The termination message of a check, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckMessage {
    /// How it ended.
    pub verdict: Verdict,
    /// What was measured, in the unit the check is documented with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Longest detail kept, in bytes. The kubelet itself cuts a termination message at 4 KiB.
pub const DETAIL_MAX: usize = 1024;

impl CheckMessage {
    /// Reads what a container left behind: its exit code, the signal that ended it, and its message.
    ///
    /// The message counts only when it fits the exit code: a process that wrote `pass` and then died of a signal has
    /// not passed. Exit codes above 128 mean a signal, which is the runner's trouble (out of memory, somebody's kill),
    /// not a finding about the node.
    #[must_use]
    pub fn read(exit_code: i32, signal: Option<i32>, message: &str) -> Self {
        let killed = signal.filter(|s| *s != 0).or_else(|| (exit_code > 128).then_some(exit_code - 128));
        if let Some(signal) = killed {
            let detail = format!("the check was ended by signal {signal}{}", said(message));
            return Self { verdict: Verdict::Inconclusive, value: None, detail: cut(&detail) };
        }
        let parsed = message.lines().rev().find_map(|line| serde_json::from_str::<Self>(line.trim()).ok());
        let by_code = match exit_code {
            exit::PASS => Verdict::Pass,
            exit::FAIL => Verdict::Fail,
            exit::NOT_APPLICABLE => Verdict::NotApplicable,
            _ => Verdict::Inconclusive,
        };
        match parsed {
            Some(told)
                if told.verdict == by_code || (told.verdict == Verdict::Hang && by_code == Verdict::Fail) =>
            {
                Self { detail: cut(&told.detail), value: told.value.filter(|v| v.is_finite()), ..told }
            }
            Some(told) => Self {
                verdict: Verdict::Inconclusive,
                value: None,
                detail: cut(&format!(
                    "the check says {:?} and ends with exit code {exit_code}: {}",
                    told.verdict, told.detail
                )),
            },
            None => {
                let detail = format!("exit code {exit_code}{}", said(message));
                Self { verdict: by_code, value: None, detail: cut(&detail) }
            }
        }
    }
}

fn said(message: &str) -> String {
    match message.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(DETAIL_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_and_message_are_read_together() {
        let read = CheckMessage::read;
        let told = read(0, None, "log\n{\"verdict\":\"pass\",\"value\":391.5,\"detail\":\"ok\"}\n");
        assert_eq!((told.verdict, told.value, told.detail.as_str()), (Verdict::Pass, Some(391.5), "ok"));
        assert_eq!(read(1, None, "").verdict, Verdict::Fail);
        assert_eq!(read(1, None, "{\"verdict\":\"hang\"}").verdict, Verdict::Hang);
        assert_eq!(read(3, None, "no GPU").verdict, Verdict::NotApplicable);
        assert_eq!(read(127, None, "not found").verdict, Verdict::Inconclusive);
        // Died after it had passed.
        assert_eq!(read(137, None, "{\"verdict\":\"pass\"}").verdict, Verdict::Inconclusive);
        assert_eq!(read(0, Some(9), "{\"verdict\":\"pass\"}").verdict, Verdict::Inconclusive);
        // Says one thing and does another.
        assert_eq!(read(1, None, "{\"verdict\":\"pass\"}").verdict, Verdict::Inconclusive);
        assert_eq!(read(0, None, "{\"verdict\":\"pass\",\"value\":1e999}").verdict, Verdict::Pass);
    }

    #[test]
    fn details_are_bounded_at_character_boundaries() {
        let long = "ä".repeat(DETAIL_MAX);
        assert!(CheckMessage::read(1, None, &long).detail.len() <= DETAIL_MAX);
    }
}
