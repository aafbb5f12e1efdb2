//! What a check measures: the hardware's value, and all that makes it less.

use drydock_plan::{CheckOrder, NodeId};
use drydock_spec::{CheckClass, CheckName, Period};
use jiff::Timestamp;

use crate::{
    FaultSpec, How,
    ground::Ground,
    health::{bad_versions, names},
    node::NodeState,
};

/// What a good node reaches where its pool states no floor, by class: an eight-GPU NVLink copy, an all-reduce over
/// eight rails, thousands of tokens per second, a plain score.
fn usual(class: CheckClass) -> f64 {
    match class {
        CheckClass::Driver => 460.0,
        CheckClass::Rdma => 380.0,
        CheckClass::Training => 120.0,
        CheckClass::Custom => 100.0,
    }
}

/// The measured value: the usual one, ±1.5 % by node and run, less what slow versions, slow nodes and bad luck cost.
/// Rounded to tenths, so that it survives being written and read.
pub(crate) fn value(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    order: &CheckOrder,
    now: Timestamp,
) -> f64 {
    let base = hardware_value(ground, node, &order.name).unwrap_or_else(|| usual(order.class));
    let run = ground.draw(id, "value").text(order.name.as_str()).text(node.running.id.as_str());
    let noise = 1.0 + 0.03 * (run.number(order.attempt.into()).unit() - 0.5);
    let of_versions: f64 = bad_versions(ground, id, node)
        .map(|how| match how {
            How::Slow { percent, check } if names(check, order) => f64::from(*percent),
            How::SlowsDown { percent, over, check } if names(check, order) => {
                f64::from(*percent) * part(node.changed, *over, now)
            }
            _ => 0.0,
        })
        .sum();
    let of_node: f64 = ground
        .faults
        .iter()
        .map(|fault| match fault {
            FaultSpec::NodeSlows { node, at, percent, over, check } if node == id && names(check, order) => {
                f64::from(*percent) * part(Some(*at), *over, now)
            }
            FaultSpec::Outliers { check, probability, percent } if *check == order.name => {
                let unlucky = run.text("outlier").number(now.as_second().unsigned_abs()).chance(*probability);
                if unlucky { f64::from(*percent) } else { 0.0 }
            }
            _ => 0.0,
        })
        .sum();
    let left = (100.0 - of_versions - of_node).max(0.0) / 100.0;
    (base * noise * left * 10.0).round() / 10.0
}

fn hardware_value(ground: &Ground, node: &NodeState, check: &CheckName) -> Option<f64> {
    ground.pools.get(&node.pool)?.values.get(check).copied()
}

/// The part of `over` that has gone by since, from 0 to 1.
fn part(since: Option<Timestamp>, over: Period, now: Timestamp) -> f64 {
    let Some(since) = since.filter(|since| *since <= now) else { return 0.0 };
    if over == Period::ZERO {
        return 1.0;
    }
    (Period::between(since, now).as_secs_f64() / over.as_secs_f64()).min(1.0)
}
