//! From the documents of a file to a repository that isn't checked yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use serde::de::DeserializeOwned;

use crate::{
    diagnostic::{Diagnostic, Span},
    document::Kind,
    fleet::{API_VERSION, Fleet, Named},
    kinds::FleetSpec,
    reading,
    rule::{RuleId, Severity},
    source::{
        decode::{ERRORS_MAX, decode},
        file::FileText,
        scalar::{self, Plain},
        tree::{Entry, Node, Place, Problem, Step, Value},
    },
    suggest,
    text::{FleetName, NameError},
};

/// Where a document stands, for findings that need the whole repository.
#[derive(Debug)]
pub(crate) struct Origin<'f> {
    file: usize,
    spec: Node<'f>,
    name: Span,
}

impl Origin<'_> {
    /// The place of a value; the name of the document when nothing on the way to it was written.
    pub(crate) fn place(&self, path: &[Step<'_>]) -> Place {
        self.spec.place(path, self.name)
    }
    /// The file it stands in.
    pub(crate) fn file(&self) -> usize {
        self.file
    }
    /// The place of a key.
    pub(crate) fn key_place(&self, path: &[Step<'_>], key: &str) -> Place {
        self.spec.key_place(path, key, self.name)
    }
}

/// Everything read so far.
#[derive(Debug)]
pub(crate) struct Repository<'f> {
    pub(crate) files: Vec<FileText<'f>>,
    pub(crate) fleet: Fleet,
    pub(crate) origins: BTreeMap<Kind, BTreeMap<String, Origin<'f>>>,
    /// Documents that exist but couldn't be read: they are no unknown reference.
    pub(crate) broken: BTreeSet<(Kind, String)>,
    /// Something couldn't be read, so the absence of a thing says nothing.
    pub(crate) incomplete: bool,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) documents: usize,
    /// Bytes of other people's files that may still be parsed, to name those that aren't YAML.
    pub(crate) look_into: usize,
    fleets: usize,
    /// A document of kind `Fleet` was there that couldn't be taken in.
    fleet_was_meant: bool,
}

/// Bytes of other people's files that are parsed. Beyond it they are only counted: a tenth of a second is enough for
/// what isn't ours.
const LOOK_INTO_MAX: usize = 4 << 20;

impl<'f> Repository<'f> {
    /// An empty one. `nameless` stands in for the name of the fleet until it is known.
    pub(crate) fn new(nameless: FleetName, fleet: FleetSpec) -> Self {
        let fleet = Fleet {
            name: nameless,
            spec: Named { spec: fleet, path: ".".to_owned(), line: 1 },
            clusters: BTreeMap::new(),
            pools: BTreeMap::new(),
            layouts: BTreeMap::new(),
            components: BTreeMap::new(),
            releases: BTreeMap::new(),
            policies: BTreeMap::new(),
            budgets: BTreeMap::new(),
            calendars: BTreeMap::new(),
            suites: BTreeMap::new(),
            controls: BTreeMap::new(),
            costs: BTreeMap::new(),
        };
        Self {
            files: Vec::new(),
            fleet,
            origins: BTreeMap::new(),
            broken: BTreeSet::new(),
            incomplete: false,
            diagnostics: Vec::new(),
            documents: 0,
            look_into: LOOK_INTO_MAX,
            fleets: 0,
            fleet_was_meant: false,
        }
    }

    /// Adds a finding about a file.
    pub(crate) fn report(&mut self, file: usize, problem: Problem) {
        self.incomplete |= problem.rule.severity() == Severity::Error;
        if let Some(file) = self.files.get(file) {
            self.diagnostics.push(file.diagnose(problem));
        }
    }

    /// True when a document of kind `Fleet` was there.
    pub(crate) fn has_fleet(&self) -> bool {
        self.fleets > 0
    }

    /// True when nothing was there that was meant to be one.
    pub(crate) fn lacks_fleet(&self) -> bool {
        self.fleets == 0 && !self.fleet_was_meant
    }

