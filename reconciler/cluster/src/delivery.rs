//! Where a version of a component stands in a cluster: names, labels, and how a version is read back.

use std::collections::BTreeMap;

use drydock_api::names;
use drydock_spec::{ClusterName, ComponentName, ComponentVersion, Fleet, ObjectRef, PoolSpec};

use crate::objects::PodObject;

/// Longest name of a DaemonSet: its pods carry it, with a suffix, in a label of at most 63 characters.
const NAME_MAX: usize = 52;

/// The pool that a node with these labels is in; the first by name where two match, as everywhere.
#[must_use]
pub fn pool_of<'a>(
    fleet: &'a Fleet,
    cluster: &ClusterName,
    labels: &BTreeMap<String, String>,
) -> Option<&'a PoolSpec> {
    let selects = |pool: &PoolSpec| {
        pool.cluster == *cluster
            && pool.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    fleet.pools.values().map(|pool| &pool.spec).find(|pool| selects(pool))
}

/// Key of the node label that chooses the version of a component.
#[must_use]
pub fn label_key(component: &ComponentName) -> String {
    format!("{}{component}", names::VERSION_PREFIX)
}

/// The exact version as one line of JSON: what is written on objects and read back.
#[must_use]
pub fn exact(version: &ComponentVersion) -> String {
    // Maps are sorted and the type is plain data, so writing it can't fail; an empty text would only look like "unknown".
    serde_json::to_string(version).unwrap_or_default()
}

/// Label value for a version.
#[must_use]
pub fn slug(version: &ComponentVersion) -> String {
    names::slug(version.version.as_str(), &exact(version))
}

/// Name of the object for one version: the stem and the slug, cut so that labels of its pods still fit.
#[must_use]
pub fn object_name(stem: &str, version: &ComponentVersion) -> String {
    let slug = slug(version);
    let room = NAME_MAX.saturating_sub(slug.len() + 1);
    let stem = stem.get(..stem.len().min(room)).unwrap_or(stem).trim_end_matches(['-', '.']);
    format!("{stem}-{slug}")
}

/// Image of a version: pinned by digest where the release pins it.
#[must_use]
pub fn image(of: &ObjectRef, version: &ComponentVersion) -> Option<String> {
    let image = of.image.as_deref()?;
    Some(match &version.digest {
        Some(digest) => format!("{image}@{digest}"),
        None => format!("{image}:{}", version.version),
    })
}

/// The version noted on an object or pod of drydock's own.
#[must_use]
pub fn noted(annotation: Option<&str>) -> Option<ComponentVersion> {
    serde_json::from_str(annotation?).ok()
}

/// The version that an image's tag says, for what drydock didn't make. Operators add the system to the tag
/// (`580.95.05-ubuntu22.04`); a system's name begins with a letter, so the version ends before it.
#[must_use]
pub fn of_image(image: &str) -> Option<ComponentVersion> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.to_owned())),
        None => (image, None),
    };
    let last = rest.rsplit('/').next()?;
    let tag = last.split_once(':').map(|(_, tag)| tag);
    Some(ComponentVersion { digest, ..plain(without_system(tag?))? })
}

/// A version that stands somewhere as plain text.
#[must_use]
pub fn plain(text: &str) -> Option<ComponentVersion> {
    let version = (!text.is_empty()).then(|| drydock_spec::Version::new(text))?;
    Some(ComponentVersion { version, digest: None, config: BTreeMap::new() })
}

fn without_system(tag: &str) -> &str {
    const SYSTEMS: &[&str] =
        &["-ubuntu", "-rhel", "-rhcos", "-sles", "-debian", "-rocky", "-flatcar", "-ubi"];
    SYSTEMS.iter().filter_map(|system| tag.find(system)).min().and_then(|at| tag.get(..at)).unwrap_or(tag)
}

/// The version of a pod: as drydock noted it, or as its first image says.
#[must_use]
pub fn of_pod(pod: &PodObject) -> Option<ComponentVersion> {
    noted(pod.meta.annotation(names::VERSION)).or_else(|| of_image(pod.images.first()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn version(text: &str) -> ComponentVersion {
        serde_json::from_value(serde_json::json!(text)).unwrap()
    }

    #[test]
    fn names_of_versions_fit_and_are_read_back() {
        let v = version("580.95.05");
        assert_eq!(noted(Some(&exact(&v))), Some(v.clone()));
        let long = object_name("a-driver-with-a-name-that-goes-on-and-on-and-on", &v);
        assert!(long.len() <= NAME_MAX && long.ends_with(&slug(&v)), "{long}");
        assert_ne!(object_name("d", &v), object_name("d", &version("580.95.5")));
    }

    #[test]
    fn versions_of_images() {
        let told = |image: &str| of_image(image).map(|v| v.version.to_string());
        assert_eq!(told("nvcr.io/nvidia/driver:580.95.05-ubuntu22.04").as_deref(), Some("580.95.05"));
        assert_eq!(told("host:5000/driver:1.2").as_deref(), Some("1.2"));
        assert_eq!(told("driver:580.126.09-rc.1").as_deref(), Some("580.126.09-rc.1"));
        assert_eq!(told("host:5000/driver"), None);
        assert_eq!(of_image("d:1@sha256:ab").unwrap().digest.as_deref(), Some("sha256:ab"));
    }
}
