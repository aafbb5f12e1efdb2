//! What the pods of a run say.

use drydock_api::check::{CheckMessage, DETAIL_MAX, Verdict};
use drydock_plan::{CheckOrder, RawVerdict};
use drydock_spec::{CheckOn, Period};

use crate::objects::PodObject;

/// How long a pod may take to start, beyond the length of a run: a run before it on the same GPUs may still hold them
/// for its own timeout, and then an image of a gigabyte is pulled and unpacked within two minutes.
pub(super) const START_WITHIN: Period = Period::from_mins(2);

/// Why a container ended without its program having run to its end. `Error` and `Completed` are the program's own.
const NOT_ITS_OWN_END: &[&str] = &[
    "OOMKilled",
    "StartError",
    "ContainerCannotRun",
    "ContainerStatusUnknown",
    "CreateContainerError",
    "CreateContainerConfigError",
    "DeadlineExceeded",
];

/// How far the pod of one node is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Progress {
    /// It hasn't begun; what keeps it, where that is known.
    Waiting(Option<String>),
    /// It runs.
    Running,
    /// It is over.
    Ended(Finding),
}

/// What one run on one node has found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) verdict: RawVerdict,
    pub(super) value: Option<f64>,
    pub(super) detail: String,
    /// It was ended from outside.
    pub(super) killed: bool,
}

impl Finding {
    pub(super) fn of(verdict: RawVerdict, detail: impl Into<String>) -> Self {
        Self { verdict, value: None, detail: cut(detail.into()), killed: false }
    }
    pub(super) fn inconclusive(detail: impl Into<String>) -> Self {
        Self::of(RawVerdict::Inconclusive, detail)
    }
    fn killed(detail: impl Into<String>) -> Self {
        Self { killed: true, ..Self::inconclusive(detail) }
    }
}

/// Name of the container whose end is the check's: the first of the template.
pub(super) fn main_container(order: &CheckOrder) -> &str {
    let spec = order.template.as_ref().and_then(|t| t.mapping("spec"));
    let first = spec.and_then(|s| s.get("containers")?.get(0)?.get("name")?.as_str());
    first.unwrap_or("check")
}

/// Judges one pod.
pub(super) fn progress(pod: &PodObject, container: &str) -> Progress {
    let main = pod.containers.iter().find(|c| c.name == container);
    // Evicted, preempted, or its node shut down: whatever it said on its way out is about that.
    let ousted = pod.finished() && !pod.reason.is_empty();
    if let Some((code, signal, message)) = main.and_then(|c| c.terminated.as_ref()) {
        let reason = main.map_or("", |c| &c.reason);
        if ousted {
            return Progress::Ended(Finding::killed(format!("its pod was {}: {}", pod.reason, pod.message)));
        }
        if NOT_ITS_OWN_END.contains(&reason) {
            return Progress::Ended(Finding::killed(format!("its container: {reason} {message}")));
        }
        let by_signal = signal.is_some_and(|s| s != 0) || *code > 128;
        return Progress::Ended(Finding {
            killed: by_signal,
            ..message_of(&CheckMessage::read(*code, *signal, message))
        });
    }
    if pod.finished() {
        let why = pod.trouble().unwrap_or_else(|| "its pod ended without a word".to_owned());
        return Progress::Ended(Finding::killed(why));
    }
    if main.is_some_and(|c| c.running) { Progress::Running } else { Progress::Waiting(pod.trouble()) }
}

fn message_of(message: &CheckMessage) -> Finding {
    let verdict = match message.verdict {
        Verdict::Pass => RawVerdict::Pass,
        Verdict::Fail => RawVerdict::Fail,
        Verdict::Hang => RawVerdict::Hang,
        Verdict::Inconclusive => RawVerdict::Inconclusive,
        Verdict::NotApplicable => RawVerdict::NotApplicable,
    };
    Finding { verdict, value: message.value, detail: cut(message.detail.clone()), killed: false }
}

/// What several pods have found together, for the node that asks.
///
/// Alone: its own. A pair is one finding about the way between two nodes, so the worse of both counts: one side often
/// only serves the other. In a group each node has its own; where it measured nothing, it gets what another did, since
/// collective programs print on their first rank alone.
pub(super) fn together(on: CheckOn, own: Finding, others: &[Finding]) -> Finding {
    let value = own.value.or_else(|| others.iter().find_map(|f| f.value));
    let mut told = own;
    match on {
        CheckOn::Node => return told,
        CheckOn::Pair => {
            if let Some(worse) = others.iter().find(|f| rank(f.verdict) < rank(told.verdict)) {
                told =
                    Finding { detail: cut(format!("on the other node: {}", worse.detail)), ..worse.clone() };
            }
        }
        CheckOn::Group => {}
    }
    if told.verdict == RawVerdict::Pass {
        told.value = value;
    }
    told
}

/// The worst first. A finding weighs more than a broken runner: one is a fact, the other isn't.
pub(super) const fn rank(verdict: RawVerdict) -> u8 {
    match verdict {
        RawVerdict::Fail => 0,
        RawVerdict::Hang => 1,
        RawVerdict::Inconclusive => 2,
        RawVerdict::NotApplicable => 3,
        RawVerdict::Pass => 4,
    }
}

pub(super) fn cut(mut text: String) -> String {
    let mut end = text.len().min(DETAIL_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
