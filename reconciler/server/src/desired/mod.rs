//! Which fleet is in force. A repository that is unreadable, empty, invalid, rewritten or suddenly much smaller changes
//! nothing: the last good commit stays in force, also over a restart, and the problem is shown.

mod judge;
mod problem;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use drydock_plan::CommitRef;
use drydock_source::{Movement, SourceState};
use drydock_spec::removal::{Seen, SeenNode};
use drydock_spec::{Diagnostic, Fleet, SourceFile};
use jiff::Timestamp;
use serde::Serialize;

pub use judge::{diagnostic, lost_documents};
pub use problem::{FINDINGS_SHOWN, SourceProblem};

use crate::store::KeptSource;
use judge::{Present, judge};

/// The fleet in force and the commit it comes from.
#[derive(Debug, Clone)]
pub struct InForce {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// The commit.
    pub commit: Arc<CommitRef>,
    /// Findings in it that aren't errors, at most [`FINDINGS_SHOWN`].
    pub warnings: Arc<Vec<Diagnostic>>,
}

/// The state of the source, for screens. Instants are those of the wall clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// What is wrong with it; absent when the newest commit is in force.
    pub problem: Option<SourceProblem>,
    /// The problem in one sentence.
    pub problem_text: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Since when it is like this.
    pub problem_since: Option<Timestamp>,
    /// The last look.
    pub looked_at: Option<Timestamp>,
    /// When the repository last answered.
    pub answered_at: Option<Timestamp>,
    /// Failed looks in a row.
    pub failures: u32,
    /// Full id of the newest commit seen, in force or not.
    pub newest: Option<String>,
}

/// What taking in a look changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A commit came into force; its files are to be kept.
    Adopted(KeptSource),
    /// There is a problem, or another one than before.
    Problem(SourceProblem),
    /// The problem is gone.
    Well,
}

/// Decides which fleet is in force.
#[derive(Debug)]
pub struct Desired {
    in_force: Option<InForce>,
    problem: Option<(SourceProblem, Timestamp)>,
    /// The verdict on the snapshot of this generation, so that a refused one isn't loaded again at every look.
    judged: Option<(u64, Option<SourceProblem>)>,
    view: SourceView,
}

impl Desired {
    /// With what was in force before a restart.
    #[must_use]
    pub fn new(kept: Option<KeptSource>, wall: Timestamp) -> Self {
        let not_read = SourceProblem::NotReadYet {};
        let mut desired = Self {
            in_force: None,
            problem: Some((not_read, wall)),
            judged: None,
            view: SourceView {
                problem: None,
                problem_text: None,
                hint: None,
                problem_since: None,
                looked_at: None,
                answered_at: None,
                failures: 0,
                newest: None,
            },
        };
        if let Some(KeptSource { commit, files }) = kept {
            let files: Vec<_> = files.into_iter().map(|(path, bytes)| SourceFile { path, bytes }).collect();
            match judge::load(&files) {
                Ok((fleet, warnings)) => {
                    desired.in_force = Some(InForce {
                        fleet: Arc::new(fleet),
                        commit: Arc::new(commit),
                        warnings: Arc::new(warnings),
                    });
                }
                // Rules may have become stricter with a newer drydock. Nothing is in force then, so nothing moves.
                Err((errors, first)) => {
                    let problem = SourceProblem::Invalid { commit: commit.id, errors, first };
                    tracing::error!(%problem, "the kept commit isn't valid any more");
                }
            }
        }
        desired.refresh_view();
        desired
    }

    /// The fleet in force; absent until there was a first good commit.
    #[must_use]
    pub fn in_force(&self) -> Option<&InForce> {
        self.in_force.as_ref()
    }

    /// The state of the source, for screens.
    #[must_use]
    pub fn view(&self) -> &SourceView {
        &self.view
    }

