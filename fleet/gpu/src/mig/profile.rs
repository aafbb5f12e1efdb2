//! MIG profile names: `[<c>c.]<g>g.<gb>gb[suffix]`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a profile has beyond its slices and memory: the suffix of its name.
///
/// NVML lists one profile per suffix and never combines two (`nvml.h`, GPU instance profiles).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// No suffix.
    Plain,
    /// `+me`: with one set of media engines.
    WithMedia,
    /// `+me.all`: with every media engine of the GPU.
    AllMedia,
    /// `-me`: without media engines.
    NoMedia,
    /// `+gfx`: able to run graphics.
    Graphics,
}

impl Variant {
    /// The suffix as written in a profile name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::WithMedia => "+me",
            Variant::AllMedia => "+me.all",
            Variant::NoMedia => "-me",
            Variant::Graphics => "+gfx",
        }
    }

    fn from_suffix(suffix: &str) -> Option<Self> {
        [Variant::Plain, Variant::WithMedia, Variant::AllMedia, Variant::NoMedia, Variant::Graphics]
            .into_iter()
            .find(|v| v.suffix() == suffix)
    }
}

/// A parsed profile name. Two names that print alike are equal; whether a GPU has the profile is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ProfileName {
    slices: u8,
    memory_gb: u16,
    variant: Variant,
    compute: Option<u8>,
}

impl ProfileName {
    /// A profile whose compute instance takes the whole GPU instance, as every advertised device does.
    pub const fn new(slices: u8, memory_gb: u16, variant: Variant) -> Self {
        ProfileName { slices, memory_gb, variant, compute: None }
    }

    /// GPU slices, the number before `g`.
    pub const fn slices(self) -> u8 {
        self.slices
    }

    /// Memory in the rounded gigabytes of the name, not in bytes that can be allocated.
    pub const fn memory_gb(self) -> u16 {
        self.memory_gb
    }

    /// The suffix.
    pub const fn variant(self) -> Variant {
        self.variant
    }

    /// Compute slices when the name splits the GPU instance further (`1c.2g.10gb`).
    pub const fn compute(self) -> Option<u8> {
        self.compute
    }

    /// The profile of the whole GPU instance: `2g.10gb` for `1c.2g.10gb`.
    pub const fn whole(self) -> Self {
        ProfileName::new(self.slices, self.memory_gb, self.variant)
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(compute) = self.compute {
            write!(f, "{compute}c.")?;
        }
        write!(f, "{}g.{}gb{}", self.slices, self.memory_gb, self.variant.suffix())
    }
}

/// A text that is no profile name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a MIG profile name: {fault}; expected a form such as 1g.10gb, 1g.10gb+me or 1g.24gb-me"
)]
pub struct BadProfileName {
    /// What was written, cut to a readable length.
    pub text: String,
    /// Which part is wrong.
    pub fault: ProfileNameFault,
}

/// The part of a profile name that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProfileNameFault {
    /// The part `<n>g` is missing or not a small positive number.
    #[error("the slices (\"3g\") can't be read")]
    Slices,
    /// The part `<n>gb` is missing or not a positive number.
    #[error("the memory (\"40gb\") can't be read")]
    Memory,
    /// The part `<n>c` isn't a number between 1 and the slices.
    #[error("the compute slices (\"1c\") can't be read or exceed the GPU slices")]
    Compute,
    /// A suffix that no profile has.
    #[error("the suffix is none of +me, +me.all, -me, +gfx")]
    Suffix,
}

impl FromStr for ProfileName {
    type Err = BadProfileName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A hostile document may carry a megabyte here; an error message must not.
        let bad = |fault| BadProfileName { text: text.chars().take(40).collect(), fault };
        let suffix_at = text.find(['+', '-']).unwrap_or(text.len());
        let (body, suffix) = text.split_at(suffix_at);
        let variant = Variant::from_suffix(suffix).ok_or_else(|| bad(ProfileNameFault::Suffix))?;

        let mut parts = body.split('.');
        let mut next = parts.next().unwrap_or_default();
        let compute = match next.strip_suffix('c') {
            None => None,
            Some(digits) => {
                next = parts.next().unwrap_or_default();
                Some(number(digits).ok_or_else(|| bad(ProfileNameFault::Compute))?)
            }
        };
        let slices = next.strip_suffix('g').and_then(number).and_then(|n| u8::try_from(n).ok());
        let slices = slices.ok_or_else(|| bad(ProfileNameFault::Slices))?;
        let memory_gb = parts.next().and_then(|p| p.strip_suffix("gb")).and_then(number);
        let memory_gb = memory_gb.ok_or_else(|| bad(ProfileNameFault::Memory))?;
        if parts.next().is_some() {
            return Err(bad(ProfileNameFault::Memory));
        }
        let compute = match compute.map(u8::try_from) {
            None => None,
            Some(Ok(c)) if c == slices => None,
            Some(Ok(c)) if c < slices => Some(c),
            Some(_) => return Err(bad(ProfileNameFault::Compute)),
        };
        Ok(ProfileName { slices, memory_gb, variant, compute })
    }
}

/// A positive number without sign or leading zero, so that every name has one spelling.
fn number(digits: &str) -> Option<u16> {
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    if canonical { digits.parse().ok() } else { None }
}

impl From<ProfileName> for String {
    fn from(name: ProfileName) -> String {
        name.to_string()
    }
}

impl TryFrom<String> for ProfileName {
    type Error = BadProfileName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_print_as_they_were_read() {
        for text in [
            "1g.10gb",
            "1g.18gb+me",
            "3g.40gb",
            "3g.40gb-me",
            "1g.24gb+me.all",
            "1g.24gb+gfx",
            "1c.2g.10gb",
            "7g.141gb",
        ] {
            assert_eq!(text.parse::<ProfileName>().unwrap().to_string(), text);
        }
        assert_eq!("2c.2g.10gb".parse::<ProfileName>().unwrap().to_string(), "2g.10gb");
    }

    #[test]
    fn the_wrong_part_is_named() {
        use ProfileNameFault::{Compute, Memory, Slices, Suffix};
        for (text, fault) in [
            ("", Slices),
            ("10gb", Slices),
            ("0g.10gb", Slices),
            ("01g.10gb", Slices),
            ("999g.10gb", Slices),
            ("1g", Memory),
            ("1g.10", Memory),
            ("1g.10GB", Memory),
            ("1g.10gb.me", Memory),
            ("1g.99999999gb", Memory),
            ("1g.10gb+mee", Suffix),
            ("1g.10gb+me,gfx", Suffix),
            ("3c.2g.10gb", Compute),
            ("xc.2g.10gb", Compute),
        ] {
            assert_eq!(text.parse::<ProfileName>().unwrap_err().fault, fault, "{text}");
        }
        assert!("z".repeat(1_000_000).parse::<ProfileName>().unwrap_err().to_string().len() < 300);
    }
}