    /// Adds one document of a file; others than drydock's are passed over.
    pub(crate) fn document(&mut self, file: usize, mut root: Node<'f>, mut problems: Vec<Problem>) {
        let api = root.entry("apiVersion").and_then(|e| e.value.scalar());
        if api.map(group) != Some(OURS) {
            if let Some(problem) = meant_for_us(&root) {
                // Only what is an error already spares the complaint that there is none.
                self.fleet_was_meant |= is_fleet(&root) && problem.rule.severity() == Severity::Error;
                self.report(file, problem);
            }
            return;
        }
        self.documents += 1;
        placeholders(&mut root, &mut problems, Words::Own);
        self.read(file, root, &mut problems);
        let many = problems.len() > ERRORS_MAX;
        for problem in problems.into_iter().take(ERRORS_MAX + usize::from(many)) {
            self.report(file, problem);
        }
    }

    fn read(&mut self, file: usize, root: Node<'f>, problems: &mut Vec<Problem>) {
        let is_fleet = is_fleet(&root);
        let header = match header(root, problems) {
            Some(header) => header,
            None => {
                self.fleet_was_meant |= is_fleet;
                return self.incomplete = true;
            }
        };
        let doc = Reading { file, problems };
        match header.kind {
            Kind::Fleet => {
                self.fleets += 1;
                let first = (self.fleets > 1).then(|| (self.fleet.spec.path.clone(), self.fleet.spec.line));
                if let Some((path, line)) = first {
                    let message = format!("a second Fleet document; the first is {path}:{line}");
                    doc.problems.push(Problem::new(RuleId::ManyFleets, header.kind_span, message));
                    return;
                }
                let mut one = BTreeMap::new();
                self.add(header, doc, &mut one);
                if let Some((name, spec)) = one.pop_first() {
                    (self.fleet.name, self.fleet.spec) = (name, spec);
                }
            }
            Kind::Cluster => self.with(header, doc, |f| &mut f.clusters),
            Kind::GpuNodePool => self.with(header, doc, |f| &mut f.pools),
            Kind::PartitionLayout => self.with(header, doc, |f| &mut f.layouts),
            Kind::Component => self.with(header, doc, |f| &mut f.components),
            Kind::Release => self.with(header, doc, |f| &mut f.releases),
            Kind::RolloutPolicy => self.with(header, doc, |f| &mut f.policies),
            Kind::Budget => self.with(header, doc, |f| &mut f.budgets),
            Kind::Calendar => self.with(header, doc, |f| &mut f.calendars),
            Kind::CheckSuite => self.with(header, doc, |f| &mut f.suites),
            Kind::RolloutControl => self.with(header, doc, |f| &mut f.controls),
            Kind::CostBudget => self.with(header, doc, |f| &mut f.costs),
        }
    }

    fn with<N, T>(
        &mut self,
        header: Header<'f>,
        doc: Reading<'_>,
        map: fn(&mut Fleet) -> &mut BTreeMap<N, Named<T>>,
    ) where
        N: FromStr<Err = NameError> + Ord + Clone,
        T: DeserializeOwned,
    {
        let mut documents = std::mem::take(map(&mut self.fleet));
        self.add(header, doc, &mut documents);
        *map(&mut self.fleet) = documents;
    }

