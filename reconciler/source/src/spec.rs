//! What is read: which repository, which reference, which folder, how often.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SourceError};
use crate::url::RemoteUrl;

/// Which commit of a repository is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reference {
    /// The head of a branch, by its short name; where there is none of that name, the tag.
    Branch(String),
    /// A tag, by its short name.
    Tag(String),
    /// One commit, by its full id. Never moves.
    Commit(String),
}

impl Reference {
    /// The name under which a server advertises the reference; a pinned commit has none.
    pub(crate) fn advertised(&self) -> Option<String> {
        match self {
            Self::Branch(name) => Some(format!("refs/heads/{name}")),
            Self::Tag(name) => Some(format!("refs/tags/{name}")),
            Self::Commit(_) => None,
        }
    }

    /// The tag of the same name, where a branch is asked for.
    pub(crate) fn as_tag(&self) -> Option<String> {
        match self {
            Self::Branch(name) => Some(format!("refs/tags/{name}")),
            Self::Tag(_) | Self::Commit(_) => None,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = || SourceError::InvalidSource(format!("{self} is not a name Git accepts"));
        match self.advertised() {
            Some(name) if git2::Reference::is_valid_name(&name) => Ok(()),
            Some(_) => Err(invalid()),
            None => match self {
                Self::Commit(id) if is_full_id(id) => Ok(()),
                Self::Commit(_) => Err(SourceError::InvalidSource(
                    "a commit is pinned by its full id of 40 hex digits".to_owned(),
                )),
                Self::Branch(_) | Self::Tag(_) => Err(invalid()),
            },
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Commit(id) => write!(f, "commit {id}"),
        }
    }
}

/// A source: what a fleet's desired state is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The repository.
    pub url: RemoteUrl,
    /// Branch, tag or commit.
    pub reference: Reference,
    /// The folder with the fleet's documents, relative to the repository's root; empty is the root.
    pub path: String,
    /// How long after a look that found nothing wrong the next one comes without a wake-up.
    pub poll: Duration,
}

impl SourceSpec {
    /// Parses and checks a source.
    ///
    /// # Errors
    /// [`SourceError::InvalidSource`] when the address, the reference or the path can't mean anything.
    pub fn new(url: &str, reference: Reference, path: &str, poll: Duration) -> Result<Self> {
        reference.validate()?;
        Ok(Self { url: RemoteUrl::parse(url)?, reference, path: repository_path(path)?, poll })
    }

    /// A name for this (repository, reference) that is one component of a ref name. Another repository or reference
    /// starts a history of its own.
    pub(crate) fn key(&self) -> String {
        let (kind, name) = match &self.reference {
            Reference::Branch(name) => ("branch", name),
            Reference::Tag(name) => ("tag", name),
            Reference::Commit(id) => ("commit", id),
        };
        // A slash would make `main` and `main/x` a file and a folder of the same name.
        format!("{kind}-{:016x}-{}", fnv1a(self.url.to_string().as_bytes()), name.replace('/', "%2F"))
    }
}

/// The name `git init` and the large hosts give the first branch.
impl Default for Reference {
    fn default() -> Self {
        Self::Branch("main".to_owned())
    }
}

/// A path inside a repository: parts joined by `/`, none of them empty, `..` or `.git`. `.` and empty are the root.
pub(crate) fn repository_path(text: &str) -> Result<String> {
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            part if part == ".." || part.eq_ignore_ascii_case(".git") || part.contains(['\\', '\0']) => {
                return Err(SourceError::InvalidSource(format!(
                    "{text:?} is not a path inside a repository"
                )));
            }
            part => parts.push(part),
        }
    }
    if text.starts_with('/') {
        return Err(SourceError::InvalidSource(format!(
            "{text:?} must be relative to the repository's root"
        )));
    }
    Ok(parts.join("/"))
}

pub(crate) fn is_full_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// FNV-1a, 64 bits: short, stable between versions, and nothing here needs to withstand an attacker.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn paths_stay_inside_the_repository() {
        for (text, clean) in [("", ""), (".", ""), ("fleet/", "fleet"), ("./a//b", "a/b"), ("a/./b", "a/b")] {
            assert_eq!(repository_path(text).unwrap(), clean);
        }
        for text in ["..", "a/../b", "/etc", "a/.git/hooks", ".GIT", "a\\b"] {
            assert!(repository_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn references_are_checked_at_the_edge() {
        let spec = |reference| SourceSpec::new("/srv/fleet", reference, "", Duration::from_secs(60));
        assert!(spec(Reference::Branch("feature/x".into())).is_ok());
        assert!(spec(Reference::Branch("a..b".into())).is_err());
        assert!(spec(Reference::Tag("".into())).is_err());
        assert!(spec(Reference::Commit("0123456".into())).is_err());
        assert!(spec(Reference::Commit("0".repeat(40))).is_ok());
    }

    #[test]
    fn keys_tell_sources_apart_and_are_ref_components() {
        let key = |url: &str, reference| SourceSpec::new(url, reference, "", Duration::ZERO).unwrap().key();
        let branch = key("/srv/a", Reference::Branch("x/y".into()));
        assert!(git2::Reference::is_valid_name(&format!("refs/drydock/accepted/{branch}")));
        assert!(!branch.contains('/'));
        assert_ne!(branch, key("/srv/b", Reference::Branch("x/y".into())));
        assert_ne!(branch, key("/srv/a", Reference::Tag("x/y".into())));
        // A rotated token is the same repository.
        assert_eq!(
            key("https://a:b@git.example/x", Reference::default()),
            key("https://c:d@git.example/x", Reference::default())
        );
    }
}
