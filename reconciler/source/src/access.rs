//! How one may enter a repository.

use std::fmt;

use crate::host_key::KnownHosts;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the transport only.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::scrub::MASK)
    }
}

/// What is shown to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    #[default]
    Anonymous,
    /// A user name with a password or token.
    Basic {
        /// User name; some hosts want a fixed word here when `secret` is a token.
        username: String,
        /// Password or token.
        secret: Secret,
    },
    /// An SSH key held in memory.
    SshKey {
        /// Usually `git`.
        username: String,
        /// The private key's text (PEM or OpenSSH).
        private_key: Secret,
        /// What opens the key.
        passphrase: Option<Secret>,
    },
    /// The SSH agent of the user who runs the process.
    SshAgent {
        /// Usually `git`.
        username: String,
    },
}

impl Credentials {
    /// Everything that must not show up in a text.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Anonymous | Self::SshAgent { .. } => Vec::new(),
            // A token may stand where the user name is expected, with an empty password.
            Self::Basic { username, secret } if secret.expose().is_empty() => vec![username],
            Self::Basic { secret, .. } => vec![secret.expose()],
            Self::SshKey { private_key, passphrase, .. } => {
                let mut secrets = vec![private_key.expose()];
                secrets.extend(passphrase.as_ref().map(Secret::expose));
                secrets
            }
        }
    }
}

/// Everything needed to enter: asked for anew at every look, so a rotated token is used at once and a refusal is
/// never remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Who we are. Credentials written into the address come first.
    pub credentials: Credentials,
    /// Who the SSH server must be. `None`: the known hosts of the user who runs the process.
    pub known_hosts: Option<KnownHosts>,
}
