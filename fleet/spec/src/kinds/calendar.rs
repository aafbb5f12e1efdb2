use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Period;

use super::Scope;

/// `kind: Calendar`: when work may start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CalendarSpec {
    /// Work starts only inside one of these. A pool that no window of any calendar covers may start at any time; a
    /// pool that some window covers never starts outside its windows.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// No forward movement inside these; a freeze wins over every window.
    #[serde(default)]
    pub freezes: Vec<Freeze>,
    /// What nodes already under way do when the window closes.
    #[serde(default)]
    pub in_flight_at_close: AtClose,
    /// Don't start unless this much of the usual unit time fits before the close. Default `p90`.
    #[serde(default)]
    pub must_fit: MustFit,
}

/// A recurring stretch of time. Whether an instant is inside is decided by the window's *start* in its own zone plus
/// the length, so it is right over midnight and over daylight-saving changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Name shown when something waits for it.
    #[serde(default)]
    pub name: Option<String>,
    /// Weekdays on which it starts; empty means every day.
    #[serde(default)]
    pub days: Vec<Day>,
    /// Local start, `HH:MM` (quote it).
    pub from: String,
    /// Length.
    #[serde(rename = "for")]
    pub length: Period,
    /// IANA time zone, for example `America/New_York`.
    pub time_zone: String,
    /// What it is about; everything when empty.
    #[serde(default)]
    pub scope: Scope,
}

/// A weekday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// A stretch of time without forward movement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Freeze {
    /// Name shown when something waits for its end.
    #[serde(default)]
    pub name: Option<String>,
    /// First instant.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
    /// What it is about; everything when empty.
    #[serde(default)]
    pub scope: Scope,
    /// Movements that pass all the same. Rollback passes unless the policy denies it.
    #[serde(default)]
    pub allow: Vec<FreezeAllow>,
}

/// What a freeze lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FreezeAllow {
    /// Rollbacks.
    Rollback,
    /// Releases marked `security`.
    Security,
}

/// What nodes under way do when the window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AtClose {
    /// They finish.
    #[default]
    Finish,
    /// Those that haven't begun to apply are returned.
    ReturnIfNotApplied,
}

/// How much of the usual unit time must fit before the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MustFit {
    /// Start at any time inside.
    No,
    /// The median must fit.
    P50,
    /// Nine of ten must fit.
    #[default]
    P90,
}
