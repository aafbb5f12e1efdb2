//! Approvals that a forecast assumes.

use std::collections::BTreeSet;

use drydock_plan::{Command, CommandKind, PlanReport, Reason, RolloutId};
use drydock_spec::{GatePoint, Period, TeamName, WaveName};
use jiff::Timestamp;

/// Gives every approval some time after it is asked for.
#[derive(Debug)]
pub(super) struct Approvals {
    after: Option<Period>,
    /// Gates that were asked for so far.
    asked: BTreeSet<(RolloutId, WaveName, GatePoint, TeamName)>,
}

impl Approvals {
    pub(super) const fn new(after: Option<Period>) -> Self {
        Self { after, asked: BTreeSet::new() }
    }
    /// Commands that answer what a report asks for and no report has asked for before, each with its instant.
    pub(super) fn due(&mut self, now: Timestamp, report: &PlanReport) -> Vec<(Timestamp, Command)> {
        let Some(after) = self.after else { return Vec::new() };
        let at = after.after(now);
        let mut given = Vec::new();
        for rollout in &report.rollouts {
            let of_waves = rollout.waves.iter().flat_map(|wave| wave.waits.iter().map(|wait| &wait.reason));
            for reason in rollout.waits.iter().chain(of_waves) {
                let Reason::Approval { wave, gate, team, given: have, needed } = reason else { continue };
                if !self.asked.insert((rollout.id.clone(), wave.clone(), *gate, team.clone())) {
                    continue;
                }
                // Several approvals of one team come from different people.
                given.extend((*have..*needed).map(|person| {
                    let what = CommandKind::Approve {
                        rollout: rollout.id.clone(),
                        wave: wave.clone(),
                        gate: *gate,
                        team: team.clone(),
                    };
                    let by = format!("{team}-{}", person + 1);
                    (at, Command { at, by, reason: "assumed".to_owned(), what, done: false })
                }));
            }
        }
        given
    }
}
