//! The loop of the reconciler on a virtual clock: commits and commands arrive, the planner decides, the ledger is
//! written, the fleet is asked. For `simulate`, property tests and golden scripts.

mod approve;
mod budget;
mod crash;
mod events;
mod ledger;
mod summary;
mod term;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drydock_plan::{Command, CommitRef, Ledger, LedgerChange, PlanReport, Planned, RolloutState};
use drydock_planner::{Input, check};
use drydock_spec::{Fleet, Period};
use jiff::Timestamp;

pub use crash::CrashPoint;
pub use summary::{Detection, GangInterruptions, Summary, TimelineEvent};

use crate::World;

/// A commit and the instant at which it comes into force.
#[derive(Debug, Clone)]
pub struct Commit {
    /// When.
    pub at: Timestamp,
    /// What it says.
    pub fleet: Arc<Fleet>,
    /// Who wrote it.
    pub commit: CommitRef,
}

/// What comes from outside, in any order.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Commits; the first in time is in force from the beginning.
    pub commits: Vec<Commit>,
    /// What people say, and when.
    pub commands: Vec<(Timestamp, Command)>,
}

/// How a run is made.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// What happens within this time is looked at in one pass. Default 1 s.
    pub quantum: Period,
    /// The run ends here at the latest, and not before; without it, it ends when nothing moves any more.
    pub until: Option<Timestamp>,
    /// Passes after which a run is given up as unfinished. Default 200,000: some ten passes per node of an L fleet.
    pub passes_max: u32,
    /// Every plan is checked for broken invariants, and budgets are counted once more from the documents.
    pub checked: bool,
    /// Lines about single nodes in the timeline, besides those about rollouts and faults.
    pub node_lines: bool,
    /// Approvals are given so long after they are asked for; without it, only by the script. A forecast has to assume
    /// something.
    pub approve_after: Option<Period>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            quantum: Period::from_secs(1),
            until: None,
            passes_max: 200_000,
            checked: true,
            node_lines: false,
            approve_after: None,
        }
    }
}

/// A write that can't be seen on the node is repeated after this.
const RESYNC: Period = Period::from_mins(5);
/// A refused write is tried again after this.
const RETRY: Period = Period::from_secs(10);
/// A run in which nothing changes for this long, while nothing is foreseen either, has got stuck.
const STUCK_AFTER: Period = Period::from_hours(48);

/// A run: world, ledger and what was seen so far.
#[derive(Debug)]
pub struct Runner {
    world: World,
    /// In force.
    fleet: Arc<Fleet>,
    commit: CommitRef,
    /// Sorted, what is still to come.
    commits: Vec<Commit>,
    commands: Vec<(Timestamp, Command)>,
    ledger: Ledger,
    /// The same ledger one plan ahead, so that a check sees both sides without a copy of the whole.
    ahead: Ledger,
    options: RunOptions,
    crash: crash::Crash,
    term: term::Term,
    approvals: approve::Approvals,
    record: summary::Recorder,
    last_change: Timestamp,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    /// What happened.
    pub summary: Summary,
    /// The ledger at the end.
    pub ledger: Ledger,
    /// The fleet at the end.
    pub world: World,
    /// The last reasons.
    pub report: PlanReport,
}

/// How a pass ended.
enum Pass {
    /// Nothing was left to write.
    Quiet {
        /// A write was answered well and can't be seen on the node.
        asked: bool,
        /// A write was refused.
        denied: bool,
    },
    /// The ledger changed.
    Changed { denied: bool },
    /// The reconciler died on the way.
    Crashed,
}

