//! Findings that are known and not mended yet: told in the table, and not judged, where the schedule has what brings them
//! about. `DRYDOCK_STRICT=1` judges them as well. A line goes when its fault is mended.

use super::case::Case;

/// Whether a finding is one of them, and which.
pub fn known(case: &Case, finding: &str) -> Option<&'static str> {
    let has = |kind: &str| case.faults.iter().any(|fault| fault.label().starts_with(kind));
    let says = |text: &str| finding.contains(text);
    if says("I10 calendar") && case.scopes_calendars() {
        return Some("a window or a freeze of a domain is read in two ways");
    }
    if says("I5 ") && case.one_hall {
        return Some("domains that two pools share are counted in two ways");
    }
    if says("I4 gang purity") && has("gangsHidden") {
        return Some("a job that is seen on its nodes and not described is cut");
    }
    let loops = says("endless") || says("was emptied") || says("was visited");
    if loops && has("uncordonFight") {
        return Some("a fight over a cordon has no end");
    }
    if loops && (has("hungCheck") || case.many_tries()) {
        return Some("tries are counted by evidence, of which only some is kept");
    }
    if has("partialList") && (loops || says("I2 ") || says("keeps a cordon")) {
        return Some("a node that a list left out comes back with a newer epoch than its new record");
    }
    if has("factsAbsent")
        && (says("I1 ") || says("budget") || says("keeps a cordon") || says("for no good reason"))
    {
        return Some("what isn't seen isn't counted");
    }
    if has("registryAway") && says("truth") {
        return Some("a registry that is away is held against the release");
    }
    (says("firmware") && says("can't be taken back"))
        .then_some("what a superseded rollout had half changed and can't be taken back is asked for again")
}
