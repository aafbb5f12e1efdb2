//! Taking credentials out of texts that others wrote: transport errors, proxy messages, URLs.

/// What stands where a credential was.
pub(crate) const MASK: &str = "***";

/// Secrets shorter than this would mask half of every sentence; a credential that short protects nothing.
const SHORTEST_SECRET: usize = 4;

/// Replaces credentials in `text`: the user information and the query of every URL, and each of `secrets` wherever
/// it stands, plain or percent-encoded.
pub(crate) fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let mut clean = scrub_urls(text);
    for secret in secrets {
        if secret.len() >= SHORTEST_SECRET {
            clean = clean.replace(secret, MASK);
            let encoded = percent_encode(secret);
            if encoded != secret {
                clean = clean.replace(&encoded, MASK);
            }
        }
    }
    clean
}

fn scrub_urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let scheme =
            before[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next().unwrap_or("");
        let end = after.find(ends_url).unwrap_or(after.len());
        let (url, tail) = after.split_at(end);
        let authority_end = url.find(['/', '?', '#']).unwrap_or(url.len());
        // An `@` past the authority may still belong to a password with a raw slash in it; mask up to the last one
        // unless the authority has none, where `@` in a path (`/@scope/`) is no secret.
        let user_end = url[..authority_end].rfind('@');
        let located = match user_end {
            Some(user_end) if scheme.ends_with("ssh") && !url[..user_end].contains(':') => url,
            Some(user_end) => {
                out.push_str(MASK);
                &url[user_end..]
            }
            None => url,
        };
        match located.split_once('?') {
            Some((place, _)) => {
                out.push_str(place);
                out.push('?');
                out.push_str(MASK);
            }
            None => out.push_str(located),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>' | '(' | ')' | '\\')
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Undoes percent-encoding; a broken escape stays as it is.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_and_queries_leave_every_url() {
        for (dirty, clean) in [
            ("https://user:pa55word@git.example/x.git", "https://***@git.example/x.git"),
            ("https://ghp_0123456789@git.example/x", "https://***@git.example/x"),
            (
                "failed: 'https://u:p@w@git.example/x' and more",
                "failed: 'https://***@git.example/x' and more",
            ),
            ("ssh://git@git.example/x", "ssh://git@git.example/x"),
            ("ssh://git:pw@git.example/x", "ssh://***@git.example/x"),
            ("git@git.example:org/x", "git@git.example:org/x"),
            ("https://git.example/x?private_token=abc failed", "https://git.example/x?*** failed"),
            ("http://a:b@p:1 https://c:d@q", "http://***@p:1 https://***@q"),
            ("https://git.example/@scope/x", "https://git.example/@scope/x"),
            ("no url here :// ok", "no url here :// ok"),
        ] {
            assert_eq!(scrub(dirty, []), clean);
        }
    }

    #[test]
    fn known_secrets_leave_plain_and_encoded() {
        assert_eq!(
            scrub("token s3cr/t! was refused (s3cr%2Ft%21)", ["s3cr/t!"]),
            "token *** was refused (***)"
        );
        assert_eq!(scrub("a short one stays", ["a"]), "a short one stays");
    }

    #[test]
    fn decoding_keeps_broken_escapes() {
        assert_eq!(percent_decode("a%2Fb%zz%4"), "a/b%zz%4");
        assert_eq!(percent_decode(&percent_encode("p@ss/wörd")), "p@ss/wörd");
    }
}
