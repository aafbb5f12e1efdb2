//! What checks find: the fault model. Pure functions of a node's truth.

use drydock_plan::{ApplyItem, CheckOrder, NodeId, RawVerdict};
use drydock_spec::{CheckClass, CheckOn, ComponentName, Period, Version};
use jiff::Timestamp;

use crate::{
    BadNodeHow, Breaks, FaultSpec, How, ground::Ground, measure, node::Change, node::NodeState, node::Wedge,
};

/// How a run of a check will go, as known when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// It runs to its end.
    Ends,
    /// The thing under test hangs until the time limit.
    Hangs,
    /// It never begins.
    NeverStarts,
}

/// What a run that ended says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    pub(crate) verdict: RawVerdict,
    pub(crate) value: Option<f64>,
    pub(crate) detail: String,
}

/// How an application of a part will go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApplyCourse {
    /// It is in place at the end.
    Comes,
    /// It never ends.
    Never,
    /// It ends badly.
    Fails(String, Leaves),
}

/// What is there after an application that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Neither the old part nor the new one.
    Nothing,
    /// The old part, as it was.
    Old,
    /// The new part, and it doesn't work.
    Half,
}

pub(crate) fn names(pick: &str, order: &CheckOrder) -> bool {
    pick == order.class.as_str() || pick == order.name.as_str()
}

/// The ways in which what runs on a node is bad.
pub(crate) fn bad_versions<'g>(
    ground: &'g Ground,
    id: &'g NodeId,
    node: &'g NodeState,
) -> impl Iterator<Item = &'g How> {
    ground.faults.iter().filter_map(move |fault| match fault {
        FaultSpec::BadVersion { component, version, place, how } => {
            let runs = node.running.vector.get(component).is_some_and(|v| v.version == *version);
            (runs && ground.holds(place, id, node)).then_some(how)
        }
        FaultSpec::BadLayout { layout, place, how } => {
            let cut = node.layout.as_ref().and_then(|l| ground.layouts.get(l)) == Some(layout);
            (cut && ground.holds(place, id, node)).then_some(how)
        }
        _ => None,
    })
}

/// How an application will go.
pub(crate) fn apply_course(ground: &Ground, id: &NodeId, node: &NodeState, change: &Change) -> ApplyCourse {
    for fault in &ground.faults {
        let how = match (fault, change) {
            (
                FaultSpec::BadVersion { component, version, place, how },
                Change::Component { component: c, version: Some(v), .. },
            ) if c == component && v.version == *version && ground.holds(place, id, node) => how,
            (FaultSpec::BadLayout { layout, place, how }, Change::Layout { layout: l, .. })
                if ground.layouts.get(l) == Some(layout) && ground.holds(place, id, node) =>
            {
                how
            }
            (FaultSpec::BadNode { node: bad, how: BadNodeHow::ApplyFails, breaks, .. }, _)
                if bad == id && is_broken(*breaks, node, None) =>
            {
                return fails("install failed: input/output error", Leaves::Nothing);
            }
            _ => continue,
        };
        match how {
            How::NotReady | How::Hangs | How::NotFound => return ApplyCourse::Never,
            How::CrashLoops => {
                return fails("back-off restarting failed container, exit code 1", Leaves::Nothing);
            }
            How::FailsEarly => return fails("pre-install: unsupported platform", Leaves::Old),
            How::FailsHalfway => return fails("modprobe: invalid argument", Leaves::Half),
            How::LosesNode { .. }
            | How::ReadyButBroken { .. }
            | How::HangsInCheck { .. }
            | How::Slow { .. }
            | How::SlowsDown { .. }
            | How::Wedges
            | How::Bricks
            | How::Flaps { .. }
            | How::FaultsLater { .. } => {}
        }
    }
    if node.wedged == Some(Wedge::Installs) {
        return fails("the GPUs don't answer; install failed", Leaves::Nothing);
    }
    ApplyCourse::Comes
}

fn fails(message: &str, leaves: Leaves) -> ApplyCourse {
    ApplyCourse::Fails(message.to_owned(), leaves)
}

/// `now` is absent where only what happened to the node counts.
fn is_broken(breaks: Breaks, node: &NodeState, now: Option<Timestamp>) -> bool {
    match breaks {
        Breaks::Always => true,
        Breaks::AtApply => node.struck,
        Breaks::At(at) => now.is_none_or(|now| now >= at),
    }
}

/// How a run of a check will go.
pub(crate) fn course(ground: &Ground, id: &NodeId, node: &NodeState, order: &CheckOrder) -> Course {
    let here = |one: &Option<NodeId>| one.as_ref().is_none_or(|n| n == id);
    for fault in &ground.faults {
        match fault {
            FaultSpec::NeverStartsCheck { check, node } if *check == order.name && here(node) => {
                return Course::NeverStarts;
            }
            FaultSpec::HungCheck { check, node } if *check == order.name && here(node) => {
                return Course::Hangs;
            }
            _ => {}
        }
    }
    let hangs = |how: &How| matches!(how, How::HangsInCheck { check } if names(check, order));
    if bad_versions(ground, id, node).any(hangs) { Course::Hangs } else { Course::Ends }
}

