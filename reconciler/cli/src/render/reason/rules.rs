//! Reasons why something isn't admitted.

use drydock_plan::{BudgetUnitText, GangId, NodeId, PauseReason, RolloutId, SkipReason, UnitId};
use drydock_spec::{
    BudgetName, CalendarName, ClusterName, ComponentName, DomainKey, GatePoint, Period, PoolName, ReleaseId,
    TeamName, WaveName,
};
use jiff::Timestamp;

use super::{count, some};
use crate::render::time::{When, short};

pub(super) fn window(calendar: &CalendarName, window: &str, opens: Option<Timestamp>, when: &When) -> String {
    match opens {
        Some(at) => format!("window {window} (calendar {calendar}) opens {}", when.full(at)),
        None => format!("window {window} (calendar {calendar}) never opens"),
    }
}

pub(super) fn window_too_short(
    window: &str,
    closes: Timestamp,
    needs: Period,
    opens: Option<Timestamp>,
    when: &When,
) -> String {
    let next = opens.map_or(String::new(), |at| format!("; opens again {}", when.full(at)));
    format!("window {window} closes {}, and a node usually needs {}{next}", when.full(closes), short(needs))
}

pub(super) fn freeze(calendar: &CalendarName, freeze: &str, until: Timestamp, when: &When) -> String {
    format!("freeze {freeze} (calendar {calendar}) until {}", when.full(until))
}

pub(super) fn lease_ends(at: Timestamp, when: &When) -> String {
    format!("the pool's capacity ends {}, before a node would be back", when.full(at))
}

fn of_each(each: Option<&str>) -> String {
    each.map_or(String::new(), |each| format!(" for {each}"))
}

fn unit_word(unit: BudgetUnitText, n: u32) -> &'static str {
    match (unit, n) {
        (BudgetUnitText::Nodes, 1) => "node",
        (BudgetUnitText::Nodes, _) => "nodes",
        (BudgetUnitText::Gpus, 1) => "GPU",
        (BudgetUnitText::Gpus, _) => "GPUs",
    }
}

pub(super) fn budget_in_flight(
    budget: &BudgetName,
    each: Option<&str>,
    unit: BudgetUnitText,
    (limit, used, adds): (u32, u32, u32),
    held_by: &[NodeId],
) -> String {
    let away = match held_by {
        [] => String::new(),
        nodes => format!("; away: {}", some(nodes, 3)),
    };
    let (each, word) = (of_each(each), unit_word(unit, limit));
    format!("budget {budget}{each}: {used} of {limit} {word} in flight, this would add {adds}{away}")
}

/// Numbers of a floor.
pub(super) struct Floor {
    pub(super) floor: u32,
    pub(super) available: u32,
    pub(super) broken: u32,
    pub(super) missing: u32,
    pub(super) spared: u32,
    pub(super) adds: u32,
}

pub(super) fn budget_floor(
    budget: &BudgetName,
    each: Option<&str>,
    unit: BudgetUnitText,
    numbers: Floor,
) -> String {
    let Floor { floor, available, broken, missing, spared, adds } = numbers;
    let (each, word) = (of_each(each), unit_word(unit, available));
    let broken = match (broken, missing) {
        (0, _) => String::new(),
        (n, 0) => format!("; {n} broken, {spared} of them not charged"),
        (n, m) => format!("; {n} broken, {m} of them not there at all, {spared} not charged"),
    };
    format!(
        "budget {budget}{each}: {available} {word} available, {floor} must stay, this would take {adds}{broken}"
    )
}

pub(super) fn spread(key: DomainKey, domain: &str, limit: u32, used: u32) -> String {
    format!("spread over {}: {used} of {limit} of {domain} are away", key.as_str())
}

pub(super) fn gang(gang: &GangId, nodes: u32, inside: u32, ends: Option<Timestamp>, when: &When) -> String {
    let end = ends.map_or(String::new(), |at| format!("; it should end {}", when.full(at)));
    format!(
        "job {gang} runs on {} and only {inside} of them may go now; all of its nodes move together{end}",
        count(nodes, "node")
    )
}

