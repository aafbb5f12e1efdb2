//! Writes a file with all its mutants in it, each behind a switch, and remembers where each stands.

use std::ops::Range;

use crate::source::{File, Form, Mutant};

/// Reads the switch once. It stands at the end of the copy's `lib.rs` and nowhere else.
pub(crate) const SWITCH: &str = r#"

/// Whether this mutant is switched on.
#[allow(clippy::all, missing_docs, unreachable_pub)]
pub(crate) fn mutant(number: u32) -> bool {
    static ON: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    *ON == number
}
"#;

/// Where the text of one mutant stands in what was written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) number: usize,
    /// Its own text, and all that stands for the place.
    pub(crate) own: Range<usize>,
    pub(crate) whole: Range<usize>,
}

/// Mutants of one place and one form, from the outside in.
struct Place<'m> {
    range: Range<usize>,
    form: Form,
    mutants: Vec<&'m Mutant>,
}

/// The whole file, and where its mutants went.
pub(crate) fn written(file: &File, kept: impl Fn(usize) -> bool) -> (String, Vec<Written>) {
    let mut places: Vec<Place<'_>> = Vec::new();
    for mutant in file.mutants.iter().filter(|m| kept(m.number)) {
        let (range, form) = (mutant.change.range.clone(), mutant.change.form);
        match places.iter_mut().find(|p| p.range == range && p.form == form) {
            Some(place) => place.mutants.push(mutant),
            None => places.push(Place { range, form, mutants: vec![mutant] }),
        }
    }
    // Outer places first; of two on the same text the one that was met first is outside.
    places.sort_by_key(|p| (p.range.start, std::cmp::Reverse(p.range.end)));
    let mut writer = Writer { text: &file.text, out: String::new(), found: Vec::new() };
    writer.between(0..file.text.len(), &places);
    (writer.out, writer.found)
}

struct Writer<'a> {
    text: &'a str,
    out: String,
    found: Vec<Written>,
}

impl Writer<'_> {
    /// Copies a range, with the places in it. They are sorted and nested.
    fn between(&mut self, range: Range<usize>, places: &[Place<'_>]) {
        let (mut at, mut next) = (range.start, 0);
        while let Some(place) = places.get(next) {
            self.copy(at..place.range.start);
            let inside = places.get(next + 1..).unwrap_or_default();
            let held = |p: &Place<'_>| {
                p.range.end <= place.range.end && p.range.start < place.range.end.max(place.range.start + 1)
            };
            // A point (the beginning of a function) holds nothing.
            let count =
                if place.range.is_empty() { 0 } else { inside.iter().take_while(|p| held(p)).count() };
            self.place(place, inside.get(..count).unwrap_or_default());
            at = place.range.end;
            next += 1 + count;
        }
        self.copy(at..range.end);
    }

    fn copy(&mut self, range: Range<usize>) {
        self.out.push_str(self.text.get(range).unwrap_or_default());
    }

    fn place(&mut self, place: &Place<'_>, inside: &[Place<'_>]) {
        let begin = self.out.len();
        let first = self.found.len();
        let switch = |mutant: &Mutant| format!("crate::mutant({})", mutant.number);
        match place.form {
            Form::Expression => {
                self.out.push('(');
                for mutant in &place.mutants {
                    self.out.push_str(&format!("if {} {{ ", switch(mutant)));
                    self.own(mutant, &mutant.change.text);
                    self.out.push_str(" } else ");
                }
                self.out.push_str("{ ");
                self.between(place.range.clone(), inside);
                self.out.push_str(" })");
            }
            Form::OrTrue => {
                self.out.push('(');
                for mutant in &place.mutants {
                    self.own(mutant, &switch(mutant));
                    self.out.push_str(" || ");
                }
                self.out.push('(');
                self.between(place.range.clone(), inside);
                self.out.push_str("))");
            }
            Form::AndNot | Form::AndNotChain => {
                for mutant in &place.mutants {
                    self.own(mutant, &format!("!{}", switch(mutant)));
                    self.out.push_str(" && ");
                }
                let (open, close) = if place.form == Form::AndNot { ("(", ")") } else { ("", "") };
                self.out.push_str(open);
                self.between(place.range.clone(), inside);
                self.out.push_str(close);
            }
            Form::LeftOut => {
                for mutant in &place.mutants {
                    self.own(mutant, &format!("if !{} ", switch(mutant)));
                }
                self.out.push_str("{ ");
                self.between(place.range.clone(), inside);
                self.out.push_str(" }");
            }
            Form::First => {
                for mutant in &place.mutants {
                    self.out.push_str(&format!(" if {} {{ ", switch(mutant)));
                    self.own(mutant, &mutant.change.text);
                    self.out.push_str(" }");
                }
            }
        }
        let whole = begin..self.out.len();
        let own = place.mutants.iter().map(|m| m.number).collect::<Vec<_>>();
        for written in self.found.iter_mut().skip(first).filter(|w| own.contains(&w.number)) {
            written.whole = whole.clone();
        }
    }

    fn own(&mut self, mutant: &Mutant, text: &str) {
        let begin = self.out.len();
        self.out.push_str(text);
        self.found.push(Written { number: mutant.number, own: begin..self.out.len(), whole: 0..0 });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::find::changes;

    fn of(text: &str) -> String {
        let mutants = changes(text).unwrap().into_iter().enumerate();
        let mutants = mutants
            .map(|(n, change)| Mutant { number: n + 1, name: String::new(), line: 0, change })
            .collect();
        let file = File { path: String::new(), text: text.to_owned(), mutants };
        let (out, found) = written(&file, |_| true);
        syn::parse_file(&out).unwrap();
        assert!(found.iter().all(|w| w.whole.start <= w.own.start && w.own.end <= w.whole.end));
        out
    }

    #[test]
    fn the_text_as_it_was_is_the_last_branch() {
        assert_eq!(
            of("fn f() -> bool { !x }"),
            "fn f() -> bool { if crate::mutant(1) { return true; } if crate::mutant(2) { return false; } (if crate::mutant(3) { x } else { !x }) }"
        );
    }

    #[test]
    fn what_is_nested_is_written_nested() {
        let out = of("fn f() { if a == b { s.g(a && c); } else if let Some(x) = y && x != z { h = 1; } }");
        assert!(out.contains("if (crate::mutant(1) || (!crate::mutant(2) && ((if crate::mutant(3)"), "{out}");
        of("fn f() -> Option<u8> { x.iter().filter(|n| n.is_some() && n != y).min().max(z) }");
        of("fn f() { match x { A if b < 2 => c(), _ => { d.e()?; } } }");
    }
}
