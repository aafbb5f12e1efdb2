//! Which Job a run of a check is.
//!
//! The name says it all: the check, its try, its run, its nodes, and the node and generation of the intent that makes
//! the Job. After a restart the Job of the same intent is found by it and its result is read; nothing runs twice.
//!
//! A run on a node alone, or on a pair, belongs to one intent: a partner is a node that serves, and knows nothing of it.
//! A run on a group serves the intents of all its nodes. Generations are counted for each node alone, so its nodes can't
//! agree on one; they find the Job by a label that has none ([`drydock_api::names::CHECK_GROUP`]), and don't take one
//! that had ended when their own intent began.

use drydock_plan::{CheckOrder, NodeId};
use drydock_spec::CheckOn;
use sha2::{Digest as _, Sha256};

use crate::ensure::View;

/// Bytes of a digest that names carry: 40 bits keep the few hundred Jobs of a cluster apart.
const DIGEST_BYTES: usize = 5;
/// Longest value of a label.
const LABEL_MAX: usize = 63;

/// A run of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Its number, from 0.
    pub(super) number: u32,
    /// Names it in what an intent remembers.
    pub(super) key: String,
    /// Name of the Job that this node makes for it. With the suffixes of pods it stays below 63 characters.
    pub(super) job: String,
    /// Value of the label by which the nodes of a group find it.
    pub(super) group: Option<String>,
    /// Nodes that take part and are in this cluster, sorted. Never empty.
    pub(super) nodes: Vec<NodeId>,
}

impl Run {
    pub(super) fn of(view: &View<'_>, order: &CheckOrder, number: u32) -> Self {
        let here = |id: &&NodeId| id.cluster() == view.cluster.as_str();
        let mut nodes: Vec<NodeId> = order.nodes.iter().filter(here).cloned().collect();
        if !nodes.contains(&view.action.node) {
            nodes.push(view.action.node.clone());
        }
        nodes.sort_unstable();
        nodes.dedup();
        let (attempt, number_text) = (order.attempt.to_string(), number.to_string());
        let mut what = vec![order.name.as_str(), &attempt, &number_text];
        what.extend(nodes.iter().map(NodeId::as_str));
        let all = digest(&what);
        let key = format!("{}/{attempt}/{number}/{all}", order.name);
        let group = (order.on == CheckOn::Group && nodes.len() > 1).then(|| all.clone());
        let (maker, generation) = (view.action.node.as_str(), view.action.generation.to_string());
        let own = digest(&[&all, maker, &generation]);
        let job =
            format!("check-{}-{}-{own}", short(order.name.as_str(), 16), short(view.action.node.node(), 20));
        Self { number, key, job, group, nodes }
    }
    /// The node that makes the Job of a group: the first. Any other does so when nobody has for a while.
    pub(super) fn leads(&self, view: &View<'_>) -> bool {
        self.group.is_none() || self.nodes.first() == Some(&view.action.node)
    }
    /// How many pods it has.
    pub(super) fn size(&self) -> usize {
        self.nodes.len()
    }
}

/// A short digest of several texts.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length before each, so that no two lists look alike.
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// A text as part of a name: at most so many characters, and only those that a DNS label may have.
pub(crate) fn short(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let cut: String = text.chars().map(plain).take(most).collect();
    let cut = cut.trim_matches('-');
    if cut.is_empty() { "x".to_owned() } else { cut.to_owned() }
}

/// A node's name as the value of a label. Names of nodes may be longer than labels may.
pub(crate) fn label(node: &str) -> String {
    if node.len() <= LABEL_MAX {
        return node.to_owned();
    }
    let kept: String = node.chars().take(LABEL_MAX - 2 * DIGEST_BYTES - 1).collect();
    format!("{kept}-{}", digest(&[node]))
}
