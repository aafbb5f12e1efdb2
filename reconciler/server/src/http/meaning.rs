//! What a command means for what is there now. One that would change nothing, or that names nothing, is refused with what
//! to say instead: whoever hears "recorded" must be able to rely on it.

use drydock_plan::{
    Blame, CommandKind, Course, Ledger, NodeId, PauseReason, Reason, RolloutId, RolloutRecord, RolloutState,
    Wait, WaveState,
};
use drydock_spec::{Gate, GatePoint, PoolName, ReleaseId, TeamName, WaveName};

use super::ApiError;
use super::command::CommandAction;
use crate::view::Facts;

/// Names that a hint lists at most.
const NAMES_SHOWN: usize = 6;

/// A command that means something, and what comes of it.
pub(super) struct Meaning {
    pub(super) what: CommandKind,
    pub(super) note: String,
}

/// What is there now.
pub(super) struct Present<'a> {
    pub(super) ledger: &'a Ledger,
    /// Absent until a fleet was in force.
    pub(super) facts: Option<&'a Facts>,
    /// Who speaks.
    pub(super) by: &'a str,
}

impl Present<'_> {
    pub(super) fn meaning(&self, action: &CommandAction) -> Result<Meaning, ApiError> {
        let (what, note) = match action {
            CommandAction::Pause { rollout } => {
                let note = self.may_pause(self.open(rollout)?)?;
                (CommandKind::Pause { rollout: rollout.clone() }, note)
            }
            CommandAction::Resume { rollout } => {
                let blocked =
                    self.ledger.rollouts.get(rollout).filter(|r| r.state == RolloutState::RollbackBlocked);
                let note = match blocked {
                    Some(_) => format!("the way back of {rollout} is tried again"),
                    None => self.may_resume(self.open(rollout)?)?,
                };
                (CommandKind::Resume { rollout: rollout.clone() }, note)
            }
            CommandAction::Abort { rollout } => {
                let note = may_abort(self.open(rollout)?)?;
                (CommandKind::Abort { rollout: rollout.clone() }, note)
            }
            CommandAction::Approve { rollout, wave, gate, team } => {
                let note = self.may_approve(self.open(rollout)?, wave, *gate, team)?;
                let (rollout, wave, team) = (rollout.clone(), wave.clone(), team.clone());
                (CommandKind::Approve { rollout, wave, gate: *gate, team }, note)
            }
            CommandAction::Retry { what, pool } => self.retry(what, pool.as_ref())?,
            CommandAction::Skip { node } => {
                let note = self.may_skip(node)?;
                (CommandKind::Skip { node: node.clone() }, note)
            }
        };
        Ok(Meaning { what, note })
    }

    fn open(&self, id: &RolloutId) -> Result<&RolloutRecord, ApiError> {
        let Some(record) = self.ledger.rollouts.get(id) else {
            let open: Vec<&str> = self.ledger.open_rollouts().map(|r| r.id.as_str()).collect();
            let mut hint = match nearest(id.as_str(), self.ledger.rollouts.keys().map(RolloutId::as_str)) {
                Some(near) => format!("did you mean {near}? "),
                None => String::new(),
            };
            hint += &match open.as_slice() {
                [] => "no rollout is open".to_owned(),
                open => format!("open now: {}", some(open)),
            };
            return Err(ApiError::not_found(format!("there is no rollout {id}"), hint));
        };
        if record.state.is_final() {
            let error = format!("{id} has ended: {}", record.state.word());
            return Err(ApiError::conflict(error, "push a new commit, or retry what was quarantined"));
        }
        Ok(record.as_ref())
    }

    /// The rollout that moves nodes: while a halted one is taken back, that is its way back.
    fn acting<'r>(&'r self, record: &'r RolloutRecord) -> &'r RolloutRecord {
        let back = record.child.as_ref().filter(|_| record.state == RolloutState::RollingBack);
        back.and_then(|child| self.ledger.rollouts.get(child)).map_or(record, |child| child.as_ref())
    }

    fn may_pause(&self, record: &RolloutRecord) -> Result<String, ApiError> {
        let acting = self.acting(record);
        let id = &acting.id;
        match &acting.state {
            RolloutState::Running => {
                Ok(format!("{id} is paused: no new nodes start, nodes in progress finish"))
            }
            RolloutState::Paused(PauseReason::Aborting { by }) => Err(ApiError::conflict(
                format!("{id} is being ended by {by}"),
                "it takes no more nodes anyway",
            )),
            RolloutState::Paused(_) => {
                Ok(format!("{id} is paused already and stays so until somebody says resume as well"))
            }
            state => Err(ApiError::conflict(
                format!("{id} is {} and takes no more nodes", state.word()),
                "its way back can be paused as soon as it has begun; to end it now: drydock abort",
            )),
        }
    }

    fn may_resume(&self, record: &RolloutRecord) -> Result<String, ApiError> {
        let acting = self.acting(record);
        let id = &acting.id;
        let mut controls: Vec<&str> = acting.pauses().filter_map(PauseReason::control).collect();
        controls.dedup();
        match &acting.state {
            RolloutState::Paused(PauseReason::Aborting { by }) => Err(ApiError::conflict(
                format!("{id} is being ended by {by}"),
                "retry its release to have it rolled out again",
            )),
            RolloutState::Paused(_) if acting.pauses().all(|why| why.control().is_some()) => {
                Err(ApiError::conflict(
                    format!("{id} is paused in Git by RolloutControl {}", controls.join(", ")),
                    "take the pause out of that document",
                ))
            }
            RolloutState::Paused(_) if controls.is_empty() => Ok(format!("{id} goes on")),
            RolloutState::Paused(_) => Ok(format!(
                "{id} stays paused by RolloutControl {} in Git; nothing else holds it any more",
                controls.join(", ")
            )),
            state => Err(ApiError::conflict(
                format!("{id} isn't paused: {}", state.word()),
                "there is nothing to resume",
            )),
        }
    }

    fn may_approve(
        &self,
        record: &RolloutRecord,
        wave: &WaveName,
        gate: GatePoint,
        team: &TeamName,
    ) -> Result<String, ApiError> {
        let id = &record.id;
        let at = record.waves.iter().position(|known| known.name == *wave);
        let Some((at, state)) = at.and_then(|at| Some((at, record.waves.get(at)?.state))) else {
            let known: Vec<_> = record.waves.iter().map(|wave| wave.name.as_str()).collect();
            let hint = format!("its waves are {}", known.join(", "));
            return Err(ApiError::not_found(format!("{id} has no wave {wave}"), hint));
        };
        let asks = |at: usize, side: GatePoint| -> Vec<&TeamName> {
            let gates = record.strategy.waves.get(at).map(|spec| match side {
                GatePoint::Before => &spec.gates.before,
                GatePoint::After => &spec.gates.after,
            });
            gates.into_iter().flatten().map(|Gate::Approval { team, .. }| team).collect()
        };
        if !asks(at, gate).contains(&team) {
            let all = (0..record.waves.len()).flat_map(|w| {
                [GatePoint::Before, GatePoint::After]
                    .into_iter()
                    .flat_map(move |side| asks(w, side).into_iter().map(move |team| (w, side, team)))
            });
            let all: Vec<String> = all
                .filter_map(|(w, s, team)| {
                    Some(format!("{} {} by {team}", side(s), record.waves.get(w)?.name))
                })
                .collect();
            let hint = match all.as_slice() {
                [] => "no wave of it asks for an approval".to_owned(),
                all => format!("approvals it asks for: {}", all.join(", ")),
            };
            let error = format!("nobody asks for an approval by {team} {} wave {wave} of {id}", side(gate));
            return Err(ApiError::not_found(error, hint));
        }
        let reached = match gate {
            GatePoint::Before => state == WaveState::GatedBefore,
            GatePoint::After => state == WaveState::GatedAfter,
        };
        if !reached {
            let error = format!("wave {wave} of {id} is {state:?}: it isn't at the gate {} it", side(gate));
            return Err(ApiError::conflict(
                error,
                "approve when it is there and there is something to look at",
            ));
        }
        let said = |c: &drydock_plan::Command| {
            let this =
                CommandKind::Approve { rollout: id.clone(), wave: wave.clone(), gate, team: team.clone() };
            c.what == this && c.by.trim().to_lowercase() == self.by.trim().to_lowercase()
        };
        if self.ledger.commands.values().any(said) {
            let error = format!("{} has approved this already", self.by.trim());
            return Err(ApiError::conflict(
                error,
                "one person counts once; somebody else has to agree as well",
            ));
        }
        Ok(format!("{} approves for team {team} {} wave {wave} of {id}", self.by.trim(), side(gate)))
    }

    fn retry(&self, what: &str, pool: Option<&PoolName>) -> Result<(CommandKind, String), ApiError> {
        if let Ok(release) = what.parse::<ReleaseId>() {
            return self.retry_release(release, pool);
        }
        let node = NodeId::new(what);
        if pool.is_some() {
            return Err(ApiError::bad("`pool` narrows the retry of a release", "leave it out for a node"));
        }
        let Some(record) = self.ledger.nodes.get(&node) else {
            return match self.known_node(&node) {
                Ok(()) => Err(ApiError::conflict(format!("{node} was never left out"), "nothing to retry")),
                Err(_) => Err(ApiError::not_found(
                    format!("{what} is neither a release that failed nor a known node"),
                    self.node_hint(&node),
                )),
            };
        };
        let resting = record.not_before.is_some_and(|at| self.facts.is_some_and(|facts| at > facts.now));
        let note = match (&record.visit, &record.quarantine, &record.skipped) {
            (Some(visit), _, _) => {
                let error = format!("{node} is on a visit: {}", visit.step.word());
                return Err(ApiError::conflict(error, "wait until it is back"));
            }
            (None, Some(_), _) => {
                format!("{node} is checked again and serves when it passes; until then it stays cordoned")
            }
            (None, None, Some(note)) => {
                format!("{node} was left out ({}); it gets its turn again", note.reason.text())
            }
            (None, None, None) if resting || failed_on(self.ledger, &node) => {
                format!("{node} gets its turn again")
            }
            (None, None, None) => {
                let error = format!("{node} is neither quarantined nor left out");
                return Err(ApiError::conflict(error, "nothing to retry"));
            }
        };
        Ok((CommandKind::RetryNode { node }, note))
    }

    fn retry_release(
        &self,
        release: ReleaseId,
        pool: Option<&PoolName>,
    ) -> Result<(CommandKind, String), ApiError> {
        let mine = |name: &&PoolName| pool.is_none_or(|only| only == *name);
        let quarantined = self.ledger.quarantines.keys().filter(|(_, r)| *r == release).map(|(p, _)| p);
        let ended = self.ledger.rollouts.values().filter(|r| r.state == RolloutState::Aborted);
        let aborted =
            ended.flat_map(|r| r.targets.iter().filter(|(_, t)| t.release == release).map(|(p, _)| p));
        // What it brings has failed in another release.
        let told = |wait: &Wait| matches!(&wait.reason, Reason::ReleaseQuarantined { release: r, .. } if *r == release);
        let held = self.facts.filter(|facts| facts.report.holds.iter().any(told));
        let asked = held.into_iter().flat_map(|facts| facts.targets.iter());
        let asked = asked.filter(|(_, pool)| pool.target.release == release).map(|(name, _)| name);
        let mut pools: Vec<&PoolName> = quarantined.chain(aborted).chain(asked).collect();
        pools.sort_unstable();
        pools.dedup();
        let failures = self.ledger.rollouts.values().flat_map(|r| &r.failures);
        let failed = failures.into_iter().any(|f| f.release == release && f.blame == Blame::Version);
        let chosen: Vec<&str> = pools.iter().copied().filter(mine).map(PoolName::as_str).collect();
        if chosen.is_empty() && (pool.is_some() || !failed) {
            let hint = match pools.as_slice() {
                [] => "`drydock rollouts` shows what failed, and what was aborted".to_owned(),
                pools => format!("it is held back on {}", some(pools)),
            };
            let on = pool.map_or(String::new(), |pool| format!(" on pool {pool}"));
            return Err(ApiError::not_found(format!("{release} isn't quarantined{on}"), hint));
        }
        let note = match chosen.as_slice() {
            [] => format!("{release} is tried again on nodes where it failed"),
            pools => format!("{release} is tried again on {}", some(pools)),
        };
        Ok((CommandKind::RetryRelease { release, pool: pool.cloned() }, note))
    }

    fn may_skip(&self, node: &NodeId) -> Result<String, ApiError> {
        if node.as_str().split('/').filter(|part| !part.is_empty()).count() != 2 {
            return Err(ApiError::bad(format!("{node} is no node"), "write it as cluster/node"));
        }
        self.known_node(node)?;
        let record = self.ledger.nodes.get(node);
        let differs = self.facts.and_then(|facts| facts.why(node)).is_some_and(|why| !why.synced);
        let visit = record.and_then(|r| r.visit.as_ref());
        if let Some(visit) = visit.filter(|v| v.step.stage() >= 4 || v.course != Course::Forward) {
            let error = format!("{node} is being changed already ({})", visit.step.word());
            return Err(ApiError::conflict(error, "it finishes; drydock abort ends the whole rollout"));
        }
        let waits = visit.is_some()
            || record.and_then(|r| r.assignment.as_ref()).is_some_and(|a| a.outcome.is_none());
        if record.is_some_and(|r| r.soak.is_some()) || !waits && !differs {
            return Err(ApiError::conflict(
                format!("{node} has nothing to be left out of: it runs what Git says"),
                "to leave it out of what comes, write it into `skip` of a RolloutControl",
            ));
        }
        Ok(format!("{node} is left out until its release changes or somebody says retry"))
    }

    fn known_node(&self, node: &NodeId) -> Result<(), ApiError> {
        let seen = self.facts.is_some_and(|facts| facts.inventory.nodes.contains_key(node));
        if seen || self.ledger.nodes.contains_key(node) {
            return Ok(());
        }
        Err(ApiError::not_found(format!("there is no node {node}"), self.node_hint(node)))
    }

    fn node_hint(&self, node: &NodeId) -> String {
        let ids = self.facts.into_iter().flat_map(|facts| facts.node_ids().map(NodeId::as_str));
        match nearest(node.as_str(), ids) {
            Some(near) => format!("did you mean {near}? `drydock status --nodes` lists them"),
            None => "write it as cluster/node; `drydock status --nodes` lists them".to_owned(),
        }
    }
}

