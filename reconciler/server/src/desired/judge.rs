//! Whether a commit may come into force: a pure function of the commit, the one in force, and the nodes that are there.

use std::collections::BTreeSet;

use drydock_plan::CommitRef;
use drydock_source::{Finding, FindingKind, Snapshot, WORKTREE};
use drydock_spec::removal::{Seen, lost};
use drydock_spec::{Diagnostic, Fleet, RuleId, SourceFile, Span, accept, unread};

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
    /// What was observed, and the present.
    pub(crate) seen: &'a Seen<'a>,
}

/// Judges. An error keeps the commit out.
pub(crate) fn judge(snapshot: &Snapshot, present: Present<'_>) -> Result<Good, SourceProblem> {
    let commit = commit_ref(snapshot);
    let files = snapshot.files.iter();
    let files: Vec<SourceFile> =
        files.map(|file| SourceFile { path: file.path.clone(), bytes: file.bytes.clone() }).collect();
    let loaded = load(&files);
    if let Some(now) = present.fleet {
        let lost =
            lost_documents(now, loaded.as_ref().ok().map(|(fleet, _)| fleet), &files, &snapshot.findings);
        if !lost.is_empty() {
            return Err(SourceProblem::Incomplete { commit: commit.id, findings: lost });
        }
    }
    let (fleet, mut warnings) = loaded.map_err(|(errors, first)| SourceProblem::Invalid {
        commit: commit.id.clone(),
        errors,
        first,
    })?;
    if let Some(now) = present.fleet {
        accept(now, &fleet, present.seen)
            .map_err(|refused| SourceProblem::MassRemoval { commit: commit.id.clone(), refused })?;
    }
    warnings.extend(snapshot.findings.iter().map(diagnostic));
    warnings.truncate(FINDINGS_SHOWN);
    Ok(Good { fleet, commit, warnings })
}

/// What the source passed over, as a finding of the documents.
#[must_use]
pub fn diagnostic(finding: &Finding) -> Diagnostic {
    let hint = match finding.kind {
        FindingKind::LfsPointer | FindingKind::Symlink | FindingKind::Submodule => {
            "commit the documents themselves"
        }
        FindingKind::NameNotText => "rename it",
        FindingKind::NotAFile => "name folders otherwise",
        FindingKind::OtherName => "rename it to .yaml if it is a document",
        FindingKind::TooLarge => "split it into several files if it holds documents",
    };
    let (rule, what) = (RuleId::NotRead, finding.to_string());
    let message = what.strip_prefix(finding.path.as_str()).map_or(what.as_str(), str::trim_start);
    Diagnostic {
        rule,
        severity: rule.severity(),
        file: finding.path.clone(),
        span: Span::START,
        message: format!("it {message}"),
        hint: Some(hint.to_owned()),
        source_line: String::new(),
    }
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

/// What can't be read any more of what is in force: those documents haven't been removed. One that is there again in
/// another file isn't lost. `next` is absent when the commit has errors, which may well come from what is lost.
pub fn lost_documents(
    now: &Fleet,
    next: Option<&Fleet>,
    files: &[SourceFile],
    findings: &[Finding],
) -> Vec<String> {
    let in_force = now.paths();
    let found = findings.iter().filter(|finding| lost(now, next, &finding.path)).map(ToString::to_string);
    // `a.yaml` has become `a.yaml.gz`, whatever is in it.
    let wrapped = findings.iter().filter(|finding| {
        finding.kind == FindingKind::OtherName
            && in_force.iter().any(|file| {
                finding.path.strip_prefix(file).is_some_and(|rest| rest.starts_with('.'))
                    && lost(now, next, file)
            })
    });
    let sealed = files.iter().filter(|file| in_force.contains(file.path.as_str()));
    let sealed = sealed.filter_map(|file| {
        let why = unread(&file.bytes)?;
        lost(now, next, &file.path).then(|| format!("{}: {why}", file.path))
    });
    let all = found.chain(wrapped.map(ToString::to_string)).chain(sealed);
    let unique: BTreeSet<String> = all.collect();
    unique.into_iter().take(FINDINGS_SHOWN).collect()
}
