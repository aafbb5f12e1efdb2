//! What a connection needs from us (credentials, the host key's verdict, limits) and what its failures mean.

use std::cell::{Cell, RefCell};

use git2::{
    CertificateCheckStatus, Cred, CredentialType, ErrorClass, ErrorCode, RemoteCallbacks, cert::Cert,
};

use crate::access::{Access, Credentials, Secret};
use crate::error::SourceError;
use crate::host_key::Shown;
use crate::runner::Cancel;
use crate::scrub::scrub;
use crate::url::RemoteUrl;

/// The largest download, in bytes. A fleet repository is small; one that is not has been pointed at the wrong place.
const LARGEST_DOWNLOAD: u64 = 4 << 30;

/// The longest text of a transport error that is kept.
const LONGEST_TEXT: usize = 2048;

/// One connection to a repository.
pub(crate) struct Dial<'a> {
    url: &'a RemoteUrl,
    access: &'a Access,
    cancel: &'a Cancel,
    /// What a callback decided; libgit2 passes on only that it failed.
    verdict: RefCell<Option<SourceError>>,
    offered: Cell<bool>,
}

impl<'a> Dial<'a> {
    pub(crate) fn new(url: &'a RemoteUrl, access: &'a Access, cancel: &'a Cancel) -> Self {
        Self { url, access, cancel, verdict: RefCell::new(None), offered: Cell::new(false) }
    }

    /// Callbacks for one use; connecting and downloading each need their own.
    pub(crate) fn callbacks(&'a self) -> RemoteCallbacks<'a> {
        let mut callbacks = RemoteCallbacks::new();
        self.offered.set(false);
        callbacks.credentials(|_, user, allowed| self.credential(user, allowed));
        callbacks.certificate_check(|cert, host| self.check_host(cert, host));
        callbacks.sideband_progress(|_| !self.cancel.is_cancelled());
        callbacks.transfer_progress(|progress| {
            if progress.received_bytes() as u64 > LARGEST_DOWNLOAD {
                self.decide(SourceError::TooLarge { what: "download", limit: LARGEST_DOWNLOAD });
                return false;
            }
            !self.cancel.is_cancelled()
        });
        callbacks
    }

    fn decide(&self, error: SourceError) -> git2::Error {
        let text = error.to_string();
        *self.verdict.borrow_mut() = Some(error);
        git2::Error::new(ErrorCode::User, ErrorClass::Callback, text)
    }

    fn credentials(&self) -> &Credentials {
        self.url.embedded().unwrap_or(&self.access.credentials)
    }

    fn credential(
        &self,
        user: Option<&str>,
        allowed: CredentialType,
    ) -> std::result::Result<Cred, git2::Error> {
        let credentials = self.credentials();
        // SSH asks for the name alone first when the address has none.
        if allowed.contains(CredentialType::USERNAME) {
            return Cred::username(match credentials {
                Credentials::Anonymous => user.unwrap_or("git"),
                Credentials::Basic { username, .. }
                | Credentials::SshKey { username, .. }
                | Credentials::SshAgent { username } => username,
            });
        }
        let refuse = |text: &str| {
            let url = self.url.to_string();
            Err(self.decide(SourceError::Auth { url, text: text.to_owned() }))
        };
        // Being asked again means refused; offering the same once more would end in a lock-out.
        if self.offered.replace(true) {
            return refuse("they were offered and not accepted");
        }
        match credentials {
            Credentials::Basic { username, secret }
                if allowed.contains(CredentialType::USER_PASS_PLAINTEXT) =>
            {
                Cred::userpass_plaintext(username, secret.expose())
            }
            Credentials::SshKey { username, private_key, passphrase }
                if allowed.intersects(CredentialType::SSH_KEY | CredentialType::SSH_MEMORY) =>
            {
                let passphrase = passphrase.as_ref().map(Secret::expose);
                Cred::ssh_key_from_memory(user.unwrap_or(username), None, private_key.expose(), passphrase)
            }
            Credentials::SshAgent { username } if allowed.contains(CredentialType::SSH_KEY) => {
                Cred::ssh_key_from_agent(user.unwrap_or(username))
            }
            Credentials::Anonymous => refuse("it asks for credentials and none are configured"),
            Credentials::Basic { .. } | Credentials::SshKey { .. } | Credentials::SshAgent { .. } => {
                refuse("it does not take this kind of credentials")
            }
        }
    }

    fn check_host(
        &self,
        cert: &Cert<'_>,
        host: &str,
    ) -> std::result::Result<CertificateCheckStatus, git2::Error> {
        // HTTPS certificates are judged by the TLS library.
        let (Some(key), Some(known)) = (cert.as_hostkey(), self.access.known_hosts.as_ref()) else {
            return Ok(CertificateCheckStatus::CertificatePassthrough);
        };
        let (name, port) = self.url.ssh_host().unwrap_or((host, 22));
        let shown = Shown {
            host: name,
            port,
            key_type: key.hostkey_type().map_or("unknown", |kind| kind.name()),
            key: key.hostkey().unwrap_or_default(),
            sha256: key.hash_sha256(),
        };
        match known.check(&shown) {
            Ok(()) => Ok(CertificateCheckStatus::CertificateOk),
            Err(error) => Err(self.decide(error)),
        }
    }

    /// The meaning of a failure while connecting or downloading.
    pub(crate) fn explain(&self, error: &git2::Error) -> SourceError {
        if let Some(verdict) = self.verdict.borrow_mut().take() {
            return verdict;
        }
        let url = self.url.to_string();
        let text = self.clean(error.message());
        match (error.code(), error.class()) {
            (ErrorCode::Auth, _) => SourceError::Auth { url, text },
            (ErrorCode::Certificate, _) => match self.url.ssh_host() {
                Some((host, _)) => SourceError::HostKeyUnknown {
                    host: host.to_owned(),
                    key_type: "SSH".to_owned(),
                    fingerprint: format!("({text})"),
                },
                None => SourceError::Certificate { url, text },
            },
            (_, ErrorClass::Http) if ["401", "403"].iter().any(|status| text.ends_with(status)) => {
                SourceError::Auth { url, text }
            }
            (_, ErrorClass::Ssh) if text.to_ascii_lowercase().contains("authenticat") => {
                SourceError::Auth { url, text }
            }
            // A local folder that is missing or no repository fails as `Os` or `Repository`.
            (
                _,
                ErrorClass::Http
                | ErrorClass::Ssh
                | ErrorClass::Ssl
                | ErrorClass::Net
                | ErrorClass::Os
                | ErrorClass::Repository,
            ) => SourceError::Unreachable { url, text },
            _ => SourceError::Git { doing: "fetching", text },
        }
    }

    fn clean(&self, text: &str) -> String {
        let mut clean = scrub(text, self.credentials().secrets());
        clean.truncate(clean.floor_char_boundary(LONGEST_TEXT));
        clean
    }
}

/// The credentials of the configured access, for callers that must keep them out of their own texts.
impl Access {
    /// Removes these credentials from a text.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        scrub(text, self.credentials.secrets())
    }
}
