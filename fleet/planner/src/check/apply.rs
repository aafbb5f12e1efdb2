//! What is applied is what was intended, where drydock may apply it, on a node that is empty where it has to be.

use drydock_plan::{Action, Course, Ensure, LayoutId, NodeRecord, Target, Visit};
use drydock_spec::{ComponentName, ComponentSpec, ComponentVersion, Disruption, OnTimeout, PolicySpec};

use super::{facts, findings::Findings, view::View};

const DRAINED: &str = "drain before apply";
const INTENDED: &str = "apply what is intended";

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    for action in &view.plan.actions {
        let Some(visit) = view.after.nodes.get(&action.node).and_then(|r: &NodeRecord| r.visit.as_ref())
        else {
            continue;
        };
        match &action.ensure {
            Ensure::Applied { component, version, reboot, .. } => {
                component_rules(view, action, visit, component, version.as_ref(), *reboot, found);
            }
            Ensure::Partitioned { layout, .. } => layout_rules(view, action, visit, layout, found),
            Ensure::Preflight { .. }
            | Ensure::Cordoned
            | Ensure::Checkpointed { .. }
            | Ensure::Drained { .. }
            | Ensure::Checked { .. }
            | Ensure::Returned
            | Ensure::Kept => {}
        }
    }
}

fn component_rules(
    view: &View<'_>,
    action: &Action,
    visit: &Visit,
    component: &ComponentName,
    version: Option<&ComponentVersion>,
    reboot: bool,
    found: &mut Findings,
) {
    let node = &action.node;
    // A component that Git doesn't have any more is treated like the careful default.
    let spec: Option<&ComponentSpec> = view.input.fleet.components.get(component).map(|c| &c.spec);
    // What runs somewhere else in the cluster doesn't need this node empty.
    let here = !facts::is_shared(view.input.fleet, component);
    let needs_drain = reboot
        || here
            && match spec.map_or(Disruption::Drain, |s| s.disruption) {
                Disruption::None | Disruption::Restart => false,
                Disruption::Drain | Disruption::Reboot => true,
            };
    found.when(needs_drain && !is_empty_enough(view, visit), DRAINED, || {
        format!("{component} is applied to {node}, which wasn't drained")
    });
    let pool = view.input.inventory.nodes.get(node).and_then(|n| view.pool_of(n)).map(|(_, pool)| pool);
    found.when(spec.is_some_and(|s| facts::is_only_observed(s, pool)), INTENDED, || {
        format!("{component} on {node} belongs to somebody else")
    });
    let automatic = visit.course == Course::Back
        || view.after.rollouts.get(&visit.rollout).is_some_and(|r| facts::is_automatic_rollback(r));
    found.when(automatic && spec.is_some_and(|s| !s.reversible), INTENDED, || {
        format!("{component} on {node} can't be taken back")
    });
    let Some(target) = target_of(visit) else { return };
    if let Some(vector) = view.after.releases.get(&target.release) {
        found.when(vector.get(component) != version, INTENDED, || {
            let text =
                |v: Option<&ComponentVersion>| v.map_or("nothing".to_owned(), |v| v.version.to_string());
            format!(
                "{component} {} is applied to {node}, {} asks for {}",
                text(version),
                target.release,
                text(vector.get(component))
            )
        });
    }
}

fn layout_rules(view: &View<'_>, action: &Action, visit: &Visit, layout: &LayoutId, found: &mut Findings) {
    let node = &action.node;
    // GPUs are cut only while nothing uses them, whatever is configured.
    found.when(!is_empty_enough(view, visit), DRAINED, || {
        format!("{layout} is cut on {node}, which wasn't drained")
    });
    let Some(target) = target_of(visit) else { return };
    found.when(target.layout.as_ref() != Some(layout), INTENDED, || {
        format!("{layout} is cut on {node}, its target is {target}")
    });
}

/// Drained, or the policy says to go on when a drain doesn't end.
fn is_empty_enough(view: &View<'_>, visit: &Visit) -> bool {
    let goes_on = |policy: &PolicySpec| {
        policy.drain.on_timeout == OnTimeout::Proceed || policy.drain.pdb.on_blocked == OnTimeout::Proceed
    };
    visit.drained || view.after.rollouts.get(&visit.rollout).is_some_and(|r| goes_on(&r.strategy))
}

fn target_of(visit: &Visit) -> Option<&Target> {
    match visit.course {
        Course::Forward => Some(&visit.to),
        Course::Back => Some(&visit.from),
        Course::Out(_) => None,
    }
}
