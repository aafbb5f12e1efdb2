//! Metrics, as a function of the published state. Labels come from fixed words and from names in the repository, so
//! their number is bounded by what people wrote.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

use drydock_plan::{PlanReport, Reason, RolloutState};
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;

use crate::engine::Stats;
use crate::view::{Facts, Freshness, Health, STEP_WORDS, Snapshot, Sync};

/// The media type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge>;
type Seconds = Gauge<f64, AtomicU64>;

/// The words of all states, so that a state nobody is in shows as zero instead of vanishing.
fn rollout_words() -> [&'static str; 10] {
    [
        RolloutState::Rejected { why: Vec::new() }.word(),
        RolloutState::Running.word(),
        RolloutState::Paused(drydock_plan::PauseReason::Deadline).word(),
        RolloutState::Halted.word(),
        RolloutState::RollingBack.word(),
        RolloutState::Succeeded.word(),
        RolloutState::RolledBack.word(),
        RolloutState::RollbackBlocked.word(),
        RolloutState::Superseded.word(),
        RolloutState::Aborted.word(),
    ]
}

/// The text of `/metrics`. `wall` is the present.
///
/// # Errors
/// Never in practice: writing to a text can't fail.
pub fn render(snapshot: &Snapshot, stats: &Stats, wall: Timestamp) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("drydock");
    engine(&mut registry, stats);
    source(&mut registry, snapshot, wall);
    if let Some(facts) = &snapshot.facts {
        fleet(&mut registry, facts);
        waits(&mut registry, &facts.report);
        budgets(&mut registry, &facts.report);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn engine(registry: &mut Registry, stats: &Stats) {
    let Stats { passes, pass_seconds, violations, conflicts, actions, refused, failures } = stats.clone();
    registry.register("passes", "Planning passes", passes);
    registry.register("pass_seconds", "Time of a pass: plan, check, commit, actions", pass_seconds);
    registry.register("violations", "Plans that broke an invariant and were not carried out", violations);
    registry.register("commit_conflicts", "Commits that lost a race and were planned anew", conflicts);
    registry.register("actions", "Actions asked for", actions);
    registry.register("actions_refused", "Actions that did not arrive", refused);
    registry.register("pass_failures", "Passes that could not be carried out", failures);
}

fn source(registry: &mut Registry, snapshot: &Snapshot, wall: Timestamp) {
    if let Some(answered) = snapshot.source.answered_at {
        let age = Seconds::default();
        age.set(wall.duration_since(answered).as_secs_f64().max(0.0));
        registry.register("source_age_seconds", "Time since the repository last answered", age);
    }
    let problem = Gauges::default();
    if let Some(present) = &snapshot.source.problem {
        problem.get_or_create(&vec![("kind", present.word().to_owned())]).set(1);
    }
    registry.register("source_problem", "1 while the newest commit is not in force, by why", problem);
    let trouble = Gauge::<i64>::default();
    trouble.set(i64::from(snapshot.trouble.is_some()));
    registry.register("trouble", "1 while passes can not be carried out", trouble);
}

fn fleet(registry: &mut Registry, facts: &Facts) {
    let overview = facts.overview();
    let counts = &overview.fleet.counts;
    let by = |key: &'static str, words: &[&'static str], count: &dyn Fn(&str) -> u32| {
        let gauges = Gauges::default();
        for word in words {
            gauges.get_or_create(&vec![(key, (*word).to_owned())]).set(i64::from(count(word)));
        }
        gauges
    };
    let of = |map: &BTreeMap<&'static str, u32>, word: &str| map.get(word).copied().unwrap_or(0);
    let moving: u32 = counts.steps.values().sum();
    let steps = by("step", &STEP_WORDS, &|word| match word {
        "idle" => counts.nodes.saturating_sub(moving),
        word => of(&counts.steps, word),
    });
    registry.register("nodes", "Nodes by where they are", steps);
    let sync = by("sync", &Sync::ALL.map(Sync::word), &|word| of(&counts.sync, word));
    registry.register("nodes_by_sync", "Nodes by whether they run what Git says", sync);
    let health = by("health", &Health::ALL.map(Health::word), &|word| of(&counts.health, word));
    registry.register("nodes_by_health", "Nodes by health", health);
    let fresh = |wanted: Freshness| overview.clusters.iter().filter(|c| c.freshness == wanted).count();
    let clusters = by("freshness", &["fresh", "stale", "unreachable"], &|word| {
        let wanted = match word {
            "fresh" => Freshness::Fresh,
            "stale" => Freshness::Stale,
            _ => Freshness::Unreachable,
        };
        u32::try_from(fresh(wanted)).unwrap_or(u32::MAX)
    });
    registry.register("clusters", "Clusters by how old what is known of them is", clusters);
    let rollouts = by("state", &rollout_words(), &|word| {
        let count = facts.ledger.rollouts.values().filter(|record| record.state.word() == word).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    });
    registry.register(
        "rollouts",
        "Rollouts by state, ended ones included while they are remembered",
        rollouts,
    );
    let gpus = by("state", &["advertised", "in_service"], &|word| {
        if word == "advertised" { counts.gpus_advertised } else { counts.gpus_in_service }
    });
    registry.register("gpus", "GPUs that nodes should have, and those on nodes that take work", gpus);
}

