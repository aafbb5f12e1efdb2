//! Copies of what etcd holds, and the way back to one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use super::{Parts, Plane};
use crate::process::lock;

/// What etcd held at one moment. Its files go with the value.
#[derive(Debug)]
pub struct Snapshot(tempfile::TempDir);

impl Plane {
    pub(super) fn data_dir(&self) -> PathBuf {
        self.path("etcd")
    }

    /// Copies what etcd holds. The plane goes on; requests wait for some tens of milliseconds.
    ///
    /// # Errors
    /// etcd doesn't run, or the disk is full.
    pub fn snapshot_etcd(&self) -> anyhow::Result<Snapshot> {
        let to = tempfile::Builder::new().prefix("drydock-bed-snapshot-").tempdir().context("a folder")?;
        let parts = lock(&self.parts);
        let etcd = parts.etcd.as_ref().context("etcd is stopped")?;
        // Stopped between two instructions, its files are what a crash at this moment would leave, which it can read:
        // what it has written is in the kernel already.
        etcd.pause()?;
        let copied = copy(&self.data_dir(), to.path());
        etcd.resume()?;
        copied.context("copying what etcd holds")?;
        Ok(Snapshot(to))
    }

    /// Goes back to what etcd held then, as an operator restores a backup: everything stops, the data is replaced, and
    /// everything starts again. Resource versions go backwards; whoever watches is disconnected.
    ///
    /// # Errors
    /// A part doesn't start again.
    pub async fn restore_etcd(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        *lock(&self.parts) = Parts::default();
        fs::remove_dir_all(self.data_dir()).context("removing what etcd holds")?;
        copy(snapshot.0.path(), &self.data_dir()).context("putting back what etcd held")?;
        self.start_all().await
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    // etcd wants its folder for itself.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
