//! Reasons in words. The one place where a reason becomes a sentence: `why`, `status`, `rollouts`, `demo` and `plan`
//! all say it alike. Each sentence names the thing, its number and its time.

mod course;
mod gather;
mod rules;

use drydock_plan::Reason;

pub(crate) use gather::gathered;

use super::time::When;

/// A reason as a sentence without its full stop.
pub(crate) fn sentence(reason: &Reason, when: &When) -> String {
    match reason {
        Reason::Window { calendar, window, opens } => rules::window(calendar, window, *opens, when),
        Reason::WindowTooShort { calendar: _, window, closes, needs, opens } => {
            rules::window_too_short(window, *closes, *needs, *opens, when)
        }
        Reason::Freeze { calendar, freeze, until } => rules::freeze(calendar, freeze, *until, when),
        Reason::LeaseEnds { at } => rules::lease_ends(*at, when),
        Reason::BudgetInFlight { budget, each, unit, limit, used, adds, held_by } => {
            rules::budget_in_flight(budget, each.as_deref(), *unit, (*limit, *used, *adds), held_by)
        }
        Reason::BudgetFloor { budget, each, unit, floor, available, broken, missing, spared, adds } => {
            let numbers = rules::Floor {
                floor: *floor,
                available: *available,
                broken: *broken,
                missing: *missing,
                spared: *spared,
                adds: *adds,
            };
            rules::budget_floor(budget, each.as_deref(), *unit, numbers)
        }
        Reason::Spread { key, domain, limit, used } => rules::spread(*key, domain, *limit, *used),
        Reason::Gang { gang, nodes, inside, ends } => rules::gang(gang, *nodes, *inside, *ends, when),
        Reason::UnknownGang { gang } => rules::unknown_gang(gang),
        Reason::TwoPools { pools, stays } => rules::two_pools(pools, stays.as_ref()),
        Reason::UnexplainedCordon {} => rules::unexplained_cordon(),
        Reason::ForeignCordon { by } => rules::foreign_cordon(by),
        Reason::NotReady { since } => rules::not_ready(*since, when),
        Reason::ClusterUnreachable { cluster, since, error } => {
            rules::cluster_unreachable(cluster, *since, error, when)
        }
        Reason::HeldBy { rollout } => rules::held_by(rollout),
        Reason::ClusterComponent { component, held_by } => rules::cluster_component(component, held_by),
        Reason::SuspectUnsettled { node } => rules::suspect_unsettled(node),
        Reason::BatchFull { batch, size, unsettled } => rules::batch_full(*batch, *size, *unsettled),
        Reason::BatchSoak { batch, until } => rules::batch_soak(*batch, *until, when),
        Reason::WavePending { wave, after } => rules::wave_pending(wave, after),
        Reason::WaveSoak { wave, until } => rules::wave_soak(wave, *until, when),
        Reason::WaveNodeHours { wave, have, need } => rules::wave_node_hours(wave, *have, *need),
        Reason::WaveJobs { wave, have, need } => rules::wave_jobs(wave, *have, *need),
        Reason::Approval { wave, gate, team, given, needed } => {
            rules::approval(wave, *gate, team, *given, *needed)
        }
        Reason::ClusterLimit { limit, in_flight } => rules::cluster_limit(*limit, in_flight),
        Reason::HeadOfLine { unit, since } => rules::head_of_line(unit, *since, when),
        Reason::Cooldown { until } => rules::cooldown(*until, when),
        Reason::Settling { until } => rules::settling(*until, when),
        Reason::LeftOut { why, until } => rules::left_out(why, *until, when),
        Reason::ReleaseQuarantined { release, rollout } => rules::release_quarantined(release, rollout),
        Reason::LayoutQuarantined { layout, rollout } => rules::layout_quarantined(layout, rollout),
        Reason::NodeQuarantined { since, rollout } => rules::node_quarantined(*since, rollout, when),
        Reason::SkippedByControl {} => rules::skipped_by_control(),
        Reason::PreexistingFailure { until } => rules::preexisting_failure(*until, when),
        Reason::DriftHeld { running, wanted } => rules::drift_held(running, wanted),
        Reason::Paused { why } => rules::paused(why),
        Reason::Halted { since, in_flight } => rules::halted(*since, *in_flight, when),
        Reason::Rejected { why } => rules::rejected(why),
        Reason::Incompatible { why } => rules::incompatible(why),
        Reason::AbortedBefore { rollout, by, release } => {
            rules::aborted_before(rollout, by.as_deref(), release.as_ref())
        }
        Reason::NoPolicy { pool } => rules::no_policy(pool),
        Reason::LeftToOthers { component, running, wanted } => {
            rules::left_to_others(component, running.as_deref(), wanted.as_deref())
        }
        Reason::ControlNamesNothing { control, what } => rules::control_names_nothing(control, what),
        Reason::InventoryOlderThanPlan {} => course::inventory_older_than_plan(),
        Reason::Preflight { blocked_by, until } => course::preflight(blocked_by.as_ref(), *until, when),
        Reason::Cordoning { blocked_by, until } => course::cordoning(blocked_by.as_ref(), *until, when),
        Reason::Checkpoint { gangs, blocked_by, until } => {
            course::checkpoint(gangs, blocked_by.as_ref(), *until, when)
        }
        Reason::Draining { remaining, blocked_by, until } => {
            course::draining(*remaining, blocked_by.as_ref(), *until, when)
        }
        Reason::Applying { what, attempt, blocked_by, until } => {
            course::applying(what, *attempt, blocked_by.as_ref(), *until, when)
        }
        Reason::Checking { attempt, blocked_by, until } => {
            course::checking(*attempt, blocked_by.as_ref(), *until, when)
        }
        Reason::Backoff { attempt, until } => course::backoff(*attempt, *until, when),
        Reason::UnitBarrier { unit, waits_for } => course::unit_barrier(unit, waits_for),
        Reason::Lost { since, until } => course::lost(*since, *until, when),
        Reason::Returning { blocked_by } => course::returning(blocked_by.as_ref()),
        Reason::Soaking { until } => course::soaking(*until, when),
    }
}