fn may_abort(record: &RolloutRecord) -> Result<String, ApiError> {
    let id = &record.id;
    if let RolloutState::Paused(PauseReason::Aborting { by }) = &record.state {
        return Err(ApiError::conflict(format!("{id} is being ended by {by} already"), "nothing to do"));
    }
    Ok(format!("{id} ends: untouched nodes are returned, the others finish"))
}

/// A release failed on this very node, within what its wave tolerates.
fn failed_on(ledger: &Ledger, node: &NodeId) -> bool {
    ledger.rollouts.values().any(|r| r.failures.iter().any(|f| f.node == *node && f.blame == Blame::Version))
}

const fn side(gate: GatePoint) -> &'static str {
    match gate {
        GatePoint::Before => "before",
        GatePoint::After => "after",
    }
}

fn some<T: ToString>(names: &[T]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(ToString::to_string).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The name that is most like this one, by what they begin and end with; none that shares less than half.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |other: &str| {
        let front = other.chars().zip(name.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        let back = other.chars().rev().zip(name.chars().rev()).take_while(|(a, b)| a.eq_ignore_ascii_case(b));
        front + back.count()
    };
    let (score, near) = known.map(|other| (likeness(other), other)).max_by_key(|(score, _)| *score)?;
    (score * 2 >= name.chars().count()).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_hand_is_recognised() {
        let known = ["c1/gpu-000", "c1/gpu-001", "c2/gpu-001"];
        assert_eq!(nearest("c1/gpu-0O1", known.into_iter()), Some("c1/gpu-001"));
        assert_eq!(nearest("banana", known.into_iter()), None);
    }
}
