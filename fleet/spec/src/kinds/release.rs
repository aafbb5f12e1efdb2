use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{ComponentName, Version};

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

/// One component of a release. All three parts enter the release id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentVersion {
    /// Version text.
    pub version: Version,
    /// Digest of the artefact (`sha256:…`) where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Settings that change what runs: install mode, kernel module options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}