pub(super) fn unknown_gang(gang: &GangId) -> String {
    format!("a pod of job {gang} runs on it, and which other nodes that job is on can't be seen")
}

pub(super) fn two_pools(pools: &[PoolName], stays: Option<&PoolName>) -> String {
    let names: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
    let stays = stays.map_or("it is in none of them".to_owned(), |pool| format!("it stays in {pool}"));
    format!(
        "the selectors of pools {} match it; {stays} until a label of it or a nodeSelector is changed",
        names.join(" and ")
    )
}

pub(super) fn unexplained_cordon() -> String {
    "it carries drydock's cordon and no record says that it may serve; it is checked before it is returned"
        .to_owned()
}

pub(super) fn foreign_cordon(by: &str) -> String {
    format!("cordoned by {by}, which is not drydock's to lift")
}

pub(super) fn not_ready(since: Timestamp, when: &When) -> String {
    format!("not ready for {}", when.since(since))
}

pub(super) fn cluster_unreachable(
    cluster: &ClusterName,
    since: Timestamp,
    error: &str,
    when: &When,
) -> String {
    format!("cluster {cluster} hasn't answered for {}: {error}", when.since(since))
}

pub(super) fn held_by(rollout: &RolloutId) -> String {
    format!("rollout {rollout} holds it")
}

pub(super) fn cluster_component(component: &ComponentName, held_by: &NodeId) -> String {
    format!("{held_by} is changing {component}, which the cluster has once")
}

pub(super) fn suspect_unsettled(node: &NodeId) -> String {
    format!("{node} failed and it isn't settled yet whether the version is to blame; nothing else starts")
}

pub(super) fn batch_full(batch: u32, size: u32, unsettled: u32) -> String {
    if unsettled == 0 {
        return format!("batch {batch} is full: {} at once", count(size, "unit"));
    }
    format!("batch {batch} is full: {unsettled} of {} still in progress", count(size, "unit"))
}

pub(super) fn batch_soak(batch: u32, until: Timestamp, when: &When) -> String {
    format!("batch {batch} soaks until {}", when.full(until))
}

pub(super) fn wave_pending(wave: &WaveName, after: &WaveName) -> String {
    if wave == after {
        // It is its own turn, and something else holds it back.
        return format!("wave {wave} hasn't begun");
    }
    format!("wave {wave} begins after wave {after}")
}

pub(super) fn wave_soak(wave: &WaveName, until: Timestamp, when: &When) -> String {
    format!("wave {wave} soaks until {}", when.full(until))
}

pub(super) fn wave_node_hours(wave: &WaveName, have: u32, need: u32) -> String {
    format!("wave {wave} has gathered {have} of {need} node-hours")
}

pub(super) fn wave_jobs(wave: &WaveName, have: u32, need: u32) -> String {
    format!("wave {wave} has seen {have} of {need} jobs end well")
}

pub(super) fn approval(wave: &WaveName, gate: GatePoint, team: &TeamName, given: u32, needed: u32) -> String {
    let side = match gate {
        GatePoint::Before => "before",
        GatePoint::After => "after",
    };
    format!("approval by team {team} {side} wave {wave}: {given} of {needed} given")
}

pub(super) fn cluster_limit(limit: u32, in_flight: &[ClusterName]) -> String {
    format!("{} at once, now {}", count(limit, "cluster"), some(in_flight, 3))
}

pub(super) fn head_of_line(unit: &UnitId, since: Timestamp, when: &When) -> String {
    format!("{unit} goes first: it has been passed over for {}", when.since(since))
}

pub(super) fn cooldown(until: Timestamp, when: &When) -> String {
    format!("given back and left alone until {}", when.full(until))
}

pub(super) fn settling(until: Timestamp, when: &When) -> String {
    format!("it has only just become ready; looked at again {}", when.full(until))
}

pub(super) fn left_out(why: &SkipReason, until: Timestamp, when: &When) -> String {
    format!("left out: {}; tried again {}", why.text(), when.full(until))
}