    /// Takes in what the source knows now. `nodes` are those observed, with their labels; `wall` is the present.
    pub fn take_in(&mut self, state: &SourceState, nodes: &[SeenNode<'_>], wall: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut refused = None;
        if let Some(snapshot) = &state.last_good {
            if self.judged.as_ref().map(|(generation, _)| *generation) != Some(state.generation) {
                let seen = Seen { now: Some(wall), nodes: nodes.to_vec() };
                let verdict = self.judge(snapshot, &seen, &mut changes);
                self.judged = Some((state.generation, verdict));
            }
            refused = self.judged.as_ref().and_then(|(_, verdict)| verdict.clone());
        }
        let problem = what_is_wrong(state, refused);
        let before = self.problem.take();
        self.problem = match (problem, before) {
            (Some(problem), Some((old, since))) if same_trouble(&problem, &old) => Some((problem, since)),
            (Some(problem), _) => {
                changes.push(Change::Problem(problem.clone()));
                Some((problem, wall))
            }
            // The first good look after a start is no news.
            (None, Some((SourceProblem::NotReadYet {}, _)) | None) => None,
            (None, Some(_)) => {
                changes.push(Change::Well);
                None
            }
        };
        self.view.looked_at = state.last_attempt.as_ref().map(|attempt| attempt.at);
        self.view.answered_at = state.last_fetch_ok_at;
        self.view.failures = state.failures;
        self.view.newest = match state.last_attempt.as_ref().map(|attempt| &attempt.result) {
            Some(Ok(commit)) => Some(commit.clone()),
            Some(Err(_)) | None => state.last_good.as_ref().map(|snapshot| snapshot.commit.id.clone()),
        };
        self.refresh_view();
        changes
    }

    fn judge(
        &mut self,
        snapshot: &drydock_source::Snapshot,
        seen: &Seen<'_>,
        changes: &mut Vec<Change>,
    ) -> Option<SourceProblem> {
        if self.in_force.as_ref().is_some_and(|now| *now.commit == judge::commit_ref(snapshot)) {
            return None;
        }
        let fleet = self.in_force.as_ref().map(|now| &*now.fleet);
        match judge(snapshot, Present { fleet, seen }) {
            Ok(good) => {
                let commit = good.commit;
                let holders = good.fleet.paths();
                // Only what the fleet was made of has to be there after a restart.
                let files = snapshot.files.iter().filter(|f| {
                    holders.contains(f.path.as_str())
                        || !(f.path.ends_with(".yaml") || f.path.ends_with(".yml"))
                });
                let files = files.map(|f| (f.path.clone(), f.bytes.clone())).collect();
                self.in_force = Some(InForce {
                    fleet: Arc::new(good.fleet),
                    commit: Arc::new(commit.clone()),
                    warnings: Arc::new(good.warnings),
                });
                changes.push(Change::Adopted(KeptSource { commit, files }));
                None
            }
            Err(problem) => Some(problem),
        }
    }

    fn refresh_view(&mut self) {
        self.view.problem = self.problem.as_ref().map(|(problem, _)| problem.clone());
        self.view.problem_since = self.problem.as_ref().map(|(_, since)| *since);
        self.view.problem_text = self.view.problem.as_ref().map(ToString::to_string);
        self.view.hint = self.view.problem.as_ref().map(SourceProblem::hint);
    }
}

/// The trouble that is shown: what keeps the repository from being read comes before what was wrong with it when it was.
fn what_is_wrong(state: &SourceState, refused: Option<SourceProblem>) -> Option<SourceProblem> {
    match &state.last_attempt {
        None => Some(refused.unwrap_or(SourceProblem::NotReadYet {})),
        Some(attempt) => match &attempt.result {
            Err(failure) => {
                Some(SourceProblem::Unreadable { what: failure.kind, text: failure.text.clone() })
            }
            Ok(_) => held(state.held.as_ref()).or(refused),
        },
    }
}

fn held(movement: Option<&Movement>) -> Option<SourceProblem> {
    match movement? {
        Movement::Rewritten { from, to } => {
            Some(SourceProblem::Rewritten { from: from.clone(), to: to.clone() })
        }
        Movement::Backwards { from, to } => {
            Some(SourceProblem::Backwards { from: from.clone(), to: to.clone() })
        }
        Movement::Unchanged | Movement::FastForward { .. } => None,
    }
}

/// The text of an unreadable source differs from look to look (ports, counters); the trouble is the same.
fn same_trouble(one: &SourceProblem, other: &SourceProblem) -> bool {
    match (one, other) {
        (SourceProblem::Unreadable { what: a, .. }, SourceProblem::Unreadable { what: b, .. }) => a == b,
        _ => one == other,
    }
}
