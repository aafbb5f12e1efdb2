//! Identities.

use std::{fmt, sync::Arc};

use drydock_spec::ClusterName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// From its text.
            #[must_use]
            pub fn new(text: &str) -> Self {
                Self(Arc::from(text))
            }
            /// Its text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /** A node in the whole fleet: `cluster/node`. Sorts by cluster, then by name. */
    NodeId
);
text_id!(
    /** One run of a policy: `policy-…`. */
    RolloutId
);
text_id!(
    /** A job whose pods run together, by a name that no other has in the whole fleet: `cluster/namespace/name`. */
    GangId
);
text_id!(
    /** Nodes that move together: the name of their domain or gang, or the node itself. */
    UnitId
);

impl NodeId {
    /// From its two parts.
    #[must_use]
    pub fn of(cluster: &ClusterName, node: &str) -> Self {
        Self(Arc::from(format!("{cluster}/{node}")))
    }
    /// Name of its cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(cluster, _)| cluster)
    }
    /// Name inside its cluster.
    #[must_use]
    pub fn node(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, node)| node)
    }
}

impl GangId {
    /// Of a cluster, and the job's name in there, `namespace/name`: teams give their jobs the same names everywhere.
    #[must_use]
    pub fn of(cluster: &ClusterName, job: &str) -> Self {
        Self(Arc::from(format!("{cluster}/{job}")))
    }
    /// Name inside its cluster.
    #[must_use]
    pub fn job(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, job)| job)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after it.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /** Number of an intent for a node; the node's side echoes the one its answer is about. It grows with every change. */
    Generation
);
counter!(
    /** Number of a reservation of a node; it grows with every new holder, and an action with an old one is refused. */
    Epoch
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_have_two_parts() {
        let id = NodeId::new("c12-stage/h100-03");
        assert_eq!((id.cluster(), id.node()), ("c12-stage", "h100-03"));
        assert_eq!(NodeId::new("alone").cluster(), "alone");
    }
}