    fn add<N, T>(&mut self, header: Header<'f>, doc: Reading<'_>, documents: &mut BTreeMap<N, Named<T>>)
    where
        N: FromStr<Err = NameError> + Ord + Clone,
        T: DeserializeOwned,
    {
        let Header { kind, kind_span, name, name_span, mut spec, spec_span } = header;
        let Reading { file, problems } = doc;
        let before = problems.len();
        let value = decode::<T>(&mut spec, spec_span, problems);
        self.incomplete |= problems.len() > before;
        let parsed = name.as_deref().map(str::parse::<N>);
        let key = match parsed {
            None => return,
            Some(Ok(key)) => key,
            Some(Err(error)) => {
                return problems.push(Problem::new(RuleId::BadValue, name_span, error.to_string()));
            }
        };
        let name = name.unwrap_or_default();
        if let Some(first) = documents.get(&key) {
            let message = format!("{kind} `{name}` is defined twice; first at {}:{}", first.path, first.line);
            return problems
                .push(Problem::new(RuleId::DuplicateName, name_span, message).hint("rename one of the two"));
        }
        let Some(value) = value else {
            self.broken.insert((kind, name));
            return;
        };
        let path = self.files.get(file).map_or_else(String::new, |f| f.path.to_owned());
        documents.insert(key, Named { spec: value, path, line: kind_span.line });
        self.origins.entry(kind).or_default().insert(name, Origin { file, spec, name: name_span });
    }
}

struct Reading<'p> {
    file: usize,
    problems: &'p mut Vec<Problem>,
}

struct Header<'f> {
    kind: Kind,
    kind_span: Span,
    name: Option<String>,
    name_span: Span,
    spec: Node<'f>,
    spec_span: Span,
}

/// The group of drydock's documents.
const OURS: &str = "drydock.dev";

fn group(api_version: &str) -> &str {
    api_version.split('/').next().unwrap_or("")
}

/// Counted even where it can't be read: that there is none would be the second complaint about one mistake.
fn is_fleet(root: &Node<'_>) -> bool {
    root.entry("kind").and_then(|e| e.value.scalar()) == Some(Kind::Fleet.as_str())
}

/// What is wrong with a document whose `apiVersion` isn't drydock's, when it was meant for drydock all the same.
fn meant_for_us(root: &Node<'_>) -> Option<Problem> {
    let items = match &root.value {
        Value::List(items) => Some(items),
        Value::Map(_) => root.entry("items").and_then(|items| match &items.value.value {
            Value::List(items) => Some(items),
            Value::Map(_) | Value::Plain(_) | Value::Text(_) | Value::Absent(_) => None,
        }),
        Value::Plain(_) | Value::Text(_) | Value::Absent(_) => None,
    };
    let ours = |item: &&Node<'_>| {
        item.entry("apiVersion").and_then(|e| e.value.scalar()).is_some_and(|api| group(api) == OURS)
    };
    if let Some(item) = items.and_then(|items| items.iter().find(ours)) {
        let problem = Problem::new(RuleId::NotByItself, item.span, "a document inside a list isn't read");
        return Some(problem.hint("write it by itself, after a line ---"));
    }
    let hint = format!("write apiVersion: {API_VERSION}");
    let Some(api) = root.entry("apiVersion") else {
        let Value::Map(entries) = &root.value else { return None };
        // `apiversion: drydock.dev/…`
        let slip = entries.iter().find(|e| e.value.scalar().is_some_and(|text| group(text) == OURS));
        if let Some(slip) = slip.filter(|e| suggest::nearest(&e.key, ["apiVersion"]).is_some()) {
            let message =
                format!("`{}` isn't `apiVersion`, so nobody knows whose document this is", slip.key);
            return Some(Problem::new(RuleId::ApiVersion, slip.key_span, message).hint(hint));
        }
        let kind =
            root.entry("kind").filter(|e| e.value.scalar().is_some_and(|k| k.parse::<Kind>().is_ok()))?;
        let distinctive = kind.value.scalar().is_some_and(is_distinctive);
        // Every document of Kubernetes has an apiVersion; other formats have kinds too, and no `spec`.
        return (distinctive || root.entry("spec").is_some()).then(|| {
            let message = "this document is ignored: it has no apiVersion";
            Problem::new(RuleId::ForeignDocument, kind.value.span, message).hint(hint)
        });
    };
    let kind = root.entry("kind").and_then(|e| e.value.scalar());
    let near = api.value.scalar().is_some_and(reading::is_near);
    (near && kind.is_some_and(|kind| kind.parse::<Kind>().is_ok())).then(|| {
        let message = format!("apiVersion `{}` isn't known", api.value.scalar().unwrap_or(""));
        Problem::new(RuleId::ApiVersion, api.value.span, message).hint(hint)
    })
}