impl Runner {
    /// Prepares a run. Without any commit nothing will move.
    #[must_use]
    pub fn new(world: World, script: Script, options: RunOptions) -> Self {
        Self::resume(world, Ledger::default(), script, options)
    }
    /// Prepares a run that goes on from a ledger: the forecast of a fleet that is under way already.
    #[must_use]
    pub fn resume(mut world: World, ledger: Ledger, script: Script, options: RunOptions) -> Self {
        let Script { mut commits, mut commands } = script;
        commits.sort_by_key(|commit| commit.at);
        commands.sort_by_key(|(at, _)| *at);
        let first = commits.first().cloned();
        let nobody = CommitRef {
            id: "0".repeat(40),
            summary: "nothing".to_owned(),
            author: "nobody".to_owned(),
            time: world.now(),
        };
        let (fleet, commit) = match first {
            Some(first) => (first.fleet, first.commit),
            None => (Arc::clone(&world.fleet), nobody),
        };
        world.reassign(&fleet);
        let record = summary::Recorder::new(&world, options.node_lines);
        let crash = crash::Crash::new(&world.ground);
        let term = term::Term::new(&world.ground);
        let last_change = world.now();
        let ahead = ledger.clone();
        let approvals = approve::Approvals::new(options.approve_after);
        Self {
            world,
            fleet,
            commit,
            commits,
            commands,
            ledger,
            ahead,
            options,
            crash,
            term,
            approvals,
            record,
            last_change,
        }
    }
    /// Runs to the end.
    #[must_use]
    pub fn run(mut self) -> Run {
        loop {
            // What happened on the way here comes before what is decided about it.
            self.record.log(self.world.take_log());
            self.hear();
            let planned = self.plan();
            let ended = self.carry_out(&planned);
            self.record.log(self.world.take_log());
            for (at, command) in self.approvals.due(self.world.now(), &planned.report) {
                let place = self.commands.partition_point(|(other, _)| *other <= at);
                self.commands.insert(place, (at, command));
            }
            self.record.pass(&self.world, &self.ledger, &planned.report);
            let finished = match self.next_wake(&planned, &ended) {
                Some(wake) => {
                    self.world.advance(wake);
                    self.record.passes >= self.options.passes_max
                }
                None => true,
            };
            if finished {
                return self.close(planned.report);
            }
        }
    }
    /// Takes over what has come from outside by now.
    fn hear(&mut self) {
        let now = self.world.now();
        if let Some(old) = self.term.restored(&self.ledger, now) {
            self.record.say(now, "the ledger is restored from an older copy".to_owned());
            self.ahead = old.clone();
            self.ledger = old;
            self.last_change = now;
        }
        while self.commits.first().is_some_and(|commit| commit.at <= now) {
            let Commit { fleet, commit, .. } = self.commits.remove(0);
            self.record.say(now, format!("commit {}: {}", commit.short(), commit.summary));
            self.world.reassign(&fleet);
            (self.fleet, self.commit) = (fleet, commit);
            self.last_change = now;
        }
        while self.commands.first().is_some_and(|(at, _)| *at <= now) {
            let (at, mut command) = self.commands.remove(0);
            command.at = at;
            let number = self.ledger.commands.keys().next_back().map_or(1, |last| last + 1);
            self.record.say(now, events::command(&command));
            self.commit_change(LedgerChange::Command(number, command));
            self.last_change = now;
        }
    }
    fn commit_change(&mut self, change: LedgerChange) {
        self.ledger.apply(change.clone());
        self.ahead.apply(change);
    }
    fn plan(&mut self) -> Planned {
        let input = self.input();
        drydock_planner::plan(&input)
    }
    fn input(&self) -> Input<'_> {
        Input {
            fleet: &self.fleet,
            commit: &self.commit,
            inventory: self.world.inventory(),
            ledger: &self.ledger,
            now: self.term.clock(self.world.now()),
        }
    }
    /// Writes the ledger, then asks the nodes; may die between any two of these.
    fn carry_out(&mut self, planned: &Planned) -> Pass {
        let now = self.world.now();
        let plan = &planned.plan;
        if plan.parent != self.ledger.revision {
            let text = format!("planned from revision {}, not {}", plan.parent, self.ledger.revision);
            self.record.violation(now, "I3 single holder", &text);
        }
        let changed = !plan.changes.is_empty();
        if changed {
            plan.changes.iter().for_each(|change| self.ahead.apply(change.clone()));
            if self.options.checked {
                self.check(planned);
            }
            if self.crash.strikes() {
                ledger::undo(&mut self.ahead, &self.ledger, &plan.changes);
                self.record.say(now, "the reconciler dies before it writes the ledger".to_owned());
                return Pass::Crashed;
            }
            self.record.changes(&self.world, &self.ledger, &plan.changes);
            plan.changes.iter().for_each(|change| self.ledger.apply(change.clone()));
            self.last_change = now;
        } else if self.options.checked {
            self.check(planned);
        }
        for action in self.term.late_actions(&plan.actions, now) {
            // Whatever he is answered, he is followed already.
            let _ = self.world.execute(&action);
        }
        let (mut denied, mut asked) = (false, false);
        for action in &plan.actions {
            if self.crash.strikes() {
                self.record.say(now, format!("the reconciler dies before it asks {}", action.node));
                return Pass::Crashed;
            }
            match self.world.execute(action) {
                Ok(()) => asked |= !self.world.has_seen(action),
                Err(_) => denied = true,
            }
        }
        if changed { Pass::Changed { denied } } else { Pass::Quiet { asked, denied } }
    }
    fn check(&mut self, planned: &Planned) {
        let now = self.world.now();
        let found = {
            let input = self.input();
            let mut found: Vec<(String, String)> = check::check(&input, &planned.plan, &self.ahead)
                .into_iter()
                .map(|violation| (violation.invariant.to_owned(), violation.text))
                .collect();
            found.extend(planned.report.violations.iter().map(|text| ("reported".to_owned(), text.clone())));
            found
        };
        found.iter().for_each(|(name, text)| self.record.violation(now, name, text));
        let budgets = budget::violations(&self.input(), &self.ahead);
        budgets.iter().for_each(|text| self.record.budget_violation(now, text));
    }
    /// When to look again; `None` at the end of the run.
    fn next_wake(&mut self, planned: &Planned, ended: &Pass) -> Option<Timestamp> {
        let now = self.world.now();
        let outside =
            self.commits.first().map(|c| c.at).into_iter().chain(self.commands.first().map(|c| c.0)).min();
        let until = self.options.until;
        if until.is_some_and(|until| until <= now) {
            return None;
        }
        let soon = self.options.quantum.max(Period::from_secs(1)).after(now);
        let again = match ended {
            Pass::Crashed | Pass::Changed { denied: false } => Some(soon),
            Pass::Changed { denied: true } | Pass::Quiet { denied: true, .. } => {
                Some(soon.max(RETRY.after(now)))
            }
            Pass::Quiet { asked: true, denied: false } => Some(RESYNC.after(now)),
            Pass::Quiet { asked: false, denied: false } => None,
        };
        let quiet = matches!(ended, Pass::Quiet { denied: false, .. });
        if quiet && outside.is_none() && until.is_none() && self.at_rest() {
            self.assert_fixed_point(planned);
            return None;
        }
        let wake = planned.report.wake.map(|wake| self.term.really(wake, now));
        let foreseen = wake.or(outside).or(until);
        if quiet && foreseen.is_none() && STUCK_AFTER.after(self.last_change) <= now {
            self.record.say(now, "nothing moves any more".to_owned());
            return None;
        }
        // Jobs that pass and begin are nothing to wake for, and yet a gate may wait for them.
        let idle = foreseen.is_none().then(|| Period::from_mins(10).after(now));
        let event = if waits_for_jobs(&planned.report) {
            self.world.next_event()
        } else {
            self.world.next_node_event()
        };
        let next = [again, wake, event, idle].into_iter().flatten().min();
        let next = next.map(|next| next.max(soon));
        let next = next.into_iter().chain(outside.map(|at| at.max(now))).min();
        match until {
            Some(until) => Some(next.map_or(until, |next| next.min(until))),
            None => next,
        }
    }
    /// No rollout will move by itself, and no node is away or watched.
    fn at_rest(&self) -> bool {
        let waits_for_people = |state: &RolloutState| matches!(state, RolloutState::Halted);
        self.ledger.open_rollouts().all(|rollout| waits_for_people(&rollout.state))
            && self.ledger.nodes.values().all(|node| node.visit.is_none())
            && self.world.inventory().nodes.iter().all(|(id, seen)| {
                // A cordon that nothing stands behind is still to be taken away.
                let kept = || self.ledger.nodes.get(id).is_some_and(|node| node.quarantine.is_some());
                seen.cordon.own.is_none() || kept()
            })
    }
    /// Only where nothing was asked just now: an answer makes another input.
    fn assert_fixed_point(&mut self, planned: &Planned) {
        if !planned.plan.actions.is_empty() {
            return;
        }
        let now = self.world.now();
        let again = self.plan();
        if again.plan != planned.plan {
            self.record.violation(
                now,
                "I15 determinism",
                "planned again from the same input, another plan came",
            );
        }
    }
    fn close(self, report: PlanReport) -> Run {
        let summary = self.record.close(&self.world, &self.fleet, &self.ledger);
        Run { summary, ledger: self.ledger, world: self.world, report }
    }
}

