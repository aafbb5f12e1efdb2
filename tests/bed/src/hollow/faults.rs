//! Faults by name: which of the simulation's faults hollow nodes have, and what happens at an instant.

use std::time::Duration;

use drydock_plan::NodeId;
use drydock_sim::{FaultSpec, How, Place};
use jiff::Timestamp;

/// A fault that hollow nodes can't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hollow nodes have no fault `{fault}`: {instead}")]
pub struct Unsupported {
    /// Its label.
    pub fault: String,
    /// How a test gets the same.
    pub instead: &'static str,
}

/// What somebody or something does at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Deed {
    Lose,
    Restore,
    Health { kind: String, present: bool },
    Cordon(bool),
    Relabel { label: String, value: Option<String> },
    Delete,
    Recreate,
}

/// What a fault does at which moments; nothing for faults that are looked up when something depends on them.
///
/// # Errors
/// It is none of the nodes' faults.
pub(super) fn deeds(fault: &FaultSpec) -> Result<Vec<(Timestamp, NodeId, Deed)>, Unsupported> {
    let refuse = |instead| Err(Unsupported { fault: fault.label(), instead });
    let later = |at: Timestamp, by: drydock_spec::Period| {
        at.checked_add(Duration::from_millis(by.as_millis())).unwrap_or(Timestamp::MAX)
    };
    let one = |node: &NodeId, at: Timestamp, deed| Ok(vec![(at, node.clone(), deed)]);
    match fault {
        FaultSpec::BadVersion { place: Place { domain: Some(_), .. }, .. }
        | FaultSpec::BadLayout { place: Place { domain: Some(_), .. }, .. } => {
            refuse("name pools or nodes: where a hollow machine stands isn't known")
        }
        FaultSpec::BadVersion { how, .. } | FaultSpec::BadLayout { how, .. } if !is_known(how) => {
            refuse("one of the other ways to be bad")
        }
        FaultSpec::BadVersion { .. }
        | FaultSpec::BadLayout { .. }
        | FaultSpec::BadNode { .. }
        | FaultSpec::HungCheck { .. }
        | FaultSpec::NeverStartsCheck { .. }
        | FaultSpec::BrokenRunner { .. }
        | FaultSpec::RdmaPartnerBroken { .. }
        | FaultSpec::PodNeverTerminates { .. }
        | FaultSpec::SlowDrain { .. } => Ok(Vec::new()),
        FaultSpec::NodeLost { node, at, back_after } => {
            let mut deeds = vec![(*at, node.clone(), Deed::Lose)];
            deeds.extend(back_after.map(|by| (later(*at, by), node.clone(), Deed::Restore)));
            Ok(deeds)
        }
        FaultSpec::HealthFault { node, at, kind, length } => {
            let health = |present| Deed::Health { kind: kind.clone(), present };
            let mut deeds = vec![(*at, node.clone(), health(true))];
            deeds.extend(length.map(|by| (later(*at, by), node.clone(), health(false))));
            Ok(deeds)
        }
        FaultSpec::ForeignCordon { node, at, length } => {
            let mut deeds = vec![(*at, node.clone(), Deed::Cordon(true))];
            deeds.extend(length.map(|by| (later(*at, by), node.clone(), Deed::Cordon(false))));
            Ok(deeds)
        }
        FaultSpec::ForeignUncordon { node, at } => one(node, *at, Deed::Cordon(false)),
        FaultSpec::Relabel { node, at, label, value } => {
            one(node, *at, Deed::Relabel { label: label.clone(), value: value.clone() })
        }
        FaultSpec::NodeDeleted { node, at } => one(node, *at, Deed::Delete),
        FaultSpec::NodeRecreated { node, at } => one(node, *at, Deed::Recreate),
        FaultSpec::ClusterUnreachable { .. } => refuse("stop or hang the API server of the plane"),
        FaultSpec::StaleReads { .. }
        | FaultSpec::RefusedWrites { .. }
        | FaultSpec::LostWrites { .. }
        | FaultSpec::DoubledWrites { .. } => refuse("it belongs between the client and the API server"),
        FaultSpec::Spontaneous { .. } => refuse("inject a healthFault where one is wanted"),
        FaultSpec::HandEdit { .. } => refuse("edit the object with a client of User::Person"),
        FaultSpec::PdbBlocks { .. } => refuse("create a PodDisruptionBudget"),
        FaultSpec::GangLong { .. } => refuse("create the pods of the gang"),
        FaultSpec::NodeAdded { .. } => refuse("add a machine"),
        FaultSpec::PowerCycle { .. } | FaultSpec::Flaps { .. } => refuse("nodeLost with `backAfter`"),
        FaultSpec::DomainFails { .. } => refuse("lose its nodes one by one"),
        FaultSpec::NodeSlows { .. }
        | FaultSpec::Outliers { .. }
        | FaultSpec::LayoutLost { .. }
        | FaultSpec::MissingResult { .. }
        | FaultSpec::DoneBeforeReboot { .. }
        | FaultSpec::PartnerTaken { .. } => refuse("hollow machines don't do this"),
        FaultSpec::RegistryAway { .. } => refuse("a registry that is away"),
        FaultSpec::Rewrites { .. } | FaultSpec::UncordonFight { .. } => {
            refuse("write with a client of User::Person")
        }
        FaultSpec::OldReports { .. } | FaultSpec::LateCordons { .. } | FaultSpec::PartialList { .. } => {
            refuse("it belongs between the client and the API server")
        }
        FaultSpec::GangsHidden { .. } => refuse("take what names the gang from its pods"),
        FaultSpec::FactsAbsent { .. } => refuse("restart the drydock under test"),
        FaultSpec::LedgerRestored { .. } => refuse("write the ledger's ConfigMap"),
        FaultSpec::TwoLeaders { .. } => refuse("start another drydock"),
        FaultSpec::ClockJump { .. } => refuse("move the clock of the drydock under test"),
        FaultSpec::Crash { .. } => refuse("kill the drydock under test"),
    }
}

/// Whether hollow nodes can be bad in this way.
fn is_known(how: &How) -> bool {
    match how {
        How::NotReady
        | How::Hangs
        | How::CrashLoops
        | How::LosesNode { .. }
        | How::ReadyButBroken { .. }
        | How::HangsInCheck { .. }
        | How::Slow { .. }
        | How::FaultsLater { .. } => true,
        How::FailsEarly
        | How::FailsHalfway
        | How::NotFound
        | How::Wedges
        | How::Bricks
        | How::Flaps { .. }
        | How::SlowsDown { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_wire_are_refused_by_name() {
        let faults = FaultSpec::list("- lostWrites: {probability: 0.1}").unwrap();
        let refused = deeds(faults.first().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("`lostWrites`"), "{refused}");
    }

    #[test]
    fn what_ends_by_itself_has_two_moments() {
        let text = r#"- nodeLost: {node: c/a, at: "2026-03-02T10:00:00Z", backAfter: 10m}"#;
        let faults = FaultSpec::list(text).unwrap();
        let deeds = deeds(faults.first().unwrap()).unwrap();
        let moments: Vec<String> = deeds.iter().map(|(at, _, deed)| format!("{at} {deed:?}")).collect();
        assert_eq!(moments, ["2026-03-02T10:00:00Z Lose", "2026-03-02T10:10:00Z Restore"]);
    }
}
