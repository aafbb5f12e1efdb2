//! Kinds of document, and one document by itself.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{fleet::API_VERSION, kinds::*, suggest, text::*};

macro_rules! kinds {
    ($($kind:ident, $name:ty, $spec:ty, $doc:literal;)*) => {
        /// A kind of document.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The word after `kind:`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }
        }

        /// One document: what stands in a file between two `---`.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Document {
            $(#[doc = $doc] $kind($name, $spec),)*
        }

        impl Document {
            /// Its kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$kind(..) => Kind::$kind,)* }
            }
            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                match self { $(Self::$kind(name, _) => name.as_str(),)* }
            }
        }

        impl Serialize for Document {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(name, spec) => Wrapped {
                        api_version: API_VERSION,
                        kind: stringify!($kind),
                        metadata: Metadata { name: name.as_str() },
                        spec,
                    }.serialize(s),)*
                }
            }
        }
    };
}

kinds! {
    Fleet, FleetName, FleetSpec, "Rules for the whole repository; exactly one.";
    Cluster, ClusterName, ClusterSpec, "A Kubernetes cluster.";
    GpuNodePool, PoolName, PoolSpec, "Nodes with the same hardware and software.";
    PartitionLayout, LayoutName, LayoutSpec, "How GPUs are cut up and shared.";
    Component, ComponentName, ComponentSpec, "How a piece of software is delivered and observed.";
    Release, ReleaseName, ReleaseSpec, "A named vector of component versions.";
    RolloutPolicy, PolicyName, PolicySpec, "How pools are moved from one release to the next.";
    Budget, BudgetName, BudgetSpec, "How much may be away at once.";
    Calendar, CalendarName, CalendarSpec, "When work may start.";
    CheckSuite, SuiteName, SuiteSpec, "What must hold on a node before and after a change.";
    RolloutControl, ControlName, ControlSpec, "What people want of a rollout under way.";
    CostBudget, CostBudgetName, CostBudgetSpec, "Money per month for a part of the fleet.";
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wrapped<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: &'a T,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a kind was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind `{word}`")]
pub struct KindError {
    word: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl FromStr for Kind {
    type Err = KindError;
    fn from_str(word: &str) -> Result<Self, KindError> {
        let known: Vec<&str> = Self::ALL.iter().map(|k| k.as_str()).collect();
        let kind = Self::ALL.iter().copied().find(|k| k.as_str() == word);
        kind.ok_or_else(|| KindError { word: word.to_owned(), hint: suggest::hint(word, &known) })
    }
}
