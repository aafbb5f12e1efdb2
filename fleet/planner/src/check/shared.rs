//! What a cluster has once is moved by one node at a time, and nobody begins who would rely on it meanwhile.

use std::collections::BTreeMap;

use drydock_plan::{Course, Ensure, NodeId, NodeRecord};
use drydock_spec::ComponentName;

use super::{
    facts,
    findings::Findings,
    view::{Fresh, Held, View},
};

const SHARED: &str = "I19 one carrier";

/// Nodes by cluster and component.
type Carriers<'a> = BTreeMap<(&'a str, &'a ComponentName), &'a Held<'a>>;

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    applied_by_carriers(view, found);
    let mut carriers = Carriers::new();
    for held in &view.held {
        // Whoever is on its way out has changed it, or gives up; both are over.
        let busy = !matches!(held.visit.course, Course::Out(_));
        for name in carried(held.record).iter().filter(|_| busy) {
            if let Some(other) = carriers.insert((held.id.cluster(), name), held) {
                found.add(SHARED, || format!("{} and {} both change {name}", other.id, held.id));
            }
        }
    }
    if carriers.is_empty() {
        return;
    }
    for fresh in view.fresh.iter().filter(|fresh| !fresh.urgent) {
        begins_alone(view, fresh, &carriers, found);
    }
}

fn carried(record: &NodeRecord) -> &[ComponentName] {
    record.assignment.as_ref().map_or(&[], |a| &a.carries)
}

fn applied_by_carriers(view: &View<'_>, found: &mut Findings) {
    for action in &view.plan.actions {
        let Ensure::Applied { component, .. } = &action.ensure else { continue };
        let carries = view.after.nodes.get(&action.node).is_some_and(|r| carried(r).contains(component));
        found.when(facts::is_shared(view.input.fleet, component) && !carries, SHARED, || {
            format!("{component} is changed for its cluster by {}, which doesn't carry it", action.node)
        });
    }
}

/// A unit moves together, so its own nodes don't count. A way back that drydock makes relies on nothing: it only takes
/// back what it brought.
fn begins_alone(view: &View<'_>, fresh: &Fresh<'_>, carriers: &Carriers<'_>, found: &mut Findings) {
    if fresh.rollout.is_some_and(facts::is_automatic_rollback) {
        return;
    }
    let Some(wanted) = view.after.releases.get(&fresh.visit.to.release) else { return };
    let cluster: &str = NodeId::cluster(fresh.id);
    for name in wanted.0.keys().filter(|name| facts::is_shared(view.input.fleet, name)) {
        let Some(held) = carriers.get(&(cluster, name)) else { continue };
        let mate = held.visit.unit == fresh.visit.unit && held.visit.rollout == fresh.visit.rollout;
        // Where both begin with this plan, who has it already may have begun first.
        let has_it = fresh.seen.is_some_and(|seen| seen.running.vector.get(name) == wanted.get(name));
        let first = has_it && view.fresh.iter().any(|other| other.id == held.id);
        found.when(!mate && !first && held.id != fresh.id, SHARED, || {
            format!("{} begins while {} changes {name}, which it relies on", fresh.id, held.id)
        });
    }
}
