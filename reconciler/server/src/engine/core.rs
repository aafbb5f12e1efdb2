//! Passes: re-read everything, plan, check, make durable, act. It keeps nothing from one pass to the next but what
//! screens show, so a restart and a pass are the same path.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use drydock_plan::{PlanReport, Planned, Reason, RolloutReport};
use drydock_planner::{Input, PoolTarget, check::check, cut_down, plan, pool_targets};
use drydock_source::SourceState;
use drydock_spec::PoolName;
use jiff::{SignedDuration, Timestamp};

use super::{events::events, stats::Stats};
use crate::clock::FleetClock;
use crate::desired::{Change, Desired, InForce};
use crate::store::{EventKind, LedgerStore, NewEvent, Prepared, StoreError};
use crate::view::Facts;
use crate::world::{World, WorldError};

/// Lost races in a row before the pass is given up: the others are commands of people, and nobody is that quick.
const RACES: usize = 5;

/// How passes are spaced on the fleet's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// What happens within this time is seen by one pass.
    pub coalesce: SignedDuration,
    /// The longest time without a pass, whatever is announced: progress never hangs on an event alone.
    pub resync: SignedDuration,
}

impl Default for Rhythm {
    /// A second and five minutes.
    fn default() -> Self {
        Self { coalesce: SignedDuration::from_secs(1), resync: SignedDuration::from_mins(5) }
    }
}

/// How far the fleet's clock may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// To this instant.
    At(Timestamp),
    /// As far as there are events.
    Open,
}

/// Why a pass wasn't carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("the planner gave up; nothing was changed")]
    Planner,
    #[error("{RACES} commits in a row lost against others")]
    Races,
}

