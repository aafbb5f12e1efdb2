//! Identity of what runs: digests of component vectors and of layouts.
//!
//! An identity is made of what reaches a node and of nothing else. Names of documents, notes and the version of the
//! schema stay outside, so that renaming a release or upgrading drydock is an empty plan.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::{
    kinds::{ComponentVersion, LayoutSpec, MigStrategy, ReleaseSpec, Sharing, Unnamed},
    text::ComponentName,
};

/// Hexadecimal digits of an id. 32 bits: a fleet has hundreds of releases in its history, so two of them meet with a
/// chance of about one in a hundred thousand, and an id still fits into a column and is read aloud.
const ID_DIGITS: usize = 8;

/// Why an id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: {text:?}; expected {prefix}- and {ID_DIGITS} hexadecimal digits")]
pub struct IdError {
    text: String,
    prefix: char,
}

fn check_id(text: &str, prefix: char) -> Result<Arc<str>, IdError> {
    let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    match digits {
        Some(d) if d.len() == ID_DIGITS && d.bytes().all(hex) => Ok(Arc::from(text)),
        _ => Err(IdError { text: text.to_owned(), prefix }),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text: a letter, a dash and eight hexadecimal digits.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
            fn of(canonical: Canonical) -> Self {
                Self(Arc::from(format!("{}-{}", $prefix, canonical.hex())))
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
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                check_id(text, $prefix).map(Self)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
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
                String::deserialize(d)?.parse().map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": format!("^{}-[0-9a-f]{{{ID_DIGITS}}}$", $prefix)})
            }
        }
    };
}

id!(
    /** Identity of a component vector: `r-` and the first 8 hexadecimal digits of its digest. */
    ReleaseId,
    'r'
);
id!(
    /** Identity of a layout: `l-` and the first 8 hexadecimal digits of its digest. */
    LayoutId,
    'l'
);

/// Input of a digest. Every text carries its length, so that no two different inputs run together into one.
struct Canonical(Sha256);

impl Canonical {
    fn new() -> Self {
        Self(Sha256::new())
    }
    fn number(&mut self, n: u64) -> &mut Self {
        self.0.update(n.to_be_bytes());
        self
    }
    fn length(&mut self, n: usize) -> &mut Self {
        self.number(n as u64)
    }
    fn text(&mut self, text: &str) -> &mut Self {
        self.length(text.len());
        self.0.update(text.as_bytes());
        self
    }
    fn hex(self) -> String {
        let digest = self.0.finalize();
        digest.iter().take(ID_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What a node runs or should run: the version of each component.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ReleaseVector(pub BTreeMap<ComponentName, ComponentVersion>);

impl ReleaseVector {
    /// Its identity: component, version, artefact digest and settings of each component, in the order of names.
    #[must_use]
    pub fn id(&self) -> ReleaseId {
        let mut canonical = Canonical::new();
        canonical.length(self.0.len());
        for (name, ComponentVersion { version, digest, config }) in &self.0 {
            // An absent digest is the empty text: an empty digest can't be written in a document.
            canonical.text(name.as_str()).text(version.as_str()).text(digest.as_deref().unwrap_or(""));
            canonical.length(config.len());
            for (key, value) in config {
                canonical.text(key).text(value);
            }
        }
        ReleaseId::of(canonical)
    }
    /// The version of one component.
    #[must_use]
    pub fn get(&self, name: &ComponentName) -> Option<&ComponentVersion> {
        self.0.get(name)
    }
    /// The components whose version, digest or settings differ, with both sides; in the order of names.
    #[must_use]
    pub fn changes<'a>(&'a self, next: &'a Self) -> Vec<VersionChange<'a>> {
        let mut names: Vec<&ComponentName> = self.0.keys().chain(next.0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let pair = |name| VersionChange { component: name, from: self.0.get(name), to: next.0.get(name) };
        names.into_iter().map(pair).filter(|change| change.from != change.to).collect()
    }
}

/// One component whose version differs between two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionChange<'a> {
    /// The component.
    pub component: &'a ComponentName,
    /// Before; `None` when it wasn't there.
    pub from: Option<&'a ComponentVersion>,
    /// After; `None` when it isn't there any more.
    pub to: Option<&'a ComponentVersion>,
}

impl fmt::Display for ReleaseVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, version)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {}", version.version)?;
        }
        Ok(())
    }
}

