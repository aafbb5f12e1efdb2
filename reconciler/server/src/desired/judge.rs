//! Whether a commit may come into force: a pure function of the commit, the one in force, and the nodes that are there.

use std::collections::BTreeMap;

use drydock_plan::CommitRef;
use drydock_source::{Finding, Snapshot, WORKTREE};
use drydock_spec::diff::renamed_pools;
use drydock_spec::removal::{Removed, effective_budget};
use drydock_spec::{Diagnostic, Fleet, PoolName, RemovalRefused, SourceFile, accept, removals};

use super::problem::{FINDINGS_SHOWN, SourceProblem};

/// A commit that may come into force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Good {
    pub(crate) fleet: Fleet,
    pub(crate) commit: CommitRef,
    /// Findings that don't stop it, at most [`FINDINGS_SHOWN`].
    pub(crate) warnings: Vec<Diagnostic>,
}

/// What a commit is judged against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present<'a> {
    /// The fleet in force.
    pub(crate) fleet: Option<&'a Fleet>,
    /// Paths of the files in force.
    pub(crate) files: &'a [String],
    /// Nodes of each pool, as observed.
    pub(crate) nodes: &'a BTreeMap<PoolName, u32>,
}

/// Judges. An error keeps the commit out.
pub(crate) fn judge(snapshot: &Snapshot, present: Present<'_>) -> Result<Good, SourceProblem> {
    let commit = commit_ref(snapshot);
    let lost = lost_documents(&snapshot.findings, present.files);
    if !lost.is_empty() {
        return Err(SourceProblem::Incomplete { commit: commit.id, findings: lost });
    }
    let files = snapshot.files.iter();
    let files: Vec<SourceFile> =
        files.map(|file| SourceFile { path: file.path.clone(), bytes: file.bytes.clone() }).collect();
    let (fleet, warnings) = load(&files).map_err(|(errors, first)| SourceProblem::Invalid {
        commit: commit.id.clone(),
        errors,
        first,
    })?;
    if let Some(now) = present.fleet {
        removal(now, &fleet, present.nodes)
            .map_err(|refused| SourceProblem::MassRemoval { commit: commit.id.clone(), refused })?;
    }
    Ok(Good { fleet, commit, warnings })
}

/// The fleet in `files` with its warnings, or the number of errors and the first of them.
pub(crate) fn load(files: &[SourceFile]) -> Result<(Fleet, Vec<Diagnostic>), (usize, Vec<Diagnostic>)> {
    let loaded = drydock_spec::load(files);
    let (errors, mut warnings): (Vec<_>, Vec<_>) =
        loaded.diagnostics.into_iter().partition(Diagnostic::is_error);
    match loaded.fleet {
        Some(fleet) if errors.is_empty() => {
            warnings.truncate(FINDINGS_SHOWN);
            Ok((fleet, warnings))
        }
        Some(_) | None => {
            let count = errors.len();
            Err((count, errors.into_iter().take(FINDINGS_SHOWN).collect()))
        }
    }
}

/// How the commit is named in the ledger and on screens.
pub(crate) fn commit_ref(snapshot: &Snapshot) -> CommitRef {
    let commit = &snapshot.commit;
    let id = if commit.id == WORKTREE {
        // Uncommitted files have no id, and every decision needs one that changes with them.
        format!("{:016x}-{WORKTREE}", digest(snapshot))
    } else {
        commit.id.clone()
    };
    CommitRef { id, summary: commit.summary.clone(), author: commit.author_name.clone(), time: commit.time }
}

/// FNV-1a, 64 bits: it only has to differ between two savings of one editor.
fn digest(snapshot: &Snapshot) -> u64 {
    let parts = snapshot.files.iter().flat_map(|file| [file.path.as_bytes(), &file.bytes[..]]);
    parts.fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let length = (part.len() as u64).to_be_bytes();
        length.iter().chain(part).fold(hash, |h, byte| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

/// Findings where a file in force stands or stood: that document hasn't been removed, it just can't be read.
fn lost_documents(findings: &[Finding], in_force: &[String]) -> Vec<String> {
    let covers = |finding: &Finding, file: &String| {
        file.strip_prefix(&finding.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let lost = findings.iter().filter(|finding| in_force.iter().any(|file| covers(finding, file)));
    lost.take(FINDINGS_SHOWN).map(ToString::to_string).collect()
}

/// Whether `next` takes out more of `now` than it may: as the documents say, and as was observed. The documents know
/// only the least number of nodes of a pool, and often not even that.
fn removal(now: &Fleet, next: &Fleet, nodes: &BTreeMap<PoolName, u32>) -> Result<(), RemovalRefused> {
    accept(now, next)?;
    let renamed = renamed_pools(now, next);
    let stays = |name: &PoolName| next.pools.contains_key(renamed.get(name).unwrap_or(name));
    let held = |pool: &PoolName| nodes.get(pool).copied().unwrap_or(0);
    let before = now.pools.keys().map(held).fold(0, u32::saturating_add);
    let removed = now.pools.keys().filter(|name| !stays(name)).map(held).fold(0, u32::saturating_add);
    let budget = effective_budget(now, next, before);
    let allowed = budget.floor_of(before);
    if removed > allowed {
        let what = Removed::Nodes;
        return Err(RemovalRefused { what, removed, before, allowed, budget, removals: removals(now, next) });
    }
    Ok(())
}
