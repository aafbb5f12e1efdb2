//! A label that an agent on the node acts on and answers with another.

use drydock_plan::Blocker;
use drydock_spec::LabelDelivery;

use super::super::{Effort, Outcome, View};
use super::{Item, LOOK, asked, label_call};

/// What a value of the state label means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Done,
    Failed,
    Working,
}

/// What the agent says. Values that the document doesn't name mean work; `success` and `failed` mean what they say,
/// since that is what the MIG manager uses.
pub(crate) fn meaning(label: &LabelDelivery, state: Option<&str>) -> Meaning {
    let Some(state) = state else { return Meaning::Working };
    match label.states.get(state).map_or(state, String::as_str) {
        "done" | "success" => Meaning::Done,
        "failed" => Meaning::Failed,
        _ => Meaning::Working,
    }
}

/// See [`super::applied`].
pub(super) fn applied(
    view: &View<'_>,
    effort: &mut Effort,
    item: Item<'_>,
    label: &LabelDelivery,
) -> Outcome {
    wanted(view, effort, label, item.version.map(|v| v.version.as_str()), item.attempt)
}

/// The agent's label has this value, and the agent says that it is so.
pub(crate) fn wanted(
    view: &View<'_>,
    effort: &mut Effort,
    label: &LabelDelivery,
    value: Option<&str>,
    attempt: u32,
) -> Outcome {
    let state = view.node.meta.label(&label.state);
    if let Some(call) = label_call(view, &label.set, value) {
        // The state that stands beside the old value says nothing about the new one.
        effort.notes.insert("before".to_owned(), (view.now, state.unwrap_or_default().to_owned()));
        return asked(view, effort, call);
    }
    if value.is_none() {
        return Outcome::done();
    }
    match meaning(label, state) {
        Meaning::Done => {
            // An agent takes a moment to see its label; a "done" that stood there before is believed only after it had
            // that moment, or when nothing was changed.
            let before = effort.notes.get("before").cloned();
            let stale = before.is_some_and(|(at, text)| {
                state == Some(text.as_str()) && view.now.duration_since(at) < AGENT_SEES_WITHIN
            });
            if stale {
                return Outcome::working(Vec::new()).again(view.now, AGENT_SEES_WITHIN);
            }
            Outcome::done()
        }
        Meaning::Failed => {
            let stale = effort.notes.get("before").is_some_and(|(at, text)| {
                state == Some(text.as_str()) && view.now.duration_since(*at) < AGENT_SEES_WITHIN
            });
            if stale || attempt > 1 && effort.since("again", view.now) == view.now {
                return Outcome::working(Vec::new()).again(view.now, AGENT_SEES_WITHIN);
            }
            Outcome::failed(format!("{} is {}", label.state, state.unwrap_or_default()))
        }
        Meaning::Working => {
            let text = format!("{} is {}", label.state, state.unwrap_or("not set"));
            Outcome::blocked(0, Blocker::NotReady(text)).again(view.now, LOOK)
        }
    }
}

/// An agent that watches its node sees a changed label within a second; this is many times that.
const AGENT_SEES_WITHIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
