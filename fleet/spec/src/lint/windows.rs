//! Time: zones, windows, freezes.

use std::collections::BTreeMap;

use super::Lint;
use crate::{
    document::Kind,
    kinds::{Delivery, MustFit, Scope, Window},
    rule::RuleId,
    source::tree::Step,
    text::{Period, PoolName},
};

/// A window that is longer than a week meets itself.
const WINDOW_MAX: Period = Period::from_hours(7 * 24);

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (name, cluster) in &fleet.clusters {
        if let Some(zone) = &cluster.time_zone {
            time_zone(lint, (Kind::Cluster, name.as_str()), path!["timeZone"], zone);
        }
    }
    let visits = visits(lint);
    let longest = visits.values().copied().max().unwrap_or(Period::ZERO);
    for (name, calendar) in &fleet.calendars {
        let document = (Kind::Calendar, name.as_str());
        for (i, window) in calendar.windows.iter().enumerate() {
            let sound = one_window(lint, document, path!["windows", i], window);
            if !sound || calendar.must_fit == MustFit::No || window.length >= longest {
                continue;
            }
            let covered = lint.covered(&window.scope);
            let worst =
                covered.into_iter().filter_map(|(pool, _)| visits.get(pool).map(|v| (*v, pool))).max();
            if let Some((visit, pool)) = worst.filter(|(visit, _)| *visit > window.length) {
                let message = format!(
                    "{} is less than the {visit} that nine of ten visits to a node of pool `{pool}` need",
                    window.length
                );
                let hint = Some("make the window longer, or nothing will start in it".to_owned());
                lint.at(document, path!["windows", i, "for"], RuleId::WindowTooShort, message, hint);
            }
        }
        for (i, window) in calendar.windows.iter().enumerate() {
            domain(lint, document, path!["windows", i, "scope", "domain"], &window.scope);
        }
        for (i, freeze) in calendar.freezes.iter().enumerate() {
            domain(lint, document, path!["freezes", i, "scope", "domain"], &freeze.scope);
            if freeze.from >= freeze.to {
                let message = format!("it ends at {}, before it begins", freeze.to);
                lint.at(document, path!["freezes", i, "to"], RuleId::FreezeBackwards, message, None);
            }
        }
    }
    for (name, budget) in &fleet.budgets {
        for (i, window) in budget.active.iter().enumerate() {
            one_window(lint, (Kind::Budget, name.as_str()), path!["active", i], window);
        }
    }
}

/// A domain is known by a label of its nodes; where none is named, the scope holds no node.
fn domain(lint: &mut Lint<'_, '_>, document: Document<'_>, at: &[Step<'_>], scope: &Scope) {
    let Some(domain) = &scope.domain else { return };
    let covered = lint.covered(scope);
    if !covered.is_empty() && covered.iter().all(|(_, pool)| pool.domains.label(domain.key).is_none()) {
        let key = domain.key.as_str();
        let pools = super::list(covered.iter().map(|(name, _)| name.as_str()));
        let message = format!("no label names the {key} of nodes in {pools}, so this is about nothing");
        let hint = Some(format!("set domains.{key} of the pool"));
        lint.at(document, at, RuleId::LabelWithoutDomain, message, hint);
    }
}

/// For each pool, the time in which nine of ten visits to a node are done: what drydock applies there, one after the
/// other.
fn visits<'r>(lint: &Lint<'r, '_>) -> BTreeMap<&'r PoolName, Period> {
    let fleet = lint.fleet();
    let of_release = |release: &crate::kinds::ReleaseSpec| {
        let applied = release.components.keys().filter_map(|name| fleet.components.get(name));
        let applied = applied.filter(|c| !matches!(c.delivery, Delivery::Observe {}));
        applied.fold(Period::ZERO, |sum, c| sum.saturating_add(c.expect.p90))
    };
    let releases: BTreeMap<_, Period> =
        fleet.releases.iter().map(|(name, r)| (name, of_release(r))).collect();
    let pools = fleet.pools.iter().filter_map(|(name, pool)| Some((name, *releases.get(&pool.release)?)));
    pools.collect()
}

/// True when its length makes sense.
fn one_window(lint: &mut Lint<'_, '_>, document: Document<'_>, at: &[Step<'_>], window: &Window) -> bool {
    time_zone(lint, document, &[at, path!["timeZone"]].concat(), &window.time_zone);
    if !is_clock_time(&window.from) {
        let message = format!("`{}` isn't a time of day", window.from);
        let hint = Some("write HH:MM from \"00:00\" to \"23:59\", quoted".to_owned());
        lint.at(document, &[at, path!["from"]].concat(), RuleId::ClockTime, message, hint);
    }
    let length = window.length;
    if length.is_zero() || length > WINDOW_MAX {
        let message =
            format!("a window of {length} can't be; it is longer than nothing and at most {WINDOW_MAX}");
        lint.at(document, &[at, path!["for"]].concat(), RuleId::WindowLength, message, None);
        return false;
    }
    true
}

fn time_zone(lint: &mut Lint<'_, '_>, document: Document<'_>, at: &[Step<'_>], zone: &str) {
    if jiff::tz::TimeZone::get(zone).is_ok() {
        return;
    }
    let known: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let near = crate::suggest::nearest(zone, known.iter().map(String::as_str));
    // People know the city and guess the region.
    let city = |name: &&String| {
        let last = |text: &str| text.rsplit('/').next().map(str::to_ascii_lowercase);
        last(name) == last(&zone.replace(' ', "_"))
    };
    let near = near.or_else(|| known.iter().find(city).map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write an IANA name such as Europe/Berlin".to_owned(),
    };
    lint.at(document, at, RuleId::TimeZone, format!("there is no time zone `{zone}`"), Some(hint));
}

fn is_clock_time(text: &str) -> bool {
    let Some((hour, minute)) = text.split_once(':') else { return false };
    let number = |t: &str| {
        let digits = t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| t.parse::<u8>().ok()).flatten()
    };
    number(hour).is_some_and(|h| h < 24) && number(minute).is_some_and(|m| m < 60)
}

#[cfg(test)]
mod tests {
    use super::is_clock_time;

    #[test]
    fn times_of_day() {
        assert!(["00:00", "23:59", "06:30"].into_iter().all(is_clock_time));
        assert!(!["24:00", "6:30", "06:60", "0630", "", "06:30:00", "+6:30"].into_iter().any(is_clock_time));
    }
}
