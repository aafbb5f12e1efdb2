//! How the embedded mode is started.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use drydock_sim::WorldOptions;

use crate::clock::Speed;
use crate::engine::Rhythm;
use crate::http::Pages;
use crate::sourcing::SourceOptions;

/// Everything the embedded mode is started with.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// drydock's own directory.
    pub directory: PathBuf,
    /// The documents.
    pub source: SourceOptions,
    /// Where the API listens; port 0 takes any free one. Absent: nowhere.
    pub listen: Option<SocketAddr>,
    /// More host names under which the API answers.
    pub hosts: Vec<String>,
    /// Speed of the fleet's clock.
    pub speed: Speed,
    /// How passes are spaced.
    pub rhythm: Rhythm,
    /// The simulated fleet, where none is stored yet: seed, faults, sizes.
    pub world: WorldOptions,
    /// The dashboard.
    pub pages: Option<Pages>,
    /// Ledger and world live in memory and are gone at the end: for a throwaway run at full speed.
    pub in_memory: bool,
}

impl EmbeddedOptions {
    /// The default port of the API.
    pub const PORT: u16 = 7420;

    /// Real time, the default port of this machine, a quiet simulated fleet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, source: SourceOptions) -> Self {
        Self {
            directory: directory.into(),
            source,
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, Self::PORT))),
            hosts: Vec::new(),
            speed: Speed::Times(1.0),
            rhythm: Rhythm::default(),
            world: WorldOptions::default(),
            pages: None,
            in_memory: false,
        }
    }
}