fn waits(registry: &mut Registry, report: &PlanReport) {
    let mut blocked: BTreeMap<&'static str, u32> = BTreeMap::new();
    let waves = report.rollouts.iter().flat_map(|rollout| &rollout.waves).flat_map(|wave| &wave.waits);
    for wait in waves.chain(&report.holds) {
        let sum = blocked.entry(wait.reason.word()).or_default();
        *sum = sum.saturating_add(wait.nodes);
    }
    let gauges = Gauges::default();
    for (kind, nodes) in blocked {
        gauges.get_or_create(&vec![("kind", kind.to_owned())]).set(i64::from(nodes));
    }
    registry.register("blocked_on", "Nodes that are not moving, by why", gauges);
    let gauges = Gauges::default();
    for reason in report.rollouts.iter().flat_map(|rollout| &rollout.waits) {
        gauges.get_or_create(&vec![("kind", reason.word().to_owned())]).inc();
    }
    registry.register("rollouts_blocked_on", "Rollouts that do not go on as a whole, by why", gauges);
}

/// Budgets that hold something back, with their numbers.
fn budgets(registry: &mut Registry, report: &PlanReport) {
    let (limit, used, broken) = (Gauges::default(), Gauges::default(), Gauges::default());
    let waves = report.rollouts.iter().flat_map(|rollout| &rollout.waves).flat_map(|wave| &wave.waits);
    for wait in waves.chain(&report.holds) {
        let labels = |budget: &drydock_spec::BudgetName, each: &Option<String>, rule: &str| -> Labels {
            let each = each.clone().unwrap_or_default();
            vec![("budget", budget.to_string()), ("each", each), ("rule", rule.to_owned())]
        };
        match &wait.reason {
            Reason::BudgetInFlight { budget, each, limit: most, used: away, .. } => {
                let labels = labels(budget, each, "inFlight");
                limit.get_or_create(&labels).set(i64::from(*most));
                used.get_or_create(&labels).set(i64::from(*away));
            }
            Reason::BudgetFloor { budget, each, floor, available, broken: failed, .. } => {
                let labels = labels(budget, each, "floor");
                limit.get_or_create(&labels).set(i64::from(*floor));
                used.get_or_create(&labels).set(i64::from(*available));
                broken.get_or_create(&labels).set(i64::from(*failed));
            }
            // Only budgets have these numbers.
            _ => {}
        }
    }
    registry.register("budget_limit", "Limit (in flight) or floor of a budget that holds nodes back", limit);
    registry.register("budget_used", "What is in flight, or available, under that budget", used);
    registry.register("budget_broken", "What is broken under that budget", broken);
}
