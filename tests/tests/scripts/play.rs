//! Sets the stage of a script and plays it.

use std::{fs, path::Path, sync::Arc};

use drydock_plan::{Command, CommandKind, CommitRef, NodeId, RolloutId};
use drydock_sim::{Commit, FaultSpec, Run, RunOptions, Runner, World, WorldOptions};
use drydock_spec::{Fleet, Period};
use jiff::Timestamp;

use crate::{
    edits::Documents,
    script::{CommandStep, Script, Word},
};

/// A script, ready to be played any number of times.
pub(crate) struct Stage {
    pub options: WorldOptions,
    pub run: RunOptions,
    /// What is in force at first, then every commit of the script.
    pub commits: Vec<Commit>,
    pub commands: Vec<(Timestamp, Command)>,
}

impl Stage {
    /// Reads documents, makes commits.
    pub(crate) fn set(script: &Script, folder: &Path) -> Result<Self, String> {
        let path = folder.join("fleets").join(format!("{}.yaml", script.fleet));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut documents = Documents::read(&text)?;
        documents.edit(&script.set)?;
        let start = script.begin();
        let mut commits = vec![commit(0, start, "what runs", documents.load()?)];
        for (number, step) in (1..).zip(&script.commits) {
            let before = documents.clone();
            documents.edit(&step.set).map_err(|e| format!("commit {number}: {e}"))?;
            let fleet = match (documents.load(), &step.refused) {
                (Ok(fleet), None) => fleet,
                (Ok(_), Some(why)) => return Err(format!("commit {number} isn't refused, expected: {why}")),
                (Err(error), Some(why)) if error.contains(why.as_str()) => {
                    documents = before;
                    continue;
                }
                (Err(error), _) => return Err(format!("commit {number}: {error}")),
            };
            commits.push(commit(number, step.at.after(start), &step.message, fleet));
        }
        let run = RunOptions {
            until: script.until.map(|until| until.after(start)),
            node_lines: script.node_lines,
            ..RunOptions::default()
        };
        let mut stage = Self { options: script.options()?, run, commits, commands: Vec::new() };
        for step in &script.commands {
            let at = step.at.after(start);
            stage.commands.push((at, stage.command(step, at)?));
        }
        Ok(stage)
    }
    fn command(&self, step: &CommandStep, at: Timestamp) -> Result<Command, String> {
        let name = |text: &String| RolloutId::new(text);
        let what = match &step.what {
            Word::Pause(rollout) => CommandKind::Pause { rollout: name(rollout) },
            Word::Resume(rollout) => CommandKind::Resume { rollout: name(rollout) },
            Word::Abort(rollout) => CommandKind::Abort { rollout: name(rollout) },
            Word::Skip(node) => CommandKind::Skip { node: NodeId::new(node) },
            Word::RetryNode(node) => CommandKind::RetryNode { node: NodeId::new(node) },
            Word::RetryRelease(release) => {
                let fleet =
                    &self.commits.iter().rfind(|c| c.at <= at).ok_or("a command before the start")?.fleet;
                let found = fleet.releases.iter().find(|(known, _)| known.as_str() == release);
                let (_, found) = found.ok_or(format!("retry: there is no release {release}"))?;
                CommandKind::RetryRelease { release: found.vector().id(), pool: None }
            }
            Word::Approve { rollout, wave, gate, team } => CommandKind::Approve {
                rollout: name(rollout),
                wave: wave.parse().map_err(|e| format!("{wave}: {e}"))?,
                gate: *gate,
                team: team.parse().map_err(|e| format!("{team}: {e}"))?,
            },
        };
        Ok(Command { at, by: step.by.clone(), reason: step.reason.clone(), what, done: false })
    }
    /// Plays it, with the reconciler dying before the n-th write where one is given.
    pub(crate) fn play(&self, crash_at: Option<u64>) -> Run {
        let mut options = self.options.clone();
        options.faults.extend(crash_at.map(|n| FaultSpec::Crash { at_write: Some(n), probability: None }));
        let world = World::from_fleet(&self.commits[0].fleet, &options);
        let script = drydock_sim::Script { commits: self.commits.clone(), commands: self.commands.clone() };
        Runner::new(world, script, self.run).run()
    }
    /// What is in force at the end.
    pub(crate) fn last(&self) -> &Commit {
        self.commits.iter().max_by_key(|commit| commit.at).expect("there is always a first one")
    }
    pub(crate) fn elapsed(&self, run: &Run) -> Period {
        Period::between(self.options.start, run.world.now())
    }
}

fn commit(number: u64, at: Timestamp, message: &str, fleet: Fleet) -> Commit {
    let commit = CommitRef {
        id: format!("{number:07x}{:033x}", number),
        summary: message.to_owned(),
        author: "operator".to_owned(),
        time: at,
    };
    Commit { at, fleet: Arc::new(fleet), commit }
}
