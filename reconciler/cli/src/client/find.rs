//! Finding the drydock that is meant.

use std::path::PathBuf;

use super::{Reader, http::Http, offline::Folder};
use crate::exit::{Exit, Failure, Result};

/// Which drydock is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Folder of the demo: the address and the token are read from it.
    #[arg(long, value_name = "DIR", default_value = "drydock-demo")]
    dir: PathBuf,
    /// Address of a running drydock, instead of a folder.
    #[arg(long, value_name = "URL", env = "DRYDOCK_SERVER")]
    server: Option<String>,
    /// Its token; changing anything needs it.
    #[arg(long, value_name = "TOKEN", env = "DRYDOCK_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Target {
    /// The running drydock, or the folder in which none runs.
    pub(crate) fn reader(&self) -> Result<Reader> {
        if let Some(server) = &self.server {
            return Ok(Reader::Running(Http::new(server, self.token.clone())));
        }
        let file =
            |name: &str| std::fs::read_to_string(self.dir.join(name)).ok().map(|t| t.trim().to_owned());
        if let Some(address) = file("address").filter(|address| !address.is_empty()) {
            let http = Http::new(&address, self.token.clone().or_else(|| file("token")));
            // A process that was killed leaves its address behind.
            if http.is_alive() {
                return Ok(Reader::Running(http));
            }
        }
        match Folder::open(&self.dir)? {
            Some(folder) => Ok(Reader::Folder(Box::new(folder))),
            None => {
                let message =
                    format!("no drydock runs here, and there is nothing of one in {}", self.dir.display());
                Err(Failure::new(Exit::Unreachable, message).hint(
                    "start one with `drydock demo`, or name a running one with --server URL or --dir DIR",
                ))
            }
        }
    }
}
