//! Whether a commit may come into force: a pure function of the commit, the one in force, and the nodes that are there.

use std::collections::BTreeMap;

use drydock_plan::CommitRef;
use drydock_source::{Finding, Snapshot, WORKTREE};
use drydock_spec::{Diagnostic, Fleet, PoolName, SourceFile};

use super::problem::{FINDINGS_SHOWN, Removed, SourceProblem};

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
        removal(now, &fleet, present.nodes, &commit.id).map_or(Ok(()), Err)?;
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

/// Whether `next` takes out more of `now` than `next` itself allows: whoever means it says so in the same commit.
fn removal(
    now: &Fleet,
    next: &Fleet,
    nodes: &BTreeMap<PoolName, u32>,
    commit: &str,
) -> Option<SourceProblem> {
    let gone: Vec<PoolName> =
        now.pools.keys().filter(|name| !next.pools.contains_key(*name)).cloned().collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let held = |pools: &mut dyn Iterator<Item = &PoolName>| -> u32 {
        pools.filter_map(|pool| nodes.get(pool)).fold(0, |sum, n| sum.saturating_add(*n))
    };
    let budget = next.spec.removal_budget;
    let problem = |of, removed: u32, total: u32| {
        // A percentage of few things rounds to none of them. One pool may go at a time all the same unless the
        // budget is written as zero: otherwise a fleet of nine pools could never lose one.
        let allowed = match of {
            Removed::Pools if !budget.is_zero() => budget.floor_of(total).max(1),
            Removed::Pools | Removed::Nodes => budget.floor_of(total),
        };
        (removed > allowed).then(|| SourceProblem::MassRemoval {
            commit: commit.to_owned(),
            of,
            removed,
            total,
            allowed,
            pools: gone.clone(),
        })
    };
    problem(Removed::Pools, count(gone.len()), count(now.pools.len()))
        .or_else(|| problem(Removed::Nodes, held(&mut gone.iter()), held(&mut now.pools.keys())))
}