/// Kinds that nobody else uses.
fn is_distinctive(kind: &str) -> bool {
    kind.parse().is_ok_and(|kind| match kind {
        Kind::GpuNodePool
        | Kind::PartitionLayout
        | Kind::RolloutPolicy
        | Kind::CheckSuite
        | Kind::RolloutControl
        | Kind::CostBudget => true,
        Kind::Fleet | Kind::Cluster | Kind::Component | Kind::Release | Kind::Budget | Kind::Calendar => {
            false
        }
    })
}

/// Takes the frame around `spec` apart: `apiVersion`, `kind`, `metadata.name`.
fn header<'f>(root: Node<'f>, problems: &mut Vec<Problem>) -> Option<Header<'f>> {
    let start = root.span;
    let Value::Map(entries) = root.value else { return None };
    let (mut api, mut kind, mut metadata, mut spec) = (None, None, None, None);
    for entry in entries {
        match &*entry.key {
            "apiVersion" => api = Some(entry),
            "kind" => kind = Some(entry),
            "metadata" => metadata = Some(entry),
            "spec" => spec = Some(entry),
            other => {
                let known = ["apiVersion", "kind", "metadata", "spec"];
                let problem =
                    Problem::new(RuleId::UnknownField, entry.key_span, format!("unknown field `{other}`"));
                problems.push(Problem { hint: suggest::hint(other, &known), ..problem });
            }
        }
    }
    let version = api.as_ref().and_then(|e| e.value.scalar());
    if version != Some(API_VERSION) {
        let span = api.as_ref().map_or(start, |e| e.value.span);
        let message = format!("apiVersion `{}` isn't known", version.unwrap_or(""));
        problems.push(
            Problem::new(RuleId::ApiVersion, span, message).hint(format!("this drydock knows {API_VERSION}")),
        );
        return None;
    }
    let mut missing = |field: &str| {
        problems.push(Problem::new(RuleId::MissingField, start, format!("field `{field}` is missing")));
    };
    let found = match (&kind, &metadata, &spec) {
        (None, _, _) => {
            missing("kind");
            return None;
        }
        (Some(kind), _, _) => (kind.key_span, kind.value.span, kind.value.scalar().unwrap_or("").to_owned()),
    };
    let (kind_span, word_span, word) = found;
    let kind = match word.parse::<Kind>() {
        Ok(kind) => kind,
        Err(error) => {
            let problem = Problem::new(RuleId::UnknownKind, word_span, error.to_string());
            problems.push(Problem { hint: error.hint, ..problem });
            return None;
        }
    };
    if metadata.is_none() {
        missing("metadata");
    }
    let (name, name_span) = metadata.map_or((None, kind_span), |m| name(&m, problems));
    let (spec, spec_span) = match spec {
        // An empty spec is one that takes every default.
        Some(entry) if is_null(&entry.value) => {
            (Node { span: entry.key_span, value: Value::Map(Vec::new()) }, entry.key_span)
        }
        Some(entry) => (entry.value, entry.key_span),
        None => (Node { span: kind_span, value: Value::Map(Vec::new()) }, kind_span),
    };
    Some(Header { kind, kind_span, name, name_span, spec, spec_span })
}

fn is_null(node: &Node<'_>) -> bool {
    matches!(&node.value, Value::Plain(text) if scalar::plain(text) == Plain::Null)
}

