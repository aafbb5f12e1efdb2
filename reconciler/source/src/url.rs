//! Where a repository is, parsed once at the edge and never printed with its credentials.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::access::{Credentials, Secret};
use crate::error::{Result, SourceError};
use crate::scrub::{percent_decode, scrub};

/// The longest URL accepted; what browsers and servers agree on.
const LONGEST_URL: usize = 2048;

/// A repository's address: `https://`, `http://`, `ssh://`, `user@host:path`, `file://` or a local path.
///
/// User information is taken out when parsing, so no text made from the address can contain it; it stays available
/// as [`RemoteUrl::embedded`] credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    clean: String,
    place: Place,
    embedded: Option<Credentials>,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Http,
    Ssh { host: String, port: u16 },
    Local(PathBuf),
}

impl RemoteUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// [`SourceError::InvalidSource`] for an empty or overlong text, control characters, a scheme that is not
    /// supported, or a missing host.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let invalid = |why: &str| SourceError::InvalidSource(format!("{why}: {:?}", scrub(text, [])));
        if text.is_empty() {
            return Err(invalid("an empty address"));
        }
        if text.len() > LONGEST_URL {
            return Err(SourceError::InvalidSource(format!(
                "the address is longer than {LONGEST_URL} bytes"
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("control characters in the address"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Self::scp_or_path(text).ok_or_else(|| invalid("no host in the address"));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = percent_decode(rest.strip_prefix("localhost").unwrap_or(rest));
                if !path.starts_with('/') {
                    return Err(invalid("a file address needs an absolute path"));
                }
                Ok(Self { clean: text.to_owned(), place: Place::Local(PathBuf::from(path)), embedded: None })
            }
            scheme @ ("http" | "https") => {
                let (user, located) = split_user(rest);
                if host_of(located).is_empty() {
                    return Err(invalid("no host in the address"));
                }
                let embedded = user.map(|user| {
                    let (name, secret) = user.split_once(':').unwrap_or((user, ""));
                    Credentials::Basic {
                        username: percent_decode(name),
                        secret: Secret::new(percent_decode(secret)),
                    }
                });
                Ok(Self { clean: format!("{scheme}://{located}"), place: Place::Http, embedded })
            }
            "ssh" | "git+ssh" | "ssh+git" => {
                let (user, located) = split_user(rest);
                let host = host_of(located);
                let (host, port) = match host.rsplit_once(':') {
                    Some((name, port)) if !port.contains(']') => {
                        (name, port.parse().map_err(|_| invalid("the port is not a number"))?)
                    }
                    Some(_) | None => (host, 22),
                };
                if host.is_empty() {
                    return Err(invalid("no host in the address"));
                }
                let (name, secret) = match user {
                    Some(user) => {
                        user.split_once(':').map_or((Some(user), None), |(n, s)| (Some(n), Some(s)))
                    }
                    None => (None, None),
                };
                Ok(Self {
                    clean: match name {
                        Some(name) => format!("ssh://{name}@{located}"),
                        None => format!("ssh://{located}"),
                    },
                    place: Place::Ssh { host: host.trim_matches(['[', ']']).to_owned(), port },
                    embedded: secret.map(|secret| Credentials::Basic {
                        username: percent_decode(name.unwrap_or_default()),
                        secret: Secret::new(percent_decode(secret)),
                    }),
                })
            }
            _ => Err(invalid("only https, http, ssh and file addresses and local paths can be read")),
        }
    }

    /// `user@host:path` when a colon stands before the first slash, else a path.
    fn scp_or_path(text: &str) -> Option<Self> {
        let head = text.split('/').next().unwrap_or(text);
        match head.split_once(':') {
            Some((account, _)) if !text.starts_with('.') => {
                let host = account.rsplit_once('@').map_or(account, |(_, host)| host);
                (!host.is_empty()).then(|| Self {
                    clean: text.to_owned(),
                    place: Place::Ssh { host: host.to_owned(), port: 22 },
                    embedded: None,
                })
            }
            Some(_) | None => Some(Self {
                clean: text.to_owned(),
                place: Place::Local(PathBuf::from(text)),
                embedded: None,
            }),
        }
    }

    /// The folder, when the repository is on this machine.
    #[must_use]
    pub fn local_path(&self) -> Option<&Path> {
        match &self.place {
            Place::Local(path) => Some(path),
            Place::Http | Place::Ssh { .. } => None,
        }
    }

    /// Credentials that were written into the address.
    #[must_use]
    pub fn embedded(&self) -> Option<&Credentials> {
        self.embedded.as_ref()
    }

    /// Host and port, when the repository is reached by SSH.
    pub(crate) fn ssh_host(&self) -> Option<(&str, u16)> {
        match &self.place {
            Place::Ssh { host, port } => Some((host, *port)),
            Place::Http | Place::Local(_) => None,
        }
    }

    /// What the transport is given. A query may still hold a token, so this is never printed.
    pub(crate) fn for_transport(&self) -> &str {
        &self.clean
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scrub(&self.clean, []))
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteUrl({self})")
    }
}

/// Splits `user:secret@host/path`. The last `@` before the path counts: a password may contain one.
fn split_user(rest: &str) -> (Option<&str>, &str) {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    }
}

fn host_of(located: &str) -> &str {
    located.split(['/', '?', '#']).next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_form_is_understood() {
        let local = |text: &str| RemoteUrl::parse(text).unwrap().local_path().map(Path::to_path_buf);
        let ssh = |text: &str| RemoteUrl::parse(text).unwrap().ssh_host().map(|(h, p)| (h.to_owned(), p));
        assert_eq!(local("/srv/fleet"), Some("/srv/fleet".into()));
        assert_eq!(local("./fleet"), Some("./fleet".into()));
        assert_eq!(local("file:///srv/my%20fleet"), Some("/srv/my fleet".into()));
        assert_eq!(local("https://git.example/x"), None);
        assert_eq!(ssh("git@git.example:org/x.git"), Some(("git.example".into(), 22)));
        assert_eq!(ssh("ssh://git@git.example:2222/x"), Some(("git.example".into(), 2222)));
        assert_eq!(ssh("ssh://git@[::1]:2222/x"), Some(("::1".into(), 2222)));
        assert_eq!(ssh("ssh://git@[::1]/x"), Some(("::1".into(), 22)));
        assert_eq!(ssh("https://git.example/x"), None);
    }

    #[test]
    fn nonsense_is_refused_without_its_secret() {
        for text in
            ["", "git://host/x", "https:///x", "https://user:hunter2@/x", "ssh://", "file://x", "a\nb", ":x"]
        {
            let error = RemoteUrl::parse(text).unwrap_err();
            assert!(matches!(error, SourceError::InvalidSource(_)), "{text}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn credentials_never_print() {
        let url = RemoteUrl::parse("https://robot:hunter%402@git.example/x?token=abcd").unwrap();
        for text in [url.to_string(), format!("{url:?}"), format!("{:?}", url.embedded())] {
            assert!(!text.contains("hunter") && !text.contains("abcd"), "{text}");
        }
        assert!(!url.for_transport().contains("hunter"));
        let Some(Credentials::Basic { username, secret }) = url.embedded() else { panic!("no credentials") };
        assert_eq!((username.as_str(), secret.expose()), ("robot", "hunter@2"));
    }
}
