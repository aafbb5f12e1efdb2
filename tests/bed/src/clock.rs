//! The one place of this crate that reads the wall clock.

use jiff::Timestamp;

/// Now: conditions of nodes and pods carry real times, as a kubelet's do.
pub(crate) fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "the rim of the test bed: it stands for kubelets with real clocks"
    )]
    Timestamp::now()
}

/// The same as Kubernetes writes it: RFC 3339 in whole seconds.
pub(crate) fn stamp() -> String {
    seconds(now())
}

/// A time as Kubernetes writes it: RFC 3339 in whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
