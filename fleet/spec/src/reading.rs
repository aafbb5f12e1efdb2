//! What a file is, by a look at its bytes: text that may hold documents, or why it can't be read.

use std::{borrow::Cow, fmt};

use crate::{
    document::Kind,
    fleet::API_VERSION,
    source::{self, tree::Problem},
    suggest,
};

/// Largest file, in bytes.
pub const FILE_SIZE_MAX: usize = 1 << 20;

/// Why a file with the name of a document wasn't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// It is larger than [`FILE_SIZE_MAX`].
    TooLarge,
    /// A pointer to a file in Git LFS.
    LfsPointer,
    /// Text in another encoding than UTF-8.
    Encoding(&'static str),
    /// Encrypted in place by this tool.
    Encrypted(&'static str),
    /// Compressed by this tool.
    Compressed(&'static str),
    /// No text at all.
    Binary,
    /// Text, but not YAML.
    NotYaml,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the file has more than {FILE_SIZE_MAX} bytes"),
            Self::LfsPointer => f.write_str("a Git LFS pointer stands where a file is expected"),
            Self::Encoding(what) => write!(f, "the file is {what}, not UTF-8 text"),
            Self::Encrypted(tool) => write!(f, "the file is encrypted with {tool}"),
            Self::Compressed(tool) => write!(f, "the file is compressed with {tool}"),
            Self::Binary => f.write_str("the file is binary, not UTF-8 text"),
            Self::NotYaml => f.write_str("the file isn't YAML"),
        }
    }
}

impl Unread {
    /// What to do about it, where that is the same for everybody.
    pub(crate) const fn hint(self) -> &'static str {
        match self {
            Self::TooLarge => "split it into several files",
            Self::LfsPointer => "take YAML files out of .gitattributes, or fetch the objects first",
            Self::Encoding(_) => "save it as UTF-8",
            Self::Encrypted(_) => {
                "documents hold no secrets: commit it as plain text, and name Secrets in it"
            }
            Self::Compressed(_) => "commit it unpacked",
            Self::Binary => "commit it as UTF-8 text",
            Self::NotYaml => "mend it, or rename it if it isn't meant to be YAML",
        }
    }
}

/// What a look at the bytes finds.
#[derive(Debug)]
pub(crate) enum Look<'f> {
    /// Text; whether it may hold documents is another question.
    Text(&'f str),
    /// It can't be read, and it holds documents as far as can be told.
    Ours(Unread, usize),
    /// It can't be read, and what is in it can't be told.
    Unknown(Unread),
    /// It can't be read, and holds nothing of drydock's.
    Foreign(Unread),
}

/// Looks.
pub(crate) fn look(bytes: &[u8]) -> Look<'_> {
    if bytes.len() > FILE_SIZE_MAX {
        // Too large to be one of ours unless it says so at its start.
        let ours = mentions_us(&without_zeros(&bytes[..FILE_SIZE_MAX]));
        return if ours { Look::Ours(Unread::TooLarge, 1) } else { Look::Foreign(Unread::TooLarge) };
    }
    if bytes.starts_with(b"version https://git-lfs.github.com/") {
        return Look::Ours(Unread::LfsPointer, 1);
    }
    if let Some(sealed) = sealed(bytes) {
        return Look::Unknown(sealed);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Ok(_) => return unreadable(bytes, 1),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            return unreadable(bytes, before.iter().filter(|&&b| b == b'\n').count() + 1);
        }
    };
    match is_sops(text) {
        Some(true) => Look::Ours(Unread::Encrypted("sops"), 1),
        Some(false) => Look::Unknown(Unread::Encrypted("sops")),
        None => Look::Text(text),
    }
}

/// What tools write at the start of a file that they seal.
fn sealed(bytes: &[u8]) -> Option<Unread> {
    const ENCRYPTED: [(&[u8], &str); 5] = [
        (b"\0GITCRYPT\0", "git-crypt"),
        (b"$ANSIBLE_VAULT;", "ansible-vault"),
        (b"age-encryption.org/v1", "age"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----", "age"),
        (b"-----BEGIN PGP MESSAGE-----", "PGP"),
    ];
    const COMPRESSED: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh", "bzip2"),
        (b"PK\x03\x04", "zip"),
    ];
    let encrypted = ENCRYPTED.iter().find(|(start, _)| bytes.starts_with(start));
    encrypted.map(|(_, tool)| Unread::Encrypted(tool)).or_else(|| {
        COMPRESSED
            .iter()
            .find(|(start, _)| bytes.starts_with(start))
            .map(|(_, tool)| Unread::Compressed(tool))
    })
}

