//! Loading a repository: every finding of every file, in one run.

use serde::Deserialize;

use crate::{
    collect::Repository,
    diagnostic::{Diagnostic, Span},
    fleet::Fleet,
    kinds::FleetSpec,
    lint,
    rule::{RuleId, Severity},
    source::{self, file::FileText, tree::Problem},
    text::FleetName,
};

/// Largest file, in bytes.
pub const FILE_SIZE_MAX: usize = 1 << 20;
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
}

impl Loaded {
    /// How many findings are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == severity).count()
    }
}

/// Loads and checks a repository. Files that aren't YAML by their name, and documents that aren't drydock's, are
/// passed over, so workflows, charts and kustomizations can stand beside the fleet.
#[must_use]
pub fn load(files: &[SourceFile]) -> Loaded {
    let mut ordered: Vec<&SourceFile> = files.iter().filter(|f| is_yaml(&f.path)).collect();
    ordered.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let Some(mut repository) = empty() else {
        return Loaded { fleet: None, diagnostics: Vec::new(), documents: 0 };
    };
    let mut with_documents = 0;
    for file in ordered {
        let found = repository.documents + repository.diagnostics.len();
        read(&mut repository, file);
        with_documents += usize::from(repository.documents + repository.diagnostics.len() > found);
        if with_documents > FILES_MAX {
            let message = format!("more than {FILES_MAX} files with documents; the rest wasn't read");
            repository.diagnostics.push(about_all(RuleId::TooManyFiles, message, None));
            break;
        }
    }
    if !repository.has_fleet() {
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
    Loaded { fleet: good.then_some(fleet), diagnostics, documents }
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

fn read<'f>(repository: &mut Repository<'f>, file: &'f SourceFile) {
    let index = repository.files.len();
    let whole = |text: &'f str| FileText::new(&file.path, text);
    if file.bytes.len() > FILE_SIZE_MAX {
        // Too large to be one of ours unless it says so at its start.
        if mentions_us(&file.bytes[..FILE_SIZE_MAX]) {
            let message = format!("the file has {} bytes, the most is {FILE_SIZE_MAX}", file.bytes.len());
            repository.files.push(whole(""));
            repository.report(index, Problem::new(RuleId::FileTooLarge, Span::START, message));
        }
        return;
    }
    if file.bytes.starts_with(b"version https://git-lfs.github.com/") {
        repository.files.push(whole(""));
        let problem = Problem::new(
            RuleId::LfsPointer,
            Span::START,
            "a Git LFS pointer stands where a file is expected",
        );
        repository
            .report(index, problem.hint("take YAML files out of .gitattributes, or fetch the objects first"));
        return;
    }
    if !mentions_us(&file.bytes) {
        return;
    }
    let text = match std::str::from_utf8(&file.bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let before = &file.bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            let span = Span { line: u32::try_from(line).unwrap_or(u32::MAX), ..Span::START };
            repository.files.push(whole(""));
            repository.report(index, Problem::new(RuleId::NotText, span, "the file isn't UTF-8 text"));
            return;
        }
    };
    repository.files.push(whole(text));
    let parsed = source::parse(text);
    for root in parsed.documents {
        repository.document(index, root.node, root.problems);
    }
    if let Some(fatal) = parsed.fatal
        && declares_us(text)
    {
        repository.report(index, fatal);
    }
}

/// Whether a file may hold a document of drydock, by a look at its bytes: it spares parsing charts and workflows.
fn mentions_us(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [
        b"drydock.dev/",
        b"GpuNodePool",
        b"PartitionLayout",
        b"RolloutPolicy",
        b"CheckSuite",
        b"RolloutControl",
        b"CostBudget",
    ];
    // All of them are rare, and so are their first letters after a line's start; a scan by first byte is enough.
    bytes.iter().enumerate().any(|(at, &byte)| {
        matches!(byte, b'd' | b'G' | b'P' | b'R' | b'C')
            && WORDS.iter().any(|word| bytes[at..].starts_with(word))
    })
}

/// Whether a file that can't be parsed claims to be drydock's.
fn declares_us(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start_matches(['-', ' ', '"', '\'', '{']);
        line.starts_with("apiVersion") && line.contains("drydock.dev/")
    })
}
