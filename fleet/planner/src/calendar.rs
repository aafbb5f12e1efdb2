//! Windows and freezes. Whether an instant is inside a window is decided by the window's start in its own zone plus
//! its length; a freeze wins over every window; in doubt it is closed.

use drydock_plan::Reason;
use drydock_spec::{
    CalendarName, CalendarSpec, Day, Fleet, Freeze, FreezeAllow, MustFit, Period, PoolSpec, Scope, Window,
};
use jiff::{
    Timestamp, ToSpan,
    civil::{Time, Weekday},
    tz::TimeZone,
};

/// A stretch of time in which a window is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// First instant.
    pub opens: Timestamp,
    /// First instant after it.
    pub closes: Timestamp,
}

const fn weekday(day: Day) -> Weekday {
    match day {
        Day::Mon => Weekday::Monday,
        Day::Tue => Weekday::Tuesday,
        Day::Wed => Weekday::Wednesday,
        Day::Thu => Weekday::Thursday,
        Day::Fri => Weekday::Friday,
        Day::Sat => Weekday::Saturday,
        Day::Sun => Weekday::Sunday,
    }
}

/// The opening that holds `now`, else the next one. `None` when the window is malformed (the loader refuses that) and
/// so never opens.
#[must_use]
pub fn opening(window: &Window, now: Timestamp) -> Option<Opening> {
    let zone = TimeZone::get(&window.time_zone).ok()?;
    let (hour, minute) = window.from.split_once(':')?;
    let from = Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()?;
    let today = zone.to_datetime(now).date();
    // A window that holds `now` started at most its length ago; the next start is at most a week and a day ahead.
    let back = i64::try_from(window.length.as_millis() / 86_400_000).ok()?.min(31) + 1;
    for offset in -back..=8 {
        let Ok(day) = today.checked_add(offset.days()) else { continue };
        if !window.days.is_empty() && !window.days.iter().any(|d| weekday(*d) == day.weekday()) {
            continue;
        }
        // A local time that a daylight-saving change skips opens as much later as was skipped.
        let Ok(opens) = zone.to_ambiguous_timestamp(day.to_datetime(from)).compatible() else { continue };
        let closes = window.length.after(opens);
        if closes > now {
            return Some(Opening { opens, closes });
        }
    }
    None
}

/// What a movement is, as far as calendars care.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Movement {
    /// It takes nodes back.
    pub rollback: bool,
    /// The policy lets a rollback pass freezes.
    pub rollback_passes: bool,
    /// A release is marked as security.
    pub security: bool,
    /// Usual time of a unit: half, and nine of ten, are back by then.
    pub p50: Period,
    pub p90: Period,
}

/// Why a node of this pool may not start now, if it may not. `covering` tells which scopes are about it.
pub(crate) fn closed(
    fleet: &Fleet,
    pool: &PoolSpec,
    covering: &dyn Fn(&Scope) -> bool,
    movement: Movement,
    now: Timestamp,
) -> Option<Reason> {
    for (calendar, spec) in &fleet.calendars {
        let frozen = spec.freezes.iter().find(|f| covering(&f.scope) && holds(f, movement, now));
        if let Some(freeze) = frozen {
            return Some(Reason::Freeze {
                calendar: calendar.clone(),
                freeze: freeze.name.clone().unwrap_or_else(|| calendar.to_string()),
                until: freeze.to,
            });
        }
    }
    if let Some(at) = pool.lease_until
        && movement.p90.after(now) > at
    {
        return Some(Reason::LeaseEnds { at });
    }
    let windows = fleet
        .calendars
        .iter()
        .flat_map(|(name, spec)| spec.windows.iter().map(move |w| (name, &spec.spec, w)))
        .filter(|(_, _, w)| covering(&w.scope))
        .collect::<Vec<_>>();
    // A pool that no window covers may start at any time. A rollback doesn't wait for a window: what is broken now is
    // worse than what a window protects.
    if windows.is_empty() || movement.rollback {
        return None;
    }
    let all: Vec<&Window> = windows.iter().map(|(_, _, w)| *w).collect();
    let judged: Vec<_> = windows.iter().map(|w| judge(*w, &all, movement, now)).collect();
    if judged.iter().any(Option::is_none) {
        return None;
    }
    judged.into_iter().flatten().min_by_key(|r| r.until().unwrap_or(Timestamp::MAX))
}

fn holds(freeze: &Freeze, movement: Movement, now: Timestamp) -> bool {
    let inside = freeze.from <= now && now < freeze.to;
    let passes = (movement.rollback
        && (movement.rollback_passes || freeze.allow.contains(&FreezeAllow::Rollback)))
        || (movement.security && freeze.allow.contains(&FreezeAllow::Security));
    inside && !passes
}

/// Openings that are joined at most: the shortest window anybody writes is a quarter of an hour, and a unit is back within
/// a day.
const JOINED_MAX: usize = 96;