/// Not UTF-8 text from this line on.
fn unreadable(bytes: &[u8], line: usize) -> Look<'_> {
    let text = without_zeros(bytes);
    let zeros = bytes.len() - text.len();
    // Characters of two or four bytes: most of a file of plain letters is zeros then.
    let wide = match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        _ if zeros * 10 > bytes.len() * 7 => Some("UTF-32"),
        _ if zeros * 10 > bytes.len() * 4 => Some("UTF-16"),
        _ => None,
    };
    let ours = mentions_us(&text) || calls_us(&String::from_utf8_lossy(&text));
    match (wide, ours) {
        (Some(what), true) => Look::Ours(Unread::Encoding(what), 1),
        (Some(what), false) => Look::Foreign(Unread::Encoding(what)),
        (None, true) if zeros > 0 => Look::Ours(Unread::Binary, line),
        (None, true) => Look::Ours(Unread::Encoding("text in an old encoding"), line),
        (None, false) if zeros == 0 && mostly_text(bytes) => {
            Look::Foreign(Unread::Encoding("text in an old encoding"))
        }
        // What is in it can't be told: it may be a document that somebody has encrypted.
        (None, false) => Look::Unknown(Unread::Binary),
    }
}

/// Letters with accents in an encoding of one byte are few.
fn mostly_text(bytes: &[u8]) -> bool {
    let odd =
        bytes.iter().filter(|&&byte| byte >= 0x80 || byte < 0x20 && !byte.is_ascii_whitespace()).count();
    odd * 5 < bytes.len()
}

