use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::ComponentName;

use super::ComponentVersion;

/// `kind: Release`: a named vector of component versions that are proven together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseSpec {
    /// Version of each component. A bare text is a version without digest or configuration.
    pub components: BTreeMap<ComponentName, ComponentVersion>,
    /// What it requires of components that it doesn't carry itself, as constraints on their version text.
    #[serde(default)]
    pub requires: BTreeMap<ComponentName, String>,
    /// A security release passes freezes that allow `security`.
    #[serde(default)]
    pub security: bool,
    /// Why it exists, for people.
    #[serde(default)]
    pub notes: Option<String>,
}
