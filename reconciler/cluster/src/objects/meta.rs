//! Metadata that every object has.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::Kind;

/// Namespace and name. Things without a namespace have an empty one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// From its two parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
    /// The namespace, where there is one.
    #[must_use]
    pub fn space(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.space() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An object that is watched and kept.
pub trait Watched: Clone + Send + Sync + DeserializeOwned + 'static {
    /// Its kind.
    const KIND: Kind;
    /// Its metadata.
    fn meta(&self) -> &Meta;
    /// Its key.
    fn key(&self) -> Key {
        Key::new(&self.meta().namespace, &self.meta().name)
    }
}

/// What is kept of an object's metadata.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name.
    pub name: String,
    /// Namespace; empty where there is none.
    pub namespace: String,
    /// Changes when an object is made anew under the same name.
    pub uid: String,
    /// Version of the object; only good for comparing and for compare-and-swap.
    pub resource_version: String,
    /// Grows with every change of `spec`.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations. Long ones of others are dropped, see `Meta::trim`.
    pub annotations: BTreeMap<String, String>,
    /// When it was made, by the API server's clock.
    pub creation_timestamp: Option<Timestamp>,
    /// It is being deleted since.
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds it was given to end when its deletion began.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Who made it.
    #[serde(rename = "ownerReferences")]
    pub owners: Vec<Owner>,
}

/// Who made an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Kind of the owner.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// It looks after the object.
    pub controller: bool,
}

impl Meta {
    /// Drops annotations that drydock has no use for: `last-applied-configuration` alone is as large as the object.
    pub(super) fn trim(&mut self, keep: impl Fn(&str) -> bool) {
        self.annotations.retain(|key, _| key.contains("drydock.dev/") || keep(key));
    }
    /// The owner that looks after it.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }
    /// A label's value.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
    /// An annotation's value.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}