/// `1 node`, `3 nodes`.
pub(crate) fn count(n: u32, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(n.into())) }
}

/// `1,168`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Some names, and how many more there are.
pub(crate) fn some<T: ToString>(names: &[T], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(ToString::to_string).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use drydock_plan::{BudgetUnitText, GangId, NodeId, PauseReason, RolloutId};
    use drydock_spec::GatePoint;

    use super::*;

    fn check(reason: Reason, sentence: &str) {
        let when = When::new("2026-03-02T17:00:00Z".parse().unwrap(), Some("Europe/Berlin"));
        assert_eq!(super::sentence(&reason, &when), sentence);
    }

    #[test]
    fn sentences_name_the_thing_its_number_and_its_time() {
        let at = |text: &str| text.parse().unwrap();
        let name = |text: &str| text.parse().unwrap();
        check(
            Reason::Window {
                calendar: name("research-nights"),
                window: "research-night".into(),
                opens: Some(at("2026-03-02T21:00:00Z")),
            },
            "window research-night (calendar research-nights) opens Mon 22:00 Europe/Berlin (in 4h)",
        );
        check(
            Reason::BudgetInFlight {
                budget: "stage-floor".parse().unwrap(),
                each: Some("h100-stage".into()),
                unit: BudgetUnitText::Nodes,
                limit: 1,
                used: 1,
                adds: 1,
                held_by: vec![NodeId::new("c12-stage/h100-03")],
            },
            "budget stage-floor for h100-stage: 1 of 1 node in flight, this would add 1; away: c12-stage/h100-03",
        );
        check(
            Reason::Gang { gang: GangId::new("acme/llm-70b"), nodes: 32, inside: 16, ends: None },
            "job acme/llm-70b runs on 32 nodes and only 16 of them may go now; all of its nodes move together",
        );
        check(
            Reason::Approval {
                wave: "dev".parse().unwrap(),
                gate: GatePoint::Before,
                team: "gpu-sre".parse().unwrap(),
                given: 0,
                needed: 1,
            },
            "approval by team gpu-sre before wave dev: 0 of 1 given",
        );
        check(
            Reason::Paused { why: PauseReason::Control { by: "ada: lunch".into() } },
            "the rollout is paused by ada: lunch",
        );
        check(
            Reason::LayoutQuarantined { layout: "quarters".into(), rollout: RolloutId::new("stage-580") },
            "layout quarters failed in rollout stage-580 and isn't tried again here until it changes or someone says retry",
        );
        check(
            Reason::Incompatible { why: "it is a V100".into() },
            "what is in the node and the release don't go together: it is a V100; it isn't touched",
        );
        check(
            Reason::AbortedBefore {
                rollout: RolloutId::new("stage-driver-580.105"),
                by: Some("ada: withdrawn".into()),
                release: "r-7c41e0a2".parse().ok(),
            },
            "rollout stage-driver-580.105 to the same target was aborted by ada: withdrawn; to start it again: drydock \
             retry r-7c41e0a2 --reason \"…\", or a commit with another target",
        );
        check(
            Reason::LeftToOthers {
                component: "toolkit".parse().unwrap(),
                running: Some("1.17.0".into()),
                wanted: Some("1.18.0".into()),
            },
            "toolkit 1.17.0 runs and Git says 1.18.0; drydock only observes it here, so its owner has to change it",
        );
        check(
            Reason::NoPolicy { pool: "lab".parse().unwrap() },
            "no RolloutPolicy selects pool lab, so nothing moves it; add the pool to `select` of one",
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [count(1, "node"), count(0, "node"), count(1168, "GPU")],
            ["1 node", "0 nodes", "1,168 GPUs"]
        );
        assert_eq!(some(&["a", "b", "c"], 2), "a, b and 1 more");
    }
}
