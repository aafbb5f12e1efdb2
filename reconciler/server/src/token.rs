//! The word that a caller has to know to change anything. It is made once and lies in DIR/token, for the owner only.

use std::fmt;
use std::io::Read;

use crate::files::{Directory, FileError, failed, read_small, write_whole};

/// Bytes of randomness in a token: beyond guessing.
const BYTES: usize = 32;

/// The token. It never appears in logs.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in the directory, made when there is none.
    ///
    /// # Errors
    /// When the file can't be read or written, or the system has no randomness.
    pub fn of(directory: &Directory) -> Result<Self, FileError> {
        let path = directory.token();
        if let Some(text) = read_small(&path)?.filter(|text| text.len() >= BYTES) {
            return Ok(Self(text));
        }
        let text = random::<BYTES>()?;
        write_whole(&path, &text, true)?;
        Ok(Self(text))
    }

    /// Eight random digits: keeps two processes of one name apart.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn draw() -> Result<String, FileError> {
        random::<4>()
    }

    /// Whether a caller knows it. Takes as long for a near miss as for a far one.
    #[must_use]
    pub fn is(&self, offered: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), offered.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0, |acc, (a, b)| acc | (a ^ b));
        ours.len() == theirs.len() && differing == 0
    }
}

fn random<const N: usize>() -> Result<String, FileError> {
    let random = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; N];
    let filled = std::fs::File::open(random).and_then(|mut file| file.read_exact(&mut bytes));
    filled.map_err(failed("reading", random))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_made_once_and_for_the_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::create(dir.path()).unwrap();
        let token = Token::of(&directory).unwrap();
        let text = std::fs::read_to_string(directory.token()).unwrap();
        assert!(text.len() == 2 * BYTES && token.is(&text) && Token::of(&directory).unwrap().is(&text));
        assert!(!token.is("") && !token.is(&text[1..]) && !token.is(&format!("{text}0")));
        assert!(!format!("{token:?}").contains(&text));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.token()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