/// What is wrong with a node that checks of this class and name see.
fn symptom(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    order: &CheckOrder,
    now: Timestamp,
) -> Option<String> {
    if let Some(part) = node.dead.iter().next() {
        let part = match part {
            ApplyItem::Component(name) => name.as_str(),
            ApplyItem::Layout => "the layout",
        };
        return Some(format!("{part} isn't in place; no devices are advertised"));
    }
    if node.wedged.is_some() && order.class == CheckClass::Driver {
        return Some("GSP firmware doesn't answer (Xid 119)".to_owned());
    }
    let gpu = ground.draw(id, "bad gpu").between(0, u64::from(ground.gpus(&node.pool).saturating_sub(1)));
    for how in bad_versions(ground, id, node) {
        if let How::ReadyButBroken { check } = how
            && names(check, order)
        {
            return Some(match order.class {
                CheckClass::Driver => format!("wrong result on GPU {gpu} (expected 1048576, got 0)"),
                CheckClass::Rdma => format!("remote write to rail {gpu}: work completion error 12"),
                CheckClass::Training => "loss is not a number at step 3".to_owned(),
                CheckClass::Custom => "exit code 1".to_owned(),
            });
        }
    }
    for fault in &node.faults {
        let rail = fault.kind.starts_with("rail");
        let seen = match order.class {
            CheckClass::Driver => !rail,
            CheckClass::Rdma => rail,
            CheckClass::Training => true,
            CheckClass::Custom => false,
        };
        if seen {
            return Some(format!("{} since {}", fault.kind, fault.since));
        }
    }
    ground.faults.iter().find_map(|fault| match fault {
        FaultSpec::BadNode { node: bad, how: BadNodeHow::CheckFails, class, breaks } => {
            let class = class.unwrap_or(CheckClass::Driver);
            (bad == id && class == order.class && is_broken(*breaks, node, Some(now)))
                .then(|| format!("wrong result on GPU {gpu} (expected 1048576, got 524288)"))
        }
        FaultSpec::RdmaPartnerBroken { node: bad } if bad == id && order.class == CheckClass::Rdma => {
            Some("link down on rail 0".to_owned())
        }
        _ => None,
    })
}

/// What a run that ends says. `partner` is the truth about the other node of a pair.
pub(crate) fn finding(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    order: &CheckOrder,
    partner: Option<(&NodeId, Option<&NodeState>)>,
    now: Timestamp,
) -> Finding {
    let none = |verdict, detail: String| Finding { verdict, value: None, detail };
    let broken_runner = ground.faults.iter().any(|fault| match fault {
        FaultSpec::BrokenRunner { check, node, from, to } => {
            *check == order.name
                && node.as_ref().is_none_or(|n| n == id)
                && from.is_none_or(|from| now >= from)
                && to.is_none_or(|to| now < to)
        }
        _ => false,
    });
    if broken_runner {
        return none(RawVerdict::Inconclusive, "the check's image can't be pulled".to_owned());
    }
    let rails = ground.pools.get(&node.pool).map_or(0, |hardware| hardware.rails);
    if order.class == CheckClass::Rdma && rails == 0 {
        return none(RawVerdict::NotApplicable, "the pool has no RDMA rails".to_owned());
    }
    if let Some(text) = symptom(ground, id, node, order, now) {
        return none(RawVerdict::Fail, text);
    }
    match (order.on, partner) {
        (CheckOn::Pair, Some((other, state))) => match state {
            Some(state) if state.present && state.ready && !state.busy() => {
                if let Some(text) = symptom(ground, other, state, order, now) {
                    return none(RawVerdict::Fail, format!("with {other}: {text}"));
                }
            }
            Some(_) | None => {
                return none(RawVerdict::Inconclusive, format!("partner {other} doesn't answer"));
            }
        },
        (CheckOn::Node | CheckOn::Pair | CheckOn::Group, _) => {}
    }
    let value = measure::value(ground, id, node, order, now);
    Finding { verdict: RawVerdict::Pass, value: Some(value), detail: format!("passed with {value}") }
}

/// What a node suffers because of what was just put on it: being lost, and faults that come later.
pub(crate) fn after_apply(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    item: &ApplyItem,
) -> Vec<Consequence> {
    let about = |fault: &FaultSpec| match (fault, item) {
        (FaultSpec::BadVersion { component, .. }, ApplyItem::Component(name)) => component == name,
        (FaultSpec::BadLayout { .. }, ApplyItem::Layout) => true,
        _ => false,
    };
    if !ground.faults.iter().any(about) {
        return Vec::new();
    }
    bad_versions(ground, id, node)
        .filter_map(|how| match how {
            How::LosesNode { back_after } => Some(Consequence::Lost { back_after: *back_after }),
            How::FaultsLater { kind, after } => {
                Some(Consequence::Fault { kind: kind.clone(), after: *after })
            }
            How::Wedges => Some(Consequence::Wedged(Wedge::Checks)),
            How::Bricks => Some(Consequence::Wedged(Wedge::Installs)),
            How::Flaps { every, times, .. } => Some(Consequence::Flaps { every: *every, times: *times }),
            How::NotReady
            | How::Hangs
            | How::CrashLoops
            | How::FailsEarly
            | How::FailsHalfway
            | How::NotFound
            | How::ReadyButBroken { .. }
            | How::HangsInCheck { .. }
            | How::Slow { .. }
            | How::SlowsDown { .. } => None,
        })
        .collect()
}

