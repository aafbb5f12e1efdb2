//! Driver versions: text, compared number by number. They aren't semantic versions: the first number is a branch, and
//! leading zeros ("450.80.02") are part of the name.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest version text. Package versions with distribution suffixes stay below this.
const MAX_LEN: usize = 64;
/// Most numbers in a version; drivers have two or three.
const MAX_PARTS: usize = 4;

/// A driver version such as `580.126.20`, optionally with a package suffix (`580.126.20-ubuntu24.04`).
///
/// Ordered by its numbers, a missing number counting as zero; the text only separates versions whose numbers agree,
/// so that order and equality fit together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DriverVersion {
    text: String,
    parts: [u32; MAX_PARTS],
}

impl DriverVersion {
    /// The branch: 580 for `580.126.20`.
    pub const fn branch(&self) -> u32 {
        self.parts[0]
    }

    /// The version as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same driver, whatever package it comes in.
    pub fn same_release(&self, other: &Self) -> bool {
        self.parts == other.parts
    }

    /// Not older than `floor`; a floor of `580` is met by every driver of that branch.
    pub fn at_least(&self, floor: &Self) -> bool {
        self.parts >= floor.parts
    }
}

/// A text that is no driver version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a driver version; expected numbers with dots, such as 580.126.20")]
pub struct BadDriverVersion {
    /// What was written, cut to a readable length.
    pub text: String,
}

impl FromStr for DriverVersion {
    type Err = BadDriverVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadDriverVersion { text: text.chars().take(40).collect() };
        if text.len() > MAX_LEN || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad());
        }
        let numbers = text.split(['-', '+', '~']).next().unwrap_or_default();
        let mut parts = [0; MAX_PARTS];
        let mut slots = parts.iter_mut();
        for digits in numbers.split('.') {
            let slot = slots.next().ok_or_else(bad)?;
            if !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            *slot = digits.parse().map_err(|_| bad())?;
        }
        Ok(DriverVersion { text: text.to_owned(), parts })
    }
}

impl Ord for DriverVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts.cmp(&other.parts).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for DriverVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<DriverVersion> for String {
    fn from(version: DriverVersion) -> String {
        version.text
    }
}

impl TryFrom<String> for DriverVersion {
    type Error = BadDriverVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn v(text: &str) -> DriverVersion {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_decide_and_text_is_kept() {
        let sorted = [
            "450.80.02",
            "525.85.12",
            "535.54.03",
            "535.161.07",
            "570.86.10",
            "570.133.20",
            "580",
            "580.65.06",
            "580.126.20",
        ];
        for pair in sorted.windows(2) {
            assert!(v(pair[0]) < v(pair[1]), "{pair:?}");
            assert!(v(pair[1]).at_least(&v(pair[0])) && !v(pair[0]).at_least(&v(pair[1])), "{pair:?}");
        }
        assert_eq!(v("450.80.02").to_string(), "450.80.02");
        assert_eq!(v("580.126.20-ubuntu24.04").branch(), 580);
        assert!(v("580.126.20-1").same_release(&v("580.126.20")));
        assert_ne!(v("580.126.20-1"), v("580.126.20"));
        assert!(v("450.80.2").same_release(&v("450.80.02")));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "latest",
            "R580",
            "v580.1",
            "580.",
            ".580",
            "580..1",
            "580.1.2.3.4",
            "580 .1",
            "99999999999.1",
            "580.1\n",
            "-1",
        ] {
            assert!(text.parse::<DriverVersion>().is_err(), "{text:?}");
        }
        assert!("1".repeat(1000).parse::<DriverVersion>().unwrap_err().text.len() <= 40);
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_numbers(a in prop::collection::vec(0_u32..700, 1..=4), b in prop::collection::vec(0_u32..700, 1..=4)) {
            let text = |p: &[u32]| p.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
            let pad = |p: &[u32]| { let mut p = p.to_vec(); p.resize(4, 0); p };
            let (va, vb) = (v(&text(&a)), v(&text(&b)));
            prop_assert_eq!(va.at_least(&vb), pad(&a) >= pad(&b));
            prop_assert_eq!(va.same_release(&vb), pad(&a) == pad(&b));
            prop_assert_eq!(va.cmp(&vb) == Ordering::Equal, va == vb);
            prop_assert_eq!(va.cmp(&vb), vb.cmp(&va).reverse());
        }
    }
}
