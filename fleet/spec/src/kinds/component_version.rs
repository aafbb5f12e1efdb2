use std::{collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IntoDeserializer},
};

use crate::text::Version;

/// One component of a release. All three parts enter the release id. A bare text is a version without digest or
/// settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentVersion {
    /// Version text.
    pub version: Version,
    /// Digest of the artefact (`sha256:…`) where it is pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Settings that change what runs: install mode, kernel module options.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

/// The long form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Full {
    /// Version text. It is part of a release beside the digest: objects, labels and tags are named by it, and what runs
    /// is read back by it, so another text for the same digest moves nodes as well.
    version: Version,
    /// Digest of the artefact (`sha256:…`) where it is pinned.
    #[serde(default)]
    digest: Option<String>,
    /// Settings that change what runs: install mode, kernel module options. Deliveries by `daemonSet`, `deployment` and
    /// `job` hand them to every container as environment variables, `kernelModule` as `DRYDOCK_CONFIG_KERNEL_MODULE`;
    /// `nvidiaDriver` and `clusterPolicy` set the operator's fields, for `kernelModule` (open, proprietary, auto) and
    /// `usePrecompiled` ("true", "false"). A setting that the delivery can't carry is an error.
    #[serde(default)]
    config: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for ComponentVersion {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ComponentVersion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or a mapping with `version`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ComponentVersion, E> {
                let version = Version::deserialize(text.into_deserializer())?;
                Ok(ComponentVersion { version, digest: None, config: BTreeMap::new() })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ComponentVersion, A::Error> {
                let full = Full::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let Full { version, digest, config } = full;
                Ok(ComponentVersion { version, digest, config })
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl JsonSchema for ComponentVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ComponentVersion".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (text, full) = (generator.subschema_for::<Version>(), generator.subschema_for::<Full>());
        json_schema!({"anyOf": [text, full]})
    }
}
