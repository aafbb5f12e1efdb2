//! One act of the story, played to its end: a commit, its rollouts, and what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use drydock_plan::{Blame, NodeId, ReleaseId, RolloutId, RolloutKind, RolloutRecord};
use drydock_server::embedded::Embedded;
use drydock_server::view::{Facts, Snapshot};
use drydock_spec::Period;
use jiff::Timestamp;
use serde::Serialize;

use super::folder::Folder;
use super::record::Record;
use super::repository::{self, Head};
use super::versions::{BROKEN, FIXED, GOOD, START, driver, replaced};
use super::watch::Watch;
use crate::exit::{Exit, Failure, Result};

/// An act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Act {
    /// The first rollout; after that, one more good driver.
    Good,
    /// A driver that loads and computes wrongly.
    Broken,
    /// Its fix.
    Fixed,
}

/// What an act came to. The names are those of a simulated run's summary.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The act.
    pub(crate) act: String,
    /// The commit it is about, and its driver.
    pub(crate) commit: String,
    pub(crate) version: String,
    /// It had been played before; nothing was started again.
    pub(crate) already: bool,
    /// State of each of its rollouts.
    pub(crate) outcome: BTreeMap<String, String>,
    pub(crate) virtual_seconds: u64,
    pub(crate) nodes_total: u32,
    pub(crate) nodes_on_target: u32,
    pub(crate) nodes_on_previous: u32,
    pub(crate) nodes_quarantined: u32,
    pub(crate) nodes_cordoned_by_drydock_at_end: u32,
    pub(crate) max_in_flight: u32,
    pub(crate) max_gpus_away: u32,
    pub(crate) gpu_hours_lost: f64,
    pub(crate) exposed_nodes: u32,
    pub(crate) exposed: Vec<NodeId>,
    pub(crate) detections: Vec<Detection>,
    pub(crate) budget_violations: u32,
    pub(crate) invariant_violations: u32,
    /// Both of these in sentences.
    pub(crate) violations: Vec<String>,
    pub(crate) drains: u32,
    pub(crate) gang_interruptions: Gangs,
    pub(crate) reasons: BTreeMap<String, u32>,
    /// The rollouts ended as the act wants it.
    pub(crate) as_expected: bool,
}

/// How long a bad version went unnoticed.
#[derive(Debug, Serialize)]
pub(crate) struct Detection {
    pub(crate) node: NodeId,
    pub(crate) release: ReleaseId,
    /// From its application to the first failing result, and to the verdict.
    pub(crate) noticed_after_seconds: u64,
    pub(crate) seconds: u64,
}

/// Jobs that were interrupted.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Gangs {
    pub(crate) moved: u32,
    pub(crate) cut: u32,
}

impl Act {
    /// The driver that its commit brings.
    fn version(self, first: bool) -> &'static str {
        match self {
            Self::Good if first => START,
            Self::Good => GOOD,
            Self::Broken => BROKEN,
            Self::Fixed => FIXED,
        }
    }
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Broken => "broken",
            Self::Fixed => "fixed",
        }
    }
    /// How its rollout should end.
    const fn ends(self) -> &'static str {
        match self {
            Self::Good | Self::Fixed => "Succeeded",
            Self::Broken => "RolledBack",
        }
    }
}

/// Plays an act to its end.
pub(crate) async fn play(
    embedded: &Embedded,
    folder: &Folder,
    act: Act,
    watch: &mut Watch,
) -> Result<Summary> {
    let head = repository::head(&folder.fleet())?;
    let now = driver(&head.fleet).map(|version| version.to_string()).unwrap_or_default();
    let over = ended(embedded, &head.commit.id);
    let wanted = act.version(now == START && !over);
    if now == wanted {
        if over {
            watch.say(&format!(
                "driver {wanted} is what the newest commit says already, and its rollout has ended: nothing to start"
            ));
        }
        let begin = Begin::new(
            embedded,
            settled_facts(embedded, &head.commit.id, watch, over).await?.as_deref(),
            watch,
        );
        let snapshot = settle(embedded, &head.commit.id, watch, begin.record).await?;
        return summary(
            embedded,
            act,
            wanted,
            &head.commit.id,
            over,
            snapshot,
            &begin.previous,
            begin.oracle,
        );
    }
    watch.say(&format!("the rollout at {} first", head.commit.id.get(..7).unwrap_or_default()));
    let (before, _) = settle(embedded, &head.commit.id, watch, Record::default()).await?;
    let begin = Begin::new(embedded, before.facts.as_deref(), watch);
    let commit = write(folder, &head, &now, wanted)?;
    watch.say(&format!("committed {}: Driver {wanted}", commit.get(..7).unwrap_or_default()));
    embedded.source().wake();
    let snapshot = settle(embedded, &commit, watch, begin.record).await?;
    summary(embedded, act, wanted, &commit, false, snapshot, &begin.previous, begin.oracle)
}