impl From<&ReleaseSpec> for ReleaseVector {
    fn from(release: &ReleaseSpec) -> Self {
        Self(release.components.clone())
    }
}

impl ReleaseSpec {
    /// What it puts on a node.
    #[must_use]
    pub fn vector(&self) -> ReleaseVector {
        self.into()
    }
}

/// Identity of a layout: everything that changes what a node advertises.
#[must_use]
pub fn layout_id(layout: &LayoutSpec) -> LayoutId {
    let LayoutSpec { strategy, gpus, unnamed, time_slicing, mps } = layout;
    let mut canonical = Canonical::new();
    canonical.text(match strategy {
        MigStrategy::None => "none",
        MigStrategy::Single => "single",
        MigStrategy::Mixed => "mixed",
    });
    canonical.text(match unnamed {
        Unnamed::Whole => "whole",
        Unnamed::Unchanged => "unchanged",
    });
    canonical.length(gpus.len());
    for group in gpus {
        match &group.devices {
            None => canonical.text("all"),
            Some(indices) => {
                // The order in which indices are written means nothing.
                let mut indices = indices.clone();
                indices.sort_unstable();
                canonical.text("some").length(indices.len());
                indices.iter().fold(&mut canonical, |c, &index| c.number(u64::from(index)))
            }
        };
        canonical.length(group.mig.len());
        for (profile, &count) in &group.mig {
            canonical.text(profile).number(u64::from(count));
        }
    }
    for sharing in [time_slicing, mps] {
        match sharing {
            None => canonical.text("off"),
            Some(Sharing { replicas, rename_by_default }) => {
                canonical.text("on").number(u64::from(*replicas)).number(u64::from(*rename_by_default))
            }
        };
    }
    LayoutId::of(canonical)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{kinds::GpuGroup, text::Version};

    fn vector(pairs: &[(&str, &str)]) -> ReleaseVector {
        let one = |&(name, version): &(&str, &str)| {
            let version =
                ComponentVersion { version: Version::new(version), digest: None, config: BTreeMap::new() };
            (name.parse().unwrap(), version)
        };
        ReleaseVector(pairs.iter().map(one).collect())
    }

    /// Ids stand in ledgers and labels: this value may never change.
    #[test]
    fn ids_are_stable() {
        let id = vector(&[("gpu-driver", "580.95.05"), ("device-plugin", "0.18.0")]).id();
        assert_eq!(id.to_string(), "r-e13bb073");
        assert_eq!(id.as_str().parse(), Ok(id));
        assert_eq!(layout_id(&LayoutSpec::default()).to_string(), "l-d04250e8");
    }

    #[test]
    fn every_part_of_a_version_counts() {
        let plain = vector(&[("gpu-driver", "580.95.05")]);
        let mut digest = plain.clone();
        digest.0.values_mut().for_each(|v| v.digest = Some("sha256:00".to_owned()));
        let mut config = plain.clone();
        config.0.values_mut().for_each(|v| v.config = BTreeMap::from([("mode".into(), "open".into())]));
        let other = vector(&[("gpu-driver", "580.95.5")]);
        let split = vector(&[("gpu-driver5", "80.95.05")]);
        let ids: std::collections::BTreeSet<_> =
            [plain, digest, config, other, split].iter().map(ReleaseVector::id).collect();
        assert_eq!(ids.len(), 5);
    }

    #[test]
    fn changes_name_both_sides() {
        let before = vector(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = vector(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let named: Vec<_> = before.changes(&after).iter().map(|c| c.component.to_string()).collect();
        assert_eq!(named, ["b", "c", "d"]);
        assert!(before.changes(&before).is_empty());
    }

    #[test]
    fn order_of_indices_is_no_change_of_layout() {
        let layout = |devices: &[u32]| LayoutSpec {
            gpus: vec![GpuGroup { devices: Some(devices.to_vec()), mig: BTreeMap::new() }],
            ..LayoutSpec::default()
        };
        assert_eq!(layout_id(&layout(&[0, 1])), layout_id(&layout(&[1, 0])));
        assert_ne!(layout_id(&layout(&[0, 1])), layout_id(&layout(&[0, 2])));
    }

    #[test]
    fn refuses_what_is_no_id() {
        for text in ["", "r-", "r-1234567", "r-123456789", "l-12345678", "r-ABCDEF01", "r_12345678"] {
            assert!(text.parse::<ReleaseId>().is_err(), "{text}");
        }
    }
}
