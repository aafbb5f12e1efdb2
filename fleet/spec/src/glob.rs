//! Name patterns, as selectors use them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name patterns with `*`, as selectors use them: `h100-*` matches `h100-train`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// From its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// True when there is no `*`, so it must name something that exists.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
    /// What every match starts with: the text before the first `*`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.0.split('*').next().unwrap_or("")
    }
    /// Whether `text` matches as a whole. Linear in `text` for each `*`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let Some((first, middle)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let (middle, last) = middle.rsplit_once('*').unwrap_or(("", middle));
        for part in middle.split('*') {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying every split.
    fn dumb(pattern: &str, text: &str) -> bool {
        match pattern.split_at_checked(1) {
            None => text.is_empty(),
            Some(("*", rest)) => (0..=text.len()).any(|at| dumb(rest, &text[at..])),
            Some((c, rest)) => text.strip_prefix(c).is_some_and(|text| dumb(rest, text)),
        }
    }

    proptest! {
        #[test]
        fn globs_match_as_by_hand(pattern in "[ab*]{0,6}", text in "[ab]{0,7}") {
            let glob = Glob::new(&pattern);
            prop_assert_eq!(glob.matches(&text), dumb(&pattern, &text));
            prop_assert!(!glob.matches(&text) || text.starts_with(glob.prefix()));
        }
    }
}