fn write(folder: &Folder, head: &Head, old: &str, new: &str) -> Result<String> {
    let files = replaced(&head.files, old, new);
    if files.is_empty() {
        return Err(Failure::missing(format!("no file under releases/ names driver {old}")));
    }
    repository::commit(&folder.fleet(), head, files, &format!("Driver {new}"))
}

/// The state at the beginning of an act.
struct Begin {
    record: Record,
    previous: BTreeMap<NodeId, ReleaseId>,
    oracle: Gangs,
}

impl Begin {
    fn new(embedded: &Embedded, facts: Option<&Facts>, watch: &mut Watch) -> Self {
        watch.catch_up(embedded);
        let oracle = embedded.summary().oracle;
        let gangs = Gangs { moved: oracle.gangs_moved, cut: oracle.gangs_cut };
        let Some(facts) = facts else {
            return Self { record: Record::default(), previous: BTreeMap::new(), oracle: gangs };
        };
        let running = facts.inventory.nodes.iter().map(|(id, node)| (id.clone(), node.running.id.clone()));
        Self {
            record: Record::begin(&facts.ledger, &facts.inventory, facts.now),
            previous: running.collect(),
            oracle: gangs,
        }
    }
}

/// Rollouts of a commit, with the ways back of them.
fn rollouts<'a>(
    all: impl Iterator<Item = &'a RolloutRecord> + Clone,
    commit: &str,
) -> Vec<&'a RolloutRecord> {
    let own: BTreeSet<&RolloutId> = all.clone().filter(|r| r.commit.id == commit).map(|r| &r.id).collect();
    let back = |r: &&RolloutRecord| matches!(&r.kind, RolloutKind::Rollback { of } if own.contains(of));
    all.filter(|r| own.contains(&r.id) || back(r)).collect()
}

/// The rollouts of a commit have ended, and there were some.
fn ended(embedded: &Embedded, commit: &str) -> bool {
    let ledger = embedded.store().ledger();
    let found = rollouts(ledger.rollouts.values().map(|r| &**r), commit);
    !found.is_empty() && found.iter().all(|rollout| rollout.state.is_final())
}

/// The first facts with this commit in force, when the act has still to be played.
async fn settled_facts(
    embedded: &Embedded,
    commit: &str,
    watch: &mut Watch,
    over: bool,
) -> Result<Option<Arc<Facts>>> {
    if over {
        return Ok(None);
    }
    let mut seen = embedded.snapshot();
    loop {
        let snapshot = Arc::clone(&seen.borrow_and_update());
        refused(&snapshot, commit)?;
        if let Some(facts) = snapshot.facts.as_ref().filter(|facts| facts.commit.id == commit) {
            return Ok(Some(Arc::clone(facts)));
        }
        watch.look(embedded, &snapshot, None);
        seen.changed().await.map_err(|_| stopped())?;
    }
}

fn stopped() -> Failure {
    Failure::new(Exit::Internal, "the engine has stopped; see drydock.log in the demo's folder")
}

/// A commit that can't come into force is told, not waited for.
fn refused(snapshot: &Snapshot, commit: &str) -> Result<()> {
    let source = &snapshot.source;
    match &source.problem_text {
        Some(text) if source.newest.as_deref() == Some(commit) && source.failures == 0 => {
            if matches!(source.problem, Some(drydock_server::desired::SourceProblem::NotReadYet {})) {
                return Ok(());
            }
            let failure = Failure::new(Exit::EndedBadly, format!("the commit isn't in force: {text}"));
            Err(match &source.hint {
                Some(hint) => failure.hint(hint.clone()),
                None => failure,
            })
        }
        _ => Ok(()),
    }
}

/// A rollout that shows no progress for so long in real time, while the clock isn't hurrying, waits for a person.
const STUCK: Duration = Duration::from_secs(20);

/// Waits until a commit is in force and nothing moves; the last state and the counts come back.
async fn settle(
    embedded: &Embedded,
    commit: &str,
    watch: &mut Watch,
    mut record: Record,
) -> Result<(Arc<Snapshot>, Record)> {
    let mut seen = embedded.snapshot();
    let mut progress = (0, Instant::now());
    loop {
        let snapshot = Arc::clone(&seen.borrow_and_update());
        watch.look(embedded, &snapshot, Some(&mut record));
        refused(&snapshot, commit)?;
        if let Some(facts) = snapshot.facts.as_deref().filter(|facts| facts.commit.id == commit) {
            if facts.ledger.open_rollouts().next().is_none() {
                return Ok((snapshot, record));
            }
            if facts.ledger.revision != progress.0 {
                progress = (facts.ledger.revision, Instant::now());
            }
            // A wake-up that is announced comes by itself; without one only a person helps.
            if facts.report.wake.is_none() && progress.1.elapsed() > STUCK {
                return Err(Failure::new(Exit::EndedBadly, "the rollout waits for a person")
                    .hint("`drydock status` says for whom; approvals are given with `drydock approve`"));
            }
        }
        seen.changed().await.map_err(|_| stopped())?;
    }
}

