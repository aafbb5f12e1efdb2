//! Small typed texts: names, versions, durations, amounts. Each is parsed once, at the edge.

pub use crate::glob::Glob;

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest name accepted: the limit Kubernetes sets for object names, so that every name can become one.
pub const NAME_LENGTH_MAX: usize = 253;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was written.
    #[error("a name can't be empty")]
    Empty,
    /// Longer than [`NAME_LENGTH_MAX`].
    #[error("a name has at most {NAME_LENGTH_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// A character that Kubernetes would refuse.
    #[error(
        "a name holds only a-z, 0-9, '-' and '.', and starts and ends with a letter or digit; found {0:?}"
    )]
    BadCharacter(char),
}

fn check_name(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_LENGTH_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if let Some(bad) = text.chars().find(|&c| !inner(c)) {
        return Err(NameError::BadCharacter(bad));
    }
    match text.chars().next().into_iter().chain(text.chars().next_back()).find(|c| !c.is_ascii_alphanumeric())
    {
        Some(bad) => Err(NameError::BadCharacter(bad)),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text as written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                check_name(text)?;
                Ok(Self(Arc::from(text)))
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "minLength": 1,
                    "maxLength": NAME_LENGTH_MAX,
                    "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
                })
            }
        }
    };
}

name!(/** Name of the fleet. */ FleetName);
name!(/** Name of a `Cluster`. */ ClusterName);
name!(/** Name of a `GpuNodePool`; unique in the whole fleet. */ PoolName);
name!(/** Name of a `PartitionLayout`. */ LayoutName);
name!(/** Name of a `Component`. */ ComponentName);
name!(/** Name of a `Release`. */ ReleaseName);
name!(/** Name of a `RolloutPolicy`. */ PolicyName);
name!(/** Name of a `Budget`. */ BudgetName);
name!(/** Name of a `Calendar`. */ CalendarName);
name!(/** Name of a `CheckSuite`. */ SuiteName);
name!(/** Name of a check inside a suite. */ CheckName);
name!(/** Name of a wave inside a policy. */ WaveName);
name!(/** Name of a `RolloutControl`. */ ControlName);
name!(/** Name of a `CostBudget`. */ CostBudgetName);
name!(/** A team that owns, approves or pays. */ TeamName);
name!(/** A tenant: whose jobs run on a pool. */ TenantName);

/// A version as its vendor writes it. It is kept as text and never compared as a number: driver versions aren't
/// semver, `580.10` isn't 580.1, and a digest has no order at all.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Version(Arc<str>);

impl Version {
    /// Keeps `text` as it is.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }
    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        if text.trim().is_empty() || text.trim() != text {
            return Err(de::Error::custom("a version is text without blanks at its ends"));
        }
        Ok(Self::new(&text))
    }
}
impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "description": "Text; always quote it"})
    }
}

/// A length of time, written `90s`, `30m`, `1h30m`, `2d`, `1w` (a day is 24 hours). Millisecond resolution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(u64);

/// Why a period was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a length of time: {0:?}; write for example 90s, 30m, 1h30m, 2d")]
pub struct PeriodError(String);