fn name(metadata: &Entry<'_>, problems: &mut Vec<Problem>) -> (Option<String>, Span) {
    let Value::Map(entries) = &metadata.value.value else {
        let message = format!("`metadata` must be a mapping, not {}", metadata.value.noun());
        problems.push(Problem::new(RuleId::WrongType, metadata.value.span, message));
        return (None, metadata.key_span);
    };
    for entry in entries.iter().filter(|e| e.key != "name") {
        let problem =
            Problem::new(RuleId::UnknownField, entry.key_span, format!("unknown field `{}`", entry.key));
        problems.push(problem.hint("metadata holds only `name`"));
    }
    let Some(entry) = entries.iter().find(|e| e.key == "name") else {
        problems.push(Problem::new(RuleId::MissingField, metadata.key_span, "field `name` is missing"));
        return (None, metadata.key_span);
    };
    let span = entry.value.span;
    match &entry.value.value {
        Value::Text(text) => return (Some(text.to_string()), span),
        Value::Plain(text) => match scalar::plain(text) {
            Plain::Text => return (Some(text.to_string()), span),
            Plain::Null => {
                problems.push(Problem::new(RuleId::Null, span, "`name` is empty where text is wanted"))
            }
            plain => {
                let message =
                    format!("`name` must be text, but `{text}` is read as {}", scalar::describe(text, plain));
                let hint = format!("quote it: name: {}", scalar::quoted(text));
                problems.push(Problem::new(RuleId::QuoteText, span, message).hint(hint));
            }
        },
        Value::List(_) | Value::Map(_) | Value::Absent(_) => {
            let message = format!("`name` must be text, not {}", entry.value.noun());
            problems.push(Problem::new(RuleId::WrongType, span, message));
        }
    }
    (None, span)
}

/// Whose words are read.
#[derive(Clone, Copy)]
enum Words {
    /// drydock's.
    Own,
    /// Those of Kubernetes and of shells: a pod template, a command.
    Handed,
}

/// Finds templates that were committed as values, and takes them out. Fields for people may speak of them, and in what
/// is handed on a `$` is a shell's.
fn placeholders(node: &mut Node<'_>, problems: &mut Vec<Problem>, words: Words) {
    match (&mut node.value, words) {
        (Value::Plain(text), Words::Handed) if scalar::is_old_octal(text) => {
            let message = format!("`{text}` is {}", scalar::describe(text, scalar::plain(text)));
            let hint = u64::from_str_radix(text, 8).map_or_else(
                |_| "write it without the 0".to_owned(),
                |n| format!("write {n} if it is a file's mode, else leave the 0 out"),
            );
            problems.push(Problem::new(RuleId::QuoteText, node.span, message).hint(hint));
            node.value = Value::Absent(0);
        }
        (Value::Plain(text) | Value::Text(text), _) => {
            let found = match words {
                Words::Own => placeholder(text),
                Words::Handed => braces(text),
            };
            if let Some(found) = found {
                let message = format!("placeholder `{found}` wasn't rendered");
                problems.push(
                    Problem::new(RuleId::Placeholder, node.span, message).hint("commit the rendered value"),
                );
                node.value = Value::Absent(0);
            }
        }
        (Value::List(items), _) => items.iter_mut().for_each(|item| placeholders(item, problems, words)),
        (Value::Map(entries), _) => {
            for entry in entries {
                let words = match (&*entry.key, words) {
                    ("notes" | "reason", Words::Own) => continue,
                    ("template" | "probe", Words::Own) => Words::Handed,
                    (_, words) => words,
                };
                placeholders(&mut entry.value, problems, words);
            }
        }
        (Value::Absent(_), _) => {}
    }
}

fn braces(text: &str) -> Option<&str> {
    let at = text.find("{{")?;
    let end = text[at..].find("}}").map_or(text.len(), |e| at + e + 2);
    text.get(at..end)
}

fn placeholder(text: &str) -> Option<&str> {
    if let Some(found) = braces(text) {
        return Some(found);
    }
    let at = text.find('$')?;
    let rest = &text[at + 1..];
    if rest.starts_with('{') {
        let end = rest.find('}').map_or(text.len(), |e| at + e + 2);
        return text.get(at..end);
    }
    let length = rest
        .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        .unwrap_or(rest.len());
    (length > 0 && !rest.starts_with(|c: char| c.is_ascii_digit())).then(|| &text[at..=at + length])
}
