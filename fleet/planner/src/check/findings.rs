//! A bounded list of what was found.

use super::Violation;

/// Entries kept. One mistake in a planner tends to show on every node at once; the first hundred tell as much as
/// thirty thousand, and the list is logged and shown on screens.
const KEPT_MAX: usize = 100;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Violation>,
    left_out: usize,
}

impl Findings {
    /// Adds one; the text is made only if it is kept.
    pub(super) fn add(&mut self, invariant: &'static str, text: impl FnOnce() -> String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Violation { invariant, text: text() });
        } else {
            self.left_out += 1;
        }
    }
    /// Adds one if `broken`.
    pub(super) fn when(&mut self, broken: bool, invariant: &'static str, text: impl FnOnce() -> String) {
        if broken {
            self.add(invariant, text);
        }
    }
    pub(super) fn into_violations(mut self) -> Vec<Violation> {
        if self.left_out > 0 {
            self.kept.push(Violation { invariant: "more", text: format!("and {} more", self.left_out) });
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let mut found = Findings::default();
        for n in 0..KEPT_MAX + 7 {
            found.add("I0", || n.to_string());
        }
        let list = found.into_violations();
        assert_eq!(list.len(), KEPT_MAX + 1);
        assert_eq!(list.last().map(|v| v.text.as_str()), Some("and 7 more"));
    }
}