/// When it is really closed: openings that touch or overlap, of one window or of several, are one. Looks no further than
/// `needed`.
fn stretch(all: &[&Window], closes: Timestamp, needed: Timestamp) -> Timestamp {
    let mut closes = closes;
    for _ in 0..JOINED_MAX {
        let later = |w: &&Window| opening(w, closes).filter(|o| o.opens <= closes).map(|o| o.closes);
        match all.iter().filter_map(later).max() {
            Some(end) if closes < needed => closes = end,
            Some(_) | None => break,
        }
    }
    closes
}

fn judge(
    (calendar, spec, window): (&CalendarName, &CalendarSpec, &Window),
    all: &[&Window],
    movement: Movement,
    now: Timestamp,
) -> Option<Reason> {
    let label = window.name.clone().unwrap_or_else(|| format!("{} {}", window.from, window.time_zone));
    let calendar = calendar.clone();
    let Some(found) = opening(window, now) else {
        return Some(Reason::Window { calendar, window: label, opens: None });
    };
    if now < found.opens {
        return Some(Reason::Window { calendar, window: label, opens: Some(found.opens) });
    }
    let needs = match spec.must_fit {
        MustFit::No => Period::ZERO,
        MustFit::P50 => movement.p50,
        MustFit::P90 => movement.p90,
    };
    let closes = stretch(all, found.closes, needs.after(now));
    if needs.after(now) > closes {
        let next = opening(window, closes).map(|o| o.opens);
        return Some(Reason::WindowTooShort { calendar, window: label, closes, needs, opens: next });
    }
    None
}

/// Whether some window that covers the node is open, or none covers it. Freezes hold back what hasn't begun; they take
/// nothing back.
pub(crate) fn inside_window(fleet: &Fleet, covering: &dyn Fn(&Scope) -> bool, now: Timestamp) -> bool {
    let mut windows =
        fleet.calendars.values().flat_map(|spec| &spec.windows).filter(|w| covering(&w.scope)).peekable();
    windows.peek().is_none() || windows.any(|w| opening(w, now).is_some_and(|o| o.opens <= now))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use jiff::SignedDuration;

    fn window(days: &[Day], from: &str, length: &str, zone: &str) -> Window {
        Window {
            name: None,
            days: days.to_vec(),
            from: from.into(),
            length: length.parse().unwrap(),
            time_zone: zone.into(),
            scope: Default::default(),
        }
    }
    fn open(w: &Window, at: &str) -> bool {
        let now: Timestamp = at.parse().unwrap();
        opening(w, now).is_some_and(|o| o.opens <= now && now < o.closes)
    }

    /// Friday 22:00 for 6 hours is open on Saturday at 01:00 and closed on Friday at 01:00.
    #[test]
    fn the_start_decides_the_weekday() {
        let w = window(&[Day::Fri], "22:00", "6h", "UTC");
        assert!(open(&w, "2026-08-22T01:00:00Z"));
        assert!(!open(&w, "2026-08-21T01:00:00Z"));
        assert!(!open(&w, "2026-08-22T04:00:00Z"), "the end is outside");
        assert!(open(&w, "2026-08-21T22:00:00Z"), "the start is inside");
    }
    #[test]
    fn evening_to_morning_in_a_zone() {
        let days = [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri];
        let w = window(&days, "21:00", "8h", "America/Los_Angeles");
        assert!(open(&w, "2026-08-22T11:59:00Z"), "Saturday 04:59");
        assert!(!open(&w, "2026-08-23T04:30:00Z"), "Saturday 21:30");
    }
    /// New York leaves daylight-saving time on 2026-11-01 at 02:00: 6 hours from 22:00 end at 03:00 local.
    #[test]
    fn length_is_elapsed_time_over_a_clock_change() {
        let w = window(&[Day::Sat], "22:00", "6h", "America/New_York");
        let found = opening(&w, "2026-11-01T03:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(found.opens, "2026-11-01T02:00:00Z".parse().unwrap());
        assert_eq!(found.closes.duration_since(found.opens), SignedDuration::from_hours(6));
    }
    /// 02:30 doesn't exist in Berlin on 2026-03-29; the window opens at 03:30 summer time.
    #[test]
    fn a_skipped_start_opens_later() {
        let w = window(&[], "02:30", "1h", "Europe/Berlin");
        let found = opening(&w, "2026-03-29T00:30:00Z".parse().unwrap()).unwrap();
        assert_eq!(found.opens, "2026-03-29T01:30:00Z".parse().unwrap());
    }
    #[test]
    fn a_malformed_window_never_opens() {
        let now = "2026-03-29T00:30:00Z".parse().unwrap();
        for (from, zone) in [("25:00", "UTC"), ("x", "UTC"), ("22:00", "Mars/Olympus")] {
            assert_eq!(opening(&window(&[], from, "1h", zone), now), None);
        }
    }
}
