//! Where the binaries of a control plane come from.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// What `tests/tools/build` builds from; its digest is the name of the folder.
const GO_MOD: &[u8] = include_bytes!("../../tools/kubernetes/go.mod");
const GO_SUM: &[u8] = include_bytes!("../../tools/kubernetes/go.sum");
const DEVICE_PLUGIN: &[u8] = include_bytes!("../../tools/kubernetes/device-plugin/main.go");

/// One binary of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// `etcd`.
    Etcd,
    /// `kube-apiserver`.
    ApiServer,
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
    /// `kubectl`; only some tests need it.
    Kubectl,
    /// `kubelet`; only real nodes need it.
    Kubelet,
    /// `device-plugin`, which runs in a container; only real nodes need it.
    DevicePlugin,
}

impl Tool {
    /// What a control plane needs.
    pub const PLANE: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// Name of the file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::DevicePlugin => "device-plugin",
        }
    }
}

/// Paths of the binaries of a control plane.
#[derive(Debug, Clone)]
pub struct Tools {
    /// `etcd`.
    pub etcd: PathBuf,
    /// `kube-apiserver`.
    pub api_server: PathBuf,
    /// `kube-controller-manager`.
    pub controller_manager: PathBuf,
    /// `kube-scheduler`.
    pub scheduler: PathBuf,
}

/// What isn't there, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Names of the things.
    pub what: Vec<String>,
    /// One sentence: what to do about it.
    pub remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "missing: {}. {}", self.what.join(", "), self.remedy)
    }
}

impl std::error::Error for Missing {}

impl Tools {
    /// Looks for each binary in `KUBEBUILDER_ASSETS`, then where `tests/tools/build` puts them, then on `PATH`.
    ///
    /// # Errors
    /// The names of those that are nowhere.
    pub fn find() -> Result<Self, Missing> {
        let [etcd, api_server, controller_manager, scheduler] = locate(Tool::PLANE)?;
        Ok(Self { etcd, api_server, controller_manager, scheduler })
    }

    /// `kubectl`, looked for in the same places.
    ///
    /// # Errors
    /// Its name when it is nowhere.
    pub fn kubectl() -> Result<PathBuf, Missing> {
        locate([Tool::Kubectl]).map(|[path]| path)
    }
}

/// Looks for binaries in the places of [`Tools::find`].
///
/// # Errors
/// The names of those that are nowhere.
pub fn locate<const N: usize>(tools: [Tool; N]) -> Result<[PathBuf; N], Missing> {
    let places = places();
    let found = tools.map(|tool| first(&places, tool.file()));
    let what: Vec<String> = tools
        .iter()
        .zip(&found)
        .filter(|(_, path)| path.is_none())
        .map(|(tool, _)| tool.file().to_owned())
        .collect();
    if what.is_empty() {
        // Each is there: nothing was collected above.
        return Ok(found.map(Option::unwrap_or_default));
    }
    let remedy = format!("Build with: tests/tools/build {}", what.join(" "));
    Err(Missing { what, remedy })
}

/// Looks for a file on `PATH` alone: for what comes with the machine.
#[must_use]
pub fn on_path(file: &str) -> Option<PathBuf> {
    first(&path(), file)
}

/// Folders in the order they are looked through.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = env("KUBEBUILDER_ASSETS").map(PathBuf::from).into_iter().collect();
    places.extend(built());
    places.extend(path());
    places
}

/// Where what is built for tests is kept.
pub(crate) fn cache() -> Option<PathBuf> {
    let home = || env("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(env("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?.join("drydock"))
}

/// Where `tests/tools/build` puts what it builds.
fn built() -> Option<PathBuf> {
    let cache = cache()?;
    let digest =
        Sha256::new().chain_update(GO_MOD).chain_update(GO_SUM).chain_update(DEVICE_PLUGIN).finalize();
    let key: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Some(cache.join("tools").join(key))
}

fn path() -> Vec<PathBuf> {
    env("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn first(places: &[PathBuf], file: &str) -> Option<PathBuf> {
    places.iter().map(|place| place.join(file)).find(|path| path.is_file())
}

/// A variable of the environment; empty counts as unset.
pub(crate) fn env(name: &str) -> Option<std::ffi::OsString> {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests have no command line; this is the one place that reads it"
    )]
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_how_to_get_it() {
        let missing =
            Missing { what: vec!["etcd".into()], remedy: "Build with: tests/tools/build etcd".into() };
        assert_eq!(missing.to_string(), "missing: etcd. Build with: tests/tools/build etcd");
    }

    #[test]
    fn the_first_place_that_has_a_file_counts() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(b.path().join("x"), "").unwrap();
        let places = [a.path().to_owned(), b.path().to_owned()];
        assert_eq!(first(&places, "x").unwrap(), b.path().join("x"));
        std::fs::write(a.path().join("x"), "").unwrap();
        assert_eq!(first(&places, "x").unwrap(), a.path().join("x"));
        assert_eq!(first(&places, "y"), None);
    }
}