/// What follows from a part that was put on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consequence {
    Lost { back_after: Option<Period> },
    Fault { kind: String, after: Period },
    Wedged(Wedge),
    Flaps { every: Period, times: u32 },
}

/// For how long what runs on a node takes its readiness away, if it does.
pub(crate) fn flaps(ground: &Ground, id: &NodeId, node: &NodeState) -> Option<Period> {
    bad_versions(ground, id, node).find_map(|how| match how {
        How::Flaps { down, .. } => Some(*down),
        _ => None,
    })
}

/// What runs on the node wedges it, as soon as it is loaded.
pub(crate) fn wedges(ground: &Ground, id: &NodeId, node: &NodeState) -> Option<Wedge> {
    bad_versions(ground, id, node).find_map(|how| match how {
        How::Wedges => Some(Wedge::Checks),
        How::Bricks => Some(Wedge::Installs),
        _ => None,
    })
}

/// A pod that can't leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) until: Option<Timestamp>,
    pub(crate) refused: bool,
}

/// Pods of a node that can't leave now.
pub(crate) fn stuck_pods(ground: &Ground, id: &NodeId, now: Timestamp) -> Vec<Stuck> {
    let stuck = |fault: &FaultSpec| match fault {
        FaultSpec::PodNeverTerminates { node, until } if node == id => {
            Some(Stuck { until: *until, refused: false })
        }
        FaultSpec::PdbBlocks { node, until } if node == id => Some(Stuck { until: *until, refused: true }),
        _ => None,
    };
    let still = |stuck: &Stuck| stuck.until.is_none_or(|until| until > now);
    ground.faults.iter().filter_map(stuck).filter(still).collect()
}

/// How much longer pods of a node take to leave.
pub(crate) fn slow_drain(ground: &Ground, id: &NodeId) -> Period {
    let slow = |fault: &FaultSpec| match fault {
        FaultSpec::SlowDrain { node, by } if node == id => Some(*by),
        _ => None,
    };
    ground.faults.iter().filter_map(slow).fold(Period::ZERO, Period::saturating_add)
}

/// A version that runs on the node causes this fault sooner or later.
pub(crate) fn causes(ground: &Ground, id: &NodeId, node: &NodeState, fault: &str) -> bool {
    bad_versions(ground, id, node).any(|how| matches!(how, How::FaultsLater { kind, .. } if kind == fault))
}

/// Kinds of hardware fault and their weights: 148 GPU, 72 memory and 35 network interruptions of a published run on
/// 16,384 GPUs (Llama 3 training report).
pub(crate) const SPONTANEOUS: [(&str, u64); 4] =
    [("xid-79", 74), ("xid-48", 74), ("xid-95", 72), ("rail-missing", 35)];

/// The name under which a node keeps an artefact.
pub(crate) fn artifact(component: &ComponentName, version: &Version) -> String {
    format!("{component}={version}")
}

/// Since when the artefacts of a version are on a node, or from when on they can be.
pub(crate) fn pulled_at(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    component: &ComponentName,
    version: &Version,
    now: Timestamp,
) -> Timestamp {
    if has_artifact(node, component, version) {
        return now;
    }
    let ends = |fault: &FaultSpec| match fault {
        FaultSpec::RegistryAway { cluster, at, length }
            if cluster.as_ref().is_none_or(|c| c.as_str() == id.cluster()) && *at <= now =>
        {
            Some(length.after(*at))
        }
        _ => None,
    };
    ground.faults.iter().filter_map(ends).fold(now, Timestamp::max)
}

/// Why a version can't be pulled now, where it can't.
pub(crate) fn cannot_pull(
    ground: &Ground,
    id: &NodeId,
    node: &NodeState,
    component: &ComponentName,
    version: &Version,
    now: Timestamp,
) -> Option<String> {
    let name = artifact(component, version);
    let nowhere = ground.faults.iter().any(|fault| match fault {
        FaultSpec::BadVersion { component: c, version: v, place, how: How::NotFound } => {
            c == component && v == version && ground.holds(place, id, node)
        }
        _ => false,
    });
    if nowhere && !has_artifact(node, component, version) {
        return Some(format!("{name} can't be pulled: not found"));
    }
    let away = pulled_at(ground, id, node, component, version, now) > now;
    away.then(|| format!("{name} can't be pulled: dial tcp: i/o timeout"))
}

/// What runs on a node, or came with its image, was pulled once.
fn has_artifact(node: &NodeState, component: &ComponentName, version: &Version) -> bool {
    let of = |stack: &drydock_plan::Stack| stack.vector.get(component).is_some_and(|v| v.version == *version);
    of(&node.running) || of(&node.image) || node.fetched.contains(&artifact(component, version))
}
