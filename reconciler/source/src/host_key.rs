//! Checking an SSH server's key against known hosts. There is no trust on first use: a key nobody vouched for is
//! refused, and a changed key is an error of its own.

use crate::error::{Result, SourceError};

/// Known host keys, in the format of a `known_hosts` file with plain host names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    patterns: Vec<String>,
    key_type: String,
    key: String,
    revoked: bool,
}

/// A key as a server shows it.
pub(crate) struct Shown<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) key_type: &'a str,
    pub(crate) key: &'a [u8],
    pub(crate) sha256: Option<&'a [u8; 32]>,
}

impl KnownHosts {
    /// Parses the text of a `known_hosts` file. Comments and empty lines are skipped; `@revoked` is honoured.
    ///
    /// # Errors
    /// [`SourceError::InvalidSource`] with the line's number for a line that can't be read, for hashed host names
    /// (write the name instead: it is no secret here) and for certificate authorities.
    pub fn parse(text: &str) -> Result<Self> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid =
                |why: &str| SourceError::InvalidSource(format!("known hosts, line {}: {why}", number + 1));
            let mut words = line.split_whitespace().peekable();
            let revoked = words.next_if_eq(&"@revoked").is_some();
            let (Some(hosts), Some(key_type), Some(key)) = (words.next(), words.next(), words.next()) else {
                return Err(invalid("expected host, key type and key"));
            };
            if hosts.starts_with('@') {
                return Err(invalid("certificate authorities are not supported"));
            }
            if hosts.starts_with('|') {
                return Err(invalid("hashed host names are not supported; write the host's name"));
            }
            entries.push(Entry {
                patterns: hosts.split(',').map(str::to_ascii_lowercase).collect(),
                key_type: key_type.to_owned(),
                key: key.trim_end_matches('=').to_owned(),
                revoked,
            });
        }
        Ok(Self { entries })
    }

    /// Accepts the key or says why not.
    pub(crate) fn check(&self, shown: &Shown<'_>) -> Result<()> {
        let key = base64(shown.key);
        let of_host: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.covers(shown.host, shown.port)).collect();
        let changed = || SourceError::HostKeyChanged {
            host: shown.host.to_owned(),
            key_type: shown.key_type.to_owned(),
            fingerprint: shown.fingerprint(),
        };
        if of_host.iter().any(|entry| entry.revoked && entry.key == key) {
            return Err(changed());
        }
        let mut same_type =
            of_host.iter().filter(|entry| !entry.revoked && entry.key_type == shown.key_type).peekable();
        if same_type.peek().is_none() {
            return Err(SourceError::HostKeyUnknown {
                host: shown.host.to_owned(),
                key_type: shown.key_type.to_owned(),
                fingerprint: shown.fingerprint(),
            });
        }
        if same_type.any(|entry| entry.key == key) { Ok(()) } else { Err(changed()) }
    }
}

impl Entry {
    /// Whether the line is about this host: no negated pattern matches and at least one plain one does.
    fn covers(&self, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        let name = if port == 22 { host } else { format!("[{host}]:{port}") };
        let negated = self.patterns.iter().filter_map(|p| p.strip_prefix('!')).any(|p| matches(p, &name));
        !negated && self.patterns.iter().any(|p| matches(p, &name))
    }
}

impl Shown<'_> {
    /// As OpenSSH prints it, for comparing with what the Git host publishes.
    pub(crate) fn fingerprint(&self) -> String {
        self.sha256
            .map_or_else(|| "of unknown fingerprint".to_owned(), |hash| format!("SHA256:{}", base64(hash)))
    }
}

/// `*` and `?` as in known_hosts patterns.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n + 1));
                p += 1;
            }
            Some(&c) if c == b'?' || Some(&c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            Some(_) | None => {
                let Some((star, from)) = retry else { return false };
                p = star;
                n = from;
                retry = Some((star, from + 1));
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == b'*'))
}

