//! Telling files of documents from other people's, without reading a document: by a text that each of them has to hold.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Whether the bytes hold one of the marks, in any encoding that writes ASCII characters with zeros between them.
pub(crate) fn holds(bytes: &[u8], marks: &BTreeSet<String>) -> bool {
    let bytes = without_zeros(bytes);
    marks.iter().any(|mark| find(&bytes, mark.as_bytes()))
}

/// Whether a file that isn't read, since its name is another, says that it is a document: a mark in a line that begins
/// with `apiVersion`, which is indented only where the file is JSON.
pub(crate) fn declares(bytes: &[u8], marks: &BTreeSet<String>) -> bool {
    let bytes = without_zeros(bytes);
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let json = matches!(start, Some(b'{' | b'['));
    bytes.split(|&byte| byte == b'\n').any(|line| {
        // The first line may begin with a byte order mark.
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let line = line.strip_prefix(b"- ").unwrap_or(line);
        let begins = if json {
            find(line, b"\"apiVersion\"")
        } else {
            line.starts_with(b"apiVersion") || line.starts_with(b"\"apiVersion\"")
        };
        begins && marks.iter().any(|mark| find(line, mark.as_bytes()))
    })
}

fn find(bytes: &[u8], mark: &[u8]) -> bool {
    let Some(&first) = mark.first() else { return false };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        if rest[at..].starts_with(mark) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

fn without_zeros(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.contains(&0) {
        Cow::Owned(bytes.iter().copied().filter(|&byte| byte != 0).collect())
    } else {
        Cow::Borrowed(bytes)
    }
}

/// A name that somebody may have given to a document by mistake: `a.yaml.txt`, `a.YAML`, `a.json`, `.a.yaml`, `a.yaml~`,
/// `a.yaml.gz`, or a name without an ending.
pub(crate) fn is_near(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    const ENDINGS: [&str; 8] = [".json", ".txt", ".yam", ".yalm", ".yaml5", ".ymal", ".yml5", ".jsonl"];
    lower.contains(".yaml")
        || lower.contains(".yml")
        || ENDINGS.iter().any(|ending| lower.ends_with(ending))
        || !lower.trim_start_matches('.').contains('.')
}

/// A name that says what its bytes hold, wrapped into something: `a.yaml.gz`, `a.yaml.age`.
pub(crate) fn is_wrapped(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains(".yaml.") || lower.contains(".yml.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> BTreeSet<String> {
        BTreeSet::from(["drydock.dev/".to_owned()])
    }

    #[test]
    fn marks_are_found_in_wide_characters() {
        let text = "# x\napiVersion: drydock.dev/v1alpha1\nkind: Calendar\n";
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [text.as_bytes(), &wide, &big] {
            assert!(holds(bytes, &marks()) && declares(bytes, &marks()));
        }
        assert!(!holds(b"drydock.de/", &marks()));
        assert!(holds(b"see ddrydock.dev/ for more", &marks()));
    }

    #[test]
    fn a_mention_is_no_declaration() {
        for (text, declared) in [
            ("apiVersion: drydock.dev/v1alpha1", true),
            ("---\n- apiVersion: drydock.dev/v1alpha1", true),
            ("{\n  \"apiVersion\": \"drydock.dev/v1alpha1\"}", true),
            ("Write:\n\n    apiVersion: drydock.dev/v1alpha1\n", false),
            ("see drydock.dev/ and apiVersion", false),
        ] {
            assert_eq!(declares(text.as_bytes(), &marks()), declared, "{text}");
        }
    }

    #[test]
    fn names() {
        for (name, near) in [
            ("a.yaml.txt", true),
            ("a.YAML", true),
            ("a.json", true),
            (".a.yaml", true),
            ("a.yaml~", true),
            ("calendar", true),
            ("README.md", false),
            ("main.rs", false),
        ] {
            assert_eq!(is_near(name), near, "{name}");
        }
        assert!(is_wrapped("a.yaml.gz") && !is_wrapped("a.yaml"));
    }
}
