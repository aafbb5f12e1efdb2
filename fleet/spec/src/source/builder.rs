//! From YAML events to trees.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::tree::{Entry, Node, Problem, Value};
use crate::{diagnostic::Span, rule::RuleId};

/// Deepest nesting. Documents need about 8; the recursion over a tree must stay small whatever is committed.
const DEPTH_MAX: usize = 64;
/// Most nodes of one file after aliases are followed. A file of 1 MiB without aliases can't have more than about half
/// a million, and a real one has some hundred.
const NODES_MAX: usize = 100_000;

/// Entries up to which a scan finds a duplicate faster than an index would be built.
const SCANNED_KEYS: usize = 32;

/// One document of a file.
#[derive(Debug)]
pub(crate) struct Root<'s> {
    /// What it says.
    pub(crate) node: Node<'s>,
    /// What is wrong with how it says it.
    pub(crate) problems: Vec<Problem>,
}

/// A file taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parsed<'s> {
    /// The documents before the first fatal problem.
    pub(crate) documents: Vec<Root<'s>>,
    /// What kept the rest from being read.
    pub(crate) fatal: Option<Problem>,
}

/// Reads all documents of a file.
pub(crate) fn parse(text: &str) -> Parsed<'_> {
    let mut builder = Builder::new(text);
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.event(event, to_span(span)),
            Err(error) => Err(syntax(text, &error)),
        };
        if let Err(problem) = step {
            return Parsed { documents: builder.documents, fatal: Some(problem) };
        }
    }
    Parsed { documents: builder.documents, fatal: None }
}

fn to_span(span: saphyr_parser::Span) -> Span {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (line, column) = (number(span.start.line()), number(span.start.col()).saturating_add(1));
    // What runs over several lines is shown by the rest of its first line.
    let end_column = if span.end.line() == span.start.line() { number(span.end.col()) + 1 } else { u32::MAX };
    Span { line: line.max(1), column, end_column: end_column.max(column) }
}

fn syntax(text: &str, error: &saphyr_parser::ScanError) -> Problem {
    let mark = *error.marker();
    let span = to_span(saphyr_parser::Span::empty(mark));
    // Parsers report a tab where its consequences show, which may be a line later.
    let first = mark.line().saturating_sub(2);
    for (index, line) in text.lines().enumerate().skip(first).take(2) {
        if let Some(span) = tab_in_indentation(index, line) {
            return tab(span);
        }
    }
    let line = text.lines().nth(mark.line().saturating_sub(1)).unwrap_or("");
    if line.contains("{{") {
        return Problem::new(RuleId::Placeholder, span, "not YAML: a placeholder that wasn't rendered")
            .hint("commit the rendered file");
    }
    Problem::new(RuleId::Syntax, span, format!("not YAML: {}", error.info()))
}

fn tab_in_indentation(index: usize, line: &str) -> Option<Span> {
    let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
    let at = line[..blank].find('\t')?;
    if blank == line.trim_end().len() {
        return None;
    }
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Some(Span { line: number(index + 1), column: number(at + 1), end_column: number(at + 2) })
}

fn tab(span: Span) -> Problem {
    Problem::new(RuleId::Tab, span, "a tab in the indentation").hint("indent with spaces")
}

struct Frame<'s> {
    node: Node<'s>,
    anchor: usize,
    /// Key that waits for its value; `None` inside where the next node is a key.
    key: Option<(Cow<'s, str>, Span)>,
    /// The key wasn't text: it was reported, and its value is dropped.
    bad_key: bool,
    /// The keys so far, once there are more than [`SCANNED_KEYS`].
    keys: BTreeSet<Cow<'s, str>>,
}

struct Builder<'s> {
    text: &'s str,
    documents: Vec<Root<'s>>,
    problems: Vec<Problem>,
    stack: Vec<Frame<'s>>,
    anchors: BTreeMap<usize, Node<'s>>,
    nodes: usize,
    /// Lines indented with tabs, by number; nearly always empty.
    tabs: BTreeMap<u32, Span>,
}

impl<'s> Builder<'s> {
    fn new(text: &'s str) -> Self {
        let mut tabs = BTreeMap::new();
        if text.contains('\t') {
            let found = text.lines().enumerate().filter_map(|(i, line)| tab_in_indentation(i, line));
            tabs.extend(found.map(|span| (span.line, span)));
        }
        Self {
            text,
            documents: Vec::new(),
            problems: Vec::new(),
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            tabs,
        }
    }

