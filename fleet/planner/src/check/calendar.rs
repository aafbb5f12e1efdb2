//! I10: forward movement begins inside an open window and in no freeze.

use std::collections::BTreeMap;

use drydock_spec::{Freeze, FreezeAllow, InFreeze, PoolName, PoolSpec, Scope, Window};

use super::{
    findings::Findings,
    scope,
    view::{AnyNode, Fresh, View},
    window,
};

const CALENDAR: &str = "I10 calendar";

/// The windows and freezes whose scope reaches a pool.
struct Applicable<'a> {
    windows: Vec<(&'a Window, bool)>,
    freezes: Vec<&'a Freeze>,
}

pub(super) fn check(view: &View<'_>, found: &mut Findings) {
    if view.fresh.is_empty() {
        return;
    }
    let mut by_pool: BTreeMap<&PoolName, Applicable<'_>> = BTreeMap::new();
    for fresh in view.fresh.iter().filter(|f| !f.urgent) {
        let Some((name, pool)) = fresh.pool else { continue };
        let node = AnyNode { id: fresh.id, seen: fresh.seen, record: Some(fresh.record) };
        let applicable = by_pool.entry(name).or_insert_with(|| applicable(view, name, pool));
        if !fresh.is_way_back() {
            let mut mine = applicable.windows.iter().filter(|(w, _)| has_domain(&w.scope, &node)).peekable();
            let covered = mine.peek().is_some();
            found.when(covered && !mine.any(|(_, open)| *open), CALENDAR, || {
                format!("{} is reserved and no window of {name} is open", fresh.id)
            });
        }
        let security = is_security(view, pool, fresh);
        for freeze in applicable.freezes.iter().filter(|f| has_domain(&f.scope, &node)) {
            found.when(!passes(freeze, fresh, security), CALENDAR, || {
                let what = freeze.name.as_deref().unwrap_or("without a name");
                format!("{} is reserved in the freeze {what} until {}", fresh.id, freeze.to)
            });
        }
    }
}

fn applicable<'a>(view: &View<'a>, name: &PoolName, pool: &PoolSpec) -> Applicable<'a> {
    let (fleet, now) = (view.input.fleet, view.input.now);
    let mut all = Applicable { windows: Vec::new(), freezes: Vec::new() };
    let reaches = |scope: &Scope| scope::may_hold(scope, fleet, pool.cluster.as_str(), Some((name, pool)));
    for calendar in fleet.calendars.values() {
        for window in calendar.spec.windows.iter().filter(|w| reaches(&w.scope)) {
            // In doubt it is closed.
            all.windows.push((window, window::is_open(window, now).unwrap_or(false)));
        }
        let now_on = |f: &&Freeze| f.from <= now && now < f.to && reaches(&f.scope);
        all.freezes.extend(calendar.spec.freezes.iter().filter(now_on));
    }
    all
}

fn has_domain(scope: &Scope, node: &AnyNode<'_>) -> bool {
    scope.domain.as_ref().is_none_or(|d| node.domain_name(d.key) == Some(d.value.as_str()))
}

/// The document of what this very node gets says so. What its neighbours get doesn't count.
fn is_security(view: &View<'_>, pool: &PoolSpec, fresh: &Fresh<'_>) -> bool {
    let release = view.input.fleet.releases.get(&pool.release);
    release.is_some_and(|r| r.spec.security && r.spec.vector().id() == fresh.visit.to.release)
}

fn passes(freeze: &Freeze, fresh: &Fresh<'_>, security: bool) -> bool {
    let security = security && freeze.allow.contains(&FreezeAllow::Security);
    let denied = fresh.rollout.is_some_and(|r| r.strategy.rollback.in_freeze == InFreeze::Deny);
    let back = fresh.is_way_back() && (!denied || freeze.allow.contains(&FreezeAllow::Rollback));
    security || back
}
