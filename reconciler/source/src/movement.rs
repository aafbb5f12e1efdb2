//! How a reference moved between the commit in force and the one just fetched, and whether that is applied.

use git2::{Oid, Repository};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SourceError};
use crate::spec::Reference;

/// How a reference moved. Ids are full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "movement")]
pub enum Movement {
    /// Not at all.
    Unchanged,
    /// To a descendant: the ordinary case.
    FastForward {
        /// The commit in force.
        from: String,
        /// The commit fetched.
        to: String,
    },
    /// To a commit that does not descend from the one in force: a force push.
    Rewritten {
        /// The commit in force; it may no longer exist in the repository.
        from: String,
        /// The commit fetched.
        to: String,
    },
    /// To an ancestor: an older head. A stale replica or cache of the Git host looks exactly like this.
    Backwards {
        /// The commit in force.
        from: String,
        /// The commit fetched.
        to: String,
    },
}

impl Movement {
    /// Compares by ancestry. `from` may have vanished from the repository; `to` must be there.
    ///
    /// # Errors
    /// [`SourceError::Git`] when the history of `to` can't be read.
    pub(crate) fn between(repo: &Repository, from: &str, to: Oid) -> Result<Self> {
        let (base, to_text) = (Oid::from_str(from).ok(), to.to_string());
        if base == Some(to) {
            return Ok(Self::Unchanged);
        }
        let (from, to_id) = (from.to_owned(), to_text);
        // A commit that is nowhere in the mirror can't be an ancestor of one whose history is complete.
        let Some(base) = base.filter(|base| repo.find_commit(*base).is_ok()) else {
            return Ok(Self::Rewritten { from, to: to_id });
        };
        let doing = SourceError::git("comparing histories");
        if repo.graph_descendant_of(to, base).map_err(&doing)? {
            Ok(Self::FastForward { from, to: to_id })
        } else if repo.graph_descendant_of(base, to).map_err(&doing)? {
            Ok(Self::Backwards { from, to: to_id })
        } else {
            Ok(Self::Rewritten { from, to: to_id })
        }
    }

    /// The commit moved to; `None` when it did not move.
    #[must_use]
    pub fn to(&self) -> Option<&str> {
        match self {
            Self::Unchanged => None,
            Self::FastForward { to, .. } | Self::Rewritten { to, .. } | Self::Backwards { to, .. } => {
                Some(to)
            }
        }
    }
}

/// What to do when history was rewritten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RewritePolicy {
    /// Keep the commit in force until someone approves the new one.
    #[default]
    Hold,
    /// Go with the new history. An older head is still held: it is more often a stale answer than a decision.
    Follow,
}

/// Whether a movement is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The fetched commit comes into force.
    Apply,
    /// The commit in force stays.
    Hold,
}

/// Decides. `approved` is a commit someone said yes to, by its full id: the yes is for that commit, not for the next.
#[must_use]
pub fn admit(
    movement: &Movement,
    reference: &Reference,
    policy: RewritePolicy,
    approved: Option<&str>,
) -> Admission {
    // Whoever writes a commit's id into the source has decided already.
    if matches!(reference, Reference::Commit(_)) {
        return Admission::Apply;
    }
    match movement {
        Movement::Unchanged | Movement::FastForward { .. } => Admission::Apply,
        Movement::Rewritten { to, .. } if policy == RewritePolicy::Follow || approved == Some(to) => {
            Admission::Apply
        }
        Movement::Backwards { to, .. } if approved == Some(to) => Admission::Apply,
        Movement::Rewritten { .. } | Movement::Backwards { .. } => Admission::Hold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forward_moves_pass_without_a_yes() {
        let (from, to) = ("a".to_owned(), "b".to_owned());
        let forward = Movement::FastForward { from: from.clone(), to: to.clone() };
        let rewritten = Movement::Rewritten { from: from.clone(), to: to.clone() };
        let backwards = Movement::Backwards { from, to };
        let branch = Reference::default();
        use Admission::{Apply, Hold};
        use RewritePolicy as P;
        for (movement, policy, approved, expected) in [
            (&Movement::Unchanged, P::Hold, None, Apply),
            (&forward, P::Hold, None, Apply),
            (&rewritten, P::Hold, None, Hold),
            (&rewritten, P::Hold, Some("c"), Hold),
            (&rewritten, P::Hold, Some("b"), Apply),
            (&rewritten, P::Follow, None, Apply),
            (&backwards, P::Hold, None, Hold),
            (&backwards, P::Follow, None, Hold),
            (&backwards, P::Follow, Some("b"), Apply),
        ] {
            assert_eq!(
                admit(movement, &branch, policy, approved),
                expected,
                "{movement:?} {policy:?} {approved:?}"
            );
            assert_eq!(admit(movement, &Reference::Commit("b".into()), policy, approved), Apply);
        }
    }
}
