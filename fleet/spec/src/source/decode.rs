//! Finding every error of a document, not only the first.
//!
//! A typed reader stops at the first thing it can't accept. Each time it does, the finding is kept, the thing is
//! replaced by a guess (or taken away), and the document is read again, until it reads to the end.

use serde::de::DeserializeOwned;

use super::{
    de::De,
    fault::{Fault, FaultKind},
    scalar,
    tree::{Entry, Node, Problem, Value},
};
use crate::{diagnostic::Span, rule::RuleId, suggest, words};

/// Most errors shown for one document: by then something more than single mistakes is wrong with it.
pub(crate) const ERRORS_MAX: usize = 100;
/// Guesses for one value before it is given up; as many as there are texts to try.
const GUESSES_MAX: u8 = 3;

/// Reads `node`, adding what is wrong with it to `problems` and mending it on the way. `None` when too much is wrong.
/// `owner` is the place of the key that it stands under.
pub(crate) fn decode<T: DeserializeOwned>(
    node: &mut Node<'_>,
    owner: Span,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    // Guesses aren't findings, but they take turns too; each finding needs at most this many.
    for _ in 0..ERRORS_MAX * usize::from(GUESSES_MAX + 1) {
        let mut fault = match T::deserialize(De(node)) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        fault.path.reverse();
        let mended = mend(node, &fault);
        if mended.is_news {
            if problems.len() >= ERRORS_MAX {
                let message = format!("more than {ERRORS_MAX} errors; the rest isn't shown");
                problems.push(Problem::new(RuleId::TooManyErrors, owner, message));
                return None;
            }
            problems.push(problem(&fault, owner));
        }
        if !mended.can_go_on {
            return None;
        }
    }
    None
}

struct Mended {
    /// Not merely a refused guess.
    is_news: bool,
    can_go_on: bool,
}

fn mend(root: &mut Node<'_>, fault: &Fault) -> Mended {
    let path =
        if fault.on_key { fault.path.get(..fault.path.len().saturating_sub(1)) } else { Some(&*fault.path) };
    let Some(node) = path.and_then(|p| find(root, p)) else {
        return Mended { is_news: true, can_go_on: false };
    };
    let at_root = path.is_some_and(<[usize]>::is_empty);
    let span = node.span;
    match (&mut node.value, &*fault.kind) {
        (Value::Map(entries), _) if fault.on_key => {
            let index = fault.path.last().copied().filter(|&i| i < entries.len());
            index.map(|i| entries.remove(i));
            Mended { is_news: true, can_go_on: index.is_some() }
        }
        (Value::Map(entries), FaultKind::MissingField(name)) if entries.iter().all(|e| e.key != *name) => {
            let value = Node { span, value: Value::Absent(0) };
            entries.push(Entry { key: (*name).into(), key_span: span, value });
            Mended { is_news: true, can_go_on: true }
        }
        (Value::Absent(guess), _) => {
            *guess += 1;
            Mended { is_news: false, can_go_on: *guess < GUESSES_MAX }
        }
        (value, _) => {
            *value = Value::Absent(0);
            Mended { is_news: true, can_go_on: !at_root }
        }
    }
}

fn find<'a, 's>(root: &'a mut Node<'s>, path: &[usize]) -> Option<&'a mut Node<'s>> {
    let mut node = root;
    for &index in path {
        // What isn't there has no inside: it is guessed as a whole.
        if matches!(node.value, Value::Absent(_)) {
            return Some(node);
        }
        node = match &mut node.value {
            Value::List(items) => items.get_mut(index)?,
            Value::Map(entries) => entries.get_mut(index).map(|e| &mut e.value)?,
            Value::Plain(_) | Value::Text(_) | Value::Absent(_) => return None,
        };
    }
    Some(node)
}

fn problem(fault: &Fault, owner: Span) -> Problem {
    let span = fault.at.unwrap_or(owner);
    let field = fault.field.as_deref().map_or_else(|| "this".to_owned(), |f| format!("`{f}`"));
    let new = |rule, message: String| Problem::new(rule, span, message);
    match &*fault.kind {
        FaultKind::Quote { text, read_as } => {
            let quoted = scalar::quoted(text);
            let hint = match &fault.field {
                Some(key) => format!("quote it: {key}: {quoted}"),
                None => format!("quote it: {quoted}"),
            };
            new(RuleId::QuoteText, format!("{field} must be text, but `{text}` is read as {read_as}"))
                .hint(hint)
        }
        FaultKind::Null { wanted } => {
            new(RuleId::Null, format!("{field} is empty where {} is wanted", article(wanted)))
                .hint("give it a value, or remove the key")
        }
        FaultKind::UnknownField { field, known } => Problem {
            hint: words::hint(field, known),
            ..new(RuleId::UnknownField, format!("unknown field `{field}`"))
        },
        FaultKind::MissingField(name) => new(RuleId::MissingField, format!("field `{name}` is missing")),
        FaultKind::UnknownWord { word, known } => Problem {
            hint: suggest::hint(word, known),
            ..new(RuleId::UnknownWord, format!("{field} can't be `{word}`"))
        },
        FaultKind::WrongType { found, wanted } => {
            let problem = new(RuleId::WrongType, format!("{field} must be {}, not {found}", article(wanted)));
            match wanted.as_str() {
                "a boolean" => problem.hint("write true or false"),
                _ => problem,
            }
        }
        FaultKind::OneOf { count, known } => {
            let message = format!("{field} must name exactly one of {}, not {count}", known.join(", "));
            new(RuleId::WrongType, message)
        }
        FaultKind::Bare { word } => {
            new(RuleId::WrongType, format!("`{word}` needs a mapping or a value under it"))
                .hint(format!("write {word}: {{}} when it has no settings"))
        }
        FaultKind::Refused(message) => new(RuleId::BadValue, message.clone()),
    }
}

/// serde names types by their Rust names; these are the words of a document.
fn article(wanted: &str) -> String {
    match wanted {
        "u8" | "u16" | "u32" | "u64" => "a whole number".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        // "struct PoolSpec", "enum Access", "struct variant Gate::Approval".
        other if other.starts_with("struct ") => "a mapping".to_owned(),
        other if other.starts_with("enum ") => "a word or a mapping".to_owned(),
        other => other.to_owned(),
    }
}