impl Period {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// From milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }
    /// From seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1000))
    }
    /// From minutes.
    #[must_use]
    pub const fn from_mins(m: u64) -> Self {
        Self::from_secs(m.saturating_mul(60))
    }
    /// From hours.
    #[must_use]
    pub const fn from_hours(h: u64) -> Self {
        Self::from_mins(h.saturating_mul(60))
    }
    /// Whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }
    /// Seconds with their fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
    /// True for a length of zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Sum, without overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// As jiff's duration. Lengths beyond 292 million years saturate.
    #[must_use]
    pub fn to_jiff(self) -> jiff::SignedDuration {
        jiff::SignedDuration::from_millis(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
    /// `at + self`, saturating at the end of time.
    #[must_use]
    pub fn after(self, at: jiff::Timestamp) -> jiff::Timestamp {
        at.checked_add(self.to_jiff()).unwrap_or(jiff::Timestamp::MAX)
    }
    /// The time from `earlier` to `later`; zero when it would be negative.
    #[must_use]
    pub fn between(earlier: jiff::Timestamp, later: jiff::Timestamp) -> Self {
        Self(u64::try_from(later.duration_since(earlier).as_millis()).unwrap_or(0))
    }
}
impl FromStr for Period {
    type Err = PeriodError;
    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let fail = || PeriodError(text.to_owned());
        let (mut total, mut digits, mut unit) = (0u64, String::new(), String::new());
        let mut add = |digits: &mut String, unit: &mut String| -> Option<()> {
            let ms: u64 = match unit.as_str() {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                "w" => 604_800_000,
                _ => return None,
            };
            total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(ms)?)?;
            digits.clear();
            unit.clear();
            Some(())
        };
        for c in text.chars() {
            if c.is_ascii_digit() {
                if !unit.is_empty() {
                    add(&mut digits, &mut unit).ok_or_else(fail)?;
                }
                digits.push(c);
            } else {
                unit.push(c);
            }
        }
        add(&mut digits, &mut unit).ok_or_else(fail)?;
        Ok(Self(total))
    }
}
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut rest = self.0;
        for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
            if rest >= ms {
                text.push_str(&format!("{}{unit}", rest / ms));
                rest %= ms;
            }
        }
        f.pad(if text.is_empty() { "0s" } else { &text })
    }
}
impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl Serialize for Period {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Period;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time with its unit, such as 90s, 30m, 1h30m or 2d")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_str(Visitor)
    }
}
impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$", "examples": ["30m", "1h30m", "2d"]})
    }
}

/// A count or a percentage of something countable. Percentages are kept in hundredths of a percent, so that all
/// arithmetic is exact: maxima round down, minima round up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// So many, whatever the size.
    Count(u32),
    /// Hundredths of a percent of the size: `"2.5%"` is 250.
    Percent(u32),
}

/// Why an amount was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an amount: {0:?}; write a whole number (4) or a percentage up to 100 (\"2.5%\")")]
pub struct AmountError(String);

impl Amount {
    /// As a maximum: rounds down.
    #[must_use]
    pub fn floor_of(self, size: u32) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Percent(p) => u32::try_from(u64::from(size) * u64::from(p) / 10_000).unwrap_or(u32::MAX),
        }
    }
    /// As a minimum: rounds up.
    #[must_use]
    pub fn ceil_of(self, size: u32) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Percent(p) => {
                u32::try_from((u64::from(size) * u64::from(p)).div_ceil(10_000)).unwrap_or(u32::MAX)
            }
        }
    }
    /// True when it can never allow anything, whatever the size.
    #[must_use]
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}
impl FromStr for Amount {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let fail = || AmountError(text.to_owned());
        let Some(number) = text.strip_suffix('%') else {
            return text.parse().map(Self::Count).map_err(|_| fail());
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if fraction.is_empty()
            || fraction.len() > 2
            || !number.chars().all(|c| c.is_ascii_digit() || c == '.')
        {
            return Err(fail());
        }
        let whole: u32 = whole.parse().map_err(|_| fail())?;
        let hundredths: u32 = format!("{fraction:0<2}").parse().map_err(|_| fail())?;
        match whole.checked_mul(100).map(|w| w + hundredths) {
            Some(p) if p <= 10_000 => Ok(Self::Percent(p)),
            _ => Err(fail()),
        }
    }
}
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Percent(p) if p % 100 == 0 => write!(f, "{}%", p / 100),
            Self::Percent(p) => write!(f, "{}.{:02}%", p / 100, p % 100),
        }
    }
}
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(n) => s.serialize_u32(*n),
            Self::Percent(_) => s.collect_str(self),
        }
    }
}
impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a percentage such as \"5%\"")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Amount, E> {
                u32::try_from(n).map(Amount::Count).map_err(|_| E::custom(AmountError(n.to_string())))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Amount, E> {
                u32::try_from(n).map(Amount::Count).map_err(|_| E::custom(AmountError(n.to_string())))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}
impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            {"type": "string", "pattern": "^[0-9]{1,3}(\\.[0-9]{1,2})?%$"}
        ]})
    }
}
