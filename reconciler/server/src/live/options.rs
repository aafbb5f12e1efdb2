//! How drydock is started on real clusters.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use drydock_cluster::ensure::Settings;
use jiff::SignedDuration;

use crate::embedded::EmbeddedOptions;
use crate::engine::Rhythm;
use crate::http::Pages;
use crate::sourcing::SourceOptions;

/// Everything it is started with.
#[derive(Clone)]
pub struct LiveOptions {
    /// drydock's own directory: mirror of the repository, history, token.
    pub directory: PathBuf,
    /// The documents.
    pub source: SourceOptions,
    /// The kubeconfig; absent means the usual places, or the cluster it runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the home cluster; absent means the current one.
    pub context: Option<String>,
    /// Name of this process among several.
    pub identity: String,
    /// Where the API listens; port 0 takes any free one. Absent: nowhere.
    pub listen: Option<SocketAddr>,
    /// More host names under which the API answers.
    pub hosts: Vec<String>,
    /// The dashboard.
    pub pages: Option<Pages>,
    /// How passes are spaced.
    pub rhythm: Rhythm,
    /// Names and images in clusters.
    pub settings: Settings,
    /// After this time without a renewal another process takes over.
    pub lease: Duration,
    /// Go on from a ledger that is older than one seen before.
    pub accept_restored_ledger: bool,
}

impl LiveOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, source: SourceOptions) -> Self {
        Self {
            directory: directory.into(),
            source,
            kubeconfig: None,
            context: None,
            identity: "drydock".to_owned(),
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, EmbeddedOptions::PORT))),
            hosts: Vec::new(),
            pages: None,
            // A step takes a pass; with a second between two of them a node would lose ten on its way.
            rhythm: Rhythm { coalesce: SignedDuration::from_millis(200), ..Rhythm::default() },
            settings: Settings::default(),
            lease: Duration::from_secs(15),
            accept_restored_ledger: false,
        }
    }
}
