//! Conditions, and bits that both kinds of object share.

use drydock_api::crd::{Condition, ConditionStatus, READY, RECONCILING, STALLED, TEXT_MAX, Target, bounded};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// What an object has to say about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// What is asked for was observed.
    Ready,
    /// drydock works on it.
    Reconciling,
    /// Only a person can go on.
    Stalled,
    /// It is over and didn't come out as asked.
    Over,
}

/// The three conditions for a stand. A time of transition stays while the value does.
pub(super) fn conditions(
    stand: Stand,
    reason: &str,
    message: &str,
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    let of = |kind: &str, is: bool| {
        let status = if is { ConditionStatus::True } else { ConditionStatus::False };
        let kept = before.iter().find(|c| c.kind == kind && c.status == status);
        Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: bounded(message, TEXT_MAX),
            last_transition_time: kept.map_or(now, |c| c.last_transition_time),
            // Stamped when it is sent: only then the generation is known.
            observed_generation: 0,
        }
    };
    vec![
        of(READY, stand == Stand::Ready),
        of(RECONCILING, stand == Stand::Reconciling),
        of(STALLED, stand == Stand::Stalled),
    ]
}

/// A number as custom resources have it.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A target as custom resources have it.
pub(super) fn target(target: &drydock_plan::Target) -> Target {
    Target { release: target.release.to_string(), layout: target.layout.as_ref().map(ToString::to_string) }
}

/// A record as an object. Nulls are left out: an absent field reads back as the same, and appliers differ over nulls.
pub(super) fn record(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).map(without_nulls) {
        Ok(Value::Object(map)) => map,
        // Records are structs with text keys, so this doesn't happen; an object without a record is never read back.
        Ok(_) | Err(_) => Map::new(),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
