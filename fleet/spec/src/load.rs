//! Loading a repository: every finding of every file, in one run.

use std::fmt;

use serde::Deserialize;

use crate::{
    collect::Repository,
    diagnostic::{Diagnostic, Span},
    fleet::Fleet,
    kinds::FleetSpec,
    lint,
    reading::{self, Look},
    rule::{RuleId, Severity},
    source::{self, file::FileText, tree::Problem},
    text::FleetName,
};

pub use crate::reading::{FILE_SIZE_MAX, Unread, unread};

/// Most files with documents. The largest fleet in view (120 clusters) has some thousand.
pub const FILES_MAX: usize = 10_000;

/// A file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Path relative to the root of the repository, with `/`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What came of loading.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The fleet; only there when there was no error.
    pub fleet: Option<Fleet>,
    /// Everything found, by file and line.
    pub diagnostics: Vec<Diagnostic>,
    /// Documents seen, good and bad ones.
    pub documents: usize,
    /// Files with the name of a document from which nothing was taken, by path.
    pub passed_over: Vec<PassedOver>,
}

/// A file from which nothing was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Its path.
    pub path: String,
    /// Why, in a few words.
    pub why: String,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

impl Loaded {
    /// How many findings are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == severity).count()
    }
}

/// Loads and checks a repository. Files that aren't YAML by their name, and documents that aren't drydock's, are
/// passed over, so workflows, charts and kustomizations can stand beside the fleet. What may be drydock's and can't be
/// read is a finding.
#[must_use]
pub fn load(files: &[SourceFile]) -> Loaded {
    let mut ordered: Vec<&SourceFile> = files.iter().filter(|f| is_yaml(&f.path)).collect();
    ordered.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let Some(mut repository) = empty() else {
        return Loaded { fleet: None, diagnostics: Vec::new(), documents: 0, passed_over: Vec::new() };
    };
    let (mut with_documents, mut passed_over) = (0, Vec::new());
    for file in ordered {
        let found = repository.documents + repository.diagnostics.len();
        if let Some(why) = read(&mut repository, file) {
            passed_over.push(PassedOver { path: file.path.clone(), why });
            continue;
        }
        with_documents += usize::from(repository.documents + repository.diagnostics.len() > found);
        if with_documents > FILES_MAX {
            let message = format!("more than {FILES_MAX} files with documents; the rest wasn't read");
            repository.diagnostics.push(about_all(RuleId::TooManyFiles, message, None));
            break;
        }
    }
    if repository.lacks_fleet() {
        let hint = "add a document with kind: Fleet, metadata.name and an empty spec".to_owned();
        let message = match repository.documents {
            0 => "there are no documents in this repository".to_owned(),
            n => format!("none of the {n} documents is of kind Fleet"),
        };
        repository.diagnostics.push(about_all(RuleId::NoFleet, message, Some(hint)));
    }
    lint::check(&mut repository);
    let Repository { fleet, mut diagnostics, documents, .. } = repository;
    diagnostics.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    diagnostics.dedup();
    let good = !diagnostics.iter().any(Diagnostic::is_error);
    Loaded { fleet: good.then_some(fleet), diagnostics, documents, passed_over }
}

/// The defaults of a `Fleet` document are those of its type; this name never leaves the loader.
fn empty<'f>() -> Option<Repository<'f>> {
    let nothing = serde::de::value::MapDeserializer::<_, serde::de::value::Error>::new(std::iter::empty::<(
        &str,
        &str,
    )>());
    let spec = FleetSpec::deserialize(nothing).ok()?;
    let name: FleetName = "unnamed".parse().ok()?;
    Some(Repository::new(name, spec))
}

fn about_all(rule: RuleId, message: String, hint: Option<String>) -> Diagnostic {
    let (file, source_line) = (".".to_owned(), String::new());
    Diagnostic { rule, severity: rule.severity(), file, span: Span::START, message, hint, source_line }
}

fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml")
}

/// Takes a file in; why nothing was taken from it, where that is so.
fn read<'f>(repository: &mut Repository<'f>, file: &'f SourceFile) -> Option<String> {
    let index = repository.files.len();
    let whole = |text: &'f str| FileText::new(&file.path, text);
    let text = match reading::look(&file.bytes) {
        Look::Text(text) => text,
        Look::Ours(why, line) => {
            let rule = match why {
                Unread::TooLarge => RuleId::FileTooLarge,
                Unread::LfsPointer => RuleId::LfsPointer,
                Unread::Encoding(_)
                | Unread::Encrypted(_)
                | Unread::Compressed(_)
                | Unread::Binary
                | Unread::NotYaml => RuleId::NotText,
            };
            let span = Span { line: u32::try_from(line).unwrap_or(u32::MAX), ..Span::START };
            repository.files.push(whole(""));
            repository.report(index, Problem::new(rule, span, why.to_string()).hint(why.hint()));
            return None;
        }
        Look::Unknown(why) => {
            let message = format!("{why}: if it holds documents, they aren't in force");
            repository.files.push(whole(""));
            repository.report(index, Problem::new(RuleId::Sealed, Span::START, message).hint(why.hint()));
            return Some(why.to_string());
        }
        Look::Foreign(why) => return Some(why.to_string()),
    };
    let (before, found) = (repository.documents, repository.diagnostics.len());
    if reading::mentions_us(text.as_bytes()) || reading::calls_us(text) {
        repository.files.push(whole(text));
        let parsed = source::parse(text);
        for root in parsed.documents {
            repository.document(index, root.node, root.problems);
        }
        if let Some(fatal) = parsed.fatal
            && (declares_us(text) || reading::calls_us(text))
        {
            repository.report(index, fatal);
        }
    } else if text.len() <= repository.look_into
        // Charts are full of templates, which aren't YAML and aren't meant to be.
        && !text.contains("{{")
    {
        repository.look_into -= text.len();
        if let Some(fatal) = reading::not_yaml(text) {
            repository.files.push(whole(text));
            let message = format!("passed over: {}", fatal.message);
            let problem = Problem::new(RuleId::PassedOver, fatal.span, message);
            repository.report(index, problem.hint(Unread::NotYaml.hint()));
            return Some(Unread::NotYaml.to_string());
        }
    }
    let nothing = repository.documents == before && repository.diagnostics.len() == found;
    nothing.then(|| "no document of drydock's".to_owned())
}

/// Whether a file that can't be parsed claims to be drydock's.
fn declares_us(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start_matches(['-', ' ', '"', '\'', '{']);
        line.starts_with("apiVersion") && line.contains("drydock.dev/")
    })
}
