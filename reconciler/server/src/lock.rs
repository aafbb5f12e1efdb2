//! One actor at a time: whoever holds DIR/lock acts on the fleet, everybody else is told who does.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};

use crate::files::{Directory, FileError, failed, read_small};

/// Why the lock wasn't taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process acts.
    #[error("another drydock works with {directory}: process {holder}{}; stop it first, or use another directory",
        address.as_ref().map_or(String::new(), |address| format!(", serving at http://{address}")))]
    Held {
        /// The directory.
        directory: String,
        /// Its process id, as far as known.
        holder: String,
        /// Where it serves its API, when it does.
        address: Option<String>,
    },
    /// The lock's file can't be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The lock. The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock, or says who holds it.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it.
    pub fn take(directory: &Directory) -> Result<Self, LockError> {
        let path = directory.lock();
        let opening = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opening.map_err(failed("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let known = |text: Option<String>| text.filter(|text| !text.is_empty());
                let holder = known(read_small(&path)?).unwrap_or_else(|| "unknown".to_owned());
                let address = known(read_small(&directory.address())?);
                return Err(LockError::Held {
                    directory: directory.path().display().to_string(),
                    holder,
                    address,
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", &path)(error).into()),
        }
        // Only a hint for the message above; the lock itself is the system's.
        let process = format!("{}\n", std::process::id());
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(process.as_bytes()));
        written.map_err(failed("writing", &path))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::files::write_whole;

    #[test]
    fn a_second_actor_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::create(&dir.path().join("deep/er")).unwrap();
        let first = DirectoryLock::take(&directory).unwrap();
        let error = DirectoryLock::take(&directory).unwrap_err();
        let LockError::Held { holder, address, .. } = &error else { panic!("{error}") };
        assert_eq!((holder.as_str(), address), (std::process::id().to_string().as_str(), &None));
        write_whole(&directory.address(), "127.0.0.1:7700", false).unwrap();
        let text = DirectoryLock::take(&directory).unwrap_err().to_string();
        assert!(
            text.contains(&std::process::id().to_string()) && text.contains("http://127.0.0.1:7700"),
            "{text}"
        );
        drop(first);
        DirectoryLock::take(&directory).unwrap();
    }
}