fn without_zeros(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.contains(&0) {
        Cow::Owned(bytes.iter().copied().filter(|&byte| byte != 0).collect())
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Whether sops has encrypted a file in place; then, whether what it left readable says that it is drydock's. Files of
/// others that are encrypted in parts say whose they are, and are nobody's business here.
fn is_sops(text: &str) -> Option<bool> {
    let own_field = |line: &str| line.starts_with("sops:") || line.starts_with("\"sops\":");
    if !text.contains("ENC[AES256_GCM") || !text.lines().any(own_field) {
        return None;
    }
    let mut versions = api_versions(text).peekable();
    if versions.peek().is_some() && versions.clone().all(|v| !v.starts_with("ENC[") && !is_ours(v)) {
        return None;
    }
    Some(versions.any(is_ours))
}

fn is_ours(api_version: &str) -> bool {
    api_version.split('/').next() == API_VERSION.split('/').next()
}

/// The values of all lines that begin with `apiVersion`.
fn api_versions(text: &str) -> impl Iterator<Item = &str> + Clone {
    values(text, "apiVersion")
}

fn values<'t>(text: &'t str, key: &'static str) -> impl Iterator<Item = &'t str> + Clone {
    text.lines().filter_map(move |line| {
        let line = line.trim_start_matches(['-', ' ', '"', '\'', '{']);
        let rest = line.strip_prefix(key)?.trim_start_matches(['"', '\'', ' ']);
        let value = rest.strip_prefix(':')?.trim_start_matches([' ', '"', '\'']);
        Some(value.split(['"', '\'', ' ', ',', '}', '#']).next().unwrap_or(""))
    })
}

/// Whether a file may hold a document of drydock, by a look at its bytes: it spares parsing charts and workflows.
pub(crate) fn mentions_us(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [
        b"drydock.dev/",
        b"GpuNodePool",
        b"PartitionLayout",
        b"RolloutPolicy",
        b"CheckSuite",
        b"RolloutControl",
        b"CostBudget",
    ];
    // All of them are rare, and so are their first letters after a line's start; a scan by first byte is enough.
    bytes.iter().enumerate().any(|(at, &byte)| {
        matches!(byte, b'd' | b'G' | b'P' | b'R' | b'C')
            && WORDS.iter().any(|word| bytes[at..].starts_with(word))
    })
}

/// Whether a text claims to be drydock's in other words than the right ones: an `apiVersion` with a slip, or one of
/// drydock's kinds without any.
pub(crate) fn calls_us(text: &str) -> bool {
    let mut versions = api_versions(text).peekable();
    if versions.peek().is_none() {
        return values(text, "kind").any(|kind| kind.parse::<Kind>().is_ok());
    }
    versions.any(is_near)
}

/// Drydock's group, or one with a slip of the hand.
pub(crate) fn is_near(api_version: &str) -> bool {
    let group = api_version.split('/').next().unwrap_or("");
    let ours = API_VERSION.split('/').next().unwrap_or("");
    suggest::nearest(group, [ours]).is_some()
}

/// What keeps a text from being YAML.
pub(crate) fn not_yaml(text: &str) -> Option<Problem> {
    source::parse(text).fatal
}

/// Why the file can't be read, whoever's it is. A file in force that has become one of these hasn't lost its documents:
/// they can't be read.
#[must_use]
pub fn unread(bytes: &[u8]) -> Option<Unread> {
    match look(bytes) {
        Look::Text(text) => not_yaml(text).map(|_| Unread::NotYaml),
        Look::Ours(why, _) | Look::Unknown(why) | Look::Foreign(why) => Some(why),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    const TEXT: &str = "apiVersion: drydock.dev/v1alpha1\nkind: Calendar\nmetadata: {name: n}\n";

    fn utf16(text: &str, mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        mark.into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    }

    fn ours(bytes: &[u8]) -> Option<Unread> {
        match look(bytes) {
            Look::Ours(why, _) => Some(why),
            Look::Text(_) | Look::Unknown(_) | Look::Foreign(_) => None,
        }
    }

    #[test]
    fn wide_characters_are_told_with_and_without_a_mark() {
        let big: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let four: Vec<u8> = TEXT.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        for (bytes, what) in
            [(utf16(TEXT, true), "UTF-16"), (utf16(TEXT, false), "UTF-16"), (big, "UTF-16"), (four, "UTF-32")]
        {
            assert_eq!(ours(&bytes), Some(Unread::Encoding(what)));
        }
        let foreign = utf16("kind: ConfigMap\napiVersion: v1\n", true);
        assert!(matches!(look(&foreign), Look::Foreign(Unread::Encoding("UTF-16"))));
    }

    #[test]
    fn old_encodings_and_slips_are_ours() {
        let latin = [TEXT.as_bytes(), b"# Z\xfcrich\n"].concat();
        assert_eq!(ours(&latin), Some(Unread::Encoding("text in an old encoding")));
        let foreign = b"kind: ConfigMap\napiVersion: v1\ndata: {a: Z\xfcrich}\n";
        assert!(matches!(look(foreign), Look::Foreign(_)));
        assert!(calls_us("apiVersion: drydok.dev/v1alpha1\nkind: Calendar\n"));
        assert!(calls_us("kind: Calendar\nspec: {}\n"));
        assert!(!calls_us("apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\n"));
    }

    #[test]
    fn sealed_files_are_unknown_unless_they_say_whose_they_are() {
        for (bytes, why) in [
            (&b"\0GITCRYPT\0\x01\x02"[..], Unread::Encrypted("git-crypt")),
            (b"$ANSIBLE_VAULT;1.1;AES256\n6162", Unread::Encrypted("ansible-vault")),
            (b"age-encryption.org/v1\n-> X25519", Unread::Encrypted("age")),
            (b"\x1f\x8b\x08\0\0", Unread::Compressed("gzip")),
            (b"\x80\x81\x82\0\0\xff\xfe", Unread::Binary),
        ] {
            assert!(matches!(look(bytes), Look::Unknown(found) if found == why), "{why}: {:?}", look(bytes));
        }
        let sops =
            |api: &str| format!("apiVersion: {api}\nspec: ENC[AES256_GCM,data:x]\nsops:\n    mac: y\n");
        assert_eq!(ours(sops("drydock.dev/v1alpha1").as_bytes()), Some(Unread::Encrypted("sops")));
        let all = sops("ENC[AES256_GCM,data:z]");
        assert!(matches!(look(all.as_bytes()), Look::Unknown(Unread::Encrypted("sops"))));
        assert!(matches!(look(sops("v1").as_bytes()), Look::Text(_)), "somebody's Secret");
    }
}
