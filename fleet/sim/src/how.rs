//! How versions and nodes are bad, and where.

use drydock_plan::NodeId;
use drydock_spec::{DomainKey, Glob, LayoutName, Period, PoolName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a version is bad. All that is given must match; nothing given is everywhere.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Place {
    /// GPU model, as pools write it.
    pub model: Option<String>,
    /// Kernel release.
    pub kernel: Option<Glob>,
    /// Layout that is cut at the time.
    pub layout: Option<LayoutName>,
    /// Pool by name pattern.
    pub pool: Option<Glob>,
    /// One node.
    pub node: Option<NodeId>,
    /// One domain, a rack for example.
    pub domain: Option<DomainPlace>,
}

/// A domain by its kind and a pattern for its name. It is meant by where machines really stand, whatever their labels
/// say later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DomainPlace {
    /// Kind.
    pub key: DomainKey,
    /// Name.
    pub value: Glob,
}

/// How a version is bad.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum How {
    /// Its pod runs and never becomes ready: applying it never ends.
    NotReady,
    /// Installing it hangs: applying it never ends, and nothing says why.
    Hangs,
    /// It crashes again and again: applying it fails, and the old one is gone.
    CrashLoops,
    /// Installing it fails before anything was changed: the old one stays and works.
    FailsEarly,
    /// Installing it fails halfway: the new version shows, and nothing works until something is installed again.
    FailsHalfway,
    /// Its artefacts can't be pulled, by nobody.
    NotFound,
    /// It reports ready and leaves the hardware in a state in which driver checks fail, on every release, until somebody
    /// cuts the node's power.
    Wedges,
    /// It reports ready, its own checks fail, and from then on nothing can be installed on the node any more.
    Bricks,
    /// It takes the node's readiness away for `down`, again and again, so many times.
    Flaps {
        /// First, so long after it was applied; then at this distance.
        every: Period,
        /// For so long.
        down: Period,
        /// So often.
        times: u32,
    },
    /// It takes the node with it, for ever or for a while.
    LosesNode {
        /// When the node is back.
        #[serde(default)]
        back_after: Option<Period>,
    },
    /// It reports ready, and checks of this class or name fail.
    ReadyButBroken {
        /// A class (`driver`, `rdma`, …) or the name of a check.
        check: String,
    },
    /// It reports ready, and checks of this class or name hang.
    HangsInCheck {
        /// A class or the name of a check.
        check: String,
    },
    /// Values of checks of this class or name are worse.
    Slow {
        /// By so many percent.
        percent: u32,
        /// A class or the name of a check.
        check: String,
    },
    /// Values of checks of this class or name get worse with time.
    SlowsDown {
        /// By so many percent in the end.
        percent: u32,
        /// So long after it was applied.
        over: Period,
        /// A class or the name of a check.
        check: String,
    },
    /// It is good at first; a health fault appears later, while it serves.
    FaultsLater {
        /// Kind of fault.
        kind: String,
        /// So long after it was applied.
        after: Period,
    },
}

/// How a node is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BadNodeHow {
    /// Checks of the fault's class (driver where none is given) fail on it.
    CheckFails,
    /// Applying anything to it fails.
    ApplyFails,
}

/// Since when a node is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Breaks {
    /// Since before the first change: a preflight sees it.
    Always,
    /// It breaks when it is first touched: only going back tells it from a bad version.
    #[default]
    AtApply,
    /// It breaks at this instant.
    At(Timestamp),
}

impl Place {
    /// Whether a node is inside.
    #[must_use]
    pub fn holds<'d>(
        &self,
        node: &NodeId,
        pool: &PoolName,
        model: &str,
        kernel: &str,
        layout: Option<&str>,
        domain: &dyn Fn(DomainKey) -> Option<&'d str>,
    ) -> bool {
        let Self { model: wanted, kernel: kernels, layout: cut, pool: pools, node: one, domain: within } =
            self;
        wanted.as_ref().is_none_or(|m| m == model)
            && kernels.as_ref().is_none_or(|k| k.matches(kernel))
            && cut.as_ref().is_none_or(|l| Some(l.as_str()) == layout)
            && pools.as_ref().is_none_or(|p| p.matches(pool.as_str()))
            && one.as_ref().is_none_or(|n| n == node)
            && within.as_ref().is_none_or(|d| domain(d.key).is_some_and(|name| d.value.matches(name)))
    }
}
