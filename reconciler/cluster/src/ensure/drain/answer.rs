//! What the API server's "no" to an eviction means.

use drydock_plan::Blocker;
use http::StatusCode;

use crate::client::{CallError, Refusal};
use crate::ensure::Asked;
use crate::ensure::Ended;
use crate::objects::PodObject;

/// What became of asking for a pod's eviction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// Nothing stands in the way: not asked yet, under way, granted, gone already, or a hiccup.
    Free,
    /// It is refused for now.
    Blocked(Blocker),
    /// It can never work.
    Never(String),
}

/// Failures in a row that aren't taken for a hiccup any more. With pauses of 1, 2 and 4 s: seven seconds.
const HICCUPS: u32 = 3;

/// Longest text handed on.
const TEXT_MAX: usize = 300;

pub(super) fn read(asked: Option<&Asked>, pod: &PodObject) -> Answer {
    let Some(asked) = asked else { return Answer::Free };
    let Some(Ended::Badly(error)) = &asked.ended else { return Answer::Free };
    let name = format!("{}/{}", pod.meta.namespace, pod.meta.name);
    match error {
        CallError::Refused(refusal) => refused(refusal, asked.failures, &name, &pod.meta.namespace),
        CallError::NotLeading | CallError::Open(_) => Answer::Free,
        CallError::Timeout(_) | CallError::Transport(_) | CallError::Malformed(_) => {
            lasting(asked.failures, &name, &error.to_string())
        }
    }
}

fn refused(refusal: &Refusal, failures: u32, name: &str, namespace: &str) -> Answer {
    match refusal.status {
        // Gone, or made anew under the same name: what is seen next decides.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Answer::Free,
        StatusCode::TOO_MANY_REQUESTS => match budget(refusal) {
            Some(budget) => Answer::Blocked(Blocker::DisruptionBudget(format!("{namespace}/{budget}"))),
            // The API server is busy; it says when to come back.
            None => lasting(failures, name, &refusal.to_string()),
        },
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            let hint = if refusal.message.contains("admission webhook") {
                ""
            } else {
                "; drydock needs the verb create on pods/eviction"
            };
            Answer::Blocked(Blocker::Refused(format!(
                "evicting {name} isn't allowed{hint}: {}",
                cut(&refusal.message)
            )))
        }
        status
            if status.is_server_error() && refusal.message.contains("more than one PodDisruptionBudget") =>
        {
            Answer::Never(format!(
                "{name} is covered by more than one PodDisruptionBudget, so no eviction of it is ever granted; \
                 change the selectors of the budgets in {namespace} so that one covers it"
            ))
        }
        _ => lasting(failures, name, &refusal.to_string()),
    }
}

fn lasting(failures: u32, name: &str, text: &str) -> Answer {
    if failures < HICCUPS {
        return Answer::Free;
    }
    Answer::Blocked(Blocker::Refused(format!("evicting {name} fails: {}", cut(text))))
}

/// Name of the budget that refuses: `The disruption budget NAME needs 4 healthy pods and has 4 currently`.
fn budget(refusal: &Refusal) -> Option<String> {
    let texts = refusal.causes.iter().map(|(_, text)| text).chain([&refusal.message]);
    let named = texts.filter_map(|text| {
        let (_, rest) = text.split_once("disruption budget ")?;
        let name = rest.split_whitespace().next()?;
        Some(name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned())
    });
    let by_cause = refusal.causes.iter().any(|(reason, _)| reason == "DisruptionBudget");
    // A version that words it otherwise still says by its cause what kind of refusal it is.
    named.into_iter().find(|n| !n.is_empty()).or_else(|| {
        (by_cause || refusal.message.contains("disruption budget")).then(|| "(unnamed)".to_owned())
    })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