/// Standard alphabet, without padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for sextet in 0..=chunk.len() {
            let index = (word >> (18 - 6 * sextet)) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn check(
        hosts: &str,
        host: &str,
        port: u16,
        key_type: &str,
        key: &[u8],
    ) -> std::result::Result<(), ErrorKind> {
        let sha256 = [7; 32];
        KnownHosts::parse(hosts)
            .unwrap()
            .check(&Shown { host, port, key_type, key, sha256: Some(&sha256) })
            .map_err(|error| error.kind())
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (plain, coded) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("\u{3ff}~", "z79+")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn known_changed_unknown_and_revoked_differ() {
        let hosts = "# keys\n\ngit.example,10.0.0.1 ssh-ed25519 Zm9v comment\n[git.example]:2222 ssh-rsa YmFy\n\
                     *.corp,!bad.corp ssh-rsa YmFy\n@revoked git.example ssh-rsa YmF6\n";
        assert_eq!(check(hosts, "git.example", 22, "ssh-ed25519", b"foo"), Ok(()));
        assert_eq!(check(hosts, "GIT.example", 22, "ssh-ed25519", b"foo"), Ok(()));
        assert_eq!(check(hosts, "10.0.0.1", 22, "ssh-ed25519", b"foo"), Ok(()));
        assert_eq!(check(hosts, "git.example", 22, "ssh-ed25519", b"bar"), Err(ErrorKind::HostKeyChanged));
        assert_eq!(
            check(hosts, "git.example", 22, "ecdsa-sha2-nistp256", b"x"),
            Err(ErrorKind::HostKeyUnknown)
        );
        assert_eq!(check(hosts, "git.example", 22, "ssh-rsa", b"baz"), Err(ErrorKind::HostKeyChanged));
        assert_eq!(check(hosts, "git.example", 2222, "ssh-rsa", b"bar"), Ok(()));
        assert_eq!(check(hosts, "git.example", 2223, "ssh-rsa", b"bar"), Err(ErrorKind::HostKeyUnknown));
        assert_eq!(check(hosts, "a.corp", 22, "ssh-rsa", b"bar"), Ok(()));
        assert_eq!(check(hosts, "bad.corp", 22, "ssh-rsa", b"bar"), Err(ErrorKind::HostKeyUnknown));
        assert_eq!(check("", "git.example", 22, "ssh-rsa", b"bar"), Err(ErrorKind::HostKeyUnknown));
    }

    #[test]
    fn the_changed_key_is_shown_by_fingerprint() {
        let sha256 = [0; 32];
        let shown = Shown { host: "h", port: 22, key_type: "ssh-rsa", key: b"new", sha256: Some(&sha256) };
        let error = KnownHosts::parse("h ssh-rsa b2xk").unwrap().check(&shown).unwrap_err().to_string();
        assert!(error.contains(&format!("SHA256:{}", "A".repeat(43))), "{error}");
    }

    #[test]
    fn lines_that_cannot_be_honoured_are_refused() {
        for text in ["git.example ssh-rsa", "|1|aaaa|bbbb ssh-rsa Zm9v", "@cert-authority *.x ssh-rsa Zm9v"] {
            assert!(KnownHosts::parse(text).unwrap_err().to_string().contains("line 1"), "{text}");
        }
    }

    #[test]
    fn patterns_match_like_a_naive_oracle() {
        fn naive(p: &[u8], n: &[u8]) -> bool {
            match (p.first(), n.first()) {
                (None, None) => true,
                (Some(b'*'), _) => naive(&p[1..], n) || (!n.is_empty() && naive(p, &n[1..])),
                (Some(b'?'), Some(_)) => naive(&p[1..], &n[1..]),
                (Some(a), Some(b)) if a == b => naive(&p[1..], &n[1..]),
                _ => false,
            }
        }
        // Every pattern and name of up to four letters over a small alphabet.
        let words = |letters: &[u8]| {
            let mut all = vec![Vec::new()];
            for _ in 0..4 {
                let longer: Vec<Vec<u8>> = all
                    .iter()
                    .flat_map(|w| letters.iter().map(move |l| [w.as_slice(), &[*l]].concat()))
                    .collect();
                all.extend(longer);
            }
            all.sort();
            all.dedup();
            all
        };
        for pattern in words(b"a*?b") {
            for name in words(b"ab") {
                let (p, n) = (std::str::from_utf8(&pattern).unwrap(), std::str::from_utf8(&name).unwrap());
                assert_eq!(matches(p, n), naive(&pattern, &name), "{p} {n}");
            }
        }
    }
}
