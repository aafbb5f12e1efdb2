//! The files in drydock's own directory.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A file of the directory couldn't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {error}", path = path.display())]
pub struct FileError {
    /// What was being done.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: std::io::Error,
}

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> FileError {
    let path = path.to_owned();
    move |error| FileError { doing, path: path.clone(), error }
}

/// Where what lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes the directory when it is missing; nobody else may look into a new one.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed("creating", path))?;
        Ok(Self(path.to_owned()))
    }
    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Held by the one process that acts.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.0.join("ledger.redb")
    }
    /// The simulated world.
    #[must_use]
    pub fn world(&self) -> PathBuf {
        self.0.join("world.redb")
    }
    /// What a caller has to know to change anything.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.0.join("token")
    }
    /// Address of the API while it is served.
    #[must_use]
    pub fn address(&self) -> PathBuf {
        self.0.join("address")
    }
    /// The copy of a remote repository.
    #[must_use]
    pub fn mirror(&self) -> PathBuf {
        self.0.join("mirror.git")
    }
}

/// Writes a file that is there whole or not at all. `secret` files are for the owner only.
pub(crate) fn write_whole(path: &Path, text: &str, secret: bool) -> Result<(), FileError> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if secret { 0o600 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = secret;
    let mut file = options.open(&beside).map_err(failed("writing", &beside))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("writing", &beside))?;
    drop(file);
    fs::rename(&beside, path).map_err(failed("writing", path))
}

/// The text of a small file; `None` when it doesn't exist.
pub(crate) fn read_small(path: &Path) -> Result<Option<String>, FileError> {
    // What lies there is a token, an address or a process id; anything longer isn't ours.
    const LONGEST: u64 = 4096;
    match fs::File::open(path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(LONGEST).read_to_string(&mut text).map_err(failed("reading", path))?;
            Ok(Some(text.trim().to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("reading", path)(error)),
    }
}