/// Who makes the plans; tests put in one that makes mistakes.
type Planner = fn(&Input<'_>) -> Planned;

pub(super) struct Core<W> {
    planner: Planner,
    store: Arc<dyn LedgerStore>,
    world: W,
    desired: Desired,
    rhythm: Rhythm,
    stats: Stats,
    clock: FleetClock,
    targets: Arc<BTreeMap<PoolName, PoolTarget>>,
    report: Arc<PlanReport>,
    /// A pass is due whatever the clock says.
    forced: bool,
    /// The last pass changed something, so another look is due soon.
    stirred: bool,
    passed: Option<Timestamp>,
    /// When a pass last changed the ledger, or the start.
    changed: Timestamp,
    trouble: Option<String>,
}

impl<W: World> Core<W> {
    pub(super) fn new(
        store: Arc<dyn LedgerStore>,
        world: W,
        desired: Desired,
        rhythm: Rhythm,
        stats: Stats,
        clock: FleetClock,
    ) -> Self {
        let targets = desired.in_force().map(|now| pool_targets(&now.fleet)).unwrap_or_default();
        let mut core = Self {
            planner: plan,
            store,
            world,
            desired,
            rhythm,
            stats,
            clock,
            targets: Arc::new(targets),
            report: Arc::default(),
            forced: true,
            stirred: false,
            passed: None,
            changed: Timestamp::MIN,
            trouble: None,
        };
        if let Some(now) = core.desired.in_force().cloned() {
            core.follow(&now);
        }
        core.clock.set(core.world.now());
        core.changed = core.world.now();
        core
    }

    #[cfg(test)]
    pub(super) fn plan_with(&mut self, planner: Planner) {
        self.planner = planner;
    }

    pub(super) fn now(&self) -> Timestamp {
        self.world.now()
    }
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
    pub(super) fn source(&self) -> &crate::desired::SourceView {
        self.desired.view()
    }
    /// The next call of [`Core::work`] makes a pass, whatever the clock says.
    pub(super) fn force(&mut self) {
        self.forced = true;
    }

    /// Takes in what the source knows now.
    pub(super) fn take_in(&mut self, state: &SourceState, wall: Timestamp) {
        let inventory = self.world.inventory();
        let nodes: Vec<_> = inventory.nodes.iter().map(|(id, node)| (id.cluster(), &node.labels)).collect();
        for change in self.desired.take_in(state, &nodes, wall) {
            let at = self.world.now();
            let stored = match change {
                Change::Adopted(kept) => {
                    tracing::info!(
                        commit = kept.commit.short(),
                        summary = kept.commit.summary,
                        "a commit is in force"
                    );
                    let what = EventKind::Adopted {
                        commit: kept.commit.id.clone(),
                        summary: kept.commit.summary.clone(),
                    };
                    let stored = self.store.keep_source(&kept, &[NewEvent { at, what }]);
                    if let Some(now) = self.desired.in_force().cloned() {
                        self.follow(&now);
                    }
                    self.forced = true;
                    stored
                }
                Change::Problem(problem) => {
                    tracing::warn!(%problem, "the newest commit isn't in force");
                    self.store.record(&[NewEvent { at, what: EventKind::SourceProblem { problem } }])
                }
                Change::Well => self.store.record(&[NewEvent { at, what: EventKind::SourceWell {} }]),
            };
            if let Err(error) = stored {
                // The fleet in force is right all the same; a restart reads the repository again.
                tracing::error!(%error, "news of the source can't be kept");
            }
        }
    }

    fn follow(&mut self, now: &InForce) {
        self.targets = Arc::new(pool_targets(&now.fleet));
        if let Err(error) = self.world.follow(&now.fleet) {
            tracing::error!(%error, "the world can't follow the commit");
            self.trouble = Some(error.to_string());
        }
        self.clock.set(self.world.now());
    }

    /// The instant at which the next pass is due by itself.
    pub(super) fn due(&self) -> Timestamp {
        let now = self.world.now();
        let later = |span: SignedDuration| now.checked_add(span).unwrap_or(Timestamp::MAX);
        let soon = later(self.rhythm.coalesce);
        // Without a fleet there is nothing to make a pass for; news of the source or a wish from outside wakes it.
        if self.desired.in_force().is_none() {
            return later(self.rhythm.resync);
        }
        let Some(passed) = self.passed else {
            return if self.world.is_complete() { now } else { soon };
        };
        let resync = passed.checked_add(self.rhythm.resync).unwrap_or(Timestamp::MAX);
        // Not at the event but a little later, so that what happens together is seen together.
        let event = self.world.next_event().map(|at| at.checked_add(self.rhythm.coalesce).unwrap_or(at));
        // A wish to be woken in the past must not become a loop without rest.
        let wake = self.report.wake.map(|at| if at > now { at } else { soon });
        let stirred = self.stirred.then_some(soon);
        [Some(resync), event, wake, stirred].into_iter().flatten().min().unwrap_or(resync).max(now)
    }

    /// Whether there is something to hurry for: a rollout that can go on without a person.
    pub(super) fn busy(&self) -> bool {
        /// Everything waits for a person, and what was under way has settled.
        const SETTLED: SignedDuration = SignedDuration::from_hours(6);
        /// Nothing changed although a week with all its windows has passed: nothing will.
        const ALL_WINDOWS_SEEN: SignedDuration = SignedDuration::from_hours(8 * 24);
        let quiet = self.world.now().duration_since(self.changed);
        let patience =
            if self.report.rollouts.iter().all(waits_for_a_person) { SETTLED } else { ALL_WINDOWS_SEEN };
        self.forced || (quiet <= patience && self.store.ledger().open_rollouts().next().is_some())
    }

    /// Makes the passes that are due, at most `limit`. True when more may be due.
    pub(super) fn work(&mut self, until: Until, limit: usize) -> bool {
        for _ in 0..limit {
            let Some(in_force) = self.desired.in_force().cloned() else {
                self.forced = false;
                return false;
            };
            let (now, due) = (self.world.now(), self.due());
            let to = match (self.forced, until) {
                (true, Until::Open) => now,
                (true, Until::At(at)) => due.min(at).max(now),
                (false, Until::Open) => due,
                (false, Until::At(at)) if due <= at => due,
                (false, Until::At(_)) => return false,
            };
            self.world.advance(to);
            self.forced = false;
            if !self.world.is_complete() {
                // Whoever observes it wakes this again.
                return false;
            }
            let begun = Instant::now();
            let outcome = self.pass(&in_force);
            self.stats.passes.inc();
            self.stats.pass_seconds.observe(begun.elapsed().as_secs_f64());
            self.passed = Some(to);
            self.clock.set(to);
            self.trouble = outcome.err().map(|error| error.to_string());
            if let Some(error) = &self.trouble {
                self.stats.failures.inc();
                tracing::error!(%error, "a pass wasn't carried out");
                self.forced = true;
                return false;
            }
        }
        true
    }

    fn pass(&mut self, in_force: &InForce) -> Result<(), PassError> {
        let now = self.world.now();
        for _ in 0..RACES {
            self.store.ready()?;
            let ledger = self.store.ledger();
            let input = Input {
                fleet: &in_force.fleet,
                commit: &in_force.commit,
                inventory: self.world.inventory(),
                ledger: &ledger,
                now,
            };
            // The planner is a pure function of its input: nothing is left half done when it gives up.
            let thought = catch_unwind(AssertUnwindSafe(|| {
                let Planned { plan, mut report } = (self.planner)(&input);
                let prepared = Prepared::new(&ledger, plan.changes.clone());
                let violations = check(&input, &plan, prepared.after());
                if violations.is_empty() {
                    return (plan, report, prepared);
                }
                // What is wrong with one cluster's part stops neither the others nor what is on its way home.
                let cut = cut_down(&input, &plan);
                report.violations = violations.iter().map(ToString::to_string).chain(cut.left_out).collect();
                let prepared = Prepared::new(&ledger, cut.plan.changes.clone());
                (cut.plan, report, prepared)
            }));
            let (plan, report, prepared) = thought.map_err(|_| PassError::Planner)?;
            self.tell_violations(&report, now)?;
            let changed = !prepared.changes().is_empty();
            if changed {
                self.world.save()?;
                let events = events(&ledger, prepared.changes(), now);
                drop(ledger);
                match self.store.commit_prepared(&prepared, &events) {
                    Ok(_) => self.changed = now,
                    Err(StoreError::Conflict { .. }) => {
                        self.stats.conflicts.inc();
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.stirred = changed;
            self.report = Arc::new(report);
            for action in &plan.actions {
                self.stats.actions.inc();
                // One node's trouble never stops another node; the same action comes again with the next pass.
                if let Err(error) = self.world.execute(action) {
                    self.stats.refused.inc();
                    tracing::debug!(node = %action.node, action = action.ensure.word(), %error, "not taken");
                }
            }
            self.world.asked_everything();
            return Ok(());
        }
        Err(PassError::Races)
    }

    /// A plan that breaks an invariant was cut down. The same thing is told once.
    fn tell_violations(&self, report: &PlanReport, now: Timestamp) -> Result<(), StoreError> {
        if report.violations.is_empty() {
            return Ok(());
        }
        self.stats.violations.inc();
        if self.report.violations == report.violations {
            return Ok(());
        }
        for violation in &report.violations {
            tracing::error!(%violation, "a plan broke an invariant and was cut down");
        }
        let what = EventKind::Violation { what: report.violations.clone() };
        self.store.record(&[NewEvent { at: now, what }])
    }

    /// What the last pass saw and decided.
    pub(super) fn facts(&self) -> Option<Facts> {
        let in_force = self.desired.in_force()?;
        Some(Facts::new(
            self.world.now(),
            in_force,
            Arc::clone(&self.targets),
            Arc::new(self.world.inventory().clone()),
            self.store.ledger(),
            Arc::clone(&self.report),
        ))
    }

    /// Before a graceful end.
    pub(super) fn save(&mut self) -> Result<(), WorldError> {
        self.world.save()
    }
}

/// Time alone doesn't end this.
fn waits_for_a_person(rollout: &RolloutReport) -> bool {
    let of_nodes = rollout.waves.iter().flat_map(|wave| &wave.waits).map(|wait| &wait.reason);
    rollout.waits.iter().chain(of_nodes).any(|reason| {
        matches!(
            reason,
            Reason::Approval { .. } | Reason::Paused { .. } | Reason::Rejected { .. } | Reason::Halted { .. }
        )
    })
}
