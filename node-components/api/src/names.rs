//! Names on objects. They are promises: scripts and dashboards of other people read them, so they are listed here and
//! nowhere else.

/// Group of the custom resources and prefix of every label and annotation.
pub const GROUP: &str = "drydock.dev";

/// Field manager of server-side apply for everything the reconciler writes. One name, so that an object shows at a
/// glance what is drydock's and what is somebody else's.
pub const MANAGER: &str = "drydock";

/// Namespace for everything that isn't placed elsewhere by a document: the ledger, leases, check Jobs.
pub const NAMESPACE: &str = "drydock-system";

/// Name of the ConfigMap that holds the head of the ledger, of its pages (`drydock-ledger-REVISION-N`), and of nothing
/// else. Whoever deletes it deletes drydock's memory.
pub const LEDGER: &str = "drydock-ledger";

/// Name of the ConfigMap that says which commit was the last good one, and of the pages with its files.
pub const KEPT_SOURCE: &str = "drydock-source";

/// Name of the lease that one drydock of several holds: the one that acts.
pub const LEASE: &str = "drydock";

/// Label on ConfigMaps that are pages of something: the name of what they belong to.
pub const PAGE_OF: &str = "drydock.dev/page-of";

/// Label of everything drydock has made: `app.kubernetes.io/managed-by: drydock`.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Taint of a node while it is away; effect `NoSchedule`, value: the rollout.
pub const TAINT: &str = "drydock.dev/rollout";

/// Annotation of a node while drydock's own cordon is on it: `EPOCH ROLLOUT`. A cordon without it is somebody else's.
pub const CORDON: &str = "drydock.dev/cordon";

/// Annotation that notes what stood before drydock's own cordon: `unschedulable` when somebody else had cordoned the
/// node already; that cordon is left when the node returns.
pub const CORDON_BEFORE: &str = "drydock.dev/cordon-before";

/// Prefix of the node labels that choose the version of a component: `version.drydock.dev/COMPONENT: SLUG`.
pub const VERSION_PREFIX: &str = "version.drydock.dev/";

/// Label on objects and pods: the component they deliver.
pub const COMPONENT: &str = "drydock.dev/component";

/// Annotation on objects and pods: the exact version with digest and settings, as JSON. Labels can't hold every text.
pub const VERSION: &str = "drydock.dev/version";

/// Prefix of node annotations that note what a `job` delivery has put on the node, as JSON:
/// `applied.drydock.dev/COMPONENT`.
pub const APPLIED_PREFIX: &str = "applied.drydock.dev/";

/// Annotation of a node that has to reboot: the generation of the intent that asks for it. Whatever reboots nodes in the
/// cluster acts on it; the visit goes on once the node is back with another boot id.
pub const REBOOT: &str = "drydock.dev/reboot";

/// Label on check Jobs and their pods: name of the check.
pub const CHECK: &str = "drydock.dev/check";

/// Label on check Jobs and their pods: class of the check (`driver`, `rdma`, `training`, `custom`).
pub const CHECK_CLASS: &str = "drydock.dev/check-class";

/// Label on check Jobs that serve the intents of several nodes: a digest of the check, its try and its nodes. Each of the
/// nodes finds the Job by it, whichever of them has made it.
pub const CHECK_GROUP: &str = "drydock.dev/group";

/// Label on pods that only bring images to a node: `"true"`.
pub const PREFETCH: &str = "drydock.dev/prefetch";

/// Label on pods that only try something out: what they try (`scheduler`).
pub const PROBE: &str = "drydock.dev/probe";

/// Label on Jobs made for one node: its name.
pub const NODE: &str = "drydock.dev/node";

/// Label on Jobs: the generation of the intent they belong to.
pub const GENERATION: &str = "drydock.dev/generation";

/// Label on user pods: pods with the same value in one namespace run together and are evicted together.
pub const GANG: &str = "drydock.dev/gang";

/// Annotation on a GPU pod of a gang: how the job wants to be asked for a checkpoint before its nodes are emptied. The
/// only value is [`CHECKPOINT_HOOK_ANNOTATION`]. A job without it takes no part: its `preStop` hook and SIGTERM are its
/// checkpoint.
pub const CHECKPOINT_HOOK: &str = "drydock.dev/checkpoint-hook";

/// Value of [`CHECKPOINT_HOOK`]: drydock asks through [`CHECKPOINT_REQUEST`] and the job answers through
/// [`CHECKPOINT_FOR`].
pub const CHECKPOINT_HOOK_ANNOTATION: &str = "annotation";

/// Annotation on a pod of a gang: drydock asks for a checkpoint by setting it to `NODE:GENERATION` of its intent, on all
/// pods of the gang that have [`CHECKPOINT_HOOK`]. The node is part of it, since generations are counted for each node
/// alone and a gang sits on many. The job doesn't read it: it only compares and copies.
pub const CHECKPOINT_REQUEST: &str = "drydock.dev/checkpoint-request";

/// Annotation on a pod of a gang: the request that the last checkpoint was written for, copied from
/// [`CHECKPOINT_REQUEST`]; the job sets it after the checkpoint is safe, on at least one of its pods.
pub const CHECKPOINT_FOR: &str = "drydock.dev/checkpoint-for";

/// Annotation on a pod of a gang: the time of its last checkpoint, RFC 3339; the job sets it.
pub const CHECKPOINT_DONE: &str = "drydock.dev/checkpoint";

/// Annotation on a pod of a gang: when it is expected to end, RFC 3339; the job sets it.
pub const EXPECTED_END: &str = "drydock.dev/expected-end";

/// Label on user pods: `"true"` keeps a pod from being evicted; the node then waits, with the pod named.
pub const PROTECTED: &str = "drydock.dev/protected";

/// The label value or object name for a version text: what labels and names can't hold becomes a dash, and a short
/// digest of the exact text keeps two versions apart that would look alike.
///
/// At most 40 characters: with a component name of up to 20 before it a DaemonSet's name stays below the 63 characters
/// that its pods' labels allow.
#[must_use]
pub fn slug(version: &str, exact: &str) -> String {
    let mut text: String = version
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(31)
        .collect();
    text.truncate(text.trim_end_matches('-').len());
    let text = text.trim_start_matches('-');
    let digest = fnv(exact.as_bytes());
    if text.is_empty() { format!("v-{digest:08x}") } else { format!("{text}-{digest:08x}") }
}

/// FNV-1a over 32 bits: keeps a handful of versions of one component apart; nothing hostile chooses them.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_fit_labels_and_names_and_stay_apart() {
        for (version, exact) in [
            ("580.95.05", "{\"version\":\"580.95.05\"}"),
            ("v0.18.0+cu13/ä", "x"),
            ("---", "y"),
            ("580.126.09-rc.1-with-a-very-long-build-suffix", "z"),
        ] {
            let slug = slug(version, exact);
            assert!(slug.len() <= 40, "{slug}");
            assert!(
                slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{slug}"
            );
            assert!(slug.starts_with(|c: char| c.is_ascii_alphanumeric()), "{slug}");
            assert!(slug.ends_with(|c: char| c.is_ascii_alphanumeric()), "{slug}");
        }
        assert_ne!(slug("1.0", "a"), slug("1.0", "b"));
        assert_eq!(slug("580.95.05", "a"), "580-95-05-e40c292c");
    }
}