#[allow(clippy::too_many_arguments)]
fn summary(
    embedded: &Embedded,
    act: Act,
    version: &str,
    commit: &str,
    already: bool,
    (snapshot, record): (Arc<Snapshot>, Record),
    previous: &BTreeMap<NodeId, ReleaseId>,
    before: Gangs,
) -> Result<Summary> {
    let facts = snapshot.facts.as_deref().ok_or_else(stopped)?;
    let own = rollouts(facts.ledger.rollouts.values().map(|r| &**r), commit);
    let outcome: BTreeMap<String, String> =
        own.iter().map(|r| (r.id.to_string(), r.state.word().to_owned())).collect();
    let forward: Vec<_> = own.iter().filter(|r| !matches!(r.kind, RolloutKind::Rollback { .. })).collect();
    let as_expected = !forward.is_empty() && forward.iter().all(|r| r.state.word() == act.ends());
    let begun = own.iter().map(|r| r.created).min().unwrap_or(facts.now);
    let over: Timestamp = own.iter().filter_map(|r| r.ended).max().unwrap_or(facts.now);
    let halted: Vec<_> = own.iter().filter(|r| r.halt.is_some()).collect();
    let oracle = embedded.summary().oracle;
    let during = oracle.findings.iter().filter(|finding| finding.at >= begun);
    let (budgets, mut broken): (Vec<String>, Vec<String>) =
        record.violations.iter().cloned().partition(|text| text.to_lowercase().contains("budget"));
    broken.extend(during.map(|finding| format!("{} {}", finding.at, finding.what)));
    let (mut on_target, mut on_previous, mut cordoned) = (0, 0, 0);
    for (id, node) in &facts.inventory.nodes {
        let wanted = node.pool.as_ref().and_then(|pool| facts.targets.get(pool));
        let layout_fits = |t: &drydock_plan::Target| t.layout.is_none() || node.layout == t.layout;
        let there = wanted.is_some_and(|t| t.target.release == node.running.id && layout_fits(&t.target));
        on_target += u32::from(there);
        // Of an act that was played before only the ledger knows what was good.
        let good = facts.ledger.nodes.get(id).and_then(|record| record.last_known_good.as_ref());
        let before = if already { good.map(|target| &target.release) } else { previous.get(id) };
        on_previous += u32::from(!there && before == Some(&node.running.id));
        cordoned += u32::from(node.cordon.own.is_some());
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(Summary {
        act: act.word().to_owned(),
        commit: commit.to_owned(),
        version: version.to_owned(),
        already,
        outcome,
        virtual_seconds: seconds(begun, over),
        nodes_total: count(facts.inventory.nodes.len()),
        nodes_on_target: on_target,
        nodes_on_previous: on_previous,
        nodes_quarantined: count(facts.ledger.nodes.values().filter(|n| n.quarantine.is_some()).count()),
        nodes_cordoned_by_drydock_at_end: cordoned,
        max_in_flight: record.max_in_flight,
        max_gpus_away: record.max_gpus_away,
        gpu_hours_lost: record.gpu_hours(facts.now),
        exposed_nodes: halted.iter().map(|r| r.exposed).sum(),
        exposed: halted.iter().flat_map(|r| r.exposed_nodes.iter().cloned()).collect(),
        detections: detections(&own),
        budget_violations: count(budgets.len()),
        invariant_violations: count(broken.len()),
        violations: [budgets, broken].concat(),
        drains: record.most_drains(),
        gang_interruptions: Gangs {
            moved: oracle.gangs_moved.saturating_sub(before.moved),
            cut: oracle.gangs_cut.saturating_sub(before.cut),
        },
        reasons: record.reasons,
        as_expected,
    })
}

fn detections(own: &[&RolloutRecord]) -> Vec<Detection> {
    let failures = own.iter().flat_map(|r| &r.failures).filter(|failure| failure.blame == Blame::Version);
    failures
        .map(|failure| {
            let applied = failure.applied_at.unwrap_or(failure.noticed_at);
            Detection {
                node: failure.node.clone(),
                release: failure.release.clone(),
                noticed_after_seconds: seconds(applied, failure.noticed_at),
                seconds: seconds(applied, failure.at),
            }
        })
        .collect()
}

fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    Period::between(from, to).as_millis() / 1000
}