    fn event(&mut self, event: Event<'s>, span: Span) -> Result<(), Problem> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(Problem::new(RuleId::AliasLimit, span, "an alias inside what it stands for"));
                };
                self.count(size(&node), span)?;
                self.add(node, 0, span)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, span)?;
                let tagged = self.tag(tag.as_deref(), span);
                let value = match style {
                    ScalarStyle::Plain if !tagged => Value::Plain(text),
                    ScalarStyle::Plain
                    | ScalarStyle::SingleQuoted
                    | ScalarStyle::DoubleQuoted
                    | ScalarStyle::Literal
                    | ScalarStyle::Folded => Value::Text(text),
                };
                self.add(Node { span, value }, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Value::List(Vec::new()), anchor, tag.as_deref(), span)
            }
            Event::MappingStart(anchor, tag) => {
                self.open(Value::Map(Vec::new()), anchor, tag.as_deref(), span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(frame) => {
                    let span = frame.node.span;
                    self.add(frame.node, frame.anchor, span)
                }
                None => Ok(()),
            },
        }
    }

    /// True for the one tag that is accepted, `!!str`.
    fn tag(&mut self, tag: Option<&Tag>, span: Span) -> bool {
        match tag {
            None => false,
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => true,
            Some(tag) => {
                self.problems.push(Problem::new(RuleId::Tag, span, format!("tag `{tag}` isn't supported")));
                false
            }
        }
    }

    fn count(&mut self, more: usize, span: Span) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > NODES_MAX {
            return Err(Problem::new(
                RuleId::AliasLimit,
                span,
                format!("more than {NODES_MAX} nodes in one file"),
            ));
        }
        Ok(())
    }

    fn open(
        &mut self,
        value: Value<'s>,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Problem> {
        self.count(1, span)?;
        self.tag(tag, span);
        if self.stack.len() >= DEPTH_MAX {
            return Err(Problem::new(RuleId::TooDeep, span, format!("more than {DEPTH_MAX} levels deep")));
        }
        let span = Span { end_column: span.end_column.max(span.column + 1), ..span };
        let node = Node { span, value };
        self.stack.push(Frame { node, anchor, key: None, bad_key: false, keys: BTreeSet::new() });
        Ok(())
    }

    fn add(&mut self, node: Node<'s>, anchor: usize, written_at: Span) -> Result<(), Problem> {
        if anchor != 0 {
            // Every anchored node is kept once more, so it counts once more.
            self.count(size(&node), written_at)?;
            self.anchors.insert(anchor, node.clone());
        }
        if let Some(&span) = self.tabs.get(&written_at.line) {
            self.tabs.remove(&written_at.line);
            self.problems.push(tab(span));
        }
        let Some(frame) = self.stack.last_mut() else {
            let problems = std::mem::take(&mut self.problems);
            self.documents.push(Root { node, problems });
            return Ok(());
        };
        match &mut frame.node.value {
            Value::List(items) => {
                items.push(node);
            }
            Value::Map(entries) => {
                if let Some((key, key_span)) = frame.key.take() {
                    // A block mapping starts where its first key does, and has no width of its own.
                    if entries.is_empty() && frame.node.span.column == key_span.column {
                        frame.node.span = key_span;
                    }
                    let mut value = node;
                    if matches!(&value.value, Value::Plain(text) if text.is_empty()) {
                        value.span = key_span;
                    }
                    entries.push(Entry { key, key_span, value });
                } else if std::mem::take(&mut frame.bad_key) {
                    // The value of a key that was refused.
                } else {
                    match check_key(self.text, entries, &frame.keys, node, written_at) {
                        Ok(key) => {
                            if entries.len() == SCANNED_KEYS {
                                frame.keys.extend(entries.iter().map(|e| e.key.clone()));
                            }
                            if entries.len() >= SCANNED_KEYS {
                                frame.keys.insert(key.0.clone());
                            }
                            frame.key = Some(key);
                        }
                        Err(problem) => {
                            frame.bad_key = true;
                            if problem.rule == RuleId::Placeholder {
                                // `{{ name }}` reads as a mapping in a mapping: neither was meant.
                                frame.node.value = Value::Absent(0);
                            }
                            self.problems.push(problem);
                        }
                    }
                }
            }
            Value::Plain(_) | Value::Text(_) | Value::Absent(_) => {}
        }
        Ok(())
    }
}

fn check_key<'s>(
    text: &str,
    entries: &[Entry<'s>],
    keys: &BTreeSet<Cow<'s, str>>,
    node: Node<'s>,
    span: Span,
) -> Result<(Cow<'s, str>, Span), Problem> {
    let (key, plain) = match node.value {
        Value::Plain(key) => (key, true),
        Value::Text(key) => (key, false),
        Value::List(_) | Value::Map(_) | Value::Absent(_) => {
            let line = text.lines().nth(span.line.saturating_sub(1) as usize).unwrap_or("");
            return Err(if line.contains("{{") {
                Problem::new(RuleId::Placeholder, span, "a placeholder that wasn't rendered")
                    .hint("commit the rendered file")
            } else {
                Problem::new(RuleId::KeyNotText, span, "a key must be text")
            });
        }
    };
    if plain && key == "<<" {
        return Err(Problem::new(RuleId::MergeKey, span, "merge keys aren't applied")
            .hint("write the fields out, or put them into a document that others refer to"));
    }
    let known = entries.len() <= SCANNED_KEYS || keys.contains(&key);
    if let Some(first) = entries.iter().filter(|_| known).find(|e| e.key == key) {
        let message =
            format!("key `{key}` stands twice in one mapping; first on line {}", first.key_span.line);
        return Err(Problem::new(RuleId::DuplicateKey, span, message).hint("remove one of the two"));
    }
    Ok((key, span))
}

fn size(node: &Node<'_>) -> usize {
    match &node.value {
        Value::Plain(_) | Value::Text(_) | Value::Absent(_) => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|e| 1 + size(&e.value)).sum::<usize>(),
    }
}
