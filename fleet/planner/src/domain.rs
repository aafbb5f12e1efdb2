//! Domains, and what scopes cover. Both are asked here and nowhere else.
//!
//! A rack is a thing: `r1` of a cluster is one rack, whichever pools stand in it, and another cluster's `r1` is another.

use drydock_spec::{DomainKey, Scope, Standing};

use crate::{frame::Frame, pass::Pass};

/// A topology domain of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Domain<'a> {
    /// Position of the cluster.
    cluster: usize,
    /// Its name there.
    pub name: &'a str,
}

impl<'a> Frame<'a> {
    /// The domain of a node. Of a node that isn't seen, or that is in no pool any more, the one it was last known in.
    pub(crate) fn domain(&self, i: usize, key: DomainKey) -> Option<Domain<'a>> {
        let node = self.nodes.get(i)?;
        let remembered = || node.rec.place.as_ref()?.domains.get(&key).map(String::as_str);
        let name = match node.obs.domain(key) {
            Some(name) => Some(&**name),
            None if node.obs.pool.is_none() => remembered(),
            None => None,
        };
        name.map(|name| Domain { cluster: node.cluster, name })
    }

    /// A domain as people call it.
    pub(crate) fn domain_text(&self, domain: Domain<'_>) -> String {
        let cluster = self.clusters.get(domain.cluster).map_or("?", |c| c.name);
        format!("{cluster}/{}", domain.name)
    }
}

impl Pass<'_> {
    /// Whether a scope of a document is about this node.
    pub(crate) fn covers(&self, i: usize, scope: &Scope) -> bool {
        let pool = self.home(i).and_then(|p| self.frame.pools.get(p));
        let standing = Standing {
            cluster: self.frame.nodes[i].id.cluster(),
            pool: pool.map(|p| (p.name, p.spec)),
            domain: &|key| self.frame.domain(i, key).map(|d| d.name),
        };
        scope.covers_node(self.input.fleet, &standing)
    }

    /// The pool whose capacity a node is: the one it is in, else the one it had its part in a rollout in, as long as Git
    /// has it.
    pub(crate) fn home(&self, i: usize) -> Option<usize> {
        let node = &self.frame.nodes[i];
        node.pool.or_else(|| {
            let part = self.rec(i).assignment.as_ref()?;
            self.frame.pool_index.get(&part.pool).copied()
        })
    }
}
