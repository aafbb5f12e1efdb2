//! What is asked of one GPU, and why it can't be had.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::geometry::Engine;
use super::profile::{BadProfileName, ProfileName};

/// A multiset of profiles wanted on one GPU. Profiles asked for zero times are kept out.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ProfileName, u32>", into = "BTreeMap<ProfileName, u32>")]
pub struct MigLayout(BTreeMap<ProfileName, u32>);

impl MigLayout {
    /// Reads `(profile, count)` pairs as a document writes them; the same profile twice adds up.
    ///
    /// # Errors
    /// The first name that isn't a profile name.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, BadProfileName> {
        pairs.into_iter().map(|(name, count)| Ok((name.parse()?, count))).collect()
    }

    /// Profiles with how many of each are wanted, in the order of their names' parts.
    pub fn iter(&self) -> impl Iterator<Item = (ProfileName, u32)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Instances in all.
    pub fn instances(&self) -> u32 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// True when nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This layout with one more instance.
    #[must_use]
    pub fn with(&self, profile: ProfileName) -> Self {
        self.iter().chain([(profile, 1)]).collect()
    }
}

impl FromIterator<(ProfileName, u32)> for MigLayout {
    fn from_iter<I: IntoIterator<Item = (ProfileName, u32)>>(pairs: I) -> Self {
        let mut map: BTreeMap<ProfileName, u32> = BTreeMap::new();
        for (name, count) in pairs.into_iter().filter(|(_, count)| *count > 0) {
            let sum = map.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        MigLayout(map)
    }
}

impl From<BTreeMap<ProfileName, u32>> for MigLayout {
    fn from(map: BTreeMap<ProfileName, u32>) -> Self {
        map.into_iter().collect()
    }
}

impl From<MigLayout> for BTreeMap<ProfileName, u32> {
    fn from(layout: MigLayout) -> Self {
        layout.0
    }
}

impl fmt::Display for MigLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no instance");
        }
        for (i, (name, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} x {name}", if i == 0 { "" } else { " + " })?;
        }
        Ok(())
    }
}

/// Why a GPU can't hold a layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The model can't be partitioned at all.
    #[error("{model} has no MIG")]
    ModelHasNoMig {
        /// Catalogue name of the model.
        model: &'static str,
    },
    /// The model has no profile of that name; `nearest` is its profile that comes closest to what was meant.
    #[error("{model} has no profile {profile}{}", hint(.nearest))]
    UnknownProfile {
        /// Catalogue name of the model.
        model: &'static str,
        /// What was asked for.
        profile: ProfileName,
        /// What to write instead.
        nearest: Option<ProfileName>,
    },
    /// The name splits a GPU instance into compute instances, which no device plugin advertises.
    #[error("{profile} splits a GPU instance, which is never advertised to Kubernetes; use {whole}")]
    SplitCompute {
        /// What was asked for.
        profile: ProfileName,
        /// The profile of the whole instance.
        whole: ProfileName,
    },
    /// More instances of one profile than the GPU can hold, whatever else is on it.
    #[error("{model} holds at most {max} x {profile}, not {wanted}")]
    TooMany {
        /// Catalogue name of the model.
        model: &'static str,
        /// Which profile.
        profile: ProfileName,
        /// Instances asked for.
        wanted: u32,
        /// Instances possible.
        max: u8,
    },
    /// The instances together need more engines than the GPU has.
    #[error("the instances need {wanted} {engine} engines and {model} has {capacity}")]
    EnginesExhausted {
        /// Catalogue name of the model.
        model: &'static str,
        /// Which engine.
        engine: Engine,
        /// Engines needed by all instances.
        wanted: u32,
        /// Engines of the GPU.
        capacity: u8,
    },
    /// Each profile is possible, but not all of them together. `clash` is a smallest part that can't be placed.
    #[error("{model} can't hold {clash} at once: {}", reason(*.needed, *.units))]
    DoesNotFit {
        /// Catalogue name of the model.
        model: &'static str,
        /// A part of the layout that doesn't fit although each smaller part of it does.
        clash: MigLayout,
        /// Memory units `clash` needs.
        needed: u32,
        /// Memory units of the GPU.
        units: u8,
    },
    /// Names and counts are right, but where instances may start isn't published for this model.
    #[error("placements of {model} aren't published, so whether {layout} fits can't be told")]
    PlacementsUnknown {
        /// Catalogue name of the model.
        model: &'static str,
        /// What was asked for.
        layout: MigLayout,
    },
}

fn hint(nearest: &Option<ProfileName>) -> String {
    nearest.map_or_else(String::new, |name| format!("; use {name}"))
}

fn reason(needed: u32, units: u8) -> String {
    if needed > u32::from(units) {
        format!("they need {needed} memory units of {units}")
    } else {
        format!("they need {needed} memory units of {units}, and their allowed starts collide")
    }
}
