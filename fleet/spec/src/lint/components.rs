//! Components: order, time, and what can't be taken back.

use std::collections::{BTreeMap, BTreeSet};

use super::Lint;
use crate::{document::Kind, rule::RuleId, text::ComponentName};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, component) in &fleet.components {
        let document = (Kind::Component, name.as_str());
        if component.deadline.is_zero() {
            let message = "a deadline of zero lets no application finish".to_owned();
            lint.at(document, path!["deadline"], RuleId::ZeroDeadline, message, None);
        }
        let expect = component.expect;
        if expect.p50 > expect.p90 {
            let message = format!("half are done after {}, but nine of ten after {}", expect.p50, expect.p90);
            lint.at(document, path!["expect", "p90"], RuleId::ExpectOrder, message, None);
        }
        if !component.reversible {
            let message = "it is applied last in a visit, and a rollback leaves it as it is".to_owned();
            lint.at(document, path!["reversible"], RuleId::Irreversible, message, None);
        }
    }
    cycles(lint);
}

/// Names each circle once, at the link of its first component.
fn cycles(lint: &mut Lint<'_, '_>) {
    let components = &lint.fleet().components;
    let mut done: BTreeSet<&ComponentName> = BTreeSet::new();
    for start in components.keys() {
        // A walk with its own stack: chains may be as long as there are components.
        let mut open: BTreeMap<&ComponentName, usize> = BTreeMap::new();
        let mut stack: Vec<(&ComponentName, usize)> = vec![(start, 0)];
        while let Some((name, next)) = stack.last_mut() {
            let (name, index) = (*name, *next);
            *next += 1;
            if index == 0 {
                if !done.insert(name) {
                    stack.pop();
                    continue;
                }
                open.insert(name, stack.len() - 1);
            }
            let Some(after) = components.get(name).and_then(|c| c.after.get(index)) else {
                open.remove(name);
                stack.pop();
                continue;
            };
            if let Some(&at) = open.get(after) {
                let circle: Vec<&str> = stack[at..].iter().map(|(n, _)| n.as_str()).collect();
                let message = format!("{} -> {after}: each waits for the next", circle.join(" -> "));
                let hint = Some("remove one `after`".to_owned());
                lint.at(
                    (Kind::Component, name.as_str()),
                    path!["after", index],
                    RuleId::ComponentCycle,
                    message,
                    hint,
                );
            } else if let Some((after, _)) = components.get_key_value(after) {
                stack.push((after, 0));
            }
        }
    }
}