pub(super) fn release_quarantined(release: &ReleaseId, rollout: &RolloutId) -> String {
    format!(
        "release {release} was rolled back in {rollout}; to try anyway: drydock retry {release} --reason \"…\""
    )
}

pub(super) fn node_quarantined(since: Timestamp, rollout: &RolloutId, when: &When) -> String {
    format!(
        "quarantined {} in {rollout}; to try anyway: drydock retry NODE --reason \"…\"",
        when.relative(since)
    )
}

pub(super) fn skipped_by_control() -> String {
    "a person said to leave it out".to_owned()
}

pub(super) fn preexisting_failure(until: Timestamp, when: &When) -> String {
    format!("it failed its checks before the change; tried again {}", when.full(until))
}

pub(super) fn drift_held(running: &ReleaseId, wanted: &ReleaseId) -> String {
    format!("somebody changed it to {running} by hand and the policy holds drift; Git says {wanted}")
}

pub(super) fn paused(why: &PauseReason) -> String {
    match why {
        PauseReason::Control { by } => format!("the rollout is paused by {by}"),
        PauseReason::Inconclusive { node, detail } => {
            format!("the rollout is paused: checks can't be run on {node} ({detail})")
        }
        PauseReason::Deadline => "the rollout is paused: it runs longer than its policy allows".to_owned(),
        PauseReason::NothingPassed { wave, detail } => format!(
            "the rollout is paused: nobody has passed wave {wave} ({detail}); mend what keeps its nodes out, or say \
             resume to go on"
        ),
        PauseReason::Aborting { by } => {
            format!("the rollout is being ended by {by}; what is half done finishes first")
        }
    }
}

pub(super) fn halted(since: Timestamp, in_flight: u32, when: &When) -> String {
    format!("the rollout halted {}; {} still in flight", when.relative(since), count(in_flight, "node"))
}

pub(super) fn rejected(why: &str) -> String {
    format!("it can never work as written: {why}")
}

pub(super) fn layout_quarantined(layout: &str, rollout: &RolloutId) -> String {
    format!(
        "layout {layout} failed in rollout {rollout} and isn't tried again here until it changes or someone says retry"
    )
}
pub(super) fn incompatible(why: &str) -> String {
    format!("what is in the node and the release don't go together: {why}; it isn't touched")
}
pub(super) fn aborted_before(rollout: &RolloutId, by: Option<&str>, release: Option<&ReleaseId>) -> String {
    let by = by.map_or(String::new(), |by| format!(" by {by}"));
    let release = release.map_or("RELEASE".to_owned(), ToString::to_string);
    format!(
        "rollout {rollout} to the same target was aborted{by}; to start it again: drydock retry {release} --reason \"…\", \
         or a commit with another target"
    )
}

pub(super) fn no_policy(pool: &PoolName) -> String {
    format!("no RolloutPolicy selects pool {pool}, so nothing moves it; add the pool to `select` of one")
}

pub(super) fn left_to_others(
    component: &ComponentName,
    running: Option<&str>,
    wanted: Option<&str>,
) -> String {
    match (running, wanted) {
        (Some(running), None) => format!(
            "{component} {running} runs and the release doesn't name it; drydock leaves it: name it in the release, or \
             uninstall it"
        ),
        (Some(running), Some(wanted)) if running == wanted => format!(
            "{component} {running} runs with another image or other settings than Git says; drydock only observes it \
             here, so its owner has to change it"
        ),
        (Some(running), Some(wanted)) => format!(
            "{component} {running} runs and Git says {wanted}; drydock only observes it here, so its owner has to \
             change it"
        ),
        (None, wanted) => format!(
            "{component} doesn't run and Git says {}; drydock only observes it here, so its owner has to install it",
            wanted.unwrap_or("nothing")
        ),
    }
}

pub(super) fn control_names_nothing(control: &str, what: &str) -> String {
    format!("RolloutControl {control} names {what}, which doesn't exist; nothing comes of it")
}
