//! Where what is read differs from what is: answers that are incomplete, late, early or old, lists that lack something,
//! and hands that undo what drydock does.

use drydock_plan::{CheckOrder, NodeId, StepReport, StepState};
use drydock_spec::{CheckName, CheckOn, Period};
use jiff::Timestamp;

use crate::{Draw, FaultSpec, World, ground::Ground, node::NodeState, script::Happening};

/// The partner goes so long after a check has begun: the shortest checks take a minute.
pub(crate) const PARTNER_GOES: Period = Period::from_secs(20);
/// And is back so long after that.
pub(crate) const PARTNER_BACK: Period = Period::from_mins(10);
/// A node whose part is reported as done too early boots so much later.
pub(crate) const BOOTS_AFTER: Period = Period::from_mins(1);
/// An old answer is seen for so long.
const LOOKS_BACK: Period = Period::from_secs(30);

fn within(at: Timestamp, length: Period, now: Timestamp) -> bool {
    at <= now && now < length.after(at)
}

/// How much later than answers cordons are seen.
pub(crate) fn cordon_lag(ground: &Ground) -> Option<Period> {
    ground.faults.iter().find_map(|fault| match fault {
        FaultSpec::LateCordons { lag } => Some(*lag),
        _ => None,
    })
}

/// When somebody takes a cordon away that comes now.
pub(crate) fn uncordoned(ground: &Ground, id: &NodeId, now: Timestamp) -> Option<Timestamp> {
    ground.faults.iter().find_map(|fault| match fault {
        FaultSpec::UncordonFight { node, after, until }
            if node == id && until.is_none_or(|until| now < until) =>
        {
            Some(after.after(now))
        }
        _ => None,
    })
}

/// The partner of this run goes away in the middle of it.
pub(crate) fn takes_partner(ground: &Ground, node: &NodeState, order: &CheckOrder) -> bool {
    order.on == CheckOn::Pair
        && ground.faults.iter().any(|fault| match fault {
            FaultSpec::PartnerTaken { check, times } => *check == order.name && node.partners_taken < *times,
            _ => false,
        })
}

/// The result of this check doesn't reach the report.
pub(crate) fn leaves_out(ground: &Ground, id: &NodeId, name: &CheckName, now: Timestamp) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::MissingResult { check, node, until } => {
            check == name && node.as_ref().is_none_or(|n| n == id) && until.is_none_or(|until| now < until)
        }
        _ => false,
    })
}

/// A reboot is reported as done before it begins.
pub(crate) fn early(ground: &Ground, id: &NodeId) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::DoneBeforeReboot { node } => node.as_ref().is_none_or(|n| n == id),
        _ => false,
    })
}

/// A list that is answered now doesn't hold this node.
pub(crate) fn unlisted(ground: &Ground, id: &NodeId, now: Timestamp) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::PartialList { cluster, at, length, percent } => {
            cluster.as_str() == id.cluster()
                && within(*at, *length, now)
                && ground.draw(id, "listed").between(0, 99) >= u64::from(*percent)
        }
        _ => false,
    })
}

/// Jobs of a cluster aren't described now.
pub(crate) fn hides_gangs(ground: &Ground, cluster: &str, now: Timestamp) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::GangsHidden { cluster: c, at, length } => {
            c.as_str() == cluster && within(*at, *length, now)
        }
        _ => false,
    })
}

/// Nothing is known of a cluster yet.
pub(crate) fn is_absent(ground: &Ground, cluster: &str, now: Timestamp) -> bool {
    ground.faults.iter().any(|fault| match fault {
        FaultSpec::FactsAbsent { cluster: c, at, length } => {
            c.as_str() == cluster && within(*at, *length, now)
        }
        _ => false,
    })
}

fn is_final(report: &StepReport) -> bool {
    matches!(report.state, StepState::Done | StepState::Failed { .. })
}

impl World {
    /// Before the first look at a new answer: perhaps an older one is seen once more.
    pub(crate) fn perhaps_look_back(&mut self, id: &NodeId) {
        let chance: f64 = self
            .ground
            .faults
            .iter()
            .map(|fault| match fault {
                FaultSpec::OldReports { probability } => *probability,
                _ => 0.0,
            })
            .sum();
        if chance <= 0.0 {
            return;
        }
        let now = self.now;
        let Some(node) = self.nodes.get_mut(id) else { return };
        let Some(generation) = node.report.as_ref().filter(|r| is_final(r)).map(|r| r.generation) else {
            return;
        };
        if node.looked_back == Some(generation) || node.old_report.is_none() {
            return;
        }
        node.looked_back = Some(generation);
        let draw = Draw::new(self.ground.seed).text(id.as_str()).text("old report").number(generation.0);
        if draw.chance(chance) {
            let until = LOOKS_BACK.after(now);
            node.looks_back = Some(until);
            self.at(until, Happening::Look { node: id.clone() });
        }
    }
    /// Readers know nothing of a cluster any more.
    pub(crate) fn forget_cluster(&mut self, cluster: &str) {
        let ids: Vec<NodeId> =
            self.inventory.nodes.keys().filter(|id| id.cluster() == cluster).cloned().collect();
        ids.iter().for_each(|id| self.hide(id));
        self.hide_gangs(cluster);
    }
    /// A list has come that lacks nodes.
    pub(crate) fn list_partly(&mut self, cluster: &str) {
        let now = self.now;
        let ids: Vec<NodeId> =
            self.inventory.nodes.keys().filter(|id| id.cluster() == cluster).cloned().collect();
        for id in ids.iter().filter(|id| unlisted(&self.ground, id, now)).cloned().collect::<Vec<_>>() {
            self.hide(&id);
        }
    }
    fn hide(&mut self, id: &NodeId) {
        if let Some(seen) = self.inventory.nodes.remove(id)
            && let Some(node) = self.nodes.get_mut(id)
        {
            node.stash = seen.labels;
        }
        self.unseen.insert(id.clone());
        self.changed.insert(id.clone());
    }
    /// Jobs of a cluster aren't described any more.
    pub(crate) fn hide_gangs(&mut self, cluster: &str) {
        let ground = &self.ground;
        for (slot, gang) in &mut self.gangs {
            if ground.pools.get(&gang.pool).is_none_or(|hardware| hardware.cluster.as_str() != cluster) {
                continue;
            }
            if let Some((_, id)) = gang.shown.take() {
                self.inventory.gangs.remove(&id);
            }
            self.unseen_gangs.insert(*slot);
            self.changed_gangs.insert(*slot);
        }
    }
}