/// Something might move when a job ends or has written its checkpoint: nodes are held back by a limit that the shape of
/// jobs has a part in, or jobs are asked.
fn waits_for_jobs(report: &PlanReport) -> bool {
    let waves = report.rollouts.iter().flat_map(|rollout| rollout.waves.iter());
    let waits = waves.flat_map(|wave| &wave.waits).chain(&report.holds);
    waits.map(|wait| wait.reason.word()).any(|word| {
        matches!(
            word,
            "gang"
                | "checkpoint"
                | "unitBarrier"
                | "budgetInFlight"
                | "budgetFloor"
                | "spread"
                | "headOfLine"
                | "leftOut"
                | "rejected"
        )
    })
}

/// Words of the reasons that hold something back in a report.
fn words(report: &PlanReport) -> BTreeSet<&'static str> {
    let rollouts = report.rollouts.iter();
    let of_rollouts = rollouts.clone().flat_map(|rollout| rollout.waits.iter());
    let of_waves =
        rollouts.flat_map(|r| r.waves.iter()).flat_map(|wave| wave.waits.iter().map(|w| &w.reason));
    let of_holds = report.holds.iter().map(|wait| &wait.reason);
    of_rollouts.chain(of_waves).chain(of_holds).map(drydock_plan::Reason::word).collect()
}

/// Counts by word.
type Counts = BTreeMap<String, u64>;
